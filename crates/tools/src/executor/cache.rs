//! The result cache. [`key`] defines which calls are equal.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::json::Hasher;
use toolwright_types::{Attachment, CachePolicy, SideEffects, ToolEnvelope, ToolType};

use super::Ports;
use super::secrets::IdentifiedSecrets;
use crate::{CallContext, CompiledTool};

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

/// Returns the cache key of a call, or `None` if its result must not be cached.
///
/// The key contains the realm, the tool and its version, the definition, the implementation, the provider revision, the
/// identities of the secrets, and the input. It contains the principal if the data depends on the principal. So a
/// changed definition, provider or secret is a cache miss, and no caller gets a result that was obtained with another
/// principal's secret.
pub(super) fn key(
    cx: &CallContext,
    tool: &CompiledTool,
    secrets: &IdentifiedSecrets,
    input: &Value,
    implementation: Option<String>,
) -> Option<String> {
    let definition = &tool.definition;
    if definition.cache == CachePolicy::None || tool.effects == SideEffects::Writes {
        return None;
    }
    let per_principal =
        matches!(definition.tool_type, ToolType::QuantumApi | ToolType::QuantumQuery | ToolType::ExternalMcp);
    let mut hasher = Hasher::default();
    hasher.sequence(|items| {
        items.string(&cx.realm.realm.to_string());
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
        items.string(&if per_principal { cx.principal.id.to_string() } else { String::new() });
        items.value(input);
    });
    Some(hasher.finish_hex())
}

pub(super) async fn lookup(ports: &Ports, key: Option<&str>) -> Option<CachedResult> {
    let bytes = ports.cache.get(key?).await?;
    // An entry that cannot be decoded, because another release wrote it, is a cache miss.
    serde_json::from_slice(&bytes).ok()
}

pub(super) async fn store(ports: &Ports, tool: &CompiledTool, key: Option<String>, envelope: &ToolEnvelope) {
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
