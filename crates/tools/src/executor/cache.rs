//! The result cache. [`key`] defines which calls are equal. [`Audience`] defines which callers may get a cached result.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::json::Hasher;
use toolwright_types::{Attachment, CachePolicy, Owner, PrincipalId, RealmScope, SideEffects, ToolEnvelope, ToolType};

use super::Ports;
use super::closure::Closure;
use super::secrets::IdentifiedSecrets;
use crate::{CallContext, CompiledTool};

/// The key of a cached result. It is confined to a realm and to an [`Audience`].
///
/// ```
/// # use toolwright_tools::executor::{Audience, CacheKey};
/// # use toolwright_types::{Principal, RealmScope, Owner};
/// fn key(realm: &RealmScope, owner: Owner, acting: &Principal) -> CacheKey {
///     CacheKey::new(realm, Audience::Owner { owner, principal: acting.id }, "digest of the call")
/// }
/// ```
///
/// A key without an owner does not compile:
///
/// ```compile_fail,E0063
/// # use toolwright_tools::executor::{Audience, CacheKey};
/// # use toolwright_types::{Principal, RealmScope};
/// fn key(realm: &RealmScope, acting: &Principal) -> CacheKey {
///     CacheKey::new(realm, Audience::Owner { principal: acting.id }, "digest of the call")
/// }
/// ```
///
/// A string is not accepted as a key:
///
/// ```compile_fail,E0308
/// # use toolwright_tools::ports::ResultCache;
/// async fn look_up(cache: &dyn ResultCache) -> Option<bytes::Bytes> {
///     cache.get("digest of the call").await
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey(String);

/// The callers that may share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// All callers of the realm, because the tool reads nothing that depends on the caller.
    Realm,
    /// The calls that one principal makes for one owner.
    Owner {
        /// The owner of the result.
        owner: Owner,
        /// The principal whose permissions and secrets the call used.
        principal: PrincipalId,
    },
}

/// The part of an envelope that is cached.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CachedResult {
    pub output: Value,
    pub truncated: bool,
    pub attachments: Vec<Attachment>,
    pub warnings: Vec<String>,
    #[serde(default)]
    pub messages: Vec<String>,
    pub http_status: Option<u16>,
}

impl CacheKey {
    /// Creates the key of a cached result. `call` identifies the call by its tool and its input.
    pub fn new(realm: &RealmScope, audience: Audience, call: &str) -> Self {
        let mut hasher = Hasher::default();
        hasher.sequence(|items| {
            items.string(&realm.realm.to_string());
            if let Audience::Owner { owner, principal } = audience {
                items.string(&owner.to_string());
                items.string(&principal.to_string());
            }
            items.string(call);
        });
        Self(hasher.finish_hex())
    }

    /// The size of the key in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Audience {
    /// Returns the audience of a result. It depends on what the tool can read:
    ///
    /// - A request (`EXTERNAL_REST`, `HELIX`, `GRPC`) reads only its input and its secrets. If no secret belongs to a
    ///   user, the result is the same for all callers of the realm.
    /// - Code without granted functions reads only its input.
    /// - All other tools can read data of the caller. Granted functions use the permissions and the secrets of the
    ///   caller. A library function gets the whole context of the call. An MCP server can keep a state for its session.
    fn of(cx: &CallContext, tool: &CompiledTool, secrets: &IdentifiedSecrets) -> Self {
        let definition = &tool.definition;
        let independent = match definition.tool_type {
            ToolType::ExternalRest | ToolType::Helix | ToolType::Grpc => !secrets.has_secret_of_user(),
            ToolType::Function => definition.invocation.code.is_some() && definition.invocation.functions.is_empty(),
            _ => false,
        };
        match independent {
            true => Audience::Realm,
            false => Audience::Owner { owner: cx.owner, principal: cx.principal.id },
        }
    }
}

