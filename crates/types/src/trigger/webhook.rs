//! The definition of a webhook: which events are sent, and where.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::default_true;
use crate::nullable::{null_as_default, null_as_true};
use crate::{RefName, RunStatus};

/// A webhook: reports events of the realm to a URL, in requests that are signed as Standard Webhooks defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookDefinition {
    /// The reference name of the webhook.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// What the webhook is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The address that receives the requests.
    #[cfg_attr(feature = "openapi", schema(example = "https://example.com/hooks/toolwright"))]
    pub url: String,
    /// The events to send.
    pub events: Vec<WebhookEvent>,
    /// The run statuses to send, for events of runs. Default: all.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<RunStatus>,
    /// The names of the agents, workflows and tools whose events are sent. An approval is an event of its tool and of the
    /// agent or workflow that made the call. Default: all.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// The name of the secret that signs the requests, in the form `whsec_…`.
    pub secret_ref: String,
    /// Private networks that the requests may reach, as CIDRs or single addresses.
    #[serde(default, deserialize_with = "crate::null_or_networks", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub egress_allow: Vec<IpNet>,
    /// Whether events are sent. Events that occur while the webhook is paused are not sent later.
    #[serde(default = "default_true", deserialize_with = "null_as_true")]
    pub enabled: bool,
}

/// An event that a webhook can send. The names are those of the event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WebhookEvent {
    /// A run started.
    RunStarted,
    /// The status of a run changed, and the run has not ended.
    RunChanged,
    /// A run ended.
    RunEnded,
    /// A call waits for approval.
    ApprovalRequested,
    /// An approval was decided or expired.
    ApprovalDecided,
}

impl WebhookEvent {
    /// All events.
    pub const ALL: [Self; 5] =
        [Self::RunStarted, Self::RunChanged, Self::RunEnded, Self::ApprovalRequested, Self::ApprovalDecided];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            WebhookEvent::RunStarted => "RUN_STARTED",
            WebhookEvent::RunChanged => "RUN_CHANGED",
            WebhookEvent::RunEnded => "RUN_ENDED",
            WebhookEvent::ApprovalRequested => "APPROVAL_REQUESTED",
            WebhookEvent::ApprovalDecided => "APPROVAL_DECIDED",
        }
    }
}
