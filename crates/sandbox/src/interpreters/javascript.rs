//! JavaScript, run by QuickJS.
//!
//! Each job has a runtime of its own: nothing that it does to objects of the language is seen by the next. The code is a script
//! that may `await`; a second script in the same realm asks for `result`, because `let` and `const` are no properties of the global
//! object. Compiled scripts are not kept: QuickJS trusts what it is given as bytecode, and reading a script again is cheap.

mod failure;
mod values;

use std::{cell::RefCell, rc::Rc};

use rquickjs::{
    CatchResultExt, Context, Ctx, Function, Object, Runtime, Value,
    context::{EvalOptions, intrinsic},
    function::Rest,
    object::Property,
};

use super::{
    meter::{HOST, Meter, NoAnswer},
    values::variables,
};
use crate::{Done, Failure, Host, Interpreter, Job, Limit, Limits};
use failure::{FILE, Thrown};
use values::{NotJson, ToJson};

/// Runs JavaScript.
pub(super) struct JavaScript;

/// The language without a clock, workers, modules or anything of a host.
type Language = (
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

/// What a call takes of the stack, about.
const FRAME: u32 = 2 << 10;

/// No deeper, whatever a job asks for: a worker's own stack ends somewhere.
const STACK: u32 = 1 << 20;

/// What it takes to call anything at all.
const LEAST_STACK: u32 = 128 << 10;

/// The variable `result`, or nothing if there is none.
const RESULT: &str = "typeof result === 'undefined' ? undefined : result";

impl Interpreter for JavaScript {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<Done, Failure> {
        let meter = Rc::new(RefCell::new(Meter::new(job)));
        let runtime = runtime(&job.limits, &meter).map_err(|_| Failure::Limit { limit: Limit::Memory })?;
        let context = Context::custom::<Language>(&runtime).map_err(|_| Failure::Limit { limit: Limit::Memory })?;
        let outcome = HOST.set(host, || context.with(|ctx| Script::new(ctx, &meter, job)?.run(job)));
        // What ended the job counts, whatever the code made of it.
        let beyond = meter.borrow().beyond();
        match (beyond, outcome) {
            (Some(limit), _) => Err(Failure::Limit { limit }),
            (None, Err(failure)) if starved(&failure, &runtime, &job.limits) => {
                Err(Failure::Limit { limit: Limit::Memory })
            }
            (None, outcome) => outcome,
        }
    }
}

/// QuickJS throws null when there is not even memory for an error. So may code, but not with its memory full.
fn starved(failure: &Failure, runtime: &Runtime, limits: &Limits) -> bool {
    let used = u64::try_from(runtime.memory_usage().malloc_size).unwrap_or_default();
    matches!(failure, Failure::Exception { message, .. } if message == "null") && used > limits.memory / 2
}

fn runtime(limits: &Limits, meter: &Rc<RefCell<Meter>>) -> rquickjs::Result<Runtime> {
    let runtime = Runtime::new()?;
    // To QuickJS a limit of zero is none.
    runtime.set_memory_limit(usize::try_from(limits.memory).unwrap_or(usize::MAX).max(1));
    let stack = limits.depth.saturating_mul(FRAME).clamp(LEAST_STACK, STACK);
    runtime.set_max_stack_size(usize::try_from(stack).unwrap_or(usize::MAX));
    let meter = Rc::clone(meter);
    runtime.set_interrupt_handler(Some(Box::new(move || meter.try_borrow_mut().is_ok_and(|mut meter| meter.over()))));
    Ok(runtime)
}

/// One job under way.
struct Script<'js> {
    ctx: Ctx<'js>,
    meter: Rc<RefCell<Meter>>,
    json: ToJson<'js>,
}

impl<'js> Script<'js> {
    fn new(ctx: Ctx<'js>, meter: &Rc<RefCell<Meter>>, job: &Job) -> Result<Self, Failure> {
        let json = ToJson::new(&ctx, job.limits.output).map_err(|_| Failure::Limit { limit: Limit::Memory })?;
        Ok(Self { ctx, meter: Rc::clone(meter), json })
    }

    fn run(&self, job: &Job) -> Result<Done, Failure> {
        self.prepare(job).catch(&self.ctx).map_err(|error| self.failure(Thrown::from(error)))?;
        let value = self.evaluate(&job.code)?;
        let result = self.json.convert(value).map_err(|why| self.refused(why))?;
        self.meter.borrow_mut().fits(&result).map_err(|limit| Failure::Limit { limit })?;
        Ok(Done { result, stdout: self.meter.borrow().stdout() })
    }

    /// Puts everything in place that code may use.
    fn prepare(&self, job: &Job) -> rquickjs::Result<()> {
        let (ctx, globals) = (&self.ctx, self.ctx.globals());
        let prelude: Function = ctx.eval(include_str!("javascript/prelude.js"))?;
        let () = prelude.call((self.writer()?,))?;
        for name in &job.functions {
            define(&globals, name, self.granted(name)?.into_value())?;
        }
        let taken = |name: &str| globals.contains_key(name).unwrap_or(true);
        for (name, value) in variables(&job.inputs, taken) {
            define(&globals, name, values::from_json(ctx, value)?)?;
        }
        define(&globals, "inputs", values::from_json(ctx, &job.inputs)?)
    }

