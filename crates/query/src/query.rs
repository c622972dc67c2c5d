//! A text that was found to be a query.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::bind::{Edge, Scope};
use crate::{Asked, BindError, Condition, Filter, ParseError, Plan, asked, bind, plan, syntax};

/// A query, parsed. Its text form is canonical: what is printed is read as an equal query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    root: Condition,
}

impl Query {
    /// Reads a query. Takes time linear in its length.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let root = syntax::parse(source).map_err(|error| error.locate(source))?;
        Ok(Self { root })
    }

    pub(crate) fn of(root: Condition) -> Self {
        Self { root }
    }

    /// The tree, for those who want to look.
    pub fn condition(&self) -> &Condition {
        &self.root
    }

    /// What is asked for beside the filter: related records and parts of documents.
    pub fn plan(&self) -> Plan {
        plan::of(&self.root)
    }

    /// What of a document the answer depends on.
    pub fn asked(&self) -> Asked {
        asked::of(&self.root)
    }

    /// The relations that must be looked up before [`Query::bind`].
    pub fn edges(&self, scope: &Scope<'_>) -> Result<Vec<Edge>, BindError> {
        bind::edges(&self.root, scope)
    }

    /// Puts in what the scope knows; what comes out is ready to be asked many times.
    pub fn bind(&self, scope: &Scope<'_>) -> Result<Filter, BindError> {
        bind::filter(&self.root, scope)
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

/// Asks one document once. To ask many, [`Query::bind`] once.
pub fn matches(query: &Query, document: &Value, scope: &Scope<'_>) -> Result<bool, BindError> {
    Ok(query.bind(scope)?.matches(document))
}
