//! Drives one run: performs what its machine asks for, journals what comes of it, and tells the machine.
//!
//! Nothing here decides what a run does next. A run that only waits for people or clients is put down, and costs
//! nothing until somebody takes it up again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use toolwright_machine::agent::{AgentRun, CallToRun, ClientResult, Effect, Event, EventError, Happened};
use toolwright_machine::journal::{Began, Recorded};
use toolwright_store::{Change, WriteError};
use toolwright_tools::{Allowance, ReadyCall, Schema};
use toolwright_types::{CallId, Clock, ErrorCode, RealmScope, SideEffects, Timestamp, ToolError};
use tracing::Instrument;

use super::effects::Done;
use super::journal::{RunJournal, Safety, state_of, waits_of};
use super::live::{LiveRun, Snapshot};
use super::ports::{Host, Performer, performance};
use super::signal::{Signal, SignalError, Wish};
use super::turns;
use crate::Unavailable;

/// How soon after its intent a write begins. One that would begin later is intended anew: whoever takes the run up counts
/// its time from the intent, and the lease was taken for this long and the call.
pub(super) const BEGUN_WITHIN: Duration = Duration::from_secs(5);

/// Everything that drives one run.
pub(super) struct Driver {
    pub host: Arc<dyn Host>,
    pub live: Arc<LiveRun>,
    pub inbox: mpsc::UnboundedReceiver<Signal>,
    pub began: Arc<Began>,
    /// The realm that keeps it.
    pub home: Arc<RealmScope>,
    pub run: AgentRun,
    pub journal: RunJournal,
    pub crew: Arc<dyn Performer>,
    pub work: Work,
}

/// Why a run is no longer driven.
enum Rest {
    Ended,
    Waits,
    /// The server stops; the next one goes on with the run.
    Left,
}

/// Whether the driver goes on with the run.
#[derive(PartialEq)]
enum Driven {
    Yes,
    No,
}

/// Whether the journal has the intents of writes that are begun.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Intents {
    /// Each is to be told first.
    Tell,
    /// They were told when these same attempts were begun before.
    Told,
}

/// An effect that is being performed.
type Performance = BoxFuture<'static, Result<Done, WriteError>>;

/// What is under way.
#[derive(Default)]
pub(super) struct Work {
    pub effects: FuturesUnordered<Performance>,
    /// Calls that were prepared and may be made as they are.
    ready: HashMap<CallId, ReadyCall>,
    /// What runs that were started may still use.
    lent: HashMap<CallId, Allowance>,
    /// What the run is told before anything else.
    first: Option<Happened>,
}

impl Work {
    /// Nothing under way; the run is told this before anything else.
    pub fn beginning_with(first: Option<Happened>) -> Self {
        Self { first, ..Self::default() }
    }
}

impl Driver {
    /// Drives the run until it ends or only waits.
    pub async fn drive(mut self) {
        match self.go_on().await {
            Ok(Rest::Waits) => {}
            Ok(Rest::Left) => self.refuse_signals(|| Unavailable::new("the server is stopping")("no driver".into())),
            Ok(Rest::Ended) => self.part(),
            Err(error) => {
                tracing::error!(run = %self.live.id, error = &error as &dyn std::error::Error, "the journal failed; the run is tried again later");
                self.refuse_signals(|| error.clone().into());
                self.host.lost(self.live.id, &self.home, Wish::Wake);
            }
        }
    }

    /// Leaves the run as it is written.
    fn refuse_signals(&mut self, why: impl Fn() -> Unavailable) {
        while let Some(signal) = self.live.leave(&mut self.inbox, None) {
            let _ = signal.answer.send(Err(why().into()));
        }
    }

