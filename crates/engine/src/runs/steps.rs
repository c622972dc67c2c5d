//! A conducted run, one step after the other: the same driver, called instead of calling.
//!
//! [`Runs::advance`] takes one thing that happened, lets the driver go on until it has nothing more to do than to wait,
//! writes everything that came of it in one transaction, and gives the effects that are to be performed to whoever called.
//! [`Runs::perform`] performs one of them, perhaps on another server, and keeps what came of it until the run is told.
//!
//! Both may be called again for the same thing, because a server or the conductor died before the answer arrived: what
//! the run has taken it does not take twice, and a step whose outcome is known is not made again. One that was begun and
//! whose outcome nobody knows is repeated if it can do no harm; of a write the machine is told that it was lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolwright_machine::agent::{AgentRun, CallToPrepare, CallToRun, Effect, EffectId, Happened};
use toolwright_store::{Change, Mark, Run, StepState, WriteError};
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{CallId, ModelRequest, RealmScope, RunId, SideEffects, Timestamp};

use super::conduct::kept_answer;
use super::driver::{BEGUN_WITHIN, Driver, Intents, Work};
use super::effects::Done;
use super::journal::{LOOK_AFTER_US, Pace, RunJournal, Safety, wake_at};
use super::live::LiveRun;
use super::load::Revived;
use super::ports::{Performer, performance};
use super::signal::{Signal, SignalError, Wish};
use super::{Inner, Runs};
use crate::Unavailable;

/// How often a run that was overtaken is read anew before whoever called has to try again.
const OVERTAKEN: usize = 3;
/// How often a step looks whether its run still wants it, and one that another server makes whether it is made.
const GLANCE: Duration = Duration::from_secs(1);
/// How many runs are kept in memory.
const MOST_STAGES: u64 = 10_000;
/// How long one is kept that nothing happens to.
const IDLE: Duration = Duration::from_secs(600);

/// Something that happened to a run.
#[derive(Debug, Clone)]
pub enum News {
    /// Nothing; it is to look at the clock, and at what was handed out.
    Wake,
    /// A step was made, or lost.
    Step(Step),
    /// Somebody has said this.
    Said(String),
}

/// A step that is to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The run it is a step of.
    pub run: RunId,
    /// Which of its effects.
    effect: EffectId,
    /// Which attempt at it.
    attempt: u32,
    /// What it is called, for people.
    pub name: String,
    /// What a run that it starts may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowance: Option<Allowance>,
}

impl Step {
    /// What tells it from every other step of its run.
    pub fn id(&self) -> String {
        format!("{}/{}", self.effect, self.attempt)
    }
}

/// What is to be done for a run that was advanced.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Orders {
    /// Steps to be made, side by side. One may have been ordered before.
    pub steps: Vec<Step>,
    /// When the run is to be woken.
    pub alarm: Option<Alarm>,
    /// The run that started this one, to be woken now that this one has ended.
    pub parent: Option<RunId>,
}

/// When a run is to be woken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Alarm {
    /// What tells it from every other alarm of the run: one that is set twice is one.
    pub key: String,
    /// In how many milliseconds.
    pub in_ms: u64,
}

impl Runs {
    /// Takes what happened to a run, and says what is to be done next. For one run, one call at a time.
    pub async fn advance(&self, run: RunId, news: News) -> Result<Orders, Unavailable> {
        Box::pin(self.0.advance(run, news)).await
    }

    /// Makes a step, and returns when what came of it is kept, or when it was lost: [`News::Step`] tells the run.
    pub async fn perform(&self, step: &Step) -> Result<(), Unavailable> {
        let conduct = self.0.conduct(step.run).map_err(no_conductor)?;
        let (shared, step, key) = (Arc::clone(&self.0), step.clone(), (step.run, step.id()));
        // In a task of its own: that the conductor is gone is no reason to break off a write.
        let begin = |ended: oneshot::Sender<Result<(), Arc<Unavailable>>>| {
            let made_here = key.clone();
            self.0.drivers.spawn(async move {
                let made = Box::pin(shared.make(&step)).await.map_err(Arc::new);
                if let Some(conduct) = &shared.conduct {
                    conduct.under_way.ended(&made_here);
                }
                // Whoever asked may have gone.
                let _ = ended.send(made);
            });
        };
        let making = conduct.under_way.join(key.clone(), begin);
        let made = making.clone().await;
        // Where the task ended in a panic, nobody else does.
        conduct.under_way.forget(&key, &making);
        made.map_err(|error| Unavailable::new("a step could not be made")(Box::new(error)))
    }
}

