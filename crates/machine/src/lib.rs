//! The run machine: computes the next effects of a run from the events so far.
//!
//! This crate contains no IO, async code, clocks, randomness, stores or schema validation. A driver performs the
//! effects that a machine requests and reports their outcomes as events. Every timestamp arrives with an event. A run
//! can therefore be tested without a server, saved after any event, and replayed with the same result.

pub mod agent;
mod filter;
pub mod journal;
mod limits;
mod outputs;
mod pins;
pub mod plan;
mod policy;
mod status;
pub mod timeline;
pub mod trial;
pub mod view;
pub mod workflow;

pub use agent::AgentRun;
pub use filter::{AppliesTo, ContentFilter, FilterRules, InvalidFilter};
pub use limits::{Breach, Limits, ResourceUsage};
pub use outputs::AgentOutputs;
pub use pins::{PinError, resolve_pins};
pub use policy::{ApprovalTrigger, Guardrail, InvalidGuardrail, Policy, is_delete_tool};
pub use status::Ending;
pub use toolwright_types::RunStatus;

/// Whether a field has its default and is left out of a journal entry.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
