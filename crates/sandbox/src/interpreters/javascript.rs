//! The embedded JavaScript interpreter, run by QuickJS.
//!
//! Each job has its own runtime, so changes to built-in objects do not affect the next job. The code is a script that
//! may `await`. A second script in the same context reads `result`, because `let` and `const` variables are not
//! properties of the global object. Compiled scripts are not cached: QuickJS trusts bytecode without validation, and
//! parsing a script again is cheap.

mod error;
mod values;

use std::{cell::RefCell, rc::Rc};

use rquickjs::{
    CatchResultExt, Context, Ctx, Function, Object, Runtime, Value,
    context::{EvalOptions, intrinsic},
    function::Rest,
    object::Property,
};

use super::{
    meter::{HOST, HostCallError, Meter},
    values::input_variables,
};
use crate::{Host, Interpreter, Job, JobError, JobLimits, JobOutput, Limit};
use error::{FILE, ScriptError};
use values::{JsonConverter, ToJsonError};

/// Runs JavaScript.
pub(super) struct JavaScriptInterpreter;

/// The built-in objects of the language. There are no workers, modules or host APIs. The prelude removes the clock.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// The approximate stack size of a call.
const STACK_PER_CALL: u32 = 2 << 10;

/// The maximum stack size, even if a job's limit is higher, because the worker's own stack is limited.
const MAX_STACK: u32 = 1 << 20;

/// The minimum stack size. With less, no function can be called.
const MIN_STACK: u32 = 128 << 10;

/// A script that returns the variable `result`, or undefined if the code has no such variable.
const READ_RESULT: &str = "typeof result === 'undefined' ? undefined : result";

impl Interpreter for JavaScriptInterpreter {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<JobOutput, JobError> {
        let meter = Rc::new(RefCell::new(Meter::new(job)));
        let runtime = runtime(&job.limits, &meter).map_err(|_| JobError::Limit { limit: Limit::Memory })?;
        let context = Context::custom::<Intrinsics>(&runtime).map_err(|_| JobError::Limit { limit: Limit::Memory })?;
        let outcome = HOST.set(host, || context.with(|ctx| Script::new(ctx, &meter, job)?.run(job)));
        // An exceeded limit takes precedence over the result, even if the code caught the exception.
        let exceeded = meter.borrow().exceeded();
        match (exceeded, outcome) {
            (Some(limit), _) => Err(JobError::Limit { limit }),
            (None, Err(error)) if is_out_of_memory(&error, &runtime, &job.limits) => {
                Err(JobError::Limit { limit: Limit::Memory })
            }
            (None, outcome) => outcome,
        }
    }
}

/// Returns whether an exception means that memory is exhausted. QuickJS throws null when it cannot even allocate an
/// error. Code may throw null too, so a thrown null counts only if more than half of the memory is in use.
fn is_out_of_memory(error: &JobError, runtime: &Runtime, limits: &JobLimits) -> bool {
    let used = u64::try_from(runtime.memory_usage().malloc_size).unwrap_or_default();
    matches!(error, JobError::Exception { message, .. } if message == "null") && used > limits.memory / 2
}

fn runtime(limits: &JobLimits, meter: &Rc<RefCell<Meter>>) -> rquickjs::Result<Runtime> {
    let runtime = Runtime::new()?;
    // QuickJS interprets a limit of zero as no limit.
    runtime.set_memory_limit(usize::try_from(limits.memory).unwrap_or(usize::MAX).max(1));
    let stack = limits.depth.saturating_mul(STACK_PER_CALL).clamp(MIN_STACK, MAX_STACK);
    runtime.set_max_stack_size(usize::try_from(stack).unwrap_or(usize::MAX));
    let meter = Rc::clone(meter);
    runtime
        .set_interrupt_handler(Some(Box::new(move || meter.try_borrow_mut().is_ok_and(|mut meter| meter.must_stop()))));
    Ok(runtime)
}

/// The script of one job.
struct Script<'js> {
    ctx: Ctx<'js>,
    meter: Rc<RefCell<Meter>>,
    converter: JsonConverter<'js>,
}

impl<'js> Script<'js> {
    fn new(ctx: Ctx<'js>, meter: &Rc<RefCell<Meter>>, job: &Job) -> Result<Self, JobError> {
        let converter =
            JsonConverter::new(&ctx, job.limits.output).map_err(|_| JobError::Limit { limit: Limit::Memory })?;
        Ok(Self { ctx, meter: Rc::clone(meter), converter })
    }

    fn run(&self, job: &Job) -> Result<JobOutput, JobError> {
        self.define_globals(job).catch(&self.ctx).map_err(|error| self.job_error(ScriptError::from(error)))?;
        let value = self.evaluate(&job.code)?;
        let result = self.converter.convert(value).map_err(|error| self.conversion_error(error))?;
        self.meter.borrow_mut().check_size(&result).map_err(|limit| JobError::Limit { limit })?;
        Ok(JobOutput { result, stdout: self.meter.borrow().stdout() })
    }

    /// Defines the global functions and variables of the code.
    fn define_globals(&self, job: &Job) -> rquickjs::Result<()> {
        let (ctx, globals) = (&self.ctx, self.ctx.globals());
        let prelude: Function = ctx.eval(include_str!("javascript/prelude.js"))?;
        let () = prelude.call((self.print_function()?,))?;
        for name in &job.functions {
            define(&globals, name, self.host_function(name)?.into_value())?;
        }
        let is_taken = |name: &str| globals.contains_key(name).unwrap_or(true);
        for (name, value) in input_variables(&job.inputs, is_taken) {
            define(&globals, name, values::from_json(ctx, value)?)?;
        }
        define(&globals, "inputs", values::from_json(ctx, &job.inputs)?)
    }

