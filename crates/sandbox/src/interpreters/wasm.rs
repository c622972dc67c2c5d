//! The embedded WASM runtime, Wasmtime. A module is a command of WASI preview 1.
//!
//! The module reads its inputs as JSON from standard input and writes its result as JSON to standard output. Text on
//! standard error becomes the printed text of the job.
//!
//! Fuel (a count of executed instructions) limits the run time. The alternative, epoch interruption, needs a second
//! thread, which a worker may not have. The amount of fuel is the same on every machine. It is so large that usually
//! the server's clock stops a module first. `wasi.rs` implements the dozen WASI functions that compiled commands need.
//! The crate that implements all of WASI would add files, sockets and an async runtime.

mod cache;
mod call;
mod memory;
mod wasi;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use wasmtime::{Config, Engine, Linker, Module, ResourceLimiter, Store, Trap};

use super::{
    meter::{HOST, Meter},
    values,
};
use crate::{Host, Interpreter, Job, JobError, JobOutput, Limit};
use cache::LruCache;

/// The number of instructions that a module may execute per microsecond of its time limit. This is twice the speed of
/// the simplest loop. Optimized code executes more instructions per microsecond than such a loop.
const FUEL_PER_MICROSECOND: u64 = 4_000;

/// The maximum size of a module, in bytes.
const MAX_MODULE_BYTES: usize = 4 << 20;

/// The number of compiled modules that a worker caches.
const CACHED_MODULES: usize = 8;

/// The maximum stack size of a module.
const MAX_STACK: usize = 512 << 10;

/// The maximum number of elements of a table.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// The error message for a nonzero exit code includes this many bytes from the end of standard error.
const STDERR_TAIL: usize = 2 << 10;

/// Runs WASM.
pub(super) struct WasmInterpreter {
    engine: Result<Engine, String>,
    modules: LruCache<Module>,
}

impl Default for WasmInterpreter {
    fn default() -> Self {
        Self {
            engine: Engine::new(&config()).map_err(|error| format!("{error:#}")),
            modules: LruCache::new(CACHED_MODULES),
        }
    }
}

impl Interpreter for WasmInterpreter {
    fn run(&mut self, job: &Job, host: &mut dyn Host) -> Result<JobOutput, JobError> {
        let module = self.module(&job.code)?;
        let engine = module.engine();
        let mut store = Store::new(engine, State::new(job));
        store.limiter(|state| state);
        let fuel = u64::try_from(job.limits.time.as_micros()).unwrap_or(u64::MAX).saturating_mul(FUEL_PER_MICROSECOND);
        let outcome = HOST.set(host, || {
            store.set_fuel(fuel)?;
            let mut linker = Linker::new(engine);
            wasi::add_to_linker(&mut linker, &module)?;
            call::add_to_linker(&mut linker)?;
            let instance = linker.instantiate(&mut store, &module)?;
            instance.get_typed_func::<(), ()>(&mut store, "_start")?.call(&mut store, ())
        });
        store.into_data().finish(outcome)
    }
}

impl WasmInterpreter {
    fn module(&mut self, code: &str) -> Result<Module, JobError> {
        if let Some(module) = self.modules.get(code) {
            return Ok(module.clone());
        }
        let engine = self.engine.as_ref().map_err(|reason| JobError::Unavailable { reason: reason.clone() })?;
        let module = Module::new(engine, decode(code)?).map_err(|error| code_error(&format!("{error:#}"), None))?;
        check(&module)?;
        self.modules.insert(code, module.clone());
        Ok(module)
    }
}

/// Returns the configuration of Wasmtime. Memory reservations are small, because the memory of a worker is limited.
/// Therefore the compiled code checks bounds explicitly.
fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).max_wasm_stack(MAX_STACK);
    config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(1 << 20).memory_init_cow(false);
    // The same job must return the same result on any processor.
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    config
}

/// Decodes a module from WebAssembly text or base64.
fn decode(code: &str) -> Result<Vec<u8>, JobError> {
    let code = code.trim();
    if code.len() > MAX_MODULE_BYTES * 4 / 3 {
        return Err(code_error(&format!("a module must have at most {MAX_MODULE_BYTES} bytes"), None));
    }
    if code.starts_with(['(', ';']) {
        return wat::parse_str(code).map_err(|error| {
            let text = error.to_string();
            let line = text.split("<anon>:").nth(1).and_then(|position| position.split(':').next()?.parse().ok());
            code_error(text.lines().next().unwrap_or_default(), line)
        });
    }
    let base64: String = code.split_ascii_whitespace().collect();
    let invalid = |_| {
        code_error("a module must be WebAssembly text, which begins with `(`, or base64 of the binary format", None)
    };
    STANDARD.decode(base64).map_err(invalid)
}

