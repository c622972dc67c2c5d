//! What a driver needs from outside: a server to be in, and somebody who performs effects.
//!
//! Ports, because a driver must be right under every failure of either, in every order: the simulation gives it others.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolwright_machine::agent::{CallToPrepare, CallToRun, Effect};
use toolwright_machine::journal::Began;
use toolwright_store::Writer;
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{CallId, Clock, ModelRequest, RealmScope, RunId, Timestamp};
use tracing::Instrument;

use super::Inner;
use super::effects::{Crew, Done};
use super::lease::Lease;
use super::live::{Hub, LiveRun};
use super::load::Revived;
use super::signal::Wish;
use crate::Unavailable;

/// The server that a run is driven in.
pub(super) trait Host: Send + Sync {
    fn clock(&self) -> &dyn Clock;

    /// How long this server may drive runs.
    fn lease(&self) -> &Lease;

    /// Writes what runs do.
    fn writer(&self) -> &Writer;

    /// The runs that are in memory.
    fn hub(&self) -> &Hub;

    /// Lets a run be driven beside everything else.
    fn spawn(&self, run: RunId, driving: BoxFuture<'static, ()>);

    /// Everything it takes to drive a run on, as it is stored; none if there is no such run.
    fn revive<'a>(
        &'a self,
        live: &'a Arc<LiveRun>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<Revived>, Unavailable>>;

    /// Set when the server stops.
    fn stop(&self) -> &CancellationToken;

    /// Lets whoever wakes runs know that one more waits.
    fn put_down(&self);

    /// Remembers what is to be said to a run that cannot be driven on now, because its journal could not be written.
    fn lost(&self, run: RunId, home: &Arc<RealmScope>, wish: Wish);

    /// Whether a run that another has started has ended.
    fn has_ended<'a>(&'a self, home: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool>;

    /// Ends the runs that a run has started and that nobody wants any more.
    fn cancel_children<'a>(
        self: Arc<Self>,
        live: &'a LiveRun,
        home: &'a Arc<RealmScope>,
        began: &'a Began,
    ) -> BoxFuture<'a, ()>;

    /// Tells the run that started this one that it has ended.
    fn tell_parent(self: Arc<Self>, began: &Began, home: &Arc<RealmScope>);
}

/// Whoever performs the effects of one run.
pub(crate) trait Performer: Send + Sync {
    /// Asks the model, and lets those who watch `live` hear what it says.
    fn ask(self: Arc<Self>, live: Arc<LiveRun>, step: u32, request: Box<ModelRequest>) -> BoxFuture<'static, Done>;

    fn prepare_all(self: Arc<Self>, step: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, Done>;

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, Done>;

    /// Makes a call. `ready` is the call as it was prepared, if that was done by this process; `allowance` is what a
    /// run that it starts may use.
    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, Done>;

    /// Asks whether a call was made that an earlier driver was about to make.
    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, Done>;

    /// How long a call may take at most.
    fn time_limit(&self, call: &CallToRun) -> Duration;

    /// Whether a call would start a run of its own.
    fn starts_run(&self, call: &CallToRun) -> bool;

    /// Lets whatever is under way know that nobody waits for it.
    fn cancel(&self);
}

/// An effect being performed; none for what people and clients do, and for the end. A call is not an effect like the
/// others: what it needs beside itself is its caller's to know.
pub(super) fn performance(
    crew: Arc<dyn Performer>,
    live: &Arc<LiveRun>,
    effect: Effect,
) -> Option<BoxFuture<'static, Done>> {
    match effect {
        Effect::CallModel { step, request } => Some(crew.ask(Arc::clone(live), step, request)),
        Effect::PrepareCalls { step, calls } => Some(crew.prepare_all(step, calls)),
        Effect::PrepareAgain { call_id, call } => Some(crew.prepare_again(call_id, call)),
        Effect::RunCall(call) => Some(crew.call(call, None, None)),
        Effect::VerifyCall { call, intended_at } => Some(crew.verify(call, intended_at)),
        Effect::AskApproval(_) | Effect::HandToClient(_) | Effect::Finish { .. } => None,
    }
}

impl Host for Inner {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn spawn(&self, run: RunId, driving: BoxFuture<'static, ()>) {
        self.drivers.spawn(driving.instrument(tracing::info_span!("run", %run)));
    }

    fn revive<'a>(
        &'a self,
        live: &'a Arc<LiveRun>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<Revived>, Unavailable>> {
        Box::pin(Inner::revive(self, live, home))
    }

    fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    fn put_down(&self) {
        self.put_down.notify_one();
    }

    fn lost(&self, run: RunId, home: &Arc<RealmScope>, wish: Wish) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(run, (Arc::clone(home), wish));
    }

    fn has_ended<'a>(&'a self, home: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            match self.load(home, run).await {
                Ok(loaded) => loaded.snapshot.run.ending().is_some(),
                Err(error) => {
                    tracing::warn!(%run, %error, "a run that another waits for cannot be read");
                    false
                }
            }
        })
    }

    fn cancel_children<'a>(
        self: Arc<Self>,
        live: &'a LiveRun,
        home: &'a Arc<RealmScope>,
        began: &'a Began,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move { Inner::cancel_children(&self, live, home, began).await })
    }

    fn tell_parent(self: Arc<Self>, began: &Began, home: &Arc<RealmScope>) {
        Inner::tell_parent(&self, began, home);
    }
}

impl Performer for Crew {
    fn ask(self: Arc<Self>, live: Arc<LiveRun>, step: u32, request: Box<ModelRequest>) -> BoxFuture<'static, Done> {
        Crew::ask(self, live, step, request).boxed()
    }

    fn prepare_all(self: Arc<Self>, step: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, Done> {
        Crew::prepare_all(self, step, calls).boxed()
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, Done> {
        Crew::prepare_again(self, call_id, call).boxed()
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, Done> {
        Crew::call(self, call, ready, allowance).boxed()
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, intended_at: Timestamp) -> BoxFuture<'static, Done> {
        Crew::verify(self, call, intended_at).boxed()
    }

    fn time_limit(&self, call: &CallToRun) -> Duration {
        Crew::time_limit(self, call)
    }

    fn starts_run(&self, call: &CallToRun) -> bool {
        Crew::starts_run(self, call)
    }

    fn cancel(&self) {
        self.cx.cancel.cancel();
    }
}