    fn print_function(&self) -> rquickjs::Result<Function<'js>> {
        let meter = Rc::clone(&self.meter);
        Function::new(self.ctx.clone(), move |ctx: Ctx<'js>, text: String| {
            meter.borrow_mut().print(text.as_bytes()).map_err(|_| throw(&ctx, "the code printed too much"))
        })
    }

    /// Returns a JavaScript function that calls a function of the host.
    fn host_function(&self, name: &str) -> rquickjs::Result<Function<'js>> {
        let (meter, function, limit) = (Rc::clone(&self.meter), name.to_owned(), self.converter.limit());
        let call = move |ctx: Ctx<'js>, arguments: Rest<Value<'js>>| -> rquickjs::Result<Value<'js>> {
            let arguments = match arguments.0.as_slice() {
                [] => Ok(serde_json::json!({})),
                // Creates a new converter for each call, because a JavaScript value that this closure owned would never
                // be freed.
                [one] => JsonConverter::new(&ctx, limit)?.convert(one.clone()),
                _ => Err(ToJsonError::Unsupported(format!(
                    "`{function}` takes one object, got {} arguments",
                    arguments.0.len()
                ))),
            };
            if matches!(arguments, Err(ToJsonError::TooLarge)) {
                meter.borrow_mut().exceed(Limit::Output);
            }
            let arguments = arguments.map_err(|error| error.throw(&ctx))?;
            let answer = HOST.with(|host| meter.borrow_mut().call(host, &function, arguments));
            match answer {
                Ok(value) => values::from_json(&ctx, &value),
                Err(HostCallError::Failed(message)) => Err(throw(&ctx, &message)),
                Err(HostCallError::LimitExceeded(limit)) => {
                    Err(throw(&ctx, &format!("the code exceeded its limit on {limit}")))
                }
            }
        };
        Function::new(self.ctx.clone(), call)?.with_name(name)
    }

    /// Runs the code and its pending promise callbacks, and returns its result.
    fn evaluate(&self, code: &str) -> Result<Value<'js>, JobError> {
        let mut options = script_options();
        options.promise = true;
        let completion: Value = self.catch(self.ctx.eval_with_options(code, options))?;
        // An async script resolves to an object that wraps its value, so that a value that is itself a promise is not
        // awaited implicitly.
        let completion: Object = self.resolve(completion)?.get().map_err(|_| self.unsettled_promise())?;
        let last: Value = self.catch(completion.get("value"))?;
        while self.run_pending_job()? {}
        let result: Value = self.catch(self.ctx.eval_with_options(READ_RESULT, script_options()))?;
        self.resolve(if result.is_undefined() { last } else { result })
    }

    /// Waits for a promise and returns its value. Returns any other value unchanged.
    fn resolve(&self, value: Value<'js>) -> Result<Value<'js>, JobError> {
        let Some(promise) = value.as_promise() else { return Ok(value) };
        loop {
            if let Some(outcome) = promise.result::<Value>() {
                return self.catch(outcome);
            }
            if !self.run_pending_job()? {
                return Err(self.unsettled_promise());
            }
        }
    }

    /// Runs one pending promise callback. Returns whether there was one.
    fn run_pending_job(&self) -> Result<bool, JobError> {
        if self.meter.borrow_mut().must_stop() {
            return Err(JobError::Limit { limit: Limit::Time });
        }
        Ok(self.ctx.execute_pending_job())
    }

    fn unsettled_promise(&self) -> JobError {
        self.meter.borrow().exception("the code awaits a promise that can never settle", None)
    }

    fn catch<T>(&self, outcome: rquickjs::Result<T>) -> Result<T, JobError> {
        outcome.catch(&self.ctx).map_err(|error| self.job_error(ScriptError::from(error)))
    }

    fn conversion_error(&self, error: ToJsonError) -> JobError {
        match error {
            ToJsonError::Unsupported(message) => self.meter.borrow().exception(&message, None),
            ToJsonError::TooLarge => JobError::Limit { limit: self.meter.borrow_mut().exceed(Limit::Output) },
            ToJsonError::Thrown(error) => {
                let caught = rquickjs::CaughtError::from_error(&self.ctx, error);
                self.job_error(ScriptError::from(caught))
            }
        }
    }

    fn job_error(&self, error: ScriptError) -> JobError {
        match error {
            ScriptError::Limit(limit) => JobError::Limit { limit: self.meter.borrow_mut().exceed(limit) },
            ScriptError::Syntax { message, line } => JobError::Code { message, line },
            ScriptError::Exception { message, line } => self.meter.borrow().exception(&message, line),
        }
    }
}

fn script_options() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(FILE.to_owned());
    options
}

fn throw(ctx: &Ctx<'_>, message: &str) -> rquickjs::Error {
    rquickjs::Exception::throw_message(ctx, message)
}

/// Defines a global variable. The code may declare a variable of the same name.
fn define<'js>(globals: &Object<'js>, name: &str, value: Value<'js>) -> rquickjs::Result<()> {
    globals.prop(name, Property::from(value).writable().configurable().enumerable())
}
