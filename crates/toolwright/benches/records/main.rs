//! What it costs to find and count among a million records, next to the same SQL by hand on the same database in the same run.
//!
//! SQLite always; Postgres where `scripts/with-services` says that there is one. `TOOLWRIGHT_BENCH_RECORDS` sets how many records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::indexing_slicing)]

mod by_hand;
#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use toolwright_engine::records::Question;
use toolwright_engine::{Engine, Options, Session};
use toolwright_query::Query;
use toolwright_store::{Location, Promise, RecordWrite, SealKey, Store};
use toolwright_types::{Source, SystemClock, Timestamp, TypeDefinition, TypeId};

use by_hand::ByHand;
use percentiles::Latencies;

const ROUNDS: usize = 2_000;
/// Records of one customer.
const EACH: usize = 100;
const BATCH: usize = 1_000;

fn main() {
    let records: usize = std::env::var("TOOLWRIGHT_BENCH_RECORDS").ok().map_or(1_000_000, |text| text.parse().unwrap());
    println!("# Toolwright: find and count among {records} records\n");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        println!("| | µs | |\n|---|---|---|\n| parse a query | {:.2} | |\n", parse());
        println!(
            "| database, question | p50 µs | p99 µs | by hand p50 | p99 | on one connection p50 | p99 | times by hand |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        let folder = tempfile::tempdir().unwrap();
        measure("SQLite", folder.path(), Location::Sqlite(folder.path().join("toolwright.db")), records).await;
        if let Ok(server) = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL") {
            let folder = tempfile::tempdir().unwrap();
            let url = by_hand::new_database(&server).await;
            measure("Postgres", folder.path(), Location::Postgres(url), records).await;
        }
    });
}

/// Microseconds of reading one query.
fn parse() -> f64 {
    let text = "status:open && totalAmount:>##500.5 && customerId:^[cus-1, cus-2] && lines:{sku:A-1 && qty:>=#2}";
    let begun = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(Query::parse(std::hint::black_box(text)).unwrap());
    }
    begun.elapsed().as_secs_f64() * 1e6 / 1e5
}

async fn measure(database: &str, folder: &Path, location: Location, records: usize) {
    let seal = || SealKey::from_file(folder.join("seal.key")).unwrap();
    let mut options = Options::in_folder(folder.to_owned(), seal());
    options.database = Some(location.clone());
    let (engine, _) = Engine::open(options).await.unwrap();
    let session = engine.identity.admin_session().await.unwrap();
    let of = define(&engine, &session).await;
    let store = Store::open(toolwright_store::Options {
        url: location.clone(),
        sync: Promise::System,
        clock: Arc::new(SystemClock),
        seal: seal(),
    });
    fill(&store.await.unwrap(), &session, of, records).await;
    let mut by_hand = ByHand::connect(&location, &session, of).await;
    by_hand.analyze().await;
    let customers = records / EACH;
    for (name, limit) in [("find, one customer's open orders", 20), ("count, one customer's open orders", 0)] {
        let customer = |round: usize| format!("cus-{}", round * 7919 % customers);
        let (mut ours, mut pooled, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        let begun = Instant::now();
        // In turns, so that whatever else the machine does meets all of them.
        for round in 0..ROUNDS {
            let query = format!("customerId:{} && status:open", customer(round));
            let question = Question { query: Some(query), limit, ..Question::default() };
            let start = Instant::now();
            let found = match limit {
                0 => engine.records.count(&session, "Order", &question).await.unwrap(),
                _ => engine.records.find(&session, "Order", &question).await.unwrap().records.len() as u64,
            };
            ours.push(start.elapsed().as_secs_f64() * 1e6);
            for (times, through_pool) in [(&mut pooled, true), (&mut alone, false)] {
                let start = Instant::now();
                let same = by_hand.ask(&customer(round), limit, through_pool).await;
                times.push(start.elapsed().as_secs_f64() * 1e6);
                assert_eq!(found, same.min(if limit == 0 { u64::MAX } else { u64::from(limit) }));
            }
        }
        let wall = begun.elapsed();
        let [ours, pooled, alone] = [ours, pooled, alone].map(|times| Latencies::new(times, wall));
        let columns =
            [&ours, &pooled, &alone].map(|it| format!("{:.0} | {:.0}", it.percentile(50.0), it.percentile(99.0)));
        println!(
            "| {database}, {name} | {} | {:.2} |",
            columns.join(" | "),
            ours.percentile(50.0) / pooled.percentile(50.0)
        );
    }
    engine.close().await;
}

async fn define(engine: &Engine, session: &Session) -> TypeId {
    let definition = json!({
        "name": "Order", "searchableFields": ["customerId", "status", "totalAmount"],
        "jsonSchema": { "type": "object", "properties": {
            "status": { "type": "string" }, "customerId": { "type": "string" }, "totalAmount": { "type": "number" },
            "lines": { "type": "array" }, "note": { "type": "string" },
        } },
    });
    let saved = engine.registry.create::<TypeDefinition>(session, definition, Source::Manual).await.unwrap();
    saved.document.meta.id.parse().unwrap()
}

async fn fill(store: &Store, session: &Session, of: TypeId, records: usize) {
    let record = |n: usize| {
        let id = format!("{n:024x}");
        let status = ["open", "paid", "shipped", "delivered"][n % 4];
        let body = json!({
            "id": id, "status": status, "customerId": format!("cus-{}", n / EACH), "totalAmount": n % 1000,
            "lines": [{ "sku": format!("A-{}", n % 50), "quantity": 2 }], "note": "as discussed", "version": 1,
            "auditInfo": { "createdBy": "admin", "createdAt": "2026-11-15T10:00:00Z" },
        });
        RecordWrite { id, replaces: None, version: 1, body, by: "admin".into(), at: Timestamp::from_micros(0) }
    };
    let target = store.records(&session.realm, of);
    for from in (0..records).step_by(BATCH) {
        let batch: Vec<RecordWrite> = (from..records.min(from + BATCH)).map(record).collect();
        target.write(&batch).await.unwrap();
    }
    store.close().await;
}
