//! Tests of the agent machine through its public API: effects out, events in.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test, also in helpers outside of `#[test]`"
)]

mod agent_loop;
mod approvals;
mod bundles;
mod client_tools;
mod external_writes;
mod fork_states;
mod harness;
mod interrupted_calls;
mod journal;
mod limits;
mod model_errors;
mod pins;
mod plan_approvals;
mod plan_interruptions;
mod plans;
mod policies;
mod predefined_calls;
mod properties;
mod recordings;
mod saved;
mod scheduling;
mod script;
mod tool_messages;
mod views;