impl Inner {
    async fn advance(self: &Arc<Self>, run: RunId, news: News) -> Result<Orders, Unavailable> {
        let conduct = self.conduct(run).map_err(no_conductor)?;
        let place = conduct.stages.of(run);
        let mut place = place.lock().await;
        for _ in 0..OVERTAKEN {
            let stage = match self.on_stage(&mut place, run).await? {
                Found::Stage(stage) => stage,
                Found::Ended(row) => return self.after_the_end(&row, &news).await,
                Found::Nothing => return Ok(Orders::default()),
            };
            let failure = match stage.take(self, &news).await {
                Ok(orders) => {
                    if stage.driver.run.ending().is_some() {
                        *place = None;
                        conduct.stages.forget(run);
                    }
                    return Ok(orders);
                }
                Err(failure) => failure,
            };
            // What it was told is not in the journal: the next one reads what is.
            *place = None;
            conduct.writer.forget(run).await?;
            if let Failure::Unavailable(error) = failure {
                return Err(error);
            }
        }
        Err(Unavailable::new("the run goes on elsewhere")("its journal has changed again and again".into()))
    }

    /// What is left to do for a run that has ended: whoever asked before may not have got the answer.
    async fn after_the_end(self: &Arc<Self>, row: &Run, news: &News) -> Result<Orders, Unavailable> {
        if let News::Said(id) = news {
            let ended = kept_answer(Err(SignalError::Ended(row.state.status.to_string())));
            self.store.end_step(row.id, id, &ended.map_err(unanswered)?).await?;
        }
        Ok(Orders { parent: self.conducted_parent(row.parent).await?, ..Orders::default() })
    }

    async fn conducted_parent(&self, parent: Option<RunId>) -> Result<Option<RunId>, Unavailable> {
        let Some(parent) = parent else { return Ok(None) };
        let conducted = self.store.run_anywhere(parent).await?.is_some_and(|(_, row)| row.conducted);
        Ok(conducted.then_some(parent))
    }

