//! Simulates the clients and operators: starts servers and runs, decides approvals, returns results, cancels runs, and
//! disconnects servers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use toolwright_machine::agent::{ClientResult, Decision, RunSpec};
use toolwright_machine::journal::RunStart;
use toolwright_machine::{Limits, Policy};
use toolwright_store::WaitKind;
use toolwright_types::{
    CallId, Message, ModelRequest, Owner, PrincipalId, ResponseFormat, RunId, RunStatus, UnknownOutcome,
};

use super::executor::{SimulatedExecutor, TOOLS};
use super::graphs;
use super::scheduler::Scheduler;
use super::server::{Lifetime, Server};
use super::world::{World, home};
use crate::command::{CommandError, RunCommand};
use crate::lifecycle::{self, RunLaunch};

/// The maximum period during which faults occur.
const FAULT_PERIOD: Duration = Duration::from_secs(300);
/// The period in which runs are started.
const START_PERIOD: Duration = Duration::from_secs(45);
/// The time within which all runs must end after the faults have stopped.
const MAX_DURATION: Duration = Duration::from_secs(4 * 3600);

/// The running servers.
pub(super) type Servers = Arc<[Mutex<Option<Arc<Server>>>; 2]>;

/// Simulates one schedule to its end.
pub(super) async fn simulate(world: &World) {
    let servers: Servers = Arc::default();
    let scheduler = Scheduler::new(world, &servers);
    for place in 0..servers.len() {
        tokio::spawn(keep_running(world.clone(), Arc::clone(&servers), place, scheduler.clone()));
    }
    let runs = 1 + world.state().random.below(2);
    for n in 0..runs {
        let (servers, scheduler) = (Arc::clone(&servers), scheduler.clone());
        tokio::spawn(start_run(world.clone(), servers, scheduler, RunId::from_bits(u128::from(n) + 1)));
    }
    tokio::spawn(answer_waits(world.clone(), Arc::clone(&servers)));
    let begun = tokio::time::Instant::now();
    // Runs are started during `START_PERIOD`, so the faults do not stop before the end of this period.
    while begun.elapsed() < FAULT_PERIOD && (begun.elapsed() < START_PERIOD || !all_ended(world)) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    world.stop_faults();
    for place in servers.iter() {
        if let Some(server) = &*lock(place) {
            server.connection.disconnected.store(false, Ordering::Relaxed);
        }
    }
    let deadline = tokio::time::Instant::now() + MAX_DURATION;
    while !all_ended(world) {
        if tokio::time::Instant::now() > deadline {
            let state = world.state();
            let open: Vec<String> = state
                .rows
                .iter()
                .filter(|(_, row)| row.state.ended_at.is_none())
                .map(|(run, row)| format!("{run} is {} after {} entries", row.state.status, row.entries.len()))
                .collect();
            drop(state);
            world.violation(format!("lost: {}", open.join(", ")));
            return;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

fn all_ended(world: &World) -> bool {
    let state = world.state();
    state.rows.values().all(|row| row.state.ended_at.is_some())
        && state.confirmed.iter().all(|run| state.rows.contains_key(run))
}

fn lock(place: &Mutex<Option<Arc<Server>>>) -> std::sync::MutexGuard<'_, Option<Arc<Server>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps one server running. Some servers are disconnected or stopped from time to time.
async fn keep_running(world: World, servers: Servers, place: usize, scheduler: Scheduler) {
    for lifetime in 0.. {
        let lifetime = Lifetime::new(&world, format!("s{place}.{lifetime}"));
        // A server may crash while it starts.
        let started = tokio::select! {
            biased;
            () = lifetime.ended.notified() => None,
            server = Server::start(&world, Arc::clone(&lifetime), scheduler.clone()) => server,
        };
        if let Some(server) = started {
            *lock(&servers[place]) = Some(Arc::clone(&server));
            let (disconnecting, stopping) = (world.chance(300), world.chance(300));
            tokio::select! {
                biased;
                () = lifetime.ended.notified() => {}
                () = disconnect_sometimes(&world, &server), if disconnecting => {}
                () = stop_gracefully(&world, &server), if stopping => {}
            }
            *lock(&servers[place]) = None;
        }
        world.sleep_random(|random| random.millis(20_000)).await;
    }
}

/// Disconnects a server from the database from time to time.
async fn disconnect_sometimes(world: &World, server: &Server) {
    loop {
        world.sleep_random(|random| random.millis(40_000)).await;
        if world.is_faultless() {
            std::future::pending::<()>().await;
        }
        world.note(|| format!("{} is cut off", server.lifetime.name));
        server.connection.disconnected.store(true, Ordering::Relaxed);
        world.sleep_random(|random| random.millis(40_000)).await;
        world.note(|| format!("{} is back", server.lifetime.name));
        server.connection.disconnected.store(false, Ordering::Relaxed);
    }
}

/// Stops a server gracefully after a while.
async fn stop_gracefully(world: &World, server: &Server) {
    world.sleep_random(|random| random.millis(120_000)).await;
    if world.is_faultless() {
        std::future::pending::<()>().await;
    }
    world.note(|| format!("{} is stopped", server.lifetime.name));
    server.leaving.cancel();
    world.sleep_random(|random| random.millis(2_000)).await;
    server.lifetime.end("gracefully");
}

/// Returns one of the running servers.
pub(super) fn any_server(world: &World, servers: &Servers) -> Option<Arc<Server>> {
    let first = usize::try_from(world.state().random.below(2)).unwrap_or(0);
    [first, 1 - first].into_iter().find_map(|place| lock(&servers[place]).clone())
}

async fn start_run(world: World, servers: Servers, scheduler: Scheduler, run: RunId) {
    world.sleep_random(|random| random.millis(20_000)).await;
    let durable = world.chance(800);
    let start = run_start(&world, run, durable);
    let Some(server) = any_server(&world, &servers) else { return };
    let scheduled = durable && world.chance(400);
    let (lifetime, leaseholder) = (Arc::clone(&server.lifetime), server.lease.server().to_string());
    let executor = SimulatedExecutor { world: world.clone(), lifetime, run, durable, server: leaseholder };
    let plan = RunLaunch {
        start,
        executor: Arc::new(executor),
        home: home(),
        owner: Owner::new(PrincipalId::from_bits(1)),
        principal: PrincipalId::from_bits(1),
        changes: Vec::new(),
        prefix: Vec::new(),
    };
    let begun = world.clone();
    let (host, stepper) = (server.host(), Arc::clone(&server.stepper));
    server.lifetime.spawn(async move {
        let started = match scheduled {
            true => lifecycle::start_scheduled_run(&host, plan, stepper.writer()).await,
            false => lifecycle::start_run(&host, plan).await,
        };
        if started.is_ok() && durable {
            begun.note(|| format!("{run} was promised"));
            begun.state().confirmed.push(run);
        }
        if scheduled {
            scheduler.wake(run);
        }
    });
}

fn run_start(world: &World, run: RunId, durable: bool) -> RunStart {
    let request = ModelRequest {
        model: "simulated".into(),
        messages: vec![Message::User { content: "go".into() }].into(),
        tools: Default::default(),
        temperature: None,
        max_output_tokens: None,
        response_format: ResponseFormat::Text,
        parallel_tool_calls: true,
        extra: serde_json::Map::new(),
        images: Default::default(),
    };
    let mut policy = Policy::allowing("home", TOOLS);
    let mut state = world.state();
    if state.random.chance(300) {
        policy.unknown_outcome = UnknownOutcome::Person;
    }
    let mut spec = RunSpec::new(run, request, policy);
    spec.limits = Limits { max_iterations: 4, max_tool_calls: 12, ..Limits::default() };
    spec.limits.timeout_ms = state.random.chance(200).then_some(40_000);
    spec.approval_wait_ms = Some(60_000);
    spec.client_wait_ms = Some(60_000);
    spec.max_parallel_calls = 1 + u32::try_from(state.random.below(4)).unwrap_or(0);
    if state.random.chance(400) {
        spec.request = ModelRequest::none();
        spec.limits = Limits { max_iterations: u32::MAX, max_tool_calls: u32::MAX, ..spec.limits };
        spec.workflow = Some(Arc::new(graphs::workflow(&mut state.random)));
    }
    drop(state);
    RunStart { delegates: ["delegate".to_owned()].into(), durable, ..RunStart::new("simulated", "hash", "user", spec) }
}

/// Answers the approvals and client actions that runs wait for. Some of them get two answers and some get none.
async fn answer_waits(world: World, servers: Servers) {
    loop {
        world.sleep_random(|random| random.millis(15_000)).await;
        let (waits, running): (Vec<_>, Vec<_>) = {
            let state = world.state();
            let open = |run: &RunId| *run;
            let waits = state.rows.iter().flat_map(|(run, row)| {
                row.waits.iter().map(|wait| (open(run), wait.call_id.clone(), wait.kind)).collect::<Vec<_>>()
            });
            let running = state.rows.iter().filter(|(_, row)| row.state.ended_at.is_none()).map(|(run, _)| *run);
            (waits.collect(), running.collect())
        };
        for (run, call_id, kind) in waits {
            if world.chance(700) {
                let command = command(&world, call_id, kind);
                tokio::spawn(send_command(world.clone(), Arc::clone(&servers), run, command));
            }
        }
        for run in running {
            if let Some(command) = workflow_command(&world, run) {
                tokio::spawn(send_command(world.clone(), Arc::clone(&servers), run, command));
            }
            // Runs are not cancelled after the faults have stopped. A cancellation would hide a run that cannot end by
            // itself.
            if world.chance(10) && !world.is_faultless() {
                let command = RunCommand::Cancel { message: None };
                tokio::spawn(send_command(world.clone(), Arc::clone(&servers), run, command));
            }
        }
    }
}

/// Returns a command for a workflow: a signal, a pause, or the end of a pause.
fn workflow_command(world: &World, run: RunId) -> Option<RunCommand> {
    let status = world.state().rows.get(&run).map(|row| row.state.status);
    if status == Some(RunStatus::Paused) {
        return world.chance(500).then(|| RunCommand::Resume { by: "user".into() });
    }
    if world.chance(150) {
        let (name, payload) = (graphs::SIGNAL.to_owned(), json!({ "luck": world.state().random.below(10) }));
        return Some(RunCommand::Signal { name, payload, sent_by: "user".into() });
    }
    // A run is not paused after the faults have stopped, because it must end.
    (!world.is_faultless() && world.chance(50)).then(|| RunCommand::Pause { by: "user".into() })
}

fn command(world: &World, call_id: CallId, kind: WaitKind) -> RunCommand {
    let luck = world.state().random.below(10);
    match kind {
        WaitKind::Client => RunCommand::Return(vec![(call_id, ClientResult::Output(json!({ "luck": luck })))]),
        WaitKind::Approval => {
            let decision = match luck {
                0 | 1 => Decision::Deny { reason: None },
                2 => Decision::Edit { input: json!({ "n": luck }) },
                _ => Decision::Approve,
            };
            RunCommand::Decide { call_id, decision, decided_by: "user".into(), reason: None }
        }
    }
}

/// Sends a command to a run. Checks that an accepted command is in the journal.
async fn send_command(world: World, servers: Servers, run: RunId, command: RunCommand) {
    let Some(server) = any_server(&world, &servers) else { return };
    let (kind, about) = match &command {
        RunCommand::Decide { call_id, .. } => ("approval_decided", call_id.to_string()),
        RunCommand::Return(results) => ("client_returned", results[0].0.to_string()),
        RunCommand::Signal { .. } => ("signal_received", String::new()),
        RunCommand::Pause { .. } => ("paused", String::new()),
        RunCommand::Resume { .. } => ("resumed", String::new()),
        _ => ("cancelled", String::new()),
    };
    let name = server.lifetime.name.clone();
    world.note(|| format!("{kind} {about} is sent to {run} at {name}"));
    let answer = server.send(run, command).await;
    world.note(|| format!("{kind} {about} sent to {run} at {name}: {}", describe(&answer)));
    if answer.is_ok() && !world.recorded(run, kind, &about) {
        world.violation(format!("{run}: {kind} {about} was confirmed by {name} and is not written"));
    }
}

fn describe(answer: &Result<(), CommandError>) -> String {
    match answer {
        Ok(()) => "yes".into(),
        Err(error) => error.to_string(),
    }
}
