//! The main function of a worker process.

use std::io::{self, StdinLock, StdoutLock, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::confine::{MemoryBaseline, confine, set_cpu_limit, set_memory_limit};
use crate::frame::{self, FrameError, FromWorker, ToWorker};
use crate::{Host, Interpreter, Isolation, JobError, JobOutput, Language, PythonInstallation, WorkerConfig};

/// The program that a CPython process runs. It implements the frame protocol of this crate in Python.
const CPYTHON_WORKER: &str = include_str!("cpython_worker.py");

/// The largest frame that a worker accepts. The worker learns the limits of a job only from the frame itself, so the
/// server enforces them before it sends the frame.
const MAX_FRAME_FROM_SERVER: u64 = u32::MAX as u64;

/// Runs jobs until the server closes the pipe. `config` is a [`WorkerConfig`] as JSON.
///
/// Must be called before the process has a second thread, because the kernel creates user namespaces only for processes
/// with a single thread.
pub fn worker_main(config: &str, interpreters: impl FnOnce(Language) -> Option<Box<dyn Interpreter>>) -> ExitCode {
    let config: WorkerConfig = match serde_json::from_str(config) {
        Ok(config) => config,
        Err(error) => return exit_with_error(&format!("invalid worker configuration: {error}")),
    };
    let mut server = ServerConnection { input: io::stdin().lock(), output: io::stdout().lock() };
    let baseline = match MemoryBaseline::measure() {
        Ok(baseline) => baseline,
        Err(error) => return server.refuse(format!("the worker could not measure its memory use: {error}")),
    };
    let isolation = match confine(&config, baseline) {
        Ok(isolation) => isolation,
        Err(error) => return server.refuse(format!("the worker could not be confined: {error}")),
    };
    if let Some(requirement) = isolation.unmet_requirement(config.language) {
        return server.refuse(requirement.to_owned());
    }
    if let (Language::CPython, Some(python)) = (config.language, &config.python) {
        let error = exec_python(python, &isolation);
        return server
            .refuse(format!("`{}` could not be started in the sandbox: {error}", python.executable().display()));
    }
    match interpreters(config.language) {
        Some(interpreter) => server.serve(interpreter, isolation, baseline),
        None => server.refuse(format!(
            "this server was built without support for {:?}; build it with default features",
            config.language
        )),
    }
}

/// Replaces this process with CPython. Returns only if that fails.
fn exec_python(python: &PythonInstallation, isolation: &Isolation) -> io::Error {
    let ready = match serde_json::to_string(&FromWorker::Ready(*isolation)) {
        Ok(ready) => ready,
        Err(error) => return error.into(),
    };
    // The flags select isolated mode, no site packages, no bytecode files, and UTF-8 in every locale.
    let flags = ["-I", "-S", "-B", "-X", "utf8", "-c", CPYTHON_WORKER];
    // Limits the C library to one heap. By default it reserves a heap for each thread, which is more address space than
    // a small job may use.
    Command::new(python.executable()).args(flags).arg(ready).env_clear().env("MALLOC_ARENA_MAX", "1").exec()
}

fn exit_with_error(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}

/// The pipes to the server.
struct ServerConnection<'a> {
    input: StdinLock<'a>,
    output: StdoutLock<'a>,
}

impl ServerConnection<'_> {
    fn refuse(&mut self, reason: String) -> ExitCode {
        match self.send(&FromWorker::Finished(Err(JobError::Unavailable { reason }))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit_with_error(&error.to_string()),
        }
    }

    fn serve(
        &mut self,
        mut interpreter: Box<dyn Interpreter>,
        isolation: Isolation,
        baseline: MemoryBaseline,
    ) -> ExitCode {
        let mut run_jobs = || -> Result<(), FrameError> {
            self.send(&FromWorker::Ready(isolation))?;
            // Any message other than a job ends the worker. A closed pipe ends it too.
            while let ToWorker::Run(job) = frame::read_blocking(&mut self.input, MAX_FRAME_FROM_SERVER)? {
                set_memory_limit(baseline, job.limits.memory)?;
                set_cpu_limit(job.limits.time)?;
                let outcome = interpreter.run(&job, self).and_then(check_nesting);
                self.send(&FromWorker::Finished(outcome))?;
            }
            Ok(())
        };
        match run_jobs() {
            Ok(()) | Err(FrameError::Closed) => ExitCode::SUCCESS,
            Err(error) => exit_with_error(&error.to_string()),
        }
    }

    fn send(&mut self, message: &FromWorker) -> Result<(), FrameError> {
        frame::write_blocking(&mut self.output, message)
    }
}

impl Host for ServerConnection<'_> {
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String> {
        if !frame::is_within_max_nesting(&arguments) {
            return Err(format!(
                "the arguments of `{function}` are nested more than {} levels deep",
                frame::MAX_NESTING
            ));
        }
        let sent = self.send(&FromWorker::Call { function: function.to_owned(), arguments });
        match sent.and_then(|()| frame::read_blocking(&mut self.input, MAX_FRAME_FROM_SERVER)) {
            Ok(ToWorker::Answer(answer)) => answer,
            Ok(ToWorker::Run(_)) => Err("the server sent a job instead of an answer".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn check_nesting(output: JobOutput) -> Result<JobOutput, JobError> {
    if frame::is_within_max_nesting(&output.result) {
        return Ok(output);
    }
    let message = format!("the result is nested more than {} levels deep", frame::MAX_NESTING);
    Err(JobError::Exception { message, line: None, stdout: output.stdout })
}