/// Returns the cache key of a call, or `None` if its result must not be cached.
///
/// The key contains the realm, the audience, the tool and its version, the definition, the implementation, the provider
/// revision, the identities of the secrets, and the input. For code with granted functions, it also contains the
/// definitions and the secrets of all tools that the code may call. So a changed definition, provider or secret is a
/// cache miss.
pub(super) async fn key(
    ports: &Ports,
    cx: &CallContext,
    tool: &Arc<CompiledTool>,
    secrets: &IdentifiedSecrets,
    input: &Value,
    implementation: Option<String>,
) -> Option<CacheKey> {
    let definition = &tool.definition;
    if definition.cache == CachePolicy::None || tool.effects == SideEffects::Writes {
        return None;
    }
    let nested = match definition.invocation.functions.is_empty() {
        true => None,
        false => Some(NestedInputs::read(ports, cx, tool).await?),
    };
    let mut hasher = Hasher::default();
    hasher.sequence(|items| {
        items.string(definition.ref_name.as_str());
        items.string(&definition.version.to_string());
        items.string(&tool.content_hash);
        items.string(implementation.as_deref().unwrap_or_default());
        items.string(tool.provider.as_deref().map(|p| p.content_hash.as_str()).unwrap_or_default());
        for (name, identity) in secrets.iter() {
            items.string(name);
            items.string(&identity.id);
            items.integer(identity.revision.unsigned_abs());
        }
        items.value(input);
    });
    if let Some(NestedInputs { closure, secrets }) = nested {
        hasher.sequence(|items| {
            items.string(&closure);
            secrets.iter().for_each(|secret| items.string(secret));
        });
    }
    Some(CacheKey::new(&cx.realm, Audience::of(cx, tool, secrets), &hasher.finish_hex()))
}

/// The definitions and secrets that nested calls use. They can change while the input of the call stays the same.
struct NestedInputs {
    /// The fingerprint of the definitions.
    closure: String,
    /// The identities of the secrets.
    secrets: BTreeSet<String>,
}

impl NestedInputs {
    /// Looks up the definitions and secrets. Returns `None` if a port fails; then the result is not cached.
    async fn read(ports: &Ports, cx: &CallContext, tool: &Arc<CompiledTool>) -> Option<Self> {
        let closure = Closure::of(ports, &cx.realm, tool).await.ok()?;
        let mut secrets = BTreeSet::new();
        for name in closure.secret_names() {
            let found = ports.secrets.identify(&cx.realm, &cx.principal, name).await.ok()?;
            // If a secret is missing, a nested call fails, but the code may still return a result. So a missing secret
            // is part of the key too.
            let identity = found.map(|found| format!("{}@{}", found.id, found.revision)).unwrap_or_default();
            secrets.insert(format!("{name}={identity}"));
        }
        Some(Self { closure: closure.fingerprint(), secrets })
    }
}

pub(super) async fn lookup(ports: &Ports, key: Option<&CacheKey>) -> Option<CachedResult> {
    let bytes = ports.cache.get(key?).await?;
    // An entry that cannot be decoded, because another release wrote it, is a cache miss.
    serde_json::from_slice(&bytes).ok()
}

pub(super) async fn store(ports: &Ports, tool: &CompiledTool, key: Option<CacheKey>, envelope: &ToolEnvelope) {
    let Some(key) = key.filter(|_| envelope.is_success()) else {
        return;
    };
    let ttl = match tool.definition.cache {
        CachePolicy::Ttl => Some(Duration::from_secs(tool.definition.cache_ttl_seconds.unwrap_or(60))),
        _ => None,
    };
    let hit = CachedResult {
        output: envelope.output.clone(),
        truncated: envelope.truncated,
        attachments: envelope.attachments.clone(),
        warnings: envelope.metadata.warnings.clone(),
        messages: envelope.metadata.messages.clone(),
        http_status: envelope.metadata.http_status,
    };
    if let Ok(text) = serde_json::to_vec(&hit) {
        ports.cache.put(key, Bytes::from(text), ttl).await;
    }
}
