//! Converts one operation into one tool.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolwright_types::{BodyTemplate, JsonSchema, RefName, ToolDefinition, ToolOrigin, ToolStatus, ToolType};

use crate::body::{self, BodyMapping, RequestBody};
use crate::document::OpenApiDocument;
use crate::error::ConversionError;
use crate::expression::{escape_text, field_access, placeholder};
use crate::parameters::{self, Location, Parameter, Parameters, sanitize_property_name};
use crate::reference::follow;
use crate::schema::{Converter, Direction};
use crate::{examples, names, servers, text};

/// The maximum length of a tool's description, in characters. It is OpenAI's limit.
const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The maximum length of a parameter's description, in characters.
const MAX_PARAMETER_DESCRIPTION_CHARS: usize = 500;
const MAX_TAGS: usize = 20;

/// An operation of a document.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'d> {
    pub path: &'d str,
    pub method: &'d str,
    /// The path item.
    pub item: &'d Value,
    /// The operation object.
    pub value: &'d Value,
}

/// A proposed tool, the warnings about it, and the approximate size of its schemas in bytes.
pub(crate) struct ToolDraft {
    pub definition: ToolDefinition,
    pub warnings: Vec<String>,
    pub bytes: usize,
}

impl<'d> Operation<'d> {
    pub(crate) fn id(&self) -> Option<&'d str> {
        self.value.get("operationId")?.as_str()
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &'d str> {
        self.value.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The method and path, by which users find the operation in their document.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.method.to_ascii_uppercase(), self.path)
    }

    /// The origin of the tool that calls this operation.
    pub(crate) fn origin(&self, document: &str) -> ToolOrigin {
        ToolOrigin {
            document: document.to_owned(),
            operation_id: self.id().map(str::to_owned),
            method: self.method.to_ascii_uppercase(),
            path: self.path.to_owned(),
        }
    }

    /// Builds the tool that calls this operation.
    pub(crate) fn build_tool(
        &self,
        document: &'d OpenApiDocument,
        name: RefName,
        provider: &RefName,
    ) -> Result<ToolDraft, ConversionError> {
        let own_server = servers::differing_server(&document.root, self.value);
        if let Some(url) = own_server.or_else(|| servers::differing_server(&document.root, self.item)) {
            return Err(ConversionError(format!(
                "the operation has its own server `{url}`; import it with a separate provider and `baseUrl`"
            )));
        }
        let Parameters { all: mut parameters, mut warnings } = parameters::read(document, self.item, self.value)?;
        let path = self.path_template(&mut parameters, &mut warnings);
        let body = body::read(document, self.value, &mut warnings)?;
        let mut converter = Converter::new(document, Direction::Input);
        let (schema, mapping) = self.input(document, &mut converter, &parameters, body.as_ref())?;
        let (output, output_bytes) = self.output(document, &mut warnings);
        let bytes = converter.estimated_bytes() + output_bytes;
        if converter.truncated {
            warnings.push("the input schema is too large; the parts beyond the limit accept any value".into());
        }
        if converter.dropped_patterns {
            warnings.push("a `pattern` of the input schema is not supported and was removed".into());
        }

        let mut tool = ToolDefinition::new(name, ToolType::ExternalRest);
        tool.provider_ref = Some(provider.to_string());
        tool.description = self.description();
        tool.tags = self.tags().filter_map(tag_label).take(MAX_TAGS).collect();
        tool.category = Some(category(provider, self.tags().next()));
        tool.idempotent = matches!(self.method, "put" | "delete");
        if self.value.get("deprecated") == Some(&Value::Bool(true)) {
            tool.status = ToolStatus::Deprecated;
        }
        let body_property = mapping.as_ref().and_then(|mapping| mapping.body_property.as_deref());
        tool.examples = examples::example_calls(&parameters, body.as_ref(), body_property, &schema);
        tool.input_json_schema = Some(JsonSchema(schema));
        tool.output_json_schema = output.map(JsonSchema);
        let invocation = &mut tool.invocation;
        invocation.method = Some(self.method.to_ascii_uppercase());
        invocation.path = Some(path);
        for parameter in &parameters {
            match parameter.location {
                Location::Path => {}
                Location::Query => drop(invocation.query.insert(parameter.query_key(), parameter.template())),
                Location::Header => {
                    drop(invocation.headers.insert(parameter.wire_name.to_owned(), parameter.template()))
                }
            }
        }
        match mapping {
            Some(mapping) => {
                (invocation.body_template, invocation.content_type) = (mapping.template, mapping.content_type);
            }
            // Without a template, a tool with the method POST, PUT or PATCH would send its input as the body.
            None if matches!(self.method, "post" | "put" | "patch") => {
                invocation.body_template = Some(BodyTemplate::Text(String::new()));
            }
            None => {}
        }
        Ok(ToolDraft { definition: tool, warnings, bytes })
    }

    fn description(&self) -> Option<String> {
        let text = |key: &str| self.value.get(key).or_else(|| self.item.get(key)).and_then(Value::as_str);
        text::merge_description(text("summary"), text("description"), MAX_DESCRIPTION_CHARS)
            .or_else(|| Some(self.label()))
    }

    /// Builds the path template. Adds a parameter for each placeholder that the document does not declare, and removes
    /// path parameters that the path does not contain.
    fn path_template(&self, parameters: &mut Vec<Parameter<'d>>, warnings: &mut Vec<String>) -> String {
        let mut template = String::new();
        let mut used = HashSet::new();
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((wire_name, tail)) = after.split_once('}') else { break };
            template.push_str(&escape_text(before, true));
            let declared =
                |parameter: &&Parameter<'_>| parameter.location == Location::Path && parameter.wire_name == wire_name;
            match parameters.iter().find(declared) {
                Some(parameter) => template.push_str(&parameter.template()),
                None => {
                    let parameter = Parameter::undeclared(wire_name, parameters);
                    warnings.push(format!("the path parameter `{wire_name}` is not declared"));
                    template.push_str(&placeholder(&field_access("param", &parameter.name)));
                    parameters.push(parameter);
                }
            }
            used.insert(wire_name);
            rest = tail;
        }
        template.push_str(&escape_text(rest, false));
        parameters.retain(|parameter| {
            let sent = parameter.location != Location::Path || used.contains(parameter.wire_name);
            if !sent {
                warnings.push(format!("the declared path parameter `{}` is not in the path", parameter.wire_name));
            }
            sent
        });
        template
    }

    /// Builds the input schema from the parameters and the body.
    fn input(
        &self,
        document: &'d OpenApiDocument,
        converter: &mut Converter<'d>,
        parameters: &[Parameter<'d>],
        body: Option<&RequestBody<'d>>,
    ) -> Result<(Value, Option<BodyMapping>), ConversionError> {
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for parameter in parameters {
            let schema = parameter.schema.map(|schema| converter.convert(schema)).transpose()?;
            let mut schema = match schema {
                Some(Value::Object(schema)) => schema,
                _ => Map::from_iter([("type".to_owned(), json!("string"))]),
            };
            if let Some(description) =
                parameter.description.map(|text| text::truncate(text, MAX_PARAMETER_DESCRIPTION_CHARS))
            {
                schema.insert("description".into(), Value::from(description));
            }
            if parameter.required {
                required.push(Value::from(parameter.name.as_str()));
            } else {
                describe_default(&mut schema);
            }
            properties.insert(parameter.name.clone(), Value::Object(schema));
        }
        let taken: HashSet<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let mapping = body.map(|body| body.map_to_input(document, converter, &taken, self.method)).transpose()?;
        let mut root = Map::from_iter([("type".to_owned(), json!("object"))]);
        if let Some(mapping) = &mapping {
            for (name, schema) in &mapping.properties {
                let mut schema = schema.clone();
                if let Value::Object(schema) = &mut schema {
                    describe_default(schema);
                }
                properties.insert(name.clone(), schema);
            }
            required.extend(mapping.required.iter().map(|name| Value::from(name.as_str())));
        }
        root.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            root.insert("required".into(), Value::Array(required));
        }
        root.insert("additionalProperties".into(), Value::Bool(false));
        if let Some(mapping) = &mapping {
            root.extend(mapping.constraints.clone());
        }
        converter.finish(&mut root)?;
        Ok((Value::Object(root), mapping))
    }

    /// Builds the output schema from the first 2xx response with a JSON body, and returns its approximate size in
    /// bytes. If the response schema cannot be converted, the tool has no output schema.
    fn output(&self, document: &'d OpenApiDocument, warnings: &mut Vec<String>) -> (Option<Value>, usize) {
        let Some(schema) = self.response_schema(document).filter(|_| self.method != "head") else { return (None, 0) };
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
            Ok(root) => (Some(Value::Object(root)).filter(|root| *root != json!({})), converter.estimated_bytes()),
            Err(error) => {
                warnings.push(format!("the tool has no output schema: {error}"));
                (None, 0)
            }
        }
    }

    fn response_schema(&self, document: &'d OpenApiDocument) -> Option<&'d Value> {
        let responses = self.value.get("responses")?.as_object()?;
        let mut successful: Vec<(&String, &Value)> =
            responses.iter().filter(|(status, _)| status.starts_with('2')).collect();
        successful.sort_by_key(|(status, _)| *status);
        successful.into_iter().find_map(|(_, response)| {
            let content = follow(&document.root, response).ok()?.get("content")?.as_object()?;
            let is_json = |media_type: &str| {
                let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
                essence == "application/json" || essence.ends_with("+json") || essence == "*/*"
            };
            let exact = content.get("application/json");
            exact.or_else(|| content.iter().find(|(name, _)| is_json(name)).map(|(_, media)| media))?.get("schema")
        })
    }
}

