//! Wire views of decided approvals, and of child runs that wait.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::SuspendedChild;
use toolwright_runs::{DecisionDetails, DecisionRecord};
use toolwright_types::{RunStatus, Timestamp};

use crate::problem::Problem;
use crate::run_views::ApprovalView;

/// A child run that waits for an approval or a client.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRunView {
    /// The child run.
    pub run_id: String,
    /// The call that waits for the child run.
    pub call_id: String,
    /// The agent of the child run.
    pub agent_ref: String,
    /// The status of the child run.
    pub status: RunStatus,
}

impl From<SuspendedChild> for ChildRunView {
    fn from(child: SuspendedChild) -> Self {
        Self {
            run_id: child.run.to_string(),
            call_id: child.call_id.to_string(),
            agent_ref: child.tool,
            status: child.status,
        }
    }
}

/// The decision on an approval.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecisionView {
    /// `approved`, `denied`, `edited` or `expired`.
    pub outcome: Cow<'static, str>,
    /// The principal that decided. Absent if the approval expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When the approval was decided or expired.
    #[schema(value_type = String, format = DateTime)]
    pub decided_at: Timestamp,
    /// The reason that the principal gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The new arguments, if the principal edited them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// An earlier approved call, for comparison with a call that waits for approval.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedCallView {
    /// The run of the call.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The arguments that were approved.
    pub input: Value,
    /// The principal that approved the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When the call was approved.
    #[schema(value_type = String, format = DateTime)]
    pub decided_at: Timestamp,
}

/// The result of one decision of a request.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionResultView {
    /// The run of the call.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// Whether the run accepted the decision.
    pub accepted: bool,
    /// Why the decision was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The results of several decisions, in the order of the request.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct DecisionResultsView {
    /// One result for each decision.
    pub results: Vec<DecisionResultView>,
}

fn details(record: &DecisionRecord) -> Result<DecisionDetails, Unavailable> {
    let unreadable = |error| Unavailable::new("a stored decision cannot be read", error);
    serde_json::from_str(&record.decision.body).map_err(unreadable)
}

impl ApprovedCallView {
    /// Creates the view of an approval.
    pub(crate) fn new(record: &DecisionRecord) -> Result<Self, Unavailable> {
        let DecisionDetails { request, input, .. } = details(record)?;
        Ok(Self {
            run_id: record.run.to_string(),
            call_id: record.decision.call_id.to_string(),
            input: input.unwrap_or(request.input),
            decided_by: record.decision.decided_by.clone(),
            decided_at: record.decision.decided_at,
        })
    }
}

impl ApprovalView {
    /// Creates the view of a decided approval.
    pub(crate) fn from_decision(record: &DecisionRecord) -> Result<Self, Unavailable> {
        let DecisionDetails { request, reason, input } = details(record)?;
        let decision = ApprovalDecisionView {
            outcome: record.decision.outcome.as_str().into(),
            decided_by: record.decision.decided_by.clone(),
            decided_at: record.decision.decided_at,
            reason,
            input,
        };
        Ok(Self {
            parent_run_id: record.ancestry.parent.map(String::from),
            root_run_id: record.ancestry.root.map(String::from),
            decision: Some(decision),
            ..Self::new(&record.run.to_string(), &record.subject, request)
        })
    }
}
