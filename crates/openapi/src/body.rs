//! Maps the request body of an operation to the input of a tool: the media type, the input properties and the body
//! template.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};
use toolwright_types::BodyTemplate;

use crate::document::OpenApiDocument;
use crate::error::ConversionError;
use crate::expression::{escape_text, field_access, join_list, placeholder, string_literal};
use crate::parameters::sanitize_property_name;
use crate::reference::follow;
use crate::schema::Converter;

/// Possible names for the input property that contains the whole body. The first name that no parameter uses is chosen.
const BODY_PROPERTIES: [&str; 3] = ["body", "request_body", "whole_request_body"];
/// The maximum number of `allOf` parts of a flattened body.
const MAX_PARTS: usize = 32;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The request body of an operation, in the media type that the tool sends.
#[derive(Debug)]
pub(crate) struct RequestBody<'d> {
    media_type: String,
    is_form: bool,
    required: bool,
    schema: Option<&'d Value>,
    encoding: Option<&'d Map<String, Value>>,
    /// The summaries and values under `example` and `examples`.
    pub examples: Vec<(Option<&'d str>, &'d Value)>,
}

/// The input properties of the tool that contain the body, and the template that builds the body from them.
pub(crate) struct BodyMapping {
    /// The input properties, by name.
    pub properties: IndexMap<String, Value>,
    pub required: Vec<String>,
    /// Further keywords of the input schema, such as `anyOf`.
    pub constraints: Map<String, Value>,
    pub template: Option<BodyTemplate>,
    pub content_type: Option<String>,
    /// The input property that contains the whole body. `None` if the properties of the body are input properties
    /// themselves.
    pub body_property: Option<String>,
}

/// Reads the request body. JSON media types are preferred to forms. Returns `None` if the operation has no body, if the
/// body has no media types, or if the body is optional and is empty or has only unsupported media types.
pub(crate) fn read<'d>(
    document: &'d OpenApiDocument,
    operation: &'d Value,
    warnings: &mut Vec<String>,
) -> Result<Option<RequestBody<'d>>, ConversionError> {
    let Some(body) = operation.get("requestBody").filter(|body| body.is_object()) else { return Ok(None) };
    let body = follow(&document.root, body)?;
    let required = body.get("required") == Some(&Value::Bool(true));
    let content = body.get("content").and_then(Value::as_object);
    let rank = |name: &str| match name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        JSON => Some(0),
        "application/merge-patch+json" => Some(1),
        name if name.ends_with("+json") => Some(2),
        "*/*" | "application/*" => Some(3),
        FORM => Some(4),
        _ => None,
    };
    let ranked = content.into_iter().flatten().filter_map(|(name, media)| Some((rank(name)?, name, media)));
    let Some((rank, name, media)) = ranked.min_by_key(|(rank, ..)| *rank) else {
        let given: Vec<&str> = content.into_iter().flatten().map(|(name, _)| name.as_str()).take(5).collect();
        if required && !given.is_empty() {
            return Err(ConversionError(format!(
                "the request body must be JSON or a form, got {}",
                given.join(" or ")
            )));
        }
        if !given.is_empty() {
            warnings.push(format!(
                "the optional request body is not sent: it must be JSON or a form, got {}",
                given.join(" or ")
            ));
        }
        return Ok(None);
    };
    if !required && is_empty_object(document, media.get("schema")) {
        return Ok(None);
    }
    let named = media.get("examples").and_then(Value::as_object).into_iter().flatten();
    let named = named.filter_map(|(name, example)| {
        let example = follow(&document.root, example).ok()?;
        Some((example.get("summary").and_then(Value::as_str).or(Some(name)), example.get("value")?))
    });
    Ok(Some(RequestBody {
        media_type: if rank == 3 { JSON.to_owned() } else { name.clone() },
        is_form: rank == 4,
        required,
        schema: media.get("schema"),
        encoding: media.get("encoding").and_then(Value::as_object),
        examples: media.get("example").map(|example| (None, example)).into_iter().chain(named).collect(),
    }))
}

