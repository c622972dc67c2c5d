//! The state and the operations that both run loops share: the machine of a run, its journal and the effects in
//! progress.
//!
//! [`super::driver`] drives a run in this process until the run ends or waits. [`super::tasks`] advances a run by one
//! event at a time for an external scheduler. This module does not decide what a run does next; the machine does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use toolwright_machine::agent::{
    AgentRun, CallToRun, ClientResult, ClientResultError, Effect, Event, EventError, EventKind, PreparedCall,
    STEP_TIMEOUT,
};
use toolwright_machine::journal::{EntryBody, RunStart};
use toolwright_store::{RunChange, WriteError};
use toolwright_tools::{Allowance, ReadyCall, Schema};
use toolwright_types::{CallId, ErrorCode, RealmScope, SideEffects, Timestamp, ToolEnvelope, ToolError};
use tracing::Instrument;

use super::command::{CommandError, RunCommand};
use super::journal::{Durability, RunJournal, notes_of, state_of, waits_of};
use super::ports::{DriverHost, EffectExecutor, EffectOutcome, START_WITHIN, execute_effect};
use super::registry::{RunHandle, RunSnapshot};
use super::{projections, turns};

/// The machine and the journal of one run, with everything that both loops need.
pub(super) struct RunCore {
    pub host: Arc<dyn DriverHost>,
    pub handle: Arc<RunHandle>,
    pub start: Arc<RunStart>,
    /// The realm that stores the run. The run may act in another realm.
    pub home: Arc<RealmScope>,
    pub machine: AgentRun,
    pub journal: RunJournal,
    pub executor: Arc<dyn EffectExecutor>,
    pub work: Work,
}

/// Whether a server drives the run. This value is stored in the row of the run.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Driven {
    Yes,
    No,
}

/// Whether the journal already contains the intents of the writes that are about to start.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Intents {
    /// The journal has no intents for these attempts yet. Before a write starts, its intent is recorded.
    Record,
    /// The journal already has the intents, because the same attempts were started before.
    Recorded,
}

/// An effect in progress.
type RunningEffect = BoxFuture<'static, Result<EffectOutcome, WriteError>>;

/// The effects in progress, and the prepared calls and budgets for effects that start later.
#[derive(Default)]
pub(super) struct Work {
    pub effects: FuturesUnordered<RunningEffect>,
    /// Calls that this process prepared and has not started yet.
    ready: HashMap<CallId, ReadyCall>,
    /// The budget that is reserved for the child run of each call.
    reserved: HashMap<CallId, Allowance>,
}

impl RunCore {
    /// Starts the effects that the machine requests next.
    pub(crate) async fn start_effects(&mut self) -> Result<(), WriteError> {
        let effects = self.machine.next();
        self.start_these(effects, Intents::Record).await
    }

    pub(crate) async fn start_these(&mut self, effects: Vec<Effect>, intents: Intents) -> Result<(), WriteError> {
        let waits =
            effects.iter().any(|effect| matches!(effect, Effect::RequestApproval(_) | Effect::RequestClientAction(_)));
        let mut children = effects.iter().filter(|effect| self.starts_child(effect)).count();
        for effect in effects {
            let executor = Arc::clone(&self.executor);
            let running: Option<RunningEffect> = match effect {
                Effect::RunCall(call) => {
                    let allowance = executor.starts_run(&call).then(|| self.reserve(&call, &mut children));
                    self.start_call(call, allowance, intents).await?
                }
                other => execute_effect(executor, &self.handle, other).map(|outcome| Box::pin(outcome.map(Ok)) as _),
            };
            self.work.effects.extend(running);
        }
        // The effects in progress may take a long time. So the stored list of approvals and client actions is updated
        // before they end.
        if waits && !self.work.effects.is_empty() {
            let state = self.state_change(Driven::Yes);
            self.journal.note(state);
        }
        Ok(())
    }

