//! One workflow of a document.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolwright_types::{RetryPolicy, WorkflowDefinition, WorkflowStep};

use super::super::condition::{Condition, Notation};
use super::super::path::{PathKey, PathRoot, ValuePath, pointer};
use super::super::problem::{Problems, join};
use super::super::status::{SUCCEEDED, condition_of};
use super::super::{EXECUTE_WORKFLOW, EXTENSION, OperationBody, OperationTool, Problem, retry};
use super::document::{Document, OperationOf};
use super::flow::{Flow, Success, Target, flow};
use super::{ArazzoVersion, SETTINGS, schema, template};

pub(super) fn export(
    document: &mut Document<'_>,
    definition: &WorkflowDefinition,
    prefix: &str,
    operation_of: OperationOf<'_>,
) -> Option<Value> {
    let flow = flow(definition, prefix, &mut document.problems)?;
    let mut writer = Writer::new(document, definition, prefix);
    let mut steps = Vec::with_capacity(flow.order.len());
    let mut previous = None;
    for at in &flow.order {
        let step = definition.steps.get(*at)?;
        steps.push((step, writer.step(*at, step, &flow, previous, operation_of)));
        previous = Some(step.name.as_str());
    }
    let outputs = writer.workflow_outputs(&flow);
    let mut written = Vec::with_capacity(steps.len());
    for (step, fields) in steps {
        let mut fields = fields?;
        let outputs = writer.outputs.get(&step.name).filter(|outputs| !outputs.is_empty());
        if let Some(outputs) = outputs {
            let outputs = outputs.iter().map(|output| (output.name.clone(), Value::String(output.source.clone())));
            fields.insert("outputs".to_owned(), Value::Object(outputs.collect()));
        }
        written.push(Value::Object(fields));
    }
    let mut fields = Map::from_iter([("workflowId".to_owned(), json!(definition.ref_name))]);
    let texts = [("summary", &definition.name), ("description", &definition.description)];
    fields.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))));
    if let Some(inputs) = &definition.input_schema {
        fields.extend(writer.inputs(inputs).map(|inputs| ("inputs".to_owned(), inputs)));
    }
    fields.insert("steps".to_owned(), Value::Array(written));
    if !outputs.is_empty() {
        fields.insert("outputs".to_owned(), Value::Object(outputs));
    }
    let settings = writer.settings();
    if !settings.is_empty() {
        fields.insert(EXTENSION.to_owned(), Value::Object(settings));
    }
    Some(Value::Object(fields))
}

/// An output of a step.
struct StepOutput {
    name: String,
    keys: Vec<PathKey>,
    source: String,
}

struct Writer<'w, 'd> {
    document: &'w mut Document<'d>,
    definition: &'w WorkflowDefinition,
    prefix: &'w str,
    /// The names of the steps by their names and by the names of their outputs.
    names: HashMap<&'w str, &'w str>,
    /// The outputs that other steps read.
    outputs: HashMap<String, Vec<StepOutput>>,
}

impl<'w, 'd> Writer<'w, 'd> {
    fn new(document: &'w mut Document<'d>, definition: &'w WorkflowDefinition, prefix: &'w str) -> Self {
        let steps = &definition.steps;
        let own = steps.iter().map(|step| (step.name.as_str(), step.name.as_str()));
        let named = steps.iter().filter_map(|step| Some((step.output_as.as_deref()?, step.name.as_str())));
        let names = own.chain(named).collect();
        Self { document, definition, prefix, names, outputs: HashMap::new() }
    }

    fn problems(&mut self) -> &mut Problems {
        &mut self.document.problems
    }

    fn check<T>(&mut self, path: &str, result: Result<T, String>) -> Option<T> {
        self.document.problems.check(path, result)
    }

