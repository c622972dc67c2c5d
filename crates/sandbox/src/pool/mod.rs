//! Workers as the server sees them: who gets which, and for how long they are kept.
//!
//! - A worker of an embedded interpreter is kept for the next job of the same tenant. Should code ever get out of an interpreter,
//!   it finds nothing there but what its own tenant had sent.
//! - A process of full Python runs one job. Some are started ahead, because starting takes longer than most jobs.
//! - Whoever went beyond a limit, or said something unexpected, is not used again.

mod exchange;
mod process;
mod turns;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;

use self::process::Process;
use self::turns::{Turns, Yielding};
use crate::{Assignment, Done, Failure, Isolation, Job, Language, Mechanism, Python};

/// After this many jobs a worker is replaced, in case its interpreter leaks.
const JOBS_PER_WORKER: u32 = 1_000;

/// What code can reach outside of itself, on the server's side.
pub trait AsyncHost: Send + Sync {
    /// Calls a function that the job was granted. An error is an exception for the code, which it may catch.
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>>;

    /// Hears that the job waits for its turn, at its beginning or after a call.
    fn queued(&self) {}

    /// Hears that the job has its turn.
    fn resumed(&self) {}
}

/// How a server runs code.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The program that calls [`worker_main`](crate::worker_main) with its last argument.
    pub program: PathBuf,
    /// What it is started with before that argument.
    pub arguments: Vec<String>,
    /// The program that runs [`Language::CPython`], such as `python3`. It is looked for when it is first needed.
    pub python: Option<PathBuf>,
    /// How many jobs run at once; of one tenant, three quarters of that. Others wait.
    pub running: usize,
    /// How many workers are kept while they have nothing to do.
    pub kept: usize,
    /// How many processes of full Python are started ahead.
    pub warm: usize,
    /// The most memory that a job may ask for.
    pub memory: u64,
    /// What workers do without, as on a kernel that lacks it. For tests.
    pub without: Vec<Mechanism>,
}

impl SandboxConfig {
    /// The defaults for a program.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            python: None,
            running: 4,
            kept: 8,
            warm: 2,
            memory: 512 << 20,
            without: Vec::new(),
        }
    }
}

/// Runs code in worker processes. A clone shares them.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    config: SandboxConfig,
    turns: Turns,
    python: OnceCell<Python>,
    idle: Mutex<VecDeque<Kept>>,
    warm: Mutex<VecDeque<Process>>,
}

struct Kept {
    language: Language,
    tenant: String,
    process: Process,
}

impl Sandbox {
    /// A sandbox without workers; they are started when they are needed.
    pub fn new(config: SandboxConfig) -> Self {
        let turns = Turns::new(config.running);
        Self(Arc::new(Shared {
            config,
            turns,
            python: OnceCell::new(),
            idle: Mutex::default(),
            warm: Mutex::default(),
        }))
    }

    /// Runs a job for a tenant. To drop the future is to end the job and its worker.
    pub async fn run(&self, language: Language, tenant: &str, job: Job, host: &dyn AsyncHost) -> Result<Done, Failure> {
        let Shared { config, turns, .. } = &*self.0;
        if job.limits.memory > config.memory {
            let reason = format!(
                "the code asks for {} bytes of memory, and this server gives at most {}: ask for less, or raise the server's limit",
                job.limits.memory, config.memory
            );
            return Err(Failure::Unavailable { reason });
        }
        let closed = || Failure::Unavailable { reason: "the server is stopping".to_owned() };
        let host = Yielding::begin(turns, tenant, host).await.ok_or_else(closed)?;
        let mut process = self.take(language, tenant).await?;
        let outcome = process.run(job, &host).await;
        if language != Language::CPython && process.is_sound() && process.jobs() < JOBS_PER_WORKER {
            self.keep(Kept { language, tenant: tenant.to_owned(), process });
        } else {
            process.end().await;
        }
        if language == Language::CPython && !matches!(outcome, Err(Failure::Unavailable { .. })) {
            // Not earlier: the next would take processor time from this one.
            self.warm_up().await;
        }
        outcome
    }

    /// Starts the processes of full Python that are to be ready, on a machine that [`Sandbox::probe`] found fit. Each
    /// [`Sandbox::run`] replaces the one it took.
    pub async fn warm_up(&self) {
        let Shared { config, warm, .. } = &*self.0;
        let Ok(Some(python)) = self.python(Language::CPython).await else { return };
        let mut warm = lock(warm);
        while warm.len() < config.warm {
            match self.start(Language::CPython, Some(python.clone())) {
                Ok(process) => warm.push_back(process),
                Err(error) => return tracing::warn!(%error, "no process of Python could be started ahead"),
            }
        }
    }

    /// What a worker of this language gives up on this machine, or why there is none.
    pub async fn probe(&self, language: Language) -> Result<Isolation, Failure> {
        let mut process = self.start(language, self.python(language).await?)?;
        let isolation = process.isolation().await;
        process.end().await;
        isolation
    }

    async fn take(&self, language: Language, tenant: &str) -> Result<Process, Failure> {
        let python = self.python(language).await?;
        if language == Language::CPython {
            return self.take_warm().map_or_else(|| self.start(language, python), Ok);
        }
        let mut idle = lock(&self.0.idle);
        // The one that was used last has its memory at hand.
        while let Some(found) = idle.iter().rposition(|kept| kept.language == language && kept.tenant == tenant) {
            if let Some(mut kept) = idle.remove(found)
                && kept.process.is_alive()
            {
                return Ok(kept.process);
            }
        }
        drop(idle);
        self.start(language, python)
    }

    fn take_warm(&self) -> Option<Process> {
        let mut warm = lock(&self.0.warm);
        std::iter::from_fn(|| warm.pop_front()).find_map(|mut process| process.is_alive().then_some(process))
    }

    fn keep(&self, kept: Kept) {
        let mut idle = lock(&self.0.idle);
        idle.push_back(kept);
        let surplus = idle.len().saturating_sub(self.0.config.kept);
        // Dropped, which ends them.
        idle.drain(..surplus);
    }

    /// The installation that a worker of this language needs.
    async fn python(&self, language: Language) -> Result<Option<Python>, Failure> {
        let Shared { config, python, .. } = &*self.0;
        match (language, &config.python) {
            (Language::CPython, Some(program)) => {
                Ok(Some(python.get_or_try_init(|| Python::find(program)).await?.clone()))
            }
            (Language::CPython, None) => Err(no_python()),
            _ => Ok(None),
        }
    }

    fn start(&self, language: Language, python: Option<Python>) -> Result<Process, Failure> {
        let config = &self.0.config;
        let assignment = Assignment { language, memory: config.memory, python, without: config.without.clone() };
        Process::start(&config.program, &config.arguments, &assignment)
    }
}

fn no_python() -> Failure {
    let reason = "full Python is not run on this server: it is switched off";
    Failure::Unavailable { reason: reason.to_owned() }
}

/// What is behind these locks is whole after each statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
