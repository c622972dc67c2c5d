//! Compares the references between steps with the schemas of their inputs and outputs.
//!
//! Only what a schema states is checked. A field that a schema neither lists nor forbids is accepted.

use std::collections::HashMap;

use serde_json::Value;
use toolwright_expr::{Expression, Reference, Template};

use super::references::{ReferencedValue, StepNames, StepReference};
use super::{GraphStep, HandlerKind, WorkflowGraph, WorkflowIssue};

/// The maximum number of issues that are reported.
const MAX_ISSUES: usize = 50;
/// The maximum number of `$ref`s that are followed one after the other.
const MAX_REFERENCES: usize = 16;

/// The schemas of a step, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct StepSchemas {
    /// The schema of the input of the tool.
    pub input: Option<Value>,
    /// The schema of the output of the step. For a `forEach`: of each item.
    pub output: Option<Value>,
}

impl WorkflowGraph {
    /// Compares the references of all steps with the schemas. `schemas` contains the schemas of each step, by position.
    pub fn check_types(&self, schemas: &HashMap<u32, StepSchemas>) -> Vec<WorkflowIssue> {
        let mut check = TypeCheck { graph: self, names: self.names(), schemas, issues: Vec::new() };
        for (at, step) in (0_u32..).zip(self.steps()) {
            check.step(at, step);
        }
        if let Some(output) = &self.definition().output {
            check.value("/output", output, None, &[]);
        }
        check.issues
    }
}

struct TypeCheck<'a> {
    graph: &'a WorkflowGraph,
    names: StepNames,
    schemas: &'a HashMap<u32, StepSchemas>,
    issues: Vec<WorkflowIssue>,
}

/// A part of a schema, with the schema that contains its definitions.
#[derive(Clone, Copy)]
struct Part<'a> {
    root: &'a Value,
    schema: &'a Value,
}

/// The result of looking up a field in a schema.
enum Field<'a> {
    Known(Part<'a>),
    /// The schema allows the field, but does not describe it.
    Open,
    /// The schema forbids the field.
    Forbidden,
}

