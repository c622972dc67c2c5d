//! The outputs of an agent run. Their fields are a published contract and are the same for every agent.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use toolwright_types::{CallId, ToolEnvelope};

/// The outputs of an agent run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentOutputs {
    /// The answer. If the run ended without an answer, the last text of the model.
    pub response: String,
    /// The envelope of every call, including refused calls, by call id.
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, ToolEnvelope>))]
    pub tools_by_id: IndexMap<CallId, ToolEnvelope>,
    /// The call ids in the order in which the calls were started or refused.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub tool_order: Vec<CallId>,
    /// The last successful call in `tool_order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<ToolEnvelope>,
    /// The URL of the run's trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces_url: Option<String>,
}

impl AgentOutputs {
    /// Creates outputs from envelopes that are in the order in which the calls were started or refused.
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

    /// The envelopes in the order of `tool_order`.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = &ToolEnvelope> {
        self.tool_order.iter().filter_map(|id| self.tools_by_id.get(id))
    }
}
