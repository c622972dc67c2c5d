//! Approvals across runs: lists of pending and decided approvals, and several decisions in one request.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_runs::{CallFilter, DecisionQuery, Runs, WaitKind, WaitQuery};

use super::runs::{DecisionBody, run_id};
use crate::approval_views::{ApprovedCallView, DecisionResultView, DecisionResultsView};
use crate::call_filter::CallFilterParams;
use crate::extract::{Caller, JsonBody, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::run_views::ApprovalView;
use crate::views::PageView;

const TAG: &str = "runs";

/// The maximum number of decisions in one request.
const MAX_DECISIONS: usize = 100;

/// The parameters of a list of approvals.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalListParams {
    /// `pending`, `decided` or `all`. `all` lists the pending approvals before the decided approvals. Default:
    /// `pending`.
    status: Option<String>,
    /// The run of the approvals. Default: all runs.
    run_id: Option<String>,
    /// The tool.
    tool_ref: Option<String>,
    /// The agent that requested the call.
    agent_ref: Option<String>,
    /// The principal that the run acts as.
    principal: Option<String>,
    /// The principal that decided. Only allowed if `status` is `decided`.
    decided_by: Option<String>,
    /// The earliest time of the request, or of the decision if the approval was decided.
    since: Option<String>,
    /// The time before which the approval was requested or decided.
    before: Option<String>,
    /// `true`: adds `lastApproved` to each approval that waits.
    compare: Option<bool>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// The part of the list in which a page starts, with the cursor within this part.
enum Part {
    Pending(Option<String>),
    Decided(Option<String>),
}

/// The prefix of a cursor that points to the decided approvals in a list of all approvals.
const DECIDED: &str = "decided.";

/// Lists approvals. Pending approvals are sorted oldest first, and decided approvals newest first.
#[utoipa::path(get, path = "/api/v1/ai/approvals", tag = TAG, operation_id = "listApprovals", params(ApprovalListParams),
    responses((status = 200, body = PageView<ApprovalView>)))]
pub(crate) async fn list(
    State(runs): State<Runs>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<ApprovalListParams>,
) -> Result<Json<PageView<ApprovalView>>, Problem> {
    let (limit, compare) = (list_params::limit(params.limit)?, params.compare.unwrap_or(false));
    let status = params.status.as_deref().unwrap_or("pending");
    let part = match (status, params.cursor) {
        ("pending", cursor) => Part::Pending(cursor),
        ("decided", cursor) => Part::Decided(cursor),
        ("all", None) => Part::Pending(None),
        ("all", Some(cursor)) => match cursor.strip_prefix(DECIDED) {
            Some("") => Part::Decided(None),
            Some(rest) => Part::Decided(Some(rest.to_owned())),
            None => Part::Pending(Some(cursor)),
        },
        (other, _) => {
            let rule = "must be `pending`, `decided` or `all`";
            return Err(Problem::invalid("status", format!("{rule}, got `{other}`")));
        }
    };
    if params.decided_by.is_some() && status != "decided" {
        return Err(Problem::invalid("decidedBy", "must be absent unless `status` is `decided`"));
    }
    let filter = CallFilterParams {
        tool_ref: params.tool_ref,
        agent_ref: params.agent_ref,
        run_id: params.run_id,
        principal: params.principal,
        since: params.since,
        before: params.before,
    };
    let filter = filter.filter()?;
    let list = ApprovalList { runs: &runs, session: &session, filter, decided_by: params.decided_by };
    let prefix = if status == "all" { DECIDED } else { "" };
    let cursor = match part {
        Part::Decided(cursor) => return Ok(Json(list.decided(limit, cursor, prefix).await?)),
        Part::Pending(cursor) => cursor,
    };
    let mut page = list.pending(limit, cursor).await?;
    if compare {
        add_last_approved(&runs, &session, &mut page.items).await?;
    }
    if status == "all" && page.next_cursor.is_none() {
        let rest = limit.saturating_sub(u32::try_from(page.items.len()).unwrap_or(limit));
        if rest == 0 {
            page.next_cursor = Some(DECIDED.to_owned());
        } else {
            let decided = list.decided(rest, None, prefix).await?;
            page.items.extend(decided.items);
            page.next_cursor = decided.next_cursor;
        }
    }
    Ok(Json(page))
}

