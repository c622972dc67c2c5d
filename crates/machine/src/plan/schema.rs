//! The JSON Schema of the plans for a sequence of tools.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::SequenceStep;

/// The pattern of a string that consists of one expression.
const EXPRESSION_PATTERN: &str = r"^\$\{.+\}$";
/// The pattern of a string that contains an expression.
const WITH_EXPRESSION_PATTERN: &str = r"\$\{";

/// Returns the schema of the plans for a sequence. `schemas` contains the input schema of each step's tool, in the same
/// order.
///
/// Each parameter may have the value that the tool's schema describes, or be an expression. The executor validates each
/// input with the tool's own schema after the expressions are evaluated.
pub fn plan_schema(sequence: &[SequenceStep], schemas: &[Value]) -> Value {
    let mut definitions = Map::new();
    let steps: Vec<Value> = sequence
        .iter()
        .zip(schemas)
        .map(|(step, schema)| {
            // The definitions of a tool's schema are renamed, because the schemas of two tools can use the same
            // definition name.
            let prefix = format!("step{}_", step.step);
            let root = adapt(schema, &prefix);
            let own = schema.get("$defs").or_else(|| schema.get("definitions")).and_then(Value::as_object);
            for (name, definition) in own.into_iter().flatten() {
                definitions.insert(format!("{prefix}{name}"), or_expression(adapt(definition, &prefix)));
            }
            step_schema(step, root)
        })
        .collect();
    let mut schema = json!({
        "type": "object",
        "properties": {
            "reasoning": { "type": ["string", "null"], "description": "Why this plan fulfils the task." },
            "steps": { "type": "array", "minItems": 1, "items": { "anyOf": steps } },
        },
        "required": ["steps"],
        "additionalProperties": false,
    });
    if let (false, Some(fields)) = (definitions.is_empty(), schema.as_object_mut()) {
        fields.insert("$defs".into(), Value::Object(definitions));
    }
    schema
}

/// Returns the schema of each step in the schema of a plan, without the alternatives for expressions. A violation of
/// such a schema names the exact field, but it may concern a value that is an expression.
pub fn step_schemas(plan_schema: &Value) -> BTreeMap<u32, Value> {
    let definitions = plan_schema.get("$defs").map(without_expressions);
    let steps = plan_schema.pointer("/properties/steps/items/anyOf").and_then(Value::as_array).into_iter().flatten();
    let schemas = steps.filter_map(|step| {
        let number = step.pointer("/properties/step/const")?.as_u64()?;
        let mut schema = without_expressions(step);
        if let (Some(fields), Some(definitions)) = (schema.as_object_mut(), &definitions) {
            fields.insert("$defs".into(), definitions.clone());
        }
        Some((u32::try_from(number).ok()?, schema))
    });
    schemas.collect()
}

/// Replaces each choice that [`or_expression`] created by the schema of the value.
fn without_expressions(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let choice = fields.get("anyOf").filter(|_| fields.len() == 1).and_then(Value::as_array);
            if let Some([value, alternative]) = choice.map(Vec::as_slice)
                && *alternative == expression()
            {
                return without_expressions(value);
            }
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), without_expressions(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_expressions).collect()),
        other => other.clone(),
    }
}

/// The schema of a string that contains an expression.
fn expression() -> Value {
    json!({ "type": "string", "pattern": WITH_EXPRESSION_PATTERN })
}

fn step_schema(step: &SequenceStep, parameters: Value) -> Value {
    let expression = |description: &str| json!({ "type": ["string", "null"], "description": description });
    json!({
        "type": "object",
        "description": format!("{}: {}", step.tool, step.purpose),
        "properties": {
            "step": { "const": step.step },
            "parameters": parameters,
            "when": expression("An expression. The step is skipped if it is false."),
            "forEach": expression("An expression with a list. The tool is called once for each `item`."),
            "paging": {
                "type": ["object", "null"],
                "description": "How to read all pages of a list. `page` is the output of the latest call.",
                "properties": {
                    "items": { "type": "string", "pattern": EXPRESSION_PATTERN },
                    "next": { "type": "object", "description": "Parameters that request the next page." },
                },
                "required": ["items", "next"],
                "additionalProperties": false,
            },
            "reasoning": { "type": ["string", "null"], "description": "Why the step has these parameters." },
        },
        "required": ["step", "parameters"],
        "additionalProperties": false,
    })
}

