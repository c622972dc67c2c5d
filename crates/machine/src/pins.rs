//! Pins: named outputs of an agent that stay where they are, whatever its tools do.
//!
//! Not here: where the last success of an earlier run is kept; the caller looks it up.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use toolwright_types::{CallId, ErrorCode, ToolEnvelope};

use crate::AgentOutputs;

/// A named output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedHandle {
    /// The output's name.
    pub name: String,
    /// Which call it shows.
    #[schema(value_type = WrittenSelector)]
    pub selector: Selector,
    /// What it shows when there is no such call.
    #[serde(default)]
    pub on_missing: OnMissing,
}

/// Which call a pin shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSelector", into = "WrittenSelector")]
pub struct Selector {
    /// The tool's name.
    pub tool: String,
    /// Which of its calls.
    pub strategy: Strategy,
}

/// Which of a tool's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The last one, also when it failed.
    #[default]
    Latest,
    /// The first that succeeded.
    FirstSuccess,
    /// This one.
    ByCallId(CallId),
}

/// What a pin shows when its call is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Null.
    #[default]
    Null,
    /// Nothing: whoever asked fails.
    Error,
    /// The tool's last success in an earlier run, else null.
    StaleLastSuccess,
}

/// A selector whose parts do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// `by_call_id` without an id.
    #[error("strategy `by_call_id` needs a `call_id`")]
    NoCallId,
    /// An id with another strategy.
    #[error("`call_id` is only for strategy `by_call_id`")]
    IdleCallId,
}

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

#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct WrittenSelector {
    tool: String,
    #[serde(default)]
    strategy: WrittenStrategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
}

#[derive(Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum WrittenStrategy {
    #[default]
    Latest,
    FirstSuccess,
    ByCallId,
}

impl TryFrom<WrittenSelector> for Selector {
    type Error = InvalidSelector;

    fn try_from(written: WrittenSelector) -> Result<Self, InvalidSelector> {
        let strategy = match (written.strategy, written.call_id) {
            (WrittenStrategy::Latest, None) => Strategy::Latest,
            (WrittenStrategy::FirstSuccess, None) => Strategy::FirstSuccess,
            (WrittenStrategy::ByCallId, Some(id)) => Strategy::ByCallId(id),
            (WrittenStrategy::ByCallId, None) => return Err(InvalidSelector::NoCallId),
            (_, Some(_)) => return Err(InvalidSelector::IdleCallId),
        };
        Ok(Self { tool: written.tool, strategy })
    }
}

impl From<Selector> for WrittenSelector {
    fn from(selector: Selector) -> Self {
        let (strategy, call_id) = match selector.strategy {
            Strategy::Latest => (WrittenStrategy::Latest, None),
            Strategy::FirstSuccess => (WrittenStrategy::FirstSuccess, None),
            Strategy::ByCallId(id) => (WrittenStrategy::ByCallId, Some(id)),
        };
        Self { tool: selector.tool, strategy, call_id }
    }
}
