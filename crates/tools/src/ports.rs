//! What the executor needs from outside. Each trait is one ability; the server wires real ones, tests small ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use secrecy::SecretString;
use semver::VersionReq;
use serde_json::Value;
use toolwright_types::{
    Attachment, AttachmentKind, Difference, Principal, RateLimit, RealmScope, RefName, ReferenceSource, ToolError,
    ToolProviderConfig,
};

use crate::CompiledTool;

/// A port that could not answer. What it says goes to the log; the envelope names only the port.
#[derive(Debug, thiserror::Error)]
#[error("{port} is unavailable")]
pub struct Unavailable {
    /// Which port.
    pub port: &'static str,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Finds tools by name and version.
pub trait Catalog: Send + Sync {
    /// The tool that `name` and `version` mean in `realm`: an exact version whatever its status, else the highest
    /// active one that fits, else the highest deprecated, else the highest blocked.
    fn resolve<'a>(
        &'a self,
        realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, Unavailable>>;
}

/// Decides who may call what.
pub trait Authorizer: Send + Sync {
    /// Whether `principal` may execute `tool` in `realm`.
    fn may_execute(&self, principal: &Principal, realm: &RealmScope, tool: &CompiledTool) -> Result<Allowed, Denied>;
}

/// A permission that was granted.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// The policy that granted it.
    pub policy: String,
}

/// A permission that was not granted.
#[derive(Debug, Clone)]
pub struct Denied {
    /// The permission that is missing.
    pub permission: String,
    /// The policies that forbid it; empty when none allowed it.
    pub policies: Vec<String>,
}

/// Knows secrets by name.
pub trait Secrets: Send + Sync {
    /// Which secret `name` means for `principal` in `realm` (user, then realm, then org), without opening it.
    fn identify<'a>(
        &'a self,
        realm: &'a RealmScope,
        principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretIdentity>, Unavailable>>;

    /// The value of an identified secret.
    fn reveal<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<SecretString, Unavailable>>;

    /// The token of an identified secret that somebody was granted by logging in to a provider, renewed first if it is
    /// about to expire.
    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
        provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, Unavailable>>;

    /// Notes that the token of a login was refused, so that it is renewed before it is used again.
    fn refused<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<(), Unavailable>>;
}

/// One revision of one secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretIdentity {
    /// The secret's id.
    pub id: String,
    /// The scope it was found in: `user`, `realm` or `org`.
    pub scope: &'static str,
    /// Its revision.
    pub revision: i64,
}

/// Knows what things are called in the systems that tools live in.
pub trait References: Send + Sync {
    /// What `name` means among the items of one type of a provider.
    fn look_up<'a>(
        &'a self,
        realm: &'a RealmScope,
        provider: &'a RefName,
        source: &'a ReferenceSource,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Meaning, Unavailable>>;
}

/// What a name means.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// This id.
    Id(Value),
    /// Itself: it is an id already.
    Itself,
    /// Nothing that is known.
    Nothing,
    /// Several things, of which these are some.
    Several(Vec<String>),
}

/// Knows nothing.
pub struct NoReferences;

impl References for NoReferences {
    fn look_up<'a>(
        &'a self,
        _realm: &'a RealmScope,
        _provider: &'a RefName,
        _source: &'a ReferenceSource,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Meaning, Unavailable>> {
        Box::pin(std::future::ready(Ok(Meaning::Nothing)))
    }
}

/// Hears of outputs that are not what their tools say.
pub trait Drifts: Send + Sync {
    /// Takes note. A call does not wait for it.
    fn noticed(&self, realm: &RealmScope, tool: &CompiledTool, differences: &[Difference]);
}

/// Hears nothing.
pub struct NoDrifts;

impl Drifts for NoDrifts {
    fn noticed(&self, _realm: &RealmScope, _tool: &CompiledTool, _differences: &[Difference]) {}
}

/// Keeps payloads that are too large for an envelope.
pub trait Blobs: Send + Sync {
    /// Stores `payload` in `realm` and says where it can be fetched.
    fn put<'a>(&'a self, realm: &'a RealmScope, payload: Payload) -> BoxFuture<'a, Result<Attachment, Unavailable>>;
}

/// Bytes on their way to blob storage.
#[derive(Debug, Clone)]
pub struct Payload {
    /// What they are.
    pub kind: AttachmentKind,
    /// Their media type.
    pub content_type: String,
    /// The bytes.
    pub bytes: Bytes,
}

/// Remembers results.
pub trait ResultCache: Send + Sync {
    /// What was stored under `key` and has not expired.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<Bytes>>;

    /// Stores `value` under `key`, for `ttl` or until evicted. Failing to is not an error.
    fn put<'a>(&'a self, key: String, value: Bytes, ttl: Option<Duration>) -> BoxFuture<'a, ()>;
}

/// Counts calls.
pub trait RateLimiter: Send + Sync {
    /// Takes one call from `key`'s allowance, or says how long to wait.
    fn admit<'a>(&'a self, key: &'a str, limit: RateLimit) -> BoxFuture<'a, Result<(), Duration>>;
}
