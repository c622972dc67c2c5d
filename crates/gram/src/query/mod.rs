//! Searches documents with queries that are written as gram patterns. `notation.md` describes the notation and is part
//! of the crate documentation.

mod compile;
mod explain;
mod filter;
mod graph;
mod search;
mod search_order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::diagnostic::Diagnostics;
use crate::model::Pattern;
use filter::PatternFilter;

pub use graph::Graph;

pub(crate) use compile::invalid_query;
pub(crate) use graph::ItemId;

/// A compiled query, which can be run many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The names of all variables; `None` for a variable without a name. A match contains only variables with a name.
    variables: Vec<Option<String>>,
    required: Condition,
    excluded: Vec<Condition>,
}

/// Filters and links of some variables of the query. A match satisfies the required condition and none of the excluded
/// conditions.
#[derive(Debug, Clone, PartialEq, Default)]
struct Condition {
    /// The variables of the condition, without duplicates.
    variables: Vec<usize>,
    filters: Vec<(usize, PatternFilter)>,
    links: Vec<Link>,
}

/// A connection between the items that are bound to variables. The fields are indexes of variables.
#[derive(Debug, Clone, PartialEq)]
enum Link {
    /// `child` is an element of `parent`.
    Contains { parent: usize, child: usize },
    /// The item `relation` is a relation from `from` to `to`. If `undirected` is set, it may also be a relation from
    /// `to` to `from`.
    Related { relation: usize, from: usize, to: usize, undirected: bool },
    /// `to` can be reached from `from` in one or more steps. If `through` is set, each step must be a relation that
    /// matches this filter.
    Reaches { from: usize, to: usize, through: Option<PatternFilter> },
}

/// One match of a query: a pattern for each named variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Match<'g> {
    /// The sorted names of the variables, shared by all matches.
    names: Arc<[String]>,
    /// The item and pattern bound to each name.
    found: Vec<(ItemId, &'g Pattern)>,
}

impl<'g> Match<'g> {
    /// Returns the pattern bound to a variable.
    pub fn get(&self, variable: &str) -> Option<&'g Pattern> {
        self.binding(variable).map(|(_, pattern)| pattern)
    }

    /// Returns all variables with their patterns, sorted by name.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, &'g Pattern)> {
        self.names.iter().zip(&self.found).map(|(name, (_, pattern))| (name.as_str(), *pattern))
    }

    pub(crate) fn item_id(&self, variable: &str) -> Option<ItemId> {
        self.binding(variable).map(|(id, _)| id)
    }

    fn binding(&self, variable: &str) -> Option<(ItemId, &'g Pattern)> {
        let index = self.names.binary_search_by(|name| name.as_str().cmp(variable)).ok()?;
        self.found.get(index).copied()
    }
}

/// The query exceeded the search limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("query exceeds the limit of {limit} search steps; add labels or properties to narrow it")]
pub struct QueryLimitExceeded {
    /// The maximum number of search steps.
    pub limit: u64,
}

impl Query {
    /// Parses a query.
    pub fn parse(source: &str) -> Result<Self, Diagnostics> {
        compile::query(source)
    }

    /// Returns the names of the variables, in the order of the query.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.required.variables.iter().filter_map(|variable| self.variables.get(*variable)?.as_deref())
    }

    /// Returns all matches without duplicates, in the order of the documents.
    pub fn run<'g>(&self, graph: &'g Graph) -> Result<Vec<Match<'g>>, QueryLimitExceeded> {
        search::find_matches(self, graph)
    }

    /// Describes the query, with one sentence for each filter, link and excluded condition.
    pub fn explain(&self) -> Vec<String> {
        explain::describe(self)
    }
}
