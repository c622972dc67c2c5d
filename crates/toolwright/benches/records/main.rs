//! Benchmarks finding and counting among a million records, compared with direct SQL queries on the same database.
//!
//! The benchmark measures SQLite, and also Postgres when `scripts/with-services` starts it. `TOOLWRIGHT_BENCH_RECORDS`
//! sets the number of records.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first error and prints its results"
)]

#[path = "../common/percentiles.rs"]
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod percentiles;
mod raw_sql;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use toolwright_catalog::Session;
use toolwright_engine::{Engine, Options};
use toolwright_query::Query;
use toolwright_records::RecordQuery;
use toolwright_store::{Location, RecordWrite, SealKey, Store, SyncMode};
use toolwright_types::{DefinitionSource, SystemClock, Timestamp, TypeDefinition, TypeId};

use percentiles::Latencies;
use raw_sql::RawSql;

const ROUNDS: usize = 2_000;
/// Number of records per customer.
const RECORDS_PER_CUSTOMER: usize = 100;
const BATCH: usize = 1_000;

fn main() {
    let records: usize = std::env::var("TOOLWRIGHT_BENCH_RECORDS").ok().map_or(1_000_000, |text| text.parse().unwrap());
    println!("# Toolwright: find and count among {records} records\n");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        println!("| | µs | |\n|---|---|---|\n| parse a query | {:.2} | |\n", parse());
        println!(
            "| database, query | p50 µs | p99 µs | raw SQL, pool p50 | p99 | raw SQL, one connection p50 | p99 | ratio to pool |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        let folder = tempfile::tempdir().unwrap();
        measure("SQLite", folder.path(), Location::Sqlite(folder.path().join("toolwright.db")), records).await;
        if let Ok(server) = std::env::var("TOOLWRIGHT_TEST_POSTGRES_URL") {
            let folder = tempfile::tempdir().unwrap();
            let url = raw_sql::new_database(&server).await;
            measure("Postgres", folder.path(), Location::Postgres(url), records).await;
        }
    });
}

/// Returns the microseconds that parsing one query takes.
fn parse() -> f64 {
    let text = "status:open && totalAmount:>##500.5 && customerId:^[cus-1, cus-2] && lines:{sku:A-1 && qty:>=#2}";
    let started = Instant::now();
    for _ in 0..100_000 {
        std::hint::black_box(Query::parse(std::hint::black_box(text)).unwrap());
    }
    started.elapsed().as_secs_f64() * 1e6 / 1e5
}

async fn measure(database: &str, folder: &Path, location: Location, records: usize) {
    let seal = || SealKey::from_file(folder.join("seal.key")).unwrap();
    let mut options = Options::in_folder(folder.to_owned(), seal());
    options.database = Some(location.clone());
    let (engine, _) = Engine::open(options).await.unwrap();
    let session = engine.identity.admin_session().await.unwrap();
    let type_id = define(&engine, &session).await;
    let store = Store::open(toolwright_store::StoreOptions {
        url: location.clone(),
        sync: SyncMode::System,
        clock: Arc::new(SystemClock),
        seal: seal(),
    });
    fill(&store.await.unwrap(), &session, type_id, records).await;
    let mut raw_sql = RawSql::connect(&location, &session, type_id).await;
    raw_sql.analyze().await;
    let customers = records / RECORDS_PER_CUSTOMER;
    for (name, limit) in [("find, one customer's open orders", 20), ("count, one customer's open orders", 0)] {
        let customer = |round: usize| format!("cus-{}", round * 7919 % customers);
        let (mut ours, mut pooled, mut single) = (Vec::new(), Vec::new(), Vec::new());
        let started = Instant::now();
        // The three variants are measured in turn, so that other load on the machine affects all of them equally.
        for round in 0..ROUNDS {
            let query = format!("customerId:{} && status:open", customer(round));
            let record_query = RecordQuery { query: Some(query), limit, ..RecordQuery::default() };
            let start = Instant::now();
            let found = match limit {
                0 => engine.records.count(&session, "Order", &record_query).await.unwrap(),
                _ => engine.records.find(&session, "Order", &record_query).await.unwrap().records.len() as u64,
            };
            ours.push(start.elapsed().as_secs_f64() * 1e6);
            for (times, through_pool) in [(&mut pooled, true), (&mut single, false)] {
                let start = Instant::now();
                let expected = raw_sql.query(&customer(round), limit, through_pool).await;
                times.push(start.elapsed().as_secs_f64() * 1e6);
                assert_eq!(found, expected.min(if limit == 0 { u64::MAX } else { u64::from(limit) }));
            }
        }
        let wall = started.elapsed();
        let [ours, pooled, single] = [ours, pooled, single].map(|times| Latencies::new(times, wall));
        let columns = [&ours, &pooled, &single]
            .map(|latencies| format!("{:.0} | {:.0}", latencies.percentile(50.0), latencies.percentile(99.0)));
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
    let saved = engine.registry.create::<TypeDefinition>(session, definition, DefinitionSource::Manual).await.unwrap();
    saved.document.meta.id.parse().unwrap()
}

async fn fill(store: &Store, session: &Session, type_id: TypeId, records: usize) {
    let record = |n: usize| {
        let id = format!("{n:024x}");
        let status = ["open", "paid", "shipped", "delivered"][n % 4];
        let body = json!({
            "id": id, "status": status, "customerId": format!("cus-{}", n / RECORDS_PER_CUSTOMER), "totalAmount": n % 1000,
            "lines": [{ "sku": format!("A-{}", n % 50), "quantity": 2 }], "note": "as discussed", "version": 1,
            "auditInfo": { "createdBy": "admin", "createdAt": "2026-11-15T10:00:00Z" },
        });
        RecordWrite { id, replaces: None, version: 1, body, by: "admin".into(), at: Timestamp::from_micros(0) }
    };
    let target = store.records(&session.realm, type_id);
    for from in (0..records).step_by(BATCH) {
        let batch: Vec<RecordWrite> = (from..records.min(from + BATCH)).map(record).collect();
        target.write(&batch).await.unwrap();
    }
    store.close().await;
}
