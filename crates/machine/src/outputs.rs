//! The stable outputs of an agent: a published contract, the same whatever the agent's configuration.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use toolwright_types::{CallId, ToolEnvelope};

/// What an agent leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentOutputs {
    /// The answer; what there was of it when the run ended early.
    pub response: String,
    /// The receipt of every call, refused ones included, by its id.
    #[schema(value_type = std::collections::BTreeMap<String, ToolEnvelope>)]
    pub tools_by_id: IndexMap<CallId, ToolEnvelope>,
    /// The ids in the order the calls were started or refused.
    #[schema(value_type = Vec<String>)]
    pub tool_order: Vec<CallId>,
    /// The last call in that order that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<ToolEnvelope>,
    /// Where the run's trace can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
}

impl AgentOutputs {
    /// Outputs of these receipts, given in the order of their calls.
    pub fn new(
        response: String,
        envelopes: impl IntoIterator<Item = ToolEnvelope>,
        traces_url: Option<String>,
    ) -> Self {
        let tools_by_id: IndexMap<CallId, ToolEnvelope> =
            envelopes.into_iter().map(|envelope| (envelope.call_id.clone(), envelope)).collect();
        let last_tool = tools_by_id.values().rev().find(|envelope| envelope.is_success()).cloned();
        Self { response, tool_order: tools_by_id.keys().cloned().collect(), tools_by_id, last_tool, traces_url }
    }

    /// The receipts in the order of the calls.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = &ToolEnvelope> {
        self.tool_order.iter().filter_map(|id| self.tools_by_id.get(id))
    }
}
