//! The crash harness: a real server is killed again and again while agents read and write, and afterwards every run,
//! every step and every write is accounted for.
//!
//! `make crash` makes at least 500 kills, `make crash-restate` those of a server whose runs Restate conducts, and of that
//! Restate; the tests here make a few. All print the seed of what they did, and `TOOLWRIGHT_CRASH_SEED` repeats its
//! choices. Time is not repeated: what is under way when a server dies differs.
//!
//! | module | what it is |
//! |---|---|
//! | [`server`] | the process that is killed |
//! | [`tap`] | stands before the CRM, sees every request, holds those that the killer waits for |
//! | [`workload`] | the agents and tools |
//! | [`crowd`] | those who start runs, follow them, decide and return results |
//! | [`killer`] | chooses when a server dies |
//! | [`journals`] | what a dead server left |
//! | [`checks`] | holds all of that against each other |
//!
//! On SQLite, where the next server takes up at once what a killed one left; on Postgres it would wait for a lease to end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at the first surprise, and this one reports what it found"
)]

mod checks;
mod client;
mod crowd;
mod dice;
mod journals;
mod killer;
mod report;
#[path = "../support/restate.rs"]
mod restate;
mod server;
mod tap;
mod workload;

use std::time::{Duration, Instant};

use tokio::sync::watch;
use toolwright_testkit::crm::RateLimit;
use toolwright_testkit::{Crm, LOOPBACK};

use checks::Evidence;
use client::Client;
use crowd::Crowd;
use dice::Dice;
use journals::History;
use killer::{Deeds, Killer};
use report::Figures;
use restate::{Restate, free_ports};
use server::{Home, Server};
use tap::Tap;

/// What the short version does, in every `make test`.
const KILLS: u64 = 15;
const RESTATE_KILLS: u64 = 10;
const SEED: u64 = 4;
/// The most kills that one data folder sees: what a killed server left is read as a whole.
const ROUND: u64 = 100;
/// Runs under way at once.
const RUNS: usize = 16;
/// How long everything may take to end when nobody kills any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who drives the runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Server,
    Restate,
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crash_loses_a_run_or_repeats_a_step_or_a_write() {
    kill_and_account(Driver::Server, KILLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crash_of_a_server_or_of_restate_does() {
    kill_and_account(Driver::Restate, RESTATE_KILLS).await;
}

async fn kill_and_account(driver: Driver, kills: u64) {
    let kills = number("TOOLWRIGHT_CRASH_KILLS").unwrap_or(kills);
    let seed = match std::env::var("TOOLWRIGHT_CRASH_SEED").as_deref() {
        Ok("any") => Dice::any_seed(),
        _ => number("TOOLWRIGHT_CRASH_SEED").unwrap_or(SEED),
    };
    println!("seed {seed}: {kills} kills");
    let (mut dice, mut figures, mut violations) = (Dice::of(seed), Figures::default(), 0);
    let mut left = kills;
    while left > 0 {
        let round = left.min(ROUND);
        let (counted, found) = play(driver, &mut dice, round).await;
        (left, violations) = (left - round, violations + found);
        println!("\na round of {round} kills, {found} violations\n{counted}");
        figures.add(counted);
    }
    println!("\nseed {seed}, {violations} violations in all\n{figures}");
    assert_eq!(violations, 0, "see above; TOOLWRIGHT_CRASH_SEED={seed} repeats the choices");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

/// One round on a data folder and a CRM of its own: its figures, and how many violations were found.
async fn play(driver: Driver, dice: &mut Dice, kills: u64) -> (Figures, usize) {
    let begun = Instant::now();
    let restate = match driver {
        Driver::Server => None,
        Driver::Restate => Some(Restate::start().await),
    };
    let settings = restate.as_ref().map(|restate| restate.settings(free_ports::<1>()[0]));
    let home = Home::new(settings.unwrap_or_default());
    let unlimited = RateLimit { per_second: 1e6, burst: u32::MAX };
    let crm = Crm::builder().rate_limit(unlimited).start(LOOPBACK).await.unwrap();
    let (tap, crm_url) = Tap::open(crm.base_url(), dice.split()).await;

    let mut server = Server::launch(&home);
    let (url, _) = server.ready().await;
    let (address, known) = watch::channel(Some(url));
    let client = Client::new(known);
    workload::define(&client, &crm_url).await;

    let crowd = Crowd::new(client.clone(), dice.split());
    crowd.begin(RUNS);
    let mut history = History::default();
    let mut killer = Killer {
        home: &home,
        tap: &tap,
        crowd: &crowd,
        address: &address,
        restate,
        dice: dice.split(),
        deeds: Deeds::default(),
    };
    let server = killer.work(server, kills, &mut history).await;
    let Killer { deeds, restate, .. } = killer;

    let memory = crowd.finish(PATIENCE).await;
    history.look(&home, &tap).await;
    let evidence = Evidence { memory, passages: tap.passages(), audit: crm.audit() };
    let figures = checks::check(&client, &mut history, &evidence, driver).await;
    server.kill().await;
    tap.close().await;
    crm.shutdown().await;
    if history.violations.len() > 0 {
        history.violations.print(&history.runs);
        println!("\nthe last words of the servers:\n{}", home.last_words());
        if let Some(restate) = &restate {
            println!("\nthe last words of Restate:\n{}", restate.last_words());
        }
    }
    (Figures { deeds, took: begun.elapsed(), ..figures }, history.violations.len())
}
