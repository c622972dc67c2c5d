//! Those who start servers and runs, decide, return results, cancel, and cut wires.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use toolwright_machine::agent::{ClientResult, Decision, Spec};
use toolwright_machine::journal::Began;
use toolwright_machine::{Limits, Policy};
use toolwright_store::WaitKind;
use toolwright_types::{CallId, Message, ModelRequest, PrincipalId, ResponseFormat, RunId, UnknownOutcome};

use super::crew::{Crew, TOOLS};
use super::server::{Life, Server};
use super::world::{World, home};
use crate::runs::custody::{self, NewRunPlan};
use crate::runs::signal::{SignalError, Wish};

/// How long things go wrong at most.
const STORM: Duration = Duration::from_secs(300);
/// How long it takes until every run was started.
const GATHERING: Duration = Duration::from_secs(45);
/// How long everything may take to end after that.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The servers that are up.
type Fleet = Arc<[Mutex<Option<Arc<Server>>>; 2]>;

/// Plays one schedule to its end.
pub async fn play(world: &World) {
    let fleet: Fleet = Arc::default();
    for place in 0..fleet.len() {
        tokio::spawn(keep_up(world.clone(), Arc::clone(&fleet), place));
    }
    let runs = 1 + world.truth().dice.below(2);
    for n in 0..runs {
        tokio::spawn(start_run(world.clone(), Arc::clone(&fleet), RunId::from_bits(u128::from(n) + 1)));
    }
    tokio::spawn(attend(world.clone(), Arc::clone(&fleet)));
    let begun = tokio::time::Instant::now();
    // Every run has begun, or never will, when servers have been up and down for a while.
    while begun.elapsed() < STORM && (begun.elapsed() < GATHERING || !all_ended(world)) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    world.calm();
    for place in fleet.iter() {
        if let Some(server) = &*lock(place) {
            server.wire.cut.store(false, Ordering::Relaxed);
        }
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !all_ended(world) {
        if tokio::time::Instant::now() > deadline {
            let truth = world.truth();
            let open: Vec<String> = truth
                .rows
                .iter()
                .filter(|(_, row)| row.state.ended_at.is_none())
                .map(|(run, row)| format!("{run} is {} after {} entries", row.state.status, row.entries.len()))
                .collect();
            drop(truth);
            world.violation(format!("lost: {}", open.join(", ")));
            return;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

fn all_ended(world: &World) -> bool {
    let truth = world.truth();
    truth.rows.values().all(|row| row.state.ended_at.is_some())
        && truth.promised.iter().all(|run| truth.rows.contains_key(run))
}

fn lock(place: &Mutex<Option<Arc<Server>>>) -> std::sync::MutexGuard<'_, Option<Arc<Server>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a server in this place whenever there is none; now and then its wire is cut for a while.
async fn keep_up(world: World, fleet: Fleet, place: usize) {
    for life in 0.. {
        let life = Life::new(&world, format!("s{place}.{life}"));
        // A server that dies while it starts never has started.
        let started = tokio::select! {
            biased;
            () = life.ended.notified() => None,
            server = Server::start(&world, Arc::clone(&life)) => server,
        };
        if let Some(server) = started {
            *lock(&fleet[place]) = Some(Arc::clone(&server));
            let (cutting, leaving) = (world.chance(300), world.chance(300));
            tokio::select! {
                biased;
                () = life.ended.notified() => {}
                () = cut(&world, &server), if cutting => {}
                () = leave(&world, &server), if leaving => {}
            }
            *lock(&fleet[place]) = None;
        }
        world.pass(|dice| dice.millis(20_000)).await;
    }
}

/// Cuts a server off for a while, again and again.
async fn cut(world: &World, server: &Server) {
    loop {
        world.pass(|dice| dice.millis(40_000)).await;
        if world.is_calm() {
            std::future::pending::<()>().await;
        }
        world.note(|| format!("{} is cut off", server.life.name));
        server.wire.cut.store(true, Ordering::Relaxed);
        world.pass(|dice| dice.millis(40_000)).await;
        world.note(|| format!("{} is back", server.life.name));
        server.wire.cut.store(false, Ordering::Relaxed);
    }
}

/// Stops a server in an orderly way after a while.
async fn leave(world: &World, server: &Server) {
    world.pass(|dice| dice.millis(120_000)).await;
    if world.is_calm() {
        std::future::pending::<()>().await;
    }
    world.note(|| format!("{} is stopped", server.life.name));
    server.leaving.cancel();
    world.pass(|dice| dice.millis(2_000)).await;
    server.life.end("in an orderly way");
}

/// One of the servers that are up.
fn any_server(world: &World, fleet: &Fleet) -> Option<Arc<Server>> {
    let first = usize::try_from(world.truth().dice.below(2)).unwrap_or(0);
    [first, 1 - first].into_iter().find_map(|place| lock(&fleet[place]).clone())
}

async fn start_run(world: World, fleet: Fleet, run: RunId) {
    world.pass(|dice| dice.millis(20_000)).await;
    let durable = world.chance(800);
    let began = beginning(&world, run, durable);
    let Some(server) = any_server(&world, &fleet) else { return };
    let crew = Crew { world: world.clone(), life: Arc::clone(&server.life), run, durable };
    let plan = NewRunPlan {
        began,
        crew: Arc::new(crew),
        home: home(),
        owner: PrincipalId::from_bits(1),
        principal: PrincipalId::from_bits(1),
        changes: Vec::new(),
        prefix: Vec::new(),
    };
    let begun = world.clone();
    let host = server.host();
    server.life.spawn(async move {
        if custody::begin(&host, plan).await.is_ok() && durable {
            begun.note(|| format!("{run} was promised"));
            begun.truth().promised.push(run);
        }
    });
}

fn beginning(world: &World, run: RunId, durable: bool) -> Began {
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
    let mut truth = world.truth();
    if truth.dice.happens(300) {
        policy.unknown_outcome = UnknownOutcome::Person;
    }
    let mut spec = Spec::new(run, request, policy);
    spec.limits = Limits { max_iterations: 4, max_tool_calls: 12, ..Limits::default() };
    spec.limits.timeout_ms = truth.dice.happens(200).then_some(40_000);
    spec.approval_wait_ms = Some(60_000);
    spec.client_wait_ms = Some(60_000);
    spec.max_parallel_calls = 1 + u32::try_from(truth.dice.below(4)).unwrap_or(0);
    drop(truth);
    Began { delegates: ["delegate".to_owned()].into(), durable, ..Began::of("simulated", "hash", "somebody", spec) }
}

/// Looks at what runs wait for, and sees to it, sometimes twice and sometimes never.
async fn attend(world: World, fleet: Fleet) {
    loop {
        world.pass(|dice| dice.millis(15_000)).await;
        let (waits, running): (Vec<_>, Vec<_>) = {
            let truth = world.truth();
            let open = |run: &RunId| *run;
            let waits = truth.rows.iter().flat_map(|(run, row)| {
                row.waits.iter().map(|wait| (open(run), wait.call_id.clone(), wait.kind)).collect::<Vec<_>>()
            });
            let running = truth.rows.iter().filter(|(_, row)| row.state.ended_at.is_none()).map(|(run, _)| *run);
            (waits.collect(), running.collect())
        };
        for (run, call_id, kind) in waits {
            if world.chance(700) {
                let wish = wish(&world, call_id, kind);
                tokio::spawn(say(world.clone(), Arc::clone(&fleet), run, wish));
            }
        }
        for run in running {
            // Not when it is calm: a run that only ends because somebody stops it is lost.
            if world.chance(10) && !world.is_calm() {
                let wish = Wish::Cancel { message: None };
                tokio::spawn(say(world.clone(), Arc::clone(&fleet), run, wish));
            }
        }
    }
}

fn wish(world: &World, call_id: CallId, kind: WaitKind) -> Wish {
    let luck = world.truth().dice.below(10);
    match kind {
        WaitKind::Client => Wish::Return(vec![(call_id, ClientResult::Output(json!({ "luck": luck })))]),
        WaitKind::Approval => {
            let decision = match luck {
                0 | 1 => Decision::Deny { reason: None },
                2 => Decision::Edit { input: json!({ "n": luck }) },
                _ => Decision::Approve,
            };
            Wish::Decide { call_id, decision, by: "somebody".into() }
        }
    }
}

/// Says something to a run. What was confirmed must be in its journal from that moment on.
async fn say(world: World, fleet: Fleet, run: RunId, wish: Wish) {
    let Some(server) = any_server(&world, &fleet) else { return };
    let (kind, about) = match &wish {
        Wish::Decide { call_id, .. } => ("approval", call_id.to_string()),
        Wish::Return(results) => ("client_returned", results[0].0.to_string()),
        _ => ("cancelled", String::new()),
    };
    let name = server.life.name.clone();
    world.note(|| format!("{kind} {about} is said to {run} at {name}"));
    let answer = server.send(run, wish).await;
    world.note(|| format!("{kind} {about} said to {run} at {name}: {}", told(&answer)));
    if answer.is_ok() && !world.recorded(run, kind, &about) {
        world.violation(format!("{run}: {kind} {about} was confirmed by {name} and is not written"));
    }
}

fn told(answer: &Result<(), SignalError>) -> String {
    match answer {
        Ok(()) => "yes".into(),
        Err(error) => error.to_string(),
    }
}
