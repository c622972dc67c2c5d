//! Wire views of composite tools and of calls to them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_agents::RoutedCall;
use toolwright_catalog::Session;
use toolwright_catalog::registry::SavedDefinition;
use toolwright_runs::RunSnapshot;
use toolwright_types::{
    CompositeConfig, CompositeOperation, Document, RoutingMode, RoutingRule, RunId, RunStatus, Timestamp,
    ToolDefinition, ToolEnvelope, ToolError, UnifiedParameter,
};

use crate::run_views::{ApprovalView, ClientActionView};
use crate::tool_views::ToolViewStatus;

/// A composite tool.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompositeToolView {
    /// The id.
    pub id: String,
    /// The id of the realm.
    pub tenant_id: String,
    /// The name for people.
    pub name: String,
    /// The reference name.
    pub slug: String,
    /// What the tool does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether rules select the operation, or the caller names it.
    pub routing_mode: RoutingMode,
    /// The operation of calls that no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_operation_id: Option<String>,
    /// The operations.
    pub operations: Vec<CompositeOperation>,
    /// The rules that select an operation.
    pub routing_rules: Vec<RoutingRule>,
    /// The parameters by name. For each operation, `operationMappings` contains the name of the operation's own
    /// parameter that receives the value.
    #[schema(value_type = std::collections::BTreeMap<String, UnifiedParameter>)]
    pub unified_schema: Map<String, Value>,
    /// The JSON Schema of the input. If the author wrote none, the server generates it from `unifiedSchema`.
    pub input_schema: Value,
    /// The JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The description for agents, if the author wrote one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_description: Option<String>,
    /// `draft`, `active` or `disabled`.
    pub status: ToolViewStatus,
    /// Additional data that the author stores with the tool.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// The version.
    pub version: String,
    /// The number of writes, which is the ETag.
    pub revision: i64,
    /// The principal that created the tool.
    pub created_by: String,
    /// When the tool was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The principal that wrote the tool last.
    pub updated_by: String,
    /// When the tool was written last.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Warnings for the author.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl CompositeToolView {
    /// Creates the view of a tool; `None` if the tool is not composite.
    pub(super) fn new(session: &Session, saved: SavedDefinition<ToolDefinition>) -> Option<Self> {
        let SavedDefinition { document: Document { meta, body: tool }, warnings } = saved;
        let config = tool.composite.clone()?;
        let CompositeConfig { routing_mode, default_operation_id, operations, routing_rules, .. } = *config;
        let unified_schema = config.unified_schema.iter();
        let unified_schema =
            unified_schema.filter_map(|(name, parameter)| Some((name.clone(), serde_json::to_value(parameter).ok()?)));
        let has_output = tool.output_json_schema.is_some() || tool.output_schema.is_some();
        Some(Self {
            id: meta.id,
            tenant_id: session.realm.realm.to_string(),
            name: tool.display_name().to_owned(),
            slug: tool.ref_name.to_string(),
            description: tool.description.clone(),
            routing_mode,
            default_operation_id,
            operations,
            routing_rules,
            unified_schema: unified_schema.collect(),
            input_schema: tool.effective_input_schema(),
            output_schema: has_output.then(|| tool.effective_output_schema()),
            tool_description: tool.long_description.clone(),
            status: ToolViewStatus::of(&tool),
            metadata: config.metadata,
            version: tool.version.to_string(),
            revision: meta.revision,
            created_by: meta.created_by,
            created_at: meta.created_at,
            updated_by: meta.updated_by,
            updated_at: meta.updated_at,
            warnings,
        })
    }
}

/// The result of a call to a composite tool.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompositeInvocationView {
    /// Whether the call succeeded.
    pub success: bool,
    /// `AWAITING_APPROVAL` or `AWAITING_CLIENT`, if the call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// The output of the operation; null if the call failed or waits.
    pub data: Value,
    /// Why the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The approvals that the call waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
    /// The actions that the client has to perform. The client sends the results to the run `executionId`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_actions: Vec<ClientActionView>,
    /// Warnings about the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How the call was performed.
    pub meta: CompositeCallMeta,
}

/// How a call to a composite tool was performed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompositeCallMeta {
    /// The slug of the composite tool.
    pub composite_tool: String,
    /// The slug of the operation; null if the call was not routed.
    pub operation: Option<String>,
    /// The id of the run that calls the operation. If the call was refused before this run started: the id of the
    /// direct call's run.
    pub execution_id: String,
    /// The cost in US dollars, as far as prices are known.
    pub total_cost: f64,
    /// The duration in milliseconds. Absent while the call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl CompositeInvocationView {
    /// Creates the view of a call that has ended. `call` is the direct call's run.
    pub(super) fn ended(composite_tool: String, call: RunId, envelope: ToolEnvelope) -> Self {
        let detail = |error: &ToolError| Some(error.details.as_ref()?.get("operation")?.as_str()?.to_owned());
        let child = envelope.metadata.child_run.as_deref();
        let operation = child.and_then(|child| child.operation.clone());
        let meta = CompositeCallMeta {
            composite_tool,
            operation: operation.or_else(|| envelope.error.as_ref().and_then(detail)),
            execution_id: child.map_or(call, |child| child.run_id).to_string(),
            total_cost: envelope.metadata.cost_usd.unwrap_or(0.0),
            duration_ms: Some(envelope.t_end.millis_since(envelope.t_start)),
        };
        Self {
            success: envelope.is_success(),
            status: None,
            data: envelope.output,
            error: envelope.error,
            approvals: Vec::new(),
            client_actions: Vec::new(),
            warnings: envelope.metadata.warnings,
            meta,
        }
    }

    /// Creates the view of a call that waits. `execution` is the run that calls the operation.
    pub(super) fn waiting(composite_tool: String, execution: &RunSnapshot, approvals: Vec<ApprovalView>) -> Self {
        let RunSnapshot { start, run } = execution;
        let id = run.id().to_string();
        let actions = run.pending_client_actions().into_iter();
        Self {
            success: false,
            status: Some(run.status()),
            data: Value::Null,
            error: None,
            approvals,
            client_actions: actions.map(|action| ClientActionView::new(&id, action)).collect(),
            warnings: start.warnings.clone(),
            meta: CompositeCallMeta {
                composite_tool,
                operation: start.composite.as_ref().map(|call| call.operation.clone()),
                execution_id: id,
                total_cost: run.resource_usage().cost_usd,
                duration_ms: None,
            },
        }
    }
}

/// The operation and the parameters that a call would have.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CompositeRouteView {
    /// Whether the call has an operation and valid parameters.
    pub routed: bool,
    /// The slug of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The tool of the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The version of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The input that the tool would get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<Value>,
    /// Why the call would be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Warnings about the parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl From<Result<RoutedCall, ToolError>> for CompositeRouteView {
    fn from(routed: Result<RoutedCall, ToolError>) -> Self {
        match routed {
            Ok(RoutedCall { operation, tool, input, warnings, .. }) => Self {
                routed: true,
                operation: Some(operation),
                tool: Some(tool.definition.ref_name.to_string()),
                version: Some(tool.definition.version.to_string()),
                params: Some(input),
                error: None,
                warnings,
            },
            Err(error) => Self {
                routed: false,
                operation: None,
                tool: None,
                version: None,
                params: None,
                error: Some(error),
                warnings: Vec::new(),
            },
        }
    }
}
