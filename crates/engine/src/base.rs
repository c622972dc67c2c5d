//! Opens the store, the blob store and access control, which all other services of a server need.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolwright_catalog::{Access, Unavailable};
use toolwright_runs::blobs::{BlobLocation, BlobStore};
use toolwright_store::{Location, SealKey, Store, SyncMode};
use toolwright_types::Clock;

use crate::disk_reserve::DiskReserve;
use crate::engine::EnvironmentLookup;

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("use data folder `{}`", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened.
    #[error("open the database")]
    Store(#[from] toolwright_store::OpenStoreError),
    /// Redis cannot be reached.
    #[error("connect to Redis")]
    Redis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This binary was built without Redis support.
    #[error("this build has no Redis support; build it with the feature `redis`")]
    RedisNotBuiltIn,
    /// The built-in or the additional policies are not valid.
    #[error("load the policies")]
    Policies(#[from] toolwright_authz::PolicyError),
    /// No API key exists, and `issue_first_key` is not set, so no client could authenticate.
    #[error("no API key exists, and one is issued only when listening on loopback; set TOOLWRIGHT_ADMIN_KEY")]
    NoKey,
    /// The HTTP client for models could not be created.
    #[error("create an HTTP client for models: {0}")]
    HttpClient(String),
    /// The database or another service failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The store, the blob store, access control and the clock, which all other services need.
pub(crate) struct Base {
    pub store: Store,
    pub access: Access,
    pub blobs: BlobStore,
    pub clock: Arc<dyn Clock>,
    /// Whether other servers may use the same database.
    pub shared: bool,
    /// The reserved disk space for the start of the server. `None` if the database does not use this machine's disk.
    pub reserve: Option<DiskReserve>,
}

pub(crate) struct BaseOptions<'a> {
    pub data: &'a Path,
    pub database: Location,
    pub sync: SyncMode,
    pub seal: SealKey,
    pub clock: Arc<dyn Clock>,
    pub policies: &'a str,
    /// Where blobs are stored. Default: the folder `blobs` in `data`.
    pub blobs: Option<BlobLocation>,
    pub environment: &'a EnvironmentLookup,
}

impl Base {
    pub(crate) async fn open(options: BaseOptions<'_>) -> Result<Self, OpenError> {
        let BaseOptions { data, database, sync, seal, clock, policies, blobs, environment } = options;
        create_data_folder(data).map_err(|source| OpenError::Data { path: data.to_owned(), source })?;
        let shared = matches!(database, Location::Postgres(_));
        // A Postgres database does not write to the data folder, so it needs no disk reserve.
        let reserve = (!shared).then(|| DiskReserve::release(data));
        let options = toolwright_store::StoreOptions { url: database, sync, clock: Arc::clone(&clock), seal };
        let store = Store::open(options).await?;
        if !shared {
            store.release_renewals().await.map_err(Unavailable::from)?;
        }
        let unreadable = store.secrets_of_other_keys().await.map_err(Unavailable::from)?;
        if unreadable > 0 {
            tracing::error!(
                "{unreadable} secrets were sealed with another key and cannot be opened; start the server with the earlier \
                 seal.key or TOOLWRIGHT_SEAL_KEY, or set these secrets again"
            );
        }
        let access = Access::with_policies(policies)?;
        let location = blobs.unwrap_or_else(|| BlobLocation::Folder(data.join("blobs")));
        let blobs = BlobStore::open(location, &**environment)?;
        // Most calls need no blob, so the server starts even if the blob storage does not answer.
        if let Err(error) = blobs.check().await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "blob storage did not answer; calls with large outputs fail until it does"
            );
        }
        Ok(Self { store, access, blobs, clock, shared, reserve })
    }
}

/// Creates the data folder for its owner only. An existing folder keeps its mode, because it may contain other files.
fn create_data_folder(data: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let mode = data.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = data.display();
        tracing::warn!("other users can access the data folder (mode {mode:03o}); run `chmod 700 {path}`");
    }
    Ok(())
}