impl TypeCheck<'_> {
    fn report(&mut self, issue: WorkflowIssue) {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(issue);
        }
    }

    fn step(&mut self, at: u32, step: &GraphStep) {
        let Some((_, definition)) = self.graph.step(at) else { return };
        let locals: &[&str] = if definition.for_each.is_some() { &["item", "index"] } else { &[] };
        let schemas = self.schemas;
        let expected = schemas.get(&at).and_then(|schemas| schemas.input.as_ref());
        let expected = expected.map(|schema| Part { root: schema, schema });
        // A mapping changes the input, so only the presence of the required fields is checked.
        let has_mapping = step.mappings.as_ref().is_some_and(|mappings| !mappings.input.is_empty());
        let path = format!("/steps/{at}/input");
        if let Some(input) = &definition.input {
            self.value(&path, input, expected.filter(|_| !has_mapping), locals);
        }
        if let (Some(expected), HandlerKind::Call { .. }) = (expected, &step.kind) {
            self.required(&path, step, definition.input.as_ref(), expected);
        }
        for (field, text) in [("condition", &definition.condition)] {
            if let Some(text) = text {
                self.value(&format!("/steps/{at}/{field}"), &Value::String(text.clone()), None, &[]);
            }
        }
        if let Some(for_each) = &definition.for_each {
            let path = format!("/steps/{at}/forEach");
            self.value(&path, &for_each.items, None, &[]);
            if let Some(types) = self.type_of_text(&for_each.items, &[])
                && !types.contains(&"array".to_owned())
            {
                let message = format!("must be a list, but its value is {}", types.join(" or "));
                self.report(WorkflowIssue::error("type_mismatch", path, message));
            }
        }
    }

    /// Checks that the input has the fields that the tool requires.
    fn required(&mut self, path: &str, step: &GraphStep, input: Option<&Value>, expected: Part<'_>) {
        let given = match input {
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            // The fields of another value are known only when the step runs.
            Some(_) => return,
        };
        // A computed key can be any field.
        if given.is_some_and(|fields| fields.keys().any(|key| key.contains("${"))) {
            return;
        }
        let Some(schema) = resolve(expected) else { return };
        let required = schema.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for field in required.filter_map(Value::as_str) {
            let has_default = matches!(
                field_of(schema, field), Field::Known(part) if resolve(part).is_some_and(|part| part.schema.get("default").is_some())
            );
            let mapped =
                step.mappings.as_ref().is_some_and(|mappings| mappings.input.iter().any(|(name, _)| name == field));
            if !has_default && !mapped && !given.is_some_and(|fields| fields.contains_key(field)) {
                let message = format!("step `{}` lacks the required input `{field}`", step.name);
                self.report(
                    WorkflowIssue::error("missing_input", path, message).hint(format!("add `{field}` to the input")),
                );
            }
        }
    }

    /// Checks the expressions in a value. `expected` is the schema that the value must match.
    fn value(&mut self, path: &str, value: &Value, expected: Option<Part<'_>>, locals: &[&str]) {
        let expected = expected.and_then(resolve);
        match value {
            Value::String(text) => self.text(path, text, expected, locals),
            Value::Array(items) => {
                let item = expected.and_then(|part| part.schema.get("items").map(|schema| Part { schema, ..part }));
                for (at, value) in items.iter().enumerate() {
                    self.value(&format!("{path}/{at}"), value, item, locals);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let field = match expected.map(|part| field_of(part, name)) {
                        Some(Field::Known(part)) => Some(part),
                        Some(Field::Forbidden) if !name.contains("${") => {
                            let message = format!("the tool has no input `{name}`");
                            self.report(WorkflowIssue::error("unknown_input", &path, message).hint("remove the field"));
                            None
                        }
                        _ => None,
                    };
                    self.value(&path, value, field, locals);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, path: &str, text: &str, expected: Option<Part<'_>>, locals: &[&str]) {
        let Ok(template) = Template::parse(text) else { return };
        for expression in template.expressions() {
            for reference in expression.references() {
                self.reference(path, expression, &reference, locals);
            }
        }
        let Some(wanted) = expected.map(types_of).filter(|types| !types.is_empty()) else { return };
        let found = match template.single() {
            Some(_) => self.type_of_text(&Value::String(text.to_owned()), locals),
            None if template.is_literal() => None,
            None => Some(vec!["string".to_owned()]),
        };
        if let Some(found) = found.filter(|found| !found.iter().any(|found| accepts(&wanted, found))) {
            let message = format!("`{text}` is {}, but the input must be {}", found.join(" or "), wanted.join(" or "));
            self.report(WorkflowIssue::error("type_mismatch", path, message));
        }
    }

    /// Checks that a reference reads a field that can exist.
    fn reference(&mut self, path: &str, expression: &Expression, reference: &Reference<'_>, locals: &[&str]) {
        let StepReference { value, fields } = self.names.resolve(reference, locals);
        let Some((schema, what, fields)) = self.target(&value, &fields) else { return };
        let mut part = Part { root: schema, schema };
        for field in fields {
            let Some(resolved) = resolve(part) else { return };
            match field_of(resolved, field) {
                Field::Known(next) => part = next,
                Field::Open => return,
                Field::Forbidden => {
                    let message = format!("`{}` reads `{field}`, which {what} does not have", expression.source());
                    let known = resolved.schema.get("properties").and_then(Value::as_object);
                    let names = known.into_iter().flat_map(|fields| fields.keys().map(String::as_str));
                    let hint = toolwright_types::closest_name(field, names);
                    let issue = WorkflowIssue::error("unknown_field", path, message);
                    self.report(match hint {
                        Some(name) => issue.hint(format!("did you mean `{name}`?")),
                        None => issue,
                    });
                    return;
                }
            }
        }
    }

    /// Returns the schema of a referenced value, a description of the value, and the fields that are read from it.
    fn target<'s>(
        &'s self,
        value: &ReferencedValue,
        fields: &'s [String],
    ) -> Option<(&'s Value, String, &'s [String])> {
        let output = |step: u32| {
            let is_list = self.graph.step(step)?.1.for_each.is_some();
            self.schemas.get(&step)?.output.as_ref().filter(|_| !is_list)
        };
        let name = |step: u32| {
            self.graph.step(step).map_or_else(String::new, |(step, _)| format!("the output of step `{}`", step.name))
        };
        match value {
            ReferencedValue::Input => {
                let schema = self.graph.definition().input_schema.as_ref()?;
                Some((schema, "the input of the workflow".to_owned(), fields))
            }
            ReferencedValue::Output(step) => Some((output(*step)?, name(*step), fields)),
            ReferencedValue::State(step) => match fields.split_first() {
                Some((field, rest)) if field == "output" => Some((output(*step)?, name(*step), rest)),
                _ => None,
            },
            ReferencedValue::AnyState | ReferencedValue::UnknownStep(_) | ReferencedValue::Local(_) => None,
        }
    }

    /// The types of a text that is a path in one expression. `None` if they are not known.
    fn type_of_text(&self, value: &Value, locals: &[&str]) -> Option<Vec<String>> {
        let template = Template::parse(value.as_str()?).ok()?;
        let expression = template.single().filter(|expression| expression.is_path())?;
        let references = expression.references();
        let [reference] = references.as_slice() else { return None };
        let StepReference { value, fields } = self.names.resolve(reference, locals);
        // The path of a reference ends before an index, so it may be longer than its fields.
        if expression.source().contains('[') {
            return None;
        }
        let (schema, _, fields) = self.target(&value, &fields)?;
        let mut part = Part { root: schema, schema };
        for field in fields {
            match field_of(resolve(part)?, field) {
                Field::Known(next) => part = next,
                Field::Open | Field::Forbidden => return None,
            }
        }
        Some(types_of(resolve(part)?)).filter(|types| !types.is_empty())
    }
}

/// Follows the `$ref`s of a schema within its document. `None` if the schema says nothing that can be checked.
fn resolve(mut part: Part<'_>) -> Option<Part<'_>> {
    for _ in 0..MAX_REFERENCES {
        let Some(reference) = part.schema.get("$ref").and_then(Value::as_str) else {
            return part.schema.is_object().then_some(part);
        };
        part.schema = part.root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

/// Looks up a field in a schema without a `$ref`.
fn field_of<'a>(part: Part<'a>, name: &str) -> Field<'a> {
    let known = part.schema.get("properties").and_then(|fields| fields.get(name));
    if let Some(schema) = known {
        return Field::Known(Part { schema, ..part });
    }
    let combines = ["anyOf", "oneOf", "allOf", "if", "patternProperties", "$dynamicRef"];
    if combines.iter().any(|keyword| part.schema.get(*keyword).is_some()) {
        return Field::Open;
    }
    let types = types_of(part);
    if !types.is_empty() && !types.iter().any(|name| name == "object") {
        // Lists and texts have fields such as `length`.
        let has_fields = types.iter().any(|name| name == "array" || name == "string");
        return if has_fields { Field::Open } else { Field::Forbidden };
    }
    match part.schema.get("additionalProperties") {
        Some(Value::Bool(false)) => Field::Forbidden,
        Some(schema @ Value::Object(_)) => Field::Known(Part { schema, ..part }),
        _ => Field::Open,
    }
}

/// The types that a schema lists.
fn types_of(part: Part<'_>) -> Vec<String> {
    match part.schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Whether a value of the type `found` can be a value of one of the types `wanted`.
fn accepts(wanted: &[String], found: &str) -> bool {
    let numbers = ["integer", "number"];
    wanted.iter().any(|wanted| wanted == found || (numbers.contains(&wanted.as_str()) && numbers.contains(&found)))
}
