//! The parameters of an operation: their names in the tool's input, and the serialization of their values.

use indexmap::IndexMap;
use serde_json::Value;

use crate::document::OpenApiDocument;
use crate::error::ConversionError;
use crate::expression::{field_access, join_list, placeholder};
use crate::reference::follow;

/// The maximum number of parameters. A model cannot use a tool with more parameters.
const MAX_PARAMETERS: usize = 200;

/// The part of the request that carries a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    Path,
    Query,
    Header,
}

impl Location {
    fn as_str(self) -> &'static str {
        match self {
            Location::Path => "path",
            Location::Query => "query",
            Location::Header => "header",
        }
    }
}

/// A parameter of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'d> {
    /// The name in the request.
    pub wire_name: &'d str,
    /// The name in the tool's input.
    pub name: String,
    pub location: Location,
    pub required: bool,
    pub description: Option<&'d str>,
    /// `None` for an unrestricted string.
    pub schema: Option<&'d Value>,
    pub example: Option<&'d Value>,
    encoding: Encoding,
}

/// The serialization of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Scalars are sent as text, lists and objects as compact JSON.
    Plain,
    /// The items of a list are joined with a separator.
    Delimited(&'static str),
    /// Each item of a list, or each field of an object, is sent as a separate parameter.
    Exploded,
    /// An object is sent as `name[field]=value`.
    DeepObject,
}

/// The parameters of an operation, and warnings about them.
pub(crate) struct Parameters<'d> {
    pub all: Vec<Parameter<'d>>,
    pub warnings: Vec<String>,
}

/// Reads the parameters of a path item and of an operation. The parameters of the operation take precedence.
pub(crate) fn read<'d>(
    document: &'d OpenApiDocument,
    item: &'d Value,
    operation: &'d Value,
) -> Result<Parameters<'d>, ConversionError> {
    let lists = [item, operation].into_iter().filter_map(|holder| holder.get("parameters")?.as_array());
    let mut found: IndexMap<(&str, &str), &Value> = IndexMap::new();
    for parameter in lists.flatten().take(2 * MAX_PARAMETERS + 1) {
        let parameter = follow(&document.root, parameter)?;
        let text = |key: &str| parameter.get(key).and_then(Value::as_str);
        if let (Some(name), Some(location)) = (text("name"), text("in")) {
            found.insert((location, name), parameter);
        }
    }
    if found.len() > MAX_PARAMETERS {
        return Err(ConversionError(format!(
            "an operation must not have more than {MAX_PARAMETERS} parameters, got {}",
            found.len()
        )));
    }
    let mut parameters = Parameters { all: Vec::new(), warnings: Vec::new() };
    for ((location, name), parameter) in found {
        if let Some(parameter) = read_one(document, location, name, parameter, &mut parameters.warnings)? {
            parameters.all.push(parameter);
        }
    }
    assign_names(&mut parameters);
    Ok(parameters)
}

/// Reads one parameter. Returns `None` if the tool does not send the parameter.
fn read_one<'d>(
    document: &'d OpenApiDocument,
    location_name: &str,
    name: &'d str,
    parameter: &'d Value,
    warnings: &mut Vec<String>,
) -> Result<Option<Parameter<'d>>, ConversionError> {
    let required = parameter.get("required") == Some(&Value::Bool(true));
    let location = match location_name {
        "path" => Location::Path,
        "query" => Location::Query,
        // According to the OpenAPI specification, parameters with these names are ignored, because the client sets
        // these headers itself.
        "header" if ["accept", "content-type", "authorization"].contains(&name.to_ascii_lowercase().as_str()) => {
            return Ok(None);
        }
        "header" => Location::Header,
        _ if required => {
            return Err(ConversionError(format!(
                "the required {location_name} parameter `{name}` cannot be sent by a tool"
            )));
        }
        _ => {
            warnings.push(format!("the {location_name} parameter `{name}` is not sent"));
            return Ok(None);
        }
    };
    let content = parameter.get("content").and_then(Value::as_object).and_then(|content| content.values().next());
    let schema = parameter.get("schema").or_else(|| content?.get("schema"));
    let encoding = match encoding(document, location, parameter, schema.filter(|_| content.is_none())) {
        Ok(encoding) => encoding,
        Err(style) if required => {
            return Err(ConversionError(format!(
                "the required {location_name} parameter `{name}` has the unsupported style `{style}`"
            )));
        }
        Err(style) => {
            warnings.push(format!(
                "the {location_name} parameter `{name}` is not sent: its style `{style}` is not supported"
            ));
            return Ok(None);
        }
    };
    let named = parameter.get("examples").and_then(Value::as_object).and_then(|all| all.values().next());
    let named = named.and_then(|example| follow(&document.root, example).ok()?.get("value"));
    Ok(Some(Parameter {
        wire_name: name,
        name: String::new(),
        location,
        required: required || location == Location::Path,
        description: parameter.get("description").and_then(Value::as_str),
        schema,
        example: parameter.get("example").or(named).or_else(|| schema?.get("example")),
        encoding,
    }))
}

