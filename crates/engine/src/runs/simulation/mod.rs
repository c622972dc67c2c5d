//! The driver, deterministically simulated: real drivers, journals, writers and leases of two servers, over a simulated
//! database, simulated tools and models and simulated time, with everything going wrong that can.
//!
//! A seed makes a schedule: when what is asked, how long it takes, what fails, which server dies in which moment, which
//! is cut off from the database. After a while nothing goes wrong any more, and then everything must come out right.
//! `make simulate` plays a million schedules, `make test` some thousands; `TOOLWRIGHT_SIMULATE_SEED` tells the story of
//! one.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | what is true, whoever knows it |
//! | [`wire`] | the way to the database, and what goes wrong on it |
//! | [`crew`] | models and tools |
//! | [`server`] | one server, and its death |
//! | [`people`] | those who start runs, decide, return results and cancel |
//! | [`checks`] | what must hold in the end |
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the outcome of many schedules is for a person to read, and what is spawned ends with its world"
)]

mod checks;
mod crew;
mod dice;
mod people;
mod server;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use world::World;

/// What the short version plays, in every `make test`.
const SCHEDULES: u64 = 2_000;

/// What one schedule came to.
struct Outcome {
    violations: Vec<String>,
    trace: u64,
    story: Vec<String>,
    met: BTreeMap<String, u64>,
}

fn play(seed: u64, tell: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async move {
        let world = World::new(seed, tell);
        people::play(&world).await;
        let met = checks::look(&world);
        let violations = std::mem::take(&mut world.truth().violations);
        let (trace, story) = world.trace();
        Outcome { violations, trace, story, met }
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

#[test]
fn no_schedule_loses_a_run_or_repeats_a_step_or_a_write() {
    if let Some(seed) = number("TOOLWRIGHT_SIMULATE_SEED") {
        let outcome = play(seed, true);
        println!("{}\n{:#?}", outcome.story.join("\n"), outcome.met);
        assert_eq!(outcome.violations, Vec::<String>::new(), "seed {seed}");
        return;
    }
    let schedules = number("TOOLWRIGHT_SIMULATE").unwrap_or(SCHEDULES);
    let from = number("TOOLWRIGHT_SIMULATE_FROM").unwrap_or(0);
    let (next, met) = (AtomicU64::new(from), Mutex::new(BTreeMap::<String, u64>::new()));
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
                    let outcome = play(seed, false);
                    for (what, count) in outcome.met {
                        *own.entry(what).or_default() += count;
                    }
                    if !outcome.violations.is_empty() {
                        failed.lock().expect("no panic").push((seed, outcome.violations));
                    }
                }
                for (what, count) in own {
                    *met.lock().expect("no panic").entry(what).or_default() += count;
                }
            });
        }
    });
    let (met, failed) = (met.into_inner().expect("no panic"), failed.into_inner().expect("no panic"));
    println!("schedules {from} to {}: {met:#?}", from + schedules);
    assert!(failed.is_empty(), "seeds and what was violated: {failed:#?}");
    for expected in ["deaths", "COMPLETED", "taken_up", "verified", "outcome_unknown", "call_paused", "approval"] {
        assert!(met.contains_key(expected), "no schedule meets `{expected}`");
    }
}

#[test]
fn a_schedule_can_be_repeated() {
    for seed in 0..50 {
        let (first, second) = (play(seed, true), play(seed, true));
        if first.trace != second.trace {
            let differs = first.story.iter().zip(&second.story).position(|(one, other)| one != other);
            let at = differs.unwrap_or(0);
            panic!("seed {seed} at {at}: {:?} and {:?}", first.story.get(at), second.story.get(at));
        }
    }
}
