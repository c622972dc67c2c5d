//! The operations of an API and the tools that call them.

use toolwright_types::{BodyTemplate, ToolDefinition, ToolType};

/// How an Arazzo step names an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationRef<'a> {
    /// By its `operationId`.
    Id {
        /// The name of the source description. `None` if the step does not name one.
        source: Option<&'a str>,
        /// The `operationId`.
        id: &'a str,
    },
    /// By its place in the source description.
    Path {
        /// The name of the source description.
        source: &'a str,
        /// The path of the API, such as `/orders/{id}`.
        path: String,
        /// The HTTP method in lower case.
        method: String,
    },
}

/// A tool that calls an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationTool {
    /// The `handlerRef` of a step that calls the tool.
    pub handler_ref: String,
    /// The parameters of the operation.
    pub parameters: Vec<OperationParameter>,
    /// The field of the tool's input that contains the request body.
    pub body: OperationBody,
    /// The media type of the request body.
    pub content_type: String,
}

/// The operation that a tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The name of the source description: letters, digits, `_` and `-`.
    pub source_name: String,
    /// The URL of the OpenAPI document.
    pub source_url: String,
    /// The `operationId`.
    pub operation_id: String,
    /// The tool.
    pub tool: OperationTool,
}

/// A parameter of an operation and the field of the tool's input that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationParameter {
    /// The name in the request.
    pub name: String,
    /// The part of the request.
    pub location: ParameterLocation,
    /// The field of the tool's input.
    pub field: String,
}

/// The part of a request that contains a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterLocation {
    /// The path.
    Path,
    /// The query.
    Query,
    /// The headers. Their names have no case.
    Header,
}

/// Where the input of a tool contains the request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationBody {
    /// The operation has no body.
    None,
    /// The fields of the body are fields of the input.
    Fields,
    /// One field of the input contains the whole body.
    Field(String),
}

impl ParameterLocation {
    /// The value of `in`.
    pub fn as_str(self) -> &'static str {
        match self {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
            ParameterLocation::Header => "header",
        }
    }
}

impl OperationTool {
    /// Reads parameters and body from the request template of a REST tool. `None` if the tool is not a REST tool, or if
    /// its template or its response mapping computes values, so that requests and responses differ from those of an
    /// operation.
    pub fn from_definition(tool: &ToolDefinition) -> Option<Self> {
        let invocation = &tool.invocation;
        if tool.tool_type != ToolType::ExternalRest || invocation.response_mapping.is_some() {
            return None;
        }
        let mut parameters = Vec::new();
        let mut rest = invocation.path.as_deref()?;
        let mut names = tool.origin.as_ref().map(|origin| origin.path.as_str());
        while let Some((_, after)) = rest.split_once("${") {
            let (expression, tail) = after.split_once('}')?;
            let field = parameter_field(expression)?;
            // The template does not contain the name in the path of the document.
            let name = names.and_then(|path| path.split_once('{')?.1.split_once('}'));
            names = name.map(|(_, rest)| rest);
            let name = name.map_or_else(|| field.clone(), |(name, _)| name.to_owned());
            parameters.push(OperationParameter { name, location: ParameterLocation::Path, field });
            rest = tail;
        }
        let query = invocation.query.iter().map(|(name, value)| {
            let name = name.strip_suffix("[*]").or_else(|| name.strip_suffix('*')).unwrap_or(name);
            (name, value, ParameterLocation::Query)
        });
        let headers = invocation.headers.iter().map(|(name, value)| (name.as_str(), value, ParameterLocation::Header));
        for (name, value, location) in query.chain(headers) {
            let expression = value.strip_prefix("${")?.strip_suffix('}')?;
            let field = parameter_field(expression)?;
            parameters.push(OperationParameter { name: name.to_owned(), location, field });
        }
        let sends_body = matches!(invocation.method.as_deref(), Some("POST" | "PUT" | "PATCH"));
        let body = match &invocation.body_template {
            None if sends_body => OperationBody::Fields,
            None => OperationBody::None,
            Some(BodyTemplate::Text(text)) if text.is_empty() => OperationBody::None,
            Some(BodyTemplate::Text(text)) => body_field(text.strip_prefix("${")?.strip_suffix('}')?)?,
            Some(BodyTemplate::Json(_)) => return None,
        };
        let content_type = invocation.content_type.clone().unwrap_or_else(|| "application/json".to_owned());
        Some(Self { handler_ref: tool.ref_name.to_string(), parameters, body, content_type })
    }
}

fn body_field(expression: &str) -> Option<OperationBody> {
    if expression == "param" || expression.starts_with("param.omit([") {
        return Some(OperationBody::Fields);
    }
    field_access(expression).map(OperationBody::Field)
}

/// The field that a placeholder of a parameter reads. A list can be joined: `type(F) == 'list' ? … : F`.
fn parameter_field(expression: &str) -> Option<String> {
    let joined = expression.strip_prefix("type(").and_then(|rest| rest.split_once(") == 'list'"));
    field_access(joined.map_or(expression, |(list, _)| list))
}

/// The field in `param.id` or `param['x-y']`.
fn field_access(expression: &str) -> Option<String> {
    let rest = expression.strip_prefix("param")?;
    let plain = rest.strip_prefix('.');
    let quoted = || rest.strip_prefix("['")?.strip_suffix("']");
    let field = plain.or_else(quoted)?;
    let is_name = !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let is_plain = plain.is_none() || field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && is_plain).then(|| field.to_owned())
}
