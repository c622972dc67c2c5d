//! Computes the rows of effects and decisions, so that lists across runs need not read journals. The rows are stored in
//! the transaction of a journal entry. They are determined by the event of the entry and the state of the machine
//! before the event.

use serde_json::Value;
use toolwright_catalog::VersionedRef;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Decision, Event, EventKind, ExternalWrite, WriteOutcome};
use toolwright_machine::journal::RunStart;
use toolwright_store::{DecisionOutcome, EffectOutcome, RunChange, StoredDecision, StoredEffect, UndoneEffect};
use toolwright_types::{CallId, RunId};

use super::approvals::DecisionDetails;
use super::journal::json_text;

/// Returns the rows for the event of entry `n`. The machine accepts the event and has not applied it yet.
pub(super) fn rows(start: &RunStart, machine: &AgentRun, event: &Event, n: u64) -> Vec<RunChange> {
    let mut rows = decision_rows(machine, event, n);
    let writes = machine.writes_determined_by(event, |tool| !start.delegates.contains(tool));
    for write in &writes {
        rows.extend(undone_effect(start, write, event));
    }
    rows.extend(writes.into_iter().map(|write| effect_row(start, write, event)));
    rows
}

/// Returns the row for an effect (a write to the outside world).
fn effect_row(start: &RunStart, write: ExternalWrite, event: &Event) -> RunChange {
    let ExternalWrite { envelope, outcome, started_at, approved_by } = write;
    let bound = start.bindings.iter().find(|(tool, _)| tool.eq_ignore_ascii_case(&envelope.name));
    let bound = bound.and_then(|(_, implementation)| VersionedRef::parse(implementation));
    RunChange::RecordEffect(StoredEffect {
        input: json_text(&envelope.input),
        call_id: envelope.call_id,
        tool: envelope.name,
        version: envelope.version,
        implementation: bound.map(|bound| bound.name.to_owned()),
        outcome: match outcome {
            WriteOutcome::Done => EffectOutcome::Done,
            WriteOutcome::Failed => EffectOutcome::Failed,
            WriteOutcome::Unknown => EffectOutcome::Unknown,
            WriteOutcome::Captured => EffectOutcome::Captured,
        },
        error: envelope.error.map(|error| error.message),
        approved_by,
        started_at,
        ended_at: event.at,
    })
}

/// The change that marks a call as undone, if `write` is a compensating call of an undo run. A person may have edited
/// the input of the compensating call, so that it names another call. So a call is marked only if the plan of the undo
/// run contains it.
fn undone_effect(start: &RunStart, write: &ExternalWrite, event: &Event) -> Option<RunChange> {
    if start.compensates.is_none() || write.outcome != WriteOutcome::Done {
        return None;
    }
    let compensated = compensated_call(&write.envelope.input)?;
    let planned =
        start.spec.predefined_calls.iter().any(|call| compensated_call(&call.input).as_ref() == Some(&compensated));
    let (run, call_id) = compensated;
    planned.then_some(RunChange::UndoEffect(UndoneEffect { run, call_id, at: event.at }))
}

/// Reads the id of the run and of the call from the input of a compensating call.
fn compensated_call(input: &Value) -> Option<(RunId, CallId)> {
    let run = input.get("runId")?.as_str()?.parse().ok()?;
    Some((run, serde_json::from_value(input.get("callId")?.clone()).ok()?))
}

fn decision_rows(machine: &AgentRun, event: &Event, n: u64) -> Vec<RunChange> {
    match &event.kind {
        EventKind::ApprovalDecided { call_id, decision, decided_by, reason, .. } => {
            let (outcome, reason, input) = match decision {
                Decision::Approve => (DecisionOutcome::Approved, reason.clone(), None),
                Decision::Deny { reason } => (DecisionOutcome::Denied, reason.clone(), None),
                Decision::Edit { input } => (DecisionOutcome::Edited, reason.clone(), Some(input.clone())),
            };
            let decided = Decided { outcome, decided_by: decided_by.clone(), reason, input };
            decision_row(machine, call_id, event, n, decided).into_iter().collect()
        }
        EventKind::Expired { call_id } => {
            let decided = Decided { outcome: DecisionOutcome::Expired, decided_by: None, reason: None, input: None };
            decision_row(machine, call_id, event, n, decided).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

struct Decided {
    outcome: DecisionOutcome,
    decided_by: Option<String>,
    reason: Option<String>,
    input: Option<Value>,
}

/// Returns the row for a decision; `None` if the call does not wait for an approval.
fn decision_row(machine: &AgentRun, call_id: &CallId, event: &Event, n: u64, decided: Decided) -> Option<RunChange> {
    let request = machine.pending_approvals().into_iter().find(|request| request.call_id == *call_id)?;
    let Decided { outcome, decided_by, reason, input } = decided;
    let tool = request.tool.clone();
    Some(RunChange::Decide(StoredDecision {
        n,
        call_id: call_id.clone(),
        tool,
        outcome,
        decided_by,
        decided_at: event.at,
        body: json_text(&DecisionDetails { request, reason, input }),
    }))
}
