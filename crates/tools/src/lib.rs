//! Tools and the one path every call takes.
//!
//! [`Tool`] is what a Rust author writes, [`Library`] binds implementations at run time, and [`Executor`] is the
//! only way to a result: [`Executor::prepare`], a decision, [`Executor::call`]. Models, agents, stores and HTTP
//! routes are not here; what the executor needs from outside arrives through the traits in [`ports`].

pub mod builtin;
mod compiled;
mod context;
pub mod drift;
mod entity;
pub mod executor;
pub mod export;
mod failure;
mod functions;
pub mod http;
mod library;
pub mod ports;
mod schema;
mod search;
mod subsume;
mod tool;

pub use compiled::{CompiledTool, DefinitionIssue, Issues, LANGUAGES, writes_silently};
pub use context::{Allowance, CallContext, Caller, Found, Hearing, Lent, Step, Toolbox, Word};
pub use entity::{EntityNaming, EntityRelation, EntityType};
pub use executor::{CallRequest, CallSequence, ClientAction, Executor, Outcome, Prepared, ReadyCall};
pub use failure::ToolFailure;
pub use functions::Functions;
pub use library::{BindError, Library};
pub use schema::{Schema, Violation};
pub use search::SearchIndex;
pub use subsume::{Mismatch, accepts};
pub use tool::{DynTool, FunctionTool, Tool, ToolCx, ToolSpec, Typed};
