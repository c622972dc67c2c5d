//! Resolves an agent's pins to envelopes.
//!
//! Not here: the last successful calls of earlier runs. The caller looks them up in the store.

use indexmap::IndexMap;
use toolwright_types::{ErrorCode, OnMissing, PinnedHandle, SelectionStrategy, Selector, ToolEnvelope};

use crate::AgentOutputs;

/// The reason why pins cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Two pins have the same name.
    #[error("pin name `{0}` is used twice; pin names must be unique")]
    Duplicate(String),
    /// No call matches, and the pin is required.
    #[error("pin `{pin}` is required, but no call to tool `{tool}` matches it")]
    Missing {
        /// The pin.
        pin: String,
        /// The tool that the pin selects.
        tool: String,
    },
}

/// Resolves each pin to its envelope, in pin order. `stale` takes a tool name and returns the last successful call of
/// that tool in earlier runs.
pub fn resolve_pins(
    outputs: &AgentOutputs,
    pins: &[PinnedHandle],
    stale: impl Fn(&str) -> Option<ToolEnvelope>,
) -> Result<IndexMap<String, Option<ToolEnvelope>>, PinError> {
    let mut values = IndexMap::with_capacity(pins.len());
    for pin in pins {
        let tool = &pin.selector.tool;
        let value = match (select(outputs, &pin.selector).cloned(), pin.on_missing) {
            (Some(envelope), _) => Some(envelope),
            (None, OnMissing::Null) => None,
            (None, OnMissing::StaleLastSuccess) => stale(tool),
            (None, OnMissing::Error) => {
                return Err(PinError::Missing { pin: pin.name.clone(), tool: tool.clone() });
            }
        };
        if values.insert(pin.name.clone(), value).is_some() {
            return Err(PinError::Duplicate(pin.name.clone()));
        }
    }
    Ok(values)
}

fn select<'a>(outputs: &'a AgentOutputs, selector: &Selector) -> Option<&'a ToolEnvelope> {
    let mut calls =
        outputs.in_order().filter(|call| call.name.eq_ignore_ascii_case(&selector.tool) && reached_the_tool(call));
    match &selector.strategy {
        SelectionStrategy::Latest => calls.next_back(),
        SelectionStrategy::FirstSuccess => calls.find(|call| call.is_success()),
        SelectionStrategy::ByCallId(id) => calls.find(|call| call.call_id == *id),
    }
}

/// Returns false for a call that was refused because its tool is unknown, disabled, blocked or not allowed. Pins ignore
/// such calls.
fn reached_the_tool(call: &ToolEnvelope) -> bool {
    let Some(error) = call.error.as_ref().filter(|error| error.code == ErrorCode::PolicyDenied) else {
        return true;
    };
    let reason = error.details.as_ref().and_then(|details| details.get("reason")).and_then(|reason| reason.as_str());
    !matches!(reason, Some("unknown_tool" | "not_allowed" | "disabled" | "blocked"))
}
