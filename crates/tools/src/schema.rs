//! JSON Schema, compiled once and asked often.

use serde::Serialize;
use serde_json::Value;
use toolwright_types::JsonSchema;

/// How many violations are reported; the rest would repeat the first.
const REPORTED: usize = 20;
/// How many characters a message may have.
const LONGEST_MESSAGE: usize = 400;

/// A compiled schema. Draft 2020-12 unless `$schema` names another; references leave the document never.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    /// None when every value is valid, which is then not worth asking.
    validator: Option<jsonschema::Validator>,
    defaults: Vec<(String, Value)>,
}

/// One place where a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// A JSON pointer into the value; empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Schema {
    /// Compiles `source`, or says where it is not a schema.
    pub fn compile(source: Value) -> Result<Self, Violation> {
        let trivial = source == Value::Bool(true) || source.as_object().is_some_and(serde_json::Map::is_empty);
        let validator = if trivial {
            None
        } else {
            // The linear-time engine: a pattern from a definition must not be able to stall a call.
            let options = jsonschema::options()
                .offline()
                .should_validate_formats(true)
                .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(JsonSchema::LARGEST_PATTERN));
            Some(options.build(&source).map_err(|error| violation(&error))?)
        };
        let defaults = top_level_defaults(&source);
        Ok(Self { source, validator, defaults })
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Whether `value` fits, and if not, where.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        match &self.validator {
            Some(validator) if !validator.is_valid(value) => {
                Err(validator.iter_errors(value).take(REPORTED).map(|error| violation(&error)).collect())
            }
            _ => Ok(()),
        }
    }

    /// `value` with the defaults of absent top-level properties, or None when it has them all.
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
    Violation { path: error.instance_path().as_str().to_owned(), message: brief(error.to_string()) }
}

/// Messages quote the value, which may have any size; its beginning and what is wrong with it are at the two ends.
fn brief(message: String) -> String {
    let count = message.chars().count();
    if count <= LONGEST_MESSAGE {
        return message;
    }
    let half = LONGEST_MESSAGE / 2;
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
    fn both_drafts_are_understood() {
        // In draft-07 an array of schemas under `items` is positional; in 2020-12 that is `prefixItems`.
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
    fn a_broken_schema_is_refused_with_its_place() {
        let violation = Schema::compile(json!({ "properties": { "a": { "type": "strin" } } })).unwrap_err();
        assert_eq!(violation.path, "/properties/a/type");
        assert!(Schema::compile(json!({ "pattern": "(" })).is_err());
        assert!(Schema::compile(json!({ "$ref": "https://example.com/other.json" })).is_err());
    }

    #[test]
    fn a_backtracking_pattern_is_not_compiled() {
        assert!(Schema::compile(json!({ "pattern": "(a)\\1" })).is_err());
    }

    #[test]
    fn absent_properties_get_their_defaults_and_given_ones_stay() {
        let schema = Schema::compile(json!({ "properties": { "limit": { "default": 10 }, "q": {} } })).unwrap();
        assert_eq!(schema.with_defaults(&json!({ "q": "x" })), Some(json!({ "q": "x", "limit": 10 })));
        assert_eq!(schema.with_defaults(&json!({ "limit": 3 })), None);
        assert_eq!(schema.with_defaults(&json!("text")), None);
    }
}
