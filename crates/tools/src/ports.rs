//! The ports of the executor: the traits through which it uses external systems, one trait per capability. The server
//! implements them with real systems; tests implement them in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use secrecy::SecretString;
use semver::VersionReq;
use serde_json::Value;
use toolwright_types::{
    Attachment, AttachmentKind, Principal, RateLimit, RealmScope, RefName, ReferenceSource, SchemaDifference,
    ToolError, ToolProviderConfig,
};

use crate::CompiledTool;
use crate::executor::CacheKey;

/// The error of a port that failed. Its cause is logged; the envelope contains only the name of the port.
#[derive(Debug, thiserror::Error)]
#[error("{port} is unavailable")]
pub struct PortError {
    /// The name of the port.
    pub port: &'static str,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Finds tools by name and version.
pub trait ToolCatalog: Send + Sync {
    /// Returns the tool that `name` and `version` select in `realm`. If `version` is exact, returns that version with
    /// any status. Otherwise returns the highest matching version. An active version is preferred to a deprecated one,
    /// and a deprecated version to a blocked one.
    fn resolve<'a>(
        &'a self,
        realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, PortError>>;
}

/// Decides whether a principal may execute a tool.
pub trait Authorizer: Send + Sync {
    /// Returns the permission of `principal` to execute `tool` in `realm`, or the reason why it is denied.
    fn may_execute(&self, principal: &Principal, realm: &RealmScope, tool: &CompiledTool) -> Result<Permit, Denial>;
}

/// A granted permission.
#[derive(Debug, Clone)]
pub struct Permit {
    /// The policy that granted the permission.
    pub policy: String,
}

/// A denied permission.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The missing permission.
    pub permission: String,
    /// The policies that forbid the call. Empty if the call is denied because no policy permits it.
    pub policies: Vec<String>,
}

/// Finds and opens secrets.
pub trait SecretResolver: Send + Sync {
    /// Returns the current revision of the secret `name`, without opening it. Looks among the secrets of `principal`
    /// first, then of `realm`, then of the organization.
    fn identify<'a>(
        &'a self,
        realm: &'a RealmScope,
        principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretRevision>, PortError>>;

    /// Opens a secret that `identify` returned.
    fn reveal<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<SecretString, PortError>>;

    /// Returns the access token of a secret that stores an OAuth login to `provider`. Renews the token first if it is
    /// about to expire.
    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
        provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, PortError>>;

    /// Records that the token of a login was rejected, so that it is renewed before its next use.
    fn token_rejected<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<(), PortError>>;
}

/// One revision of one secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretRevision {
    /// The secret's id.
    pub id: String,
    /// The scope in which the secret was found: `user`, `realm` or `org`.
    pub scope: &'static str,
    /// The revision of the secret.
    pub revision: i64,
}

/// Resolves names to ids of external systems.
pub trait ReferenceResolver: Send + Sync {
    /// Looks up `name` in the reference data `source` of `provider`.
    fn look_up<'a>(
        &'a self,
        realm: &'a RealmScope,
        provider: &'a RefName,
        source: &'a ReferenceSource,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ReferenceMatch, PortError>>;
}

/// The result of looking up a name.
#[derive(Debug, Clone, PartialEq)]
pub enum ReferenceMatch {
    /// The name belongs to the item with this id.
    Id(Value),
    /// The value is already an id.
    AlreadyId,
    /// No known item has this name. The names that are closest to it are listed.
    NotFound(Vec<String>),
    /// Several items have this name. Some of them are listed.
    Ambiguous(Vec<String>),
}

/// Reference data without any items.
pub struct NoReferences;

impl ReferenceResolver for NoReferences {
    fn look_up<'a>(
        &'a self,
        _realm: &'a RealmScope,
        _provider: &'a RefName,
        _source: &'a ReferenceSource,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<ReferenceMatch, PortError>> {
        Box::pin(std::future::ready(Ok(ReferenceMatch::NotFound(Vec::new()))))
    }
}

/// Receives differences between outputs and output schemas.
pub trait DriftSink: Send + Sync {
    /// Records `differences` of one output. Must not block, because the call waits until this function returns.
    fn record(&self, realm: &RealmScope, tool: &CompiledTool, differences: &[SchemaDifference]);
}

/// Discards all differences.
pub struct NoDriftSink;

impl DriftSink for NoDriftSink {
    fn record(&self, _realm: &RealmScope, _tool: &CompiledTool, _differences: &[SchemaDifference]) {}
}

/// Stores payloads that are too large for an envelope.
pub trait BlobStorage: Send + Sync {
    /// Stores `payload` in `realm` and returns the attachment through which it can be fetched.
    fn put<'a>(&'a self, realm: &'a RealmScope, payload: Payload) -> BoxFuture<'a, Result<Attachment, PortError>>;
}

/// Bytes to be stored as a blob.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The kind of attachment.
    pub kind: AttachmentKind,
    /// The media type.
    pub content_type: String,
    /// The bytes.
    pub bytes: Bytes,
}

/// Caches results.
pub trait ResultCache: Send + Sync {
    /// Returns the value stored under `key`, unless it has expired.
    fn get<'a>(&'a self, key: &'a CacheKey) -> BoxFuture<'a, Option<Bytes>>;

    /// Stores `value` under `key`. The value expires after `ttl`, or never if `ttl` is `None`, but the cache may evict
    /// it earlier. A value that cannot be stored is dropped without an error.
    fn put<'a>(&'a self, key: CacheKey, value: Bytes, ttl: Option<Duration>) -> BoxFuture<'a, ()>;
}

/// Limits the rate of calls.
pub trait RateLimiter: Send + Sync {
    /// Counts one call against the limit of `key`. If the limit is reached, returns how long to wait.
    fn admit<'a>(&'a self, key: &'a str, limit: RateLimit) -> BoxFuture<'a, Result<(), Duration>>;
}
