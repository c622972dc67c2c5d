//! The definition of a tool: its name, its schemas, its behavior and its backend.

mod agentic;
mod behavior;
mod composite;
mod invocation;
mod kind;
mod origin;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use semver::Version;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::RefName;
use crate::nullable::{null_as_default, null_as_true, skip_null_entries};
use crate::schema::{ParameterDefinition, schema_of_parameters};

pub use self::agentic::{
    AgenticConfig, AvailableTool, ContextConfig, EmbeddedLlmConfig, ExecutionMode, ReferenceDataSelection,
    SafetyLimits, SequenceEntry, ToolAllocation,
};
pub use self::behavior::{
    Backoff, CachePolicy, CostHint, DefinitionSource, ErrorAction, ErrorSemantics, Latency, OnOutputMismatch,
    RateLimit, SelectorCategory, SideEffects, Surface, ToolExample, ToolPrice, ToolStatus,
};
pub use self::composite::{
    CompositeConfig, CompositeOperation, ConditionType, OPERATION_PARAMETER, OperationMapping, RoutingCondition,
    RoutingMode, RoutingRule, UnifiedParameter,
};
pub use self::invocation::{BodyTemplate, InvocationConfig, JsonSchema, ToolType};
pub use self::kind::ToolKind;
pub use self::origin::ToolOrigin;

/// A tool as its author wrote it. Absent fields have defaults. Methods such as `effects` return the value with defaults
/// applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    /// The reference name of the tool.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, up to 128 characters, without the restrictions of `refName`. Default: `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the tool does, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A dotted category, such as `crm.deals`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Tags. An agent can include all tools with a given tag.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The version of the definition.
    #[serde(default = "first_version", deserialize_with = "null_as_first_version")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1.0.0"))]
    pub version: Version,
    /// The life cycle status of this version.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ToolStatus,

    /// Parameters by name, a short form of `inputJsonSchema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, ParameterDefinition>>))]
    pub input_schema: Option<IndexMap<String, ParameterDefinition>>,
    /// Fields of the result by name, a short form of `outputJsonSchema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, ParameterDefinition>>))]
    pub output_schema: Option<IndexMap<String, ParameterDefinition>>,
    /// The complete schema of the input (draft 2020-12 or draft-07), an object or a string with JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub input_json_schema: Option<JsonSchema>,
    /// The complete schema of the output, an object or a string with JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub output_json_schema: Option<JsonSchema>,

    /// The type of the tool, which selects its backend.
    pub tool_type: ToolType,
    /// How the backend calls the tool.
    #[serde(default, deserialize_with = "null_as_default")]
    pub invocation: InvocationConfig,
    /// The provider whose connection the tool uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The operation that the tool was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<ToolOrigin>>,

    /// Older form of `sideEffects`: true is `writes`, false is `reads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_side_effects: Option<bool>,
    /// The side effects of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Whether executing a call twice has the same effect as executing it once.
    #[serde(default, deserialize_with = "null_as_default")]
    pub idempotent: bool,
    /// The usual latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_latency: Option<Latency>,
    /// The usual cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_hint: Option<CostHint>,
    /// The price of a call. It counts toward the cost limits of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ToolPrice>,
    /// Whether a person must approve each call that an agent requests.
    #[serde(default, deserialize_with = "null_as_default")]
    pub requires_confirmation: bool,

    /// The action for each HTTP status.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, ErrorSemantics>))]
    pub error_handling: BTreeMap<u16, ErrorSemantics>,
    /// The number of retries after the first attempt. Default: the provider's `maxRetries`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_retry_count: Option<u32>,
    /// How the delay between attempts grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_retry_backoff: Option<Backoff>,

    /// The kinds of callers to which the tool is offered. Default: all three.
    #[serde(default = "all_surfaces", deserialize_with = "null_as_all_surfaces")]
    pub available_as: BTreeSet<Surface>,
    /// Whether the tool can be called.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
    /// A further permission that a caller needs, as a security URI. The permission to execute the tool is always
    /// required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_uri: Option<String>,

    /// Usage notes. Default: the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_description: Option<String>,
    /// Example calls.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ToolExample>,

    /// Whether and how long results are cached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub cache: CachePolicy,
    /// The cache lifetime, for `cache: ttl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_seconds: Option<u64>,
    /// How often one realm may call the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// The timeout of a whole call, including retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The size above which the output is truncated and attached as a blob. Default: 2 MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// The maximum size of the output that a model sees. Default: 32 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_output_bytes: Option<u64>,
    /// Whether the server performs the whole call. If false, the server prepares a payload and the client performs the
    /// last part.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub is_tool_fully_executed_on_server: bool,
    /// The group of the tool in a user interface where tools are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_category: Option<SelectorCategory>,
    /// The tool that answers whether an earlier write took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_tool_ref: Option<String>,
    /// The tool that undoes a write of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate_tool_ref: Option<String>,
    /// The resource that a write affects. May contain `${…}` with fields of the input. In one model reply, writes with
    /// the same key run one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_key: Option<String>,
    /// Whether the calls to this tool in one model reply run one after the other.
    #[serde(default, deserialize_with = "null_as_default")]
    pub sequential: bool,
    /// Whether a call fails if its output does not match the output schema. The default depends on `toolType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_output_mismatch: Option<OnOutputMismatch>,
    /// Input fields that accept a name instead of an id. Maps each field to the type of reference data that contains
    /// the name.
    #[serde(default, deserialize_with = "skip_null_entries", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub resolve: IndexMap<String, String>,
    /// The embedded model of an AGENTIC tool and the tools that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agentic: Option<Box<AgenticConfig>>,
    /// The operations of a COMPOSITE tool and the rules that select one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composite: Option<Box<CompositeConfig>>,
}

