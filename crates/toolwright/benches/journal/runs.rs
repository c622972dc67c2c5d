//! Durable runs through the whole server: every model call and every tool call is committed before anything follows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::entries::Rates;
use crate::server::{Server, ask, cpu, load, request, start, stop};

const TURNS: usize = 10;
const CALLS: usize = 4;
const DURATION: Duration = Duration::from_secs(6);

pub fn measure(postgres: Option<&str>, rates: &Rates) {
    let steps = TURNS + 1 + TURNS * CALLS;
    println!("\nDurable runs of {} model calls and {} tool calls over REST.\n", TURNS + 1, TURNS * CALLS);
    println!(
        "| database | runs at once | steps/s | CPU µs per step | p50 ms | p99 ms | of the rows by hand |\n|---|---|---|---|---|---|---|"
    );
    for (database, by_hand) in rates {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("bench_runs_{}", std::process::id());
        let url = postgres.filter(|_| *database == "Postgres").map(|server| create_database(server, &name));
        let mut environment = vec![("RUST_LOG", "warn")];
        environment.extend(url.as_deref().map(|url| ("TOOLWRIGHT_DATABASE_URL", url)));
        let server = start(&folder, &environment);
        define(&server);
        let run = request("POST", "/api/v1/ai/agents/durable/execute", r#"{"userMessage":"Go on."}"#);
        for width in [1, 64] {
            load(&server.address, &run, width, Duration::from_secs(1));
            let before = cpu(server.child.id());
            let runs = load(&server.address, &run, width, DURATION);
            let used = cpu(server.child.id()) - before;
            let rate = runs.per_second() * steps as f64;
            println!(
                "| {database} | {width} | {rate:.0} | {:.0} | {:.1} | {:.1} | {:.0} % |",
                1e6 * used / (runs.count() * steps) as f64,
                runs.percentile(50.0) / 1e3,
                runs.percentile(99.0) / 1e3,
                100.0 * rate / by_hand
            );
        }
        stop(server.child);
        if let Some(server) = postgres.filter(|_| url.is_some()) {
            drop_database(server, &name);
        }
    }
}

fn create_database(server: &str, name: &str) -> String {
    administer(server, format!("CREATE DATABASE {name}"));
    format!("{server}/{name}")
}

fn drop_database(server: &str, name: &str) {
    administer(server, format!("DROP DATABASE {name} WITH (FORCE)"));
}

fn administer(server: &str, statement: String) {
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

pub fn create(server: &Server, kind: &str, definition: &Value) {
    ask(&server.address, &request("POST", &format!("/api/v1/ai/{kind}"), &definition.to_string()));
}