/// Returns the encoding of a parameter, or its style as the error if the style is not supported.
fn encoding<'d>(
    document: &OpenApiDocument,
    location: Location,
    parameter: &'d Value,
    schema: Option<&Value>,
) -> Result<Encoding, &'d str> {
    let default = if location == Location::Query { "form" } else { "simple" };
    let style = parameter.get("style").and_then(Value::as_str).unwrap_or(default);
    let explode = parameter.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
    let kind = schema.map_or(ValueKind::Scalar, |schema| value_kind(document, schema));
    match (location, style, kind) {
        (_, "simple" | "form" | "spaceDelimited" | "pipeDelimited", ValueKind::Scalar) => Ok(Encoding::Plain),
        (Location::Query, "deepObject", _) => Ok(Encoding::DeepObject),
        (Location::Query, "form", _) if explode => Ok(Encoding::Exploded),
        (Location::Query, "spaceDelimited" | "pipeDelimited", ValueKind::Array) if explode => Ok(Encoding::Exploded),
        (Location::Query, "form", ValueKind::Array | ValueKind::Mixed) => Ok(Encoding::Delimited(",")),
        (Location::Query, "spaceDelimited", ValueKind::Array | ValueKind::Mixed) => Ok(Encoding::Delimited(" ")),
        (Location::Query, "pipeDelimited", ValueKind::Array | ValueKind::Mixed) => Ok(Encoding::Delimited("|")),
        (Location::Path | Location::Header, "simple", ValueKind::Array | ValueKind::Mixed) => {
            Ok(Encoding::Delimited(","))
        }
        _ => Err(style),
    }
}

/// The kind of values that a schema accepts, which determines their serialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Scalar,
    Array,
    Object,
    /// Values of several kinds.
    Mixed,
}

fn value_kind(document: &OpenApiDocument, schema: &Value) -> ValueKind {
    let Ok(schema) = follow(&document.root, schema) else { return ValueKind::Scalar };
    let of_type = |name: &str| match name {
        "array" => ValueKind::Array,
        "object" => ValueKind::Object,
        _ => ValueKind::Scalar,
    };
    let is_combined = ["oneOf", "anyOf", "allOf"].iter().any(|keyword| schema.get(keyword).is_some());
    match schema.get("type") {
        Some(Value::String(name)) => of_type(name),
        Some(Value::Array(names)) => {
            let mut kinds = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").map(of_type);
            let first = kinds.next().unwrap_or(ValueKind::Scalar);
            if kinds.all(|kind| kind == first) { first } else { ValueKind::Mixed }
        }
        _ if schema.get("items").is_some() => ValueKind::Array,
        _ if schema.get("properties").is_some() => ValueKind::Object,
        _ if is_combined => ValueKind::Mixed,
        _ => ValueKind::Scalar,
    }
}

/// Assigns the input names. A parameter keeps its name from the document if model providers accept the name and no
/// earlier parameter has it.
fn assign_names(parameters: &mut Parameters<'_>) {
    let mut taken: Vec<String> = Vec::new();
    for parameter in &mut parameters.all {
        let base = sanitize_property_name(parameter.wire_name);
        let mut name = base.clone();
        if taken.contains(&name) {
            name = format!("{}_{base}", parameter.location.as_str());
        }
        let mut count = 1;
        while taken.contains(&name) {
            count += 1;
            name = format!("{}_{base}_{count}", parameter.location.as_str());
        }
        if name != parameter.wire_name {
            let location = parameter.location.as_str();
            let warning = format!("the {location} parameter `{}` is named `{name}` in the input", parameter.wire_name);
            parameters.warnings.push(warning);
        }
        taken.push(name.clone());
        parameter.name = name;
    }
}

/// Replaces the characters that model providers do not accept in property names, and limits the length.
pub(crate) fn sanitize_property_name(wire_name: &str) -> String {
    let mut name = String::new();
    for c in wire_name.chars().take(64) {
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
    /// Creates a required string parameter.
    pub(crate) fn required_string(wire_name: &'d str, name: String, location: Location) -> Self {
        let (description, schema, example) = (None, None, None);
        Self { wire_name, name, location, required: true, description, schema, example, encoding: Encoding::Plain }
    }

    /// The placeholder for the parameter's value.
    pub(crate) fn template(&self) -> String {
        let value = field_access("param", &self.name);
        match self.encoding {
            Encoding::Delimited(separator) => placeholder(&join_list(&value, separator)),
            Encoding::Plain | Encoding::Exploded | Encoding::DeepObject => placeholder(&value),
        }
    }

    /// The key in `invocation.query`. Its suffix selects the expansion of the value.
    pub(crate) fn query_key(&self) -> String {
        match self.encoding {
            Encoding::Exploded => format!("{}*", self.wire_name),
            Encoding::DeepObject => format!("{}[*]", self.wire_name),
            Encoding::Plain | Encoding::Delimited(_) => self.wire_name.to_owned(),
        }
    }
}
