//! Undoes a run: a new durable run calls the compensating tool of each write, latest write first. A tool names its
//! compensating tool in `compensateToolRef`.
//!
//! The call to a compensating tool is an ordinary tool call. Its input describes the call to undo: `runId`, `callId`,
//! `input`, `output`, and the `idempotencyKey` that was sent with the call.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_machine::agent::PredefinedCall;
use toolwright_machine::journal::{EntryBody, RunStart};
use toolwright_tools::{CompiledTool, Executor};
use toolwright_types::{CallId, Owner, RunId, ToolEnvelope};

use super::writes::{Write, Writes, replay_journal};
use super::{Agents, StartError};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_catalog::VersionedRef;
use toolwright_catalog::select_version;
use toolwright_runs::{CommandError, PredefinedRun, RunLaunch, RunScope};

/// The maximum number of attempts to undo a run. Each attempt undoes the calls that the previous attempts could not
/// undo.
const MAX_ATTEMPTS: u32 = 100;

/// The calls that an undo would compensate, and the calls that it cannot undo.
#[derive(Debug, Default)]
pub struct UndoPreview {
    /// The calls to undo, in the order in which they are undone.
    pub compensations: Vec<Compensation>,
    /// The calls that cannot be undone.
    pub irreversible: Vec<IrreversibleCall>,
    calls: Vec<PredefinedCall>,
}

/// A call to undo.
#[derive(Debug)]
pub struct Compensation {
    /// The run that made the call.
    pub run: RunId,
    /// The id of the call.
    pub call_id: CallId,
    /// The tool that was called, with its version.
    pub tool: String,
    /// The tool that undoes the call.
    pub undo_tool: String,
}

/// A call that cannot be undone.
#[derive(Debug)]
pub struct IrreversibleCall {
    /// The run that made the call.
    pub run: RunId,
    /// The id of the call.
    pub call_id: CallId,
    /// The tool that was called, with its version.
    pub tool: String,
    /// Why the call cannot be undone.
    pub reason: &'static str,
}

