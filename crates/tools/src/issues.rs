//! The problems that make a definition invalid.

use serde::Serialize;

/// A problem in a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionIssue {
    /// The JSON pointer of the problem.
    pub path: String,
    /// The broken rule, and how to satisfy it.
    pub message: String,
}

/// All problems in a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
#[error("{}", .0.iter().map(|issue| format!("{}: {}", issue.path, issue.message)).collect::<Vec<_>>().join("; "))]
pub struct Issues(pub Vec<DefinitionIssue>);

impl Issues {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(DefinitionIssue { path: path.into(), message: message.into() });
    }

    /// Returns the value, or records the error under `path`.
    pub(crate) fn check<T, E: std::fmt::Display>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }
}
