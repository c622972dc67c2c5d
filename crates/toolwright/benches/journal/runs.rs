//! Measures durable runs through the whole server. The server commits every model reply and every call before the run
//! continues.

use std::time::Duration;

use serde_json::{Value, json};

use crate::entries::Rates;
use crate::server::{Server, cpu_seconds, load, request, send_request, start, stop};

const TURNS: usize = 10;
const CALLS: usize = 4;
const DURATION: Duration = Duration::from_secs(6);

pub(crate) fn measure(postgres: Option<&str>, rates: &Rates) {
    let calls_per_run = TURNS + 1 + TURNS * CALLS;
    println!("\nDurable runs of {} model calls and {} tool calls over REST.\n", TURNS + 1, TURNS * CALLS);
    println!(
        "| database | concurrent runs | calls/s | CPU µs per call | p50 ms | p99 ms | ratio to raw rows |\n|---|---|---|---|---|---|---|"
    );
    for (database, raw_rate) in rates {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("bench_runs_{}", std::process::id());
        let url = postgres.filter(|_| *database == "Postgres").map(|server| create_database(server, &name));
        let mut environment = vec![("RUST_LOG", "warn")];
        environment.extend(url.as_deref().map(|url| ("TOOLWRIGHT_DATABASE_URL", url)));
        let server = start(&folder, &environment);
        define(&server);
        let run = request("POST", "/api/v1/ai/agents/durable/execute", r#"{"userMessage":"Continue."}"#);
        for width in [1, 64] {
            load(&server.address, &run, width, Duration::from_secs(1));
            let before = cpu_seconds(server.child.id());
            let runs = load(&server.address, &run, width, DURATION);
            let used = cpu_seconds(server.child.id()) - before;
            let rate = runs.per_second() * calls_per_run as f64;
            println!(
                "| {database} | {width} | {rate:.0} | {:.0} | {:.1} | {:.1} | {:.0} % |",
                1e6 * used / (runs.count() * calls_per_run) as f64,
                runs.percentile(50.0) / 1e3,
                runs.percentile(99.0) / 1e3,
                100.0 * rate / raw_rate
            );
        }
        stop(server.child);
        if let Some(server) = postgres.filter(|_| url.is_some()) {
            drop_database(server, &name);
        }
    }
}

fn create_database(server: &str, name: &str) -> String {
    execute_sql(server, format!("CREATE DATABASE {name}"));
    format!("{server}/{name}")
}

fn drop_database(server: &str, name: &str) {
    execute_sql(server, format!("DROP DATABASE {name} WITH (FORCE)"));
}

fn execute_sql(server: &str, statement: String) {
    use sqlx::{Connection, Executor};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
    });
}

fn define(server: &Server) {
    let tool = json!({
        "refName": "lookup", "description": "Looks up a customer.", "toolType": "FUNCTION", "sideEffects": "reads",
        "invocation": { "path": "echo" }, "outputJsonSchema": {}
    });
    create(server, "tools", &tool);
    let usage = json!({ "inputTokens": 100, "outputTokens": 10 });
    let calls = |turn: usize| -> Vec<Value> {
        (0..CALLS).map(|call| json!({ "name": "lookup", "arguments": { "turn": turn, "call": call } })).collect()
    };
    let turns = (0..TURNS)
        .map(|turn| json!({ "when": { "turn": turn }, "reply": { "toolCalls": calls(turn), "usage": usage } }));
    let script = json!({ "rules": turns.collect::<Vec<_>>(), "otherwise": { "text": "Done.", "usage": usage } });
    let agent = json!({
        "refName": "durable", "systemPrompt": "You look up customers.", "toolRefs": ["lookup"],
        "llmConfig": { "provider": "scripted", "model": "bench", "extraParams": { "script": script } },
        "executionConfig": { "maxIterations": 12, "durable": true }, "policy": { "maxToolCalls": 50 },
        "memoryConfig": { "persistConversation": false }
    });
    create(server, "agents", &agent);
}

pub(crate) fn create(server: &Server, kind: &str, definition: &Value) {
    send_request(&server.address, &request("POST", &format!("/api/v1/ai/{kind}"), &definition.to_string()));
}
