//! Why a pattern is no definition.

/// What keeps a pattern from being a definition, and which part of it is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Leads from the pattern to the element that is wrong, one index for each level; empty for the pattern itself.
    pub path: Vec<usize>,
    /// What is wrong: a lower-case fragment that names the agent or tool.
    pub message: String,
}

impl Problem {
    pub(crate) fn here(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    pub(crate) fn below(mut self, index: usize) -> Self {
        self.path.insert(0, index);
        self
    }
}

impl From<toolwright_gram::Problem> for Problem {
    fn from(problem: toolwright_gram::Problem) -> Self {
        Self { message: problem.to_string(), path: problem.path }
    }
}
