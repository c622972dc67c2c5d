//! Agentic tools: tools with an embedded model. A call to an agentic tool starts a run with the agent that the tool
//! contains.

mod draft;
mod outcome;
mod plan_schemas;
mod prompts;
mod rerun;

pub(crate) use draft::AgenticCall;
pub(crate) use outcome::outcome;
pub use outcome::{AgenticResult, agentic_result};
pub(crate) use plan_schemas::PlanSchemas;
pub use prompts::{PromptPreview, PromptReply};
