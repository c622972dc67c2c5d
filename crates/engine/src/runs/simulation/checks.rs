//! What must hold when everything has ended.

use std::collections::BTreeMap;

use toolwright_machine::journal::{self, chain};
use toolwright_types::{RunId, ToolEnvelope};

use super::world::{Row, World};

/// Looks at everything, and gives what was met.
pub fn look(world: &World) -> BTreeMap<String, u64> {
    let mut met = BTreeMap::new();
    let mut meet = |what: &str| *met.entry(what.to_owned()).or_default() += 1;
    let truth = world.truth();
    let mut wrong = Vec::new();
    for _ in 0..truth.deaths {
        meet("deaths");
    }
    for run in truth.promised.iter().filter(|run| !truth.rows.contains_key(run)) {
        wrong.push(format!("{run} was promised and is lost"));
    }
    for (run, row) in &truth.rows {
        for entry in &row.entries {
            meet(&entry.kind);
        }
        meet(&row.state.status.to_string());
        wrong.extend(broken(*run, row));
        let read = row.entries.iter().map(|entry| journal::Entry::read(entry.n, entry.at, &entry.body));
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
        for receipt in outputs.in_order() {
            let reason = reason(receipt);
            if let Some(reason) = reason {
                meet(reason);
            }
        }
        for ((_, call_id), deed) in truth.deeds.iter().filter(|((of, _), _)| of == run) {
            let Some(receipt) = outputs.tools_by_id.get(call_id) else {
                wrong.push(format!("{run}: {} {call_id} was done and has no receipt", deed.tool));
                continue;
            };
            if let Some(reason) = reason(receipt).filter(|reason| denies(reason)) {
                wrong.push(format!("{run}: {} {call_id} was done, and its receipt says {reason}", deed.tool));
            }
        }
        for receipt in outputs.in_order().filter(|receipt| receipt.is_success()) {
            let writes = matches!(receipt.name.as_str(), "put" | "order" | "mail" | "pay");
            let done = truth.deeds.get(&(*run, receipt.call_id.clone())).is_some_and(|deed| deed.done > 0);
            if writes && !done {
                wrong.push(format!("{run}: {} {} has a receipt and was not done", receipt.name, receipt.call_id));
            }
        }
    }
    drop(truth);
    for what in wrong {
        world.violation(what);
    }
    met
}

/// What is wrong with the chain of a journal.
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
    let mark = row.state.mark;
    (mark.n != row.entries.len() as u64 || mark.hash != hash).then(|| format!("{run}: its mark is not its last entry"))
}

fn reason(receipt: &ToolEnvelope) -> Option<&str> {
    receipt.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}

/// Whether a receipt says that the call was not made.
fn denies(reason: &str) -> bool {
    matches!(reason, "approval_denied" | "approval_expired" | "not_allowed" | "unknown_tool" | "definition_changed")
}
