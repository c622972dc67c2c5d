//! Defines the durable run that several benchmarks measure. A script replaces the model. The script gives eleven
//! replies. Each of the first ten replies requests four calls of a tool that only reads.

use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use crate::server::{Server, request, send_request};

pub(crate) const TURNS: usize = 10;
pub(crate) const CALLS: usize = 4;
/// The number of steps of a run: model calls and tool calls.
pub(crate) const STEPS: usize = TURNS + 1 + TURNS * CALLS;

/// The request that starts a run and waits for its end.
pub(crate) fn run_request() -> Vec<u8> {
    request("POST", "/api/v1/ai/agents/durable/execute", r#"{"userMessage":"Continue."}"#)
}

pub(crate) fn define(server: &Server) {
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

/// A Postgres database. Dropping the value deletes the database.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Creates a database on the Postgres server at the URL `server`.
    pub(crate) fn create(server: &str, purpose: &str) -> Self {
        let database = Self { server: server.to_owned(), name: format!("bench_{purpose}_{}", std::process::id()) };
        database.execute(format!("CREATE DATABASE {}", database.name));
        database
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    fn execute(&self, statement: String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::PgConnection::connect(&format!("{}/postgres", self.server)).await.unwrap();
            connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.execute(format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
