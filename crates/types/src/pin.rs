//! Pins: named outputs of an agent that resolve to the envelope of a call.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// A pin: a named output that selects a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(from = "WrittenPin")]
pub struct PinnedHandle {
    /// The name of the output. Default: the name of the tool, followed by `_result`.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub name: String,
    /// The call that the pin selects.
    #[cfg_attr(feature = "openapi", schema(value_type = WrittenSelector))]
    pub selector: Selector,
    /// The value if no call matches.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub on_missing: OnMissing,
}

/// A pin as its author writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPin {
    #[serde(default)]
    name: Option<String>,
    selector: Selector,
    #[serde(default)]
    on_missing: OnMissing,
}

impl From<WrittenPin> for PinnedHandle {
    fn from(written: WrittenPin) -> Self {
        let WrittenPin { name, selector, on_missing } = written;
        let tool = selector.tool.split('@').next().unwrap_or_default();
        Self { name: name.unwrap_or_else(|| format!("{tool}_result")), selector, on_missing }
    }
}

/// Selects a call to a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSelector", into = "WrittenSelector")]
pub struct Selector {
    /// The name of the tool.
    pub tool: String,
    /// The strategy that selects one of its calls.
    pub strategy: SelectionStrategy,
}

/// The strategy that selects one of a tool's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SelectionStrategy {
    /// The last call, even if it failed.
    #[default]
    Latest,
    /// The first successful call.
    FirstSuccess,
    /// The call with this id.
    ByCallId(CallId),
}

/// The value of a pin without a matching call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Null.
    #[default]
    Null,
    /// An error. Resolving the pin fails, and a run that completes without a value for the pin fails too.
    Error,
    /// The last successful call to the tool in an earlier run, or null.
    StaleLastSuccess,
}

/// The error for a selector whose fields contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// The strategy is `by_call_id`, but the call id is missing.
    #[error("`call_id` is required for strategy `by_call_id`")]
    MissingCallId,
    /// A call id was set with a strategy other than `by_call_id`.
    #[error("`call_id` is allowed only for strategy `by_call_id`")]
    UnexpectedCallId,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct WrittenSelector {
    tool: String,
    #[serde(default)]
    strategy: WrittenStrategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    call_id: Option<CallId>,
}

#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
            (WrittenStrategy::Latest, None) => SelectionStrategy::Latest,
            (WrittenStrategy::FirstSuccess, None) => SelectionStrategy::FirstSuccess,
            (WrittenStrategy::ByCallId, Some(id)) => SelectionStrategy::ByCallId(id),
            (WrittenStrategy::ByCallId, None) => return Err(InvalidSelector::MissingCallId),
            (_, Some(_)) => return Err(InvalidSelector::UnexpectedCallId),
        };
        Ok(Self { tool: written.tool, strategy })
    }
}

impl From<Selector> for WrittenSelector {
    fn from(selector: Selector) -> Self {
        let (strategy, call_id) = match selector.strategy {
            SelectionStrategy::Latest => (WrittenStrategy::Latest, None),
            SelectionStrategy::FirstSuccess => (WrittenStrategy::FirstSuccess, None),
            SelectionStrategy::ByCallId(id) => (WrittenStrategy::ByCallId, Some(id)),
        };
        Self { tool: selector.tool, strategy, call_id }
    }
}
