//! The input of a call: `--input`, and `-p` merged over it.

use std::io::Read;

use serde_json::{Map, Value};

use super::failure::Failure;
use super::schema::wants_text;

/// Options that give an input.
#[derive(clap::Args)]
pub struct InputArgs {
    /// The input as JSON, `@FILE` to read it from there, or `-` for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// One parameter, over --input. A dotted name reaches into an object; the value is JSON if it parses and the tool
    /// does not want text there, else text
    #[arg(short, long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    parameters: Vec<Parameter>,
}

/// One `-p`.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    path: Vec<String>,
    text: String,
}

impl InputArgs {
    /// The input that `--input` alone gives: no arguments when it is absent.
    pub fn base(&self) -> Result<Value, Failure> {
        self.input.as_deref().map_or_else(|| Ok(Value::Object(Map::new())), |given| json_argument("--input", given))
    }

    /// Whether the tool's definition decides what a parameter means.
    pub fn needs_definition(&self) -> bool {
        self.parameters.iter().any(|parameter| !matches!(json_or_text(&parameter.text), Value::String(_)))
    }

    /// The parameters merged over `input`. `tool` is the definition, where known.
    pub fn merge_over(&self, mut input: Value, tool: Option<&Value>) -> Result<Value, Failure> {
        for parameter in &self.parameters {
            let path: Vec<&str> = parameter.path.iter().map(String::as_str).collect();
            let value = match tool {
                Some(tool) if wants_text(tool, &path) => text_of(&parameter.text),
                _ => json_or_text(&parameter.text),
            };
            parameter.put(&mut input, value, "-p")?;
        }
        Ok(input)
    }
}

impl Parameter {
    /// Puts the value, which is JSON if it parses, over what is there.
    pub fn put_over(&self, target: &mut Value, option: &str) -> Result<(), Failure> {
        self.put(target, json_or_text(&self.text), option)
    }

    fn put(&self, target: &mut Value, value: Value, option: &str) -> Result<(), Failure> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        put(target, &path, value).map_err(|depth| {
            let taken = path.iter().take(depth).copied().collect::<Vec<_>>().join(".");
            let taken = if depth == 0 { "the input".to_owned() } else { format!("`{taken}`") };
            Failure::Usage(format!("{option} {}: {taken} is not an object in what was given before", path.join(".")))
        })
    }
}

/// JSON that an option gives: itself, `@FILE`, or `-` for standard input.
pub fn json_argument(option: &str, given: &str) -> Result<Value, Failure> {
    let text = match given.strip_prefix('@') {
        Some(path) => read_file(path)?,
        None if given == "-" => read_stdin()?,
        None => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("{option} is not JSON: {error}")))
}

/// One `NAME=VALUE`.
pub fn parse_parameter(text: &str) -> Result<Parameter, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    let path: Vec<String> = name.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!("`{name}` is not a name, nor names with dots between them"));
    }
    Ok(Parameter { path, text: value.to_owned() })
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Text for a parameter that is text: quotes around it are the caller's way to say the same.
fn text_of(text: &str) -> Value {
    match json_or_text(text) {
        Value::String(quoted) => Value::String(quoted),
        _ => Value::String(text.to_owned()),
    }
}

/// Puts a value at a path and makes the objects on the way. Fails with how far it came: what is there is no object.
fn put(mut target: &mut Value, path: &[&str], value: Value) -> Result<(), usize> {
    for (depth, name) in path.iter().enumerate() {
        let fields = target.as_object_mut().ok_or(depth)?;
        target = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    }
    *target = value;
    Ok(())
}

fn read_file(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Usage(format!("read `{path}`: {error}")))
}

/// All of standard input.
pub fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("read standard input: {error}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(input: Option<&str>, parameters: &[&str], tool: Option<&Value>) -> Result<Value, String> {
        let parameters = parameters.iter().map(|text| parse_parameter(text)).collect::<Result<_, _>>()?;
        let args = InputArgs { input: input.map(str::to_owned), parameters };
        args.base().and_then(|base| args.merge_over(base, tool)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn values_are_json_if_they_parse() {
        let input = merged(None, &["n=1", "t=one", "b=true", "z=null", "l=[1]", "s=\"1\"", "e=", "eq=a=b"], None);
        assert_eq!(
            input.unwrap(),
            json!({ "n": 1, "t": "one", "b": true, "z": null, "l": [1], "s": "1", "e": "", "eq": "a=b" })
        );
    }

    #[test]
    fn dotted_names_build_objects_over_the_input() {
        let input =
            merged(Some(r#"{"a":{"x":1,"y":2},"k":0}"#), &["a.x=9", "a.deep.er=t", "new.one=1", "a.x=10"], None);
        assert_eq!(
            input.unwrap(),
            json!({ "a": { "x": 10, "y": 2, "deep": { "er": "t" } }, "k": 0, "new": { "one": 1 } })
        );
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let error = merged(Some(r#"{"a":{"b":1}}"#), &["a.b.c=2"], None).unwrap_err();
        assert!(error.contains("-p a.b.c: `a.b` is not an object"), "{error}");
        let error = merged(Some("[1]"), &["a=2"], None).unwrap_err();
        assert!(error.contains("-p a: the input is not an object"), "{error}");
        assert!(merged(None, &["a..b=1"], None).is_err() && merged(None, &["a"], None).is_err());
        assert!(merged(Some("{"), &[], None).unwrap_err().contains("--input is not JSON"));
    }

    #[test]
    fn a_tool_that_wants_text_gets_text() {
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
    fn an_input_without_parameters_is_sent_as_it_is() {
        assert_eq!(merged(Some("[1, 2]"), &[], None).unwrap(), json!([1, 2]));
        assert_eq!(merged(None, &[], None).unwrap(), json!({}));
    }
}
