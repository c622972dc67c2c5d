//! The inputs of the workflow: values that no earlier output contains, with the recorded value as the default.

use serde_json::{Map, Value, json};

use super::names::{identifier, unique};
use super::texts;
use super::values::is_specific;

/// The inputs of the workflow.
#[derive(Debug)]
pub(super) struct Inputs {
    /// The input of the recorded run. A field becomes an input of the workflow when a step refers to it.
    recorded: Map<String, Value>,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

/// The place of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputPlace<'a> {
    pub step: &'a str,
    /// The innermost field.
    pub field: Option<&'a str>,
}

impl Inputs {
    pub(super) fn new(recorded: &Map<String, Value>) -> Self {
        Self { recorded: recorded.clone(), properties: Map::new(), required: Vec::new() }
    }

    /// Adds a field of the recorded run's input, which a step refers to.
    pub(super) fn use_recorded(&mut self, name: &str) {
        if let Some(value) = self.recorded.get(name).filter(|_| !self.properties.contains_key(name)) {
            let description = "An input of the recorded run.";
            let schema = if contains_redacted(value) {
                self.required.push(name.into());
                json!({ "description": description })
            } else {
                json!({ "type": type_of(value), "description": description, "default": value })
            };
            self.properties.insert(name.to_owned(), schema);
        }
    }

    /// Adds all fields of the recorded run's input, because a step refers to the whole input.
    pub(super) fn use_all_recorded(&mut self) {
        let names: Vec<String> = self.recorded.keys().cloned().collect();
        names.iter().for_each(|name| self.use_recorded(name));
    }

    /// Adds an input with this default. Returns its name. An equal value that was added before is the same input, if the
    /// value is specific or the field has the same name.
    pub(super) fn lift(&mut self, place: InputPlace<'_>, value: &Value) -> String {
        let base = place.field.map(identifier);
        let is_shared = |(name, schema): &(&String, &Value)| {
            schema.get("default") == Some(value)
                && !self.recorded.contains_key(*name)
                && (is_specific(value) || base.as_deref() == Some(name))
        };
        if let Some((name, _)) = self.properties.iter().find(is_shared) {
            return name.clone();
        }
        let name = self.free_name(place);
        let schema = json!({ "type": type_of(value), "description": described(place), "default": value });
        self.properties.insert(name.clone(), schema);
        name
    }

    /// Adds a required input in place of a redacted value. Returns its name.
    pub(super) fn require(&mut self, place: InputPlace<'_>) -> String {
        let name = self.free_name(place);
        let description = format!("{} The recorded value was redacted.", described(place));
        self.properties.insert(name.clone(), json!({ "description": description }));
        self.required.push(name.clone().into());
        name
    }

    /// The schema of the input of the workflow; `None` if the workflow has no inputs.
    pub(super) fn schema(&self) -> Option<Value> {
        if self.properties.is_empty() {
            return None;
        }
        let mut schema = json!({ "type": "object", "properties": self.properties });
        if let Some(fields) = schema.as_object_mut().filter(|_| !self.required.is_empty()) {
            fields.insert("required".to_owned(), self.required.clone().into());
        }
        Some(schema)
    }

    /// The name of the field, with the name of the step if the field's name is taken.
    fn free_name(&self, place: InputPlace<'_>) -> String {
        let field = identifier(place.field.unwrap_or("value"));
        let is_free = |name: &str| !self.properties.contains_key(name) && !self.recorded.contains_key(name);
        if is_free(&field) { field } else { unique(&format!("{}_{field}", place.step), is_free) }
    }
}

/// The values of the inputs that have a default.
pub(super) fn defaults(schema: Option<&Value>) -> Value {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let defaults = properties.into_iter().flatten();
    let defaults = defaults.filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone())));
    Value::Object(defaults.collect())
}

/// Whether a value contains a redacted secret.
pub(super) fn contains_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => texts::is_redacted(text),
        Value::Array(items) => items.iter().any(contains_redacted),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| texts::is_redacted(name) || contains_redacted(field))
        }
        _ => false,
    }
}

fn described(InputPlace { step, field }: InputPlace<'_>) -> String {
    match field {
        Some(field) => format!("The field `{field}` of step `{step}`."),
        None => format!("The input of step `{step}`."),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
