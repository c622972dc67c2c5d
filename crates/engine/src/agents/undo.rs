//! Takes back what a run did: the compensations that tools declare, called in reverse order by a durable run of their own.
//!
//! A compensation is a tool like any other and takes the same path. It is given the call that it takes back: `runId`,
//! `callId`, `input`, `output`, and the `idempotencyKey` that went out with it.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Happened, PlannedCall, Prepared};
use toolwright_machine::journal::{self, Began, Entry, Recorded};
use toolwright_tools::Executor;
use toolwright_types::{CallId, ErrorCode, PartCall, RunId, SideEffects, ToolEnvelope, ToolError};

use super::delegate::child_of;
use super::toolset::ToolRef;
use super::{Agents, StartError};
use crate::Unavailable;
use crate::access::Session;
use crate::catalog::choose;
use crate::runs::{NewRunPlan, Planned, SignalError};

/// How often one run can be undone: each time what the last time could not take back.
const MOST_ATTEMPTS: u32 = 100;

/// What undoing a run comes down to.
#[derive(Debug, Default)]
pub struct Undo {
    /// What is taken back, in this order.
    pub steps: Vec<Undone>,
    /// What stays.
    pub kept: Vec<Kept>,
    plan: Vec<PlannedCall>,
}

/// A call that is taken back.
#[derive(Debug)]
pub struct Undone {
    /// The run that made it.
    pub run: RunId,
    /// The call.
    pub call_id: CallId,
    /// The tool that was called, with its version.
    pub tool: String,
    /// The tool that takes it back.
    pub with: String,
}

/// A call that stays, because nobody can take it back.
#[derive(Debug)]
pub struct Kept {
    /// The run that made it.
    pub run: RunId,
    /// The call.
    pub call_id: CallId,
    /// The tool that was called, with its version.
    pub tool: String,
    /// Why it stays.
    pub why: &'static str,
}