    fn writer(&self) -> rquickjs::Result<Function<'js>> {
        let meter = Rc::clone(&self.meter);
        Function::new(self.ctx.clone(), move |ctx: Ctx<'js>, text: String| {
            meter.borrow_mut().print(text.as_bytes()).map_err(|_| throw(&ctx, "too much output"))
        })
    }

    /// A function of the host, as the code sees it.
    fn granted(&self, name: &str) -> rquickjs::Result<Function<'js>> {
        let (meter, function, limit) = (Rc::clone(&self.meter), name.to_owned(), self.json.limit());
        let call = move |ctx: Ctx<'js>, arguments: Rest<Value<'js>>| -> rquickjs::Result<Value<'js>> {
            let arguments = match arguments.0.as_slice() {
                [] => Ok(serde_json::json!({})),
                // Made anew each time: a value that this closure held would never be free to go.
                [one] => ToJson::new(&ctx, limit)?.convert(one.clone()),
                _ => Err(NotJson::Why(format!("`{function}` takes one object"))),
            };
            if matches!(arguments, Err(NotJson::Large)) {
                meter.borrow_mut().end(Limit::Output);
            }
            let arguments = arguments.map_err(|why| why.throw(&ctx))?;
            let answer = HOST.with(|host| meter.borrow_mut().call(host, &function, arguments));
            match answer {
                Ok(value) => values::from_json(&ctx, &value),
                Err(NoAnswer::Error(why)) => Err(throw(&ctx, &why)),
                Err(NoAnswer::Ends(limit)) => Err(throw(&ctx, &format!("beyond the limit on {limit}"))),
            }
        };
        Function::new(self.ctx.clone(), call)?.with_name(name)
    }

    /// Runs the code until nothing of it is left to do, and finds its result.
    fn evaluate(&self, code: &str) -> Result<Value<'js>, Failure> {
        let mut options = script();
        options.promise = true;
        let ended: Value = self.caught(self.ctx.eval_with_options(code, options))?;
        // A script that may wait ends with an object around its value, so that a promise stays one.
        let ended: Object = self.settled(ended)?.get().map_err(|_| self.unsettled())?;
        let last: Value = self.caught(ended.get("value"))?;
        while self.goes_on()? {}
        let result: Value = self.caught(self.ctx.eval_with_options(RESULT, script()))?;
        self.settled(if result.is_undefined() { last } else { result })
    }

    /// What a promise comes to; any other value as it is.
    fn settled(&self, value: Value<'js>) -> Result<Value<'js>, Failure> {
        let Some(promise) = value.as_promise() else { return Ok(value) };
        loop {
            if let Some(outcome) = promise.result::<Value>() {
                return self.caught(outcome);
            }
            if !self.goes_on()? {
                return Err(self.unsettled());
            }
        }
    }

    /// Does one thing that the code left for later. Whether there was one.
    fn goes_on(&self) -> Result<bool, Failure> {
        if self.meter.borrow_mut().over() {
            return Err(Failure::Limit { limit: Limit::Time });
        }
        Ok(self.ctx.execute_pending_job())
    }

    fn unsettled(&self) -> Failure {
        self.meter.borrow().exception("the code waits for a promise that nothing will ever settle", None)
    }

    fn caught<T>(&self, outcome: rquickjs::Result<T>) -> Result<T, Failure> {
        outcome.catch(&self.ctx).map_err(|error| self.failure(Thrown::from(error)))
    }

    fn refused(&self, why: NotJson) -> Failure {
        match why {
            NotJson::Why(why) => self.meter.borrow().exception(&why, None),
            NotJson::Large => Failure::Limit { limit: self.meter.borrow_mut().end(Limit::Output) },
            NotJson::Thrown(error) => {
                let caught = rquickjs::CaughtError::from_error(&self.ctx, error);
                self.failure(Thrown::from(caught))
            }
        }
    }

    fn failure(&self, thrown: Thrown) -> Failure {
        match thrown {
            Thrown::Limit(limit) => Failure::Limit { limit: self.meter.borrow_mut().end(limit) },
            Thrown::Unreadable { message, line } => Failure::Code { message, line },
            Thrown::Exception { message, line } => self.meter.borrow().exception(&message, line),
        }
    }
}

fn script() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(FILE.to_owned());
    options
}

fn throw(ctx: &Ctx<'_>, why: &str) -> rquickjs::Error {
    rquickjs::Exception::throw_message(ctx, why)
}

/// Makes a variable of the code, which may declare one of the same name itself.
fn define<'js>(globals: &Object<'js>, name: &str, value: Value<'js>) -> rquickjs::Result<()> {
    globals.prop(name, Property::from(value).writable().configurable().enumerable())
}