    /// The run as its journal has it now: from memory, unless another server has gone on with it.
    async fn on_stage<'a>(
        self: &Arc<Self>,
        place: &'a mut Option<Stage>,
        run: RunId,
    ) -> Result<Found<'a>, Unavailable> {
        let Some((realm, row)) = self.store.run_anywhere(run).await? else {
            tracing::warn!(%run, "the conductor asks for a run that this store does not have");
            return Ok(Found::Nothing);
        };
        if row.state.status.is_end() {
            *place = None;
            return Ok(Found::Ended(Box::new(row)));
        }
        if !row.conducted {
            return Ok(Found::Nothing);
        }
        let known = place.take().filter(|stage| stage.seen == row.state.mark);
        let stage = match known {
            Some(stage) => stage,
            None => self.stage(Arc::new(realm), &row).await?,
        };
        Ok(Found::Stage(place.insert(stage)))
    }

    async fn stage(self: &Arc<Self>, home: Arc<RealmScope>, row: &Run) -> Result<Stage, Unavailable> {
        let conduct = self.conduct(row.id).map_err(no_conductor)?;
        let live = self.hub.get_or_insert(row.id);
        let revived = self.revive(&live, &home).await?;
        let gone = || Unavailable::new("the run has no journal")("no entries".into());
        let Revived { began, run, journal, crew, .. } = revived.ok_or_else(gone)?;
        let (writer, last) = (conduct.writer.clone(), Some(journal.mark()));
        let journal = RunJournal::new(writer, Arc::clone(&live), home.realm, last, Pace::Together);
        let outbox =
            Arc::new(Outbox { crew, orders: Mutex::default(), ready: Mutex::default(), over: Default::default() });
        let (_, inbox) = mpsc::unbounded_channel();
        let driver = Driver {
            host: self.host(),
            live,
            inbox,
            began,
            home,
            run,
            journal,
            crew: Arc::clone(&outbox) as _,
            work: Work::default(),
        };
        Ok(Stage { driver, outbox, cold: true, seen: row.state.mark })
    }

    async fn make(self: &Arc<Self>, step: &Step) -> Result<(), Unavailable> {
        let Some(Part { outbox, live, effect, intended }) = self.part_of(step).await? else { return Ok(()) };
        let write = match &effect {
            Effect::RunCall(call) if call.facts.effects == SideEffects::Writes => Some(call),
            _ => None,
        };
        if let Some(call) = write {
            // Others wait for what this server makes while it has a lease.
            self.lease.cover(outbox.crew.time_limit(call) + BEGUN_WITHIN).await?;
        }
        let id = step.id();
        loop {
            match (self.store.begin_step(step.run, &id, self.lease.server(), self.clock.now()).await?, write) {
                (StepState::Done | StepState::Pointless, _) | (StepState::Lost, Some(_)) => return Ok(()),
                (StepState::UnderWay, Some(_)) => tokio::time::sleep(GLANCE).await,
                (StepState::Fresh, _) | (StepState::Lost | StepState::UnderWay, None) => break,
            }
        }
        if write.is_some() && is_late(intended, self.clock.now()) {
            // Whoever asks whether it was made counts from its intent; so it is not begun, and intended anew.
            return Ok(self.store.unsay(step.run, &id).await?);
        }
        let crew = Arc::clone(&outbox.crew);
        let performance = match effect {
            Effect::RunCall(call) => {
                let ready = outbox.take_ready(&call.call_id);
                Some(crew.call(call, ready, step.allowance))
            }
            other => performance(crew, &live, other),
        };
        let Some(performance) = performance else { return Ok(()) };
        let done = tokio::select! {
            done = performance => done,
            () = self.unwanted(step.run, &outbox) => return Ok(()),
            () = self.stop.cancelled() => {
                outbox.crew.cancel();
                return Err(Unavailable::new("the server is stopping")("a step was broken off".into()));
            }
        };
        let Some(what) = done.happened() else { return Ok(()) };
        let kept = serde_json::to_string(&what.flat());
        let kept = kept.map_err(|error| Unavailable::new("an outcome cannot be kept")(Box::new(error)))?;
        Ok(self.store.end_step(step.run, &id, &kept).await?)
    }

    /// What a step is about, if its run still waits for it.
    async fn part_of(self: &Arc<Self>, step: &Step) -> Result<Option<Part>, Unavailable> {
        let place = self.conduct(step.run).map_err(no_conductor)?.stages.of(step.run);
        let mut place = place.lock().await;
        let Found::Stage(stage) = self.on_stage(&mut place, step.run).await? else { return Ok(None) };
        let effect = stage.wanted(step);
        let (outbox, live) = (Arc::clone(&stage.outbox), Arc::clone(&stage.driver.live));
        let intended = match &step.effect {
            EffectId::Call(call) => stage.driver.run.intended_at(call),
            _ => None,
        };
        Ok(effect.map(|effect| Part { outbox, live, effect, intended }))
    }

    /// Waits until nobody wants what comes of a step: its run has ended, here or on another server.
    async fn unwanted(&self, run: RunId, outbox: &Outbox) {
        loop {
            tokio::select! {
                () = outbox.over.cancelled() => return,
                () = tokio::time::sleep(GLANCE) => {}
            }
            match self.store.run_anywhere(run).await {
                Ok(Some((_, row))) if !row.state.status.is_end() => {}
                Ok(_) => return outbox.cancel(),
                Err(error) => {
                    tracing::debug!(%run, error = &error as &dyn std::error::Error, "cannot see whether a run has ended");
                }
            }
        }
    }
}

/// What is found under the id of a run.
enum Found<'a> {
    Stage(&'a mut Stage),
    Ended(Box<Run>),
    /// No run, or not one of the conductor's.
    Nothing,
}