impl<'d> Parameter<'d> {
    /// Creates a parameter for a placeholder of the path that the document does not declare.
    fn undeclared(wire_name: &'d str, others: &[Parameter<'_>]) -> Self {
        let mut name = sanitize_property_name(wire_name);
        while others.iter().any(|other| other.name == name) {
            name.insert_str(0, "path_");
        }
        Parameter::required_string(wire_name, name, Location::Path)
    }
}

/// Moves the default of a property into its description. Otherwise the executor would add the default to each call, and
/// a call that updates one field would reset all other fields to their defaults.
fn describe_default(schema: &mut Map<String, Value>) {
    let Some(default) = schema.shift_remove("default").filter(|default| !default.is_null()) else { return };
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(text) if text.to_ascii_lowercase().contains("default") => return,
        Some(text) => format!("{} Default: {default}.", text.trim_end()),
        None => format!("Default: {default}."),
    };
    schema.insert("description".into(), Value::from(description));
}

/// Converts a tag of the document to a tag of the tool.
fn tag_label(tag: &str) -> Option<String> {
    let tag = text::truncate(tag, 64);
    (!tag.is_empty()).then_some(tag)
}

/// Returns the category of a tool: the provider, and the first tag as a subcategory.
fn category(provider: &RefName, tag: Option<&str>) -> String {
    let provider = provider.as_str().replace('/', ".");
    match tag.map(names::slug).filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("{provider}.{tag}"),
        None => provider,
    }
}
