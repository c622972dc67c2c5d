//! Gives a run a driver: when the run starts, and when a command arrives for a run that no server drives.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use toolwright_catalog::Unavailable;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, EventKind};
use toolwright_machine::journal::{Entry, EntryBody, RunStart};
use toolwright_store::{
    EntryNotes, Fork, JournalPosition, NewRun, RunChange, RunKind, RunState, TrialAssignment, WriteError, Writer,
};
use toolwright_types::{Owner, PrincipalId, RealmScope, RunStatus, Trial};

use super::command::{CommandError, CommandRequest, RunCommand};
use super::core::{RunCore, Work, interrupted};
use super::driver::Driver;
use super::journal::{Durability, FlushPolicy, RunJournal, labels_of, notes_of, state_of};
use super::ports::{DriverHost, EffectExecutor, LoadedRun};
use super::registry::{RunHandle, RunMeta, RunSnapshot};

/// A run that is about to start.
pub struct RunLaunch {
    /// The first entry of the run's journal.
    pub start: RunStart,
    /// Executes the effects of the run.
    pub executor: Arc<dyn EffectExecutor>,
    /// The realm that stores the run. The run may act in another realm.
    pub home: Arc<RealmScope>,
    /// The principal that started the run.
    pub owner: Owner,
    /// The principal that the run acts as.
    pub principal: PrincipalId,
    /// Changes that are committed together with the first entry.
    pub changes: Vec<RunChange>,
    /// For a fork: the entries that the fork shares with the original run. Empty for other runs.
    pub prefix: Vec<Entry>,
}

/// Stores the first entry of a run and spawns the driver. In a conversation, the entry is committed before the driver
/// starts, because the store refuses a second unfinished run in the same conversation.
pub(super) async fn start_run(host: &Arc<dyn DriverHost>, launch: RunLaunch) -> Result<Arc<RunHandle>, WriteError> {
    let (id, home, executor) = (launch.start.spec.run, Arc::clone(&launch.home), Arc::clone(&launch.executor));
    let handle = host.registry().get_or_insert(id);
    let first = (!launch.prefix.is_empty()).then(EventKind::recovered);
    let policy = FlushPolicy::of(launch.start.durable);
    let start = Arc::new(launch.start.clone());
    let inbox =
        handle.attach_driver(RunMeta { start: Arc::clone(&start), home: Arc::clone(&home), owner: launch.owner });
    let (machine, journal) = write_start(host, &handle, launch, host.writer(), policy).await?;
    let (driver_host, driver_handle) = (Arc::clone(host), Arc::clone(&handle));
    let core = RunCore {
        host: driver_host,
        handle: driver_handle,
        start,
        home,
        machine,
        journal,
        executor,
        work: Work::default(),
    };
    host.spawn(id, Box::pin(Driver { core, inbox, first }.run()));
    Ok(handle)
}

/// Stores the start of a run that an external scheduler drives. The row names the scheduler as the driver.
pub(super) async fn start_scheduled_run(
    host: &Arc<dyn DriverHost>,
    mut launch: RunLaunch,
    writer: &Writer,
) -> Result<Arc<RunHandle>, WriteError> {
    let handle = host.registry().get_or_insert(launch.start.spec.run);
    let start = Arc::new(launch.start.clone());
    handle.set_history(RunMeta { start, home: Arc::clone(&launch.home), owner: launch.owner }, Vec::new());
    if let Some(last) = launch.prefix.last().map(|last| last.n) {
        let body = EntryBody::Event(EventKind::recovered());
        launch.prefix.push(Entry { n: last + 1, at: host.clock().now(), body });
    }
    write_start(host, &handle, launch, writer, FlushPolicy::Batched).await?;
    Ok(handle)
}

