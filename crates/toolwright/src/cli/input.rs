//! Builds the input of a call from `--input` and the `-p` parameters.

use std::io::Read;

use serde_json::{Map, Value};

use super::failure::Failure;
use super::schema::{declared_names, expects_string};
use super::suggest::did_you_mean;

/// Options that build an input.
#[derive(clap::Args)]
pub(super) struct InputArgs {
    /// Input as JSON, `@FILE` to read a file, or `-` to read standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Set a parameter of the input; may be repeated. A dotted name sets a nested field. The value is parsed as JSON if
    /// possible, unless the tool expects a string
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    parameters: Vec<InputParameter>,
}

/// A `-p NAME=VALUE` parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InputParameter {
    path: Vec<String>,
    text: String,
}

impl InputArgs {
    /// Returns the value of `--input`, or an empty object.
    pub(super) fn base(&self) -> Result<Value, Failure> {
        self.input
            .as_deref()
            .map_or_else(|| Ok(Value::Object(Map::new())), |argument| parse_json_argument("--input", argument))
    }

    /// Returns whether the tool's schema is needed to interpret the parameters and to check their names.
    pub(super) fn needs_tool_schema(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// Returns a message for each parameter that the tool does not declare.
    pub(super) fn unknown_parameters(&self, tool: &Value) -> Vec<String> {
        let declared = declared_names(tool);
        let unknown = self.parameters.iter().filter_map(|parameter| parameter.path.first());
        let unknown = unknown.filter(|name| !declared.is_empty() && !declared.contains(name));
        let message = |name: &String| match did_you_mean(name, declared.iter().map(String::as_str)) {
            Some(hint) => format!("the tool has no parameter `{name}`; {hint}"),
            None => format!("the tool has no parameter `{name}`; it has {}", declared.join(", ")),
        };
        unknown.map(message).collect()
    }

    /// Merges the parameters into `input`. `tool` is the tool's definition, if known.
    pub(super) fn merge_parameters(&self, mut input: Value, tool: Option<&Value>) -> Result<Value, Failure> {
        for parameter in &self.parameters {
            let path: Vec<&str> = parameter.path.iter().map(String::as_str).collect();
            let value = match tool {
                Some(tool) if expects_string(tool, &path) => string_value(&parameter.text),
                _ => json_or_text(&parameter.text),
            };
            parameter.set(&mut input, value, "-p")?;
        }
        Ok(input)
    }
}

impl InputParameter {
    /// Sets the value, parsed as JSON if possible, in `target`.
    pub(super) fn merge_into(&self, target: &mut Value, option: &str) -> Result<(), Failure> {
        self.set(target, json_or_text(&self.text), option)
    }

    fn set(&self, target: &mut Value, value: Value, option: &str) -> Result<(), Failure> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        set_at_path(target, &path, value).map_err(|depth| {
            let blocking = path.iter().take(depth).copied().collect::<Vec<_>>().join(".");
            let blocking = if depth == 0 { "the input".to_owned() } else { format!("`{blocking}`") };
            Failure::Usage(format!("{option} {}: {blocking} is not an object", path.join(".")))
        })
    }
}

/// Parses the JSON of an option: a literal, `@FILE`, or `-` for standard input.
pub(super) fn parse_json_argument(option: &str, argument: &str) -> Result<Value, Failure> {
    let text = match argument.strip_prefix('@') {
        Some(path) => read_file(path)?,
        None if argument == "-" => read_stdin()?,
        None => argument.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("{option} is not valid JSON: {error}")))
}

/// Parses `NAME=VALUE`.
pub(super) fn parse_parameter(text: &str) -> Result<InputParameter, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, got `{text}`"))?;
    let path: Vec<String> = name.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!("expected a name or names separated by dots, got `{name}`"));
    }
    Ok(InputParameter { path, text: value.to_owned() })
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Returns a string value. JSON quotes around it are removed.
fn string_value(text: &str) -> Value {
    match json_or_text(text) {
        Value::String(quoted) => Value::String(quoted),
        _ => Value::String(text.to_owned()),
    }
}

