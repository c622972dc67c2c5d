//! A parsed query.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::bind::{BindContext, Edge};
use crate::{Condition, Dependencies, Filter, ParseError, QueryBindError, bind, dependencies, syntax};

/// A parsed query. Its `Display` form is canonical and parses to an equal query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    root: Condition,
}

impl Query {
    /// Parses a query in time linear in its length.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let root = syntax::parse(source).map_err(|error| error.locate(source))?;
        Ok(Self { root })
    }

    pub(crate) fn from_condition(root: Condition) -> Self {
        Self { root }
    }

    /// The syntax tree.
    pub fn condition(&self) -> &Condition {
        &self.root
    }

    /// Returns the parts of a document that the query depends on.
    pub fn dependencies(&self) -> Dependencies {
        dependencies::from_condition(&self.root)
    }

    /// Returns the relations that must be resolved before [`Query::bind`].
    pub fn edges(&self, context: &BindContext<'_>) -> Result<Vec<Edge>, QueryBindError> {
        bind::edges(&self.root, context)
    }

    /// Binds variables and relations. The filter can be used for many documents.
    pub fn bind(&self, context: &BindContext<'_>) -> Result<Filter, QueryBindError> {
        bind::filter(&self.root, context)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl FromStr for Query {
    type Err = ParseError;

    fn from_str(source: &str) -> Result<Self, ParseError> {
        Self::parse(source)
    }
}

/// Matches a single document. To match many documents, call [`Query::bind`] once.
pub fn matches(query: &Query, document: &Value, context: &BindContext<'_>) -> Result<bool, QueryBindError> {
    Ok(query.bind(context)?.matches(document))
}
