//! Parameters of an operation: what each is called in the tool's input, and where its value goes.

use indexmap::IndexMap;
use serde_json::Value;

use crate::document::Document;
use crate::expression::{field, hole, joined};
use crate::reference::{Lost, follow};

/// More parameters make no tool that a model could use.
const MOST: usize = 200;

/// Where a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    Path,
    Query,
    Header,
}

impl Location {
    fn word(self) -> &'static str {
        match self {
            Location::Path => "path",
            Location::Query => "query",
            Location::Header => "header",
        }
    }
}

/// One parameter.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'d> {
    /// Its name on the wire.
    pub wire: &'d str,
    /// Its name in the input.
    pub name: String,
    pub location: Location,
    pub required: bool,
    pub description: Option<&'d str>,
    /// None when any text will do.
    pub schema: Option<&'d Value>,
    pub example: Option<&'d Value>,
    shape: Shape,
}

/// How its value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// As it is; lists and objects as compact JSON.
    Plain,
    /// A list with a separator between its items.
    Joined(&'static str),
    /// A list repeats its name; an object lends its fields.
    Spread,
    /// An object as `name[field]=value`.
    Deep,
}

/// The parameters of an operation, and what is odd about them.
pub(crate) struct Parameters<'d> {
    pub all: Vec<Parameter<'d>>,
    pub warnings: Vec<String>,
}

/// Reads the parameters of a path and of an operation; the operation's win.
pub(crate) fn read<'d>(document: &'d Document, item: &'d Value, operation: &'d Value) -> Result<Parameters<'d>, Lost> {
    let lists = [item, operation].into_iter().filter_map(|holder| holder.get("parameters")?.as_array());
    let mut found: IndexMap<(&str, &str), &Value> = IndexMap::new();
    for parameter in lists.flatten().take(2 * MOST + 1) {
        let parameter = follow(&document.root, parameter)?;
        let text = |key: &str| parameter.get(key).and_then(Value::as_str);
        if let (Some(name), Some(place)) = (text("name"), text("in")) {
            found.insert((place, name), parameter);
        }
    }
    if found.len() > MOST {
        return Err(Lost(format!("it has more than {MOST} parameters")));
    }
    let mut parameters = Parameters { all: Vec::new(), warnings: Vec::new() };
    for ((place, name), parameter) in found {
        if let Some(parameter) = one(document, place, name, parameter, &mut parameters.warnings)? {
            parameters.all.push(parameter);
        }
    }
    name_all(&mut parameters);
    Ok(parameters)
}

fn one<'d>(
    document: &'d Document,
    place: &str,
    name: &'d str,
    parameter: &'d Value,
    warnings: &mut Vec<String>,
) -> Result<Option<Parameter<'d>>, Lost> {
    let required = parameter.get("required") == Some(&Value::Bool(true));
    let location = match place {
        "path" => Location::Path,
        "query" => Location::Query,
        // The client's own business, by the standard.
        "header" if ["accept", "content-type", "authorization"].contains(&name.to_ascii_lowercase().as_str()) => {
            return Ok(None);
        }
        "header" => Location::Header,
        _ if required => {
            return Err(Lost(format!("it needs the {place} parameter `{name}`, which a tool cannot send")));
        }
        _ => {
            warnings.push(format!("the {place} parameter `{name}` is left out"));
            return Ok(None);
        }
    };
    let content = parameter.get("content").and_then(Value::as_object).and_then(|content| content.values().next());
    let schema = parameter.get("schema").or_else(|| content?.get("schema"));
    let shape = match shape(document, location, parameter, schema.filter(|_| content.is_none())) {
        Ok(shape) => shape,
        Err(style) if required => {
            return Err(Lost(format!(
                "the {place} parameter `{name}` has the style `{style}`, which a tool cannot send"
            )));
        }
        Err(style) => {
            warnings.push(format!("the {place} parameter `{name}` is left out: its style `{style}` cannot be sent"));
            return Ok(None);
        }
    };
    let named = parameter.get("examples").and_then(Value::as_object).and_then(|all| all.values().next());
    let named = named.and_then(|example| follow(&document.root, example).ok()?.get("value"));
    Ok(Some(Parameter {
        wire: name,
        name: String::new(),
        location,
        required: required || location == Location::Path,
        description: parameter.get("description").and_then(Value::as_str),
        schema,
        example: parameter.get("example").or(named).or_else(|| schema?.get("example")),
        shape,
    }))
}

