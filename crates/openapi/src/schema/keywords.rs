//! Converts the keywords of a schema. Unknown keywords and keywords with a value of the wrong type are dropped, because
//! documents often contain invalid schemas.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Converter, Direction, nullable, pattern};
use crate::document::OpenApiVersion;
use crate::error::ConversionError;
use crate::text::truncate;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/// The maximum length of a property's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 500;
/// The maximum size of a default, an example or a constant, in bytes.
const MAX_EXAMPLE_BYTES: usize = 512;

impl<'d> Converter<'d> {
    pub(super) fn convert_keywords(
        &mut self,
        fields: &'d Map<String, Value>,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<Value, ConversionError> {
        let mut all_hidden: HashSet<&'d str> = self.hidden_properties(fields);
        all_hidden.extend(hidden);
        let mut out = Map::new();
        for (keyword, value) in fields {
            self.convert_keyword(&mut out, keyword, value, depth, &all_hidden)?;
        }
        if self.document.version == OpenApiVersion::V30 {
            convert_exclusive_bound(&mut out, fields, "exclusiveMinimum", "minimum");
            convert_exclusive_bound(&mut out, fields, "exclusiveMaximum", "maximum");
        }
        // `nullable` is also converted in OpenAPI 3.1, where it has no meaning. The authors of such documents expect
        // the meaning of OpenAPI 3.0.
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            return Ok(nullable::make_nullable(out));
        }
        Ok(Value::Object(out))
    }

    pub(super) fn convert_keyword(
        &mut self,
        out: &mut Map<String, Value>,
        keyword: &str,
        value: &'d Value,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<(), ConversionError> {
        let next = depth + 1;
        let converted = match keyword {
            "properties" => self.properties(value, next, hidden)?,
            "patternProperties" => self.pattern_properties(value, next)?,
            "dependentSchemas" => self.properties(value, next, &HashSet::new())?,
            "allOf" => self.schema_list(value, next, hidden)?,
            "anyOf" | "oneOf" | "prefixItems" => self.schema_list(value, next, &HashSet::new())?,
            // In JSON Schema draft 4, an array under `items` describes a tuple.
            "items" if value.is_array() => {
                let tuple = self.schema_list(value, next, &HashSet::new())?;
                out.extend(
                    tuple
                        .filter(|tuple| !is_empty_list("prefixItems", tuple))
                        .map(|tuple| ("prefixItems".to_owned(), tuple)),
                );
                return Ok(());
            }
            "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" if value.is_boolean() => {
                Some(value.clone())
            }
            "items"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "unevaluatedItems"
                if value.is_object() || value.is_boolean() =>
            {
                Some(self.convert_schema(value, next, &HashSet::new())?)
            }
            "description" if self.direction == Direction::Output => None,
            "description" => value.as_str().map(|text| Value::from(truncate(text, MAX_DESCRIPTION_CHARS))),
            "example" | "examples" | "default" if self.direction == Direction::Output => None,
            "example" => small_value(value).map(|example| Value::Array(vec![example])),
            "examples" => value.as_array().map(|all| all.iter().filter_map(small_value).take(3).collect()),
            "default" => small_value(value),
            "required" => required(value, hidden),
            "pattern" => self.pattern(value),
            _ => plain_keyword(keyword, value),
        };
        if let Some(converted) = converted.filter(|converted| !is_empty_list(keyword, converted)) {
            self.estimated_bytes += keyword.len() + 4 + if is_leaf(keyword) { estimate_size(&converted) } else { 0 };
            out.insert(keyword.to_owned(), converted);
            if keyword == "example" {
                let examples = out.shift_remove("example");
                out.entry("examples").or_insert(examples.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Converts a map from names to schemas, without the properties that are hidden in this direction.
    fn properties(
        &mut self,
        value: &'d Value,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<Option<Value>, ConversionError> {
        let Value::Object(properties) = value else { return Ok(None) };
        let mut out = Map::new();
        for (name, property) in properties.iter().filter(|(name, _)| !hidden.contains(name.as_str())) {
            self.estimated_bytes += name.len() + 4;
            out.insert(name.clone(), self.convert_schema(property, depth, &HashSet::new())?);
        }
        Ok(Some(Value::Object(out)))
    }

    fn pattern_properties(&mut self, value: &'d Value, depth: usize) -> Result<Option<Value>, ConversionError> {
        let Value::Object(schemas) = value else { return Ok(None) };
        let mut out = Map::new();
        for (name, schema) in schemas {
            if !pattern::is_supported(name) {
                self.dropped_patterns = true;
                continue;
            }
            self.estimated_bytes += name.len() + 4;
            out.insert(name.clone(), self.convert_schema(schema, depth, &HashSet::new())?);
        }
        Ok(Some(Value::Object(out)))
    }

    fn schema_list(
        &mut self,
        value: &'d Value,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<Option<Value>, ConversionError> {
        let Value::Array(schemas) = value else { return Ok(None) };
        let converted: Result<Vec<Value>, ConversionError> =
            schemas.iter().map(|schema| self.convert_schema(schema, depth, hidden)).collect();
        converted.map(|all| Some(Value::Array(all)))
    }

    fn pattern(&mut self, value: &Value) -> Option<Value> {
        let supported = pattern::is_supported(value.as_str()?);
        self.dropped_patterns |= !supported;
        supported.then(|| value.clone())
    }
}

/// Copies the value of a keyword that contains no schemas, if the value is valid.
fn plain_keyword(keyword: &str, value: &Value) -> Option<Value> {
    let valid = match keyword {
        "type" => return types(value),
        "enum" => value.as_array().is_some_and(|all| !all.is_empty()) && is_small(value, 64 << 10),
        "const" => is_small(value, MAX_EXAMPLE_BYTES),
        "format" | "contentEncoding" | "contentMediaType" => value.as_str().is_some_and(|text| text.len() <= 128),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|divisor| divisor > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => value.is_u64(),
        "uniqueItems" | "deprecated" => value.is_boolean(),
        "dependentRequired" => value.as_object().is_some_and(|all| all.values().all(is_string_array)),
        _ => false,
    };
    valid.then(|| value.clone())
}

/// Validates the `type` keyword and removes duplicates.
fn types(value: &Value) -> Option<Value> {
    let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => {
            let mut unique: Vec<Value> = Vec::new();
            names.iter().filter(|name| known(name)).for_each(|name| {
                if !unique.contains(name) {
                    unique.push(name.clone());
                }
            });
            Some(Value::Array(unique)).filter(|_| names.iter().all(known))
        }
        name => known(name).then(|| name.clone()),
    }
}

fn required(value: &Value, hidden: &HashSet<&str>) -> Option<Value> {
    let mut names: Vec<&str> = Vec::new();
    for name in value.as_array()?.iter().filter_map(Value::as_str) {
        if !hidden.contains(name) && !names.contains(&name) {
            names.push(name);
        }
    }
    Some(Value::from(names))
}

fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn small_value(value: &Value) -> Option<Value> {
    is_small(value, MAX_EXAMPLE_BYTES).then(|| value.clone())
}

/// Returns whether the value is an empty list although an empty list is invalid or meaningless for this keyword.
fn is_empty_list(keyword: &str, value: &Value) -> bool {
    matches!(keyword, "required" | "type" | "allOf" | "anyOf" | "oneOf" | "prefixItems" | "examples")
        && value.as_array().is_some_and(Vec::is_empty)
}

/// Returns whether the size of a keyword's value must be counted with the keyword. The sizes of nested schemas are
/// counted when these schemas are converted.
fn is_leaf(keyword: &str) -> bool {
    matches!(
        keyword,
        "description"
            | "example"
            | "examples"
            | "default"
            | "required"
            | "pattern"
            | "enum"
            | "const"
            | "format"
            | "type"
            | "dependentRequired"
    )
}

/// Converts an exclusive bound of JSON Schema draft 4, which consists of a number and a Boolean flag.
fn convert_exclusive_bound(out: &mut Map<String, Value>, fields: &Map<String, Value>, flag: &str, bound: &str) {
    if fields.get(flag) == Some(&Value::Bool(true))
        && let Some(limit) = out.shift_remove(bound)
    {
        out.insert(flag.to_owned(), limit);
    }
}

/// Returns whether a value has at most `max_bytes` bytes and 12 levels of nesting.
pub(crate) fn is_small(value: &Value, max_bytes: usize) -> bool {
    estimate_size(value) <= max_bytes && is_shallow(value, 12)
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| is_shallow(field, levels - 1)),
        _ => true,
    }
}

/// Estimates the size of a value as JSON, in bytes. The parsers limit the depth, so the recursion is bounded.
fn estimate_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| estimate_size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + 4 + estimate_size(value)).sum::<usize>() + 2
        }
        _ => 6,
    }
}
