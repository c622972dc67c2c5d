//! The definition of a tool: what it is called, what it takes and returns, how it behaves and where it runs.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use semver::Version;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::RefName;
use crate::schema::{ParameterDefinition, schema_of_parameters};

/// A tool as its author wrote it. Fields that are absent have defaults; the methods give the effective values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    /// How the tool is addressed.
    #[schema(value_type = String)]
    pub ref_name: RefName,
    /// The tool's free name, up to 128 characters; `refName` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the tool does, for a model that chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free dotted grouping, such as `crm.deals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Free labels.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The label that versions the definition.
    #[serde(default = "first_version", deserialize_with = "or_first_version")]
    #[schema(value_type = String, example = "1.0.0")]
    pub version: Version,
    /// Where this version stands in its life.
    #[serde(default, deserialize_with = "or_default")]
    pub status: Status,

    /// Parameters by name; the short way to write `inputJsonSchema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, ParameterDefinition>>)]
    pub input_schema: Option<IndexMap<String, ParameterDefinition>>,
    /// Fields of the result by name; the short way to write `outputJsonSchema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, ParameterDefinition>>)]
    pub output_schema: Option<IndexMap<String, ParameterDefinition>>,
    /// The full schema of the input (draft 2020-12 or draft-07), an object or a string holding JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_json_schema: Option<JsonSchema>,
    /// The full schema of the output, an object or a string holding JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_json_schema: Option<JsonSchema>,

    /// What runs the tool.
    pub tool_type: ToolType,
    /// How it is called there.
    #[serde(default, deserialize_with = "or_default")]
    pub invocation: InvocationConfig,
    /// The provider that holds the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,

    /// Older way to say `sideEffects`: true is `writes`, false is `reads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_side_effects: Option<bool>,
    /// What the tool does to the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Whether doing it twice is the same as doing it once.
    #[serde(default, deserialize_with = "or_default")]
    pub idempotent: bool,
    /// How long it usually takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_latency: Option<Latency>,
    /// What it usually costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_hint: Option<CostHint>,
    /// Whether an agent must ask before it calls.
    #[serde(default, deserialize_with = "or_default")]
    pub requires_confirmation: bool,

    /// What to do on an HTTP status.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, ErrorSemantics>)]
    pub error_handling: BTreeMap<u16, ErrorSemantics>,
    /// Retries after the first attempt; the provider's `maxRetries` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_retry_count: Option<u32>,
    /// How the pauses between attempts grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_retry_backoff: Option<Backoff>,

    /// The surfaces that show the tool; all three when absent.
    #[serde(default = "all_surfaces", deserialize_with = "or_all_surfaces")]
    pub available_as: BTreeSet<Surface>,
    /// Whether it can be called at all.
    #[serde(default = "yes", deserialize_with = "or_yes")]
    pub enabled: bool,
    /// A permission needed on top of the derived one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_uri: Option<String>,

    /// Usage notes; `description` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_description: Option<String>,
    /// Example calls.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ToolExample>,

    /// Whether results may be reused.
    #[serde(default, deserialize_with = "or_default")]
    pub cache: CachePolicy,
    /// How long, for `cache: ttl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_seconds: Option<u64>,
    /// How often it may be called per realm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// The deadline of a whole call, retries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Above this the output is cut and the whole is attached as a blob; 2 MB when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// How much of the output a model sees; 32 kB when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_output_bytes: Option<u64>,
    /// Whether the server performs the final step; otherwise it prepares one for the client.
    #[serde(default = "yes", deserialize_with = "or_yes")]
    pub is_tool_fully_executed_on_server: bool,
    /// The group under which a selector lists the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_category: Option<SelectorCategory>,
    /// The tool that tells whether an earlier write happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_tool_ref: Option<String>,
    /// The tool that undoes a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate_tool_ref: Option<String>,
    /// What a write touches (`${…}` over the input); writes with one key never run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_key: Option<String>,
    /// Whether calls of one batch run one after the other.
    #[serde(default, deserialize_with = "or_default")]
    pub sequential: bool,
    /// What to do when the output does not fit its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_output_mismatch: Option<OnOutputMismatch>,
    /// Fields of the input that may hold a name where an id is wanted, by the type of the provider's reference data.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub resolve: IndexMap<String, String>,
}

impl ToolDefinition {
    /// A definition with defaults everywhere.
    pub fn new(ref_name: RefName, tool_type: ToolType) -> Self {
        Self {
            ref_name,
            name: None,
            description: None,
            category: None,
            tags: Vec::new(),
            version: first_version(),
            status: Status::default(),
            input_schema: None,
            output_schema: None,
            input_json_schema: None,
            output_json_schema: None,
            tool_type,
            invocation: InvocationConfig::default(),
            provider_ref: None,
            has_side_effects: None,
            side_effects: None,
            idempotent: false,
            estimated_latency: None,
            cost_hint: None,
            requires_confirmation: false,
            error_handling: BTreeMap::new(),
            default_retry_count: None,
            default_retry_backoff: None,
            available_as: all_surfaces(),
            enabled: true,
            security_uri: None,
            long_description: None,
            examples: Vec::new(),
            cache: CachePolicy::default(),
            cache_ttl_seconds: None,
            rate_limit: None,
            timeout_ms: None,
            max_output_bytes: None,
            model_output_bytes: None,
            is_tool_fully_executed_on_server: true,
            selector_category: None,
            verify_tool_ref: None,
            compensate_tool_ref: None,
            resource_key: None,
            sequential: false,
            on_output_mismatch: None,
            resolve: IndexMap::new(),
        }
    }