    /// Starts a call. The intent of a write is committed before the call starts.
    async fn start_call(
        &mut self,
        call: Box<CallToRun>,
        allowance: Option<Allowance>,
        intents: Intents,
    ) -> Result<Option<RunningEffect>, WriteError> {
        let (executor, ready) = (Arc::clone(&self.executor), self.work.ready.remove(&call.call_id));
        if call.facts.effects != SideEffects::Writes || intents == Intents::Recorded {
            return Ok(Some(Box::pin(executor.call(call, ready, allowance).map(Ok))));
        }
        if let Err(source) = self.host.lease().cover(executor.time_limit(&call) + START_WITHIN).await {
            return Err(WriteError::Store { run: self.handle.id, source: Arc::new(source) });
        }
        let intended_at = self.host.clock().now();
        let intent = EventKind::Intended { call_id: call.call_id.clone() };
        if let Err(error) = self.record_and_apply(intent, Durability::Deferred).await? {
            tracing::debug!(run = %self.handle.id, %error, "a call is no longer wanted");
            return Ok(None);
        }
        let (committed, host) = (self.journal.flush().await?, Arc::clone(&self.host));
        let ready = ready.map(Box::new);
        Ok(Some(Box::pin(async move {
            committed.await?;
            if is_too_late(intended_at, host.clock().now()) {
                return Ok(EffectOutcome::TooLate { call, ready, allowance });
            }
            // The call runs in its own task, so that its time limit applies even while the driver waits for something
            // else.
            #[expect(clippy::disallowed_methods, reason = "the task ends with the driver, which shutdown waits for")]
            let task = tokio::spawn(executor.call(call, ready.map(|ready| *ready), allowance).in_current_span());
            AbortOnDropHandle::new(task).await.map_err(|_| WriteError::Stopped)
        })))
    }

    fn starts_child(&self, effect: &Effect) -> bool {
        matches!(effect, Effect::RunCall(call) if self.executor.starts_run(call))
    }

    /// Reserves the budget of one child run: the remaining budget divided by `children`, the number of child runs that
    /// are still to be started.
    fn reserve(&mut self, call: &CallToRun, children: &mut usize) -> Allowance {
        let share = u32::try_from((*children).max(1)).unwrap_or(u32::MAX);
        *children = children.saturating_sub(1);
        if let Some(reserved) = self.work.reserved.get(&call.call_id) {
            return *reserved;
        }
        let (limits, resource_usage) = (self.machine.limits(), self.machine.resource_usage());
        let reserved = self.work.reserved.values();
        let calls: u32 = reserved.clone().map(|other| other.tool_calls).sum();
        let tokens: u64 = reserved.clone().filter_map(|other| other.tokens).sum();
        let cost: f64 = reserved.filter_map(|other| other.cost_usd).sum();
        let allowance = Allowance {
            tool_calls: limits.max_tool_calls.saturating_sub(resource_usage.tool_calls).saturating_sub(calls) / share,
            tokens: limits.max_tokens.map(|most| {
                most.saturating_sub(resource_usage.usage.total()).saturating_sub(tokens) / u64::from(share)
            }),
            cost_usd: limits
                .max_cost_usd
                .map(|most| (most - resource_usage.cost_usd - cost).max(0.0) / f64::from(share)),
            time_ms: limits.timeout_ms.map(|most| most.saturating_sub(resource_usage.active_us / 1000)),
        };
        self.work.reserved.insert(call.call_id.clone(), allowance);
        allowance
    }

    /// Records the outcome of an effect.
    pub(crate) async fn complete(&mut self, outcome: EffectOutcome) -> Result<(), WriteError> {
        let event = match outcome {
            EffectOutcome::TooLate { call, ready, allowance } => {
                self.work.ready.extend(ready.map(|ready| (call.call_id.clone(), *ready)));
                let running = self.start_call(call, allowance, Intents::Record).await?;
                self.work.effects.extend(running);
                return Ok(());
            }
            EffectOutcome::ChildrenEnded(calls) => {
                for call_id in calls {
                    // The machine rejects the event if the call no longer waits for its child run.
                    let _ = self.record_and_apply(EventKind::ChildEnded { call_id }, Durability::Deferred).await?;
                }
                return Ok(());
            }
            EffectOutcome::ChildrenAbandoned | EffectOutcome::Scheduled => return Ok(()),
            EffectOutcome::Event(event) => event,
            EffectOutcome::PreparedAgain { call_id, call, ready } => {
                self.work.ready.extend(ready.map(|ready| (call_id.clone(), *ready)));
                EventKind::PreparedAgain { call_id, call }
            }
            EffectOutcome::Prepared { iteration, results } => {
                return self.complete_preparation(iteration, results).await;
            }
        };
        let child_suspended = matches!(event, EventKind::ChildSuspended { .. });
        match &event {
            EventKind::CallEnded { envelope, .. } => drop(self.work.reserved.remove(&envelope.call_id)),
            EventKind::ChildSuspended { call_id, .. } => drop(self.work.reserved.remove(call_id)),
            _ => {}
        }
        // If a limit ended the run while the effect was in progress, the machine rejects the outcome.
        if let Err(error) = self.record_and_apply(event, Durability::Deferred).await? {
            tracing::debug!(run = %self.handle.id, %error, "the outcome of an effect came too late");
        }
        if child_suspended {
            // The child run may have ended before this run recorded that it waits for the child.
            self.check_children();
        }
        Ok(())
    }