/// Why a run is not undone. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run, or one that it started, cannot be read or has not ended.
    #[error(transparent)]
    Run(#[from] SignalError),
    /// There are too many runs.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It has changed nothing that could be taken back.
    #[error("there is nothing to take back")]
    Nothing,
    /// Some of it would stay.
    #[error("{} of {} calls cannot be taken back{}", .0.kept.len(), .0.kept.len() + .0.steps.len(),
        if .0.steps.is_empty() { "" } else { "; undo the others with `partial`" })]
    Partial(Undo),
    /// It takes more calls than a run may make.
    #[error("it takes {calls} calls, and a run may make {limit}")]
    TooLong {
        /// How many it takes.
        calls: usize,
        /// How many a run may make.
        limit: u32,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Agents {
    /// What undoing a run would do.
    pub async fn undo_plan(&self, session: &Session, run: RunId) -> Result<Undo, UndoError> {
        Ok(self.attempts(session, run).await?.undo)
    }

    /// Undoes a run, or goes on with undoing it: the run that does so. With `partial`, also when some calls stay.
    pub async fn undo(&self, session: &Session, run: RunId, partial: bool) -> Result<RunId, UndoError> {
        let Attempts { undo, next, under_way } = self.attempts(session, run).await?;
        if let Some(under_way) = under_way {
            return Ok(under_way);
        }
        if undo.steps.is_empty() && undo.kept.is_empty() {
            return Err(UndoError::Nothing);
        }
        if undo.steps.is_empty() || (!undo.kept.is_empty() && !partial) {
            return Err(UndoError::Partial(undo));
        }
        let limit = self.0.settings.platform.max_tool_calls;
        if undo.plan.len() > usize::try_from(limit).unwrap_or(usize::MAX) {
            return Err(UndoError::TooLong { calls: undo.plan.len(), limit });
        }
        self.has_room()?;
        let (_, entries) = self.0.runs.journal_of(session, run).await?;
        let Some(Recorded::Began(began)) = entries.into_iter().next().map(|entry| entry.what) else {
            return Err(SignalError::UnknownRun(run.to_string()).into());
        };
        let began = self.beginning(session, &began, undo.plan, next);
        let principal = Arc::clone(&session.principal);
        let crew = self.0.runs.recruit(&began, Arc::clone(&session.realm), Arc::clone(&principal)).await?;
        let plan = NewRunPlan {
            crew: Arc::new(crew),
            home: Arc::clone(&session.realm),
            owner: principal.id,
            principal: principal.id,
            changes: Vec::new(),
            began,
            prefix: Vec::new(),
        };
        self.0.runs.begin(plan).await.map_err(Unavailable::from)?;
        Ok(next)
    }

    /// What is left to undo, and which run would do it.
    async fn attempts(&self, session: &Session, run: RunId) -> Result<Attempts, UndoError> {
        let mut taken_back = HashSet::new();
        for attempt in 0..MOST_ATTEMPTS {
            let id = attempt_of(run, attempt);
            match self.0.runs.journal_of(session, id).await {
                Ok((_, entries)) => {
                    let earlier = read(entries)?.1;
                    if earlier.ending().is_none() {
                        return Ok(Attempts { undo: Undo::default(), next: id, under_way: Some(id) });
                    }
                    let outputs = earlier.outputs();
                    taken_back.extend(outputs.in_order().filter(|receipt| receipt.is_success()).map(taken));
                }
                Err(SignalError::UnknownRun(_)) => {
                    let mut undo = Undo::default();
                    self.gather(session, run, &taken_back, &mut undo).await?;
                    return Ok(Attempts { undo, next: id, under_way: None });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(UndoError::Nothing)
    }

    /// Adds the calls of a run, and of the runs that it started, the last first. Boxed, because runs start runs.
    fn gather<'a>(
        &'a self,
        session: &'a Session,
        run: RunId,
        taken_back: &'a HashSet<(String, String)>,
        undo: &'a mut Undo,
    ) -> BoxFuture<'a, Result<(), UndoError>> {
        Box::pin(async move {
            let (_, entries) = self.0.runs.journal_of(session, run).await?;
            let writers = writers(&entries);
            let (began, machine) = read(entries)?;
            if machine.ending().is_none() {
                return Err(SignalError::UnderWay(run.to_string()).into());
            }
            let outputs = machine.outputs();
            let mut receipts: Vec<&ToolEnvelope> = outputs.in_order().collect();
            receipts.sort_by_key(|receipt| std::cmp::Reverse(receipt.t_end));
            for receipt in receipts {
                if began.delegates.contains(&receipt.name) {
                    let child = child_of(&Executor::idempotency_key_of(run, &receipt.call_id));
                    match self.gather(session, child, taken_back, undo).await {
                        // A call that was refused has started nothing.
                        Err(UndoError::Run(SignalError::UnknownRun(_))) => {}
                        gathered => gathered?,
                    }
                    continue;
                }
                let done = (run.to_string(), receipt.call_id.to_string());
                let writes = writers.contains(&(receipt.name.clone(), receipt.version.clone()));
                if writes && changed(receipt) && !taken_back.contains(&done) {
                    self.take_back(session, &began, receipt, undo).await?;
                }
            }
            Ok(())
        })
    }

    async fn take_back(
        &self,
        session: &Session,
        began: &Began,
        receipt: &ToolEnvelope,
        undo: &mut Undo,
    ) -> Result<(), UndoError> {
        let (run, call_id) = (began.spec.run, receipt.call_id.clone());
        // Whatever took the tool's place knows how to take it back.
        let bound = began.bound.iter().find(|(tool, _)| tool.eq_ignore_ascii_case(&receipt.name));
        let bound = bound.and_then(|(_, implementation)| ToolRef::parse(implementation));
        let name = bound.as_ref().map_or(receipt.name.as_str(), |bound| bound.name);
        let tool = format!("{name}@{}", receipt.version);
        let versions = self.0.resolver.catalog.versions(&session.realm, name).await?;
        let exact = format!("={}", receipt.version).parse().ok();
        let definition = choose(&versions, exact.as_ref()).map(|tool| &tool.definition);
        let with = definition.and_then(|definition| definition.compensate_tool_ref.clone());
        let why = match (&with, definition) {
            _ if receipt.error.is_some() && !receipt.metadata.calls.is_empty() => {
                "it failed after it had called other tools, and what they did stays"
            }
            _ if receipt.error.is_some() => "whether it was made is not known",
            (_, None) => "its tool is gone",
            (None, Some(_)) => "its tool has no `compensateToolRef`",
            (Some(with), Some(_)) => {
                let input = json!({
                    "runId": run,
                    "callId": call_id,
                    "idempotencyKey": Executor::idempotency_key_of(run, &call_id),
                    "input": receipt.input,
                    "output": receipt.output,
                });
                undo.plan.push(PlannedCall { tool: with.clone(), input });
                undo.steps.push(Undone { run, call_id, tool, with: with.clone() });
                return Ok(());
            }
        };
        undo.kept.push(Kept { run, call_id, tool, why });
        Ok(())
    }

    /// A run that makes the planned calls, on the authority of whoever asks for it.
    fn beginning(&self, session: &Session, undone: &Began, plan: Vec<PlannedCall>, run: RunId) -> Began {
        let mut began = Planned {
            run,
            subject: undone.agent.clone(),
            definition_hash: undone.definition_hash.clone(),
            task: Some(format!("Undo {}.", undone.spec.run)),
            plan,
            durable: true,
        }
        .begin(session);
        let spec = &mut began.spec;
        spec.limits = spec.limits.tightest(self.0.settings.platform);
        spec.approval_wait_ms = u64::try_from(self.0.settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(self.0.settings.client_wait.as_millis()).ok();
        (began.undoes, began.direct) = (Some(undone.spec.run), undone.direct);
        began
    }
}

/// What was done before to undo a run.
struct Attempts {
    undo: Undo,
    /// The run that would do it.
    next: RunId,
    /// The one that is doing it.
    under_way: Option<RunId>,
}

/// The same for the same run each time, so that asking twice undoes once.
fn attempt_of(run: RunId, attempt: u32) -> RunId {
    let digest = toolwright_types::json::digest(&json!([run, "undo", attempt]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

fn read(entries: Vec<Entry>) -> Result<(Began, AgentRun), Unavailable> {
    journal::replay(entries).map_err(|error| Unavailable::new("the journal does not make a run")(Box::new(error)))
}

/// The tools that wrote, as was known when they were called: names and versions.
fn writers(entries: &[Entry]) -> HashSet<(String, String)> {
    let prepared = entries.iter().flat_map(|entry| match &entry.what {
        Recorded::Happened(Happened::Prepared { calls, .. }) => calls.as_slice(),
        Recorded::Happened(Happened::PreparedAgain { call, .. }) => std::slice::from_ref(call),
        _ => &[],
    });
    let writes = prepared.filter_map(|call| match call {
        Prepared::Ready(facts) if facts.effects == SideEffects::Writes => Some(facts),
        _ => None,
    });
    writes.map(|facts| (facts.name.clone(), facts.version.clone())).collect()
}

/// Whether a call has changed something, or may have.
fn changed(receipt: &ToolEnvelope) -> bool {
    if receipt.metadata.source.is_some() {
        // What a trial has of another run, or kept from happening, it did not do.
        return false;
    }
    may_have_happened(receipt.error.as_ref()) || receipt.metadata.calls.iter().any(part_changed)
}

/// Whether a call that another call made has changed something, or may have.
fn part_changed(call: &PartCall) -> bool {
    call.source.is_none() && (may_have_happened(call.error.as_ref()) || call.calls.iter().any(part_changed))
}

fn may_have_happened(error: Option<&ToolError>) -> bool {
    let may_have = [ErrorCode::Timeout, ErrorCode::NetworkError, ErrorCode::Unknown];
    error.is_none_or(|error| may_have.contains(&error.code))
}

/// The call that a compensation has taken back.
fn taken(receipt: &ToolEnvelope) -> (String, String) {
    let text = |name: &str| receipt.input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("runId"), text("callId"))
}
