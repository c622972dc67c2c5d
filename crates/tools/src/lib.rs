//! Tool definitions and the executor that runs every tool call.
//!
//! [`Tool`] is the trait that Rust authors implement, [`Library`] binds implementations at run time, and [`Executor`]
//! performs calls in two steps. [`Executor::prepare`] resolves, authorizes and validates a call. Then the caller
//! decides whether [`Executor::call`] performs it. This crate contains no models, agents, stores or HTTP routes. The
//! executor uses external systems through the traits in [`ports`].

mod agentic;
pub mod builtin;
mod compile;
mod compiled;
mod composite;
mod context;
pub mod drift;
mod entity;
pub mod executor;
pub mod export;
mod failure;
mod function_backend;
pub mod http;
mod http_client;
mod issues;
mod library;
pub mod ports;
mod price;
mod run_function;
mod schema;
mod search;
mod subsumption;
mod tool;

pub use agentic::default_agentic_input;
pub use compile::{CODE_LANGUAGES, has_undeclared_writes};
pub use compiled::CompiledTool;
pub use composite::{CompiledComposite, CompiledOperation, MappedParameters, ToolReference};
pub use context::{
    Allowance, CallContext, CallProgress, CallResources, CallerInfo, ToolMatch, Toolbox, UpdateReceiver, UpdateSender,
};
pub use entity::{EntityRelation, EntitySpec, EntityType};
pub use executor::{CallOutcome, CallRequest, CallSequence, ClientAction, Executor, Preparation, ReadyCall};
pub use failure::ToolFailure;
pub use function_backend::FunctionBackend;
pub use issues::{DefinitionIssue, Issues};
pub use library::{FunctionBindError, Library};
pub use run_function::RunFunction;
pub use schema::{Rejection, Schema, Violation};
pub use search::SearchIndex;
pub use subsumption::{SchemaMismatch, check_accepts};
pub use tool::{DynTool, FunctionTool, Tool, ToolCx, ToolSpec, TypedTool};
