//! A deterministic simulation of runs. The drivers, steppers, journals, writers and leases of two servers are real. The
//! database, tools, models, external scheduler and time are simulated. Requests get lost, servers crash, and the
//! database fails.
//!
//! A seed determines a schedule: the order and duration of requests, faults, crashes and disconnections. After at most
//! five minutes of simulated time the faults stop, and then every run must end. `make simulate` simulates a million
//! schedules, `make test` two thousand. With `TOOLWRIGHT_SIMULATE_SEED`, the test simulates only that seed and prints
//! its log.
//!
//! | module | content |
//! |---|---|
//! | [`world`] | the stored state, the effects of tools, the time |
//! | [`connection`] | the connection to the database, with faults |
//! | [`executor`] | models and tools |
//! | [`graphs`] | random workflows |
//! | [`server`] | one server and its crashes |
//! | [`scheduler`] | the external scheduler that drives some of the runs |
//! | [`clients`] | starts servers and runs, sends commands |
//! | [`checks`] | the checks at the end |
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the result is printed for people, and spawned tasks end with their simulation"
)]

mod checks;
mod clients;
mod connection;
mod executor;
mod graphs;
mod random;
mod scheduler;
mod server;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

/// The number of schedules in `make test`.
const SCHEDULES: u64 = 2_000;

/// The result of one schedule.
struct Outcome {
    violations: Vec<String>,
    trace: u64,
    log: Vec<String>,
    events: BTreeMap<String, u64>,
}

fn simulate(seed: u64, verbose: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async move {
        let world = World::new(seed, verbose);
        clients::simulate(&world).await;
        let events = checks::check(&world);
        let violations = std::mem::take(&mut world.state().violations);
        let (trace, log) = world.trace();
        Outcome { violations, trace, log, events }
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, got `{text}`")))
}

#[test]
fn no_simulated_schedule_loses_a_run_or_repeats_an_effect() {
    if let Some(seed) = number("TOOLWRIGHT_SIMULATE_SEED") {
        let outcome = simulate(seed, true);
        println!("{}\n{:#?}", outcome.log.join("\n"), outcome.events);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        return;
    }
    let schedules = number("TOOLWRIGHT_SIMULATE").unwrap_or(SCHEDULES);
    let from = number("TOOLWRIGHT_SIMULATE_FROM").unwrap_or(0);
    let (next, events) = (AtomicU64::new(from), Mutex::new(BTreeMap::<String, u64>::new()));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                let mut own = BTreeMap::<String, u64>::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + schedules || failed.lock().expect("no panic").len() >= 10 {
                        break;
                    }
                    let outcome = simulate(seed, false);
                    for (what, count) in outcome.events {
                        *own.entry(what).or_default() += count;
                    }
                    if !outcome.violations.is_empty() {
                        failed.lock().expect("no panic").push((seed, outcome.violations));
                    }
                }
                for (what, count) in own {
                    *events.lock().expect("no panic").entry(what).or_default() += count;
                }
            });
        }
    });
    let (events, failed) = (events.into_inner().expect("no panic"), failed.into_inner().expect("no panic"));
    println!("schedules {from} to {}: {events:#?}", from + schedules);
    assert!(failed.is_empty(), "seeds and their violations: {failed:#?}");
    for expected in [
        "crashes",
        "COMPLETED",
        "recovered",
        "scheduled",
        "commands",
        "verified",
        "outcome_unknown",
        "child_suspended",
        "approval_decided",
        "signal_received",
        "paused",
        "resumed",
        "step_failed",
        "step_timeout",
    ] {
        assert!(events.contains_key(expected), "no schedule contains `{expected}`");
    }
}

#[test]
fn same_seed_gives_the_same_schedule() {
    for seed in 0..50 {
        let (first, second) = (simulate(seed, true), simulate(seed, true));
        if first.trace != second.trace {
            let differs = first.log.iter().zip(&second.log).position(|(one, other)| one != other);
            let at = differs.unwrap_or(0);
            panic!("seed {seed} at {at}: {:?} and {:?}", first.log.get(at), second.log.get(at));
        }
    }
}