    /// The free name, or the reference name.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.ref_name.as_str())
    }

    /// What a model is told the tool does: the description, else the usage notes, else the name.
    pub fn description_or_name(&self) -> &str {
        non_empty(&self.description)
            .or_else(|| non_empty(&self.long_description))
            .unwrap_or_else(|| self.display_name())
    }

    /// How to use the tool: the usage notes, else the description, else the name.
    pub fn usage(&self) -> &str {
        non_empty(&self.long_description).unwrap_or_else(|| self.description_or_name())
    }

    /// What the tool does to the world: as declared, else by the HTTP method, else `reads`.
    pub fn effects(&self) -> SideEffects {
        let declared = self.side_effects.or(match self.has_side_effects {
            Some(true) => Some(SideEffects::Writes),
            Some(false) => Some(SideEffects::Reads),
            None => None,
        });
        declared.unwrap_or_else(|| match self.invocation.method.as_deref() {
            Some(method) if is_safe_method(method) => SideEffects::Reads,
            Some(_) if self.tool_type.speaks_http() => SideEffects::Writes,
            _ => SideEffects::Reads,
        })
    }

    /// The schema of the input; `{}` when none was given.
    pub fn effective_input_schema(&self) -> Value {
        effective_schema(&self.input_json_schema, &self.input_schema)
    }

    /// The schema of the output; `{}` when none was given.
    pub fn effective_output_schema(&self) -> Value {
        effective_schema(&self.output_json_schema, &self.output_schema)
    }

    /// Whether an output that does not fit its schema fails the call.
    pub fn output_mismatch(&self) -> OnOutputMismatch {
        self.on_output_mismatch.unwrap_or(match self.tool_type {
            ToolType::ExternalRest | ToolType::ExternalMcp => OnOutputMismatch::Warn,
            _ => OnOutputMismatch::Fail,
        })
    }

    /// The size above which an output is cut.
    pub fn output_limit(&self) -> u64 {
        self.max_output_bytes.unwrap_or(2_000_000)
    }
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

fn is_safe_method(method: &str) -> bool {
    ["GET", "HEAD", "OPTIONS"].iter().any(|safe| method.eq_ignore_ascii_case(safe))
}

fn effective_schema(full: &Option<JsonSchema>, parameters: &Option<IndexMap<String, ParameterDefinition>>) -> Value {
    match (full, parameters) {
        (Some(schema), _) => schema.0.clone(),
        (None, Some(parameters)) => schema_of_parameters(parameters),
        (None, None) => json!({}),
    }
}

/// What runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolType {
    /// An operation of the built-in entity service.
    QuantumApi,
    /// The query gateway.
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
    /// A tool with a model inside.
    Agentic,
    /// A tool that routes to one of several by rules.
    Composite,
    /// A workflow.
    Workflow,
}

impl ToolType {
    /// Whether `invocation.method` is an HTTP method.
    pub fn speaks_http(self) -> bool {
        matches!(self, ToolType::ExternalRest | ToolType::Helix)
    }

    /// Whether a call is a request to an address.
    pub fn makes_requests(self) -> bool {
        self.speaks_http() || self == ToolType::Grpc
    }
}

/// How a tool is called where it lives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationConfig {
    /// The HTTP method; GET when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path under the provider's base URL, an absolute URL, or the name of a function. May hold `${…}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Query parameters by name; one whose value is null is left out. Values may hold `${…}`. A name ending in `*` repeats
    /// for each item of a list and gives way to the fields of an object; one ending in `[*]` becomes `name[field]`.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub query: IndexMap<String, String>,
    /// Headers; one whose value is null is left out. Values may hold `${…}`.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub headers: IndexMap<String, String>,
    /// The body: text, or any JSON whose strings may hold `${…}`. All parameters as JSON when absent; none when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_template: Option<BodyTemplate>,
    /// What of the answer is the result: a JSONPath or an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_mapping: Option<String>,
    /// The media type of the body; `application/json` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Source text, for a FUNCTION that runs in a sandbox; `path` says what it is written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The tools that the code may call, by the name under which it knows them.
    #[serde(default, deserialize_with = "without_nulls", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub functions: IndexMap<String, String>,
    /// The hash of what an MCP server said about the tool when it was accepted. Calls are refused while it says something
    /// else; without it nothing is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A request body with holes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum BodyTemplate {
    /// Text of the content type.
    Text(String),
    /// A JSON value.
    #[schema(value_type = Object)]
    Json(Value),
}

/// A JSON Schema. On the wire an object, a boolean, or a string holding either.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct JsonSchema(pub Value);