/// What it takes to make a step.
struct Part {
    outbox: Arc<Outbox>,
    live: Arc<LiveRun>,
    effect: Effect,
    /// When a write was intended.
    intended: Option<Timestamp>,
}

/// Why a run did not take what happened.
enum Failure {
    /// Its journal has entries that were not known here.
    Overtaken,
    Unavailable(Unavailable),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Conflict(_) => Failure::Overtaken,
            other => Failure::Unavailable(other.into()),
        }
    }
}

impl From<toolwright_store::Unavailable> for Failure {
    fn from(error: toolwright_store::Unavailable) -> Self {
        Failure::Unavailable(error.into())
    }
}

/// A run in memory, and its driver.
pub(super) struct Stage {
    driver: Driver,
    outbox: Arc<Outbox>,
    /// Whether what is outstanding was handed out by others than this driver.
    cold: bool,
    /// The mark of the row that this is the state of.
    seen: Mark,
}

impl Stage {
    async fn take(&mut self, shared: &Arc<Inner>, news: &News) -> Result<Orders, Failure> {
        let taken = match news {
            News::Wake => {
                self.driver.hear(Signal { wish: Wish::Wake, answer: oneshot::channel().0 }).await?;
                false
            }
            News::Step(step) => self.learn(shared, step).await?,
            News::Said(id) => self.listen(shared, id).await?,
        };
        // Whoever tells what is known may not have got the answer the first time.
        let everything = self.go_on().await? || !taken;
        if self.driver.run.ending().is_some() {
            return self.end(shared).await;
        }
        if everything {
            self.outbox.orders().clear();
            let outstanding = self.driver.run.pending().into_iter().filter(is_step).collect();
            self.driver.begin(outstanding, Intents::Told).await?;
            self.pass_on().await?;
        }
        if self.driver.journal.has_news() {
            self.driver.settle().await?;
            self.seen = self.driver.journal.mark();
        }
        let orders = std::mem::take(&mut *self.outbox.orders());
        let run = &self.driver.run;
        let steps = orders.into_iter().map(|Order { effect, name, allowance }| {
            let attempt = run.attempt(&effect);
            Step { run: run.id(), effect, attempt, name, allowance }
        });
        Ok(Orders { steps: steps.collect(), alarm: alarm(run, shared.clock.now(), news), parent: None })
    }

    /// Lets the driver begin what its machine asks for; gives whether others have handed out something before.
    async fn go_on(&mut self) -> Result<bool, WriteError> {
        let cold = std::mem::take(&mut self.cold);
        let mut fresh = self.driver.run.next();
        if cold {
            // What others have handed out is given once more as it is, when all this is done.
            fresh.retain(|effect| !is_step(effect) || is_unintended(effect));
        }
        loop {
            self.driver.begin(fresh, Intents::Tell).await?;
            if !self.pass_on().await? {
                return Ok(cold);
            }
            fresh = self.driver.run.next();
        }
    }

    /// Lets the outbox have what the driver has begun; false if that was nothing.
    async fn pass_on(&mut self) -> Result<bool, WriteError> {
        let mut any = false;
        while let Some(done) = self.driver.work.effects.next().await {
            any = true;
            self.driver.done(done?).await?;
        }
        Ok(any)
    }

    async fn end(&mut self, shared: &Arc<Inner>) -> Result<Orders, Failure> {
        self.driver.journal.note(Change::ClearSteps);
        self.driver.finish().await?;
        let began = Arc::clone(&self.driver.began);
        let parent = shared.conducted_parent(began.parent).await.map_err(Failure::Unavailable)?;
        if parent.is_none() {
            shared.host().tell_parent(&began, &self.driver.home);
        }
        Ok(Orders { parent, ..Orders::default() })
    }

    /// The effect that a step is about, if the run waits for it, and for this attempt at it.
    fn wanted(&self, step: &Step) -> Option<Effect> {
        let run = &self.driver.run;
        run.pending_effect(&step.effect).filter(|_| run.attempt(&step.effect) == step.attempt)
    }

