//! What a step calls, and with which input.

use serde_json::{Map, Value, json};
use toolwright_types::{DurationMs, OnError, WorkflowStep};

use super::super::path::{PathKey, pointer_keys};
use super::super::problem::{Problems, join};
use super::super::{EXECUTE_WORKFLOW, OperationBody, OperationRef, OperationTool, ParameterLocation, Problem};
use super::document::{ToolOf, check_fields};
use super::values::Reader;
use super::workflow::Scope;

const FIELDS: [&str; 11] = [
    "stepId",
    "description",
    "operationId",
    "operationPath",
    "workflowId",
    "parameters",
    "requestBody",
    "successCriteria",
    "onSuccess",
    "onFailure",
    "outputs",
];

/// Creates a step without input and dependencies.
pub(super) fn new(name: &str, handler: &str) -> WorkflowStep {
    WorkflowStep {
        name: name.to_owned(),
        description: None,
        handler_ref: handler.to_owned(),
        input: None,
        depends_on: Vec::new(),
        condition: None,
        condition_ref: None,
        retry: None,
        timeout: None,
        on_error: OnError::Fail,
        for_each: None,
        output_as: None,
    }
}

pub(super) fn read(
    scope: &Scope<'_>,
    workflow: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: usize,
    path: &str,
    tool_of: ToolOf<'_>,
    problems: &mut Problems,
) -> Option<WorkflowStep> {
    let mut allowed = FIELDS.to_vec();
    if scope.is_1_1 {
        allowed.extend(["timeout", "dependsOn"]);
    }
    check_fields(fields, path, &allowed, problems);
    check_dependencies(scope, fields, at, path, problems);
    let reader = Reader { step: Some(at), ended: false };
    for (name, output) in fields.get("outputs").and_then(Value::as_object).into_iter().flatten() {
        // An output that no expression reads must be valid too.
        let checked = scope.output(output, Reader { ended: true, ..reader });
        problems.check(&join(&join(path, "outputs"), name), checked.map(drop));
    }
    let parameters = match parameters(scope, workflow, fields, path, reader) {
        Ok(parameters) => parameters,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let target = match target(scope, fields, path, tool_of) {
        Ok(target) => target,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let input = match &target {
        Target::Workflow(id) => workflow_input(id, parameters, fields, path),
        Target::Operation(tool) => operation_input(scope, tool, parameters, fields, path, reader),
    };
    let input = match input {
        Ok(input) => input,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let name = fields.get("stepId").and_then(Value::as_str)?;
    let mut step = match &target {
        Target::Workflow(_) => new(name, EXECUTE_WORKFLOW),
        Target::Operation(tool) => new(name, &tool.handler_ref),
    };
    step.description = fields.get("description").and_then(Value::as_str).map(str::to_owned);
    step.input = (!input.is_empty()).then_some(Value::Object(input));
    step.timeout = match fields.get("timeout").map(|timeout| timeout.as_u64().filter(|timeout| *timeout > 0)) {
        None => None,
        Some(Some(timeout)) => Some(DurationMs(timeout)),
        Some(None) => {
            problems.add(join(path, "timeout"), "must be a number of milliseconds");
            None
        }
    };
    Some(step)
}

/// Checks that the steps in `dependsOn` run before. Steps run one after the other anyway.
fn check_dependencies(scope: &Scope<'_>, fields: &Map<String, Value>, at: usize, path: &str, problems: &mut Problems) {
    let list = fields.get("dependsOn").and_then(Value::as_array).into_iter().flatten();
    for (index, step) in list.enumerate() {
        let name = step.as_str().unwrap_or_default();
        let path = format!("{path}/dependsOn/{index}");
        match scope.position(name) {
            Some(position) if position < at => {}
            Some(_) => problems.add(path, format!("step `{name}` must stand before this step")),
            None => problems.add(path, format!("`{name}` is not a step of this workflow")),
        }
    }
}

enum Target {
    Workflow(String),
    Operation(OperationTool),
}

fn target(scope: &Scope<'_>, fields: &Map<String, Value>, path: &str, tool_of: ToolOf<'_>) -> Result<Target, Problem> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let find = |field: &str, operation: OperationRef<'_>| {
        let shown = text(field).unwrap_or_default();
        let tool = tool_of(&operation);
        let message = || {
            format!(
                "no tool, or more than one, calls operation `{shown}`; import its OpenAPI document, or name its provider"
            )
        };
        tool.map(Target::Operation).ok_or_else(|| Problem::new(join(path, field), message()))
    };
    match (text("operationId"), text("operationPath"), text("workflowId")) {
        (Some(id), None, None) => {
            let place = join(path, "operationId");
            let (source, id) = match id.strip_prefix("$sourceDescriptions.").and_then(|rest| rest.split_once('.')) {
                Some((source, id)) => (Some(source), id),
                None => (None, id),
            };
            let source = match source {
                Some(source) => Some(openapi_source(scope, source, &place)?),
                None => {
                    let mut sources = scope.document.sources.iter().filter(|source| source.is_openapi);
                    sources.next().filter(|_| sources.next().is_none()).map(|source| source.name)
                }
            };
            find("operationId", OperationRef::Id { source, id })
        }
        (None, Some(operation), None) => {
            let place = join(path, "operationPath");
            let wrong = || {
                let expected = "`{$sourceDescriptions.NAME.url}#/paths/~1PATH/METHOD`";
                Problem::new(&place, format!("must be {expected}, got `{operation}`"))
            };
            let rest = operation.strip_prefix("{$sourceDescriptions.").ok_or_else(wrong)?;
            let (source, pointer) = rest.split_once(".url}#/paths/").ok_or_else(wrong)?;
            let source = openapi_source(scope, source, &place)?;
            let (path, method) = pointer.split_once('/').ok_or_else(wrong)?;
            let path = path.replace("~1", "/").replace("~0", "~");
            find("operationPath", OperationRef::Path { source, path, method: method.to_ascii_lowercase() })
        }
        (None, None, Some(id)) if scope.document.workflows.contains_key(id) => Ok(Target::Workflow(id.to_owned())),
        (None, None, Some(id)) => {
            let message = format!("workflow `{id}` is not in this document; add it to the document");
            Err(Problem::new(join(path, "workflowId"), message))
        }
        _ => Err(Problem::new(path, "must have one of `operationId`, `operationPath` and `workflowId`")),
    }
}

fn openapi_source<'d>(scope: &Scope<'d>, name: &str, path: &str) -> Result<&'d str, Problem> {
    let source = scope.document.sources.iter().find(|source| source.name == name);
    match source {
        Some(source) if source.is_openapi => Ok(source.name),
        Some(_) => Err(Problem::new(path, format!("source description `{name}` is not an OpenAPI document"))),
        None => Err(Problem::new(path, format!("source description `{name}` does not exist"))),
    }
}

