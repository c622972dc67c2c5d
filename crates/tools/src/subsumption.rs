//! Checks whether one schema accepts every value that another accepts (subsumption).
//!
//! The question is undecidable for JSON Schema in general. This module answers it for the keywords that tool schemas
//! use: types, properties, required, enums, items and additional properties. All other keywords are assumed to be
//! compatible. This is safe, because the executor validates each call against the definition, and the implementation
//! decodes the input into its own types.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// A path in the schema where the implementation rejects a value that the definition allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at `{path}`: {problem}")]
pub struct SchemaMismatch {
    path: String,
    problem: String,
}

/// Checks that `general` accepts every value that `specific` accepts, with the defaults of `specific` filled in.
pub fn check_accepts(general: &Value, specific: &Value) -> Result<(), SchemaMismatch> {
    Comparison { general_root: general, specific_root: specific, compared: HashSet::new() }
        .compare("", general, specific)
}

struct Comparison<'a> {
    general_root: &'a Value,
    specific_root: &'a Value,
    /// The pairs of subschemas that were already compared, by address. A pair that occurs again is skipped, because it
    /// adds no condition. So the comparison of recursive schemas ends. Its time grows with the size of the schemas and
    /// not with the number of paths through them.
    compared: HashSet<(usize, usize)>,
}

impl<'a> Comparison<'a> {
    fn compare(&mut self, path: &str, general: &'a Value, specific: &'a Value) -> Result<(), SchemaMismatch> {
        let (general, specific) = (resolve(self.general_root, general), resolve(self.specific_root, specific));
        let pair = (std::ptr::from_ref(general).addr(), std::ptr::from_ref(specific).addr());
        if !self.compared.insert(pair) || general == specific || is_open(general) || specific == &Value::Bool(false) {
            return Ok(());
        }
        let (Some(general), Some(specific)) = (general.as_object(), specific.as_object()) else {
            return Ok(());
        };
        self.types(path, general, specific)?;
        self.values(path, general, specific)?;
        self.required(path, general, specific)?;
        self.properties(path, general, specific)?;
        if let (Some(general), Some(specific)) = (general.get("items"), specific.get("items")) {
            self.compare(&format!("{path}/items"), general, specific)?;
        }
        Ok(())
    }

    fn types(
        &self,
        path: &str,
        general: &Map<String, Value>,
        specific: &Map<String, Value>,
    ) -> Result<(), SchemaMismatch> {
        let (Some(wanted), Some(given)) = (types(general), types(specific)) else {
            return Ok(());
        };
        let fits = |given: &&str| wanted.contains(given) || (*given == "integer" && wanted.contains(&"number"));
        match given.iter().find(|given| !fits(given)) {
            Some(unexpected) => {
                Err(mismatch(path, format!("accepts {} but the definition allows {unexpected}", wanted.join(" or "))))
            }
            None => Ok(()),
        }
    }

    fn values(
        &self,
        path: &str,
        general: &Map<String, Value>,
        specific: &Map<String, Value>,
    ) -> Result<(), SchemaMismatch> {
        let (Some(wanted), Some(given)) = (values(general), values(specific)) else {
            return Ok(());
        };
        match given.iter().find(|value| !wanted.contains(value)) {
            Some(unexpected) => Err(mismatch(path, format!("does not accept the value {unexpected}"))),
            None => Ok(()),
        }
    }

    fn required(
        &self,
        path: &str,
        general: &Map<String, Value>,
        specific: &Map<String, Value>,
    ) -> Result<(), SchemaMismatch> {
        // A definition without object keywords does not say which properties callers send. So the implementation may
        // require properties that such a definition does not require.
        if !["properties", "required", "type"].iter().any(|key| specific.contains_key(*key)) {
            return Ok(());
        }
        let always_given = names(specific, "required");
        // The executor fills in the defaults of the outermost properties before it calls the implementation.
        let has_default = |name: &str| {
            path.is_empty()
                && self.specific_root.pointer(&format!("/properties/{}", escape(name))).is_some_and(has_default)
        };
        match names(general, "required").into_iter().find(|name| !always_given.contains(name) && !has_default(name)) {
            Some(name) => Err(mismatch(path, format!("requires `{name}`, but the definition does not"))),
            None => Ok(()),
        }
    }

