//! How a run gets a driver: it begins, or somebody has something to say to it while nobody drives it.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, Happened};
use toolwright_machine::journal::{Began, Entry, Recorded};
use toolwright_store::{Change, Fork, InTrial, Mark, NewRun, RunKind, WriteError, Writer};
use toolwright_types::{PrincipalId, RealmScope, Trial};

use super::driver::{Driver, Work, interrupted};
use super::journal::{Pace, RunJournal, Safety, state_of};
use super::live::{Birth, LiveRun, Snapshot};
use super::load::Revived;
use super::ports::{Host, Performer};
use super::signal::{Signal, SignalError, Wish};
use crate::Unavailable;

/// What a run begins with.
pub(crate) struct NewRunPlan {
    pub began: Began,
    pub crew: Arc<dyn Performer>,
    /// The realm that keeps the run; it may act in another.
    pub home: Arc<RealmScope>,
    pub owner: PrincipalId,
    pub principal: PrincipalId,
    /// What is written together with its first entry.
    pub changes: Vec<Change>,
    /// The entries that it begins with, if it shares the beginning of another.
    pub prefix: Vec<Entry>,
}

/// Writes the beginning of a run, and drives it from then on. A run of a conversation is written at once: a second one in
/// the same conversation is refused by the store.
pub(super) async fn begin(host: &Arc<dyn Host>, plan: NewRunPlan) -> Result<Arc<LiveRun>, WriteError> {
    let (id, home, crew) = (plan.began.spec.run, Arc::clone(&plan.home), Arc::clone(&plan.crew));
    let live = host.hub().get_or_insert(id);
    let first = (!plan.prefix.is_empty()).then(Happened::taken_up);
    let pace = Pace::of(plan.began.durable);
    let began = Arc::new(plan.began.clone());
    let inbox = live.begin(Birth { began: Arc::clone(&began), home: Arc::clone(&home), owner: plan.owner });
    let (run, journal) = write(host, &live, plan, host.writer(), pace).await?;
    let work = Work::beginning_with(first);
    let driver =
        Driver { host: Arc::clone(host), live: Arc::clone(&live), inbox, began, home, run, journal, crew, work };
    host.spawn(id, Box::pin(driver.drive()));
    Ok(live)
}

/// Writes the beginning of a run that a conductor drives, in the conductor's name.
pub(super) async fn begin_for_conductor(
    host: &Arc<dyn Host>,
    mut plan: NewRunPlan,
    writer: &Writer,
) -> Result<Arc<LiveRun>, WriteError> {
    let live = host.hub().get_or_insert(plan.began.spec.run);
    let began = Arc::new(plan.began.clone());
    live.recall(Birth { began, home: Arc::clone(&plan.home), owner: plan.owner }, Vec::new());
    if let Some(last) = plan.prefix.last().map(|last| last.n) {
        let what = Recorded::Happened(Happened::taken_up());
        plan.prefix.push(Entry { n: last + 1, at: host.clock().now(), what });
    }
    write(host, &live, plan, writer, Pace::Together).await?;
    Ok(live)
}

/// Writes the beginning of a run, and gives its machine and its journal.
async fn write(
    host: &Arc<dyn Host>,
    live: &Arc<LiveRun>,
    plan: NewRunPlan,
    writer: &Writer,
    pace: Pace,
) -> Result<(AgentRun, RunJournal), WriteError> {
    let NewRunPlan { began, home, owner, principal, mut changes, mut prefix, .. } = plan;
    let now = host.clock().now();
    // One that shares its beginning began when that did.
    let at = prefix.first().map_or(now, |first| first.at);
    let mut run = AgentRun::new(began.spec.clone(), at);
    let safety = if began.conversation.is_some() && prefix.is_empty() { Safety::Now } else { Safety::Soon };
    let row = NewRun {
        id: live.id,
        kind: if began.direct { RunKind::Tool } else { RunKind::Agent },
        subject: began.agent.clone(),
        subject_hash: began.definition_hash.clone(),
        parent: began.parent,
        conversation: began.conversation,
        owner,
        principal,
        durable: began.durable,
        started_at: now,
        fork: began.forked_from.map(|(run, n)| Fork { run, n }),
        trial: began.trial.as_ref().map(in_trial),
        parts: Vec::new(),
    };
    if let Some(parent) = began.parent.and_then(|parent| host.hub().get(parent)) {
        parent.adopt(live.id);
    }
    let mut journal = RunJournal::new(writer.clone(), Arc::clone(live), home.realm, None, pace);
    // A conversation that begins with the run must be there first.
    changes.sort_by_key(|change| !matches!(change, Change::OpenConversation { .. }));
    let opened = changes.iter().filter(|change| matches!(change, Change::OpenConversation { .. })).count();
    let state = Box::new(state_of(&run, at, Mark::default(), true));
    changes.insert(opened, Change::Begin { realm: home.realm, run: Box::new(row), state });
    let recorded = Recorded::Began(Box::new(began));
    let mut written = match prefix.first_mut() {
        None => journal.append_with(at, recorded, safety, changes).await.map(drop),
        Some(first) => {
            *first = Entry { n: 1, at, what: recorded };
            relive(&mut run, &prefix);
            journal.append_all(prefix.into_iter(), changes).await
        }
    };
    if written.is_ok() && pace == Pace::Together {
        written = journal.settle(Vec::new()).await;
    }
    if let Err(error) = written {
        live.abandon();
        let _ = writer.forget(live.id).await;
        // It may be written all the same, and whoever wanted it is told that it did not begin.
        let message = Some("its beginning could not be confirmed".to_owned());
        host.lost(live.id, &home, Wish::Cancel { message });
        return Err(error);
    }
    journal.reveal();
    Ok((run, journal))
}