/// A parameter with its converted value.
struct Parameter {
    name: String,
    location: Option<String>,
    value: Value,
    path: String,
}

/// The parameters of a step, then those of the workflow that the step does not replace.
fn parameters(
    scope: &Scope<'_>,
    workflow: &Map<String, Value>,
    step: &Map<String, Value>,
    path: &str,
    reader: Reader,
) -> Result<Vec<Parameter>, Problem> {
    let mut all: Vec<Parameter> = Vec::new();
    let workflow_path = path.rsplitn(3, '/').nth(2).unwrap_or_default();
    let is_workflow = step.contains_key("workflowId");
    let own = (step.get("parameters"), join(path, "parameters"), true);
    let shared = (workflow.get("parameters"), join(workflow_path, "parameters"), false);
    for (list, path, is_own) in [own, shared] {
        let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (at, written) in list.iter().enumerate() {
            let parameter = parameter(scope, written, &format!("{path}/{at}"), reader)?;
            // The parameters of a workflow have names, but no locations.
            let is_same = |known: &Parameter| {
                known.name == parameter.name && (is_workflow || known.location == parameter.location)
            };
            match (all.iter().any(is_same), is_own) {
                (true, true) => {
                    return Err(Problem::new(parameter.path, format!("parameter `{}` is given twice", parameter.name)));
                }
                (true, false) => {}
                (false, _) => all.push(parameter),
            }
        }
    }
    Ok(all)
}

