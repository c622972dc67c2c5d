//! The interpreters that run inside a worker. Confining the worker process is the task of the `confine` module.
//!
//! The interpreters use every limit that their libraries support. An operation that a library cannot interrupt, such as
//! arithmetic on a huge number, ends when the server kills the worker.
//!
//! The system calls that the interpreters make in a confined worker:
//!
//! | interpreter | system calls |
//! |---|---|
//! | all | memory (`mmap`, `munmap`, `mremap`, `brk`, `madvise`), `clock_gettime`, `futex`, `getrandom` |
//! | JavaScript | `openat` and `newfstatat`, to look up the local time zone. Both must fail with an error instead of killing the process. Without `TZ`, local time is UTC |
//! | WASM | `mprotect` and `mmap` with `PROT_EXEC` for compiled code; `sigaltstack`, `rt_sigaction`, `rt_sigprocmask` for traps |
//!
//! No interpreter starts a thread, opens a file or uses the network.

mod javascript;
mod meter;
mod python;
mod values;
#[cfg(feature = "wasm")]
mod wasm;

use crate::{Interpreter, Language};

/// Returns the embedded interpreter of a language. `None` for CPython, which is a separate program, and for languages
/// that were excluded from the build.
#[must_use]
pub fn interpreter_for(language: Language) -> Option<Box<dyn Interpreter>> {
    match language {
        Language::Python => Some(Box::new(python::PythonInterpreter)),
        Language::JavaScript => Some(Box::new(javascript::JavaScriptInterpreter)),
        #[cfg(feature = "wasm")]
        Language::Wasm => Some(Box::<wasm::WasmInterpreter>::default()),
        #[cfg(not(feature = "wasm"))]
        Language::Wasm => None,
        Language::CPython => None,
    }
}
