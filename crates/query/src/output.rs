//! The output options of a query: `expand(…)` and `fields:[…]`. They determine which fields and related records are
//! returned, and do not filter documents.

use crate::{Condition, Projection, Query};

/// The parts of a query that determine which fields and related records are returned.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputOptions {
    /// Whether related records are included.
    pub mode: QueryMode,
    /// The `expand(…)` calls of the query, in order.
    pub expand: Vec<Expansion>,
    /// All `fields:[…]` of the query, merged into one projection.
    pub fields: Option<Projection>,
}

/// Whether a query only filters or also includes related records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryMode {
    /// Returns documents without related records.
    Filter,
    /// Returns documents with related records.
    Aggregation,
}

/// One `expand(…)` call.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// The path, such as `orders[*].lines`. For `expand(path)` inside `field:{…}`, this is `field[*].path`.
    pub path: String,
    /// A filter for the related records.
    pub filter: Option<Query>,
}

impl Query {
    /// Returns the expansions and projections of the query.
    pub fn output_options(&self) -> OutputOptions {
        from_condition(self.condition())
    }
}

fn from_condition(root: &Condition) -> OutputOptions {
    let mut output = OutputOptions { mode: QueryMode::Filter, expand: Vec::new(), fields: None };
    collect(root, "", &mut output);
    if !output.expand.is_empty() {
        output.mode = QueryMode::Aggregation;
    }
    output
}

fn collect(condition: &Condition, within: &str, output: &mut OutputOptions) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => parts.iter().for_each(|part| collect(part, within, output)),
        Condition::Not(inner) => collect(inner, within, output),
        Condition::Element { field, inner } => collect(inner, &format!("{within}{field}[*]."), output),
        Condition::Expand { path, filter } => {
            let filter = filter.as_ref().map(|filter| Query::from_condition(filter.as_ref().clone()));
            output.expand.push(Expansion { path: format!("{within}{path}"), filter });
        }
        Condition::Fields(fields) => output.fields.get_or_insert_default().extend(within, fields),
        _ => {}
    }
}