fn check(module: &Module) -> Result<(), JobError> {
    if module.get_export("_start").is_none_or(|start| start.func().is_none()) {
        return Err(code_error(
            "the module must export a function `_start`; build it as a command of WASI preview 1",
            None,
        ));
    }
    let unknown = module.imports().find(|import| !wasi::provides(import) && !call::provides(import));
    match unknown {
        Some(import) => {
            let message = format!("the import `{}.{}` is not available", import.module(), import.name());
            Err(code_error(&message, None))
        }
        None => Ok(()),
    }
}

fn code_error(message: &str, line: Option<u32>) -> JobError {
    JobError::Code { message: values::truncate_message(message), line }
}

/// The state of one module run.
struct State {
    meter: Meter,
    max_memory: usize,
    /// Whether the module tried to grow a memory or table over its limit.
    growth_denied: bool,
    stdin: Vec<u8>,
    stdin_position: usize,
    stdout: Vec<u8>,
    max_stdout: u64,
    random: u64,
    answer: Vec<u8>,
}

/// The reason why a host function stops the module.
#[derive(Debug, thiserror::Error)]
enum StopReason {
    #[error("exit with code {0}")]
    Exit(i32),
    #[error("the code exceeded its limit on {0}")]
    LimitExceeded(Limit),
    #[error("the pointer passed to `{0}` is out of bounds")]
    OutOfBounds(&'static str),
}

impl State {
    fn new(job: &Job) -> Self {
        Self {
            meter: Meter::new(job),
            max_memory: usize::try_from(job.limits.memory).unwrap_or(usize::MAX),
            growth_denied: false,
            stdin: job.inputs.to_string().into_bytes(),
            stdin_position: 0,
            stdout: Vec::new(),
            max_stdout: job.limits.output,
            random: 0,
            answer: Vec::new(),
        }
    }

    /// Checks the limits of the job. Each host function that may take time first calls this function.
    fn check_limits(&mut self) -> Result<(), StopReason> {
        if self.meter.must_stop() { Err(StopReason::LimitExceeded(self.meter.exceed(Limit::Time))) } else { Ok(()) }
    }

    fn write_stdout(&mut self, bytes: &[u8]) -> Result<(), StopReason> {
        if values::exceeds(self.stdout.len().saturating_add(bytes.len()), self.max_stdout) {
            return Err(StopReason::LimitExceeded(self.meter.exceed(Limit::Output)));
        }
        self.stdout.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(mut self, outcome: wasmtime::Result<()>) -> Result<JobOutput, JobError> {
        let Err(error) = outcome else { return self.result() };
        match (error.downcast_ref::<StopReason>(), error.downcast_ref::<Trap>()) {
            (Some(StopReason::Exit(0)), _) => self.result(),
            (Some(StopReason::Exit(code)), _) => Err(self.exit_error(*code)),
            (Some(StopReason::LimitExceeded(limit)), _) => Err(JobError::Limit { limit: *limit }),
            (Some(reason @ StopReason::OutOfBounds(_)), _) => Err(self.meter.exception(&reason.to_string(), None)),
            (None, Some(Trap::OutOfFuel)) => Err(JobError::Limit { limit: Limit::Time }),
            (None, Some(Trap::StackOverflow)) => Err(JobError::Limit { limit: Limit::Depth }),
            _ if self.growth_denied => Err(JobError::Limit { limit: Limit::Memory }),
            (None, Some(trap)) => Err(self.meter.exception(&trap.to_string(), None)),
            (None, None) => Err(self.meter.exception(&format!("{error:#}"), None)),
        }
    }

    fn exit_error(&self, code: i32) -> JobError {
        let printed = self.meter.stdout();
        let tail =
            printed.get(printed.ceil_char_boundary(printed.len().saturating_sub(STDERR_TAIL))..).unwrap_or_default();
        let message = format!("the module exited with code {code}: {}", tail.trim());
        self.meter.exception(message.trim_end_matches([' ', ':']), None)
    }

    /// Parses standard output, which must be JSON or empty.
    fn result(&mut self) -> Result<JobOutput, JobError> {
        let text = self.stdout.trim_ascii();
        let parsed = if text.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(text) };
        let result = parsed
            .map_err(|error| self.meter.exception(&format!("standard output must be JSON or empty: {error}"), None))?;
        if !values::is_within_depth(&result, values::MAX_DEPTH) {
            return Err(self.meter.exception(&values::nesting_error(), None));
        }
        Ok(JobOutput { result, stdout: self.meter.stdout() })
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.growth_denied |= desired > self.max_memory;
        Ok(desired <= self.max_memory)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.growth_denied |= desired > MAX_TABLE_ELEMENTS;
        Ok(desired <= MAX_TABLE_ELEMENTS)
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
