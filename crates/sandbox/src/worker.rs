//! The inside of a worker process.

use std::io::{self, StdinLock, StdoutLock, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use serde_json::Value;

use crate::confine::{Baseline, allow_memory, confine};
use crate::frame::{self, FrameError, FromWorker, ToWorker};
use crate::{Assignment, Done, Failure, Host, Interpreter, Isolation, Language, Python};

/// Speaks the same frames, as the only program that a full Python runs.
const DRIVER: &str = include_str!("driver.py");

/// The server bounds what it sends by the limits of the job, which are in the frame.
const FROM_SERVER: u64 = u32::MAX as u64;

/// Runs jobs until the server closes the pipe. `assignment` is an [`Assignment`] as JSON.
///
/// It has to be called before the process has a second thread: the kernel gives a user namespace to single threads only.
pub fn worker_main(assignment: &str, interpreters: impl FnOnce(Language) -> Option<Box<dyn Interpreter>>) -> ExitCode {
    let assignment: Assignment = match serde_json::from_str(assignment) {
        Ok(assignment) => assignment,
        Err(error) => return complain(&format!("not an assignment of a worker: {error}")),
    };
    let mut wire = Wire { input: io::stdin().lock(), output: io::stdout().lock() };
    let baseline = match Baseline::measure() {
        Ok(baseline) => baseline,
        Err(error) => return wire.refuse(format!("a worker cannot tell how much memory it uses: {error}")),
    };
    let isolation = match confine(&assignment, baseline) {
        Ok(isolation) => isolation,
        Err(error) => return wire.refuse(format!("a worker could not be confined: {error}")),
    };
    if let Some(shortcoming) = isolation.shortcoming(assignment.language) {
        return wire.refuse(shortcoming.to_owned());
    }
    if let (Language::CPython, Some(python)) = (assignment.language, &assignment.python) {
        let error = become_python(python, &isolation);
        return wire.refuse(format!("{} cannot be started in a sandbox: {error}", python.executable().display()));
    }
    match interpreters(assignment.language) {
        Some(interpreter) => wire.serve(interpreter, isolation, baseline),
        None => wire.refuse(format!("this server was built without {:?}", assignment.language)),
    }
}

/// Returns only if that fails.
fn become_python(python: &Python, isolation: &Isolation) -> io::Error {
    let ready = match serde_json::to_string(&FromWorker::Ready(*isolation)) {
        Ok(ready) => ready,
        Err(error) => return error.into(),
    };
    // Isolated, without packages, without bytecode files, without the user's locale.
    let flags = ["-I", "-S", "-B", "-X", "utf8", "-c", DRIVER];
    // One heap: for each thread the C library would reserve more address space than a small job is given.
    Command::new(python.executable()).args(flags).arg(ready).env_clear().env("MALLOC_ARENA_MAX", "1").exec()
}

fn complain(problem: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{problem}");
    ExitCode::from(2)
}

struct Wire<'a> {
    input: StdinLock<'a>,
    output: StdoutLock<'a>,
}

impl Wire<'_> {
    fn refuse(&mut self, reason: String) -> ExitCode {
        match self.send(&FromWorker::Finished(Err(Failure::Unavailable { reason }))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error.to_string()),
        }
    }

    fn serve(&mut self, mut interpreter: Box<dyn Interpreter>, isolation: Isolation, baseline: Baseline) -> ExitCode {
        let mut served = || -> Result<(), FrameError> {
            self.send(&FromWorker::Ready(isolation))?;
            // An answer that nobody waits for is no job, and ends the worker like a closed pipe.
            while let ToWorker::Run(job) = frame::read_blocking(&mut self.input, FROM_SERVER)? {
                allow_memory(baseline, job.limits.memory).map_err(io::Error::from)?;
                let outcome = interpreter.run(&job, self).and_then(shallow);
                self.send(&FromWorker::Finished(outcome))?;
            }
            Ok(())
        };
        match served() {
            Ok(()) | Err(FrameError::Closed) => ExitCode::SUCCESS,
            Err(error) => complain(&error.to_string()),
        }
    }

    fn send(&mut self, message: &FromWorker) -> Result<(), FrameError> {
        frame::write_blocking(&mut self.output, message)
    }
}

impl Host for Wire<'_> {
    fn call(&mut self, function: &str, arguments: Value) -> Result<Value, String> {
        if !frame::is_shallow(&arguments) {
            return Err(format!("the arguments of `{function}` are nested more than {} deep", frame::MAX_NESTING));
        }
        let sent = self.send(&FromWorker::Call { function: function.to_owned(), arguments });
        match sent.and_then(|()| frame::read_blocking(&mut self.input, FROM_SERVER)) {
            Ok(ToWorker::Answer(answer)) => answer,
            Ok(ToWorker::Run(_)) => Err("the server does not answer".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn shallow(done: Done) -> Result<Done, Failure> {
    if frame::is_shallow(&done.result) {
        return Ok(done);
    }
    let message = format!("the result is nested more than {} deep", frame::MAX_NESTING);
    Err(Failure::Exception { message, line: None, stdout: done.stdout })
}
