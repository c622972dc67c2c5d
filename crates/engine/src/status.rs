//! The status of a server: its features, the languages that its sandbox runs, and the health of the database and the
//! other parts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolwright_catalog::BoxError;
use toolwright_runs::Runs;
use toolwright_runs::blobs::BlobStore;
use toolwright_sandbox::{Language, Sandbox};
use toolwright_store::Store;

/// The time limit of each check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the status of the languages is cached. Checking the languages takes longer than the other checks, because a
/// worker is started for each language.
const LANGUAGES_TTL: Duration = Duration::from_secs(60);
/// The free disk space below which the server reports a problem.
const LOW_DISK_BYTES: u64 = 1 << 30;

/// Sends a ping to Redis.
pub(crate) type RedisPing = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// Checks the parts of a server. Cheap to clone.
#[derive(Clone)]
pub struct ServerStatus(Arc<Inner>);

struct Inner {
    parts: StatusParts,
    languages: Mutex<Option<(Instant, Arc<[LanguageStatus]>)>>,
}

/// The parts that are checked.
pub(crate) struct StatusParts {
    pub store: Store,
    pub blobs: BlobStore,
    pub runs: Runs,
    pub redis: Option<RedisPing>,
    pub sandbox: Option<Sandbox>,
    pub data: PathBuf,
    pub features: Vec<&'static str>,
}

/// Whether this server runs code of a language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageStatus {
    /// The name of the language, as in `invocation.path` of a tool.
    pub language: &'static str,
    /// Why the language is not available. `None` if it is available.
    pub reason: Option<String>,
}

/// The health of a part of the server.
#[derive(Debug, Clone)]
pub struct PartHealth {
    /// The name of the part, such as `database`.
    pub part: &'static str,
    /// What is wrong. `None` if the part works.
    pub problem: Option<String>,
}

/// The space on the disk of the data folder, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// The free space.
    pub free: u64,
    /// The size of the disk.
    pub total: u64,
}

impl ServerStatus {
    pub(crate) fn new(mut parts: StatusParts) -> Self {
        parts.features.sort_unstable();
        Self(Arc::new(Inner { parts, languages: Mutex::new(None) }))
    }

    /// Returns the kind of the database: `sqlite` or `postgres`.
    pub fn database(&self) -> &'static str {
        self.0.parts.store.database_kind()
    }

    /// Returns the optional features of this build, sorted.
    pub fn features(&self) -> &[&'static str] {
        &self.0.parts.features
    }

    /// Returns the data folder.
    pub fn data_folder(&self) -> &std::path::Path {
        &self.0.parts.data
    }

    /// Returns the number of tasks that drive or recover a run on this server.
    pub fn running(&self) -> usize {
        self.0.parts.runs.running()
    }

    /// Returns the free space on the disk of the data folder; `None` if it cannot be read.
    pub async fn disk(&self) -> Option<DiskSpace> {
        let data = self.0.parts.data.clone();
        let found = tokio::task::spawn_blocking(move || nix::sys::statvfs::statvfs(&data)).await.ok()?.ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Some(DiskSpace { free: bytes(found.blocks_available()), total: bytes(found.blocks()) })
    }

    /// Checks all parts at the same time. Parts that the server does not use are omitted.
    pub async fn health(&self) -> Vec<PartHealth> {
        let StatusParts { store, blobs, runs, redis, .. } = &self.0.parts;
        let ping_redis = async {
            match redis {
                Some(ping) => Some(ping().await),
                None => None,
            }
        };
        let (database, blobs, redis, restate, disk) = tokio::join!(
            within("database", async { Some(store.ping().await.map_err(BoxError::from)) }),
            within("blobs", async { Some(blobs.check().await.map_err(BoxError::from)) }),
            within("redis", ping_redis),
            within("restate", runs.check_scheduler()),
            self.disk(),
        );
        let disk_problem = match disk {
            None => Some("the disk of the data folder cannot be read".to_owned()),
            Some(space) if space.free < LOW_DISK_BYTES => {
                Some(format!("{} MiB are free; free some space", space.free >> 20))
            }
            Some(_) => None,
        };
        let disk = Some(PartHealth { part: "disk", problem: disk_problem });
        [database, blobs, redis, restate, disk].into_iter().flatten().collect()
    }

    /// Returns whether this server runs code of each language.
    pub async fn languages(&self) -> Arc<[LanguageStatus]> {
        let mut cached = self.0.languages.lock().await;
        if let Some((at, known)) = &*cached
            && at.elapsed() < LANGUAGES_TTL
        {
            return Arc::clone(known);
        }
        let probes = [
            ("python", Language::Python),
            ("javascript", Language::JavaScript),
            ("wasm", Language::Wasm),
            ("cpython", Language::CPython),
        ]
        .map(|(name, language)| self.probe(name, language));
        let found: Arc<[LanguageStatus]> = futures::future::join_all(probes).await.into();
        *cached = Some((Instant::now(), Arc::clone(&found)));
        found
    }

    async fn probe(&self, name: &'static str, language: Language) -> LanguageStatus {
        let reason = match &self.0.parts.sandbox {
            None => Some("the sandbox is disabled; enable it with `sandbox.enabled`".to_owned()),
            Some(sandbox) => match tokio::time::timeout(CHECK_TIMEOUT, sandbox.probe(language)).await {
                Ok(probed) => probed.err().map(|error| error.to_string()),
                Err(_) => Some(format!("a worker did not start within {} s", CHECK_TIMEOUT.as_secs())),
            },
        };
        LanguageStatus { language: name, reason }
    }
}

/// Runs the check of a part within the time limit. Returns `None` if the server does not use the part.
async fn within(part: &'static str, check: impl Future<Output = Option<Result<(), BoxError>>>) -> Option<PartHealth> {
    let problem = match tokio::time::timeout(CHECK_TIMEOUT, check).await {
        Ok(result) => result?.err().map(|error| chain(&*error)),
        Err(_) => Some(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())),
    };
    Some(PartHealth { part, problem })
}

/// Returns the text of an error followed by its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
