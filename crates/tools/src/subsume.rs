//! Whether one schema accepts everything another lets through.
//!
//! The question is undecidable for all of JSON Schema; this answers it for what tool schemas are made of (types,
//! properties, required, enums, items, additional properties) and gives the benefit of the doubt elsewhere, because
//! the executor still validates each call against the definition and the implementation decodes into its own types.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// A place where the implementation would refuse what the definition lets through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at `{path}`: {what}")]
pub struct Mismatch {
    path: String,
    what: String,
}

/// Whether `general` accepts every value that `specific` accepts.
pub fn accepts(general: &Value, specific: &Value) -> Result<(), Mismatch> {
    Comparison { general_root: general, specific_root: specific, compared: HashSet::new() }.at("", general, specific)
}

struct Comparison<'a> {
    general_root: &'a Value,
    specific_root: &'a Value,
    /// The pairs of subschemas that were looked at, by address. One that comes up again inside itself holds if the rest
    /// does, which is how recursive schemas end, and in time that grows with their size and not with their paths.
    compared: HashSet<(usize, usize)>,
}

impl<'a> Comparison<'a> {
    fn at(&mut self, path: &str, general: &'a Value, specific: &'a Value) -> Result<(), Mismatch> {
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
            self.at(&format!("{path}/items"), general, specific)?;
        }
        Ok(())
    }

    fn types(&self, path: &str, general: &Map<String, Value>, specific: &Map<String, Value>) -> Result<(), Mismatch> {
        let (Some(wanted), Some(given)) = (types(general), types(specific)) else {
            return Ok(());
        };
        let fits = |given: &&str| wanted.contains(given) || (*given == "integer" && wanted.contains(&"number"));
        match given.iter().find(|given| !fits(given)) {
            Some(odd) => Err(mismatch(path, format!("takes {} but {odd} is let through", wanted.join(" or ")))),
            None => Ok(()),
        }
    }

    fn values(&self, path: &str, general: &Map<String, Value>, specific: &Map<String, Value>) -> Result<(), Mismatch> {
        let (Some(wanted), Some(given)) = (values(general), values(specific)) else {
            return Ok(());
        };
        match given.iter().find(|value| !wanted.contains(value)) {
            Some(odd) => Err(mismatch(path, format!("does not take the value {odd}"))),
            None => Ok(()),
        }
    }

    fn required(
        &self,
        path: &str,
        general: &Map<String, Value>,
        specific: &Map<String, Value>,
    ) -> Result<(), Mismatch> {
        // A definition without any object keywords makes no promise, and none can be held against it.
        if !["properties", "required", "type"].iter().any(|key| specific.contains_key(*key)) {
            return Ok(());
        }
        let always_given = names(specific, "required");
        match names(general, "required").into_iter().find(|name| !always_given.contains(name)) {
            Some(name) => Err(mismatch(path, format!("needs `{name}`, which the definition does not require"))),
            None => Ok(()),
        }
    }

    fn properties(
        &mut self,
        path: &str,
        general: &'a Map<String, Value>,
        specific: &'a Map<String, Value>,
    ) -> Result<(), Mismatch> {
        let known = general.get("properties").and_then(Value::as_object);
        let closed = general.get("additionalProperties") == Some(&Value::Bool(false));
        for (name, given) in specific.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let at = format!("{path}/properties/{name}");
            match known.and_then(|known| known.get(name)) {
                Some(wanted) => self.at(&at, wanted, given)?,
                None if closed => return Err(mismatch(&at, "is not known to the implementation".into())),
                None => {}
            }
        }
        Ok(())
    }
}

fn mismatch(path: &str, what: String) -> Mismatch {
    Mismatch { path: if path.is_empty() { "/".into() } else { path.into() }, what }
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    reference.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn is_open(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(several) => Some(several.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(several)), _) => Some(several.iter().collect()),
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
    fn a_schema_accepts_what_is_narrower_than_itself() {
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
            assert_eq!(accepts(&general, &specific).is_ok(), fits, "{general} ⊒ {specific}");
        }
    }

    #[test]
    fn a_recursive_schema_ends() {
        let tree = json!({ "properties": { "child": { "$ref": "#" } }, "type": "object" });
        let mut other = tree.clone();
        other["description"] = json!("differs, so that equality does not settle it");
        assert!(accepts(&tree, &other).is_ok());
    }

    #[test]
    fn a_schema_that_refers_to_itself_in_many_places_ends_soon() {
        let wide = |note: &str| {
            let properties: Map<String, Value> = (0..30).map(|n| (format!("p{n}"), json!({ "$ref": "#" }))).collect();
            json!({ "type": "object", "properties": properties, "description": note })
        };
        assert!(accepts(&wide("a"), &wide("b")).is_ok());
        let mut strict = wide("c");
        strict["required"] = json!(["p7"]);
        assert!(accepts(&strict, &wide("b")).is_err());
    }
}
