//! Checks the invariants at the end of a simulation.

use std::collections::BTreeMap;

use toolwright_machine::journal::{self, chain};
use toolwright_store::EffectOutcome;
use toolwright_types::{RunId, ToolEnvelope};

use super::world::{Row, World, Writes};

/// Checks the final state of all runs. Returns how often each kind of event occurred.
pub(super) fn check(world: &World) -> BTreeMap<String, u64> {
    let mut events = BTreeMap::new();
    let mut count = |what: &str| *events.entry(what.to_owned()).or_default() += 1;
    let state = world.state();
    let mut wrong = Vec::new();
    for _ in 0..state.crashes {
        count("crashes");
    }
    for _ in 0..state.commands {
        count("commands");
    }
    for run in state.confirmed.iter().filter(|run| !state.rows.contains_key(run)) {
        wrong.push(format!("{run} was promised and is lost"));
    }
    for (run, row) in &state.rows {
        for entry in &row.entries {
            count(&entry.kind);
        }
        if state.scheduled.contains(run) {
            count("scheduled");
        }
        count(&row.state.status.to_string());
        wrong.extend(broken(*run, row));
        let read = row.entries.iter().map(|entry| journal::Entry::parse(entry.n, entry.at, &entry.body));
        let read: Vec<journal::Entry> = read.filter_map(Result::ok).collect();
        let Ok((_, machine)) = journal::replay(read) else {
            wrong.push(format!("{run}: its journal makes no run"));
            continue;
        };
        if machine.status() != row.state.status {
            wrong.push(format!("{run} is {} and listed as {}", machine.status(), row.state.status));
        }
        if !row.waits.is_empty() {
            wrong.push(format!("{run} has ended and is listed as waiting"));
        }
        let outputs = machine.outputs();
        for envelope in outputs.in_order() {
            let reason = reason(envelope);
            if let Some(reason) = reason {
                count(reason);
            }
        }
        for ((_, call_id), write) in state.writes.iter().filter(|((of, _), _)| of == run) {
            let Some(envelope) = outputs.tools_by_id.get(call_id) else {
                wrong.push(format!("{run}: {} {call_id} was done and has no envelope", write.tool));
                continue;
            };
            if let Some(reason) = reason(envelope).filter(|reason| denies(reason)) {
                wrong.push(format!("{run}: {} {call_id} was done, and its envelope says {reason}", write.tool));
            }
        }
        for envelope in outputs.in_order().filter(|envelope| envelope.is_success()) {
            let writes = matches!(envelope.name.as_str(), "put" | "order" | "mail" | "pay");
            let done = state.writes.get(&(*run, envelope.call_id.clone())).is_some_and(|write| write.done > 0);
            if writes && !done {
                wrong.push(format!("{run}: {} {} has a envelope and was not done", envelope.name, envelope.call_id));
            }
        }
    }
    for (run, row) in &state.rows {
        wrong.extend(wrong_projections(*run, row, &state.writes));
    }
    drop(state);
    for what in wrong {
        world.violation(what);
    }
    events
}

/// Compares the stored rows of effects and decisions of a run with the journal and the executed writes. Returns the
/// differences.
fn wrong_projections(run: RunId, row: &Row, writes: &Writes) -> Vec<String> {
    let mut wrong = Vec::new();
    let decided = row.entries.iter().filter(|entry| entry.kind == "approval_decided").map(|entry| entry.n);
    for n in decided.filter(|n| !row.decisions.contains(n)) {
        wrong.push(format!("{run}: the decision of entry {n} is not listed"));
    }
    for ((_, call_id), write) in writes.iter().filter(|((of, _), write)| *of == run && write.done > 0) {
        match row.effects.get(call_id) {
            Some(EffectOutcome::Done | EffectOutcome::Unknown) => {}
            other => wrong.push(format!("{run}: {} {call_id} was done and is listed as {other:?}", write.tool)),
        }
    }
    for (call_id, _) in row.effects.iter().filter(|(_, outcome)| **outcome == EffectOutcome::Done) {
        if writes.get(&(run, call_id.clone())).is_none_or(|write| write.done == 0) {
            wrong.push(format!("{run}: {call_id} is listed as done and was not done"));
        }
    }
    wrong
}

/// Returns the first error in the hash chain of a journal.
fn broken(run: RunId, row: &Row) -> Option<String> {
    let mut hash = chain::origin(run);
    for (position, entry) in row.entries.iter().enumerate() {
        if entry.n != position as u64 + 1 {
            return Some(format!("{run}: entry {} stands at {}", entry.n, position + 1));
        }
        hash = chain::link(&hash, entry.n, entry.at, &entry.body);
        if hash != entry.hash {
            return Some(format!("{run}: the chain breaks at entry {}", entry.n));
        }
    }
    let mark = row.state.journal_position;
    (mark.n != row.entries.len() as u64 || mark.hash != hash).then(|| format!("{run}: its mark is not its last entry"))
}

fn reason(envelope: &ToolEnvelope) -> Option<&str> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}

/// Whether an envelope with this reason says that the call was not executed.
fn denies(reason: &str) -> bool {
    matches!(reason, "approval_denied" | "approval_expired" | "not_allowed" | "unknown_tool" | "definition_changed")
}
