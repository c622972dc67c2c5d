//! Compiled JSON Schemas.

mod meter;
mod metering;
mod references;

use std::sync::Arc;

use meter::metered;
use serde::Serialize;
use serde_json::Value;
use toolwright_budget::{MAX_STEPS, Stopped};
use toolwright_types::JsonSchema;

/// The maximum number of reported violations. Further violations are usually of the same kind.
const MAX_VIOLATIONS: usize = 20;
/// The maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 400;
/// The maximum number of steps for listing violations. It is much lower than the maximum for a validation, because the
/// validator creates an error for each branch that it tries.
const VIOLATION_STEPS: u64 = 50_000;

/// A compiled schema. The draft is 2020-12 unless `$schema` names another. A `$ref` can only refer to the same
/// document.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    /// `None` if every value is valid, so that validation can be skipped.
    validator: Option<jsonschema::Validator>,
    /// Whether the validator has meters. Without them, the work is proportional to the size of the value.
    has_meters: bool,
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
        let copy = metering::with_meters(&source)?;
        let has_meters = copy.is_some();
        let validator = if accepts_all { None } else { Some(compile(&source, copy)?) };
        let defaults = top_level_defaults(&source);
        Ok(Self { source, validator, has_meters, defaults })
    }

    /// Returns the source of the schema.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Validates `value`, or returns the violations. The work is limited: a value that needs more work is rejected.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        self.try_check(value).map_err(|rejection| match rejection {
            Rejection::Mismatch(violations) => violations,
            Rejection::Unchecked(stopped) => vec![Violation::unchecked(stopped)],
        })
    }

    /// Like [`Schema::check`], but the error distinguishes a value that violates the schema from a value that needs too
    /// much work.
    pub fn try_check(&self, value: &Value) -> Result<(), Rejection> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let is_valid = || validator.is_valid(value);
        match if self.has_meters { metered(MAX_STEPS, is_valid) } else { Ok(is_valid()) } {
            Ok(true) => Ok(()),
            Ok(false) => Err(Rejection::Mismatch(violations(validator, value))),
            Err(stopped) => Err(Rejection::Unchecked(stopped)),
        }
    }

    /// Like [`Schema::compile`]. The compilation of a large schema does not block the thread.
    pub async fn compile_large(source: Value) -> Result<Self, Violation> {
        let copy = source.clone();
        let compiled = toolwright_budget::run_sized(&[&source], move || Self::compile(copy)).await;
        compiled.map_err(|stopped| Violation::of_root(format!("the schema cannot be compiled: {stopped}")))?
    }

    /// Like [`Schema::check`], but returns the value if it is valid. A long validation does not block the thread, and
    /// stops when the future is dropped.
    pub async fn validate(self: &Arc<Self>, value: Value) -> Result<Value, Vec<Violation>> {
        match toolwright_budget::run((Arc::clone(self), value), |(schema, value)| schema.check(value)).await {
            Ok(((_, value), checked)) => checked.map(|()| value),
            Err(stopped) => Err(vec![Violation::unchecked(stopped)]),
        }
    }

    /// Like [`Schema::try_check`], but returns the value if it is valid. A long validation does not block the thread,
    /// and stops when the future is dropped.
    pub async fn try_validate(self: &Arc<Self>, value: Value) -> Result<Value, Rejection> {
        match toolwright_budget::run((Arc::clone(self), value), |(schema, value)| schema.try_check(value)).await {
            Ok(((_, value), checked)) => checked.map(|()| value),
            Err(stopped) => Err(Rejection::Unchecked(stopped)),
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

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Why a value is not accepted.
#[derive(Debug)]
pub enum Rejection {
    /// The value violates the schema.
    Mismatch(Vec<Violation>),
    /// The check stopped before its end.
    Unchecked(Stopped),
}

impl Violation {
    /// The violation of a value whose validation was stopped.
    pub(crate) fn unchecked(stopped: Stopped) -> Self {
        Self::of_root(format!("the value cannot be checked: {stopped}"))
    }

    fn of_root(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }
}

/// Compiles a schema, or its copy with meters.
fn compile(source: &Value, copy: Option<Value>) -> Result<jsonschema::Validator, Violation> {
    // Uses the regex engine that takes linear time. With a backtracking engine, a pattern in a definition could block a
    // call for a long time.
    let options = jsonschema::options()
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(JsonSchema::MAX_PATTERN_BYTES))
        .with_keyword(meter::METER, meter::meter);
    let build = |schema: &Value| metered(MAX_STEPS, || options.build(schema).map_err(|error| violation(&error)));
    let stopped = |stopped| Violation::of_root(format!("the schema cannot be compiled: {stopped}"));
    match copy {
        None => build(source).map_err(stopped)?,
        // If the copy does not compile, the source is compiled too. Its error contains the path in the source, not in
        // the copy.
        Some(copy) => build(&copy).map_err(stopped)?.map_err(|error| match build(source) {
            Ok(Err(with_path)) => with_path,
            _ => error,
        }),
    }
}

/// Returns at most `MAX_VIOLATIONS` violations. If listing them takes more than `VIOLATION_STEPS` steps, returns only
/// the first one.
fn violations(validator: &jsonschema::Validator, value: &Value) -> Vec<Violation> {
    let all = || validator.iter_errors(value).take(MAX_VIOLATIONS).map(|error| violation(&error)).collect();
    let first = || validator.validate(value).err().iter().map(violation).collect();
    metered(VIOLATION_STEPS, all)
        .or_else(|_| metered(VIOLATION_STEPS, first))
        .unwrap_or_else(|_| vec![Violation::of_root("the value does not match; there are too many violations to list")])
}

fn violation(error: &jsonschema::ValidationError<'_>) -> Violation {
    Violation { path: error.instance_path().as_str().to_owned(), message: abbreviate(error.to_string()) }
}

/// Shortens a message by removing its middle, because the validator quotes the whole value at the start of the message
/// and states the problem at its end.
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

    /// Definitions that each refer twice to the next one.
    fn doubling(levels: usize, keyword: &str, last: Value) -> Value {
        let mut definitions: serde_json::Map<String, Value> = (0..levels)
            .map(|level| {
                let next = json!({ "$ref": format!("#/$defs/{}", level + 1) });
                (level.to_string(), json!({ keyword: [next, next] }))
            })
            .collect();
        definitions.insert(levels.to_string(), last);
        json!({ "$ref": "#/$defs/0", "$defs": definitions })
    }

    #[test]
    fn validation_that_exceeds_the_step_limit_is_stopped() {
        for (keyword, last) in [("anyOf", json!(false)), ("allOf", json!(true)), ("oneOf", json!({ "type": "string" }))]
        {
            let schema = Schema::compile(doubling(60, keyword, last)).unwrap();
            let violations = schema.check(&json!(1)).unwrap_err();
            assert!(violations[0].message.contains("at most 20000000 steps"), "{keyword} {violations:?}");
            assert_eq!(run(|| schema.check(&json!(1))), Err(Stopped::Exhausted), "the caller's operation stops too");
        }
    }

    #[tokio::test]
    async fn only_long_validations_run_on_another_thread() {
        let schema = Arc::new(Schema::compile(doubling(60, "anyOf", json!({ "type": "string" }))).unwrap());
        let first_poll = |value: Value| {
            let mut validation = Box::pin(schema.validate(value));
            std::future::poll_fn(move |cx| std::task::Poll::Ready(validation.as_mut().poll(cx)))
        };
        assert_eq!(first_poll(json!("a")).await, std::task::Poll::Ready(Ok(json!("a"))));
        assert!(first_poll(json!(1)).await.is_pending());
        let violations = schema.validate(json!(1)).await.unwrap_err();
        assert!(violations[0].message.contains("at most 20000000 steps"), "{violations:?}");
    }

    fn run<T>(operation: impl FnOnce() -> T) -> Result<T, Stopped> {
        toolwright_budget::within(1_000, operation)
    }

    #[test]
    fn deep_value_is_validated_correctly_against_a_recursive_union() {
        let node = json!({ "$ref": "#/$defs/node" });
        let schema = json!({ "$ref": "#/$defs/node", "$defs": { "node": { "type": "object", "anyOf": [
            { "properties": { "next": node } }, { "properties": { "next": node }, "required": ["other"] },
        ] } } });
        let schema = Schema::compile(schema).unwrap();
        let value = |last: Value| (0..100).fold(last, |inner, _| json!({ "next": inner }));
        assert!(schema.check(&value(json!({}))).is_ok());
        assert!(schema.check(&value(json!(1))).is_err(), "the validator tries both branches at each level");
    }

    #[test]
    fn only_the_first_violation_is_reported_if_listing_all_takes_too_long() {
        let schema = Schema::compile(doubling(40, "allOf", json!({ "type": "string" }))).unwrap();
        let violations = schema.check(&json!(1)).unwrap_err();
        assert_eq!(violations.len(), 1);
        assert!(violations[0].message.contains("not of type"), "{violations:?}");
    }

    #[test]
    fn long_chain_of_references_does_not_overflow_the_stack() {
        let definitions: serde_json::Map<String, Value> = (0..4_900)
            .map(|n| (n.to_string(), json!({ "$ref": format!("#/$defs/{}", (n + 1) % 4_900), "items": {} })))
            .collect();
        let last = json!({ "$defs": definitions, "$ref": "#/$defs/0" });
        let violations = Schema::compile(last).unwrap().check(&json!("a")).unwrap_err();
        assert!(violations[0].message.contains("nests too deep"), "{violations:?}");
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
