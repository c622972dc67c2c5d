//! WASM modules, compiled by Wasmtime: commands of WASI preview 1.
//!
//! The inputs are JSON on standard input, the result is JSON on standard output; standard error is what a module prints. Time is
//! counted as fuel, because epochs need a thread that a worker may not have: fuel is the same on every machine, and generous, so that
//! a module that honestly computes is stopped by the clock of whoever watches the worker. The dozen functions of WASI that
//! compiled commands need are in `wasi.rs`: the crate for all of WASI brings files, sockets and an asynchronous runtime.

mod call;
mod memory;
mod recent;
mod wasi;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use wasmtime::{Config, Engine, Linker, Module, ResourceLimiter, Store, Trap};

use super::{
    meter::{HOST, Meter},
    values,
};
use crate::{Done, Failure, Host, Interpreter, Job, Limit};
use recent::Recent;

/// Instructions for each microsecond that a job may take. The simplest loop does half as many; better code does more at once.
const FUEL: u64 = 4_000;

/// The longest module.
const MODULE: usize = 4 << 20;

/// How many compiled modules a worker keeps.
const KEPT: usize = 8;

/// What the calls of a module may take of the stack.
const STACK: usize = 512 << 10;

/// The most elements of tables.
const TABLE: usize = 100_000;

/// How much of standard error is told with an exit code.
const TAIL: usize = 2 << 10;

/// Runs WASM.
pub(super) struct Wasm {
    engine: Result<Engine, String>,
    modules: Recent<Module>,
}

impl Default for Wasm {
    fn default() -> Self {
        Self { engine: Engine::new(&config()).map_err(|error| format!("{error:#}")), modules: Recent::new(KEPT) }
    }
}

impl Interpreter for Wasm {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<Done, Failure> {
        let module = self.module(&job.code)?;
        let engine = module.engine();
        let mut store = Store::new(engine, State::new(job));
        store.limiter(|state| state);
        let fuel = u64::try_from(job.limits.time.as_micros()).unwrap_or(u64::MAX).saturating_mul(FUEL);
        let outcome = HOST.set(host, || {
            store.set_fuel(fuel)?;
            let mut linker = Linker::new(engine);
            wasi::link(&mut linker, &module)?;
            call::link(&mut linker)?;
            let instance = linker.instantiate(&mut store, &module)?;
            instance.get_typed_func::<(), ()>(&mut store, "_start")?.call(&mut store, ())
        });
        store.into_data().done(outcome)
    }
}

impl Wasm {
    fn module(&mut self, code: &str) -> Result<Module, Failure> {
        if let Some(module) = self.modules.get(code) {
            return Ok(module.clone());
        }
        let engine = self.engine.as_ref().map_err(|reason| Failure::Unavailable { reason: reason.clone() })?;
        let module = Module::new(engine, binary(code)?).map_err(|error| unreadable(&format!("{error:#}"), None))?;
        check(&module)?;
        self.modules.keep(code, module.clone());
        Ok(module)
    }
}

/// Small reservations: what a worker may address is limited. Bounds are checked in the code instead.
fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).max_wasm_stack(STACK);
    config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(1 << 20).memory_init_cow(false);
    // The same job gives the same result, on any processor.
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    config
}

/// A module in its binary form, from text or base64.
fn binary(code: &str) -> Result<Vec<u8>, Failure> {
    let code = code.trim();
    if code.len() > MODULE * 4 / 3 {
        return Err(unreadable(&format!("a module has at most {MODULE} bytes"), None));
    }
    if code.starts_with(['(', ';']) {
        return wat::parse_str(code).map_err(|error| {
            let text = error.to_string();
            let line = text.split("<anon>:").nth(1).and_then(|place| place.split(':').next()?.parse().ok());
            unreadable(text.lines().next().unwrap_or_default(), line)
        });
    }
    let packed: String = code.split_ascii_whitespace().collect();
    let not_code =
        |_| unreadable("the code is neither a module as text, which begins with `(`, nor base64 of one", None);
    STANDARD.decode(packed).map_err(not_code)
}