    /// Records the preparation of calls, and keeps the prepared calls until they start.
    async fn complete_preparation(
        &mut self,
        iteration: u32,
        results: Vec<(PreparedCall, Option<ReadyCall>)>,
    ) -> Result<(), WriteError> {
        let (calls, mut ready): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        let event = EventKind::Prepared { iteration, calls };
        if let Err(error) = self.record_and_apply(event, Durability::Deferred).await? {
            tracing::debug!(run = %self.handle.id, %error, "the preparation of calls came too late");
        }
        for (position, call_id) in self.machine.prepared_calls(iteration) {
            if let Some(ready) = ready.get_mut(position).and_then(Option::take) {
                self.work.ready.insert(call_id.clone(), ready);
            }
        }
        Ok(())
    }

    /// Appends an event to the journal and applies it to the machine, if the machine accepts the event.
    pub(crate) async fn record_and_apply(
        &mut self,
        event: EventKind,
        durability: Durability,
    ) -> Result<Result<(), EventError>, WriteError> {
        let event = Event { at: self.host.clock().now(), kind: event.limit_depth() };
        if self.machine.ending().is_some() {
            return Ok(Ok(()));
        }
        if let Err(error) = self.machine.accepts(&event) {
            return Ok(Err(error));
        }
        let rows = projections::rows(&self.start, &self.machine, &event, self.journal.position().n + 1);
        let notes = notes_of(&self.machine, &event.kind);
        match self.journal.append_with(event.at, EntryBody::Event(event.kind), notes, durability, rows).await? {
            EntryBody::Event(kind) => {
                let applied = self.machine.apply(Event { at: event.at, kind }).map(drop);
                if self.machine.ending().is_none() {
                    self.journal.publish();
                    if self.journal.needs_checkpoint() {
                        self.journal.checkpoint(&self.machine);
                    }
                }
                Ok(applied)
            }
            EntryBody::Started(_) => Ok(Ok(())),
        }
    }

    /// Executes a command, or returns the error with which the run rejects it.
    pub(crate) async fn handle_command(&mut self, command: RunCommand) -> Result<Result<(), CommandError>, WriteError> {
        let result = match (self.machine.ending(), command) {
            (_, RunCommand::Wake) => {
                self.check_clock().await?;
                self.check_children();
                Ok(())
            }
            (Some(ending), _) => Err(CommandError::Ended(ending.status.to_string())),
            (None, RunCommand::Decide { call_id, decision, decided_by, reason }) => {
                let approval = self.machine.pending_approvals().into_iter().find(|asked| asked.call_id == call_id);
                let definition_hash = approval.map(|asked| asked.definition_hash).unwrap_or_default();
                let decided_by = Some(decided_by);
                self.accept(EventKind::ApprovalDecided { call_id, definition_hash, decision, decided_by, reason })
                    .await?
            }
            (None, RunCommand::Return(results)) => self.accept_results(results).await?,
            (None, RunCommand::ChildSuspended { call_id, run, status }) => {
                // The call itself reports the first suspension of its child run, while the call is running. Later
                // suspensions of the child run arrive as this command.
                let children = self.machine.suspended_children();
                if children.iter().any(|child| child.call_id == call_id && child.run == run) {
                    let event = EventKind::ChildSuspended { call_id, run, status };
                    let recorded = self.record_and_apply(event, Durability::Deferred).await?;
                    // The parent of this run must also learn about the suspension.
                    self.notify_parent_of_wait();
                    recorded.map_err(CommandError::from)
                } else {
                    Err(EventError::NotWaiting(call_id).into())
                }
            }
            (None, RunCommand::ChildEnded { call_id }) => {
                let event = EventKind::ChildEnded { call_id };
                self.record_and_apply(event, Durability::Deferred).await?.map_err(CommandError::from)
            }
            (None, RunCommand::Cancel { message }) => self.accept(EventKind::Cancelled { message }).await?,
            (None, RunCommand::Signal { name, payload, sent_by }) => {
                self.accept(EventKind::SignalReceived { name, payload, sent_by: Some(sent_by) }).await?
            }
            (None, RunCommand::Pause { by }) => self.accept(EventKind::Paused { by: Some(by) }).await?,
            (None, RunCommand::Resume { by }) => self.accept(EventKind::Resumed { by: Some(by) }).await?,
        };
        if result.is_ok() && self.machine.ending().is_none() {
            // The command may have resolved an approval or a client action, so the stored list of waits is updated.
            let state = self.state_change(Driven::Yes);
            self.journal.note(state);
        }
        Ok(result)
    }

