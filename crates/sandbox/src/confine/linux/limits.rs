//! Resource limits of a worker, and the file descriptors that it inherited.

use std::io;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};

use super::namespaces::SCRATCH_BYTES;
use crate::{Language, WorkerConfig};

/// The memory that a worker process needs in addition to the memory of the job: stacks, libraries, frame buffers.
const HEADROOM: u64 = 64 << 20;

const MAX_OPEN_FILES: u64 = 64;

/// The maximum number of threads. It applies only in a user namespace, where the threads of other workers are not
/// counted.
const MAX_THREADS: u64 = 64;

/// The processor time that a job may use beyond its time limit, in seconds. The server kills a worker half a second
/// after the time limit. This number is larger, because the kernel counts whole seconds. `cpython_worker.py` contains
/// the same number.
const CPU_HEADROOM_SECONDS: u64 = 2;

/// The data size of a worker before it runs code. Memory that the allocator reserved earlier does not count against the
/// job's limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBaseline(u64);

impl MemoryBaseline {
    /// Reads the data size from `/proc`, which the worker cannot access after it is confined.
    pub(crate) fn measure() -> io::Result<Self> {
        let text = std::fs::read_to_string("/proc/self/statm")?;
        let pages = text.split_ascii_whitespace().nth(5).and_then(|pages| pages.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has an unknown format"))?;
        Ok(Self(pages.saturating_mul(page_size())))
    }

    fn with_job_memory(self, memory: u64) -> u64 {
        self.0.saturating_add(HEADROOM).saturating_add(memory)
    }
}

/// Sets the limits for all jobs of a worker.
pub(super) fn apply(config: &WorkerConfig, baseline: MemoryBaseline, own_user_namespace: bool) -> nix::Result<()> {
    let python = config.language == Language::CPython;
    lower(Resource::RLIMIT_CORE, 0)?;
    lower(Resource::RLIMIT_NOFILE, MAX_OPEN_FILES)?;
    lower(Resource::RLIMIT_FSIZE, if python { SCRATCH_BYTES } else { 0 })?;
    lower(Resource::RLIMIT_MEMLOCK, 0)?;
    lower(Resource::RLIMIT_MSGQUEUE, 0)?;
    if own_user_namespace {
        lower(Resource::RLIMIT_NPROC, MAX_THREADS)?;
    }
    if !python {
        // Limits `RLIMIT_DATA` and not `RLIMIT_AS`, because allocators and the WASM runtime reserve address space that
        // they never use. CPython reserves no such space. Its worker script sets `RLIMIT_AS` when it receives the job,
        // because `RLIMIT_DATA` ignores shared mappings.
        lower(Resource::RLIMIT_DATA, baseline.with_job_memory(config.memory))?;
    }
    Ok(())
}

/// Sets the memory limit for the next job.
pub(crate) fn set_memory_limit(baseline: MemoryBaseline, memory: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    Ok(setrlimit(Resource::RLIMIT_DATA, baseline.with_job_memory(memory).min(hard), hard)?)
}

/// Limits the processor time of the next job. The time that earlier jobs used does not count. The time of all threads
/// counts, even while the job waits for a host function. In contrast, the time limit that the server enforces excludes
/// this wait.
pub(crate) fn set_cpu_limit(time: Duration) -> io::Result<()> {
    let used = Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?);
    let total = used.saturating_add(time);
    let seconds =
        total.as_secs().saturating_add(u64::from(total.subsec_nanos() > 0)).saturating_add(CPU_HEADROOM_SECONDS);
    // Sets only the soft limit, because a hard limit could not be raised for the next job.
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU)?;
    Ok(setrlimit(Resource::RLIMIT_CPU, seconds.min(hard), hard)?)
}

/// Closes all file descriptors except the pipes. The server may have inherited descriptors from its parent process and
/// passed them on.
pub(super) fn close_inherited_fds() -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // Ignores the error for the descriptor of the directory listing, which is already closed.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

fn lower(resource: Resource, wanted: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = wanted.min(hard);
    setrlimit(resource, limit, limit)
}

fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}
