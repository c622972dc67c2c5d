//! The body of a request: which of its forms is sent, what that takes, and how the input becomes it.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};
use toolwright_types::BodyTemplate;

use crate::document::Document;
use crate::expression::{field, hole, joined, literal, quoted};
use crate::parameters::property_name;
use crate::reference::{Lost, follow};
use crate::schema::Converter;

/// Where a body goes that cannot lie beside the parameters.
const APART: &str = "body";
/// How many parts a body may be made of to be laid beside the parameters.
const MOST_PARTS: usize = 32;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The body that an operation takes.
#[derive(Debug)]
pub(crate) struct Body<'d> {
    media: String,
    form: bool,
    required: bool,
    schema: Option<&'d Value>,
    encoding: Option<&'d Map<String, Value>>,
    /// What stands under `example` or `examples`.
    pub examples: Vec<(Option<&'d str>, &'d Value)>,
}

/// What a body asks of the input, and how it is made from it.
pub(crate) struct Laid {
    /// Properties of the input, by name.
    pub properties: IndexMap<String, Value>,
    pub required: Vec<String>,
    /// What else the input must be like.
    pub more: Map<String, Value>,
    pub template: Option<BodyTemplate>,
    pub content_type: Option<String>,
    /// The property that holds the whole body, if it does not lie beside the parameters.
    pub apart: Option<String>,
}

/// The body in the form that is sent: JSON before forms. None when there is none, or none that is needed.
pub(crate) fn read<'d>(
    document: &'d Document,
    operation: &'d Value,
    warnings: &mut Vec<String>,
) -> Result<Option<Body<'d>>, Lost> {
    let Some(body) = operation.get("requestBody").filter(|body| body.is_object()) else { return Ok(None) };
    let body = follow(&document.root, body)?;
    let required = body.get("required") == Some(&Value::Bool(true));
    let content = body.get("content").and_then(Value::as_object);
    let rank = |media: &str| match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        JSON => Some(0),
        "application/merge-patch+json" => Some(1),
        media if media.ends_with("+json") => Some(2),
        "*/*" | "application/*" => Some(3),
        FORM => Some(4),
        _ => None,
    };
    let ranked = content.into_iter().flatten().filter_map(|(media, form)| Some((rank(media)?, media, form)));
    let Some((rank, media, form)) = ranked.min_by_key(|(rank, ..)| *rank) else {
        let given: Vec<&str> = content.into_iter().flatten().map(|(media, _)| media.as_str()).take(5).collect();
        if required && !given.is_empty() {
            return Err(Lost(format!("its body is {}; JSON and forms can be sent", given.join(" or "))));
        }
        if !given.is_empty() {
            warnings.push(format!("the body is left out: it is {}", given.join(" or ")));
        }
        return Ok(None);
    };
    if !required && is_nothing(document, form.get("schema")) {
        return Ok(None);
    }
    let named = form.get("examples").and_then(Value::as_object).into_iter().flatten();
    let named = named.filter_map(|(name, example)| {
        let example = follow(&document.root, example).ok()?;
        Some((example.get("summary").and_then(Value::as_str).or(Some(name)), example.get("value")?))
    });
    Ok(Some(Body {
        media: if rank == 3 { JSON.to_owned() } else { media.clone() },
        form: rank == 4,
        required,
        schema: form.get("schema"),
        encoding: form.get("encoding").and_then(Value::as_object),
        examples: form.get("example").map(|example| (None, example)).into_iter().chain(named).collect(),
    }))
}

impl<'d> Body<'d> {
    /// Lays the body beside the parameters, whose names are `taken`, or apart from them where that cannot be.
    pub fn lay(
        &self,
        document: &'d Document,
        converter: &mut Converter<'d>,
        taken: &HashSet<&str>,
        method: &str,
    ) -> Result<Laid, Lost> {
        let content_type = (self.media != JSON).then(|| self.media.clone());
        let flat =
            self.schema.and_then(|schema| flat(document, converter, schema)).filter(|flat| self.fits(flat, taken));
        let Some(flat) = flat else { return self.apart(document, converter, taken, content_type) };
        let mut properties = IndexMap::new();
        for (name, schema) in &flat.properties {
            properties.insert((*name).to_owned(), converter.convert(schema)?);
        }
        let mut more = Map::new();
        if let Some(additional) = flat.additional {
            more.insert("additionalProperties".into(), converter.convert(additional)?);
        }
        if let Some((keyword, choices)) = flat.choices {
            more.insert(keyword.to_owned(), choices);
        }
        let template = match self.form {
            true => Some(BodyTemplate::Json(self.form_template(document, "param", &flat.properties))),
            // The input is the body.
            false if taken.is_empty() && matches!(method, "post" | "put" | "patch") => None,
            false if taken.is_empty() => Some(BodyTemplate::Text(hole("param"))),
            false => {
                let mut names: Vec<&str> = taken.iter().copied().collect();
                names.sort_unstable();
                let names: Vec<String> = names.into_iter().map(quoted).collect();
                Some(BodyTemplate::Text(hole(&format!("param.omit([{}])", names.join(", ")))))
            }
        };
        let required = flat.required.iter().map(|name| (*name).to_owned()).collect();
        Ok(Laid { properties, required, more, template, content_type, apart: None })
    }

