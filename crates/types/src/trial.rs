//! What a run is to a trial: a replay, one side of a comparison, a share of live runs, or a shadow.

use std::str::FromStr;

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Serialize};

use crate::{RunId, TrialId};

/// Which part a run has in a trial. Written at its beginning, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// What kind of trial.
    pub kind: TrialKind,
    /// The library that its tools are bound by; `default` is what its agent says without any.
    pub arm: String,
    /// The run that it replays, or that it is the shadow of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub of: Option<RunId>,
    /// The trial that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub trial: Option<TrialId>,
    /// Its number among the runs of its arm, from 0; the run of the other arm with the same number had the same input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Whether the other arm is held against this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// How many runs each arm is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
}

impl Trial {
    /// The arm of what an agent says without any library.
    pub const DEFAULT_ARM: &'static str = "default";

    /// A run of this kind and arm.
    pub fn new(kind: TrialKind, arm: impl Into<String>) -> Self {
        Self { kind, arm: arm.into(), of: None, trial: None, number: None, baseline: false, runs: None }
    }
}

/// What kind of trial a run is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialKind {
    /// A recorded run against something new.
    Replay,
    /// One of two libraries over the same inputs.
    Compare,
    /// A share of an agent's live runs, or the rest of them.
    Split,
    /// Beside a live run.
    Shadow,
}

impl TrialKind {
    /// The kind as it is written on the wire.
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

/// Where a result comes from for which no tool was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallSource {
    /// From the run that is replayed.
    Recorded,
    /// From nowhere: what the call would have done was kept from happening.
    Captured,
}
