//! Tests the REST and MCP APIs end to end over HTTP, on SQLite and on Postgres with Redis.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod administration;
mod agent_definitions;
mod agentic_tools;
mod agents;
mod ai_tools;
mod api_records;
mod apply_sets;
mod approval_lists;
mod arazzo;
mod bad_input;
mod browser_sessions;
mod calls;
mod composite_tools;
mod contract;
mod conversations;
mod correlation;
mod csv;
mod definition_inspection;
mod definitions;
mod delegate_approvals;
mod delegates;
mod direct_calls;
mod drift;
mod effect_isolation;
mod effects;
mod event_stream;
mod exports;
mod generated_tools;
mod gram;
mod gram_definitions;
mod grpc;
mod harness;
mod hostile_input;
mod identity;
mod imports;
mod journals;
mod list_queries;
mod logins;
mod materialize;
mod mcp;
mod mcp_imports;
mod model_providers;
mod multi_server;
mod openapi;
mod providers;

mod read_isolation;
mod realm_events;
mod record_permissions;
mod record_rules;
mod records;
mod reference_data;
mod regressions;
mod run_inspection;
mod runs;
mod sql_records;
mod trials;
mod triggers;
mod type_imports;
mod types;
mod undo;
mod versions;
mod webhooks;
mod workflow_agents;
mod workflow_authors;
mod workflow_checks;
mod workflow_restarts;
mod workflow_runs;
mod workflow_timeouts;
mod workflows;

/// Generates two tests from each function, one on SQLite and one on Postgres with Redis.
#[macro_export]
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Storage::Sqlite, |server| super::$name(server)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Storage::PostgresAndRedis, |server| super::$name(server)).await;
            })*
        }
    };
}
