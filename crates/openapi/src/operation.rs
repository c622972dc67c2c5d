//! One operation as one tool.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolwright_types::{BodyTemplate, JsonSchema, RefName, Status, ToolDefinition, ToolType};

use crate::body::{self, Body, Laid};
use crate::document::Document;
use crate::expression::{field, hole, literal};
use crate::parameters::{self, Location, Parameter, Parameters, property_name};
use crate::reference::{Lost, follow};
use crate::schema::{Converter, Direction};
use crate::{examples, servers, text};

/// What OpenAI takes of a description, in characters.
const LONGEST_DESCRIPTION: usize = 1024;
const LONGEST_TEXT: usize = 500;
const MOST_TAGS: usize = 20;

/// Where an operation stands in its document.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'d> {
    pub path: &'d str,
    pub method: &'d str,
    /// The object under the path.
    pub item: &'d Value,
    /// The object under the method.
    pub value: &'d Value,
}

/// A tool, what is odd about it, and about how many bytes its schemas have.
pub(crate) struct Built {
    pub definition: ToolDefinition,
    pub warnings: Vec<String>,
    pub bytes: usize,
}

impl<'d> Operation<'d> {
    pub fn id(&self) -> Option<&'d str> {
        self.value.get("operationId")?.as_str()
    }

    pub fn tags(&self) -> impl Iterator<Item = &'d str> {
        self.value.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// How people find it in their document.
    pub fn label(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    /// The tool that calls it.
    pub fn build(&self, document: &'d Document, name: RefName, provider: &RefName) -> Result<Built, Lost> {
        if let Some(url) =
            servers::elsewhere(&document.root, self.value).or_else(|| servers::elsewhere(&document.root, self.item))
        {
            return Err(Lost(format!(
                "it lives at another server, {url}; import it with a provider of its own and `baseUrl`"
            )));
        }
        let Parameters { all: mut parameters, mut warnings } = parameters::read(document, self.item, self.value)?;
        let path = self.path_template(&mut parameters, &mut warnings);
        let body = body::read(document, self.value, &mut warnings)?;
        let mut converter = Converter::new(document, Direction::Input);
        let (schema, laid) = self.input(document, &mut converter, &parameters, body.as_ref())?;
        let (output, output_bytes) = self.output(document, &mut warnings);
        let bytes = converter.spent() + output_bytes;
        if converter.cut {
            warnings.push("the input schema is too large; what did not fit takes anything".into());
        }
        if converter.patterns_lost {
            warnings
                .push("a pattern that looks around, is too large or is none is left out of the input schema".into());
        }

        let mut tool = ToolDefinition::new(name, ToolType::ExternalRest);
        tool.provider_ref = Some(provider.to_string());
        tool.description = self.described();
        tool.tags = self.tags().filter_map(label).take(MOST_TAGS).collect();
        tool.category = Some(category(provider, self.tags().next()));
        tool.idempotent = matches!(self.method, "put" | "delete");
        if self.value.get("deprecated") == Some(&Value::Bool(true)) {
            tool.status = Status::Deprecated;
        }
        let apart = laid.as_ref().and_then(|laid| laid.apart.as_deref());
        tool.examples = examples::of(&parameters, body.as_ref(), apart, &schema);
        tool.input_json_schema = Some(JsonSchema(schema));
        tool.output_json_schema = output.map(JsonSchema);
        let invocation = &mut tool.invocation;
        invocation.method = Some(self.method.to_ascii_uppercase());
        invocation.path = Some(path);
        for parameter in &parameters {
            match parameter.location {
                Location::Path => {}
                Location::Query => drop(invocation.query.insert(parameter.query_name(), parameter.template())),
                Location::Header => drop(invocation.headers.insert(parameter.wire.to_owned(), parameter.template())),
            }
        }
        match laid {
            Some(laid) => (invocation.body_template, invocation.content_type) = (laid.template, laid.content_type),
            // Without a template these methods would send the input.
            None if matches!(self.method, "post" | "put" | "patch") => {
                invocation.body_template = Some(BodyTemplate::Text(String::new()));
            }
            None => {}
        }
        Ok(Built { definition: tool, warnings, bytes })
    }

    fn described(&self) -> Option<String> {
        let of = |key: &str| self.value.get(key).or_else(|| self.item.get(key)).and_then(Value::as_str);
        text::described(of("summary"), of("description"), LONGEST_DESCRIPTION).or_else(|| Some(self.label()))
    }

    /// The path with holes. A hole that no parameter speaks of is one all the same.
    fn path_template(&self, parameters: &mut Vec<Parameter<'d>>, warnings: &mut Vec<String>) -> String {
        let mut template = String::new();
        let mut used = HashSet::new();
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((wire, behind)) = after.split_once('}') else { break };
            template.push_str(&literal(before, true));
            let known = |parameter: &&Parameter<'_>| parameter.location == Location::Path && parameter.wire == wire;
            match parameters.iter().find(known) {
                Some(parameter) => template.push_str(&parameter.template()),
                None => {
                    let parameter = Parameter::unsaid(wire, parameters);
                    warnings.push(format!("the path parameter `{wire}` is not described"));
                    template.push_str(&hole(&field("param", &parameter.name)));
                    parameters.push(parameter);
                }
            }
            used.insert(wire);
            rest = behind;
        }
        template.push_str(&literal(rest, false));
        // Asked for by the document and sent nowhere.
        parameters.retain(|parameter| {
            let sent = parameter.location != Location::Path || used.contains(parameter.wire);
            if !sent {
                warnings.push(format!("the path parameter `{}` does not stand in the path", parameter.wire));
            }
            sent
        });
        template
    }

    /// What the tool takes: the parameters, and the body beside them or apart.
    fn input(
        &self,
        document: &'d Document,
        converter: &mut Converter<'d>,
        parameters: &[Parameter<'d>],
        body: Option<&Body<'d>>,
    ) -> Result<(Value, Option<Laid>), Lost> {
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for parameter in parameters {
            let schema = parameter.schema.map(|schema| converter.convert(schema)).transpose()?;
            let mut schema = match schema {
                Some(Value::Object(schema)) => schema,
                _ => Map::from_iter([("type".to_owned(), json!("string"))]),
            };
            if let Some(description) = parameter.description.map(|text| text::shortened(text, LONGEST_TEXT)) {
                schema.insert("description".into(), Value::from(description));
            }
            if parameter.required {
                required.push(Value::from(parameter.name.as_str()));
            } else {
                tell_default(&mut schema);
            }
            properties.insert(parameter.name.clone(), Value::Object(schema));
        }
        let taken: HashSet<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let laid = body.map(|body| body.lay(document, converter, &taken, self.method)).transpose()?;
        let mut root = Map::from_iter([("type".to_owned(), json!("object"))]);
        if let Some(laid) = &laid {
            for (name, schema) in &laid.properties {
                let mut schema = schema.clone();
                if let Value::Object(schema) = &mut schema {
                    tell_default(schema);
                }
                properties.insert(name.clone(), schema);
            }
            required.extend(laid.required.iter().map(|name| Value::from(name.as_str())));
        }
        root.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            root.insert("required".into(), Value::Array(required));
        }
        root.insert("additionalProperties".into(), Value::Bool(false));
        if let Some(laid) = &laid {
            root.extend(laid.more.clone());
        }
        converter.finish(&mut root)?;
        Ok((Value::Object(root), laid))
    }

    /// What the first good answer holds, when that is JSON; and about how many bytes that takes. An answer that cannot be
    /// described costs its description and not the tool.
    fn output(&self, document: &'d Document, warnings: &mut Vec<String>) -> (Option<Value>, usize) {
        let Some(schema) = self.answer(document).filter(|_| self.method != "head") else { return (None, 0) };
        let mut converter = Converter::new(document, Direction::Output);
        let converted = converter.convert(schema).and_then(|schema| {
            let mut root = match schema {
                Value::Object(root) => root,
                _ => Map::new(),
            };
            converter.finish(&mut root)?;
            Ok(root)
        });
        match converted {
            Ok(root) => (Some(Value::Object(root)).filter(|root| *root != json!({})), converter.spent()),
            Err(lost) => {
                warnings.push(format!("there is no output schema: {lost}"));
                (None, 0)
            }
        }
    }

    fn answer(&self, document: &'d Document) -> Option<&'d Value> {
        let answers = self.value.get("responses")?.as_object()?;
        let mut good: Vec<(&String, &Value)> = answers.iter().filter(|(status, _)| status.starts_with('2')).collect();
        good.sort_by_key(|(status, _)| *status);
        good.into_iter().find_map(|(_, answer)| {
            let content = follow(&document.root, answer).ok()?.get("content")?.as_object()?;
            let json = |media: &str| {
                let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
                essence == "application/json" || essence.ends_with("+json") || essence == "*/*"
            };
            let exact = content.get("application/json");
            exact.or_else(|| content.iter().find(|(media, _)| json(media)).map(|(_, form)| form))?.get("schema")
        })
    }
}

