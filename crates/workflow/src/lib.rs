//! Works on definitions of workflows without executing them: compares two definitions, draws a definition as a
//! graph, converts definitions from and to Arazzo, and makes a definition from a recorded run.
//!
//! A definition need not be valid. Its steps are checked elsewhere, when the definition is saved.

pub mod arazzo;
pub mod materialize;

mod diff;
mod edges;
mod graph;

pub use diff::{EdgeChange, FieldChange, StepChange, WorkflowDiff, diff};
pub use edges::{Edge, EdgeKind};
pub use graph::{GraphFormat, MAX_SVG_STEPS, TooManySteps, UnknownFormat, render};