/// The inputs for reading the pages of pending and of decided approvals.
struct ApprovalList<'a> {
    runs: &'a Runs,
    session: &'a Session,
    filter: CallFilter,
    decided_by: Option<String>,
}

impl ApprovalList<'_> {
    async fn pending(&self, limit: u32, cursor: Option<String>) -> Result<PageView<ApprovalView>, Problem> {
        let query = WaitQuery {
            kind: Some(WaitKind::Approval),
            filter: self.filter.clone(),
            below: None,
            limit,
            cursor: list_params::cursor(cursor.as_deref())?,
        };
        let page = self.runs.waits(self.session, query).await?;
        Ok(PageView {
            items: page.items.iter().map(ApprovalView::from_wait).collect::<Result<_, _>>()?,
            next_cursor: page.next.map(|cursor| cursor.to_string()),
        })
    }

    /// A page of decided approvals. Its cursor starts with `prefix`.
    async fn decided(
        &self,
        limit: u32,
        cursor: Option<String>,
        prefix: &str,
    ) -> Result<PageView<ApprovalView>, Problem> {
        let query = DecisionQuery {
            filter: self.filter.clone(),
            decided_by: self.decided_by.clone(),
            limit,
            cursor: list_params::cursor(cursor.as_deref())?,
            ..DecisionQuery::default()
        };
        let page = self.runs.decisions(self.session, query).await?;
        Ok(PageView {
            items: page.items.iter().map(ApprovalView::from_decision).collect::<Result<_, _>>()?,
            next_cursor: page.next.map(|cursor| format!("{prefix}{cursor}")),
        })
    }
}

/// Adds to each approval the last approved call that the same agent made to the same tool. Costs one query for each
/// pair of agent and tool.
async fn add_last_approved(runs: &Runs, session: &Session, approvals: &mut [ApprovalView]) -> Result<(), Problem> {
    let mut known: HashMap<(String, String), Option<ApprovedCallView>> = HashMap::new();
    for approval in approvals {
        let key = (approval.agent_ref.clone(), approval.tool_ref.clone());
        let last = match known.get(&key) {
            Some(last) => last.clone(),
            None => {
                let found = runs.last_approved(session, &key.0, &key.1).await?;
                let last = found.as_ref().map(ApprovedCallView::new).transpose()?;
                known.insert(key, last.clone());
                last
            }
        };
        approval.last_approved = last;
    }
    Ok(())
}

/// Several decisions.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionsBody {
    /// The decisions, at most 100.
    decisions: Vec<CallDecisionBody>,
}

/// A decision with its call.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallDecisionBody {
    /// The run of the call.
    run_id: String,
    /// The call.
    call_id: String,
    /// `approve`, `deny` or `edit`.
    decision: String,
    /// The reason. The model sees the reason of a denial.
    #[serde(default)]
    reason: Option<String>,
    /// The new arguments, for `edit`.
    #[serde(default)]
    input: Option<Value>,
}

/// Decides on several calls, one after the other. A decision that is not accepted does not stop the others. Responds
/// when the decisions are stored, without waiting for the runs.
#[utoipa::path(post, path = "/api/v1/ai/approvals/decide", tag = TAG, operation_id = "decideApprovals", request_body = DecisionsBody,
    responses((status = 200, body = DecisionResultsView)))]
pub(crate) async fn decide_many(
    State(runs): State<Runs>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<DecisionsBody>,
) -> Result<Json<DecisionResultsView>, Problem> {
    let found = body.decisions.len();
    if !(1..=MAX_DECISIONS).contains(&found) {
        let rule = format!("must have between 1 and {MAX_DECISIONS} decisions, got {found}");
        return Err(Problem::invalid("/decisions", rule));
    }
    let mut results = Vec::with_capacity(found);
    for (at, decision) in body.decisions.into_iter().enumerate() {
        let CallDecisionBody { run_id: run, call_id, decision, reason, input } = decision;
        let body = DecisionBody { decision, reason, input };
        let decided = match run_id(&run) {
            Ok(run) => body.decide(&runs, &session, run, &call_id, &format!("/decisions/{at}")).await.map(drop),
            Err(problem) => Err(problem),
        };
        results.push(DecisionResultView { run_id: run, call_id, accepted: decided.is_ok(), problem: decided.err() });
    }
    Ok(Json(DecisionResultsView { results }))
}