    async fn go_on(&mut self) -> Result<Rest, WriteError> {
        if let Some(first) = self.work.first.take() {
            let _ = self.tell(first, Safety::Now).await?;
        }
        loop {
            self.begin_effects().await?;
            if self.run.ending().is_some() {
                self.finish().await?;
                return Ok(Rest::Ended);
            }
            if self.work.effects.is_empty() && self.run.suspended() {
                match self.suspend().await? {
                    None => return Ok(Rest::Waits),
                    Some(signal) => {
                        self.take_again().await?;
                        self.hear(signal).await?;
                    }
                }
                continue;
            }
            if let Some(Some(done)) = self.work.effects.next().now_or_never() {
                self.done(done?).await?;
                continue;
            }
            // Nothing has come yet: a good moment to write down what has.
            self.journal.pass_on().await?;
            let alarm = self.run.wake_at();
            tokio::select! {
                biased;
                Some(signal) = self.inbox.recv() => self.hear(signal).await?,
                Some(done) = self.work.effects.next() => self.done(done?).await?,
                () = until(self.host.clock(), alarm) => self.watch_clock().await?,
                () = self.host.stop().cancelled() => {
                    if self.began.durable {
                        self.crew.cancel();
                        return Ok(Rest::Left);
                    }
                    let _ = self.tell(interrupted(), Safety::Soon).await?;
                }
            }
        }
    }

    async fn begin_effects(&mut self) -> Result<(), WriteError> {
        let effects = self.run.next();
        self.begin(effects, Intents::Tell).await
    }

    /// Lets the performer have these effects.
    pub async fn begin(&mut self, effects: Vec<Effect>, intents: Intents) -> Result<(), WriteError> {
        let waits = effects.iter().any(|effect| matches!(effect, Effect::AskApproval(_) | Effect::HandToClient(_)));
        let mut children = effects.iter().filter(|effect| self.is_child(effect)).count();
        for effect in effects {
            let crew = Arc::clone(&self.crew);
            let performance: Option<Performance> = match effect {
                Effect::RunCall(call) => {
                    let allowance = crew.starts_run(&call).then(|| self.lend(&call, &mut children));
                    self.call(call, allowance, intents).await?
                }
                other => performance(crew, &self.live, other).map(|done| Box::pin(done.map(Ok)) as _),
            };
            self.work.effects.extend(performance);
        }
        // The lists of what people and clients have to do are true also while other calls go on.
        if waits && !self.work.effects.is_empty() {
            let standing = self.standing(Driven::Yes);
            self.journal.note(standing);
        }
        Ok(())
    }

    /// A call to be made; for one that may change something, the intent is safe before it begins.
    async fn call(
        &mut self,
        call: Box<CallToRun>,
        allowance: Option<Allowance>,
        intents: Intents,
    ) -> Result<Option<Performance>, WriteError> {
        let (crew, ready) = (Arc::clone(&self.crew), self.work.ready.remove(&call.call_id));
        if call.facts.effects != SideEffects::Writes || intents == Intents::Told {
            return Ok(Some(Box::pin(crew.call(call, ready, allowance).map(Ok))));
        }
        if let Err(source) = self.host.lease().cover(crew.time_limit(&call) + BEGUN_WITHIN).await {
            return Err(WriteError::Unavailable { run: self.live.id, source: Arc::new(source) });
        }
        let intended = self.host.clock().now();
        let intent = Happened::Intended { call_id: call.call_id.clone() };
        if let Err(error) = self.tell(intent, Safety::Soon).await? {
            tracing::debug!(run = %self.live.id, %error, "a call is not to be made any more");
            return Ok(None);
        }
        let (safe, host) = (self.journal.flush().await?, Arc::clone(&self.host));
        let ready = ready.map(Box::new);
        Ok(Some(Box::pin(async move {
            safe.await?;
            let waited = host.clock().now().as_micros().saturating_sub(intended.as_micros());
            if u128::try_from(waited).is_ok_and(|waited| waited > BEGUN_WITHIN.as_micros()) {
                return Ok(Done::TooLate { call, ready, allowance });
            }
            // On its own, so that it is over when its time is, whatever the driver waits for.
            #[expect(clippy::disallowed_methods, reason = "it ends with the driver, which shutdown waits for")]
            let made = tokio::spawn(crew.call(call, ready.map(|ready| *ready), allowance).in_current_span());
            AbortOnDropHandle::new(made).await.map_err(|_| WriteError::Stopped)
        })))
    }

    fn is_child(&self, effect: &Effect) -> bool {
        matches!(effect, Effect::RunCall(call) if self.crew.starts_run(call))
    }