impl JsonSchema {
    /// How many bytes a pattern may have once it is compiled. Patterns run in linear time, and this is what that costs.
    pub const LARGEST_PATTERN: usize = 1 << 20;
}

impl<'de> Deserialize<'de> for JsonSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = match Value::deserialize(deserializer)? {
            Value::String(text) => serde_json::from_str(&text)
                .map_err(|error| D::Error::custom(format!("the schema is a string that is not JSON: {error}")))?,
            other => other,
        };
        match value {
            Value::Object(_) | Value::Bool(_) => Ok(Self(value)),
            _ => Err(D::Error::custom("a JSON Schema is an object, a boolean or a string holding one")),
        }
    }
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SideEffects {
    /// A pure function.
    None,
    /// Reads outside data.
    Reads,
    /// Changes outside state.
    Writes,
}

/// Where a version stands in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not offered; runs only when its version is named.
    Draft,
    /// Offered and runnable.
    #[default]
    Active,
    /// Hidden and runnable, with a warning.
    Deprecated,
    /// Refused.
    Blocked,
}

/// How a definition came to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Written by someone.
    #[default]
    Manual,
    /// Generated from a registered type.
    AutoGenerated,
    /// Imported from an MCP server.
    McpImported,
    /// Imported from an OpenAPI document.
    OpenapiImported,
    /// Imported from a gRPC server or its descriptors.
    GrpcImported,
    /// Made of a table of a database.
    DatabaseImported,
    /// Applied from gram notation.
    Gram,
    /// Part of the binary.
    BuiltIn,
}

impl Source {
    /// The source as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Manual => "manual",
            Source::AutoGenerated => "auto-generated",
            Source::McpImported => "mcp-imported",
            Source::OpenapiImported => "openapi-imported",
            Source::GrpcImported => "grpc-imported",
            Source::DatabaseImported => "database-imported",
            Source::Gram => "gram",
            Source::BuiltIn => "built-in",
        }
    }
}

/// How long a tool usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Latency {
    /// Under 100 ms.
    Fast,
    /// Under 5 s.
    Medium,
    /// Longer.
    Slow,
}

/// What a tool usually costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CostHint {
    /// Nothing.
    Free,
    /// Little.
    Low,
    /// Much.
    High,
}

/// How the pauses between attempts grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// No pause.
    None,
    /// By the same amount.
    Linear,
    /// Doubling.
    #[default]
    Exponential,
}

/// What to do on one HTTP status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorSemantics {
    /// The reaction.
    pub action: ErrorAction,
    /// What to tell the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tool to call instead, for `fallback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_tool_ref: Option<String>,
}

/// A reaction to an HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorAction {
    /// Try again, within the tool's limits.
    Retry,
    /// Tell the model, do not retry.
    Clarify,
    /// Fail at once.
    Fail,
    /// Call another tool with the same input.
    Fallback,
}

/// A surface that can show a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Surface {
    /// Agents and direct calls.
    Tool,
    /// Workflow steps.
    WorkflowStep,
    /// MCP clients.
    McpTool,
}

/// One example call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolExample {
    /// What the caller wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// What it sends.
    #[serde(default, deserialize_with = "or_default")]
    pub input: Map<String, Value>,
    /// What it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// Whether results may be reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// Never.
    #[default]
    None,
    /// For `cacheTtlSeconds`.
    Ttl,
    /// Until evicted.
    Forever,
}

/// How often a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Calls per second in the long run; may be a fraction.
    pub per_second: f64,
    /// Calls at once; at least 1.
    #[serde(default = "one", deserialize_with = "or_one")]
    pub burst: u32,
}

/// The group under which a selector lists a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SelectorCategory {
    /// Calls an API.
    Api,
    /// Runs code.
    Code,
    /// Works on data.
    Data,
    /// Finds things.
    Search,
    /// Anything else.
    Utility,
}

/// What to do when an output does not fit its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnOutputMismatch {
    /// PROVIDER_ERROR with `reason: output_schema`.
    Fail,
    /// A warning in the envelope.
    Warn,
}

fn first_version() -> Version {
    Version::new(1, 0, 0)
}

fn all_surfaces() -> BTreeSet<Surface> {
    BTreeSet::from([Surface::Tool, Surface::WorkflowStep, Surface::McpTool])
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

// On the wire `null` means absent, also for fields that are not optional here.

/// For `deserialize_with`: `null` is the default.
pub fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

pub(crate) fn or_yes<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(true))
}

/// Entries whose value is null are not there.
pub(crate) fn without_nulls<'de, D: Deserializer<'de>>(d: D) -> Result<IndexMap<String, String>, D::Error> {
    let entries: Option<IndexMap<String, Option<String>>> = Option::deserialize(d)?;
    Ok(entries.unwrap_or_default().into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

fn or_one<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(1))
}

fn or_first_version<'de, D: Deserializer<'de>>(d: D) -> Result<Version, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else {
        return Ok(first_version());
    };
    let wrong = |_| serde::de::Error::custom(format!("`{text}` is no version; write three numbers, like 1.2.0"));
    text.parse().map_err(wrong)
}

fn or_all_surfaces<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeSet<Surface>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(all_surfaces))
}
