//! Pins: named outputs of an agent that stay where they are, whatever its tools do.

use serde::{Deserialize, Serialize};

use crate::CallId;

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
