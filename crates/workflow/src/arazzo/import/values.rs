//! Values of a document: constants, runtime expressions and texts with embedded expressions.

use serde_json::{Map, Value};

use super::super::expression::{Runtime, TextPart, is_runtime, split_text};
use super::super::path::{PathKey, ValuePath, pointer_keys};
use super::super::problem::join;
use super::workflow::Scope;
use crate::arazzo::Problem;

/// The maximum number of outputs that refer to each other.
const MAX_REFERENCES: usize = 30;
/// The maximum depth of a value.
const MAX_DEPTH: usize = 100;

/// What a runtime expression stands for.
pub(super) enum Resolved {
    Path(ValuePath),
    Constant(String),
}

/// The step that contains an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    /// The position of the step. `None` for the outputs of the workflow.
    pub step: Option<usize>,
    /// Whether the step has ended, so that its own outputs and its response can be read.
    pub ended: bool,
}

impl Scope<'_> {
    /// Finds what a runtime expression stands for.
    pub(crate) fn resolve(&self, text: &str, reader: Reader) -> Result<Resolved, String> {
        self.resolve_within(text, reader, MAX_REFERENCES)
    }

    fn resolve_within(&self, text: &str, reader: Reader, limit: usize) -> Result<Resolved, String> {
        let limit = limit.checked_sub(1).ok_or("the outputs refer to each other")?;
        let path = match Runtime::parse(text)? {
            Runtime::Input(name) => {
                let split = name.split(|name| self.has_input(name)).or_else(|| name.whole());
                let (name, mut keys) = split.ok_or_else(|| {
                    format!("the inputs do not declare `{}`; declare it, or write `$inputs.NAME#/PATH`", name.text())
                })?;
                keys.insert(0, PathKey::Field(name.to_owned()));
                ValuePath::input(keys)
            }
            Runtime::StepOutput { step, name } => {
                let at = self.position(step).ok_or_else(|| format!("step `{step}` does not exist"))?;
                let is_readable = reader.step.is_none_or(|own| at < own || at == own && reader.ended);
                if !is_readable {
                    return Err(format!("step `{step}` has not run before this step"));
                }
                let outputs = self.outputs(at);
                let split = name.split(|name| outputs.is_some_and(|outputs| outputs.contains_key(name)));
                let (name, keys) = split.ok_or_else(|| format!("step `{step}` has no output `{}`", name.text()))?;
                let output = outputs.and_then(|outputs| outputs.get(name)).unwrap_or(&Value::Null);
                let own = Reader { step: Some(at), ended: true };
                return match self.resolve_output(output, own, limit)? {
                    Resolved::Path(mut path) => {
                        path.keys.extend(keys);
                        Ok(Resolved::Path(path))
                    }
                    Resolved::Constant(_) if !keys.is_empty() => {
                        Err(format!("output `{name}` is a text without fields"))
                    }
                    constant => Ok(constant),
                };
            }
            Runtime::WorkflowOutput { workflow, name } => {
                let step = self.dependency(workflow).ok_or_else(|| {
                    format!("`{workflow}` is not in `dependsOn`; execute it in a step with `workflowId`")
                })?;
                let (name, mut keys) = self.workflow_output(workflow, &name)?;
                keys.insert(0, PathKey::Field(name));
                ValuePath::output(step, keys)
            }
            Runtime::Output(name) => {
                let own = reader.step.filter(|_| reader.ended);
                let called = own.and_then(|at| Some((self.name(at)?, self.called_workflow(at)?)));
                let (step, workflow) = called
                    .ok_or("`$outputs` can only be read in the outputs and criteria of a step with `workflowId`")?;
                let (name, mut keys) = self.workflow_output(workflow, &name)?;
                keys.insert(0, PathKey::Field(name));
                ValuePath::output(step, keys)
            }
            Runtime::ResponseBody(keys) => {
                let own = reader.step.filter(|_| reader.ended);
                let own = own.ok_or("`$response` can only be read in the outputs and criteria of its step")?;
                if self.called_workflow(own).is_some() {
                    return Err("a step with `workflowId` has `$outputs`, but no response".to_owned());
                }
                ValuePath::output(self.name(own).unwrap_or_default(), keys)
            }
            Runtime::Source { name, field } => return self.source_field(name, field).map(Resolved::Constant),
        };
        Ok(Resolved::Path(path))
    }

    /// Resolves the value of an output: a runtime expression or a selector.
    pub(crate) fn output(&self, value: &Value, reader: Reader) -> Result<Resolved, String> {
        self.resolve_output(value, reader, MAX_REFERENCES)
    }

    fn resolve_output(&self, value: &Value, reader: Reader, limit: usize) -> Result<Resolved, String> {
        match value {
            Value::String(text) if is_runtime(text) => self.resolve_within(text, reader, limit),
            Value::Object(fields) => match self.selector(fields, reader, limit) {
                Some(selected) => selected.map(Resolved::Path),
                None => Err(NOT_AN_OUTPUT.to_owned()),
            },
            _ => Err(NOT_AN_OUTPUT.to_owned()),
        }
    }

    /// Resolves a selector object of Arazzo 1.1. `None` if the object is not a selector.
    fn selector(&self, fields: &Map<String, Value>, reader: Reader, limit: usize) -> Option<Result<ValuePath, String>> {
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let (context, selector, kind) = (text("context")?, text("selector")?, fields.get("type")?);
        let is_selector = self.is_1_1 && fields.len() == 3 && is_runtime(context);
        is_selector.then(|| {
            let keys = match kind.as_str() {
                Some("jsonpointer") => pointer_keys(selector),
                Some("jsonpath") => match selector.strip_prefix('$') {
                    Some(rest) => super::super::path::accessor_keys(rest).ok_or_else(|| {
                        format!("`{selector}` may select several values; select one by fields and indexes")
                    }),
                    None => Err("a JSONPath must begin with `$`".to_owned()),
                },
                _ => Err("only selectors of the types `jsonpointer` and `jsonpath` can be converted".to_owned()),
            }?;
            match self.resolve_within(context, reader, limit)? {
                Resolved::Path(mut path) => {
                    path.keys.extend(keys);
                    Ok(path)
                }
                Resolved::Constant(_) => Err("the context of a selector must be structured data".to_owned()),
            }
        })
    }

    /// Converts a value. Texts can be runtime expressions or contain them.
    pub(crate) fn value(&self, value: &Value, path: &str, reader: Reader) -> Result<Value, Problem> {
        self.value_within(value, path, reader, 0)
    }

    fn value_within(&self, value: &Value, path: &str, reader: Reader, depth: usize) -> Result<Value, Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::new(path, format!("must not be nested more than {MAX_DEPTH} times")));
        }
        match value {
            Value::String(text) => self.text(text, reader).map(Value::String).map_err(|why| Problem::new(path, why)),
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.map(|(at, item)| self.value_within(item, &format!("{path}/{at}"), reader, depth + 1)).collect()
            }
            Value::Object(fields) => {
                if let Some(selected) = self.selector(fields, reader, MAX_REFERENCES) {
                    let selected = selected.map_err(|why| Problem::new(path, why))?;
                    return Ok(Value::String(placeholder(&selected)));
                }
                let fields = fields.iter().map(|(key, value)| {
                    Ok((escape(key, false), self.value_within(value, &join(path, key), reader, depth + 1)?))
                });
                Ok(Value::Object(fields.collect::<Result<_, Problem>>()?))
            }
            other => Ok(other.clone()),
        }
    }

    fn text(&self, text: &str, reader: Reader) -> Result<String, String> {
        if is_runtime(text) {
            return Ok(match self.resolve(text, reader)? {
                Resolved::Path(path) => placeholder(&path),
                Resolved::Constant(constant) => escape(&constant, false),
            });
        }
        let parts = split_text(text);
        let mut out = String::new();
        for (at, part) in parts.iter().enumerate() {
            match part {
                TextPart::Constant(constant) => out.push_str(&escape(constant, at + 1 < parts.len())),
                TextPart::Embedded(expression) => match self.resolve(expression, reader)? {
                    // Without other text, a placeholder would keep the type of its value. An embedded value is a text.
                    Resolved::Path(path) if parts.len() == 1 => {
                        out.push_str(&format!("${{string({})}}", path.to_expression()));
                    }
                    Resolved::Path(path) => out.push_str(&placeholder(&path)),
                    Resolved::Constant(constant) => out.push_str(&escape(&constant, at + 1 < parts.len())),
                },
            }
        }
        Ok(out)
    }
}

const NOT_AN_OUTPUT: &str = "an output must be a runtime expression, such as `$response.body#/id`, or a selector";

pub(super) fn placeholder(path: &ValuePath) -> String {
    format!("${{{}}}", path.to_expression())
}

/// Escapes a constant so that no part of it is read as a placeholder. A final `$` before a placeholder is escaped too,
/// because `$` and `${` would form the escape `$${`.
fn escape(text: &str, before_placeholder: bool) -> String {
    let escaped = text.replace("${", "$${");
    match escaped.strip_suffix('$') {
        Some(rest) if before_placeholder => format!("{rest}${{'$'}}"),
        _ => escaped,
    }
}