    fn step(
        &mut self,
        at: usize,
        step: &WorkflowStep,
        flow: &Flow,
        previous: Option<&str>,
        operation_of: OperationOf<'_>,
    ) -> Option<Map<String, Value>> {
        let path = format!("{}/steps/{at}", self.prefix);
        self.check_fields(step, &path);
        let mut fields = Map::from_iter([("stepId".to_owned(), json!(step.name))]);
        if let Some(description) = &step.description {
            fields.insert("description".to_owned(), json!(description));
        }
        match step.handler_ref.as_str() {
            EXECUTE_WORKFLOW => self.workflow_call(step, &path, &mut fields)?,
            handler => self.operation_call(handler, step, &path, &mut fields, operation_of)?,
        }
        if let (Some(timeout), ArazzoVersion::V1_1) = (step.timeout, self.document.version) {
            fields.insert("timeout".to_owned(), json!(timeout.0));
        }
        let success = self.success_actions(at, step, flow);
        if !success.is_empty() {
            fields.insert("onSuccess".to_owned(), Value::Array(success));
        }
        let failure = self.failure_actions(at, step, flow, &path);
        if !failure.is_empty() {
            fields.insert("onFailure".to_owned(), Value::Array(failure));
        }
        if flow.is_parallel && !step.depends_on.iter().map(String::as_str).eq(previous) {
            fields.insert(EXTENSION.to_owned(), json!({ "dependsOn": step.depends_on }));
        }
        Some(fields)
    }

    fn check_fields(&mut self, step: &WorkflowStep, path: &str) {
        let is_1_0 = self.document.version == ArazzoVersion::V1_0;
        let refused = [
            ("condition", step.condition.is_some(), "Arazzo has no conditions of steps; use a branch before the step"),
            (
                "conditionRef",
                step.condition_ref.is_some(),
                "Arazzo has no conditions of steps; use a branch before the step",
            ),
            ("forEach", step.for_each.is_some(), "Arazzo has no loops; call an operation that takes the whole list"),
            ("timeout", step.timeout.is_some() && is_1_0, "Arazzo 1.0 has no timeouts; export version 1.1"),
        ];
        for (field, is_set, message) in refused {
            if is_set {
                self.problems().add(join(path, field), message);
            }
        }
    }

    fn workflow_call(&mut self, step: &WorkflowStep, path: &str, fields: &mut Map<String, Value>) -> Option<()> {
        let path = join(path, "input");
        let input = step.input.as_ref().and_then(Value::as_object);
        let name = input.and_then(|input| input.get("workflowRef")).and_then(Value::as_str);
        let found = name.filter(|name| self.document.workflow(name).is_some());
        let Some(name) = found else {
            let message = "must name a workflow that is exported in the same document, without a version";
            self.problems().add(join(&path, "workflowRef"), message);
            return None;
        };
        let name = name.to_owned();
        let other = input.into_iter().flatten().find(|(field, _)| *field != "workflowRef" && *field != "input");
        if let Some((field, _)) = other {
            self.problems().add(join(&path, field), "the field cannot be written");
        }
        let empty = Map::new();
        let values = match input.and_then(|input| input.get("input")) {
            None => &empty,
            Some(Value::Object(values)) if !values.is_empty() => values,
            Some(_) => {
                self.problems().add(join(&path, "input"), "must be an object with at least one field");
                return None;
            }
        };
        let mut parameters = Vec::with_capacity(values.len());
        for (field, value) in values {
            let value = self.value(value, &join(&join(&path, "input"), field))?;
            parameters.push(json!({ "name": field, "value": value }));
        }
        fields.insert("workflowId".to_owned(), json!(name));
        if !parameters.is_empty() {
            fields.insert("parameters".to_owned(), Value::Array(parameters));
        }
        Some(())
    }

    fn operation_call(
        &mut self,
        handler: &str,
        step: &WorkflowStep,
        path: &str,
        fields: &mut Map<String, Value>,
        operation_of: OperationOf<'_>,
    ) -> Option<()> {
        let built_in = handler.starts_with(toolwright_types::step_handlers::PREFIX);
        let Some(operation) = Some(handler).filter(|_| !built_in).and_then(operation_of) else {
            let message = match built_in {
                true => format!("Arazzo has no steps such as `{handler}`; a step calls an operation or a workflow"),
                false => {
                    format!("`{handler}` is not a tool of an operation with an `operationId` in an OpenAPI document")
                }
            };
            self.problems().add(join(path, "handlerRef"), message);
            return None;
        };
        let id = match self.document.sources.len() {
            1 => operation.operation_id.clone(),
            _ => format!("$sourceDescriptions.{}.{}", operation.source_name, operation.operation_id),
        };
        fields.insert("operationId".to_owned(), json!(id));
        self.operation_input(&operation.tool, step.input.as_ref(), &join(path, "input"), fields)?;
        fields.insert("successCriteria".to_owned(), json!([{ "condition": SUCCEEDED }]));
        Some(())
    }