    fn properties(
        &mut self,
        path: &str,
        general: &'a Map<String, Value>,
        specific: &'a Map<String, Value>,
    ) -> Result<(), SchemaMismatch> {
        let known = general.get("properties").and_then(Value::as_object);
        let closed = general.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, given) in specific.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let property = format!("{path}/properties/{name}");
            match known.and_then(|known| known.get(name)) {
                Some(wanted) => self.compare(&property, wanted, given)?,
                None if closed => return Err(mismatch(&property, "is unknown to the implementation".into())),
                None => {}
            }
        }
        Ok(())
    }
}

fn mismatch(path: &str, problem: String) -> SchemaMismatch {
    SchemaMismatch { path: if path.is_empty() { "/".into() } else { path.into() }, problem }
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    reference.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn has_default(schema: &Value) -> bool {
    schema.get("default").is_some()
}

/// Escapes a name for a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_open(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(list) => Some(list.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(list)), _) => Some(list.iter().collect()),
        (_, Some(one)) => Some(vec![one]),
        _ => None,
    }
}

fn names<'a>(schema: &'a Map<String, Value>, key: &str) -> Vec<&'a str> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subsumption_check_passes_only_if_the_specific_schema_is_narrower() {
        let object = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
        for (general, specific, fits) in [
            (json!({}), json!({ "type": "string" }), true),
            (json!({ "type": "number" }), json!({ "type": "integer" }), true),
            (json!({ "type": "integer" }), json!({ "type": "number" }), false),
            (json!({ "type": ["string", "null"] }), json!({ "type": "string" }), true),
            (json!({ "enum": ["a", "b"] }), json!({ "enum": ["a"] }), true),
            (json!({ "enum": ["a"] }), json!({ "enum": ["a", "b"] }), false),
            (object(json!({ "a": {} }), json!(["a"])), object(json!({ "a": {} }), json!([])), false),
            (object(json!({ "a": {} }), json!([])), object(json!({ "a": {}, "b": {} }), json!(["a"])), true),
            (json!({ "properties": {}, "additionalProperties": false }), json!({ "properties": { "x": {} } }), false),
            (json!({ "items": { "type": "string" } }), json!({ "items": { "type": "number" } }), false),
            (
                json!({ "$ref": "#/$defs/t", "$defs": { "t": { "type": "string" } } }),
                json!({ "type": "number" }),
                false,
            ),
        ] {
            assert_eq!(check_accepts(&general, &specific).is_ok(), fits, "{general} ⊒ {specific}");
        }
    }

    #[test]
    fn property_with_a_default_counts_as_given_only_at_the_top_level() {
        let with_default = json!({ "type": "object", "properties": { "a/b": { "type": "string", "default": "x" } } });
        let requires = json!({ "type": "object", "properties": { "a/b": { "type": "string" } }, "required": ["a/b"] });
        assert!(check_accepts(&requires, &with_default).is_ok());
        let within = |schema: &Value| json!({ "type": "object", "properties": { "outer": schema } });
        assert!(
            check_accepts(&within(&requires), &within(&with_default)).is_err(),
            "nested defaults are not filled in"
        );
    }

    #[test]
    fn comparison_of_recursive_schemas_ends() {
        let tree = json!({ "properties": { "child": { "$ref": "#" } }, "type": "object" });
        let mut other = tree.clone();
        other["description"] = json!("makes the two schemas unequal");
        assert!(check_accepts(&tree, &other).is_ok());
    }

    #[test]
    fn comparison_of_schemas_with_many_self_references_ends() {
        let wide = |note: &str| {
            let properties: Map<String, Value> = (0..30).map(|n| (format!("p{n}"), json!({ "$ref": "#" }))).collect();
            json!({ "type": "object", "properties": properties, "description": note })
        };
        assert!(check_accepts(&wide("a"), &wide("b")).is_ok());
        let mut strict = wide("c");
        strict["required"] = json!(["p7"]);
        assert!(check_accepts(&strict, &wide("b")).is_err());
    }
}
