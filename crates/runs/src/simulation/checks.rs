//! Checks the invariants at the end of a simulation.

use std::collections::BTreeMap;

use toolwright_machine::journal::{self, chain};
use toolwright_types::{RunId, ToolEnvelope};

use super::world::{Row, World};

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
    drop(state);
    for what in wrong {
        world.violation(what);
    }
    events
}

/// The first error in the hash chain of a journal.
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

/// Whether this reason in an envelope says that the call was not executed.
fn denies(reason: &str) -> bool {
    matches!(reason, "approval_denied" | "approval_expired" | "not_allowed" | "unknown_tool" | "definition_changed")
}
