//! Executes direct calls, which are runs that consist of one tool call by a principal.
//!
//! If a call writes or uses a client tool, a driver executes the call, as it executes the run of an agent. So the
//! intent is committed before the write starts, and the run can wait for the client. After a crash, the run ends with
//! the reason `interrupted`. A call that only reads has no driver. It finishes before anyone can query its run, so its
//! whole journal is written after the call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_catalog::{Session, Toolset, ToolsetMember, Unavailable};
use toolwright_machine::agent::{CallFacts, EventKind, MAX_DEPTH, PredefinedCall, PreparedCall, within_max_depth};
use toolwright_machine::journal::{Entry, EntryBody, ReplayError, RunStart, chain, replay};
use toolwright_store::{JournalPosition, NewRun, RunChange, RunKind};
use toolwright_tools::{
    CallContext, CallOutcome, CallProgress, CallRequest, CompiledTool, Preparation, ReadyCall, UpdateReceiver,
    UpdateSender,
};
use toolwright_types::{
    CallId, CorrelationId, DocumentId, ErrorCode, Owner, RealmScope, RunId, Surface, Timestamp, ToolEnvelope, ToolError,
};
use tracing::Instrument;

use super::command::RunCommand;
use super::executor::{AnswerSchemas, facts};
use super::journal::{labels_of, link, state_of};
use super::refused::{digest, shortened};
use super::registry::RunSnapshot;
use super::{PredefinedRun, RunLaunch, RunScope, Runs};

/// The state of a direct call when it has ended or waits.
pub enum DirectOutcome {
    /// The call ended, with output or with an error.
    Done(Box<ToolEnvelope>),
    /// The run waits, usually for a client.
    Waiting(Arc<RunSnapshot>),
}

/// A direct call that is prepared and not executed yet.
pub struct DirectCall {
    origin: Origin,
    prepared: Preparation,
}

/// The data from which a direct call and its journal are created: the session, the context, the start time and the
/// input.
struct Origin {
    runs: Runs,
    session: Session,
    context: CallContext,
    started_at: Timestamp,
    input: Value,
    /// How long a client has to return a result.
    client_wait: Duration,
}

impl Runs {
    /// Prepares a call to a tool in the catalog, whose run gets the id `run`. `client_wait` is how long a client has to
    /// return a result.
    pub async fn prepare_call(
        &self,
        session: &Session,
        surface: Surface,
        request: CallRequest,
        client_wait: Duration,
        run: RunId,
    ) -> DirectCall {
        let context = self.call_context(session, surface, run);
        let (input, started_at) = (request.input.clone(), self.now());
        let prepared = self.0.executor.prepare_direct(&context, request).await;
        let (runs, session) = (self.clone(), session.clone());
        DirectCall { origin: Origin { runs, session, context, started_at, input, client_wait }, prepared }
    }

    /// Executes a tool that is not in the catalog, with an empty input. The tool must only read. Example: a request
    /// that tests the connection to a provider.
    pub async fn call_unsaved(&self, session: &Session, tool: Arc<CompiledTool>) -> Result<DirectOutcome, Unavailable> {
        let (context, input) =
            (self.call_context(session, Surface::Tool, RunId::generate()), Value::Object(Default::default()));
        let started_at = self.now();
        let prepared = self.0.executor.prepare_tool(&context, tool, input.clone(), &mut Default::default()).await;
        let prepared = self.0.executor.check_surface(&context, prepared);
        let (runs, session, client_wait) = (self.clone(), session.clone(), Duration::ZERO);
        let origin = Origin { runs, session, context, started_at, input, client_wait };
        DirectCall { origin, prepared }.execute_while_awaited().await
    }

    fn call_context(&self, session: &Session, surface: Surface, run: RunId) -> CallContext {
        let (realm, principal) = (Arc::clone(&session.realm), Arc::clone(&session.principal));
        let mut context = CallContext::direct(realm, principal, run);
        context.surface = surface;
        context.hops = session.hops;
        let correlation = session.correlation.clone();
        context.caller.correlation_id = Some(correlation.unwrap_or_else(|| CorrelationId::of_run(context.run)));
        context.cancel = self.0.stop.child_token();
        context
    }

