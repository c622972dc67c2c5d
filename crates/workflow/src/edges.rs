//! The edges between the steps of a workflow.

use std::collections::BTreeMap;

use serde::Serialize;
use toolwright_types::{OnError, WorkflowDefinition};

/// Why one step runs after another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum EdgeKind {
    /// The step depends on the other step.
    Dependency,
    /// The step depends on a case of a branch.
    Case {
        /// The name of the case.
        case: String,
    },
    /// The step runs after the failure of the other step.
    Error {
        /// The error codes, or `default`. Empty for a fallback, which runs after every error.
        codes: Vec<String>,
    },
}

/// An edge between two steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Edge {
    /// The step that ends first.
    pub from: String,
    /// The step that runs afterwards.
    pub to: String,
    /// Why it runs.
    #[serde(flatten)]
    pub kind: EdgeKind,
}

impl EdgeKind {
    /// A short text for the edge. Empty for a dependency.
    pub fn label(&self) -> String {
        match self {
            EdgeKind::Dependency => String::new(),
            EdgeKind::Case { case } => case.clone(),
            EdgeKind::Error { codes } if codes.is_empty() => "error".to_owned(),
            EdgeKind::Error { codes } => codes.join(", "),
        }
    }
}

/// Returns the edges in the order of the steps at which they are written. An edge may name a step that does not exist.
pub(crate) fn edges(workflow: &WorkflowDefinition) -> Vec<Edge> {
    let mut edges = Vec::new();
    for step in &workflow.steps {
        for dependency in &step.depends_on {
            let (from, kind) = match dependency.split_once('.') {
                Some((from, case)) => (from, EdgeKind::Case { case: case.to_owned() }),
                None => (dependency.as_str(), EdgeKind::Dependency),
            };
            edges.push(Edge { from: from.to_owned(), to: step.name.clone(), kind });
        }
        for (target, codes) in error_routes(&step.on_error) {
            edges.push(Edge { from: step.name.clone(), to: target.to_owned(), kind: EdgeKind::Error { codes } });
        }
    }
    edges
}

/// The targets of the error routes, each with the codes that lead to it.
fn error_routes(on_error: &OnError) -> BTreeMap<&str, Vec<String>> {
    let mut routes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    match on_error {
        OnError::Fail | OnError::Continue => {}
        OnError::Fallback(target) => drop(routes.insert(target, Vec::new())),
        OnError::Branch(branch) => {
            for (code, target) in &branch.codes {
                routes.entry(target).or_default().push(code.clone());
            }
            if let Some(target) = &branch.default {
                routes.entry(target).or_default().push("default".to_owned());
            }
        }
    }
    routes
}
