//! The server's pool of worker processes: selects the worker of a job, and decides how long workers are kept.
//!
//! - A worker of an embedded interpreter is kept for the next job of the same tenant. So code that escapes from an
//!   interpreter finds only data of its own tenant.
//! - A CPython process runs one job. Some are started in advance, because starting one takes longer than most jobs.
//! - A worker that exceeded a limit or sent an unexpected message is not used again.

mod connection;
mod process;
mod slots;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use self::process::WorkerProcess;
pub use self::slots::JobOwner;
use self::slots::{JobSlots, SlotReleasingHost};
use crate::{Isolation, Job, JobError, JobOutput, Language, Mechanism, PythonInstallation, WorkerConfig};

/// The number of jobs after which a worker is replaced, in case its interpreter leaks memory.
const JOBS_PER_WORKER: u32 = 1_000;

/// The host functions: functions outside of the sandbox that code can call. The server implements this trait.
pub trait AsyncHost: Send + Sync {
    /// Calls a function that the job may call. The code sees an error as an exception that it may catch.
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>>;

    /// Called when the job starts to wait for a slot: at its beginning, or after a call to a host function.
    fn on_queued(&self) {}

    /// Called when the job stops waiting for a slot.
    fn on_dequeued(&self) {}

    /// The time at which the caller stops waiting for the job. If the code still runs at that time, it has exceeded its
    /// time limit.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// The configuration of a [`Sandbox`].
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The worker program, which calls [`worker_main`](crate::worker_main) with its last argument.
    pub program: PathBuf,
    /// The arguments of the program that precede the worker configuration.
    pub arguments: Vec<String>,
    /// The program that runs [`Language::CPython`], such as `python3`. It is located on first use.
    pub python: Option<PathBuf>,
    /// The maximum number of jobs that run at the same time. Three quarters of them may belong to one tenant, and half
    /// of them to one principal. Further jobs wait.
    pub max_running: usize,
    /// The maximum number of idle workers.
    pub max_idle: usize,
    /// The number of CPython processes that are started in advance.
    pub warm_processes: usize,
    /// The maximum of [`JobLimits::memory`](crate::JobLimits::memory), in bytes.
    pub max_memory: u64,
    /// The mechanisms that workers do not use, as if the kernel lacked them. For tests.
    pub disabled_mechanisms: Vec<Mechanism>,
}

impl SandboxConfig {
    /// Returns the default configuration for a worker program.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            python: None,
            max_running: 4,
            max_idle: 8,
            warm_processes: 2,
            max_memory: 512 << 20,
            disabled_mechanisms: Vec::new(),
        }
    }
}

/// Runs code in worker processes. Clones share the same workers.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    config: SandboxConfig,
    slots: JobSlots,
    python: OnceCell<PythonInstallation>,
    idle: Mutex<VecDeque<IdleWorker>>,
    warm: Mutex<VecDeque<WorkerProcess>>,
}

struct IdleWorker {
    language: Language,
    tenant: String,
    process: WorkerProcess,
}

impl Sandbox {
    /// Creates a sandbox without workers. They are started on demand.
    pub fn new(config: SandboxConfig) -> Self {
        let slots = JobSlots::new(config.max_running);
        Self(Arc::new(Shared {
            config,
            slots,
            python: OnceCell::new(),
            idle: Mutex::default(),
            warm: Mutex::default(),
        }))
    }

