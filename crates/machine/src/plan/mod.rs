//! Execution plans. A model writes the parameters for a fixed sequence of tools once. The run then executes the
//! sequence without asking the model again.
//!
//! ```json
//! {
//!   "reasoning": "Find the deals of Acme Corp on all pages, then update each of them.",
//!   "steps": [
//!     { "step": 1, "parameters": { "company": "Acme Corp" },
//!       "paging": { "items": "${page.results}", "next": { "after": "${page.nextCursor}" } } },
//!     { "step": 2, "forEach": "${steps.1.items}", "parameters": { "id": "${item.id}", "stage": "negotiation" } }
//!   ]
//! }
//! ```
//!
//! This module defines plans and the results of their steps. `agent/planned.rs` connects it to the machine of a run.
//! The machine prepares, decides and executes the calls of a plan like the calls of a model.

mod check;
mod document;
mod interruption;
mod progress;
mod report;
mod schema;
mod spec;
mod step;

pub use check::PlanIssue;
pub use document::{Paging, Plan, PlannedStep};
pub use interruption::InterruptedCalls;
pub use progress::{CallResult, NextCalls, PlanProgress, StepFailure};
pub use report::{StepReport, StepStatus};
pub use schema::{plan_schema, step_schemas};
pub use spec::{PlanSpec, SequenceStep};
pub(crate) use step::plan_error_reason;
