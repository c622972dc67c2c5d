//! Results that can be given again. What counts as the same call is written in [`key`].

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::json::Hasher;
use toolwright_types::{Attachment, CachePolicy, SideEffects, ToolEnvelope, ToolType};

use super::Ports;
use super::secrets::Identified;
use crate::{CallContext, CompiledTool};

/// The part of an envelope that is given again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hit {
    pub output: Value,
    pub truncated: bool,
    pub attachments: Vec<Attachment>,
    pub warnings: Vec<String>,
    pub http_status: Option<u16>,
}

/// The key of a call whose result may be reused; None when it may not.
///
/// Realm, tool and version, definition, implementation, provider revision, the identity of the secrets, the
/// principal where the data depends on it, and the input. So a changed definition, provider or secret is a miss,
/// and nobody is answered with what another's secret obtained.
pub(super) fn key(
    cx: &CallContext,
    tool: &CompiledTool,
    secrets: &Identified,
    input: &Value,
    implementation: Option<String>,
) -> Option<String> {
    let definition = &tool.definition;
    if definition.cache == CachePolicy::None || tool.effects == SideEffects::Writes {
        return None;
    }
    let by_principal =
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
        items.string(&if by_principal { cx.principal.id.to_string() } else { String::new() });
        items.value(input);
    });
    Some(hasher.finish_hex())
}

pub(super) async fn lookup(ports: &Ports, key: Option<&str>) -> Option<Hit> {
    let bytes = ports.cache.get(key?).await?;
    // An entry of another release that no longer reads is a miss.
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
    let hit = Hit {
        output: envelope.output.clone(),
        truncated: envelope.truncated,
        attachments: envelope.attachments.clone(),
        warnings: envelope.metadata.warnings.clone(),
        http_status: envelope.metadata.http_status,
    };
    if let Ok(text) = serde_json::to_vec(&hit) {
        ports.cache.put(key, Bytes::from(text), ttl).await;
    }
}