    /// Cancels a direct call by a command to its driver. Does nothing if the call has no driver.
    async fn cancel_call(&self, run: RunId, home: &Arc<RealmScope>) {
        if let Some(handle) = self.0.registry.get(run).filter(|handle| handle.is_driven()) {
            let message = Some("cancelled by the caller".to_owned());
            // The run rejects the command if it has already ended.
            let _ = self.0.send(&handle, home, RunCommand::Cancel { message }).await;
        }
    }
}

impl DirectCall {
    /// The run of this call.
    pub fn run(&self) -> RunId {
        self.origin.context.run
    }

    /// The prepared call; `None` if the preparation refused it.
    pub fn ready(&self) -> Option<&ReadyCall> {
        match &self.prepared {
            Preparation::Ready(ready) => Some(ready),
            Preparation::Refused(_) => None,
        }
    }

    /// The token that cancels the call. It has no effect on a call with a driver.
    pub fn cancellation(&self) -> CancellationToken {
        self.origin.context.cancel.clone()
    }

    /// Receives the progress that the tool reports during the call.
    pub fn progress(&mut self) -> UpdateReceiver<CallProgress> {
        let (sender, receiver) = UpdateSender::new();
        self.origin.context.resources.progress = Some(sender);
        receiver
    }

    /// Executes the call. If the caller disconnects, a call that only reads is cancelled. Any other call continues,
    /// because a write that has started must not be abandoned.
    pub async fn execute(self) -> Result<DirectOutcome, Unavailable> {
        match self.ready().is_some_and(|ready| !needs_driver(ready)) {
            true => self.execute_while_awaited().await,
            false => self.execute_to_end(&CancellationToken::new()).await,
        }
    }

    /// Executes the call in its own task. Cancelling `cancel` ends the call early, and the function still returns an
    /// envelope. The call continues if the returned future is dropped.
    pub async fn execute_to_end(self, cancel: &CancellationToken) -> Result<DirectOutcome, Unavailable> {
        let (runs, stop) = (self.origin.runs.clone(), self.cancellation());
        let (run, home) = (self.run(), Arc::clone(&self.origin.session.realm));
        // The future is boxed, because it is large and the runtime moves it several times before the first poll.
        let mut task = runs.0.calls.spawn(Box::pin(self.perform()).in_current_span());
        let outcome = tokio::select! {
            outcome = &mut task => outcome,
            () = cancel.cancelled() => {
                stop.cancel();
                runs.cancel_call(run, &home).await;
                task.await
            }
        };
        outcome.map_err(|error| Unavailable::new("the call was lost", error))?
    }

    /// Executes the call in its own task without waiting for it. The shutdown of the server waits for the task, and the
    /// run has the outcome.
    pub fn start(self) {
        let (calls, run) = (self.origin.runs.0.calls.clone(), self.run());
        let call = async move {
            if let Err(error) = self.perform().await {
                tracing::warn!(%run, error = &error as &dyn std::error::Error, "a call was lost");
            }
        };
        calls.spawn(Box::pin(call.in_current_span()));
    }

    /// Executes the call in the caller's task. The call must only read. Dropping the future cancels the call. A
    /// cancelled call still gets a journal with an envelope.
    pub async fn execute_while_awaited(self) -> Result<DirectOutcome, Unavailable> {
        let (cancel, calls) = (self.cancellation(), self.origin.runs.0.calls.clone());
        let _running = calls.token();
        CancelOnDrop { call: Some(Box::pin(self.perform())), cancel, calls }.await
    }

    /// Refuses a prepared call with this error, and returns its envelope.
    pub async fn refuse(self, error: ToolError) -> ToolEnvelope {
        match self.prepared {
            Preparation::Ready(ready) => {
                let envelope = self.origin.runs.0.executor.refuse(*ready, error);
                self.origin.journal_ended(Ended::Refused(Box::new(envelope.clone()))).await;
                envelope
            }
            Preparation::Refused(envelope) => {
                self.origin.journal_ended(Ended::NotPrepared(envelope.clone())).await;
                *envelope
            }
        }
    }

    async fn perform(self) -> Result<DirectOutcome, Unavailable> {
        let Self { origin, prepared } = self;
        match prepared {
            Preparation::Refused(envelope) => {
                origin.journal_ended(Ended::NotPrepared(envelope.clone())).await;
                Ok(DirectOutcome::Done(envelope))
            }
            Preparation::Ready(ready) if !needs_driver(&ready) => Ok(DirectOutcome::Done(origin.read(*ready).await)),
            Preparation::Ready(ready) if within_max_depth(&origin.input) => Box::pin(origin.drive(ready)).await,
            prepared => {
                let message = format!("the input is nested deeper than {MAX_DEPTH} levels, which no journal holds");
                let error = ToolError::new(ErrorCode::ValidationError, message).reason("too_deep");
                Ok(DirectOutcome::Done(Box::new(Self { origin, prepared }.refuse(error).await)))
            }
        }
    }
}