    fn operation_input(
        &mut self,
        tool: &OperationTool,
        input: Option<&Value>,
        path: &str,
        fields: &mut Map<String, Value>,
    ) -> Option<()> {
        let empty = Map::new();
        let input = match input {
            None => &empty,
            Some(Value::Object(input)) if !input.is_empty() => input,
            Some(_) => {
                self.problems().add(path, "must be an object with at least one field");
                return None;
            }
        };
        let mut parameters = Vec::new();
        let mut body = Map::new();
        let mut whole = None;
        for (field, value) in input {
            let path = join(path, field);
            let value = self.value(value, &path)?;
            let parameter = tool.parameters.iter().find(|parameter| parameter.field == *field);
            match (parameter, &tool.body) {
                (Some(parameter), _) => {
                    let location = parameter.location.as_str();
                    if value.is_object() {
                        self.problems().add(path, "the value of a parameter cannot be an object");
                        continue;
                    }
                    parameters.push(json!({ "name": parameter.name, "in": location, "value": value }));
                }
                (None, OperationBody::Field(name)) if name == field => whole = Some(value),
                (None, OperationBody::Fields) => drop(body.insert(field.clone(), value)),
                (None, _) => self.problems().add(path, "the operation has no such parameter"),
            }
        }
        if !parameters.is_empty() {
            fields.insert("parameters".to_owned(), Value::Array(parameters));
        }
        let payload = whole.or_else(|| (!body.is_empty()).then_some(Value::Object(body)));
        if let Some(payload) = payload {
            let body = json!({ "contentType": tool.content_type, "payload": payload });
            fields.insert("requestBody".to_owned(), body);
        }
        Some(())
    }

    fn success_actions(&mut self, at: usize, step: &WorkflowStep, flow: &Flow) -> Vec<Value> {
        let next = flow.order.iter().skip_while(|other| **other != at).nth(1);
        let next = next.map_or(Target::End, |next| Target::Step(*next));
        match flow.success.get(&at) {
            None => Vec::new(),
            Some(Success::Goto(target)) if *target == next => Vec::new(),
            Some(Success::Goto(target)) => vec![self.action("next", *target, None)],
            Some(Success::Branch { at: branch, cases, default }) => {
                let path = format!("{}/steps/{branch}/input/cases", self.prefix);
                let mut actions = Vec::with_capacity(cases.len() + 1);
                for (index, case) in cases.iter().enumerate() {
                    let condition = self.condition(&case.when, &step.name);
                    let condition = self.check(&format!("{path}/{index}/when"), condition).unwrap_or_default();
                    actions.push(self.action(&case.name, case.target, Some(&condition)));
                }
                if cases.iter().any(|case| case.name == default.0) {
                    self.problems().add(path.clone(), "the default must have another name than the cases");
                }
                actions.push(self.action(&default.0, default.1, None));
                actions
            }
        }
    }

    fn action(&self, name: &str, target: Target, condition: Option<&str>) -> Value {
        let mut action = Map::from_iter([("name".to_owned(), json!(name))]);
        match target {
            Target::End => drop(action.insert("type".to_owned(), json!("end"))),
            Target::Step(at) => {
                action.insert("type".to_owned(), json!("goto"));
                let step = self.definition.steps.get(at).map(|step| step.name.as_str());
                action.insert("stepId".to_owned(), json!(step));
            }
        }
        if let Some(condition) = condition {
            action.insert("criteria".to_owned(), json!([{ "condition": condition }]));
        }
        Value::Object(action)
    }

    fn failure_actions(&mut self, at: usize, step: &WorkflowStep, flow: &Flow, path: &str) -> Vec<Value> {
        let mut actions = Vec::new();
        if let Some(policy) = &step.retry {
            let action = retry_action(policy);
            actions.extend(self.check(&join(path, "retry"), action));
        }
        for (code, target) in flow.failure.get(&at).into_iter().flatten() {
            let condition = match code {
                None => None,
                Some(code) => {
                    let condition = condition_of(code).ok_or_else(|| no_status(code));
                    self.check(&format!("{path}/onError/branch/{code}"), condition)
                }
            };
            let name = code.as_ref().map_or_else(|| "failed".to_owned(), |code| code.to_ascii_lowercase());
            actions.push(self.action(&name, Target::Step(*target), condition));
        }
        actions
    }

    /// Writes the condition of a case. `own` is the step before the branch.
    fn condition(&mut self, when: &str, own: &str) -> Result<String, String> {
        let expression = when.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let expression = expression.ok_or("must be one `${…}` expression")?;
        let condition = Condition::parse(expression, Notation::Expression)?;
        let condition = condition.map(&mut |path| {
            let text = self.reference(path, Some(own))?;
            match text.contains(|c: char| c.is_whitespace() || "=!<>&|()".contains(c)) {
                true => Err(format!("`{text}` cannot be part of a condition")),
                false => Ok(text),
            }
        })?;
        Ok(condition.write(Notation::Arazzo))
    }