/// What lists show of a run's part in a trial.
fn in_trial(trial: &Trial) -> InTrial {
    let of = trial.trial.map(String::from).or_else(|| trial.of.map(String::from));
    InTrial { kind: trial.kind, arm: trial.arm.clone(), of }
}

/// Tells a run what happened before it began.
fn relive(run: &mut AgentRun, prefix: &[Entry]) {
    for entry in prefix {
        if let Recorded::Happened(what) = &entry.what {
            run.hand_out();
            // It was tried before: the run takes it.
            let _ = run.apply(Event { at: entry.at, what: what.clone() });
        }
    }
    run.reissue();
}

/// Sends a wish to whoever drives the run, or takes it up, and waits for the answer. Boxed, because a run that ends sends
/// to those it has started.
pub(super) fn send(
    host: &Arc<dyn Host>,
    live: &Arc<LiveRun>,
    home: &Arc<RealmScope>,
    wish: Wish,
) -> BoxFuture<'static, Result<(), SignalError>> {
    let (answer, answered) = oneshot::channel();
    if let Some(inbox) = live.send(Signal { wish, answer }) {
        host.spawn(live.id, Box::pin(resume(Arc::clone(host), Arc::clone(live), Arc::clone(home), inbox)));
    }
    let lost = || Unavailable::new("the run could not be taken up")("its driver ended".into());
    Box::pin(async move { answered.await.unwrap_or_else(|_| Err(lost().into())) })
}

/// Takes up a run that nobody drives, and drives it.
async fn resume(
    host: Arc<dyn Host>,
    live: Arc<LiveRun>,
    home: Arc<RealmScope>,
    mut inbox: mpsc::UnboundedReceiver<Signal>,
) {
    match take_up(&host, &live, &home).await {
        // Nothing is left to drive, and its end is not written twice.
        Ok(Revived { began, run, parted: true, .. }) => {
            let snapshot = Arc::new(Snapshot { began, run });
            while let Some(signal) = live.leave(&mut inbox, Some(Arc::clone(&snapshot))) {
                let _ = signal.answer.send(Err(SignalError::Ended(snapshot.run.status().to_string())));
            }
        }
        Ok(Revived { began, run, journal, crew, parted: false }) => {
            // One that was put down waits; any other was left in the middle by a driver that was lost.
            let left = run.ending().is_none() && !run.suspended();
            let first = left.then(|| if began.durable { Happened::taken_up() } else { interrupted() });
            let work = Work::beginning_with(first);
            Driver { host, live, inbox, began, home, run, journal, crew, work }.drive().await;
        }
        Err(error) => {
            if !matches!(error, SignalError::Elsewhere(_) | SignalError::UnknownRun(_)) {
                tracing::error!(error = &error as &dyn std::error::Error, "the run cannot be taken up");
                // It may be this server's by now, and then nobody else looks after it.
                host.lost(live.id, &home, Wish::Wake);
            }
            while let Some(signal) = live.leave(&mut inbox, None) {
                let failed = match &error {
                    SignalError::Elsewhere(run) => SignalError::Elsewhere(run.clone()),
                    SignalError::UnknownRun(run) => SignalError::UnknownRun(run.clone()),
                    _ => Unavailable::new("the run cannot be taken up now")("see the log".into()).into(),
                };
                let _ = signal.answer.send(Err(failed));
            }
        }
    }
}

/// The run, once no other server drives it, as its journal has it from then on.
async fn take_up(host: &Arc<dyn Host>, live: &Arc<LiveRun>, home: &Arc<RealmScope>) -> Result<Revived, SignalError> {
    // Also a fence: what an earlier driver here has left to the writer is written, or never will be, before anybody looks
    // whose the run is. It may be its beginning.
    host.writer().forget(live.id).await.map_err(Unavailable::from)?;
    let taken = host.lease().take_run(live.id).await.map_err(Unavailable::from)?;
    let unknown = || SignalError::UnknownRun(live.id.to_string());
    let revived = host.revive(live, home).await?.ok_or_else(unknown)?;
    // One that has ended is nobody's, and is told as what it is.
    if taken || revived.run.ending().is_some() { Ok(revived) } else { Err(SignalError::Elsewhere(live.id.to_string())) }
}