impl<'d> RequestBody<'d> {
    /// Maps the body to input properties. If possible, each property of the body becomes a separate input property.
    /// Otherwise one input property contains the whole body. `taken` contains the names of the parameters.
    pub(crate) fn map_to_input(
        &self,
        document: &'d OpenApiDocument,
        converter: &mut Converter<'d>,
        taken: &HashSet<&str>,
        method: &str,
    ) -> Result<BodyMapping, ConversionError> {
        let content_type = (self.media_type != JSON).then(|| self.media_type.clone());
        let flat = self.schema.and_then(|schema| flatten(document, converter, schema));
        let flat = flat.filter(|flat| self.can_be_flat(flat, taken));
        let Some(flat) = flat else { return self.nest(document, converter, taken, content_type) };
        let mut properties = IndexMap::new();
        for (name, schema) in &flat.properties {
            properties.insert((*name).to_owned(), converter.convert(schema)?);
        }
        let mut constraints = Map::new();
        if let Some(additional) = flat.additional {
            constraints.insert("additionalProperties".into(), converter.convert(additional)?);
        }
        if let Some((keyword, choices)) = flat.choices {
            constraints.insert(keyword.to_owned(), choices);
        }
        let template = match self.is_form {
            true => Some(BodyTemplate::Json(self.form_template(document, "param", &flat.properties))),
            // No template is needed: without one, a tool with one of these methods sends its whole input as the body.
            false if taken.is_empty() && matches!(method, "post" | "put" | "patch") => None,
            false if taken.is_empty() => Some(BodyTemplate::Text(placeholder("param"))),
            false => {
                let mut names: Vec<&str> = taken.iter().copied().collect();
                names.sort_unstable();
                let names: Vec<String> = names.into_iter().map(string_literal).collect();
                Some(BodyTemplate::Text(placeholder(&format!("param.omit([{}])", names.join(", ")))))
            }
        };
        let required = flat.required.iter().map(|name| (*name).to_owned()).collect();
        Ok(BodyMapping { properties, required, constraints, template, content_type, body_property: None })
    }

    fn can_be_flat(&self, flat: &FlatBody<'d>, taken: &HashSet<&str>) -> bool {
        let no_conflict =
            flat.properties.keys().all(|name| !taken.contains(name) && sanitize_property_name(name) == *name);
        // An optional body with required properties must be either absent or complete. Only a single input property can
        // express this.
        let no_partial_body = self.required || flat.required.is_empty();
        let known_fields = !self.is_form || (flat.additional.is_none() && !flat.properties.is_empty());
        no_conflict && no_partial_body && known_fields
    }

    fn nest(
        &self,
        document: &'d OpenApiDocument,
        converter: &mut Converter<'d>,
        taken: &HashSet<&str>,
        content_type: Option<String>,
    ) -> Result<BodyMapping, ConversionError> {
        let free = |name: &&str| !taken.contains(name);
        let name = BODY_PROPERTIES.into_iter().find(free);
        let name = name
            .ok_or_else(|| ConversionError("the parameters use all names that the request body could have".into()))?;
        let access = field_access("param", name);
        let template = match self.is_form {
            true => {
                let fields = self.schema.and_then(|schema| flatten(document, converter, schema));
                let fields = fields.filter(|flat| !flat.properties.is_empty());
                let fields = fields
                    .ok_or_else(|| ConversionError("the request body is a form without declared fields".into()))?;
                BodyTemplate::Json(self.form_template(document, &access, &fields.properties))
            }
            false => BodyTemplate::Text(placeholder(&access)),
        };
        let schema = self.schema.map(|schema| converter.convert(schema)).transpose()?;
        let mut properties = IndexMap::new();
        properties.insert(name.to_owned(), schema.unwrap_or_else(|| Value::Object(Map::new())));
        let required = if self.required { vec![name.to_owned()] } else { Vec::new() };
        Ok(BodyMapping {
            properties,
            required,
            constraints: Map::new(),
            template: Some(template),
            content_type,
            body_property: Some(name.to_owned()),
        })
    }

    /// Builds the template of a form. A key that ends in `[*]` expands an object to `key[field]`.
    fn form_template(&self, document: &OpenApiDocument, base: &str, fields: &IndexMap<&str, &Value>) -> Value {
        let entries = fields.keys().map(|name| {
            let encoding = self.encoding.and_then(|all| all.get(*name));
            let encoding = encoding.and_then(|encoding| follow(&document.root, encoding).ok());
            let option = |key: &str| encoding.and_then(|encoding| encoding.get(key));
            let style = option("style").and_then(Value::as_str).unwrap_or("form");
            let explode = option("explode").and_then(Value::as_bool).unwrap_or(true);
            let access = field_access(base, name);
            let key = escape_text(name, false);
            match style {
                "deepObject" => (format!("{key}[*]"), placeholder(&access)),
                _ if !explode => (key, placeholder(&join_list(&access, ","))),
                _ => (key, placeholder(&access)),
            }
        });
        Value::Object(entries.map(|(key, value)| (key, Value::String(value))).collect())
    }
}