/// Adapts the schema of a tool's input: each property may be an expression, and references point to the renamed
/// definitions. Keywords that could reject an expression in place of a value, such as `not`, are left out. The executor
/// checks them later.
fn adapt(schema: &Value, prefix: &str) -> Value {
    let Some(fields) = schema.as_object() else { return json!({}) };
    let mut adapted = Map::new();
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("$ref", Value::String(target)) => {
                let name = target.strip_prefix("#/$defs/").or_else(|| target.strip_prefix("#/definitions/"));
                let Some(name) = name else { return json!({}) };
                adapted.insert("$ref".into(), json!(format!("#/$defs/{prefix}{name}")));
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties
                    .iter()
                    .map(|(name, property)| (name.clone(), or_expression(adapt(property, prefix))))
                    .collect();
                adapted.insert(keyword.clone(), Value::Object(properties));
            }
            ("items", Value::Object(_)) => {
                adapted.insert(keyword.clone(), or_expression(adapt(value, prefix)));
            }
            ("additionalProperties", Value::Object(_)) => {
                adapted.insert(keyword.clone(), or_expression(adapt(value, prefix)));
            }
            (
                "type"
                | "enum"
                | "const"
                | "required"
                | "additionalProperties"
                | "description"
                | "title"
                | "minimum"
                | "maximum"
                | "minLength"
                | "maxLength"
                | "pattern"
                | "format"
                | "default"
                | "minItems"
                | "maxItems",
                _,
            ) => {
                adapted.insert(keyword.clone(), value.clone());
            }
            ("anyOf" | "oneOf", Value::Array(options)) => {
                let options = options.iter().map(|option| adapt(option, prefix)).collect();
                adapted.insert("anyOf".into(), Value::Array(options));
            }
            _ => {}
        }
    }
    Value::Object(adapted)
}

/// Returns a schema that accepts expressions and all values that `schema` accepts.
fn or_expression(schema: Value) -> Value {
    match schema.as_object() {
        Some(fields) if fields.is_empty() => schema,
        _ => json!({ "anyOf": [schema, expression()] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_schema_allows_expressions_and_prefixes_definition_names_with_the_step() {
        let sequence = [1, 2].map(|step| SequenceStep { step, tool: format!("t{step}"), purpose: "p".into() });
        let stage = json!({
            "type": "object", "required": ["stage"], "additionalProperties": false,
            "properties": { "stage": { "$ref": "#/$defs/Stage" }, "ids": { "type": "array", "items": { "type": "integer" } } },
            "$defs": { "Stage": { "enum": ["new", "won"] } },
        });
        let schema = plan_schema(&sequence, &[json!({}), stage]);
        assert_eq!(schema["$defs"]["step2_Stage"]["anyOf"][0], json!({ "enum": ["new", "won"] }));
        let parameters = &schema["properties"]["steps"]["items"]["anyOf"][1]["properties"]["parameters"];
        assert_eq!(parameters["properties"]["stage"]["anyOf"][0], json!({ "$ref": "#/$defs/step2_Stage" }));
        assert_eq!(parameters["properties"]["ids"]["anyOf"][0]["items"]["anyOf"][0], json!({ "type": "integer" }));
        assert_eq!(parameters["required"], json!(["stage"]));
        let steps = step_schemas(&schema);
        assert_eq!(steps[&2]["properties"]["parameters"]["properties"]["ids"]["items"], json!({ "type": "integer" }));
        assert_eq!(steps[&2]["$defs"]["step2_Stage"], json!({ "enum": ["new", "won"] }));
        assert_eq!(steps[&1]["properties"]["step"], json!({ "const": 1 }));
    }
}