/// Stores the start of a run. Returns the machine and the journal of the run.
async fn write_start(
    host: &Arc<dyn DriverHost>,
    handle: &Arc<RunHandle>,
    launch: RunLaunch,
    writer: &Writer,
    policy: FlushPolicy,
) -> Result<(AgentRun, RunJournal), WriteError> {
    let RunLaunch { start, home, owner, principal, mut changes, mut prefix, .. } = launch;
    let now = host.clock().now();
    // A fork begins with the first entries of the original run, so its journal has the start time of the original run.
    let at = prefix.first().map_or(now, |first| first.at);
    let mut machine = AgentRun::new(start.spec.clone(), at);
    let durability = match start.conversation.is_some() && prefix.is_empty() {
        true => Durability::Committed,
        false => Durability::Deferred,
    };
    let row = NewRun {
        id: handle.id,
        kind: kind_of(&start),
        subject: start.subject.clone(),
        subject_hash: start.definition_hash.clone(),
        parent: start.parent,
        conversation: start.conversation,
        owner,
        principal,
        durable: start.durable,
        started_at: now,
        fork: start.forked_from.map(|(run, n)| Fork { run, n }),
        trial: start.trial.as_ref().map(in_trial),
        shared_parts: Vec::new(),
        labels: labels_of(&start),
    };
    if let Some(parent) = start.parent.and_then(|parent| host.registry().get(parent)) {
        parent.add_child(handle.id);
    }
    let mut journal = RunJournal::new(writer.clone(), Arc::clone(handle), home.realm, None, policy);
    // The row of the run refers to its conversation, so a new conversation is inserted first.
    changes.sort_by_key(|change| !matches!(change, RunChange::OpenConversation { .. }));
    let opened = changes.iter().filter(|change| matches!(change, RunChange::OpenConversation { .. })).count();
    let mut state = state_of(&machine, at, JournalPosition::default(), true);
    if machine.ending().is_some() {
        // A workflow without calls ends at once. Its driver stores the end, after the first entry.
        state = RunState { status: RunStatus::Running, reason: None, message: None, ended_at: None, ..state };
    }
    let state = Box::new(state);
    changes.insert(opened, RunChange::Begin { realm: home.realm, run: Box::new(row), state });
    let body = EntryBody::Started(Box::new(start));
    let mut written = match prefix.first_mut() {
        None => journal.append_with(at, body, EntryNotes::default(), durability, changes).await.map(drop),
        Some(first) => {
            *first = Entry { n: 1, at, body };
            let notes = replay_prefix(&mut machine, &prefix);
            journal.append_all(prefix.into_iter().zip(notes), changes).await
        }
    };
    if written.is_ok() && policy == FlushPolicy::Batched {
        written = journal.commit(Vec::new()).await;
    }
    if let Err(error) = written {
        handle.discard();
        let _ = writer.clear_failure(handle.id).await;
        // The caller gets an error, but the start may have been committed. So the run is cancelled later, if it exists.
        let message = Some("the start of the run could not be confirmed".to_owned());
        host.recover_later(handle.id, &home, RunCommand::Cancel { message });
        return Err(error);
    }
    journal.publish();
    Ok((machine, journal))
}

fn kind_of(start: &RunStart) -> RunKind {
    match (start.direct, &start.agentic, &start.composite) {
        _ if start.spec.workflow.is_some() => RunKind::Workflow,
        (true, _, _) => RunKind::Tool,
        (false, Some(_), _) => RunKind::AgenticTool,
        (false, None, Some(_)) => RunKind::CompositeTool,
        (false, None, None) => RunKind::Agent,
    }
}

/// The role of a run in a trial, as it is stored in the row of the run.
fn in_trial(trial: &Trial) -> TrialAssignment {
    let of = trial.trial.map(String::from).or_else(|| trial.of.map(String::from));
    TrialAssignment { kind: trial.kind, arm: trial.arm.clone(), of }
}

/// Applies the entries that a fork shares with the original run. Returns the notes that are stored with these entries.
fn replay_prefix(machine: &mut AgentRun, prefix: &[Entry]) -> Vec<EntryNotes> {
    let mut notes = vec![EntryNotes::default(); prefix.len()];
    for (entry, notes) in prefix.iter().zip(&mut notes) {
        if let EntryBody::Event(event) = &entry.body {
            *notes = notes_of(machine, event);
            machine.mark_issued();
            // This cannot fail: the fork was checked before, and the machine accepted these events.
            let _ = machine.apply(Event { at: entry.at, kind: event.clone() });
        }
    }
    machine.reissue_effects();
    notes
}