/// Sets a value at a path and creates missing objects. Fails with the depth at which a non-object was found.
fn set_at_path(mut target: &mut Value, path: &[&str], value: Value) -> Result<(), usize> {
    for (depth, name) in path.iter().enumerate() {
        let fields = target.as_object_mut().ok_or(depth)?;
        target = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    }
    *target = value;
    Ok(())
}

fn read_file(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("cannot read `{path}`: {error}")))
}

/// Reads standard input to the end.
pub(super) fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(input: Option<&str>, parameters: &[&str], tool: Option<&Value>) -> Result<Value, String> {
        let parameters = parameters.iter().map(|text| parse_parameter(text)).collect::<Result<_, _>>()?;
        let args = InputArgs { input: input.map(str::to_owned), parameters };
        args.base().and_then(|base| args.merge_parameters(base, tool)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn parameter_value_is_parsed_as_json_if_possible() {
        let input = merged(None, &["n=1", "t=one", "b=true", "z=null", "l=[1]", "s=\"1\"", "e=", "eq=a=b"], None);
        assert_eq!(
            input.unwrap(),
            json!({ "n": 1, "t": "one", "b": true, "z": null, "l": [1], "s": "1", "e": "", "eq": "a=b" })
        );
    }

    #[test]
    fn dotted_parameter_name_sets_a_nested_field_of_the_input() {
        let input =
            merged(Some(r#"{"a":{"x":1,"y":2},"k":0}"#), &["a.x=9", "a.deep.er=t", "new.one=1", "a.x=10"], None);
        assert_eq!(
            input.unwrap(),
            json!({ "a": { "x": 10, "y": 2, "deep": { "er": "t" } }, "k": 0, "new": { "one": 1 } })
        );
    }

    #[test]
    fn parameter_inside_a_non_object_is_rejected_with_its_path() {
        let error = merged(Some(r#"{"a":{"b":1}}"#), &["a.b.c=2"], None).unwrap_err();
        assert!(error.contains("-p a.b.c: `a.b` is not an object"), "{error}");
        let error = merged(Some("[1]"), &["a=2"], None).unwrap_err();
        assert!(error.contains("-p a: the input is not an object"), "{error}");
        assert!(merged(None, &["a..b=1"], None).is_err() && merged(None, &["a"], None).is_err());
        assert!(merged(Some("{"), &[], None).unwrap_err().contains("--input is not valid JSON"));
    }

    #[test]
    fn parameter_with_string_schema_is_not_parsed_as_json() {
        let tool =
            json!({ "inputJsonSchema": { "properties": { "id": { "type": "string" }, "n": { "type": "integer" } } } });
        let input = merged(None, &["id=101", "n=101"], Some(&tool));
        assert_eq!(input.unwrap(), json!({ "id": "101", "n": 101 }));
        assert_eq!(merged(None, &["id=\"101\""], Some(&tool)).unwrap(), json!({ "id": "101" }));
        assert_eq!(
            merged(None, &["id=12345678901234567890123"], Some(&tool)).unwrap()["id"],
            "12345678901234567890123"
        );
    }

    #[test]
    fn undeclared_parameter_is_reported_with_a_similar_name() {
        let unknown = |parameters: &[&str], tool: Value| {
            let parameters = parameters.iter().map(|text| parse_parameter(text).unwrap()).collect();
            InputArgs { input: None, parameters }.unknown_parameters(&tool)
        };
        let tool = json!({ "inputJsonSchema": { "properties": { "dealId": {}, "limit": {} } } });
        assert_eq!(
            unknown(&["dealID=1", "limit=2", "colour=red"], tool),
            [
                "the tool has no parameter `dealID`; did you mean `dealId`?",
                "the tool has no parameter `colour`; it has dealId, limit",
            ]
        );
        for open in [json!({}), json!({ "inputJsonSchema": { "properties": { "a": {} }, "additionalProperties": {} } })]
        {
            assert_eq!(unknown(&["x=1"], open), Vec::<String>::new());
        }
    }

    #[test]
    fn input_stays_unchanged_without_parameters_and_defaults_to_an_empty_object() {
        assert_eq!(merged(Some("[1, 2]"), &[], None).unwrap(), json!([1, 2]));
        assert_eq!(merged(None, &[], None).unwrap(), json!({}));
    }
}
