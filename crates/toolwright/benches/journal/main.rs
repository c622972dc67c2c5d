//! Benchmarks durability in three parts: journal entries compared with rows of a plain table, durable runs through the
//! whole server, and recovery after a kill.
//!
//! The benchmark measures SQLite. To measure Postgres too, run
//! `scripts/with-services cargo bench -p toolwright --bench journal`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark stops at the first error, prints its results, and its tasks end with the process"
)]

#[path = "../common/durable_run.rs"]
mod durable_run;
mod entries;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
mod recovery;
mod runs;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

fn main() {
    let postgres = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL").ok();
    println!("# Toolwright: the cost of durability\n");
    let rates = entries::measure(postgres.as_deref());
    runs::measure(postgres.as_deref(), &rates);
    recovery::measure();
}