    /// Records the event of a command, and waits until it is committed.
    async fn accept(&mut self, event: EventKind) -> Result<Result<(), CommandError>, WriteError> {
        Ok(self.record_and_apply(event, Durability::Committed).await?.map_err(CommandError::from))
    }

    /// Looks for suspended calls whose child runs have ended. The check runs as an effect and not in the driver itself,
    /// to avoid a deadlock. While the driver waits for a database connection, the effects make no progress, and one of
    /// the effects may hold the connection that the driver needs.
    fn check_children(&mut self) {
        let children = self.machine.suspended_children();
        if children.is_empty() {
            return;
        }
        let (host, home) = (Arc::clone(&self.host), Arc::clone(&self.home));
        self.work.effects.push(Box::pin(async move {
            let mut calls = Vec::new();
            for child in children {
                if host.has_ended(&home, child.run).await {
                    calls.push(child.call_id);
                }
            }
            Ok(EffectOutcome::ChildrenEnded(calls))
        }));
    }

    /// The calls in progress that start child runs.
    fn calls_of_children(&self) -> Vec<CallId> {
        let starts_run = |tool: &str| self.start.agentic_tools.contains(tool);
        let calls = self.machine.open_calls().filter(|call| starts_run(call.tool));
        calls.map(|call| call.call_id.clone()).collect()
    }

    /// Cancels the child runs of steps that have timed out. The server that recorded the timeouts may have stopped
    /// before it cancelled them.
    pub(crate) fn abandon_timed_out_children(&mut self) {
        let has_timed_out = |envelope: &&ToolEnvelope| {
            let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
            details.is_some_and(|details| details["reason"] == STEP_TIMEOUT)
                && self.start.agentic_tools.contains(&envelope.name)
        };
        let calls = self.machine.envelopes_after(0).filter(has_timed_out).map(|envelope| envelope.call_id.clone());
        self.abandon_children(calls.collect());
    }

    /// Cancels the child runs of calls that have ended before them. This runs in its own task: many steps can time out
    /// at the same time, and effects that wait for the driver would hold the database connections that the driver needs.
    fn abandon_children(&mut self, calls: Vec<CallId>) {
        if calls.is_empty() {
            return;
        }
        let (host, handle, home) = (Arc::clone(&self.host), Arc::clone(&self.handle), Arc::clone(&self.home));
        let (ended, end) = oneshot::channel();
        self.host.spawn(
            self.handle.id,
            Box::pin(async move {
                host.abandon_children(&handle, &home, &calls).await;
                // Sending fails if the driver has stopped.
                let _ = ended.send(());
            }),
        );
        self.work.effects.push(Box::pin(async move {
            // Receiving fails if the task has panicked.
            let _ = end.await;
            Ok(EffectOutcome::ChildrenAbandoned)
        }));
    }

    /// Accepts all results or none. A result that does not match the schema of its request becomes an error that the
    /// model reads.
    async fn accept_results(
        &mut self,
        results: Vec<(CallId, ClientResult)>,
    ) -> Result<Result<(), CommandError>, WriteError> {
        let calls: Vec<CallId> = results.iter().map(|(call_id, _)| call_id.clone()).collect();
        let mut errors = self.machine.check_client_results(&calls);
        errors.retain(|error| !matches!(error, ClientResultError::Missing(_)));
        if !errors.is_empty() {
            return Ok(Err(CommandError::Results(errors)));
        }
        let actions = self.machine.pending_client_actions();
        for (call_id, result) in results {
            let schema = actions.iter().find(|action| action.call_id == call_id).map(|action| &action.schema);
            let event = EventKind::ClientReturned { call_id, result: validated(result, schema).await };
            if let Err(error) = self.record_and_apply(event, Durability::Committed).await? {
                return Ok(Err(error.into()));
            }
        }
        Ok(Ok(()))
    }

