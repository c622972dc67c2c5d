//! The role of a run in a trial. A trial compares variants, which are called arms. In most trials, the runs of one arm use
//! the same library.

use std::str::FromStr;

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};

use crate::{RunId, TrialId};

/// The role of a run in a trial. Set when the run starts, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// The kind of trial.
    pub kind: TrialKind,
    /// The arm of the run: the name of its library, `default` for a run without a library, or `replay`.
    pub arm: String,
    /// The run that this run replays or shadows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub of: Option<RunId>,
    /// The id of the trial. Only for the kind `compare`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub trial: Option<TrialId>,
    /// The number of the run in its arm, from 0. The run with the same number in the other arm has the same input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Whether the arm of the run is the baseline of the comparison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// The number of runs per arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
}

impl Trial {
    /// The name of the arm whose runs use no library.
    pub const DEFAULT_ARM: &'static str = "default";

    /// Creates the role of a run in this kind of trial and arm.
    pub fn new(kind: TrialKind, arm: impl Into<String>) -> Self {
        Self { kind, arm: arm.into(), of: None, trial: None, number: None, baseline: false, runs: None }
    }
}

/// The kinds of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TrialKind {
    /// A recorded run is replayed with changes, to compare the results.
    Replay,
    /// Two libraries are compared over the same inputs.
    Compare,
    /// A live run of an agent with a traffic split. The run uses the split's library or no library.
    Split,
    /// A second run with the same input as a live run. Its answer is discarded.
    Shadow,
}

impl TrialKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            TrialKind::Replay => "replay",
            TrialKind::Compare => "compare",
            TrialKind::Split => "split",
            TrialKind::Shadow => "shadow",
        }
    }
}

impl FromStr for TrialKind {
    type Err = serde::de::value::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::deserialize(text.into_deserializer())
    }
}

/// Where the result of a call comes from, if the tool was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CallSource {
    /// The result was taken from the replayed run.
    Recorded,
    /// The call was not executed, because its run captures calls.
    Captured,
}
