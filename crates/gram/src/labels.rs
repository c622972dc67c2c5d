//! The labels of the patterns that represent agents, tools and responses.

use crate::model::Pattern;

/// The label of an agent.
pub(crate) const AGENT: &str = "Agent";

/// The labels of a tool specification. The first is the canonical one.
pub(crate) const TOOL_LABELS: [&str; 2] = ["ToolSpecification", "Tool"];

/// The label of the response of an agent.
pub(crate) const RESPONSE: &str = "AgentResponse";

/// Returns whether a pattern has the label of an agent.
pub fn is_agent(pattern: &Pattern) -> bool {
    pattern.has_label(AGENT)
}

/// Returns whether a pattern has a label of a tool specification.
pub fn is_tool(pattern: &Pattern) -> bool {
    TOOL_LABELS.iter().any(|label| pattern.has_label(label))
}

/// Returns whether a pattern is an agent, a tool or a response. Such a pattern is a container of its elements, so it is
/// not a relation even if it has two elements.
pub(crate) fn is_container(pattern: &Pattern) -> bool {
    is_agent(pattern) || is_tool(pattern) || pattern.has_label(RESPONSE)
}