impl ToolDefinition {
    /// Creates a definition. All other fields have their defaults.
    pub fn new(ref_name: RefName, tool_type: ToolType) -> Self {
        Self {
            ref_name,
            name: None,
            description: None,
            category: None,
            tags: Vec::new(),
            version: first_version(),
            status: ToolStatus::default(),
            input_schema: None,
            output_schema: None,
            input_json_schema: None,
            output_json_schema: None,
            tool_type,
            invocation: InvocationConfig::default(),
            provider_ref: None,
            origin: None,
            has_side_effects: None,
            side_effects: None,
            idempotent: false,
            estimated_latency: None,
            cost_hint: None,
            price: None,
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
            agentic: None,
            composite: None,
        }
    }

    /// The value of `name`, or the reference name if `name` is absent.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.ref_name.as_str())
    }

    /// The text that describes the tool to a model: the first of description, usage notes and name that is present.
    pub fn description_or_name(&self) -> &str {
        non_empty(&self.description)
            .or_else(|| non_empty(&self.long_description))
            .unwrap_or_else(|| self.display_name())
    }

    /// The text that tells a model how to use the tool: the first of usage notes, description and name that is present.
    pub fn usage(&self) -> &str {
        non_empty(&self.long_description).unwrap_or_else(|| self.description_or_name())
    }

    /// The behavior hints that the author declared, as one line for a model. `None` if all hints have their defaults.
    pub fn behavior_hints(&self) -> Option<String> {
        let writes = self.side_effects == Some(SideEffects::Writes)
            || (self.side_effects.is_none() && self.has_side_effects == Some(true));
        let latency = self.estimated_latency.map(|latency| match latency {
            Latency::Fast => "fast (under 100 ms)",
            Latency::Medium => "takes up to 5 s",
            Latency::Slow => "slow (over 5 s)",
        });
        let cost = self.cost_hint.map(|cost| match cost {
            CostHint::Free => "free",
            CostHint::Low => "low cost",
            CostHint::High => "high cost",
        });
        let hints = [
            writes.then_some("has side effects"),
            self.idempotent.then_some("idempotent"),
            latency,
            cost,
            self.requires_confirmation.then_some("a person must confirm each call"),
        ];
        let hints: Vec<&str> = hints.into_iter().flatten().collect();
        (!hints.is_empty()).then(|| format!("Hints: {}.", hints.join("; ")))
    }

    /// The declared side effects. If none are declared, they follow from the HTTP method; without a method, they are
    /// `reads`.
    pub fn effects(&self) -> SideEffects {
        let declared = self.side_effects.or(match self.has_side_effects {
            Some(true) => Some(SideEffects::Writes),
            Some(false) => Some(SideEffects::Reads),
            None => None,
        });
        // An agentic or composite tool counts as a writing tool, because its tools may write and can change later.
        let calls_tools = matches!(self.tool_type, ToolType::Agentic | ToolType::Composite);
        let declared = declared.or(calls_tools.then_some(SideEffects::Writes));
        declared.unwrap_or_else(|| match self.invocation.method.as_deref() {
            Some(method) if is_safe_method(method) => SideEffects::Reads,
            Some(_) if self.tool_type.uses_http() => SideEffects::Writes,
            _ => SideEffects::Reads,
        })
    }

    /// The schema of the input; `{}` if the definition has none.
    pub fn effective_input_schema(&self) -> Value {
        let mut schema = effective_schema(&self.input_json_schema, &self.input_schema);
        if let Some(composite) = &self.composite {
            let unified = || composite.unified_input_schema();
            schema =
                if self.has_input_schema() { schema } else { unified().unwrap_or_else(|| json!({ "type": "object" })) };
            schema = composite.with_operation_parameter(schema);
        }
        // The short form lists all parameters, so a misspelled name is an error. An empty list means that the author
        // defined no schema, so every parameter is allowed.
        if self.has_short_input()
            && let Some(fields) = schema.as_object_mut()
        {
            fields.insert("additionalProperties".into(), json!(false));
        }
        schema
    }

    /// The schema of the output; `{}` if the definition has none.
    pub fn effective_output_schema(&self) -> Value {
        effective_schema(&self.output_json_schema, &self.output_schema)
    }

    /// Whether a call fails or only warns if its output does not match the output schema. If the definition does not
    /// say, the tool type decides.
    pub fn output_mismatch(&self) -> OnOutputMismatch {
        self.on_output_mismatch.unwrap_or(match self.tool_type {
            ToolType::ExternalRest | ToolType::ExternalMcp => OnOutputMismatch::Warn,
            // The run of an agentic tool validates its answer. A partial result after the step limit has other fields.
            ToolType::Agentic => OnOutputMismatch::Warn,
            _ => OnOutputMismatch::Fail,
        })
    }

    /// The size above which an output is truncated.
    pub fn output_limit(&self) -> u64 {
        self.max_output_bytes.unwrap_or(2_000_000)
    }
}

