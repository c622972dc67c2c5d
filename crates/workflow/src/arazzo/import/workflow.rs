//! One workflow of a document.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolwright_types::{MAX_WORKFLOW_STEPS, RESERVED_STEP_NAMES, RefName, WorkflowDefinition, is_valid_step_name};

use super::super::expression::Name;
use super::super::path::PathKey;
use super::super::problem::{Problems, join};
use super::super::{EXECUTE_WORKFLOW, EXTENSION};
use super::document::{Document, ToolOf, check_fields};
use super::flow::{self, ImportedStep};
use super::values::{Reader, Resolved, placeholder};
use super::{inputs, outcome, step};

/// The maximum length of the name of a workflow.
const MAX_NAME_CHARS: usize = 128;

const FIELDS: [&str; 10] = [
    "workflowId",
    "summary",
    "description",
    "inputs",
    "dependsOn",
    "steps",
    "successActions",
    "failureActions",
    "outputs",
    "parameters",
];

/// The object of a workflow in its document, and its JSON pointer.
pub(super) struct WorkflowObject<'d> {
    pub path: String,
    pub id: &'d str,
    pub fields: &'d Map<String, Value>,
}

/// What the expressions of a workflow can read.
pub(super) struct Scope<'d> {
    pub document: &'d Document<'d>,
    pub is_1_1: bool,
    inputs: Option<Value>,
    steps: Vec<&'d Map<String, Value>>,
    positions: HashMap<&'d str, usize>,
    /// The workflows in `dependsOn`, each with the step that executes it.
    dependencies: Vec<(&'d str, String)>,
}

pub(super) fn import(
    document: &Document<'_>,
    workflow: WorkflowObject<'_>,
    tool_of: ToolOf<'_>,
    problems: &mut Problems,
    warnings: &mut Problems,
) -> Option<WorkflowDefinition> {
    let WorkflowObject { path, id, fields } = workflow;
    check_fields(fields, &path, &FIELDS, problems);
    let ref_name: RefName =
        problems.check(&join(&path, "workflowId"), id.parse().map_err(|error| format!("{error}")))?;
    let mut definition = WorkflowDefinition::new(ref_name);
    definition.version = document.version.clone().unwrap_or(definition.version);
    describe(fields, &mut definition);
    let empty = Map::new();
    if let Some(schema) = fields.get("inputs") {
        match inputs::inline(schema, document.input_components().unwrap_or(&empty)) {
            Ok(schema) => definition.input_schema = Some(schema),
            Err((at, message)) => problems.add(format!("{path}/inputs{at}"), message),
        }
    }
    let scope = Scope::read(document, fields, &path, definition.input_schema.clone(), problems)?;
    let mut steps = Vec::with_capacity(scope.steps.len());
    for (at, source) in scope.steps.iter().enumerate() {
        let path = format!("{path}/steps/{at}");
        let target = step::read(&scope, fields, source, at, &path, tool_of, problems);
        let outcome = outcome::read(&scope, fields, source, at, &path, problems, warnings);
        if let (Some(step), Some(outcome)) = (target, outcome) {
            steps.push(ImportedStep { path, step, outcome });
        }
    }
    if steps.len() < scope.steps.len() {
        return None;
    }
    definition.steps = flow::connect(steps, problems)?;
    scope.run_dependencies(&mut definition);
    definition.output = Some(scope.read_outputs(fields, &path, problems));
    match fields.get(EXTENSION) {
        Some(extension) => problems.check(&join(&path, EXTENSION), extend(definition, extension)),
        None => Some(definition),
    }
}

fn describe(fields: &Map<String, Value>, definition: &mut WorkflowDefinition) {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (summary, description) = (text("summary"), text("description"));
    definition.description = description.map(str::to_owned);
    match summary {
        // A name cannot be as long as a summary.
        Some(summary) if summary.chars().count() > MAX_NAME_CHARS => {
            let parts: Vec<&str> = [Some(summary), description].into_iter().flatten().collect();
            definition.description = Some(parts.join("\n\n"));
        }
        summary => definition.name = summary.map(str::to_owned),
    }
}