/// Returns whether a schema is an object without properties. Some documents declare such a body for every operation.
fn is_empty_object(document: &OpenApiDocument, schema: Option<&Value>) -> bool {
    let Some(Ok(Value::Object(fields))) = schema.map(|schema| follow(&document.root, schema)) else { return false };
    fields.iter().all(|(keyword, value)| match keyword.as_str() {
        "properties" | "required" | "description" | "title" => {
            !value.is_object() || *value == Value::Object(Map::new())
        }
        "type" => value == "object",
        "additionalProperties" => *value == Value::Bool(false),
        _ => false,
    }) && fields.contains_key("properties")
}

/// A body whose properties can become input properties.
struct FlatBody<'d> {
    properties: IndexMap<&'d str, &'d Value>,
    required: Vec<&'d str>,
    additional: Option<&'d Value>,
    /// `anyOf` or `oneOf`, if its branches only list required properties.
    choices: Option<(&'static str, Value)>,
}

/// Collects the properties of a body that is a plain object, or an `allOf` of plain objects.
fn flatten<'d>(document: &'d OpenApiDocument, converter: &Converter<'d>, schema: &'d Value) -> Option<FlatBody<'d>> {
    let mut flat = FlatBody { properties: IndexMap::new(), required: Vec::new(), additional: None, choices: None };
    let mut parts = vec![schema];
    let mut seen = 0;
    while let Some(part) = parts.pop() {
        seen += 1;
        let fields = follow(&document.root, part).ok()?.as_object().filter(|_| seen <= MAX_PARTS)?;
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("type", kind) => (kind == "object" || *kind == serde_json::json!(["object"])).then_some(())?,
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties.iter().filter(|(_, property)| !converter.is_hidden(property)) {
                        // If two parts define one property differently, both definitions apply, which a flat object
                        // cannot express.
                        let conflict =
                            flat.properties.insert(name.as_str(), property).is_some_and(|first| first != property);
                        (!conflict).then_some(())?;
                    }
                }
                ("required", Value::Array(names)) => flat.required.extend(names.iter().filter_map(Value::as_str)),
                ("allOf", Value::Array(more)) => parts.extend(more.iter().rev()),
                ("additionalProperties", Value::Bool(false)) => {}
                ("additionalProperties", open) => flat.additional = Some(open),
                (choice @ ("anyOf" | "oneOf"), Value::Array(branches)) if flat.choices.is_none() => {
                    let choice = if choice == "anyOf" { "anyOf" } else { "oneOf" };
                    branches.iter().all(only_requires).then_some(())?;
                    flat.choices = Some((choice, value.clone()));
                }
                ("nullable", Value::Bool(true)) => return None,
                (
                    "anyOf"
                    | "oneOf"
                    | "not"
                    | "if"
                    | "then"
                    | "else"
                    | "patternProperties"
                    | "propertyNames"
                    | "minProperties"
                    | "maxProperties"
                    | "dependentRequired"
                    | "dependentSchemas"
                    | "dependencies"
                    | "unevaluatedProperties"
                    | "enum"
                    | "const",
                    _,
                ) => return None,
                _ => {}
            }
        }
    }
    // Removes the names of read-only properties, which are not part of the input. Sorts the names, because the order of
    // the parts has no meaning.
    flat.required.sort_unstable();
    flat.required.dedup();
    flat.required.retain(|name| flat.properties.contains_key(name));
    let known = !flat.properties.is_empty() || schema_is_object(document, schema);
    known.then_some(flat)
}

/// Returns whether a branch only lists required properties.
fn only_requires(branch: &Value) -> bool {
    let is_names = |value: &Value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    branch.as_object().is_some_and(|fields| {
        !fields.is_empty() && fields.iter().all(|(keyword, value)| keyword == "required" && is_names(value))
    })
}

fn schema_is_object(document: &OpenApiDocument, schema: &Value) -> bool {
    follow(&document.root, schema).is_ok_and(|schema| schema.get("type").is_some_and(|kind| kind == "object"))
}
