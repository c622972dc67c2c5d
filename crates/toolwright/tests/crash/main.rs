//! The crash harness kills a real server repeatedly while agents read and write. Afterwards it checks every run, every
//! call and every write.
//!
//! `make test` kills the server a few times, and `make crash` kills it 500 times. `make crash-restate` kills a server
//! whose runs are scheduled by Restate, and kills Restate too. Each command prints the seed of its random choices. Set
//! `TOOLWRIGHT_CRASH_SEED` to that seed to repeat the choices. Timing is not reproducible, so the work in progress at
//! each kill differs.
//!
//! | module | purpose |
//! |---|---|
//! | [`server`] | starts and kills the server process |
//! | [`proxy`] | records every request to the CRM, and holds requests until the killer releases them |
//! | [`workload`] | defines the agents and tools |
//! | [`users`] | simulates users who start runs, follow them, decide approvals and return results |
//! | [`killer`] | chooses when a process is killed |
//! | [`journals`] | reads the journals that a killed server left |
//! | [`checks`] | checks that the journals, the CRM, the API and the users agree |
//!
//! The harness uses SQLite, where the next server recovers runs at once. On Postgres the next server would first wait
//! until the lease of the killed server expires.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first unexpected value, and this one prints its findings"
)]

mod checks;
mod client;
mod journals;
mod killer;
mod proxy;
mod report;
#[path = "../support/restate.rs"]
mod restate;
mod rng;
mod server;
mod users;
mod workload;

use std::time::{Duration, Instant};

use tokio::sync::watch;
use toolwright_testkit::crm::RateLimit;
use toolwright_testkit::{Crm, LOOPBACK};

use checks::Evidence;
use client::Client;
use journals::History;
use killer::{KillStats, Killer};
use proxy::CrmProxy;
use report::Statistics;
use restate::{Restate, free_ports};
use rng::SeededRng;
use server::{Server, ServerConfig};
use users::Users;

/// Number of kills in `make test` without Restate.
const KILLS: u64 = 15;
const RESTATE_KILLS: u64 = 10;
const SEED: u64 = 4;
/// Maximum number of kills per data folder. The harness reads the whole folder after each kill, so a larger folder
/// takes longer.
const KILLS_PER_ROUND: u64 = 100;
/// Number of runs that the users keep in progress.
const CONCURRENT_RUNS: usize = 16;
/// How long the remaining runs may take to end after the last kill.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The component that schedules the runs: local drivers or Restate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheduler {
    Local,
    Restate,
}

#[tokio::test(flavor = "multi_thread")]
async fn server_crashes_lose_no_run_and_repeat_no_write() {
    kill_and_check(Scheduler::Local, KILLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_and_restate_crashes_lose_no_run_and_repeat_no_write() {
    kill_and_check(Scheduler::Restate, RESTATE_KILLS).await;
}

async fn kill_and_check(scheduler: Scheduler, kills: u64) {
    let kills = env_number("TOOLWRIGHT_CRASH_KILLS").unwrap_or(kills);
    let seed = match std::env::var("TOOLWRIGHT_CRASH_SEED").as_deref() {
        Ok("any") => SeededRng::random_seed(),
        _ => env_number("TOOLWRIGHT_CRASH_SEED").unwrap_or(SEED),
    };
    println!("seed {seed}: {kills} kills");
    let (mut rng, mut statistics, mut violations) = (SeededRng::new(seed), Statistics::default(), 0);
    let mut remaining = kills;
    while remaining > 0 {
        let round = remaining.min(KILLS_PER_ROUND);
        let (round_statistics, found) = run_round(scheduler, &mut rng, round).await;
        (remaining, violations) = (remaining - round, violations + found);
        println!("\nround of {round} kills, {found} violations\n{round_statistics}");
        statistics.add(round_statistics);
    }
    println!("\nseed {seed}, {violations} violations in total\n{statistics}");
    assert_eq!(violations, 0, "the violations are printed above; TOOLWRIGHT_CRASH_SEED={seed} repeats the choices");
}

fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, got `{text}`")))
}

/// Runs one round of kills with a new data folder and a new CRM. Returns the statistics and the number of violations.
async fn run_round(scheduler: Scheduler, rng: &mut SeededRng, kills: u64) -> (Statistics, usize) {
    let started = Instant::now();
    let restate = match scheduler {
        Scheduler::Local => None,
        Scheduler::Restate => Some(Restate::start().await),
    };
    let env = restate.as_ref().map(|restate| restate.server_env(free_ports::<1>()[0]));
    let config = ServerConfig::new(env.unwrap_or_default());
    let unlimited = RateLimit { per_second: 1e6, burst: u32::MAX };
    let crm = Crm::builder().rate_limit(unlimited).start(LOOPBACK).await.unwrap();
    let (proxy, crm_url) = CrmProxy::start(crm.base_url(), rng.split()).await;

    let mut server = Server::launch(&config);
    let (url, _) = server.wait_until_ready().await;
    let (address, current_address) = watch::channel(Some(url));
    let client = Client::new(current_address);
    workload::define(&client, &crm_url).await;

    let users = Users::new(client.clone(), rng.split());
    users.start(CONCURRENT_RUNS);
    let mut history = History::default();
    let mut killer = Killer {
        config: &config,
        proxy: &proxy,
        users: &users,
        address: &address,
        restate,
        rng: rng.split(),
        kill_stats: KillStats::default(),
    };
    let server = killer.run(server, kills, &mut history).await;
    let Killer { kill_stats, restate, .. } = killer;

    let observations = users.finish(TIMEOUT).await;
    history.inspect(&config, &proxy).await;
    let evidence = Evidence { observations, requests: proxy.requests(), audit: crm.audit() };
    let statistics = checks::check(&client, &mut history, &evidence, scheduler).await;
    server.kill().await;
    proxy.close().await;
    crm.shutdown().await;
    if history.violations.len() > 0 {
        history.violations.print(&history.runs);
        println!("\nend of the server log:\n{}", config.log_tail());
        if let Some(restate) = &restate {
            println!("\nend of the Restate log:\n{}", restate.log_tail());
        }
    }
    (Statistics { kill_stats, elapsed: started.elapsed(), ..statistics }, history.violations.len())
}