/// How a parameter is written, or the style that it cannot be written in.
fn shape<'d>(
    document: &Document,
    location: Location,
    parameter: &'d Value,
    schema: Option<&Value>,
) -> Result<Shape, &'d str> {
    let default = if location == Location::Query { "form" } else { "simple" };
    let style = parameter.get("style").and_then(Value::as_str).unwrap_or(default);
    let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
    let kind = schema.map_or(Kind::Scalar, |schema| kind(document, schema));
    match (location, style, kind) {
        (_, "simple" | "form" | "spaceDelimited" | "pipeDelimited", Kind::Scalar) => Ok(Shape::Plain),
        (Location::Query, "deepObject", _) => Ok(Shape::Deep),
        (Location::Query, "form", _) if explode => Ok(Shape::Spread),
        (Location::Query, "spaceDelimited" | "pipeDelimited", Kind::List) if explode => Ok(Shape::Spread),
        (Location::Query, "form", Kind::List | Kind::Either) => Ok(Shape::Joined(",")),
        (Location::Query, "spaceDelimited", Kind::List | Kind::Either) => Ok(Shape::Joined(" ")),
        (Location::Query, "pipeDelimited", Kind::List | Kind::Either) => Ok(Shape::Joined("|")),
        (Location::Path | Location::Header, "simple", Kind::List | Kind::Either) => Ok(Shape::Joined(",")),
        _ => Err(style),
    }
}

/// What kind of values a schema lets through, as far as writing them is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    List,
    Object,
    /// Several kinds.
    Either,
}

fn kind(document: &Document, schema: &Value) -> Kind {
    let Ok(schema) = follow(&document.root, schema) else { return Kind::Scalar };
    let of = |name: &str| match name {
        "array" => Kind::List,
        "object" => Kind::Object,
        _ => Kind::Scalar,
    };
    let several = ["oneOf", "anyOf", "allOf"].iter().any(|keyword| schema.get(keyword).is_some());
    match schema.get("type") {
        Some(Value::String(name)) => of(name),
        Some(Value::Array(names)) => {
            let mut kinds = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").map(of);
            let first = kinds.next().unwrap_or(Kind::Scalar);
            if kinds.all(|kind| kind == first) { first } else { Kind::Either }
        }
        _ if schema.get("items").is_some() => Kind::List,
        _ if schema.get("properties").is_some() => Kind::Object,
        _ if several => Kind::Either,
        _ => Kind::Scalar,
    }
}

/// Names in the input: those of the wire where a model can write them and no other parameter has them.
fn name_all(parameters: &mut Parameters<'_>) {
    let mut taken: Vec<String> = Vec::new();
    for parameter in &mut parameters.all {
        let plain = property_name(parameter.wire);
        let mut name = plain.clone();
        if taken.contains(&name) {
            name = format!("{}_{plain}", parameter.location.word());
        }
        let mut count = 1;
        while taken.contains(&name) {
            count += 1;
            name = format!("{}_{plain}_{count}", parameter.location.word());
        }
        if name != parameter.wire {
            let place = parameter.location.word();
            parameters.warnings.push(format!("the {place} parameter `{}` is called `{name}`", parameter.wire));
        }
        taken.push(name.clone());
        parameter.name = name;
    }
}

/// A name as every provider of models takes it.
pub(crate) fn property_name(wire: &str) -> String {
    let mut name = String::new();
    for c in wire.chars().take(64) {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') => name.push(c),
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    if name.is_empty() { "value".to_owned() } else { name.to_owned() }
}

impl<'d> Parameter<'d> {
    /// A text that must be given.
    pub fn plain(wire: &'d str, name: String, location: Location) -> Self {
        let (description, schema, example) = (None, None, None);
        Self { wire, name, location, required: true, description, schema, example, shape: Shape::Plain }
    }

    /// The hole that its value fills.
    pub fn template(&self) -> String {
        let value = field("param", &self.name);
        match self.shape {
            Shape::Joined(separator) => hole(&joined(&value, separator)),
            Shape::Plain | Shape::Spread | Shape::Deep => hole(&value),
        }
    }

    /// Its name in `invocation.query`, which says how its value is spread.
    pub fn query_name(&self) -> String {
        match self.shape {
            Shape::Spread => format!("{}*", self.wire),
            Shape::Deep => format!("{}[*]", self.wire),
            Shape::Plain | Shape::Joined(_) => self.wire.to_owned(),
        }
    }
}