impl ToolDefinition {
    /// Whether the definition contains the schema of its input, in the short or the complete form.
    pub fn has_input_schema(&self) -> bool {
        self.input_json_schema.is_some() || self.input_schema.is_some()
    }

    /// Whether the input schema is an expanded short form with parameters.
    fn has_short_input(&self) -> bool {
        let listed = self.input_schema.as_ref().is_some_and(|parameters| !parameters.is_empty());
        listed && self.input_json_schema.as_ref().is_none_or(|schema| has_only_definitions(&schema.0))
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
        (Some(definitions), Some(parameters)) if has_only_definitions(&definitions.0) => {
            let mut schema = schema_of_parameters(parameters);
            let own = definitions.0.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
            if let Some(fields) = schema.as_object_mut() {
                let all = fields.entry("$defs").or_insert_with(|| json!({}));
                all.as_object_mut().into_iter().for_each(|all| all.extend(own.clone()));
            }
            schema
        }
        (Some(schema), _) => schema.0.clone(),
        (None, Some(parameters)) => schema_of_parameters(parameters),
        (None, None) => json!({}),
    }
}

/// Whether a schema contains only definitions, to which the parameters of the short form can refer.
fn has_only_definitions(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| {
        fields.contains_key("$defs") && fields.keys().all(|key| matches!(key.as_str(), "$defs" | "$schema"))
    })
}

pub(crate) fn first_version() -> Version {
    Version::new(1, 0, 0)
}

fn all_surfaces() -> BTreeSet<Surface> {
    BTreeSet::from([Surface::Tool, Surface::WorkflowStep, Surface::McpTool])
}

fn default_true() -> bool {
    true
}

pub(crate) fn null_as_first_version<'de, D: Deserializer<'de>>(d: D) -> Result<Version, D::Error> {
    let Some(text) = Option::<String>::deserialize(d)? else {
        return Ok(first_version());
    };
    let invalid = |_| serde::de::Error::custom(format!("version must be three numbers such as 1.2.0, got `{text}`"));
    text.parse().map_err(invalid)
}

fn null_as_all_surfaces<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeSet<Surface>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(all_surfaces))
}
