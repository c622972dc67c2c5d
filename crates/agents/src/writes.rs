//! Finds the calls of a run that may have changed external state. An undo compensates these calls, and a fork must not
//! repeat them silently.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use toolwright_catalog::{Session, Unavailable};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{EventKind, PreparedCall, may_have_changed};
use toolwright_machine::journal::{self, Entry, EntryBody, RunStart};
use toolwright_runs::{CommandError, child_run_id};
use toolwright_tools::Executor;
use toolwright_types::{CallId, RunId, SideEffects, ToolEnvelope};

use super::Agents;

/// A call that may have changed external state.
pub(super) struct Write {
    /// The start of the run that made the call.
    pub start: Arc<RunStart>,
    pub envelope: ToolEnvelope,
    /// The call itself, or the call of the requested run that started the child run of the write.
    pub root_call: CallId,
}

/// The calls of a run and its child runs that may have changed external state, latest first.
#[derive(Default)]
pub(super) struct Writes {
    pub calls: Vec<Write>,
    /// A run that has not ended and so may make further calls.
    pub active: Option<RunId>,
}

impl Agents {
    /// Adds the writes of a run and of its child runs, except for calls that one of the first `skipped`
    /// entries of the run closed. The future is boxed because the function is recursive.
    pub(super) fn collect_writes<'a>(
        &'a self,
        session: &'a Session,
        run: RunId,
        skipped: u64,
        writes: &'a mut Writes,
    ) -> BoxFuture<'a, Result<(), CommandError>> {
        Box::pin(async move {
            let (_, entries) = self.0.runs.journal_of(session, run).await?;
            let writing_tools = writing_tools(&entries);
            let closed_before = calls_closed_before(&entries, skipped)?;
            let (start, machine) = replay_journal(entries)?;
            if machine.ending().is_none() {
                writes.active = Some(run);
            }
            let start = Arc::new(start);
            let outputs = machine.outputs();
            let mut envelopes: Vec<&ToolEnvelope> =
                outputs.in_order().filter(|envelope| !closed_before.contains(&envelope.call_id)).collect();
            envelopes.sort_by_key(|envelope| std::cmp::Reverse(envelope.t_end));
            for envelope in envelopes {
                if start.starts_run(&envelope.name) {
                    let child = child_run_id(&Executor::idempotency_key_for(run, &envelope.call_id));
                    let known = writes.calls.len();
                    match self.collect_writes(session, child, 0, writes).await {
                        // The call was rejected before it started a child run.
                        Err(CommandError::UnknownRun(_)) => {}
                        collected => collected?,
                    }
                    let writes_of_child = writes.calls.iter_mut().skip(known);
                    writes_of_child.for_each(|write| write.root_call.clone_from(&envelope.call_id));
                } else if writing_tools.contains(&(envelope.name.clone(), envelope.version.clone()))
                    && may_have_changed(envelope)
                {
                    let (start, root_call) = (Arc::clone(&start), envelope.call_id.clone());
                    writes.calls.push(Write { start, envelope: envelope.clone(), root_call });
                }
            }
            Ok(())
        })
    }
}

pub(super) fn replay_journal(entries: Vec<Entry>) -> Result<(RunStart, AgentRun), Unavailable> {
    journal::replay(entries).map_err(|error| Unavailable::new("the journal cannot be replayed", error))
}

/// Returns the calls that the first `count` entries closed. An entry without the envelope of a call can close the call
/// too: after a crash, `recovered` closes a write with an unknown outcome.
fn calls_closed_before(entries: &[Entry], count: u64) -> Result<HashSet<CallId>, Unavailable> {
    let first: Vec<Entry> = entries.iter().take_while(|entry| entry.n <= count).cloned().collect();
    if first.is_empty() {
        return Ok(HashSet::new());
    }
    let (_, machine) = replay_journal(first)?;
    Ok(machine.envelopes_after(0).map(|envelope| envelope.call_id.clone()).collect())
}

/// Returns the names and versions of the tools that had the side effect "writes" when the run called them.
fn writing_tools(entries: &[Entry]) -> HashSet<(String, String)> {
    let prepared = entries.iter().flat_map(|entry| match &entry.body {
        EntryBody::Event(EventKind::Prepared { calls, .. }) => calls.as_slice(),
        EntryBody::Event(EventKind::PreparedAgain { call, .. }) => std::slice::from_ref(call),
        _ => &[],
    });
    let writes = prepared.filter_map(|call| match call {
        PreparedCall::Ready(facts) if facts.effects == SideEffects::Writes => Some(facts),
        _ => None,
    });
    writes.map(|facts| (facts.name.clone(), facts.version.clone())).collect()
}
