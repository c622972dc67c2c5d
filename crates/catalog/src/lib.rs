//! Validates, stores and compiles definitions, and checks permissions.
//!
//! [`Registry`] validates and writes definitions. [`Catalog`] compiles them and caches the result until a definition
//! changes. [`Access`] decides what a principal may do. This crate does not run tools or agents.

pub mod access;
mod agent;
mod agentic;
mod browser_login;
mod catalog;
mod definition_graph;
pub mod entity_type;
mod error;
pub mod identity;
mod key_watch;
mod model_registry;
pub mod placeholders;
mod reach;
pub mod registry;
mod resolve;
mod schedule;
mod toolset;
mod trigger;
mod workflow;

pub use access::{Access, Denied, Session, execution_target};
pub use agent::CompiledAgent;
pub use agentic::default_prompt;
pub use catalog::{Catalog, ToolsetKey, Versioned, Viewer, select_version};
pub use entity_type::CompiledType;
pub use error::{BoxError, Unavailable};
pub use identity::Identity;
pub use model_registry::{ModelDefaults, ModelInfo, ModelPrice, ModelRegistry};
pub use reach::{Reach, ReachEdge, ReachKind, ReachNode};
pub use registry::Registry;
pub use resolve::{PROPOSE_WORKFLOW, RecordedTool, Resolver, SAVE_WORKFLOW, inline_tool_document};
pub use schedule::{DueTimes, MAX_MISSED_RUNS, Schedule};
pub use toolset::{Toolset, ToolsetMember, VersionedRef, in_categories, is_available_to_agents};
pub use trigger::CompiledTrigger;
pub use workflow::CompiledWorkflow;