/// Sends a command to a run and waits for the reply. If the run has no driver in this process, [`recover`] is spawned
/// with the command in its inbox. The future is boxed because it is recursive: a run that ends sends commands to its
/// children.
pub(super) fn send(
    host: &Arc<dyn DriverHost>,
    handle: &Arc<RunHandle>,
    home: &Arc<RealmScope>,
    command: RunCommand,
) -> BoxFuture<'static, Result<(), CommandError>> {
    let (reply, replied) = oneshot::channel();
    if let Some(inbox) = handle.send(CommandRequest { command, reply }) {
        host.spawn(handle.id, Box::pin(recover(Arc::clone(host), Arc::clone(handle), Arc::clone(home), inbox)));
    }
    let lost = || Unavailable::new("the run could not be recovered", "its driver ended");
    Box::pin(async move { replied.await.unwrap_or_else(|_| Err(lost().into())) })
}

/// Recovers a run that no server drives: claims the run, loads its journal and drives it.
async fn recover(
    host: Arc<dyn DriverHost>,
    handle: Arc<RunHandle>,
    home: Arc<RealmScope>,
    mut inbox: mpsc::UnboundedReceiver<CommandRequest>,
) {
    match acquire(&host, &handle, &home).await {
        // The run has ended and its row says so. No driver is needed.
        Ok(LoadedRun { start, run, end_persisted: true, .. }) => {
            let snapshot = Arc::new(RunSnapshot { start, run });
            while let Some(request) = handle.release(&mut inbox, Some(Arc::clone(&snapshot))) {
                let _ = request.reply.send(Err(CommandError::Ended(snapshot.run.status().to_string())));
            }
        }
        Ok(LoadedRun { start, run: machine, journal, executor, end_persisted: false }) => {
            // A run that has neither ended nor been suspended had a driver, which has stopped.
            let abandoned = machine.ending().is_none() && !machine.suspended();
            let first = abandoned.then(|| if start.durable { EventKind::recovered() } else { interrupted() });
            let core = RunCore { host, handle, start, home, machine, journal, executor, work: Work::default() };
            Driver { core, inbox, first }.run().await;
        }
        Err(error) => {
            if !matches!(error, CommandError::DrivenElsewhere(_) | CommandError::UnknownRun(_)) {
                tracing::error!(error = &error as &dyn std::error::Error, "the run cannot be recovered");
                // The row may already name this server as the driver. Then no other server recovers the run, so this
                // server tries again later.
                host.recover_later(handle.id, &home, RunCommand::Wake);
            }
            while let Some(request) = handle.release(&mut inbox, None) {
                let error = match &error {
                    CommandError::DrivenElsewhere(run) => CommandError::DrivenElsewhere(run.clone()),
                    CommandError::UnknownRun(run) => CommandError::UnknownRun(run.clone()),
                    _ => Unavailable::new("the run cannot be recovered now", "see the log").into(),
                };
                let _ = request.reply.send(Err(error));
            }
        }
    }
}

/// Makes this server the driver of the run and loads the run.
async fn acquire(
    host: &Arc<dyn DriverHost>,
    handle: &Arc<RunHandle>,
    home: &Arc<RealmScope>,
) -> Result<LoadedRun, CommandError> {
    // An earlier driver on this server may have left entries of the run in the writer's queue, even the start of the
    // run. After this call they are committed or discarded, so that the claim below sees the final state of the run.
    host.writer().clear_failure(handle.id).await.map_err(Unavailable::from)?;
    let taken = host.lease().claim_run(handle.id).await.map_err(Unavailable::from)?;
    let unknown = || CommandError::UnknownRun(handle.id.to_string());
    let loaded = host.load_run(handle, home).await?.ok_or_else(unknown)?;
    // A run that has ended cannot be claimed. It is returned anyway, so that the caller can report the end.
    match taken || loaded.run.ending().is_some() {
        true => Ok(loaded),
        false => Err(CommandError::DrivenElsewhere(handle.id.to_string())),
    }
}
