//! What durability costs: entries of journals next to rows that are inserted with the same promise, durable runs through the
//! whole server, and how long a server takes to go on with what a killed one left.
//!
//! `scripts/with-services cargo bench -p toolwright --bench journal` measures Postgres too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a measurement stops at the first surprise, prints what it found, and ends with all it started"
)]

mod entries;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
mod resume;
mod runs;
#[path = "../common/server.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod server;

fn main() {
    let postgres = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL").ok();
    println!("# Toolwright: the cost of durability\n");
    let rates = entries::measure(postgres.as_deref());
    runs::measure(postgres.as_deref(), &rates);
    resume::measure();
}
