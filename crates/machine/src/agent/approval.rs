//! A person decides on a call, once; what they agreed to is prepared anew before it runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{CallId, Timestamp, ToolError};

use super::call::{Call, CallState};
use super::depth::shallow;
use super::desk::{Desk, denied};
use super::run::AgentRun;
use super::{Decision, Prepared, decide, doubt};
use crate::Knob;

/// What was decided on one call, and which knobs had asked for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The call that was shown.
    pub call_id: CallId,
    /// The knobs that fired.
    pub because: Vec<Knob>,
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What was decided on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Approved,
    /// It may not.
    Denied,
    /// It may run with another input, as this call.
    Edited(CallId),
    /// Nobody decided in time.
    Expired,
}

pub(super) fn decided(run: &mut AgentRun, id: &CallId, decision: Decision, by: Option<String>) {
    record(run, id, by, |call, desk, because| match decision {
        Decision::Approve => {
            call.intended = None;
            call.state = CallState::Agreed;
            Verdict::Approved
        }
        Decision::Deny { reason } if call.intended.is_some() => {
            desk.refuse(call, doubt::unknown(reason.as_deref().unwrap_or("a person was asked and did not repeat it")));
            Verdict::Denied
        }
        Decision::Deny { reason } => {
            let message = reason.unwrap_or_else(|| "a person declined this call".to_owned());
            desk.refuse(call, unapproved("approval_denied", message, because));
            Verdict::Denied
        }
        Decision::Edit { input } => Verdict::Edited(edit(desk, call, input)),
    });
}

pub(super) fn expired(run: &mut AgentRun, id: &CallId) {
    record(run, id, None, |call, desk, because| {
        if call.intended.is_some() {
            desk.refuse(call, doubt::unknown("a person was asked and did not answer in time"));
            return Verdict::Expired;
        }
        let message = "nobody agreed to this call in time".to_owned();
        desk.refuse(call, unapproved("approval_expired", message, because));
        Verdict::Expired
    });
}

pub(super) fn prepared_again(run: &mut AgentRun, id: &CallId, result: Prepared) {
    run.with_call(id, |call, desk| match (decide::decide_again(desk.spec, &call.input, &result).cloned(), result) {
        (Ok(facts), _) if same_definition(call, &facts) => {
            call.facts = Some(facts);
            call.state = CallState::Queued;
        }
        (Ok(_), _) => {
            let message = "the tool's definition has changed since this call was approved";
            desk.refuse(call, denied("definition_changed", message));
        }
        (Err(error), result) => desk.refuse_prepared(call, error, result),
    });
}

/// Acts on a call that a person was asked about, and notes what came of it.
fn record(
    run: &mut AgentRun,
    id: &CallId,
    by: Option<String>,
    act: impl FnOnce(&mut Call, &mut Desk<'_>, &[Knob]) -> Verdict,
) {
    let made = run.with_call(id, |call, desk| {
        let CallState::Asked { because, .. } = &call.state else {
            return None;
        };
        let because = because.clone();
        let verdict = act(call, desk, &because);
        Some(ApprovalRecord { call_id: id.clone(), because, verdict, by, at: desk.now })
    });
    run.approvals.extend(made.flatten());
}

/// Turns the call into another one with this input.
fn edit(desk: &mut Desk<'_>, call: &mut Call, input: Value) -> CallId {
    let input = shallow(input);
    let (call_id, _) = desk.ledger.number(&call.name, &call.version, &input);
    // The model's wish keeps its signature: to ask for the same again is a repeat, whatever a person made of it.
    call.edited_from = Some(std::mem::replace(&mut call.call_id, call_id.clone()));
    call.input = input;
    call.state = CallState::Agreed;
    call_id
}

fn same_definition(call: &Call, fresh: &super::Facts) -> bool {
    call.facts.as_ref().is_some_and(|shown| {
        shown.definition_hash == fresh.definition_hash && shown.name == fresh.name && shown.version == fresh.version
    })
}

fn unapproved(reason: &str, message: String, because: &[Knob]) -> ToolError {
    let knobs: Vec<&str> = because.iter().map(|knob| knob.as_str()).collect();
    denied(reason, message).detail("required_by", knobs)
}