fn check(module: &Module) -> Result<(), Failure> {
    if module.get_export("_start").is_none_or(|start| start.func().is_none()) {
        return Err(unreadable("the module has no function `_start`: build it as a command of WASI preview 1", None));
    }
    let foreign = module.imports().find(|import| !wasi::offers(import) && !call::offers(import));
    match foreign {
        Some(import) => {
            let message = format!("the import `{}.{}` does not exist here", import.module(), import.name());
            Err(unreadable(&message, None))
        }
        None => Ok(()),
    }
}

fn unreadable(message: &str, line: Option<u32>) -> Failure {
    Failure::Code { message: values::shortened(message), line }
}

/// What a module has and has done.
struct State {
    meter: Meter,
    memory: usize,
    /// Whether it asked for more memory than it may have.
    refused: bool,
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    limit: u64,
    random: u64,
    answer: Vec<u8>,
}

/// Why a module stopped before its end.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("exit with code {0}")]
    Exit(i32),
    #[error("the code went beyond its limit on {0}")]
    Beyond(Limit),
    #[error("a pointer that was passed to `{0}` is beyond the memory")]
    Pointer(&'static str),
}

impl State {
    fn new(job: &Job) -> Self {
        Self {
            meter: Meter::new(job),
            memory: usize::try_from(job.limits.memory).unwrap_or(usize::MAX),
            refused: false,
            input: job.inputs.to_string().into_bytes(),
            read: 0,
            output: Vec::new(),
            limit: job.limits.output,
            random: 0,
            answer: Vec::new(),
        }
    }

    /// Every call of a module passes here first: this is where the clock is read.
    fn tick(&mut self) -> Result<(), Stop> {
        if self.meter.over() { Err(Stop::Beyond(self.meter.end(Limit::Time))) } else { Ok(()) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if values::exceeds(self.output.len().saturating_add(bytes.len()), self.limit) {
            return Err(Stop::Beyond(self.meter.end(Limit::Output)));
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn done(mut self, outcome: wasmtime::Result<()>) -> Result<Done, Failure> {
        let Err(error) = outcome else { return self.result() };
        match (error.downcast_ref::<Stop>(), error.downcast_ref::<Trap>()) {
            (Some(Stop::Exit(0)), _) => self.result(),
            (Some(Stop::Exit(code)), _) => Err(self.exited(*code)),
            (Some(Stop::Beyond(limit)), _) => Err(Failure::Limit { limit: *limit }),
            (Some(stop @ Stop::Pointer(_)), _) => Err(self.meter.exception(&stop.to_string(), None)),
            (None, Some(Trap::OutOfFuel)) => Err(Failure::Limit { limit: Limit::Time }),
            (None, Some(Trap::StackOverflow)) => Err(Failure::Limit { limit: Limit::Depth }),
            _ if self.refused => Err(Failure::Limit { limit: Limit::Memory }),
            (None, Some(trap)) => Err(self.meter.exception(&trap.to_string(), None)),
            (None, None) => Err(self.meter.exception(&format!("{error:#}"), None)),
        }
    }

    fn exited(&self, code: i32) -> Failure {
        let printed = self.meter.stdout();
        let end = printed.get(printed.ceil_char_boundary(printed.len().saturating_sub(TAIL))..).unwrap_or_default();
        let message = format!("the module ended with exit code {code}: {}", end.trim());
        self.meter.exception(message.trim_end_matches([' ', ':']), None)
    }

    /// What is on standard output, which must be JSON or nothing.
    fn result(&mut self) -> Result<Done, Failure> {
        let text = self.output.trim_ascii();
        let read = if text.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(text) };
        let result = read.map_err(|error| {
            self.meter.exception(&format!("what the module wrote to standard output is not JSON: {error}"), None)
        })?;
        if !values::shallow(&result, values::DEPTH) {
            return Err(self.meter.exception(&values::too_deep(), None));
        }
        Ok(Done { result, stdout: self.meter.stdout() })
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.refused |= desired > self.memory;
        Ok(desired <= self.memory)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.refused |= desired > TABLE;
        Ok(desired <= TABLE)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }

    fn memories(&self) -> usize {
        1
    }
}
