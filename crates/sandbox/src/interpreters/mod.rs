//! The interpreters that run inside a worker. Knows no processes: what confines a worker is beside this module.
//!
//! Every limit that a library offers is set here. What a library cannot interrupt, such as one operation on a huge number, ends
//! with the worker.
//!
//! What the interpreters ask of the system once a worker is confined:
//!
//! | interpreter | system calls |
//! |---|---|
//! | all | memory (`mmap`, `munmap`, `mremap`, `brk`, `madvise`), `clock_gettime`, `futex`, `getrandom` |
//! | JavaScript | local times look for a time zone: `openat` and `newfstatat` must fail, and not kill. Without `TZ` that is UTC |
//! | WASM | `mprotect` and `mmap` with `PROT_EXEC` for compiled code; `sigaltstack`, `rt_sigaction`, `rt_sigprocmask` for traps |
//!
//! None of them starts a thread, opens a file or speaks to a network.

mod javascript;
mod meter;
mod python;
mod values;
#[cfg(feature = "wasm")]
mod wasm;

use crate::{Interpreter, Language};

/// What runs code of a language in this process: none for CPython, which is a program of its own, nor for languages that were
/// left out of the build.
#[must_use]
pub fn of(language: Language) -> Option<Box<dyn Interpreter>> {
    match language {
        Language::Python => Some(Box::new(python::Python)),
        Language::JavaScript => Some(Box::new(javascript::JavaScript)),
        #[cfg(feature = "wasm")]
        Language::Wasm => Some(Box::<wasm::Wasm>::default()),
        #[cfg(not(feature = "wasm"))]
        Language::Wasm => None,
        Language::CPython => None,
    }
}
