//! Measures durable runs through the whole server. The server commits every model reply and every call before the run
//! continues.

use std::time::Duration;

use crate::durable_run::{CALLS, Database, STEPS, TURNS, define, run_request};
use crate::entries::Rates;
use crate::server::{cpu_seconds, load, start, stop};

const DURATION: Duration = Duration::from_secs(6);

pub(crate) fn measure(postgres: Option<&str>, rates: &Rates) {
    println!("\nDurable runs of {} model calls and {} tool calls over REST.\n", TURNS + 1, TURNS * CALLS);
    println!(
        "| database | concurrent runs | calls/s | CPU µs per call | p50 ms | p99 ms | ratio to raw rows |\n|---|---|---|---|---|---|---|"
    );
    for (name, raw_rate) in rates {
        let folder = tempfile::tempdir().unwrap();
        let database = postgres.filter(|_| *name == "Postgres").map(|server| Database::create(server, "runs"));
        let url = database.as_ref().map(Database::url);
        let mut environment = vec![("RUST_LOG", "warn")];
        environment.extend(url.as_deref().map(|url| ("TOOLWRIGHT_DATABASE_URL", url)));
        let server = start(&folder, &environment);
        define(&server);
        for width in [1, 64] {
            load(&server.address, &run_request(), width, Duration::from_secs(1));
            let before = cpu_seconds(server.child.id());
            let runs = load(&server.address, &run_request(), width, DURATION);
            let used = cpu_seconds(server.child.id()) - before;
            let rate = runs.per_second() * STEPS as f64;
            println!(
                "| {name} | {width} | {rate:.0} | {:.0} | {:.1} | {:.1} | {:.0} % |",
                1e6 * used / (runs.count() * STEPS) as f64,
                runs.percentile(50.0) / 1e3,
                runs.percentile(99.0) / 1e3,
                100.0 * rate / raw_rate
            );
        }
        stop(server.child);
    }
}
