//! Names where ids are wanted: looked up before the input is held against its schema, and recorded, because the same name may
//! mean something else tomorrow.

use std::collections::BTreeMap;

use serde_json::Value;
use toolwright_types::{RefName, ReferenceSource, ResolvedInput};

use super::Ports;
use crate::ports::Meaning;
use crate::{CallContext, CompiledTool};

/// How many names of one list are looked up.
const MOST: usize = 100;

/// What names in an input were taken for, and what is odd about that.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    pub inputs: BTreeMap<String, ResolvedInput>,
    pub warnings: Vec<String>,
}

impl Resolution {
    pub fn known(inputs: BTreeMap<String, ResolvedInput>) -> Self {
        Self { inputs, warnings: Vec::new() }
    }

    /// The input with ids in the places of names.
    pub fn applied(&self, mut input: Value) -> Value {
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

/// Looks up the names in the fields that the tool says may hold some. What cannot be found stays as it is, with a warning.
pub(super) async fn look_up(ports: &Ports, cx: &CallContext, tool: &CompiledTool, input: &Value) -> Resolution {
    let mut resolution = Resolution::default();
    let Some(provider) = tool.provider.as_deref() else { return resolution };
    for (field, data_type) in &tool.definition.resolve {
        let Some(given) = input.get(field.as_str()) else { continue };
        let Some(source) = provider.config.reference_source(data_type) else { continue };
        let asked = Asked { ports, cx, provider: &provider.config.ref_name, source, field };
        let resolved = match given {
            Value::Array(items) => {
                let mut all = Vec::with_capacity(items.len());
                for item in items.iter().take(MOST) {
                    all.push(asked.one(item, &mut resolution.warnings).await.unwrap_or_else(|| item.clone()));
                }
                all.extend(items.iter().skip(MOST).cloned());
                Some(Value::Array(all)).filter(|all| all != given)
            }
            one => asked.one(one, &mut resolution.warnings).await,
        };
        if let Some(resolved) = resolved {
            resolution.inputs.insert(field.clone(), ResolvedInput { original: given.clone(), resolved });
        }
    }
    resolution
}

struct Asked<'a> {
    ports: &'a Ports,
    cx: &'a CallContext,
    provider: &'a RefName,
    source: &'a ReferenceSource,
    field: &'a str,
}

impl Asked<'_> {
    /// The id that a value stands for, if it is a name.
    async fn one(&self, value: &Value, warnings: &mut Vec<String>) -> Option<Value> {
        let Value::String(name) = value else { return None };
        let data_type = &self.source.data_type;
        let shown: String = name.chars().take(100).collect();
        let found = self.ports.references.look_up(&self.cx.realm, self.provider, self.source, name).await;
        let warning = match found {
            Ok(Meaning::Id(id)) => return Some(id),
            Ok(Meaning::Itself) => return None,
            Ok(Meaning::Nothing) => format!("nothing in `{data_type}` is called `{shown}`"),
            Ok(Meaning::Several(some)) => format!("`{shown}` may be {} of `{data_type}`", some.join(" or ")),
            Err(error) => {
                tracing::warn!(%error, cause = ?std::error::Error::source(&error), "a name could not be looked up");
                format!("`{shown}` could not be looked up in `{data_type}`")
            }
        };
        warnings.push(format!("{}: {warning}; it is sent as it is", self.field));
        None
    }
}
