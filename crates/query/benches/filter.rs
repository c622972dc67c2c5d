//! Measures the parsing, binding and SQL compilation of queries, and the matching of documents.
//!
//! Run it with `cargo bench -p toolwright-query`. Each printed time is the best of several rounds, which reduces the
//! influence of other processes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results and may panic")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolwright_query::sql::{Column, Dialect, Layout, compile};
use toolwright_query::{BindContext, MAX_LENGTH, Query};

const ROUNDS: usize = 7;
const TIMES: u32 = 1000;

const QUERIES: &[&str] = &[
    "status:open",
    "price:>##10.5 && status:!closed",
    "status:^[open, held, \"in review\"] && customer.city:ulm",
    "name:*widget* || name:b?ue*",
    "lines:{sku:A-1 && qty:>#5} && created:>=2024-01-01",
    "text(\"blue gadget\") && (status:open || paid:true) && !!(tags:old || tags:draft)",
];

fn main() {
    let documents: Vec<Value> = (0..TIMES).map(document).collect();
    let layout = Layout::new(Column::new("id").unwrap(), Column::new("record").unwrap());
    println!("{:>9} {:>9} {:>9} {:>9} {:>6}  query", "parse µs", "bind µs", "SQL µs", "ns/doc", "found");
    for source in QUERIES {
        let query = Query::parse(source).unwrap();
        let filter = query.bind(&BindContext::empty()).unwrap();
        let parse = best(|| (0..TIMES).for_each(|_| drop(black_box(Query::parse(black_box(source))))));
        let bind = best(|| (0..TIMES).for_each(|_| drop(black_box(query.bind(&BindContext::empty())))));
        let sql = best(|| (0..TIMES).for_each(|_| drop(black_box(compile(&filter, &layout, Dialect::Postgres, 1)))));
        let mut found = 0;
        let matching = best(|| found = documents.iter().filter(|document| filter.matches(black_box(document))).count());
        println!(
            "{:>9.2} {:>9.2} {:>9.2} {:>9.0} {found:>6}  {source}",
            micros(parse),
            micros(bind),
            micros(sql),
            micros(matching) * 1e3
        );
    }
    malformed();
}

/// Measures malformed queries of the maximum length, which must fail fast.
fn malformed() {
    for unit in ["(", "!!", "a:b&&", "a ", "\"\"", "a:^[", "a & ", "${"] {
        let text = unit.repeat(MAX_LENGTH / unit.len());
        let time = best(|| drop(black_box(Query::parse(&text))));
        println!("{:>9.1} µs  {} KiB of {unit}", time.as_secs_f64() * 1e6, MAX_LENGTH / 1024);
    }
}

fn document(number: u32) -> Value {
    let status = ["open", "OPEN", "closed", "held"].get(number as usize % 4).copied();
    json!({
        "id": number.to_string(), "status": status, "name": format!("Blue Widget {number}"), "price": f64::from(number) / 10.0,
        "paid": number.is_multiple_of(3), "created": format!("2024-01-{:02}T10:00:00Z", number % 28 + 1), "tags": ["new", "sale"],
        "customer": {"name": "Acme", "city": "Ulm", "address": {"street": "Main Street 1", "zip": "89073"}},
        "lines": [{"sku": "A-1", "qty": number % 10}, {"sku": "B-2", "qty": 1}],
        "description": "A thing of medium size that is sold in boxes of ten, with a text that is as long as such texts are.",
    })
}

/// Returns the time of one repetition, in microseconds, averaged over `TIMES` repetitions.
fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(TIMES)
}

fn best(mut work: impl FnMut()) -> Duration {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}