fn parameter(scope: &Scope<'_>, written: &Value, path: &str, reader: Reader) -> Result<Parameter, Problem> {
    // The components outlive this call, but a list of parameters need not.
    let found = scope.document.follow(written, path, "parameters")?;
    if let Some(field) =
        found.fields.keys().find(|field| !["name", "in", "value"].contains(&field.as_str()) && !field.starts_with("x-"))
    {
        return Err(Problem::new(
            join(&found.path, field),
            "the field is not supported here; the fields are name, in, value",
        ));
    }
    let name = found.fields.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Problem::new(join(&found.path, "name"), "must be a text"))?;
    let (value, place) = match (found.value, found.fields.get("value")) {
        (Some(value), _) => (value, join(path, "value")),
        (None, Some(value)) => (value, join(&found.path, "value")),
        (None, None) => return Err(Problem::new(join(&found.path, "value"), "is required")),
    };
    let value = scope.value(value, &place, reader)?;
    let location = found.fields.get("in").and_then(Value::as_str).map(str::to_owned);
    Ok(Parameter { name: name.to_owned(), location, value, path: path.to_owned() })
}

fn workflow_input(
    id: &str,
    parameters: Vec<Parameter>,
    fields: &Map<String, Value>,
    path: &str,
) -> Result<Map<String, Value>, Problem> {
    if fields.contains_key("requestBody") {
        return Err(Problem::new(
            join(path, "requestBody"),
            "a step with `workflowId` has no request body; use parameters",
        ));
    }
    let mut input = Map::new();
    for parameter in parameters {
        insert(&mut input, parameter.name, parameter.value, &parameter.path)?;
    }
    let mut step = Map::from_iter([("workflowRef".to_owned(), json!(id))]);
    if !input.is_empty() {
        step.insert("input".to_owned(), Value::Object(input));
    }
    Ok(step)
}

fn operation_input(
    scope: &Scope<'_>,
    tool: &OperationTool,
    parameters: Vec<Parameter>,
    fields: &Map<String, Value>,
    path: &str,
    reader: Reader,
) -> Result<Map<String, Value>, Problem> {
    let mut input = Map::new();
    for Parameter { name, location, value, path } in parameters {
        let location = location.unwrap_or_default();
        let found = tool.parameters.iter().find(|known| {
            let is_same = match known.location {
                ParameterLocation::Header => known.name.eq_ignore_ascii_case(&name),
                _ => known.name == name,
            };
            is_same && known.location.as_str() == location
        });
        let Some(found) = found else {
            let what = if location.is_empty() { "parameter".to_owned() } else { format!("{location} parameter") };
            let message = format!(
                "tool `{}` has no {what} `{name}`; credentials belong to the provider of the tool",
                tool.handler_ref
            );
            return Err(Problem::new(path, message));
        };
        insert(&mut input, found.field.clone(), value, &path)?;
    }
    let Some(body) = fields.get("requestBody") else { return Ok(input) };
    let path = join(path, "requestBody");
    let payload = payload(scope, tool, body, &path, reader)?;
    match (&tool.body, payload) {
        (_, None) => {}
        (OperationBody::None, Some(_)) => {
            return Err(Problem::new(path, format!("tool `{}` sends no request body", tool.handler_ref)));
        }
        (OperationBody::Field(field), Some(payload)) => insert(&mut input, field.clone(), payload, &path)?,
        (OperationBody::Fields, Some(Value::Object(payload))) => {
            for (field, value) in payload {
                insert(&mut input, field, value, &path)?;
            }
        }
        (OperationBody::Fields, Some(_)) => {
            let message = format!(
                "the input of tool `{}` has the fields of the body; write the payload as an object",
                tool.handler_ref
            );
            return Err(Problem::new(join(&path, "payload"), message));
        }
    }
    Ok(input)
}