/// Sets the fields that Arazzo does not have.
fn extend(definition: WorkflowDefinition, extension: &Value) -> Result<WorkflowDefinition, String> {
    let extension = extension.as_object().ok_or("must be an object")?;
    let mut fields = match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err("the workflow is not an object".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    for (field, value) in extension {
        if !super::super::export::SETTINGS.contains(&field.as_str()) {
            let settings = super::super::export::SETTINGS.join(", ");
            return Err(format!("`{field}` is not a setting; the settings are {settings}"));
        }
        fields.insert(field.clone(), value.clone());
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

impl<'d> Scope<'d> {
    fn read(
        document: &'d Document<'d>,
        fields: &'d Map<String, Value>,
        path: &str,
        inputs: Option<Value>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let list = fields.get("steps").and_then(Value::as_array);
        let list = list.filter(|list| (1..=MAX_WORKFLOW_STEPS).contains(&list.len()));
        let Some(list) = list else {
            problems.add(join(path, "steps"), format!("must be a list of 1 to {MAX_WORKFLOW_STEPS} steps"));
            return None;
        };
        let mut scope = Self {
            document,
            is_1_1: document.is_1_1,
            inputs,
            steps: Vec::with_capacity(list.len()),
            positions: HashMap::with_capacity(list.len()),
            dependencies: Vec::new(),
        };
        for (at, step) in list.iter().enumerate() {
            let place = format!("{path}/steps/{at}");
            let (Some(step), Some(id)) = (step.as_object(), step.get("stepId").and_then(Value::as_str)) else {
                problems.add(place, "must be an object with `stepId`");
                continue;
            };
            if !is_valid_step_name(id) {
                let message = format!(
                    "`{id}` cannot be the name of a step; use letters, digits, `_` and `-`, start with a letter or `_`, \
                     and avoid {}",
                    RESERVED_STEP_NAMES.join(", ")
                );
                problems.add(join(&place, "stepId"), message);
            } else if scope.positions.insert(id, at).is_some() {
                problems.add(join(&place, "stepId"), format!("another step is also named `{id}`"));
            }
            scope.steps.push(step);
        }
        scope.read_dependencies(fields, path, problems);
        (scope.steps.len() == list.len()).then_some(scope)
    }

    /// Reads the workflows that must have completed before. A step executes each of them first.
    fn read_dependencies(&mut self, fields: &'d Map<String, Value>, path: &str, problems: &mut Problems) {
        let list = fields.get("dependsOn").and_then(Value::as_array).into_iter().flatten();
        for (at, id) in list.enumerate() {
            let path = format!("{path}/dependsOn/{at}");
            let found = id.as_str().and_then(|id| self.document.workflows.get_key_value(id));
            let Some((id, (_, workflow))) = found else {
                problems.add(path, format!("workflow {id} does not exist in this document"));
                continue;
            };
            let required = workflow.get("inputs").and_then(|inputs| inputs.get("required")).and_then(Value::as_array);
            let is_reference = workflow.get("inputs").is_some_and(|inputs| inputs.get("$ref").is_some());
            if required.is_some_and(|required| !required.is_empty()) || is_reference {
                let message =
                    format!("workflow `{id}` may need inputs; execute it in a step with `workflowId` and parameters");
                problems.add(path, message);
            } else if !is_valid_step_name(id) || self.positions.contains_key(id) {
                problems
                    .add(path, format!("`{id}` cannot be the name of the step that executes the workflow; rename it"));
            } else {
                self.dependencies.push((id, (*id).to_owned()));
            }
        }
    }

    /// Adds the steps that execute the workflows in `dependsOn`, before all other steps.
    fn run_dependencies(&self, definition: &mut WorkflowDefinition) {
        let mut first = Vec::new();
        for (workflow, name) in &self.dependencies {
            let mut step = step::new(name, EXECUTE_WORKFLOW);
            step.input = Some(json!({ "workflowRef": workflow }));
            step.depends_on =
                first.last().map(|step: &toolwright_types::WorkflowStep| step.name.clone()).into_iter().collect();
            first.push(step);
        }
        if let (Some(last), Some(start)) = (first.last(), definition.steps.first_mut()) {
            start.depends_on.push(last.name.clone());
        }
        definition.steps.splice(0..0, first);
    }

    fn read_outputs(&self, fields: &Map<String, Value>, path: &str, problems: &mut Problems) -> Value {
        let mut outputs = Map::new();
        for (name, value) in fields.get("outputs").and_then(Value::as_object).into_iter().flatten() {
            let reader = Reader { step: None, ended: false };
            let place = join(&join(path, "outputs"), name);
            match problems.check(&place, self.output(value, reader)) {
                Some(Resolved::Path(path)) => drop(outputs.insert(name.clone(), Value::String(placeholder(&path)))),
                Some(Resolved::Constant(text)) => {
                    drop(outputs.insert(name.clone(), Value::String(text.replace("${", "$${"))))
                }
                None => {}
            }
        }
        Value::Object(outputs)
    }

    pub(crate) fn has_input(&self, name: &str) -> bool {
        let properties = self.inputs.as_ref().and_then(|inputs| inputs.get("properties"));
        properties.is_some_and(|properties| properties.get(name).is_some())
    }

    pub(crate) fn position(&self, step: &str) -> Option<usize> {
        self.positions.get(step).copied()
    }

    pub(crate) fn name(&self, at: usize) -> Option<&'d str> {
        self.steps.get(at)?.get("stepId")?.as_str()
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn outputs(&self, at: usize) -> Option<&'d Map<String, Value>> {
        self.steps.get(at)?.get("outputs")?.as_object()
    }

    pub(crate) fn called_workflow(&self, at: usize) -> Option<&'d str> {
        self.steps.get(at)?.get("workflowId")?.as_str()
    }

    /// The step that executes a workflow in `dependsOn`.
    pub(crate) fn dependency(&self, workflow: &str) -> Option<&str> {
        self.dependencies.iter().find(|(id, _)| *id == workflow).map(|(_, step)| step.as_str())
    }

    pub(crate) fn workflow_output(&self, workflow: &str, name: &Name<'_>) -> Result<(String, Vec<PathKey>), String> {
        let outputs = self.document.workflows.get(workflow).and_then(|(_, fields)| fields.get("outputs")?.as_object());
        let split = name.split(|name| outputs.is_some_and(|outputs| outputs.contains_key(name)));
        let split = split.map(|(name, keys)| (name.to_owned(), keys));
        split.ok_or_else(|| format!("workflow `{workflow}` has no output `{}`", name.text()))
    }

    pub(crate) fn source_field(&self, name: &str, field: &str) -> Result<String, String> {
        let source = self.document.sources.iter().find(|source| source.name == name);
        let source = source.ok_or_else(|| format!("source description `{name}` does not exist"))?;
        match field {
            "url" => Ok(source.url.to_owned()),
            _ => Err(format!("only `$sourceDescriptions.{name}.url` has a value")),
        }
    }
}