    /// An equal share of what is left and not lent, for one of `children` that begin now.
    fn lend(&mut self, call: &CallToRun, children: &mut usize) -> Allowance {
        let share = u32::try_from((*children).max(1)).unwrap_or(u32::MAX);
        *children = children.saturating_sub(1);
        if let Some(lent) = self.work.lent.get(&call.call_id) {
            return *lent;
        }
        let (limits, spent) = (self.run.limits(), self.run.spent());
        let lent = self.work.lent.values();
        let calls: u32 = lent.clone().map(|other| other.tool_calls).sum();
        let tokens: u64 = lent.clone().filter_map(|other| other.tokens).sum();
        let cost: f64 = lent.filter_map(|other| other.cost_usd).sum();
        let allowance = Allowance {
            tool_calls: limits.max_tool_calls.saturating_sub(spent.tool_calls).saturating_sub(calls) / share,
            tokens: limits
                .max_tokens
                .map(|most| most.saturating_sub(spent.usage.total()).saturating_sub(tokens) / u64::from(share)),
            cost_usd: limits.max_cost_usd.map(|most| (most - spent.cost_usd - cost).max(0.0) / f64::from(share)),
            time_ms: limits.timeout_ms.map(|most| most.saturating_sub(spent.active_us / 1000)),
        };
        self.work.lent.insert(call.call_id.clone(), allowance);
        allowance
    }

    /// Takes what came of an effect.
    pub async fn done(&mut self, done: Done) -> Result<(), WriteError> {
        let (what, ready) = match done {
            Done::TooLate { call, ready, allowance } => {
                self.work.ready.extend(ready.map(|ready| (call.call_id.clone(), *ready)));
                let performance = self.call(call, allowance, Intents::Tell).await?;
                self.work.effects.extend(performance);
                return Ok(());
            }
            Done::ChildrenEnded(calls) => {
                for call_id in calls {
                    // One that has gone on meanwhile does not wait any more.
                    let _ = self.tell(Happened::CallWentOn { call_id }, Safety::Soon).await?;
                }
                return Ok(());
            }
            Done::PassedOn => return Ok(()),
            Done::Happened(what) => (what, Vec::new()),
            Done::PreparedAgain { call_id, call, ready } => {
                self.work.ready.extend(ready.map(|ready| (call_id.clone(), *ready)));
                (Happened::PreparedAgain { call_id, call }, Vec::new())
            }
            Done::Prepared { step, results } => {
                let (calls, ready) = results.into_iter().unzip();
                (Happened::Prepared { step, calls }, ready)
            }
        };
        let paused = matches!(what, Happened::CallPaused { .. });
        match &what {
            Happened::CallEnded { envelope, .. } => drop(self.work.lent.remove(&envelope.call_id)),
            Happened::CallPaused { call_id, .. } => drop(self.work.lent.remove(call_id)),
            _ => {}
        }
        // A limit can make what was under way pointless; the machine says so, and nobody needs to know.
        if let Err(error) = self.tell(what, Safety::Soon).await? {
            tracing::debug!(run = %self.live.id, %error, "an effect came too late");
        }
        let numbered = self.run.calls().cloned().zip(ready);
        self.work.ready.extend(numbered.filter_map(|(call_id, ready)| Some((call_id, ready?))));
        if paused {
            // It may have ended before this run knew that it waits.
            self.look_after_children();
        }
        Ok(())
    }

    /// Journals what happened and tells the machine, if it takes it.
    pub async fn tell(&mut self, what: Happened, safety: Safety) -> Result<Result<(), EventError>, WriteError> {
        let event = Event { at: self.host.clock().now(), what: what.flat() };
        if self.run.ending().is_some() {
            return Ok(Ok(()));
        }
        if let Err(error) = self.run.accepts(&event) {
            return Ok(Err(error));
        }
        match self.journal.append(event.at, Recorded::Happened(event.what), safety).await? {
            Recorded::Happened(what) => {
                let taken = self.run.apply(Event { at: event.at, what }).map(drop);
                if self.run.ending().is_none() {
                    self.journal.reveal();
                    if self.journal.is_long() {
                        self.journal.checkpoint(&self.run);
                    }
                }
                Ok(taken)
            }
            Recorded::Began(_) => Ok(Ok(())),
        }
    }

