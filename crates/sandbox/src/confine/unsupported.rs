//! The implementation for systems that have no mechanism to confine a process. [`Isolation::unmet_requirement`] refuses
//! every language there. So a worker ends before it runs code, and the functions that set limits are never called.

use std::io;
use std::time::Duration;

use super::Isolation;
use crate::WorkerConfig;

/// The memory of a worker before it runs code. It is not measured, because no code runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBaseline;

impl MemoryBaseline {
    pub(crate) fn measure() -> io::Result<Self> {
        Ok(Self)
    }
}

pub(crate) fn confine(_config: &WorkerConfig, _baseline: MemoryBaseline) -> Result<Isolation, String> {
    Ok(Isolation::default())
}

pub(crate) fn set_memory_limit(_baseline: MemoryBaseline, _memory: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_cpu_limit(_time: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
