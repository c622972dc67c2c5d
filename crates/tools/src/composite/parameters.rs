//! Maps the parameters of a composite tool to the parameters of one of its operations.

use serde_json::{Map, Value};
use toolwright_expr::{Scope, ValueTemplate};
use toolwright_types::{ErrorCode, ToolError};

/// The mapping to the parameters of one operation. If several entries have the same target, the last one applies.
#[derive(Debug, Default)]
pub(super) struct ParameterMapping {
    pub(super) entries: Vec<(String, Source)>,
    /// The parameters of the composite tool that are not passed under their own names.
    pub(super) renamed: Vec<String>,
}

/// Where the value of an operation's parameter comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// A parameter of the composite tool.
    Parameter(String),
    /// A template, or a constant.
    Template(ValueTemplate),
}

/// The result of mapping the parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedParameters {
    /// The input for the operation's tool.
    pub input: Value,
    /// Problems that did not stop the mapping.
    pub warnings: Vec<String>,
}

impl ParameterMapping {
    pub(super) fn apply(&self, input: &Value, schema: &Value) -> Result<MappedParameters, ToolError> {
        let (mut mapped, mut warnings) = (Map::new(), Vec::new());
        for (name, value) in input.as_object().into_iter().flatten() {
            if !self.renamed.contains(name) && knows(schema, name) {
                mapped.insert(name.clone(), value.clone());
            }
        }
        for (target, source) in &self.entries {
            let value = match source {
                Source::Parameter(name) => input.get(name).cloned(),
                Source::Template(template) => {
                    let rendered = template.render(&Scope::new(input)).map_err(|error| invalid(target, &error))?;
                    // A path that does not exist renders null. A parameter that renders null is left out.
                    let value = Some(rendered.value).filter(|value| !value.is_null());
                    if value.is_some() {
                        let located = rendered.warnings.iter().map(|text| format!("parameter `{target}`: {text}"));
                        warnings.extend(located);
                    }
                    value
                }
            };
            if let Some(value) = value {
                mapped.insert(target.clone(), value);
            }
        }
        Ok(MappedParameters { input: Value::Object(mapped), warnings })
    }
}

/// Whether a schema may accept a property with this name.
fn knows(schema: &Value, name: &str) -> bool {
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let listed = || schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    !closed || listed() || schema.get("patternProperties").is_some()
}

fn invalid(target: &str, error: &toolwright_expr::EvalError) -> ToolError {
    let message = format!("the template of parameter `{target}` failed: {error}");
    ToolError::new(ErrorCode::ValidationError, message).reason("parameter_mapping").detail("parameter", target)
}