    /// Takes what came of a step; false if the run does not wait for it, or no more.
    async fn learn(&mut self, shared: &Inner, step: &Step) -> Result<bool, Failure> {
        let Some(effect) = self.wanted(step) else { return Ok(false) };
        let Some(made) = shared.store.said(step.run, &step.id()).await? else {
            // It was not begun: too long after its intent.
            self.driver.begin(vec![effect], Intents::Tell).await?;
            return Ok(true);
        };
        match (made.outcome, &step.effect) {
            (Some(kept), _) => {
                let unreadable = |error| Unavailable::new("what came of a step cannot be read")(Box::new(error));
                let what = serde_json::from_str(&kept).map_err(unreadable).map_err(Failure::Unavailable)?;
                self.driver.done(Done::Happened(what)).await?;
                Ok(true)
            }
            (None, EffectId::Call(call_id)) => {
                tracing::warn!(run = %step.run, call = %call_id, "whoever made a call is gone");
                let lost = Happened::TakenUp { call_id: Some(call_id.clone()) };
                Ok(self.driver.tell(lost, Safety::Soon).await?.is_ok())
            }
            (None, _) => Ok(false),
        }
    }

    /// Hears what was said; false if it was heard before.
    async fn listen(&mut self, shared: &Inner, id: &str) -> Result<bool, Failure> {
        let said = shared.store.said(self.driver.live.id, id).await?;
        let Some(body) = said.filter(|said| said.outcome.is_none()).and_then(|said| said.body) else {
            return Ok(false);
        };
        let unreadable = |error| Unavailable::new("what was said to a run cannot be read")(Box::new(error));
        let wish = serde_json::from_str(&body).map_err(unreadable).map_err(Failure::Unavailable)?;
        let (answer, mut answered) = oneshot::channel();
        self.driver.hear(Signal { wish, answer }).await?;
        let answer = answered.try_recv().unwrap_or(Ok(()));
        let answer = kept_answer(answer).map_err(unanswered).map_err(Failure::Unavailable)?;
        self.driver.journal.note(Change::Answer { id: id.to_owned(), answer });
        Ok(true)
    }
}

/// Whether an effect is a step of its own. What the machine needs to decide is found out at once, and not handed out.
fn is_step(effect: &Effect) -> bool {
    matches!(effect, Effect::CallModel { .. } | Effect::RunCall(_) | Effect::VerifyCall { .. })
}

/// Whether an effect is a write whose intent is not in the journal: then it was handed to nobody.
fn is_unintended(effect: &Effect) -> bool {
    matches!(effect, Effect::RunCall(call) if call.facts.effects == SideEffects::Writes && !call.again)
}

fn alarm(run: &AgentRun, now: Timestamp, news: &News) -> Option<Alarm> {
    let due = wake_at(run, now)?.as_micros();
    let own = run.wake_at().is_some_and(|own| own.as_micros() <= due);
    let (at, key) = match news {
        // To look after others, once for all who ask within a minute.
        _ if !own => {
            let at = due - due.rem_euclid(LOOK_AFTER_US) + LOOK_AFTER_US;
            (at, at.to_string())
        }
        // The one that was set may have gone off too early, by another clock.
        News::Wake => (due, format!("{due}/{}", now.as_micros())),
        News::Step(_) | News::Said(_) => (due, due.to_string()),
    };
    // Never too early: the run would find that its time has not come.
    let in_ms = u64::try_from(at.saturating_sub(now.as_micros())).unwrap_or(0).div_ceil(1000);
    Some(Alarm { key, in_ms })
}

/// Whether a write that was intended then is not to be begun any more.
fn is_late(intended: Option<Timestamp>, now: Timestamp) -> bool {
    let waited = intended.map_or(0, |intended| now.as_micros().saturating_sub(intended.as_micros()));
    u128::try_from(waited).is_ok_and(|waited| waited > BEGUN_WITHIN.as_micros())
}

fn no_conductor(error: SignalError) -> Unavailable {
    Unavailable::new("this server has no conductor")(Box::new(error))
}

fn unanswered(error: SignalError) -> Unavailable {
    Unavailable::new("a run cannot answer")(Box::new(error))
}

