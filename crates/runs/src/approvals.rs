//! Reads approvals of several runs: the pending approvals of child runs, and past decisions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::{Session, Unavailable};
use toolwright_machine::agent::ApprovalRequest;
use toolwright_store::Page;
use toolwright_types::RunId;

use super::{
    CallFilter, DecisionCursor, DecisionOutcome, DecisionQuery, DecisionRecord, PendingWait, Runs, WaitKind, WaitQuery,
};

/// The maximum number of approvals of child runs that are shown with a run.
const MAX_CHILD_APPROVALS: u32 = 100;

/// The details of a decision, which are stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionDetails {
    /// The approval request.
    pub request: ApprovalRequest,
    /// The reason that the person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The new input, if the person edited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

impl Runs {
    /// The approvals that the child runs of a run wait for, at all levels, oldest first.
    pub async fn approvals_below(&self, session: &Session, run: RunId) -> Result<Vec<PendingWait>, Unavailable> {
        let query = WaitQuery {
            kind: Some(WaitKind::Approval),
            below: Some(run),
            limit: MAX_CHILD_APPROVALS,
            ..WaitQuery::default()
        };
        Ok(self.waits(session, query).await?.items)
    }

    /// A page of decisions. If the session may not read all runs, the page contains only decisions about the runs that
    /// its principal started.
    pub async fn decisions(
        &self,
        session: &Session,
        query: DecisionQuery,
    ) -> Result<Page<DecisionRecord, DecisionCursor>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).decisions(self.visible_owners(session), &query).await?)
    }

    /// The latest approved call of this agent to this tool, among the decisions that the session may see.
    pub async fn last_approved(
        &self,
        session: &Session,
        agent: &str,
        tool: &str,
    ) -> Result<Option<DecisionRecord>, Unavailable> {
        let filter = CallFilter { agent: Some(agent.to_owned()), tool: Some(tool.to_owned()), ..CallFilter::default() };
        let outcomes = vec![DecisionOutcome::Approved, DecisionOutcome::Edited];
        let query = DecisionQuery { filter, outcomes, limit: 1, ..DecisionQuery::default() };
        Ok(self.decisions(session, query).await?.items.into_iter().next())
    }
}