impl Origin {
    /// Executes a call that only reads, and then writes its journal.
    async fn read(self, ready: ReadyCall) -> Box<ToolEnvelope> {
        let facts = Box::new(facts(&self.context, &ready));
        let envelope = match self.runs.0.executor.call(&self.context, ready).await {
            CallOutcome::Done(envelope) => envelope,
            CallOutcome::Client(action) => action.pending,
        };
        self.journal_ended(Ended::Called { facts, envelope: envelope.clone() }).await;
        envelope
    }

    /// Writes the journal of a call that has ended. The caller does not wait for the commit. If the journal cannot be
    /// written, the error is logged and the caller still gets the envelope.
    async fn journal_ended(self, ended: Ended) {
        let Self { runs, session, context, started_at, input, .. } = self;
        let run = context.run;
        let build = move || ended.journal(&session, run, started_at, input);
        if let Err(error) = runs.0.writer.build_and_write(run, Box::new(build)).await {
            tracing::error!(%run, error = &error as &dyn std::error::Error, "a call is not in the journal");
        }
    }

    /// Executes a call as a run with a driver.
    async fn drive(self, ready: Box<ReadyCall>) -> Result<DirectOutcome, Unavailable> {
        let Self { runs, session, context, input, client_wait, .. } = self;
        let (name, hash) = (ready.tool.definition.ref_name.to_string(), ready.tool.content_hash.clone());
        let exact = format!("={}", ready.tool.definition.version);
        let mut start = direct_run(&session, context.run, name.clone(), hash, input);
        start.spec.client_wait_ms = u64::try_from(client_wait.as_millis()).ok();
        let member = ToolsetMember::from_catalog(Arc::clone(&ready.tool), exact.parse().ok());
        if ready.starts_run() {
            start.agentic_tools.insert(name.clone());
            // The child run that the call starts continues after a crash only if this run, its parent, is durable too.
            let agentic = ready.tool.definition.agentic.as_ref();
            start.durable = agentic.is_some_and(|config| config.durable == Some(true));
        }
        start.version_requirements.insert(name, exact);
        let scope = RunScope {
            realm: Arc::clone(&session.realm),
            principal: Arc::clone(&session.principal),
            owner: Owner::of(&session.principal),
        };
        let tools = Arc::new(Toolset::new(vec![member], None));
        let mut executor = runs.0.new_executor(&start, scope, tools, AnswerSchemas::default()).await;
        // The receiver of progress reports and the prepared call exist only in memory, so they are passed to the
        // executor directly.
        Arc::make_mut(&mut executor.cx).resources.progress = context.resources.progress;
        executor.prepared = Mutex::new(Some(Preparation::Ready(ready)));
        let launch = RunLaunch {
            start,
            executor: Arc::new(executor),
            home: Arc::clone(&session.realm),
            owner: Owner::of(&session.principal),
            principal: session.principal.id,
            changes: Vec::new(),
            prefix: Vec::new(),
        };
        let handle = runs.launch(launch).await?;
        let lost = || Unavailable::new("the call was lost; its run has the outcome", "no driver");
        let snapshot = runs.settled(&handle).await.ok_or_else(lost)?;
        if snapshot.run.ending().is_none() {
            return Ok(DirectOutcome::Waiting(snapshot));
        }
        let envelope = snapshot.run.envelopes_after(0).last().cloned().ok_or_else(lost)?;
        Ok(DirectOutcome::Done(Box::new(envelope)))
    }
}

/// Whether a driver must execute the call, because the call writes, waits for a client or starts a child run.
fn needs_driver(ready: &ReadyCall) -> bool {
    ready.has_external_effects() || ready.starts_run()
}

/// How a call ended that has no driver: a call that only reads, or a refused call.
enum Ended {
    Called {
        facts: Box<CallFacts>,
        envelope: Box<ToolEnvelope>,
    },
    /// The call was prepared, so the principal has the permission to call the tool. Then the call was refused, for
    /// example because a person denied it.
    Refused(Box<ToolEnvelope>),
    /// The preparation refused the call. The principal may have no permissions at all.
    NotPrepared(Box<ToolEnvelope>),
}

