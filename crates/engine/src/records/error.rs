//! Why records could not be read or written.

use toolwright_query::Position;
use toolwright_tools::Violation;
use toolwright_types::ToolError;

use crate::Unavailable;
use crate::access::Denied;

/// Why records could not be read or written. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is no such type.
    #[error("there is no type `{name}` in realm `{realm}`; `rootTypes` lists those there are")]
    UnknownType {
        /// The name that was given.
        name: String,
        /// Where it was looked for.
        realm: String,
    },
    /// A query, order, cursor or list of fields that cannot be used.
    #[error("{}: {message}", .part.noun())]
    Asked {
        /// Which of them.
        part: Part,
        /// What is wrong, and what would be right.
        message: String,
        /// Where in its text.
        position: Option<Position>,
    },
    /// A record that does not fit its type.
    #[error("the record does not fit type `{name}`{}", first(.violations))]
    Invalid {
        /// The type.
        name: String,
        /// Every place that is wrong.
        violations: Vec<Violation>,
    },
    /// There is no such record, or not for this one.
    #[error("there is no record `{id}` of type `{name}`")]
    NoRecord {
        /// The type.
        name: String,
        /// The id.
        id: String,
    },
    /// A record that was to be made is there.
    #[error("record `{id}` of type `{name}` already exists; change it, or leave the id out")]
    Duplicate {
        /// The type.
        name: String,
        /// The id.
        id: String,
    },
    /// Someone else wrote in between.
    #[error("record `{id}` is at version {current}, not at the one you read; read it again and repeat your change")]
    Conflict {
        /// The id.
        id: String,
        /// The version it has.
        current: i64,
    },
    /// A rule does not let the record become so.
    #[error("{0}")]
    Refused(String),
    /// Everything would be removed, and nobody said so.
    #[error("without a query this would remove every record of type `{0}`; say `\"all\": true` if that is meant")]
    Everything(String),
    /// The place where the records are cannot be asked, until somebody changes something.
    #[error("the records of type `{name}` cannot be reached: {message}")]
    Elsewhere {
        /// The type.
        name: String,
        /// What is wrong, and what would help.
        message: String,
    },
    /// A tool that the records are behind failed.
    #[error("the records of type `{name}` cannot be read: tool `{tool}` ended with {}: {}", .error.code, .error.message)]
    Tool {
        /// The type.
        name: String,
        /// The tool.
        tool: String,
        /// Why.
        error: Box<ToolError>,
    },
    /// A part of the server failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What of a question is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The query.
    Query,
    /// The order.
    Sort,
    /// The list of fields.
    Fields,
    /// The cursor.
    Cursor,
    /// The variables.
    Variables,
    /// The version that was read.
    Version,
    /// The columns of a table.
    Columns,
    /// The text of a table.
    Text,
}

impl Part {
    /// What people call it.
    pub fn noun(self) -> &'static str {
        match self {
            Part::Query => "query",
            Part::Sort => "sort",
            Part::Fields => "fields",
            Part::Cursor => "cursor",
            Part::Variables => "variables",
            Part::Version => "version",
            Part::Columns => "columns",
            Part::Text => "text",
        }
    }
}

impl RecordError {
    pub(super) fn asked(part: Part, message: impl Into<String>) -> Self {
        RecordError::Asked { part, message: message.into(), position: None }
    }

    /// A list of fields that cannot be read.
    pub(crate) fn fields(error: &toolwright_query::ParseError) -> Self {
        Self::unreadable(Part::Fields, error)
    }

    /// A text that ends within quotes.
    pub(super) fn open_quote(position: Position) -> Self {
        let Position { line, column, .. } = position;
        let message = format!("the quote at line {line}, column {column} is never closed; nothing was imported");
        RecordError::Asked { part: Part::Text, message, position: Some(position) }
    }

    /// A record that its place does not take.
    pub(super) fn refused(name: &str, violation: Violation) -> Self {
        RecordError::Invalid { name: name.to_owned(), violations: vec![violation] }
    }

    /// One place of a record that does not fit.
    pub(super) fn unfit(name: &str, path: &str, message: impl Into<String>) -> Self {
        let violations = vec![Violation { path: path.to_owned(), message: message.into() }];
        RecordError::Invalid { name: name.to_owned(), violations }
    }

    pub(super) fn unstorable(name: &str, error: &toolwright_store::InvalidBody) -> Self {
        Self::unfit(name, "", error.to_string())
    }

    pub(super) fn unreadable(part: Part, error: &toolwright_query::ParseError) -> Self {
        RecordError::Asked { part, message: error.message().to_owned(), position: Some(error.position()) }
    }
}

impl From<toolwright_store::Unavailable> for RecordError {
    fn from(error: toolwright_store::Unavailable) -> Self {
        RecordError::Unavailable(error.into())
    }
}

/// The first violation and how many there are; all of them stand beside it.
fn first(violations: &[Violation]) -> String {
    match violations {
        [] => String::new(),
        [one] => format!(": {}", told(one)),
        [one, ..] => format!(" in {} places, the first: {}", violations.len(), told(one)),
    }
}

fn told(violation: &Violation) -> String {
    match violation.path.as_str() {
        "" => violation.message.clone(),
        path => format!("{path}: {}", violation.message),
    }
}
