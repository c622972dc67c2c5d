//! Compiled JSON Schemas.

use serde::Serialize;
use serde_json::Value;
use toolwright_types::JsonSchema;

/// The maximum number of reported violations. Further violations are usually of the same kind.
const MAX_VIOLATIONS: usize = 20;
/// The maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;

/// A compiled schema. The draft is 2020-12 unless `$schema` names another. A `$ref` can only refer to the same
/// document.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    /// `None` if every value is valid, so that validation can be skipped.
    validator: Option<jsonschema::Validator>,
    defaults: Vec<(String, Value)>,
}

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The JSON pointer of the violation; empty for the root.
    pub path: String,
    /// The description of the violation.
    pub message: String,
}

impl Schema {
    /// Compiles `source`, or returns why it is not a valid schema.
    pub fn compile(source: Value) -> Result<Self, Violation> {
        let accepts_all = source == Value::Bool(true) || source.as_object().is_some_and(serde_json::Map::is_empty);
        let validator = if accepts_all {
            None
        } else {
            // Uses the linear-time regex engine. With a backtracking engine, a pattern in a definition could block a
            // call for a long time.
            let options = jsonschema::options()
                .offline()
                .should_validate_formats(true)
                .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(JsonSchema::MAX_PATTERN_BYTES));
            Some(options.build(&source).map_err(|error| violation(&error))?)
        };
        let defaults = top_level_defaults(&source);
        Ok(Self { source, validator, defaults })
    }

    /// Returns the source of the schema.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Validates `value`, or returns the violations.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        match &self.validator {
            Some(validator) if !validator.is_valid(value) => {
                Err(validator.iter_errors(value).take(MAX_VIOLATIONS).map(|error| violation(&error)).collect())
            }
            _ => Ok(()),
        }
    }

    /// Returns `value` with the defaults of absent top-level properties, or `None` if no default applies.
    pub fn with_defaults(&self, value: &Value) -> Option<Value> {
        let given = value.as_object()?;
        let mut filled = None;
        for (name, default) in &self.defaults {
            if !given.contains_key(name) {
                filled.get_or_insert_with(|| given.clone()).insert(name.clone(), default.clone());
            }
        }
        filled.map(Value::Object)
    }
}

fn violation(error: &jsonschema::ValidationError<'_>) -> Violation {
    Violation { path: error.instance_path().as_str().to_owned(), message: abbreviate(error.to_string()) }
}

/// Shortens a message in its middle. The validator quotes the whole value at the start of the message and states the
/// problem at its end.
fn abbreviate(message: String) -> String {
    let count = message.chars().count();
    if count <= MAX_MESSAGE_CHARS {
        return message;
    }
    let half = MAX_MESSAGE_CHARS / 2;
    let (start, end) = (message.chars().take(half), message.chars().skip(count - half));
    start.chain(" … ".chars()).chain(end).collect()
}

fn top_level_defaults(schema: &Value) -> Vec<(String, Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_schema_draft_07_and_2020_12_are_supported() {
        // In draft-07 an array of schemas under `items` is positional; 2020-12 uses `prefixItems`.
        let seven = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "items": [{ "type": "string" }] });
        let twenty = json!({ "prefixItems": [{ "type": "string" }] });
        for schema in [seven, twenty] {
            let schema = Schema::compile(schema).unwrap();
            assert!(schema.check(&json!(["a", 1])).is_ok());
            let violations = schema.check(&json!([1])).unwrap_err();
            assert_eq!(violations[0].path, "/0");
        }
    }

    #[test]
    fn invalid_schema_is_rejected_with_the_path_of_the_error() {
        let violation = Schema::compile(json!({ "properties": { "a": { "type": "strin" } } })).unwrap_err();
        assert_eq!(violation.path, "/properties/a/type");
        assert!(Schema::compile(json!({ "pattern": "(" })).is_err());
        assert!(Schema::compile(json!({ "$ref": "https://example.com/other.json" })).is_err());
    }

    #[test]
    fn pattern_with_a_backreference_is_rejected() {
        assert!(Schema::compile(json!({ "pattern": "(a)\\1" })).is_err());
    }

    #[test]
    fn defaults_apply_to_absent_properties_only() {
        let schema = Schema::compile(json!({ "properties": { "limit": { "default": 10 }, "q": {} } })).unwrap();
        assert_eq!(schema.with_defaults(&json!({ "q": "x" })), Some(json!({ "q": "x", "limit": 10 })));
        assert_eq!(schema.with_defaults(&json!({ "limit": 3 })), None);
        assert_eq!(schema.with_defaults(&json!("text")), None);
    }
}
