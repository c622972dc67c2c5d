//! Decisions without effects: what a run does next, as a function of what has happened.
//!
//! Not here: IO, await, clocks, randomness, stores and schema validation. A driver performs the effects a machine asks
//! for and tells it what came of them; every moment in time arrives with such an event. So a run can be tested by the
//! thousand, saved at any step, and replayed to the byte.

pub mod agent;
mod filter;
pub mod journal;
mod limits;
mod outputs;
mod pins;
mod policy;
mod status;
pub mod timeline;
pub mod trial;
pub mod view;

pub use agent::AgentRun;
pub use filter::{AppliesTo, ContentFilter, FilterRules, InvalidFilter};
pub use limits::{Breach, Limits, Spent};
pub use outputs::AgentOutputs;
pub use pins::{PinError, resolve_pins};
pub use policy::{Guardrail, InvalidGuardrail, Knob, Policy, means_delete};
pub use status::Ending;
pub use toolwright_types::RunStatus;
