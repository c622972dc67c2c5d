//! The REST surface over real HTTP, the same tests on SQLite and on Postgres with Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent_definitions;
mod agents;
mod attacks;
mod bad_input;
mod calls;
mod conversations;
mod definitions;
mod delegates;
mod direct;
mod drift;
mod edges;
mod elsewhere;
mod generated;
mod gram;
mod grpc;
mod harness;
mod identity;
mod imports;
mod journals;
mod logins;
mod matching;
mod mcp;
mod mcp_imports;
mod model_providers;
mod openapi;
mod record_permissions;
mod record_rules;
mod records;
mod references;
mod resources;
mod runs;
mod shared;
mod surface;
mod tables;
mod trials;
mod type_imports;
mod types;
mod undo;

/// Makes one test per edition of the server from each function.
#[macro_export]
macro_rules! on_both_editions {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Edition::Sqlite, |server| super::$name(server)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Edition::PostgresAndRedis, |server| super::$name(server)).await;
            })*
        }
    };
}
