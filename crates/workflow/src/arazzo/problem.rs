//! What cannot be converted, and where.

use std::fmt;

use serde::Serialize;

/// The maximum number of problems that are reported.
const MAX_PROBLEMS: usize = 50;

/// A part of a document or a definition that cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The JSON pointer of the part.
    pub path: String,
    /// The reason, and what can be done.
    pub message: String,
}

impl Problem {
    /// Creates a problem.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects problems up to a limit.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub list: Vec<Problem>,
}

impl Problems {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.push(Problem::new(path, message));
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        if self.list.len() < MAX_PROBLEMS && !self.list.contains(&problem) {
            self.list.push(problem);
        }
    }

    /// Returns the value, or adds the problem.
    pub(crate) fn check<T>(&mut self, path: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.add(path, message)).ok()
    }
}

/// Appends a key to a JSON pointer.
pub(super) fn join(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}