    /// Does what is wanted, if the run takes it, and answers.
    pub async fn hear(&mut self, signal: Signal) -> Result<(), WriteError> {
        let answer = match (self.run.ending(), signal.wish) {
            (_, Wish::Wake) => {
                self.watch_clock().await?;
                self.look_after_children();
                Ok(())
            }
            (Some(ending), _) => Err(SignalError::Ended(ending.status.to_string())),
            (None, Wish::Decide { call_id, decision, by }) => {
                let asked = self.run.approvals().into_iter().find(|asked| asked.call_id == call_id);
                let definition_hash = asked.map(|asked| asked.definition_hash).unwrap_or_default();
                let what = Happened::Approval { call_id, definition_hash, decision, by: Some(by) };
                self.tell(what, Safety::Now).await?.map_err(SignalError::from)
            }
            (None, Wish::Return(results)) => self.take_results(results).await?,
            (None, Wish::ChildEnded { call_id }) => {
                self.tell(Happened::CallWentOn { call_id }, Safety::Soon).await?.map_err(SignalError::from)
            }
            (None, Wish::Cancel { message }) => {
                self.tell(Happened::Cancelled { message }, Safety::Now).await?.map_err(SignalError::from)
            }
        };
        if answer.is_ok() && self.run.ending().is_none() {
            // What was decided or returned is no longer waited for, also where the run is listed.
            let standing = self.standing(Driven::Yes);
            self.journal.note(standing);
        }
        // Whoever asked may have gone.
        let _ = signal.answer.send(answer);
        Ok(())
    }

    /// Looks, beside what is under way, which calls wait for runs that have ended. Not here and now: while a driver waits
    /// for the database its effects stand still, and one of them may hold the connection that it waits for.
    fn look_after_children(&mut self) {
        let (host, home, paused) = (Arc::clone(&self.host), Arc::clone(&self.home), self.run.paused());
        if paused.is_empty() {
            return;
        }
        self.work.effects.push(Box::pin(async move {
            let mut calls = Vec::new();
            for (call_id, child) in paused {
                if host.has_ended(&home, child).await {
                    calls.push(call_id);
                }
            }
            Ok(Done::ChildrenEnded(calls))
        }));
    }

    /// Takes all results or none. One that does not fit its schema is a failed call, which the model is told of.
    async fn take_results(
        &mut self,
        results: Vec<(CallId, ClientResult)>,
    ) -> Result<Result<(), SignalError>, WriteError> {
        let given: Vec<CallId> = results.iter().map(|(call_id, _)| call_id.clone()).collect();
        let problems: Vec<_> = self
            .run
            .check_client_results(&given)
            .into_iter()
            .filter(|problem| !matches!(problem, toolwright_machine::agent::ClientResultProblem::Missing(_)))
            .collect();
        if !problems.is_empty() {
            return Ok(Err(SignalError::Results(problems)));
        }
        let actions = self.run.client_actions();
        for (call_id, result) in results {
            let schema = actions.iter().find(|action| action.call_id == call_id).map(|action| &action.schema);
            let result = checked(result, schema);
            if let Err(error) = self.tell(Happened::ClientReturned { call_id, result }, Safety::Now).await? {
                return Ok(Err(error.into()));
            }
        }
        Ok(Ok(()))
    }

    async fn watch_clock(&mut self) -> Result<(), WriteError> {
        let now = self.host.clock().now();
        let late = |expires: Option<Timestamp>| expires.is_some_and(|expires| expires <= now);
        let approvals =
            self.run.approvals().into_iter().filter(|asked| late(asked.expires_at)).map(|asked| asked.call_id);
        let clients = self.run.client_actions().into_iter().filter(|asked| late(asked.expires_at));
        let expired: Vec<CallId> = approvals.chain(clients.map(|asked| asked.call_id)).collect();
        let nothing_expired = expired.is_empty();
        for call_id in expired {
            let _ = self.tell(Happened::Expired { call_id }, Safety::Now).await?;
        }
        if nothing_expired && self.run.wake_at().is_some_and(|at| at <= now) {
            let _ = self.tell(Happened::TimePassed, Safety::Soon).await?;
        }
        Ok(())
    }

