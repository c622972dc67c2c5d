//! Python: a subset, run by monty.
//!
//! The code is one snippet of a session, and `result` is asked for by a second one: that sees every variable whatever the code
//! ends with, and leaves its lines alone. A session compiles what it is fed, so there is no compiled form to keep: what could be
//! kept has no variables to ask for afterwards.

mod values;

use std::{borrow::Cow, time::Duration};

use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult, OsFunctionCall,
    PrintWriter, PrintWriterCallback, ResourceLimits, ResourceTracker,
};

use super::{
    meter::{Meter, NoAnswer},
    values::variables,
};
use crate::{Done, Failure, Host, Interpreter, Job, Limit, Limits};

/// Runs Python.
pub(super) struct Python;

impl Interpreter for Python {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<Done, Failure> {
        let mut session = Session { meter: Meter::new(job), limits: job.limits, host };
        let repl = MontyRepl::new("code", ResourceTracker::new(limits(&job.limits)), CompileOptions::default());
        let (repl, last) = session.execute(repl, &job.code, given(job))?;
        let result = session.result(repl, last)?;
        let value = values::to_json(result).map_err(|why| session.meter.exception(&why, None))?;
        session.meter.fits(&value).map_err(|limit| Failure::Limit { limit })?;
        Ok(Done { result: value, stdout: session.meter.stdout() })
    }
}

/// One job under way.
struct Session<'h> {
    meter: Meter,
    limits: Limits,
    host: &'h mut dyn Host,
}

/// A step of a session, or why there is none.
type Step = Result<ReplProgress, Box<ReplStartError>>;

impl Session<'_> {
    /// Runs a snippet to its end, and gives the value of its last expression.
    fn execute(
        &mut self,
        repl: MontyRepl,
        code: &str,
        given: Vec<(String, MontyObject)>,
    ) -> Result<(MontyRepl, MontyObject), Failure> {
        let mut step = repl.feed_start(code, given, PrintWriter::Callback(&mut self.meter));
        loop {
            // What happens between steps is not on the session's own clock.
            if self.meter.over() {
                return Err(Failure::Limit { limit: self.meter.end(Limit::Time) });
            }
            step = match step.map_err(|error| self.failure(&error))? {
                ReplProgress::Complete { repl, value } => return Ok((repl, value)),
                ReplProgress::FunctionCall(call) => self.call(call)?,
                ReplProgress::OsCall(call) => {
                    let refusal = refusal(&call.function_call);
                    call.resume(refusal, PrintWriter::Callback(&mut self.meter))
                }
                ReplProgress::NameLookup(lookup) => {
                    lookup.resume(NameLookupResult::Undefined, PrintWriter::Callback(&mut self.meter))
                }
                ReplProgress::ResolveFutures(futures) => {
                    let nothing = MontyException::runtime_error("the code waits for what nothing will ever bring");
                    futures.abort(nothing, PrintWriter::Callback(&mut self.meter))
                }
            };
        }
    }

    /// The variable `result`, if the code has one.
    fn result(&mut self, repl: MontyRepl, last: MontyObject) -> Result<MontyObject, Failure> {
        match repl.feed_start("result", Vec::new(), PrintWriter::Callback(&mut self.meter)) {
            Ok(ReplProgress::Complete { value, .. }) => Ok(value),
            Ok(_) => Ok(last),
            Err(error) => Err(self.failure(&error)),
        }
    }

    fn call(&mut self, call: ReplFunctionCall) -> Result<Step, Failure> {
        let answer = match values::arguments(&call.function_name, &call.args, &call.kwargs) {
            // Any undefined name that is called arrives here.
            _ if !self.meter.grants(&call.function_name) => ExtFunctionResult::NotFound(call.function_name.clone()),
            Ok(arguments) => match self.meter.call(self.host, &call.function_name, arguments) {
                Ok(value) => ExtFunctionResult::Return(values::from_json(&value)),
                Err(NoAnswer::Error(why)) => MontyException::runtime_error(why).into(),
                Err(NoAnswer::Ends(limit)) => return Err(Failure::Limit { limit }),
            },
            Err(why) => MontyException::new(ExcType::TypeError, Some(why)).into(),
        };
        Ok(call.resume(answer, PrintWriter::Callback(&mut self.meter)))
    }

    fn failure(&self, failed: &ReplStartError) -> Failure {
        let ReplStartError { repl, error } = failed;
        let elapsed = repl.tracker().elapsed();
        if let Some(limit) = self.meter.beyond().or_else(|| self.limit(error, elapsed)) {
            return Failure::Limit { limit };
        }
        let line = error.traceback().last().map(|frame| frame.start.line);
        // The clock of a session runs while code does: as long as it shows nothing, the code was only read.
        if elapsed.is_zero() {
            return Failure::Code { message: super::values::shortened(&error.summary()), line };
        }
        self.meter.exception(&error.summary(), line)
    }

    fn limit(&self, error: &MontyException, elapsed: Duration) -> Option<Limit> {
        let says = |text: &str| error.message().is_some_and(|message| message.starts_with(text));
        match error.exc_type() {
            ExcType::TimeoutError if elapsed > self.limits.time => Some(Limit::Time),
            ExcType::MemoryError if says("memory limit exceeded") => Some(Limit::Memory),
            ExcType::RecursionError if says("maximum recursion depth exceeded") => Some(Limit::Depth),
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

/// Without an allocator that counts, the limit on memory stops single large values only. The rest is stopped from outside.
fn limits(limits: &Limits) -> ResourceLimits {
    ResourceLimits::default()
        .max_duration(limits.time)
        .max_memory(usize::try_from(limits.memory).unwrap_or(usize::MAX))
        .max_recursion_depth(usize::try_from(limits.depth).unwrap_or(usize::MAX))
}

/// The variables that code begins with. A granted function wins over a field of the same name.
fn given(job: &Job) -> Vec<(String, MontyObject)> {
    let fields = variables(&job.inputs, |name| values::is_keyword(name) || job.functions.iter().any(|f| f == name));
    let fields = fields.map(|(name, value)| (name.clone(), values::from_json(value)));
    let inputs = ("inputs".to_owned(), values::from_json(&job.inputs));
    let functions = job.functions.iter().map(|name| {
        let function = MontyObject::Function { name: name.clone(), docstring: None };
        (name.clone(), function)
    });
    fields.chain([inputs]).chain(functions).collect()
}

/// What code hears that asks for a file, the environment or the time.
fn refusal(call: &OsFunctionCall) -> MontyException {
    let what = match call {
        OsFunctionCall::DateToday | OsFunctionCall::DateTimeNow(_) => "there is no clock: pass the time as an input",
        OsFunctionCall::Getenv(_) | OsFunctionCall::GetEnviron => "there is no environment: pass values as inputs",
        _ => "there are no files: pass contents as inputs",
    };
    MontyException::new(ExcType::PermissionError, Some(what.to_owned()))
}