    /// Writes the runtime expression for a path. `own` is the step whose response can be read.
    fn reference(&mut self, expression: &str, own: Option<&str>) -> Result<String, String> {
        let names = &self.names;
        let path = ValuePath::parse(expression, |name| names.get(name).map(|name| (*name).to_owned()));
        let path = path.ok_or_else(|| {
            format!("`{expression}` cannot be converted; only paths can, such as `input.id` and `STEP.items[0].id`")
        })?;
        if path.keys.last() == Some(&PathKey::Field("length".to_owned())) {
            return Err(format!("`{expression}` may be a size, which Arazzo does not have"));
        }
        match path.root {
            PathRoot::Input => match path.keys.split_first() {
                Some((PathKey::Field(name), rest)) if is_name(name) => {
                    Ok(with_pointer(format!("$inputs.{name}"), rest)?)
                }
                _ => Err(format!("`{expression}` cannot be converted; read a field of the input")),
            },
            PathRoot::Output(step) => {
                let source = self.source(&step, &path.keys)?;
                match own {
                    Some(own) if own == step => Ok(source),
                    _ => Ok(format!("$steps.{step}.outputs.{}", self.output_name(&step, path.keys, source))),
                }
            }
        }
    }

    /// The expression for an output in its own step.
    fn source(&self, step: &str, keys: &[PathKey]) -> Result<String, String> {
        let definition = self.definition.steps.iter().find(|other| other.name == step);
        let definition = definition.ok_or_else(|| format!("step `{step}` does not exist"))?;
        if definition.handler_ref != EXECUTE_WORKFLOW {
            return match definition.handler_ref.starts_with(toolwright_types::step_handlers::PREFIX) {
                true => Err(format!("the output of step `{step}` does not exist in Arazzo")),
                false if keys.is_empty() => Ok("$response.body".to_owned()),
                false => Ok(format!("$response.body#{}", pointer(keys)?)),
            };
        }
        let called = definition.input.as_ref().and_then(|input| input.get("workflowRef")).and_then(Value::as_str);
        let outputs =
            called.and_then(|name| self.document.workflow(name)).and_then(|workflow| workflow.output.as_ref());
        match keys.split_first() {
            Some((PathKey::Field(name), rest)) if outputs.is_some_and(|outputs| outputs.get(name).is_some()) => {
                with_pointer(format!("$outputs.{name}"), rest)
            }
            _ => Err(format!("read an output that the workflow of step `{step}` declares in `output`")),
        }
    }

    /// The name of an output of a step. Adds the output if it is new.
    fn output_name(&mut self, step: &str, keys: Vec<PathKey>, source: String) -> String {
        let outputs = self.outputs.entry(step.to_owned()).or_default();
        if let Some(known) = outputs.iter().find(|output| output.keys == keys) {
            return known.name.clone();
        }
        let words: Vec<String> = keys
            .iter()
            .map(|key| match key {
                PathKey::Index(index) => index.to_string(),
                PathKey::Field(name) => name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect(),
            })
            .collect();
        let base = if words.is_empty() { "body".to_owned() } else { words.join("_") };
        let mut name = base.clone();
        let mut count = 1;
        while outputs.iter().any(|output| output.name == name) {
            count += 1;
            name = format!("{base}_{count}");
        }
        outputs.push(StepOutput { name: name.clone(), keys, source });
        name
    }