    fn fits(&self, flat: &Flat<'d>, taken: &HashSet<&str>) -> bool {
        let clear = flat.properties.keys().all(|name| !taken.contains(name) && property_name(name) == *name);
        // A body that need not be sent, but must be whole when it is, is one thing that may be absent.
        let together = self.required || flat.required.is_empty();
        let form = !self.form || (flat.additional.is_none() && !flat.properties.is_empty());
        clear && together && form
    }

    fn apart(
        &self,
        document: &'d Document,
        converter: &mut Converter<'d>,
        taken: &HashSet<&str>,
        content_type: Option<String>,
    ) -> Result<Laid, Lost> {
        let free = |name: &&str| !taken.contains(name);
        let name = [APART, "request_body", "whole_request_body"].into_iter().find(free);
        let name = name.ok_or_else(|| Lost("its parameters leave no name for its body".into()))?;
        let way = field("param", name);
        let template = match self.form {
            true => {
                let fields = self.schema.and_then(|schema| flat(document, converter, schema));
                let fields = fields.filter(|flat| !flat.properties.is_empty());
                let fields = fields.ok_or_else(|| Lost("its body is a form without fields that are known".into()))?;
                BodyTemplate::Json(self.form_template(document, &way, &fields.properties))
            }
            false => BodyTemplate::Text(hole(&way)),
        };
        let schema = self.schema.map(|schema| converter.convert(schema)).transpose()?;
        let mut properties = IndexMap::new();
        properties.insert(name.to_owned(), schema.unwrap_or_else(|| Value::Object(Map::new())));
        let required = if self.required { vec![name.to_owned()] } else { Vec::new() };
        let apart = Some(name.to_owned());
        Ok(Laid { properties, required, more: Map::new(), template: Some(template), content_type, apart })
    }

    /// The fields of a form. A key ending in `[*]` spreads its value over `key[field]`.
    fn form_template(&self, document: &Document, base: &str, fields: &IndexMap<&str, &Value>) -> Value {
        let entries = fields.keys().map(|name| {
            let encoding = self.encoding.and_then(|all| all.get(*name));
            let encoding = encoding.and_then(|encoding| follow(&document.root, encoding).ok());
            let said = |key: &str| encoding.and_then(|encoding| encoding.get(key));
            let style = said("style").and_then(Value::as_str).unwrap_or("form");
            let explode = said("explode").and_then(Value::as_bool).unwrap_or(true);
            let way = field(base, name);
            let key = literal(name, false);
            match style {
                "deepObject" => (format!("{key}[*]"), hole(&way)),
                _ if !explode => (key, hole(&joined(&way, ","))),
                _ => (key, hole(&way)),
            }
        });
        Value::Object(entries.map(|(key, value)| (key, Value::String(value))).collect())
    }
}

/// Whether a body could hold nothing: some documents give every operation one.
fn is_nothing(document: &Document, schema: Option<&Value>) -> bool {
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

/// A body whose properties are known one by one.
struct Flat<'d> {
    properties: IndexMap<&'d str, &'d Value>,
    required: Vec<&'d str>,
    additional: Option<&'d Value>,
    choices: Option<(&'static str, Value)>,
}

/// A body as properties, when it is an object and nothing more: plain, or made of such parts.
fn flat<'d>(document: &'d Document, converter: &Converter<'d>, schema: &'d Value) -> Option<Flat<'d>> {
    let mut flat = Flat { properties: IndexMap::new(), required: Vec::new(), additional: None, choices: None };
    let mut parts = vec![schema];
    let mut seen = 0;
    while let Some(part) = parts.pop() {
        seen += 1;
        let fields = follow(&document.root, part).ok()?.as_object().filter(|_| seen <= MOST_PARTS)?;
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("type", kind) => (kind == "object" || *kind == serde_json::json!(["object"])).then_some(())?,
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties.iter().filter(|(_, property)| !converter.hides(property)) {
                        // Two parts that speak of one property mean both.
                        let twice =
                            flat.properties.insert(name.as_str(), property).is_some_and(|first| first != property);
                        (!twice).then_some(())?;
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
    // What only the other side sets cannot be asked for. Sorted, because parts come in any order.
    flat.required.sort_unstable();
    flat.required.dedup();
    flat.required.retain(|name| flat.properties.contains_key(name));
    let known = !flat.properties.is_empty() || schema_is_object(document, schema);
    known.then_some(flat)
}

/// Whether a branch says nothing but which properties must be there.
fn only_requires(branch: &Value) -> bool {
    let names = |value: &Value| value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    branch.as_object().is_some_and(|fields| {
        !fields.is_empty() && fields.iter().all(|(keyword, value)| keyword == "required" && names(value))
    })
}

fn schema_is_object(document: &Document, schema: &Value) -> bool {
    follow(&document.root, schema).is_ok_and(|schema| schema.get("type").is_some_and(|kind| kind == "object"))
}