/// Why a run cannot be undone. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The run, or one of its child runs, cannot be read or has not ended.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The run that calls the compensating tools cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run has no writes left to undo.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// Some calls cannot be undone.
    #[error("{} of {} calls cannot be undone{}", .0.irreversible.len(), .0.irreversible.len() + .0.compensations.len(),
        if .0.compensations.is_empty() { "" } else { "; undo the others with `partial`" })]
    Partial(UndoPreview),
    /// The undo needs more calls than a run may make.
    #[error("the undo needs {calls} calls, and a run may make at most {limit}")]
    TooManyCalls {
        /// The number of calls.
        calls: usize,
        /// The maximum number of calls of a run.
        limit: u32,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Agents {
    /// Returns which calls of a run can be undone and which cannot.
    pub async fn preview_undo(&self, session: &Session, run: RunId) -> Result<UndoPreview, UndoError> {
        Ok(self.undo_state(session, run).await?.undo)
    }

    /// Returns how one call of a run would be undone, or why it cannot be undone.
    pub async fn preview_undo_call(
        &self,
        session: &Session,
        run: RunId,
        call_id: &CallId,
    ) -> Result<UndoPreview, UndoError> {
        Ok(self.undo_state(session, run).await?.undo.only(run, call_id))
    }

    /// Starts a new run that undoes one call of `run`, and returns the id of the new run. If a run that undoes the call
    /// is already active, returns its id.
    pub async fn undo_call(&self, session: &Session, run: RunId, call_id: &CallId) -> Result<RunId, UndoError> {
        let UndoState { undo, next, active } = self.undo_state(session, run).await?;
        if let Some(active) = active {
            let (_, entries) = self.0.runs.journal_of(session, active).await?;
            return match entries.first().map(|entry| &entry.body) {
                Some(EntryBody::Started(start)) if plans(start, run, call_id) => Ok(active),
                _ => Err(CommandError::NotEnded(active.to_string()).into()),
            };
        }
        self.launch_undo(session, run, undo.only(run, call_id), next, false).await
    }

    /// Starts a new run that undoes `run`, and returns the id of the new run. If a run that undoes `run` is already
    /// active, returns its id. Without `partial`, a call that cannot be undone is an error. With `partial`, it is an
    /// error only if no call can be undone.
    pub async fn undo(&self, session: &Session, run: RunId, partial: bool) -> Result<RunId, UndoError> {
        let UndoState { undo, next, active } = self.undo_state(session, run).await?;
        if let Some(active) = active {
            return Ok(active);
        }
        self.launch_undo(session, run, undo, next, partial).await
    }

    async fn launch_undo(
        &self,
        session: &Session,
        run: RunId,
        undo: UndoPreview,
        next: RunId,
        partial: bool,
    ) -> Result<RunId, UndoError> {
        if undo.compensations.is_empty() && undo.irreversible.is_empty() {
            return Err(UndoError::NothingToUndo);
        }
        if undo.compensations.is_empty() || (!undo.irreversible.is_empty() && !partial) {
            return Err(UndoError::Partial(undo));
        }
        let limit = self.0.settings.platform.max_tool_calls;
        if undo.calls.len() > usize::try_from(limit).unwrap_or(usize::MAX) {
            return Err(UndoError::TooManyCalls { calls: undo.calls.len(), limit });
        }
        self.check_capacity()?;
        let (_, entries) = self.0.runs.journal_of(session, run).await?;
        let Some(EntryBody::Started(start)) = entries.into_iter().next().map(|entry| entry.body) else {
            return Err(CommandError::UnknownRun(run.to_string()).into());
        };
        let start = self.undo_start(session, &start, undo.calls, next);
        let principal = Arc::clone(&session.principal);
        let owner = Owner::of(&principal);
        let scope = RunScope { realm: Arc::clone(&session.realm), principal: Arc::clone(&principal), owner };
        let executor = self.0.runs.build_executor(&start, scope).await?;
        let plan = RunLaunch {
            executor: Arc::new(executor),
            home: Arc::clone(&session.realm),
            owner,
            principal: principal.id,
            changes: Vec::new(),
            start,
            prefix: Vec::new(),
        };
        self.0.runs.launch(plan).await.map_err(Unavailable::from)?;
        Ok(next)
    }

    /// Returns the calls that no earlier attempt has undone, and the id of the run for the next attempt.
    async fn undo_state(&self, session: &Session, run: RunId) -> Result<UndoState, UndoError> {
        let mut compensated = HashSet::new();
        for attempt in 0..MAX_ATTEMPTS {
            let id = undo_run_id(run, attempt);
            match self.0.runs.journal_of(session, id).await {
                Ok((_, entries)) => {
                    let earlier = replay_journal(entries)?.1;
                    if earlier.ending().is_none() {
                        return Ok(UndoState { undo: UndoPreview::default(), next: id, active: Some(id) });
                    }
                    let outputs = earlier.outputs();
                    compensated
                        .extend(outputs.in_order().filter(|envelope| envelope.is_success()).map(compensated_call));
                }
                Err(CommandError::UnknownRun(_)) => {
                    let undo = self.remaining_calls(session, run, &compensated).await?;
                    return Ok(UndoState { undo, next: id, active: None });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(UndoError::NothingToUndo)
    }

    async fn remaining_calls(
        &self,
        session: &Session,
        run: RunId,
        compensated: &HashSet<(String, String)>,
    ) -> Result<UndoPreview, UndoError> {
        let mut writes = Writes::default();
        self.collect_writes(session, run, 0, &mut writes).await?;
        if let Some(active) = writes.active {
            return Err(CommandError::NotEnded(active.to_string()).into());
        }
        let mut compensated = compensated.clone();
        let runs: HashSet<RunId> = writes.calls.iter().map(|write| write.start.spec.run).collect();
        for made_by in runs {
            // The stored effects also show calls that were undone one by one, or by the undo of a child run.
            let undone = self.0.runs.undone_calls(session, made_by).await?;
            compensated.extend(undone.into_iter().map(|call_id| (made_by.to_string(), call_id.to_string())));
        }
        let mut undo = UndoPreview::default();
        for Write { start, envelope, .. } in &writes.calls {
            if !compensated.contains(&(start.spec.run.to_string(), envelope.call_id.to_string())) {
                self.add_compensation(session, start, envelope, &mut undo).await?;
            }
        }
        Ok(undo)
    }

    async fn add_compensation(
        &self,
        session: &Session,
        start: &RunStart,
        envelope: &ToolEnvelope,
        undo: &mut UndoPreview,
    ) -> Result<(), UndoError> {
        let (run, call_id) = (start.spec.run, envelope.call_id.clone());
        // If a library replaced the tool in this run, the compensating tool is the one of the implementation.
        let bound = start.bindings.iter().find(|(tool, _)| tool.eq_ignore_ascii_case(&envelope.name));
        let bound = bound.and_then(|(_, implementation)| VersionedRef::parse(implementation));
        let name = bound.as_ref().map_or(envelope.name.as_str(), |bound| bound.name);
        let tool = format!("{name}@{}", envelope.version);
        let definition = self.definition_of(session, name, &envelope.version).await?;
        let undo_tool = definition.as_ref().and_then(|tool| tool.definition.compensate_tool_ref.clone());
        let reason = match (&undo_tool, definition) {
            _ if envelope.error.is_some() && !envelope.metadata.calls.is_empty() => {
                "it failed after calling other tools, whose effects remain"
            }
            _ if envelope.error.is_some() => "its outcome is unknown",
            (_, None) => "its tool no longer exists",
            (None, Some(_)) => "its tool has no `compensateToolRef`",
            (Some(undo_tool), Some(_)) => {
                let input = json!({
                    "runId": run,
                    "callId": call_id,
                    "idempotencyKey": Executor::idempotency_key_for(run, &call_id),
                    "input": envelope.input,
                    "output": envelope.output,
                });
                undo.calls.push(PredefinedCall { tool: undo_tool.clone(), input });
                undo.compensations.push(Compensation { run, call_id, tool, undo_tool: undo_tool.clone() });
                return Ok(());
            }
        };
        undo.irreversible.push(IrreversibleCall { run, call_id, tool, reason });
        Ok(())
    }

    /// Returns the tool that undoes calls to this version of a tool.
    pub async fn compensating_tool(
        &self,
        session: &Session,
        tool: &str,
        version: &str,
    ) -> Result<Option<String>, Unavailable> {
        let definition = self.definition_of(session, tool, version).await?;
        Ok(definition.and_then(|tool| tool.definition.compensate_tool_ref.clone()))
    }

    async fn definition_of(
        &self,
        session: &Session,
        tool: &str,
        version: &str,
    ) -> Result<Option<Arc<CompiledTool>>, Unavailable> {
        let versions = self.0.resolver.catalog.versions(&session.realm, tool).await?;
        let exact = format!("={version}").parse().ok();
        Ok(select_version(&versions, exact.as_ref()).map(Arc::clone))
    }

    /// Returns the first entry of a run that makes these calls with the permissions of the caller.
    fn undo_start(&self, session: &Session, undone: &RunStart, calls: Vec<PredefinedCall>, run: RunId) -> RunStart {
        let mut start = PredefinedRun {
            run,
            subject: undone.subject.clone(),
            definition_hash: undone.definition_hash.clone(),
            task: Some(format!("Undo {}.", undone.spec.run)),
            plan: calls,
            durable: true,
        }
        .begin(session);
        let spec = &mut start.spec;
        spec.limits = spec.limits.tightest(self.0.settings.platform);
        spec.approval_wait_ms = u64::try_from(self.0.settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(self.0.settings.client_wait.as_millis()).ok();
        (start.compensates, start.direct) = (Some(undone.spec.run), undone.direct);
        start
    }
}

impl UndoPreview {
    /// Keeps only the call with this id.
    fn only(self, run: RunId, call_id: &CallId) -> Self {
        let planned = self.compensations.into_iter().zip(self.calls);
        let (compensations, calls) = planned.filter(|(call, _)| call.run == run && call.call_id == *call_id).unzip();
        let irreversible = self.irreversible.into_iter().filter(|call| call.run == run && call.call_id == *call_id);
        Self { compensations, irreversible: irreversible.collect(), calls }
    }
}

/// Whether the run `undo` compensates this call.
fn plans(undo: &RunStart, run: RunId, call_id: &CallId) -> bool {
    let wanted = (run.to_string(), call_id.to_string());
    undo.spec.predefined_calls.iter().any(|call| named_call(&call.input) == wanted)
}

/// What is left to undo after the earlier attempts to undo a run.
struct UndoState {
    undo: UndoPreview,
    /// The id of the run for the next attempt.
    next: RunId,
    /// The id of the run of an attempt that has not ended.
    active: Option<RunId>,
}

/// Derives the id of the run that makes this attempt to undo `run`. A repeated request derives the same id, so it does
/// not start a second run.
fn undo_run_id(run: RunId, attempt: u32) -> RunId {
    let digest = toolwright_types::json::digest(&json!([run, "undo", attempt]));
    RunId::from_bits(digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte)))
}

/// Returns the run id and the call id of the call that a compensating call has undone.
fn compensated_call(envelope: &ToolEnvelope) -> (String, String) {
    named_call(&envelope.input)
}

/// Returns the run id and the call id in the input of a compensating call.
fn named_call(input: &Value) -> (String, String) {
    let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("runId"), text("callId"))
}
