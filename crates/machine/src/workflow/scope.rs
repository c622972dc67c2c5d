//! Evaluates the values of steps against the state of a run.

use serde_json::{Map, Value, json};
use toolwright_expr::{EvalError, Scope};

use super::graph::CompiledMappings;
use super::references::{CompiledValue, StatesRead};
use super::state::{StepRun, WorkflowState};
use super::{WorkflowGraph, WorkflowSpec};

/// The values that expressions of a step can read.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    pub spec: &'a WorkflowSpec,
    pub state: &'a WorkflowState,
    /// The item of a `forEach`, and its index.
    pub item: Option<(&'a Value, &'a Value)>,
}

impl StepContext<'_> {
    /// Evaluates a value.
    pub(crate) fn evaluate(&self, value: &CompiledValue) -> Result<Value, EvalError> {
        let Some(template) = &value.template else { return Ok(Value::Null) };
        let states = self.states(&value.states);
        let mut scope = Scope::new(&self.spec.input).with("steps", &states);
        for (name, step) in &value.outputs {
            scope = scope.with(name, self.state.step(*step).map_or(&Value::Null, |step| &step.output));
        }
        if let Some((item, index)) = self.item {
            scope = scope.with("item", item).with("index", index);
        }
        template.render(&scope).map(|rendered| rendered.value)
    }

    /// Evaluates a condition. An absent value counts as false.
    pub(crate) fn condition(&self, value: &CompiledValue) -> Result<bool, String> {
        match self.evaluate(value).map_err(|error| error.to_string())? {
            Value::Bool(truth) => Ok(truth),
            Value::Null => Ok(false),
            other => Err(format!("a condition must be true or false, got {}", kind_of(&other))),
        }
    }

    /// The value of `steps`.
    fn states(&self, read: &StatesRead) -> Value {
        let graph: &WorkflowGraph = &self.spec.graph;
        let state = |step: u32| Some((graph.step(step)?.0.name.clone(), step_state(self.state.step(step)?)));
        let states: Map<String, Value> = match read {
            StatesRead::Only(steps) => steps.iter().filter_map(|step| state(*step)).collect(),
            StatesRead::Any => (0..).zip(graph.steps()).filter_map(|(step, _)| state(step)).collect(),
        };
        Value::Object(states)
    }
}

/// What expressions read as `steps.NAME`.
fn step_state(step: &StepRun) -> Value {
    let mut fields = json!({
        "status": step.status,
        "output": step.output,
        "error": step.error,
        "attempts": step.units.iter().map(|unit| unit.attempts).sum::<u32>(),
    });
    if step.is_list
        && let Some(fields) = fields.as_object_mut()
    {
        let item =
            |unit: &super::Unit| json!({ "status": unit.status(), "error": unit.error, "attempts": unit.attempts });
        fields.insert("items".to_owned(), step.units.iter().map(item).collect());
    }
    fields
}

impl CompiledMappings {
    /// Returns the input of the tool for an input of the step. A field that the step sets itself has precedence over the
    /// mapping. Fields that only the mapping reads are not passed to the tool.
    pub(crate) fn tool_input(&self, input: Value) -> Result<Value, EvalError> {
        if self.input.is_empty() {
            return Ok(input);
        }
        let scope = Scope::new(&input);
        let mut fields = Map::new();
        for (field, template) in &self.input {
            fields.insert(field.clone(), template.evaluate(&scope)?.value);
        }
        if let Value::Object(own) = &input {
            let passed = own.iter().filter(|(field, _)| !self.reads(field));
            fields.extend(passed.map(|(field, value)| (field.clone(), value.clone())));
        }
        Ok(Value::Object(fields))
    }

    /// Returns the output of the step for an output of the tool.
    pub(crate) fn step_output(&self, output: Value) -> Result<Value, EvalError> {
        if self.output.is_empty() {
            return Ok(output);
        }
        let scope = Scope::new(&output).with("output", &output);
        let fields = self.output.iter().map(|(field, template)| Ok((field.clone(), template.evaluate(&scope)?.value)));
        fields.collect::<Result<Map<_, _>, _>>().map(Value::Object)
    }

    /// Whether the input mapping reads a field of the step's input.
    fn reads(&self, field: &str) -> bool {
        self.read_fields.as_ref().is_none_or(|fields| fields.contains(field))
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