    /// Puts the run down until somebody takes it up again; a signal that came meanwhile is given back.
    async fn suspend(&mut self) -> Result<Option<Signal>, WriteError> {
        let standing = self.standing(Driven::No);
        self.journal.checkpoint(&self.run);
        self.journal.settle(vec![standing]).await?;
        self.host.put_down();
        let snapshot = Arc::new(Snapshot { began: Arc::clone(&self.began), run: self.run.clone() });
        Ok(self.live.leave(&mut self.inbox, Some(snapshot)))
    }

    /// Takes the run that was put down just now. Another server may have been faster.
    async fn take_again(&mut self) -> Result<(), WriteError> {
        match self.host.lease().take_run(self.live.id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(WriteError::Conflict(self.live.id)),
            Err(source) => Err(WriteError::Unavailable { run: self.live.id, source: Arc::new(source) }),
        }
    }

    /// Writes everything so far, and where the run stands.
    pub async fn settle(&mut self) -> Result<(), WriteError> {
        let standing = self.standing(Driven::Yes);
        if self.run.suspended() {
            self.journal.checkpoint(&self.run);
        }
        self.journal.settle(vec![standing]).await?;
        self.journal.reveal();
        Ok(())
    }

    /// Writes the end of the run, with all that belongs to it.
    pub async fn finish(&mut self) -> Result<(), WriteError> {
        // What is still under way is of no use to anyone; a tool that listens learns it, the rest is dropped.
        self.crew.cancel();
        self.work = Work::default();
        Arc::clone(&self.host).cancel_children(&self.live, &self.home, &self.began).await;
        let mut changes = vec![self.standing(Driven::No)];
        changes.extend(turns::of_run(&self.began, self.home.realm, &self.run, self.host.clock().now()));
        self.journal.settle(changes).await?;
        self.journal.reveal();
        Ok(())
    }

    /// Leaves a run that has ended to those who want to know.
    fn part(self) {
        let Self { host, live, home, mut inbox, began, run, .. } = self;
        let snapshot = Arc::new(Snapshot { began: Arc::clone(&began), run });
        while let Some(signal) = live.leave(&mut inbox, Some(Arc::clone(&snapshot))) {
            let answer = match signal.wish {
                Wish::Wake | Wish::ChildEnded { .. } => Ok(()),
                _ => Err(SignalError::Ended(snapshot.run.status().to_string())),
            };
            let _ = signal.answer.send(answer);
        }
        host.tell_parent(&began, &home);
    }

    fn standing(&self, driven: Driven) -> Change {
        Change::Settle {
            state: state_of(&self.run, self.host.clock().now(), self.journal.mark(), driven == Driven::Yes),
            waits: waits_of(&self.run),
        }
    }
}

/// What is told to a run that is not gone on with.
pub(super) fn interrupted() -> Happened {
    let message = "the server stopped while the run was under way".to_owned();
    Happened::Failed { reason: "interrupted".into(), message }
}

/// A result that fits the schema it was asked for with, or the failure that it does not.
fn checked(result: ClientResult, schema: Option<&serde_json::Value>) -> ClientResult {
    let (ClientResult::Output(output), Some(schema)) = (&result, schema) else {
        return result;
    };
    let violations = match Schema::compile(schema.clone()) {
        Ok(schema) => schema.check(output).err().unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    match violations.first() {
        None => result,
        Some(first) => {
            let message = format!("the client's result does not fit its schema: {}: {}", first.path, first.message);
            let error = ToolError::new(ErrorCode::ProviderError, message).reason("output_schema");
            ClientResult::Error(error.detail("errors", serde_json::json!(violations)))
        }
    }
}

async fn until(clock: &dyn Clock, moment: Option<Timestamp>) {
    match moment {
        None => std::future::pending().await,
        Some(moment) => {
            let micros = moment.as_micros().saturating_sub(clock.now().as_micros());
            tokio::time::sleep(Duration::from_micros(u64::try_from(micros).unwrap_or(0))).await;
        }
    }
}

impl From<WriteError> for Unavailable {
    fn from(error: WriteError) -> Self {
        Unavailable::new("the journal could not be written")(Box::new(error))
    }
}
