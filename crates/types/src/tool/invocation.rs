//! How a tool is executed: its type, its invocation, and JSON Schemas.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::nullable::skip_null_entries;

/// The type of a tool, which selects its backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolType {
    /// An operation of the built-in entity service.
    QuantumApi,
    /// A query for records, sent to the query gateway.
    QuantumQuery,
    /// An external reasoning or optimisation service.
    Helix,
    /// Any HTTP API.
    ExternalRest,
    /// A tool of an MCP server.
    ExternalMcp,
    /// A method of a gRPC service.
    Grpc,
    /// A function in this process or in a sandbox.
    Function,
    /// An agent.
    Agent,
    /// A tool that contains a model.
    Agentic,
    /// A tool that routes each call to one of several other tools.
    Composite,
    /// A workflow.
    Workflow,
}

impl ToolType {
    /// Whether tools of this type send HTTP requests. `invocation.method` is then the HTTP method.
    pub fn uses_http(self) -> bool {
        matches!(self, ToolType::ExternalRest | ToolType::Helix)
    }

    /// Whether a call sends a request to a network address.
    pub fn makes_requests(self) -> bool {
        self.uses_http() || self == ToolType::Grpc
    }
}

/// How the backend calls the tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationConfig {
    /// The HTTP method. Default: GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path under the provider's base URL, an absolute URL, or the name of a function. May contain `${…}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Query parameters by name; entries with null are ignored. Values may contain `${…}`. If the name ends in `*`, a
    /// list is sent as one parameter for each item, and an object as one parameter for each field, with the name of the
    /// field. If the name ends in `[*]`, each field of an object is sent as `name[field]`.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub query: IndexMap<String, String>,
    /// Headers by name; entries with null are ignored. Values may contain `${…}`.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub headers: IndexMap<String, String>,
    /// The body: text, or JSON whose strings may contain `${…}`. If this field is absent, all parameters are sent as
    /// JSON. If it is an empty text, the request has no body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_template: Option<BodyTemplate>,
    /// A JSONPath or an expression that extracts the result from the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_mapping: Option<String>,
    /// A JSONPath or an expression that extracts messages for the caller and the model from the response: a text, or a
    /// list of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_mapping: Option<String>,
    /// The media type of the body. Default: `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Source code of a FUNCTION that runs in a sandbox; `path` names the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The tools that the code may call. Maps the function name in the code to the tool.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub functions: IndexMap<String, String>,
    /// The hash of the description that the MCP server gave for the tool when the tool was accepted. Calls are refused
    /// while the current description has another hash. If absent, the description is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A template of a request body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum BodyTemplate {
    /// Text in the media type of the body.
    Text(String),
    /// A JSON value.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    Json(Value),
}

/// A JSON Schema. In JSON, it is an object, a boolean, or a string that contains JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct JsonSchema(pub Value);

impl JsonSchema {
    /// The maximum size of a compiled regular expression in bytes. Matching takes time proportional to the text and to
    /// this size.
    pub const MAX_PATTERN_BYTES: usize = 1 << 20;
}

impl<'de> Deserialize<'de> for JsonSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = match Value::deserialize(deserializer)? {
            Value::String(text) => serde_json::from_str(&text)
                .map_err(|error| D::Error::custom(format!("the schema is a string, but not JSON: {error}")))?,
            other => other,
        };
        match value {
            Value::Object(_) | Value::Bool(_) => Ok(Self(value)),
            _ => Err(D::Error::custom("a JSON Schema must be an object, a boolean or a string with JSON")),
        }
    }
}