    /// Runs a job for a tenant or for one of its principals. Dropping the future kills the worker of the job.
    pub async fn run(
        &self,
        language: Language,
        owner: impl Into<JobOwner<'_>>,
        job: Job,
        host: &dyn AsyncHost,
    ) -> Result<JobOutput, JobError> {
        let owner = owner.into();
        let tenant = owner.tenant;
        let Shared { config, slots, .. } = &*self.0;
        if job.limits.memory > config.max_memory {
            let reason = format!(
                "the memory limit of a job must be at most {} bytes on this server, got {}; lower it, or raise the server's limit",
                config.max_memory, job.limits.memory
            );
            return Err(JobError::Unavailable { reason });
        }
        let closed = || JobError::Unavailable { reason: "the server is stopping".to_owned() };
        let host = SlotReleasingHost::acquire(slots, owner, host).await.ok_or_else(closed)?;
        let mut process = self.take(language, tenant).await?;
        let outcome = process.run(job, &host).await;
        if language != Language::CPython && process.is_reusable() && process.jobs() < JOBS_PER_WORKER {
            self.keep(IdleWorker { language, tenant: tenant.to_owned(), process });
        } else {
            process.end().await;
        }
        if language == Language::CPython && !matches!(outcome, Err(JobError::Unavailable { .. })) {
            // Starts the next process only now. A process that starts earlier would take processor time from this job.
            self.warm_up().await;
        }
        outcome
    }

    /// Starts the configured number of CPython processes in advance. Call it only if [`Sandbox::probe`] succeeds for
    /// CPython. Each [`Sandbox::run`] replaces the process that it used.
    pub async fn warm_up(&self) {
        let Shared { config, warm, .. } = &*self.0;
        let Ok(Some(python)) = self.python(Language::CPython).await else { return };
        let mut warm = lock(warm);
        while warm.len() < config.warm_processes {
            match self.start(Language::CPython, Some(python.clone())) {
                Ok(process) => warm.push_back(process),
                Err(error) => return tracing::warn!(%error, "could not start a CPython process in advance"),
            }
        }
    }

    /// Starts a worker of this language and returns the worker's isolation, or the reason why this machine cannot run
    /// the language.
    pub async fn probe(&self, language: Language) -> Result<Isolation, JobError> {
        let mut process = self.start(language, self.python(language).await?)?;
        let isolation = process.isolation().await;
        process.end().await;
        isolation
    }

    async fn take(&self, language: Language, tenant: &str) -> Result<WorkerProcess, JobError> {
        let python = self.python(language).await?;
        if language == Language::CPython {
            return self.take_warm().map_or_else(|| self.start(language, python), Ok);
        }
        let mut idle = lock(&self.0.idle);
        // Uses the most recently used worker, because its memory is most likely still in the processor's caches.
        while let Some(found) = idle.iter().rposition(|worker| worker.language == language && worker.tenant == tenant) {
            if let Some(mut worker) = idle.remove(found)
                && worker.process.is_alive()
            {
                return Ok(worker.process);
            }
        }
        drop(idle);
        self.start(language, python)
    }

    fn take_warm(&self) -> Option<WorkerProcess> {
        let mut warm = lock(&self.0.warm);
        std::iter::from_fn(|| warm.pop_front()).find_map(|mut process| process.is_alive().then_some(process))
    }

    fn keep(&self, worker: IdleWorker) {
        let mut idle = lock(&self.0.idle);
        idle.push_back(worker);
        let surplus = idle.len().saturating_sub(self.0.config.max_idle);
        // Dropping a worker kills its process.
        idle.drain(..surplus);
    }

    /// Returns the Python installation that a worker of this language needs.
    async fn python(&self, language: Language) -> Result<Option<PythonInstallation>, JobError> {
        let Shared { config, python, .. } = &*self.0;
        match (language, &config.python) {
            (Language::CPython, Some(program)) => {
                Ok(Some(python.get_or_try_init(|| PythonInstallation::find(program)).await?.clone()))
            }
            (Language::CPython, None) => Err(python_disabled()),
            _ => Ok(None),
        }
    }

    fn start(&self, language: Language, python: Option<PythonInstallation>) -> Result<WorkerProcess, JobError> {
        let config = &self.0.config;
        let worker_config = WorkerConfig {
            language,
            memory: config.max_memory,
            python,
            disabled_mechanisms: config.disabled_mechanisms.clone(),
        };
        WorkerProcess::start(&config.program, &config.arguments, &worker_config)
    }
}

fn python_disabled() -> JobError {
    let reason = "CPython is disabled on this server";
    JobError::Unavailable { reason: reason.to_owned() }
}

/// Locks a mutex and ignores poisoning. The queues are valid after each statement, so a panic of another task leaves
/// them valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
