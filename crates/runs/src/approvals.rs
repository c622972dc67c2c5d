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

/// The maximum number of pending approvals that are returned for the runs below a run.
const MAX_CHILD_APPROVALS: u32 = 100;

/// The details of a decision, which are stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionDetails {
    /// The approval request.
    pub request: ApprovalRequest,
    /// The reason that the person gave for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The new input of the call, if the person edited the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

impl Runs {
    /// The pending approvals of all runs below a run (its child runs, their child runs and so on), oldest first. At
    /// most 100 of them.
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

    /// The latest decision that approved a call of this agent to this tool, with or without an edited input. Decisions
    /// that the session may not see are ignored.
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
