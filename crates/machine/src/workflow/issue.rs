//! Problems of a workflow definition that are found before the workflow runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether an issue prevents the workflow from being saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IssueSeverity {
    /// The workflow cannot be saved.
    Error,
    /// The workflow can be saved and run.
    Warning,
}

/// A problem of a workflow definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowIssue {
    /// Whether the issue prevents the workflow from being saved.
    pub severity: IssueSeverity,
    /// A stable code, such as `unknown_step`.
    pub code: String,
    /// The JSON pointer of the problem in the definition.
    pub path: String,
    /// The problem.
    pub message: String,
    /// How to correct it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl WorkflowIssue {
    /// Creates an error.
    pub fn error(code: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, path, message) = (code.to_owned(), path.into(), message.into());
        Self { severity: IssueSeverity::Error, code, path, message, hint: None }
    }

    /// Creates a warning.
    pub fn warning(code: &str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: IssueSeverity::Warning, ..Self::error(code, path, message) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the issue prevents the workflow from being saved.
    pub fn is_error(&self) -> bool {
        self.severity == IssueSeverity::Error
    }
}

impl fmt::Display for WorkflowIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