impl<'d> Parameter<'d> {
    /// A parameter that stands in the path and nowhere else.
    fn unsaid(wire: &'d str, others: &[Parameter<'_>]) -> Self {
        let mut name = property_name(wire);
        while others.iter().any(|other| other.name == name) {
            name.insert_str(0, "path_");
        }
        Parameter::plain(wire, name, Location::Path)
    }
}

/// Says what the API takes when a property is absent, instead of sending it. Defaults of a tool are filled in before a call:
/// one that changes a single field would set all others to what they were when they were new.
fn tell_default(schema: &mut Map<String, Value>) {
    let Some(default) = schema.shift_remove("default").filter(|default| !default.is_null()) else { return };
    let said = match schema.get("description").and_then(Value::as_str) {
        Some(text) if text.to_ascii_lowercase().contains("default") => return,
        Some(text) => format!("{} Default: {default}.", text.trim_end()),
        None => format!("Default: {default}."),
    };
    schema.insert("description".into(), Value::from(said));
}

/// A tag as a label of the tool.
fn label(tag: &str) -> Option<String> {
    let tag = text::shortened(tag, 64);
    (!tag.is_empty()).then_some(tag)
}

/// The provider, and the first tag under it.
fn category(provider: &RefName, tag: Option<&str>) -> String {
    let provider = provider.as_str().replace('/', ".");
    match tag.map(crate::names::slug).filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("{provider}.{tag}"),
        None => provider,
    }
}