fn insert(input: &mut Map<String, Value>, field: String, value: Value, path: &str) -> Result<(), Problem> {
    match input.contains_key(&field) {
        true => Err(Problem::new(path, format!("two values are given for field `{field}` of the input"))),
        false => {
            input.insert(field, value);
            Ok(())
        }
    }
}

/// The converted payload with its replacements.
fn payload(
    scope: &Scope<'_>,
    tool: &OperationTool,
    body: &Value,
    path: &str,
    reader: Reader,
) -> Result<Option<Value>, Problem> {
    let fields = body.as_object().ok_or_else(|| Problem::new(path, "must be an object"))?;
    let known = ["contentType", "payload", "replacements"];
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str()) && !field.starts_with("x-")) {
        return Err(Problem::new(
            join(path, field),
            format!("the field is not supported here; the fields are {}", known.join(", ")),
        ));
    }
    if let Some(given) = fields.get("contentType").and_then(Value::as_str) {
        let media_type = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media_type(given) != media_type(&tool.content_type) {
            let message = format!("tool `{}` sends `{}`", tool.handler_ref, tool.content_type);
            return Err(Problem::new(join(path, "contentType"), message));
        }
    }
    let Some(payload) = fields.get("payload") else {
        return match fields.contains_key("replacements") {
            true => Err(Problem::new(join(path, "replacements"), "need a `payload`")),
            false => Ok(None),
        };
    };
    let place = join(path, "payload");
    // A text that contains JSON is the same as the JSON, as long as no expression is part of it.
    let parsed = payload.as_str().filter(|text| !super::super::expression::is_runtime(text)).map(|text| {
        let has_expressions = super::super::expression::split_text(text).len() > 1;
        match serde_json::from_str::<Value>(text) {
            Ok(value) if !has_expressions => Ok(value),
            _ => Err(Problem::new(&place, "a text as payload cannot be converted; write the payload as an object")),
        }
    });
    let parsed = parsed.transpose()?;
    let mut payload = scope.value(parsed.as_ref().unwrap_or(payload), &place, reader)?;
    let replacements = fields.get("replacements").and_then(Value::as_array).into_iter().flatten();
    for (at, replacement) in replacements.enumerate() {
        let path = format!("{path}/replacements/{at}");
        let wrong = |message: String| Problem::new(&path, message);
        let target = replacement.get("target").and_then(Value::as_str).unwrap_or_default();
        let is_pointer = replacement.get("targetSelectorType").is_none_or(|kind| kind == "jsonpointer");
        if !is_pointer || !target.starts_with('/') {
            return Err(wrong(format!("only JSON pointers can be converted as a target, got `{target}`")));
        }
        let value = replacement.get("value").ok_or_else(|| wrong("must have a `value`".to_owned()))?;
        let value = scope.value(value, &join(&path, "value"), reader)?;
        let place = place_of(&mut payload, &pointer_keys(target).map_err(wrong)?);
        *place.ok_or_else(|| wrong(format!("the payload has no `{target}`")))? = value;
    }
    Ok(Some(payload))
}

/// The place in a payload. The last field need not exist.
fn place_of<'v>(payload: &'v mut Value, keys: &[PathKey]) -> Option<&'v mut Value> {
    let mut value = payload;
    for (at, key) in keys.iter().enumerate() {
        value = match (key, value) {
            (PathKey::Index(index), Value::Array(items)) => items.get_mut(usize::try_from(*index).ok()?)?,
            (key, Value::Object(fields)) => {
                let name = match key {
                    PathKey::Field(name) => name.clone(),
                    PathKey::Index(index) => index.to_string(),
                };
                match at + 1 == keys.len() {
                    true => fields.entry(name).or_insert(Value::Null),
                    false => fields.get_mut(&name)?,
                }
            }
            _ => return None,
        };
    }
    Some(value)
}
