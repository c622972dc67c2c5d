//! Resource limits, and what a worker has inherited.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::namespaces::SCRATCH_BYTES;
use crate::{Assignment, Language};

/// What the process itself needs beside the code it runs: its stacks, its libraries, buffers of frames.
const HEADROOM: u64 = 64 << 20;

const OPEN_FILES: u64 = 64;

/// With a user of its own, a worker counts its threads alone.
const THREADS: u64 = 64;

/// How much a worker occupied before it ran anything: what an allocator has reserved is not the code's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline(u64);

impl Baseline {
    /// Reads it, while there still is a `/proc`.
    pub(crate) fn measure() -> io::Result<Self> {
        let text = std::fs::read_to_string("/proc/self/statm")?;
        let pages = text.split_ascii_whitespace().nth(5).and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm is not what it used to be"))?;
        Ok(Self(pages.saturating_mul(page_size())))
    }

    fn and(self, memory: u64) -> u64 {
        self.0.saturating_add(HEADROOM).saturating_add(memory)
    }
}

/// Sets what holds for all jobs of a worker.
pub(super) fn apply(assignment: &Assignment, baseline: Baseline, own_user: bool) -> nix::Result<()> {
    let python = assignment.language == Language::CPython;
    lower(Resource::RLIMIT_CORE, 0)?;
    lower(Resource::RLIMIT_NOFILE, OPEN_FILES)?;
    lower(Resource::RLIMIT_FSIZE, if python { SCRATCH_BYTES } else { 0 })?;
    lower(Resource::RLIMIT_MEMLOCK, 0)?;
    lower(Resource::RLIMIT_MSGQUEUE, 0)?;
    if own_user {
        lower(Resource::RLIMIT_NPROC, THREADS)?;
    }
    if !python {
        // Data, because allocators and the WASM runtime reserve address space that they never touch. Python reserves none, and
        // its driver limits the address space when it knows the job: shared mappings are no data.
        lower(Resource::RLIMIT_DATA, baseline.and(assignment.memory))?;
    }
    Ok(())
}

/// Sets what holds for the next job.
pub(crate) fn allow_memory(baseline: Baseline, memory: u64) -> nix::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_DATA)?;
    setrlimit(Resource::RLIMIT_DATA, baseline.and(memory).min(most), most)
}

/// Closes everything but the pipes. A server may have been started with more open than it knows of.
pub(super) fn close_inherited() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The one that the list was read through is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

fn lower(resource: Resource, wanted: u64) -> nix::Result<()> {
    let (_, most) = getrlimit(resource)?;
    let limit = wanted.min(most);
    setrlimit(resource, limit, limit)
}

fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}