impl Ended {
    /// Returns the changes that store the run: its row and its entries.
    fn journal(self, session: &Session, run: RunId, started_at: Timestamp, input: Value) -> Vec<RunChange> {
        let changes = match self {
            Ended::Refused(envelope) => {
                let start = direct_run(session, run, envelope.name.clone(), String::new(), journaled(input));
                ended_run(session, start, [(started_at, prepared(PreparedCall::Refused(envelope)))])
            }
            Ended::NotPrepared(envelope) => {
                let envelope = shortened(*envelope);
                let start = direct_run(session, run, envelope.name.clone(), String::new(), digest(&input));
                ended_run(session, start, [(started_at, prepared(PreparedCall::Refused(Box::new(envelope))))])
            }
            Ended::Called { facts, envelope: mut recorded } => {
                // In the envelope, the executor has removed the caller's secrets from the input. The journal must not
                // contain these secrets either.
                let redacted = recorded.input != input;
                let input = journaled(if redacted { recorded.input.clone() } else { input });
                if redacted || !within_max_depth(&recorded.input) {
                    recorded.call_id = CallId::derive(&recorded.name, &recorded.version, &input, 0);
                }
                let ended_at = recorded.t_end.max(started_at);
                let start = direct_run(session, run, facts.name.clone(), facts.definition_hash.clone(), input);
                let events = [
                    (started_at, prepared(PreparedCall::Ready(facts))),
                    (ended_at, EventKind::call_ended(*recorded).limit_depth()),
                ];
                ended_run(session, start, events)
            }
        };
        changes.unwrap_or_else(|error| {
            tracing::error!(%run, %error, "a call is not in the journal: its events do not make a run");
            Vec::new()
        })
    }
}

/// Returns the changes that store a run that has ended: its row and its entries.
fn ended_run<const N: usize>(
    session: &Session,
    start: RunStart,
    events: [(Timestamp, EventKind); N],
) -> Result<Vec<RunChange>, ReplayError> {
    let (id, started_at) = (start.spec.run, events.first().map_or(Timestamp::from_micros(0), |(at, _)| *at));
    let row = NewRun {
        id,
        kind: RunKind::Tool,
        subject: start.subject.clone(),
        subject_hash: start.definition_hash.clone(),
        parent: None,
        conversation: None,
        owner: Owner::of(&session.principal),
        principal: session.principal.id,
        durable: false,
        started_at,
        fork: None,
        trial: None,
        shared_parts: Vec::new(),
        labels: labels_of(&start),
    };
    let first = (started_at, EntryBody::Started(Box::new(start)));
    let bodies = std::iter::once(first).chain(events.into_iter().map(|(at, event)| (at, EntryBody::Event(event))));
    let entries: Vec<Entry> = (1..).zip(bodies).map(|(n, (at, body))| Entry { n, at, body }).collect();
    let (mut last, mut ended_at) = (JournalPosition { n: 0, hash: chain::origin(id) }, started_at);
    let mut written = Vec::with_capacity(entries.len());
    for entry in &entries {
        let entry = link(&last, entry.at, entry.kind(), entry.to_json());
        (last, ended_at) = (JournalPosition { n: entry.n, hash: entry.hash }, entry.at);
        written.push(RunChange::Append(entry));
    }
    let (_, machine) = replay(entries)?;
    let state = Box::new(state_of(&machine, ended_at, last, false));
    written.insert(0, RunChange::Begin { realm: session.realm.realm, run: Box::new(row), state });
    Ok(written)
}

/// The first entry of a run that consists of one call. The call needs no approval, because the principal requested it
/// directly.
fn direct_run(session: &Session, run: RunId, tool: String, definition_hash: String, input: Value) -> RunStart {
    let plan = vec![PredefinedCall { tool: tool.clone(), input }];
    let mut start =
        PredefinedRun { run, subject: tool, definition_hash, task: None, plan, durable: false }.begin(session);
    start.direct = true;
    start.spec.policy.confirmed = true;
    start
}

fn prepared(call: PreparedCall) -> EventKind {
    EventKind::Prepared { iteration: 1, calls: vec![call] }.limit_depth()
}

