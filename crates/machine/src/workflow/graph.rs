//! The compiled graph of a workflow: expressions are parsed, and steps refer to each other by position.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwright_expr::Template;
use toolwright_types::step_handlers::{
    BRANCH, EXECUTE_WORKFLOW, FORM, INVOKE_AGENT, JOIN, REQUEST_APPROVAL, SLEEP, TRANSFORM, WAIT_FOR_SIGNAL,
};
use toolwright_types::{ErrorCode, RetryDelays, StepRegistration, WorkflowDefinition, WorkflowStep};

use super::branch::CompiledBranch;
use super::references::{CompiledValue, StepNames};
use super::{WorkflowIssue, compile};

/// What a built-in handler does. `None` if the name is not a built-in handler.
pub(super) fn built_in_handler(handler_ref: &str) -> Option<HandlerKind> {
    Some(match handler_ref {
        TRANSFORM => HandlerKind::Transform,
        BRANCH => HandlerKind::Branch,
        JOIN => HandlerKind::Join,
        SLEEP => HandlerKind::Sleep,
        WAIT_FOR_SIGNAL => HandlerKind::WaitForSignal,
        INVOKE_AGENT | EXECUTE_WORKFLOW | REQUEST_APPROVAL | FORM => {
            HandlerKind::Call { tool: handler_ref.to_owned(), version: None }
        }
        _ => return None,
    })
}

/// A workflow with the other definitions that decide what its steps do. This is the stored form of a
/// [`WorkflowGraph`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowSource {
    /// The definition.
    pub definition: Arc<WorkflowDefinition>,
    /// The step registrations that its steps use, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub registrations: BTreeMap<String, StepRegistration>,
    /// The conditions that its steps use, by the name of their binding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, String>,
}

/// The compiled graph of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "WorkflowSource", into = "WorkflowSource")]
pub struct WorkflowGraph {
    pub(crate) source: WorkflowSource,
    pub(crate) steps: Vec<GraphStep>,
    /// The position of each step, by name.
    pub(crate) positions: HashMap<String, u32>,
    /// The steps on which no other step depends.
    pub(crate) leaves: Vec<u32>,
    pub(crate) output: Option<CompiledValue>,
    pub(super) warnings: Vec<WorkflowIssue>,
}

/// A compiled step.
#[derive(Debug, Clone)]
pub struct GraphStep {
    /// The name of the step.
    pub name: String,
    /// What the step does.
    pub kind: HandlerKind,
    /// The number of edges that lead to this step.
    pub(crate) dependencies: u32,
    /// The edges to the steps that wait for this step.
    pub edges: Vec<Edge>,
    /// Whether the step runs only after an error of another step.
    pub(crate) is_error_target: bool,
    /// The conditions, each with the name of its field.
    pub(crate) conditions: Vec<(&'static str, CompiledValue)>,
    pub(crate) input: CompiledValue,
    pub(crate) branch: Option<CompiledBranch>,
    pub(crate) items: Option<CompiledItems>,
    pub(crate) mappings: Option<Box<CompiledMappings>>,
    pub(crate) retry: Option<CompiledRetry>,
    pub(crate) timeout_ms: Option<u64>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerKind {
    /// Calls a tool: a tool of the realm, or a built-in tool that runs an agent or a workflow or asks a person or client.
    Call {
        /// The name of the tool.
        tool: String,
        /// The version requirement.
        version: Option<String>,
    },
    /// Computes a value.
    Transform,
    /// Selects the first case whose condition is true.
    Branch,
    /// Collects the outputs of its dependencies.
    Join,
    /// Waits for a time.
    Sleep,
    /// Waits for a signal.
    WaitForSignal,
}

/// An edge from a step to a step that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The position of the waiting step.
    pub to: u32,
    /// How the step waits.
    pub kind: EdgeKind,
}

/// How a step waits for another step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeKind {
    /// The step depends on the other step.
    Dependency,
    /// The step depends on a case of a branch. If the branch selects another case, the branch counts as skipped.
    Case(String),
    /// The step runs after an error of the other step.
    Error,
}

/// The list of a `forEach`.
#[derive(Debug, Clone)]
pub(crate) struct CompiledItems {
    pub list: CompiledValue,
    pub concurrency: u32,
}

/// The mappings of a step registration.
#[derive(Debug, Clone)]
pub(crate) struct CompiledMappings {
    /// The fields of the tool's input.
    pub input: Vec<(String, Template)>,
    /// The fields of the step's input that `input` reads. `None` if it reads the whole input.
    pub read_fields: Option<BTreeSet<String>>,
    /// The fields of the step's output.
    pub output: Vec<(String, Template)>,
}