/// The driver's performer, where others perform: it notes what is to be done. What the machine needs to decide is found
/// out at once.
struct Outbox {
    crew: Arc<dyn Performer>,
    orders: Mutex<Vec<Order>>,
    /// Calls that were prepared here, and may be made here as they are.
    ready: Mutex<HashMap<CallId, ReadyCall>>,
    /// Cancelled when the run has ended.
    over: CancellationToken,
}

struct Order {
    effect: EffectId,
    name: String,
    allowance: Option<Allowance>,
}

impl Outbox {
    fn note(&self, effect: EffectId, name: String, allowance: Option<Allowance>) -> BoxFuture<'static, Done> {
        self.orders().push(Order { effect, name, allowance });
        std::future::ready(Done::PassedOn).boxed()
    }

    fn orders(&self) -> MutexGuard<'_, Vec<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_ready(&self, call: &CallId) -> Option<ReadyCall> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }
}

impl Performer for Outbox {
    fn ask(self: Arc<Self>, _: Arc<LiveRun>, step: u32, _: Box<ModelRequest>) -> BoxFuture<'static, Done> {
        self.note(EffectId::Model(step), format!("model {step}"), None)
    }

    fn prepare_all(self: Arc<Self>, step: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, Done> {
        Arc::clone(&self.crew).prepare_all(step, calls)
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, Done> {
        Arc::clone(&self.crew).prepare_again(call_id, call)
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, Done> {
        let mut known = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(ready.map(|ready| (call.call_id.clone(), ready)));
        drop(known);
        let name = format!("call {} {}", call.facts.name, call.call_id);
        self.note(EffectId::Call(call.call_id.clone()), name, allowance)
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, _: Timestamp) -> BoxFuture<'static, Done> {
        let name = format!("verify {} {}", call.facts.name, call.call_id);
        self.note(EffectId::Verify(call.call_id.clone()), name, None)
    }

    fn time_limit(&self, call: &CallToRun) -> Duration {
        self.crew.time_limit(call)
    }

    fn starts_run(&self, call: &CallToRun) -> bool {
        self.crew.starts_run(call)
    }

    fn cancel(&self) {
        self.over.cancel();
        self.crew.cancel();
    }
}

/// The conducted runs that are in memory. One is gone when nothing has happened to it for a while.
pub(crate) struct Stages(moka::sync::Cache<RunId, Arc<tokio::sync::Mutex<Option<Stage>>>>);

impl Default for Stages {
    fn default() -> Self {
        Self(moka::sync::Cache::builder().max_capacity(MOST_STAGES).time_to_idle(IDLE).build())
    }
}

impl Stages {
    fn of(&self, run: RunId) -> Arc<tokio::sync::Mutex<Option<Stage>>> {
        self.0.get_with(run, Arc::default)
    }

    fn forget(&self, run: RunId) {
        self.0.invalidate(&run);
    }
}

type StepKey = (RunId, String);
type Making = Shared<BoxFuture<'static, Result<(), Arc<Unavailable>>>>;

/// The steps that this server is making. Whoever asks for one of them waits for it.
#[derive(Default)]
pub(crate) struct UnderWay(Mutex<HashMap<StepKey, Making>>);

impl UnderWay {
    /// The step under way, which `begin` begins if it is not.
    fn join(&self, key: StepKey, begin: impl FnOnce(oneshot::Sender<Result<(), Arc<Unavailable>>>)) -> Making {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(making) = known.get(&key) {
            return making.clone();
        }
        let (ended, ends) = oneshot::channel();
        let lost = || Arc::new(Unavailable::new("a step was lost")("its task ended".into()));
        let making: Making = ends.map(move |made| made.unwrap_or_else(|_| Err(lost()))).boxed().shared();
        known.insert(key, making.clone());
        drop(known);
        begin(ended);
        making
    }

    fn ended(&self, key: &StepKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Forgets this one, and not another that has begun since.
    fn forget(&self, key: &StepKey, making: &Making) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(key).is_some_and(|known| known.ptr_eq(making)) {
            known.remove(key);
        }
    }
}
