//! Questions about patterns, written as patterns. The notation is in `notation.md`, which is part of the crate's documentation.

mod compile;
mod explain;
mod graph;
mod plan;
mod solve;
mod test;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::diagnostic::Diagnostics;
use crate::model::Pattern;
use test::Test;

pub use graph::Graph;

pub(crate) use compile::refused;
pub(crate) use graph::Item;

/// A question, ready to be asked many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The names of the variables; those without one are not part of an answer.
    variables: Vec<Option<String>>,
    wanted: Condition,
    unwanted: Vec<Condition>,
}

/// Things that must be found together.
#[derive(Debug, Clone, PartialEq, Default)]
struct Condition {
    /// The variables that occur, each once.
    variables: Vec<usize>,
    tests: Vec<(usize, Test)>,
    links: Vec<Link>,
}

/// How two things belong together. Numbers are variables.
#[derive(Debug, Clone, PartialEq)]
enum Link {
    /// One is an element of the other.
    Contains { whole: usize, part: usize },
    /// A relation leads from one to the other.
    Related { relation: usize, from: usize, to: usize, either_way: bool },
    /// One can be reached from the other.
    Reaches { from: usize, to: usize, through: Option<Test> },
}

/// One answer: a pattern for each named variable of the query.
#[derive(Debug, Clone, PartialEq)]
pub struct Match<'g> {
    /// The names of the variables, in their order. All answers share them.
    names: Arc<[String]>,
    /// What was found for each of them.
    found: Vec<(Item, &'g Pattern)>,
}

impl<'g> Match<'g> {
    /// What was found for a variable.
    pub fn get(&self, variable: &str) -> Option<&'g Pattern> {
        self.of(variable).map(|(_, pattern)| pattern)
    }

    /// What was found for each variable, by name.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, &'g Pattern)> {
        self.names.iter().zip(&self.found).map(|(name, (_, pattern))| (name.as_str(), *pattern))
    }

    pub(crate) fn item(&self, variable: &str) -> Option<Item> {
        self.of(variable).map(|(item, _)| item)
    }

    fn of(&self, variable: &str) -> Option<(Item, &'g Pattern)> {
        let index = self.names.binary_search_by(|name| name.as_str().cmp(variable)).ok()?;
        self.found.get(index).copied()
    }
}

/// A query that asks too much of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the query takes more than {limit} steps; add labels or properties to it")]
pub struct TooMuch {
    /// How many steps a query may take.
    pub limit: u64,
}

impl Query {
    /// Reads a query.
    pub fn parse(source: &str) -> Result<Self, Diagnostics> {
        compile::query(source)
    }

    /// The names of the variables, in the order of the query.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.wanted.variables.iter().filter_map(|variable| self.variables.get(*variable)?.as_deref())
    }

    /// All answers, each once, in the order of the texts.
    pub fn run<'g>(&self, graph: &'g Graph) -> Result<Vec<Match<'g>>, TooMuch> {
        solve::all(self, graph)
    }

    /// What the query asks for, as one sentence for each of its parts.
    pub fn explain(&self) -> Vec<String> {
        explain::sentences(self)
    }
}
