//! What an agent's pins show.
//!
//! Not here: where the last success of an earlier run is kept; the caller looks it up.

use indexmap::IndexMap;
use toolwright_types::{ErrorCode, OnMissing, PinnedHandle, Selector, Strategy, ToolEnvelope};

use crate::AgentOutputs;

/// Why pins have no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// Two pins share a name.
    #[error("two pins are called `{0}`")]
    Duplicate(String),
    /// No such call, and the pin says that this is an error.
    #[error("pin `{pin}` shows nothing: no such call of tool `{tool}`")]
    Missing {
        /// The pin.
        pin: String,
        /// The tool it listens to.
        tool: String,
    },
}

/// The value of each pin, in the order of the pins. `stale` knows a tool's last success in earlier runs, by its name.
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
        Strategy::Latest => calls.next_back(),
        Strategy::FirstSuccess => calls.find(|call| call.is_success()),
        Strategy::ByCallId(id) => calls.find(|call| call.call_id == *id),
    }
}

/// A disabled tool's pin is null even if the model tried to call the tool.
fn reached_the_tool(call: &ToolEnvelope) -> bool {
    let Some(error) = call.error.as_ref().filter(|error| error.code == ErrorCode::PolicyDenied) else {
        return true;
    };
    let reason = error.details.as_ref().and_then(|details| details.get("reason")).and_then(|reason| reason.as_str());
    !matches!(reason, Some("unknown_tool" | "not_allowed" | "disabled" | "blocked"))
}