/// The input as it is stored in the journal. An input that exceeds the nesting limit is stored as JSON text.
fn journaled(input: Value) -> Value {
    if within_max_depth(&input) { input } else { Value::String(input.to_string()) }
}

/// A call that runs in the caller's task, because spawning a task would cost about as much as the call. If the caller
/// drops this future, the call is cancelled. A spawned task then runs the cancelled call to its end, so that its
/// journal is written.
struct CancelOnDrop<F: Future<Output = Result<DirectOutcome, Unavailable>> + Send + 'static> {
    /// `None` when the call has ended or has panicked.
    call: Option<Pin<Box<F>>>,
    cancel: CancellationToken,
    calls: TaskTracker,
}

impl<F: Future<Output = Result<DirectOutcome, Unavailable>> + Send + 'static> Future for CancelOnDrop<F> {
    type Output = Result<DirectOutcome, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let outcome = call.as_mut().poll(cx);
        if outcome.is_pending() {
            self.call = Some(call);
        }
        outcome
    }
}

impl<F: Future<Output = Result<DirectOutcome, Unavailable>> + Send + 'static> Drop for CancelOnDrop<F> {
    fn drop(&mut self) {
        // Without a Tokio runtime, the task that completes the call cannot be spawned.
        if let (Some(call), Ok(runtime)) = (self.call.take(), Handle::try_current()) {
            self.cancel.cancel();
            self.calls.spawn_on(call, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_types::{DocumentId, OrgId, Principal, PrincipalId, RealmId, RealmScope, Role, SideEffects};

    use super::*;

    fn session() -> Session {
        let (org, realm) = (OrgId::from_bits(1), RealmId::from_bits(2));
        let principal = Principal {
            id: PrincipalId::from_bits(3),
            org,
            name: "ada".parse().unwrap(),
            home: realm,
            roles: vec![Role::Member],
        };
        let realm = RealmScope { org, realm, name: "default".parse().unwrap() };
        Session::new(Arc::new(principal), Arc::new(realm))
    }

    fn envelope(output: Value, changes: Value) -> ToolEnvelope {
        let mut envelope = json!({ "call_id": CallId::derive("t", "1.0.0", &json!({ "a": 1 }), 0), "name": "t", "version": "1.0.0",
            "input": { "a": 1 }, "output": output, "error": null, "t_start": "2026-01-01T00:00:00Z",
            "t_end": "2026-01-01T00:00:01Z", "cached": false, "truncated": false, "attachments": [], "metadata": { "attempt": 1 } });
        for (field, value) in changes.as_object().unwrap() {
            *envelope.pointer_mut(field).unwrap() = value.clone();
        }
        serde_json::from_value(envelope).unwrap()
    }

    #[test]
    fn stored_state_of_ended_direct_call_equals_replay_of_its_journal() {
        let at: Timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let (run, failed) = (RunId::generate(), json!({ "code": "TIMEOUT", "message": "late" }));
        for envelope in [
            envelope(json!({ "b": 2 }), json!({})),
            envelope(Value::Null, json!({ "/cached": true, "/truncated": true })),
            envelope(Value::Null, json!({ "/error": failed })),
            envelope(json!(1), json!({ "/metadata": { "attempt": 2, "cost_usd": 5.0 } })),
        ] {
            let facts = Box::new(CallFacts::new("t", "1.0.0", "hash", SideEffects::None));
            let start = direct_run(&session(), run, "t".into(), "hash".into(), json!({ "a": 1 }));
            let events =
                [(at, prepared(PreparedCall::Ready(facts))), (envelope.t_end, EventKind::call_ended(envelope.clone()))];
            let (mut entries, mut state) = (Vec::new(), None);
            for change in ended_run(&session(), start, events).unwrap() {
                match change {
                    RunChange::Begin { state: row, .. } => state = Some(*row),
                    RunChange::Append(entry) => entries.push(entry),
                    other => panic!("{other:?}"),
                }
            }
            let last =
                entries.last().map(|entry| (entry.at, JournalPosition { n: entry.n, hash: entry.hash })).unwrap();
            let read = entries.iter().map(|entry| Entry::parse(entry.n, entry.at, &entry.body).unwrap());
            let (_, machine) = replay(read).unwrap();
            assert_eq!(state.unwrap(), state_of(&machine, last.0, last.1, false), "{envelope:?}");
            assert_eq!(
                entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(),
                ["started", "prepared", "call_ended"]
            );
        }
    }
}
