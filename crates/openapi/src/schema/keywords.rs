//! The keywords of a schema, one by one. What is not known is left out, and so is what cannot be what it should be: a
//! description of an API may hold anything.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Converter, Direction, nullable, pattern};
use crate::document::Dialect;
use crate::reference::Lost;
use crate::text::shortened;

/// The types that JSON Schema knows.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/// The longest text about a property, in characters.
const LONGEST_TEXT: usize = 500;
/// A default or an example that is larger helps nobody.
const LARGEST_EXAMPLE: usize = 512;

impl<'d> Converter<'d> {
    pub(super) fn keywords(
        &mut self,
        fields: &'d Map<String, Value>,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<Value, Lost> {
        let mut all: HashSet<&'d str> = self.hidden(fields);
        all.extend(hidden);
        let mut out = Map::new();
        for (keyword, value) in fields {
            self.keyword(&mut out, keyword, value, depth, &all)?;
        }
        if self.document.dialect == Dialect::V30 {
            exclusive(&mut out, fields, "exclusiveMinimum", "minimum");
            exclusive(&mut out, fields, "exclusiveMaximum", "maximum");
        }
        // Also in 3.1, where it means nothing: whoever wrote it there meant it.
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            return Ok(nullable::or_null(out));
        }
        Ok(Value::Object(out))
    }

    pub(super) fn keyword(
        &mut self,
        out: &mut Map<String, Value>,
        keyword: &str,
        value: &'d Value,
        depth: usize,
        hidden: &HashSet<&'d str>,
    ) -> Result<(), Lost> {
        let next = depth + 1;
        let converted = match keyword {
            "properties" => self.properties(value, next, hidden)?,
            "patternProperties" => self.by_pattern(value, next)?,
            "dependentSchemas" => self.map(value, next)?,
            "allOf" => self.list(value, next, hidden)?,
            "anyOf" | "oneOf" | "prefixItems" => self.list(value, next, &HashSet::new())?,
            // Draft 4 wrote a tuple so.
            "items" if value.is_array() => {
                let tuple = self.list(value, next, &HashSet::new())?;
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
                Some(self.schema(value, next, &HashSet::new())?)
            }
            "description" if self.direction == Direction::Output => None,
            "description" => value.as_str().map(|text| Value::from(shortened(text, LONGEST_TEXT))),
            "example" | "examples" | "default" if self.direction == Direction::Output => None,
            "example" => example(value).map(|example| Value::Array(vec![example])),
            "examples" => value.as_array().map(|all| all.iter().filter_map(example).take(3).collect()),
            "default" => example(value),
            "required" => required(value, hidden),
            "pattern" => self.pattern(value),
            _ => plain(keyword, value),
        };
        if let Some(converted) = converted.filter(|converted| !is_empty_list(keyword, converted)) {
            self.spent += keyword.len() + 4 + if is_leaf(keyword) { weight(&converted) } else { 0 };
            out.insert(keyword.to_owned(), converted);
            if keyword == "example" {
                let examples = out.shift_remove("example");
                out.entry("examples").or_insert(examples.unwrap_or_default());
            }
        }
        Ok(())
    }

    fn properties(&mut self, value: &'d Value, depth: usize, hidden: &HashSet<&'d str>) -> Result<Option<Value>, Lost> {
        let Value::Object(properties) = value else { return Ok(None) };
        let mut out = Map::new();
        for (name, property) in properties.iter().filter(|(name, _)| !hidden.contains(name.as_str())) {
            self.spent += name.len() + 4;
            out.insert(name.clone(), self.schema(property, depth, &HashSet::new())?);
        }
        Ok(Some(Value::Object(out)))
    }

    fn by_pattern(&mut self, value: &'d Value, depth: usize) -> Result<Option<Value>, Lost> {
        let Value::Object(schemas) = value else { return Ok(None) };
        let mut out = Map::new();
        for (name, schema) in schemas {
            if !pattern::is_usable(name) {
                self.patterns_lost = true;
                continue;
            }
            self.spent += name.len() + 4;
            out.insert(name.clone(), self.schema(schema, depth, &HashSet::new())?);
        }
        Ok(Some(Value::Object(out)))
    }

    fn map(&mut self, value: &'d Value, depth: usize) -> Result<Option<Value>, Lost> {
        self.properties(value, depth, &HashSet::new())
    }

    fn list(&mut self, value: &'d Value, depth: usize, hidden: &HashSet<&'d str>) -> Result<Option<Value>, Lost> {
        let Value::Array(schemas) = value else { return Ok(None) };
        let converted: Result<Vec<Value>, Lost> =
            schemas.iter().map(|schema| self.schema(schema, depth, hidden)).collect();
        converted.map(|all| Some(Value::Array(all)))
    }

    fn pattern(&mut self, value: &Value) -> Option<Value> {
        let usable = pattern::is_usable(value.as_str()?);
        self.patterns_lost |= !usable;
        usable.then(|| value.clone())
    }
}

/// The keywords whose values are taken as they are, if they are of the right kind.
fn plain(keyword: &str, value: &Value) -> Option<Value> {
    let fits = match keyword {
        "type" => return types(value),
        "enum" => value.as_array().is_some_and(|all| !all.is_empty()) && is_small(value, 64 << 10),
        "const" => is_small(value, LARGEST_EXAMPLE),
        "format" | "contentEncoding" | "contentMediaType" => value.as_str().is_some_and(|text| text.len() <= 128),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => value.is_u64(),
        "uniqueItems" | "deprecated" => value.is_boolean(),
        "dependentRequired" => value.as_object().is_some_and(|all| all.values().all(is_names)),
        _ => false,
    };
    fits.then(|| value.clone())
}

/// The types that exist among those that are named.
fn types(value: &Value) -> Option<Value> {
    let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => {
            let mut kept: Vec<Value> = Vec::new();
            names.iter().filter(|name| known(name)).for_each(|name| {
                if !kept.contains(name) {
                    kept.push(name.clone());
                }
            });
            Some(Value::Array(kept)).filter(|_| names.iter().all(known))
        }
        one => known(one).then(|| one.clone()),
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

fn is_names(value: &Value) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

fn example(value: &Value) -> Option<Value> {
    is_small(value, LARGEST_EXAMPLE).then(|| value.clone())
}

/// Lists that must not be empty, or say nothing when they are.
fn is_empty_list(keyword: &str, value: &Value) -> bool {
    matches!(keyword, "required" | "type" | "allOf" | "anyOf" | "oneOf" | "prefixItems" | "examples")
        && value.as_array().is_some_and(Vec::is_empty)
}

/// Keywords that hold no schemas; those pay for themselves.
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

/// Draft 4 wrote an exclusive bound as a bound and a flag.
fn exclusive(out: &mut Map<String, Value>, fields: &Map<String, Value>, flag: &str, bound: &str) {
    if fields.get(flag) == Some(&Value::Bool(true))
        && let Some(limit) = out.shift_remove(bound)
    {
        out.insert(flag.to_owned(), limit);
    }
}

/// Whether a value is neither large nor deep.
pub(crate) fn is_small(value: &Value, most: usize) -> bool {
    weight(value) <= most && is_shallow(value, 12)
}

fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| is_shallow(field, levels - 1)),
        _ => true,
    }
}

/// About how many bytes a value has. Values nest no deeper than their readers allow.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>() + 2,
        _ => 6,
    }
}