    /// Records that waits have expired. If no wait has expired and the machine's timer is due, records that the timer
    /// fired.
    pub(crate) async fn check_clock(&mut self) -> Result<(), WriteError> {
        let now = self.host.clock().now();
        let is_expired = |expires: Option<Timestamp>| expires.is_some_and(|expires| expires <= now);
        let approvals = self.machine.pending_approvals().into_iter().filter(|wait| is_expired(wait.expires_at));
        let actions = self.machine.pending_client_actions().into_iter().filter(|wait| is_expired(wait.expires_at));
        let expired: Vec<CallId> = approvals.map(|wait| wait.call_id).chain(actions.map(|wait| wait.call_id)).collect();
        let none_expired = expired.is_empty();
        for call_id in expired {
            let _ = self.record_and_apply(EventKind::Expired { call_id }, Durability::Committed).await?;
        }
        if none_expired && self.machine.wake_at().is_some_and(|at| at <= now) {
            let waiting = self.calls_of_children();
            let _ = self.record_and_apply(EventKind::TimerFired, Durability::Deferred).await?;
            let open: HashSet<CallId> = self.calls_of_children().into_iter().collect();
            self.abandon_children(waiting.into_iter().filter(|call| !open.contains(call)).collect());
        }
        Ok(())
    }

    /// Commits all buffered entries together with the state of the run.
    pub(crate) async fn commit(&mut self, driven: Driven) -> Result<(), WriteError> {
        let state = self.state_change(driven);
        if self.machine.suspended() {
            self.journal.checkpoint(&self.machine);
        }
        self.journal.commit(vec![state]).await?;
        self.journal.publish();
        Ok(())
    }

    /// Cancels the child runs. Then commits the last entries, the final state and the conversation turns of the run.
    pub(crate) async fn finish(&mut self) -> Result<(), WriteError> {
        // The outcomes of the effects in progress are no longer needed. `cancel` notifies the tools that support
        // cancellation, and the futures of all effects are dropped.
        self.executor.cancel();
        self.work = Work::default();
        Arc::clone(&self.host).cancel_children(&self.handle, &self.home, &self.start).await;
        let mut changes = vec![self.state_change(Driven::No)];
        changes.extend(turns::of_run(&self.start, self.home.realm, &self.machine, self.host.clock().now()));
        self.journal.commit(changes).await?;
        self.journal.publish();
        Ok(())
    }

    /// Tells the parent run that this run has ended.
    pub(crate) fn notify_parent_of_end(&self) {
        let command = Box::new(|call_id| RunCommand::ChildEnded { call_id });
        Arc::clone(&self.host).notify_parent(&self.start, &self.home, command);
    }

    /// Notifies the parent run that this run waits again, after a decision or because it continued in the meantime, so
    /// that watchers of the parent run are informed. The first suspension needs no command, because the call that started
    /// this run reports it.
    pub(crate) fn notify_parent_of_suspension(&self) {
        if self.machine.resumed() || !self.machine.decisions().is_empty() {
            self.notify_parent_of_wait();
        }
    }

    fn notify_parent_of_wait(&self) {
        let (run, status) = (self.handle.id, self.machine.status());
        let command = Box::new(move |call_id| RunCommand::ChildSuspended { call_id, run, status });
        Arc::clone(&self.host).notify_parent(&self.start, &self.home, command);
    }

    /// Returns the current state of the run.
    pub(crate) fn snapshot(&self) -> Arc<RunSnapshot> {
        Arc::new(RunSnapshot { start: Arc::clone(&self.start), run: self.machine.clone() })
    }

    fn state_change(&self, driven: Driven) -> RunChange {
        RunChange::UpdateState {
            state: state_of(&self.machine, self.host.clock().now(), self.journal.position(), driven == Driven::Yes),
            waits: waits_of(&self.machine),
        }
    }
}

/// Whether more than [`START_WITHIN`] has passed since the intent of a write.
pub(super) fn is_too_late(intended_at: Timestamp, now: Timestamp) -> bool {
    let waited = now.as_micros().saturating_sub(intended_at.as_micros());
    u128::try_from(waited).is_ok_and(|waited| waited > START_WITHIN.as_micros())
}

/// The event that ends a non-durable run when its server stops.
pub(super) fn interrupted() -> EventKind {
    let message = "the server stopped while the run was in progress".to_owned();
    EventKind::Failed { reason: "interrupted".into(), message }
}

/// Returns the result of a client. If the result does not match the schema of the request, returns an error instead. A
/// long validation does not block the thread.
async fn validated(result: ClientResult, schema: Option<&serde_json::Value>) -> ClientResult {
    let (ClientResult::Output(output), Some(schema)) = (&result, schema) else {
        return result;
    };
    let violations = match Schema::compile_large(schema.clone()).await {
        Ok(schema) => Arc::new(schema).validate(output.clone()).await.err().unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    match violations.first() {
        None => result,
        Some(first) => {
            let message = format!("the client's result does not match its schema: {}: {}", first.path, first.message);
            let error = ToolError::new(ErrorCode::ProviderError, message).reason("output_schema");
            ClientResult::Error(error.detail("errors", serde_json::json!(violations)))
        }
    }
}
