//! The embedded Python interpreter: a subset of Python, run by monty.
//!
//! The code is the first snippet of a REPL session. A second snippet reads the variable `result`. So the code needs no
//! added lines, which would change its line numbers. A session compiles each snippet, so compiled code cannot be
//! cached. Monty can also compile a program in advance, but does not expose the variables of such a program after its
//! run.

mod values;

use std::{borrow::Cow, time::Duration};

use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult, OsFunctionCall,
    PrintWriter, PrintWriterCallback, ResourceLimits, ResourceTracker,
};

use super::{
    meter::{HostCallError, Meter},
    values::input_variables,
};
use crate::{Host, Interpreter, Job, JobError, JobLimits, JobOutput, Limit};

/// Runs Python.
pub(super) struct PythonInterpreter;

impl Interpreter for PythonInterpreter {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<JobOutput, JobError> {
        let mut session = Session { meter: Meter::new(job), limits: job.limits, host };
        let repl =
            MontyRepl::new("code", ResourceTracker::new(resource_limits(&job.limits)), CompileOptions::default());
        let (repl, last) = session.execute(repl, &job.code, initial_variables(job))?;
        let result = session.result(repl, last)?;
        let value = values::to_json(result).map_err(|message| session.meter.exception(&message, None))?;
        session.meter.check_size(&value).map_err(|limit| JobError::Limit { limit })?;
        Ok(JobOutput { result: value, stdout: session.meter.stdout() })
    }
}

/// The session of one job.
struct Session<'h> {
    meter: Meter,
    limits: JobLimits,
    host: &'h mut dyn Host,
}

/// The progress of a session, or the exception that ended it.
type ProgressResult = Result<ReplProgress, Box<ReplStartError>>;

impl Session<'_> {
    /// Runs a snippet to its end and returns the value of its last expression.
    fn execute(
        &mut self,
        repl: MontyRepl,
        code: &str,
        variables: Vec<(String, MontyObject)>,
    ) -> Result<(MontyRepl, MontyObject), JobError> {
        let mut progress = repl.feed_start(code, variables, PrintWriter::Callback(&mut self.meter));
        loop {
            // The session's clock is stopped here, so the meter has to check the time limit.
            if self.meter.must_stop() {
                return Err(JobError::Limit { limit: self.meter.exceed(Limit::Time) });
            }
            progress = match progress.map_err(|error| self.job_error(&error))? {
                ReplProgress::Complete { repl, value } => return Ok((repl, value)),
                ReplProgress::FunctionCall(call) => self.call(call)?,
                ReplProgress::OsCall(call) => {
                    let error = os_call_error(&call.function_call);
                    call.resume(error, PrintWriter::Callback(&mut self.meter))
                }
                ReplProgress::NameLookup(lookup) => {
                    lookup.resume(NameLookupResult::Undefined, PrintWriter::Callback(&mut self.meter))
                }
                ReplProgress::ResolveFutures(futures) => {
                    let error = MontyException::runtime_error("the code awaits a future that can never complete");
                    futures.abort(error, PrintWriter::Callback(&mut self.meter))
                }
            };
        }
    }

    /// Returns the variable `result` if the code has one, else `last`.
    fn result(&mut self, repl: MontyRepl, last: MontyObject) -> Result<MontyObject, JobError> {
        match repl.feed_start("result", Vec::new(), PrintWriter::Callback(&mut self.meter)) {
            Ok(ReplProgress::Complete { value, .. }) => Ok(value),
            Ok(_) => Ok(last),
            Err(error) => Err(self.job_error(&error)),
        }
    }

    fn call(&mut self, call: ReplFunctionCall) -> Result<ProgressResult, JobError> {
        let answer = match values::arguments(&call.function_name, &call.args, &call.kwargs) {
            // Monty also reports calls to undefined names here.
            _ if !self.meter.is_granted(&call.function_name) => ExtFunctionResult::NotFound(call.function_name.clone()),
            Ok(arguments) => match self.meter.call(self.host, &call.function_name, arguments) {
                Ok(value) => ExtFunctionResult::Return(values::from_json(&value)),
                Err(HostCallError::Failed(message)) => MontyException::runtime_error(message).into(),
                Err(HostCallError::LimitExceeded(limit)) => return Err(JobError::Limit { limit }),
            },
            Err(message) => MontyException::new(ExcType::TypeError, Some(message)).into(),
        };
        Ok(call.resume(answer, PrintWriter::Callback(&mut self.meter)))
    }

    fn job_error(&self, failed: &ReplStartError) -> JobError {
        let ReplStartError { repl, error } = failed;
        let elapsed = repl.tracker().elapsed();
        if let Some(limit) = self.meter.exceeded().or_else(|| self.exceeded_limit(error, elapsed)) {
            return JobError::Limit { limit };
        }
        let line = error.traceback().last().map(|frame| frame.start.line);
        // The clock of a session runs only while code runs. If it is still zero, the code was only parsed.
        if elapsed.is_zero() {
            return JobError::Code { message: super::values::truncate_message(&error.summary()), line };
        }
        self.meter.exception(&error.summary(), line)
    }

    fn exceeded_limit(&self, error: &MontyException, elapsed: Duration) -> Option<Limit> {
        let starts_with = |text: &str| error.message().is_some_and(|message| message.starts_with(text));
        match error.exc_type() {
            ExcType::TimeoutError if elapsed > self.limits.time => Some(Limit::Time),
            ExcType::MemoryError if starts_with("memory limit exceeded") => Some(Limit::Memory),
            ExcType::RecursionError if starts_with("maximum recursion depth exceeded") => Some(Limit::Depth),
            _ => None,
        }
    }
}

impl PrintWriterCallback for Meter {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.print(output.as_bytes())
            .map_err(|_| MontyException::new(ExcType::MemoryError, Some("too much output".into())))
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.stdout_write(Cow::Borrowed(end.encode_utf8(&mut [0; 4])))
    }
}

/// Returns the limits for monty. Without a counting allocator, monty's memory limit stops only single large values. The
/// resource limits of the worker process stop all other excessive use of memory.
fn resource_limits(limits: &JobLimits) -> ResourceLimits {
    ResourceLimits::default()
        .max_duration(limits.time)
        .max_memory(usize::try_from(limits.memory).unwrap_or(usize::MAX))
        .max_recursion_depth(usize::try_from(limits.depth).unwrap_or(usize::MAX))
}

/// Returns the initial variables of the code. A host function takes precedence over an input field of the same name.
fn initial_variables(job: &Job) -> Vec<(String, MontyObject)> {
    let fields =
        input_variables(&job.inputs, |name| values::is_keyword(name) || job.functions.iter().any(|f| f == name));
    let fields = fields.map(|(name, value)| (name.clone(), values::from_json(value)));
    let inputs = ("inputs".to_owned(), values::from_json(&job.inputs));
    let functions = job.functions.iter().map(|name| {
        let function = MontyObject::Function { name: name.clone(), docstring: None };
        (name.clone(), function)
    });
    fields.chain([inputs]).chain(functions).collect()
}

/// Returns the exception for code that accesses a file, the environment or the clock.
fn os_call_error(call: &OsFunctionCall) -> MontyException {
    let message = match call {
        OsFunctionCall::DateToday | OsFunctionCall::DateTimeNow(_) => {
            "the sandbox has no clock; pass the time as an input"
        }
        OsFunctionCall::Getenv(_) | OsFunctionCall::GetEnviron => {
            "the sandbox has no environment variables; pass values as inputs"
        }
        _ => "the sandbox has no files; pass contents as inputs",
    };
    MontyException::new(ExcType::PermissionError, Some(message.to_owned()))
}
