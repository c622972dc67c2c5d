//! Errors of reading and writing records.

use toolwright_query::Position;
use toolwright_tools::Violation;
use toolwright_types::ToolError;

use toolwright_catalog::Denied;
use toolwright_catalog::Unavailable;

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The principal lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The type does not exist.
    #[error("there is no type `{name}` in realm `{realm}`; `rootTypes` lists the types")]
    UnknownType {
        /// The requested name.
        name: String,
        /// The realm that was searched.
        realm: String,
    },
    /// A part of the request is invalid, such as the query, the sort order or the cursor.
    #[error("{}: {message}", .part.as_str())]
    InvalidRequest {
        /// The invalid part.
        part: RequestPart,
        /// The broken rule and the remedy.
        message: String,
        /// The position of the error in the text of the invalid part.
        position: Option<Position>,
    },
    /// The record violates the schema of its type.
    #[error("the record does not match type `{name}`{}", summarize(.violations))]
    Invalid {
        /// The name of the entity type.
        name: String,
        /// Every violation.
        violations: Vec<Violation>,
    },
    /// The record does not exist, or the principal may not see it.
    #[error("there is no record `{id}` of type `{name}`")]
    UnknownRecord {
        /// The name of the entity type.
        name: String,
        /// The id.
        id: String,
    },
    /// The record cannot be created, because a record with its id already exists.
    #[error("record `{id}` of type `{name}` already exists; update it, or omit the id")]
    Duplicate {
        /// The name of the entity type.
        name: String,
        /// The id.
        id: String,
    },
    /// The stored record has another version than the one that the caller read.
    #[error("record `{id}` is at version {current}, not at the one you read; read it again and repeat your change")]
    Conflict {
        /// The id.
        id: String,
        /// The current version.
        current: i64,
    },
    /// A record rule or a read-only source forbids the change.
    #[error("{0}")]
    Forbidden(String),
    /// A deletion has no filter and no confirmation that every record is to be deleted.
    #[error("without a query this would delete every record of type `{0}`; send `\"all\": true` to confirm")]
    MissingFilter(String),
    /// The external source of the records is misconfigured.
    #[error("the records of type `{name}` cannot be reached: {message}")]
    ExternalSource {
        /// The name of the entity type.
        name: String,
        /// The cause and the remedy.
        message: String,
    },
    /// The tool that reads the records from an API failed.
    #[error("the records of type `{name}` cannot be read: tool `{tool}` failed with {}: {}", .error.code, .error.message)]
    Tool {
        /// The name of the entity type.
        name: String,
        /// The tool.
        tool: String,
        /// The error of the tool.
        error: Box<ToolError>,
    },
    /// A dependency of the server failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPart {
    /// The query.
    Query,
    /// The sort order.
    Sort,
    /// The list of fields.
    Fields,
    /// The cursor.
    Cursor,
    /// The variables.
    Variables,
    /// The expected version.
    Version,
    /// The columns of a CSV file.
    Columns,
    /// The text of a CSV file.
    Text,
}

impl RequestPart {
    /// The name of the part in requests and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestPart::Query => "query",
            RequestPart::Sort => "sort",
            RequestPart::Fields => "fields",
            RequestPart::Cursor => "cursor",
            RequestPart::Variables => "variables",
            RequestPart::Version => "version",
            RequestPart::Columns => "columns",
            RequestPart::Text => "text",
        }
    }
}

impl RecordError {
    pub(super) fn invalid_request(part: RequestPart, message: impl Into<String>) -> Self {
        RecordError::InvalidRequest { part, message: message.into(), position: None }
    }

    /// An error in a list of fields.
    pub fn invalid_fields(error: &toolwright_query::ParseError) -> Self {
        Self::from_parse_error(RequestPart::Fields, error)
    }

    /// An error for CSV text that ends inside a quoted cell.
    pub(super) fn unclosed_quote(position: Position) -> Self {
        let Position { line, column, .. } = position;
        let message = format!("the quote at line {line}, column {column} is never closed; nothing was imported");
        RecordError::InvalidRequest { part: RequestPart::Text, message, position: Some(position) }
    }

    /// An error for a record that its source rejected.
    pub(super) fn from_violation(name: &str, violation: Violation) -> Self {
        RecordError::Invalid { name: name.to_owned(), violations: vec![violation] }
    }

    /// An error for a record with one violation, at `path`.
    pub(super) fn invalid_record(name: &str, path: &str, message: impl Into<String>) -> Self {
        let violations = vec![Violation { path: path.to_owned(), message: message.into() }];
        RecordError::Invalid { name: name.to_owned(), violations }
    }

    pub(super) fn from_invalid_body(name: &str, error: &toolwright_store::InvalidBody) -> Self {
        Self::invalid_record(name, "", error.to_string())
    }

    pub(super) fn from_parse_error(part: RequestPart, error: &toolwright_query::ParseError) -> Self {
        RecordError::InvalidRequest { part, message: error.message().to_owned(), position: Some(error.position()) }
    }
}

impl From<toolwright_store::StoreError> for RecordError {
    fn from(error: toolwright_store::StoreError) -> Self {
        RecordError::Unavailable(error.into())
    }
}

/// Returns the first violation and the number of violations. The error itself has the full list.
fn summarize(violations: &[Violation]) -> String {
    match violations {
        [] => String::new(),
        [one] => format!(": {}", describe(one)),
        [one, ..] => format!(" in {} places, the first: {}", violations.len(), describe(one)),
    }
}

fn describe(violation: &Violation) -> String {
    match violation.path.as_str() {
        "" => violation.message.clone(),
        path => format!("{path}: {}", violation.message),
    }
}