/// When a step is repeated.
#[derive(Debug, Clone)]
pub(crate) struct CompiledRetry {
    pub max_attempts: u32,
    pub delays: RetryDelays,
    pub codes: Vec<ErrorCode>,
}

/// The error codes after which a step is repeated, unless its policy lists others.
pub(super) const RETRIED_CODES: [ErrorCode; 4] =
    [ErrorCode::Timeout, ErrorCode::RateLimit, ErrorCode::ProviderError, ErrorCode::NetworkError];
/// The default delay before the first retry, in milliseconds.
pub(super) const RETRY_DELAY_MS: u64 = 1000;
/// The default maximum delay before a retry, in milliseconds.
pub(super) const MAX_RETRY_DELAY_MS: u64 = 60_000;

/// The names that the expressions of a step with a `forEach` can also use.
pub(super) const ITEM_NAMES: [&str; 2] = ["item", "index"];

impl WorkflowGraph {
    /// Compiles a workflow. Returns all issues if one of them is an error.
    pub fn compile(source: WorkflowSource) -> Result<Self, Vec<WorkflowIssue>> {
        compile::compile(source)
    }

    /// The definition.
    pub fn definition(&self) -> &WorkflowDefinition {
        &self.source.definition
    }

    /// The definition with the registrations and conditions that its steps use.
    pub fn source(&self) -> &WorkflowSource {
        &self.source
    }

    /// The compiled steps, in the order of the definition.
    pub fn steps(&self) -> &[GraphStep] {
        &self.steps
    }

    /// The position of a step.
    pub fn position(&self, name: &str) -> Option<u32> {
        self.positions.get(name).copied()
    }

    /// Returns a step and its definition.
    pub(crate) fn step(&self, position: u32) -> Option<(&GraphStep, &WorkflowStep)> {
        let position = usize::try_from(position).ok()?;
        self.steps.get(position).zip(self.source.definition.steps.get(position))
    }

    /// The names that expressions of the workflow can use.
    pub(super) fn names(&self) -> StepNames {
        let named = self.source.definition.steps.iter().zip(0_u32..);
        let outputs = named.filter_map(|(step, at)| Some((step.output_as.clone()?, at))).collect();
        StepNames { steps: self.positions.clone(), outputs }
    }

    /// The tools that the steps call, each with its version requirement.
    pub fn tools(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.steps.iter().filter_map(|step| match &step.kind {
            HandlerKind::Call { tool, version } => Some((tool.as_str(), version.as_deref())),
            _ => None,
        })
    }

    /// Problems that do not prevent the workflow from running.
    pub fn warnings(&self) -> &[WorkflowIssue] {
        &self.warnings
    }
}

impl GraphStep {
    /// Whether a step registration changes the output of the tool.
    pub fn has_output_mapping(&self) -> bool {
        self.mappings.as_ref().is_some_and(|mappings| !mappings.output.is_empty())
    }

    /// The values of the step that contain expressions. Each value has the path of its field in the step, and the names
    /// that only it can use.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Cow<'static, str>, &CompiledValue, &'static [&'static str])> {
        let item_names: &[&str] = if self.items.is_some() { &ITEM_NAMES } else { &[] };
        let conditions =
            self.conditions.iter().map(|(field, condition)| (Cow::Borrowed(*field), condition, [].as_slice()));
        let items = self.items.iter().map(|items| (Cow::Borrowed("forEach/items"), &items.list, [].as_slice()));
        let cases = self.branch.iter().flat_map(|branch| branch.cases.iter().enumerate());
        let cases = cases.map(|(at, (_, when))| (Cow::Owned(format!("input/cases/{at}/when")), when, [].as_slice()));
        conditions.chain(items).chain(cases).chain([(Cow::Borrowed("input"), &self.input, item_names)])
    }
}

impl PartialEq for WorkflowGraph {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl From<WorkflowGraph> for WorkflowSource {
    fn from(graph: WorkflowGraph) -> Self {
        graph.source
    }
}

impl TryFrom<WorkflowSource> for WorkflowGraph {
    type Error = String;

    fn try_from(source: WorkflowSource) -> Result<Self, String> {
        Self::compile(source).map_err(|issues| {
            let errors = issues.iter().filter(|issue| issue.is_error()).map(ToString::to_string);
            errors.collect::<Vec<_>>().join("; ")
        })
    }
}
