//! Resolves names in an input to ids of the external system.
//!
//! Names are resolved before validation. The ids are recorded, because the same name may select another id later.

use std::collections::BTreeMap;

use serde_json::Value;
use toolwright_types::{RefName, ReferenceSource, ResolvedInput};

use super::Ports;
use crate::ports::ReferenceMatch;
use crate::{CallContext, CompiledTool};

/// The maximum number of names that are resolved in one list.
const MAX_NAMES: usize = 100;

/// The names in an input that were resolved to ids, and warnings about names that were not resolved.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    pub inputs: BTreeMap<String, ResolvedInput>,
    pub warnings: Vec<String>,
    /// Messages about names without a match. They are added to the error if the call fails. Each message lists the
    /// closest valid names.
    pub unknown_names: Vec<String>,
}

impl Resolution {
    pub(super) fn from_recorded(inputs: BTreeMap<String, ResolvedInput>) -> Self {
        Self { inputs, ..Self::default() }
    }

    /// Replaces the resolved names in `input` with their ids.
    pub(super) fn apply(&self, mut input: Value) -> Value {
        for (field, names) in &self.inputs {
            if let Some(place) = input.get_mut(field.as_str())
                && *place == names.original
            {
                *place = names.resolved.clone();
            }
        }
        input
    }
}

/// Resolves the names in the fields that the definition lists. A name that cannot be resolved stays unchanged and
/// causes a warning.
pub(super) async fn resolve_names(ports: &Ports, cx: &CallContext, tool: &CompiledTool, input: &Value) -> Resolution {
    let mut resolution = Resolution::default();
    let Some(provider) = tool.provider.as_deref() else { return resolution };
    for (field, data_type) in &tool.definition.resolve {
        let Some(given) = input.get(field.as_str()) else { continue };
        let Some(source) = provider.config.reference_source(data_type) else { continue };
        let lookup = FieldLookup { ports, cx, provider: &provider.config.ref_name, source, field };
        let resolved = match given {
            Value::Array(items) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter().take(MAX_NAMES) {
                    all.push(lookup.resolve(item, &mut resolution).await.unwrap_or_else(|| item.clone()));
                }
                all.extend(items.iter().skip(MAX_NAMES).cloned());
                Some(Value::Array(all)).filter(|all| all != given)
            }
            value => lookup.resolve(value, &mut resolution).await,
        };
        if let Some(resolved) = resolved {
            resolution.inputs.insert(field.clone(), ResolvedInput { original: given.clone(), resolved });
        }
    }
    resolution
}

struct FieldLookup<'a> {
    ports: &'a Ports,
    cx: &'a CallContext,
    provider: &'a RefName,
    source: &'a ReferenceSource,
    field: &'a str,
}

impl FieldLookup<'_> {
    /// Returns the id for the name `value`, or `None` if `value` stays unchanged.
    async fn resolve(&self, value: &Value, resolution: &mut Resolution) -> Option<Value> {
        let Value::String(name) = value else { return None };
        let data_type = &self.source.data_type;
        let shown: String = name.chars().take(100).collect();
        let found = self.ports.references.look_up(&self.cx.realm, self.provider, self.source, name).await;
        let warning = match found {
            Ok(ReferenceMatch::Id(id)) => return Some(id),
            Ok(ReferenceMatch::AlreadyId) => return None,
            Ok(ReferenceMatch::NotFound(closest)) => {
                let text = unknown_name(data_type, &shown, &closest);
                resolution.unknown_names.push(format!("{}: {text}", self.field));
                text
            }
            Ok(ReferenceMatch::Ambiguous(some)) => {
                format!("`{shown}` is ambiguous in `{data_type}`: {}", some.join(" or "))
            }
            Err(error) => {
                tracing::warn!(%error, cause = ?std::error::Error::source(&error), "name lookup failed");
                format!("`{shown}` could not be looked up in `{data_type}`")
            }
        };
        resolution.warnings.push(format!("{}: {warning}; the value is sent unchanged", self.field));
        None
    }
}

fn unknown_name(data_type: &str, name: &str, closest: &[String]) -> String {
    let quoted: Vec<String> = closest.iter().map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => format!("`{data_type}` has no item named `{name}`"),
        false => format!("`{data_type}` has no item named `{name}`; the closest names are {}", quoted.join(", ")),
    }
}