    /// Writes a value of an input.
    fn value(&mut self, value: &Value, path: &str) -> Option<Value> {
        match value {
            Value::String(text) => {
                let written = template::write(text, |expression| self.reference(expression, None));
                self.check(path, written).map(Value::String)
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(at, item)| self.value(item, &format!("{path}/{at}")));
                items.collect::<Option<Vec<_>>>().map(Value::Array)
            }
            Value::Object(fields) => {
                let is_selector = ["context", "selector", "type"].iter().all(|key| fields.contains_key(*key));
                if is_selector && self.document.version == ArazzoVersion::V1_1 {
                    self.problems().add(path, "the object would be read as a selector");
                    return None;
                }
                let mut written = Map::new();
                for (key, value) in fields {
                    let path = join(path, key);
                    let key = match template::split(key).as_deref() {
                        Ok([template::Part::Constant(key)]) => key.clone(),
                        _ => {
                            self.problems().add(path, "the name of a field cannot be computed");
                            return None;
                        }
                    };
                    written.insert(key, self.value(value, &path)?);
                }
                Some(Value::Object(written))
            }
            other => Some(other.clone()),
        }
    }

    fn workflow_outputs(&mut self, flow: &Flow) -> Map<String, Value> {
        let path = format!("{}/output", self.prefix);
        let written = match &self.definition.output {
            Some(Value::Object(output)) => output.clone(),
            // The default output has the outputs of the steps on which no other step depends.
            None => {
                let steps = flow.order.iter().filter_map(|at| self.definition.steps.get(*at));
                let waits = |name: &str| {
                    let mut names = self.definition.steps.iter().flat_map(|step| &step.depends_on);
                    names.any(|other| other.split('.').next() == Some(name))
                };
                let last = steps.filter(|step| !waits(&step.name));
                last.map(|step| {
                    (
                        step.name.clone(),
                        json!(format!("${{{}}}", ValuePath::output(&step.name, Vec::new()).to_expression())),
                    )
                })
                .collect()
            }
            Some(_) => {
                self.problems().add(path, "must be an object; Arazzo has outputs with names");
                return Map::new();
            }
        };
        let mut outputs = Map::new();
        for (name, value) in &written {
            let path = join(&path, name);
            let expression = value.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}'));
            let Some(expression) = expression.filter(|_| is_name(name)) else {
                let message = "an output must have a name of letters, digits, `.`, `-` and `_`, and be one path, such as `${STEP.id}`";
                self.problems().add(path, message);
                continue;
            };
            let reference = self.reference(expression, None);
            outputs.extend(self.check(&path, reference).map(|text| (name.clone(), Value::String(text))));
        }
        outputs
    }

    fn inputs(&mut self, inputs: &Value) -> Option<Value> {
        let path = format!("{}/inputSchema", self.prefix);
        let (root, definitions) = match schema::split(inputs) {
            Ok(split) => split,
            Err((at, message)) => {
                self.problems().push(Problem::new(format!("{path}{at}"), message));
                return None;
            }
        };
        for (name, definition) in definitions {
            match self.document.schemas.get(&name) {
                Some(known) if *known != definition => {
                    let message = "another workflow of the document has a different schema with this name";
                    self.problems().add(join(&format!("{path}/$defs"), &name), message);
                }
                _ => drop(self.document.schemas.insert(name, definition)),
            }
        }
        Some(root)
    }

    /// The settings that differ from their defaults.
    fn settings(&self) -> Map<String, Value> {
        let object = |definition: &WorkflowDefinition| match serde_json::to_value(definition) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let mut default = WorkflowDefinition::new(self.definition.ref_name.clone());
        if let Some(first) = self.document.workflows.first() {
            default.version = first.version.clone();
        }
        let (own, default) = (object(self.definition), object(&default));
        let changed = SETTINGS.into_iter().filter(|field| own.get(*field) != default.get(*field));
        changed.filter_map(|field| Some((field.to_owned(), own.get(field)?.clone()))).collect()
    }
}

fn retry_action(policy: &RetryPolicy) -> Result<Value, String> {
    let limit = policy.max_attempts.checked_sub(1).ok_or("`maxAttempts` must be at least 1")?;
    let mut action = json!({ "name": "retry", "type": "retry", "retryLimit": limit });
    let Some(fields) = action.as_object_mut() else { return Ok(action) };
    if let Some(after) = retry::retry_after(policy)? {
        fields.insert("retryAfter".to_owned(), json!(after));
    }
    let conditions: Result<Vec<&str>, String> =
        policy.on.iter().map(|code| condition_of(code.as_str()).ok_or_else(|| no_status(code.as_str()))).collect();
    let conditions: Vec<String> = conditions?.into_iter().map(|condition| format!("({condition})")).collect();
    if !conditions.is_empty() {
        fields.insert("criteria".to_owned(), json!([{ "condition": conditions.join(" || ") }]));
    }
    Ok(action)
}

fn no_status(code: &str) -> String {
    format!("{code} has no HTTP status, by which Arazzo tells errors apart")
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn with_pointer(expression: String, keys: &[PathKey]) -> Result<String, String> {
    match keys.is_empty() {
        true => Ok(expression),
        false => Ok(format!("{expression}#{}", pointer(keys)?)),
    }
}
