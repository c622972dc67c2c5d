//! Errors of the REST surface: RFC 9457 problem documents with stable codes, each with a page.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use toolwright_tools::DefinitionIssue;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:ident, $title:literal;)*) => {
        /// A stable code. Clients branch on it; `docs/errors/<code>.md` explains it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// The page that explains it, as Markdown.
            pub fn page(self) -> &'static str {
                match self { $(Code::$name => include_str!(concat!("../../../docs/errors/", $code, ".md")),)* }
            }

            fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status,)* }
            }

            fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON, or nested too deeply.
    InvalidJson = "invalid-json", BAD_REQUEST, "The body is not usable JSON";
    /// A parameter, header or field of the request is wrong.
    InvalidRequest = "invalid-request", BAD_REQUEST, "The request is not valid";
    /// A definition is wrong.
    InvalidDefinition = "invalid-definition", UNPROCESSABLE_ENTITY, "The definition is not valid";
    /// A selector or expression does not parse or evaluate.
    InvalidExpression = "invalid-expression", UNPROCESSABLE_ENTITY, "The expression is not valid";
    /// A text, signature or query is not gram, or not one that can be used.
    InvalidGram = "invalid-gram", UNPROCESSABLE_ENTITY, "The gram is not valid";
    /// A description of an API cannot be imported.
    CannotImport = "cannot-import", UNPROCESSABLE_ENTITY, "The document cannot be imported";
    /// A query, order, cursor or list of fields cannot be used.
    InvalidQuery = "invalid-query", UNPROCESSABLE_ENTITY, "The query is not valid";
    /// A record does not fit its type.
    InvalidRecord = "invalid-record", UNPROCESSABLE_ENTITY, "The record is not valid";
    /// No key, or one that is not known.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "Authentication is needed";
    /// The principal may not do this.
    Forbidden = "forbidden", FORBIDDEN, "This is not permitted";
    /// There is no such route.
    RouteNotFound = "route-not-found", NOT_FOUND, "There is no such route";
    /// The route exists, for other methods.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "The method is not allowed here";
    /// There is no such definition, version, secret, key, realm or blob.
    NotFound = "not-found", NOT_FOUND, "It does not exist";
    /// The name is taken.
    Duplicate = "duplicate", CONFLICT, "It already exists";
    /// Someone else changed it.
    StaleRevision = "stale-revision", PRECONDITION_FAILED, "It was changed meanwhile";
    /// Someone else changed the record.
    VersionConflict = "version-conflict", CONFLICT, "The record was changed meanwhile";
    /// There are records of the type.
    TypeInUse = "type-in-use", CONFLICT, "The type has records";
    /// The run has ended.
    RunEnded = "run-ended", CONFLICT, "The run has ended";
    /// The call does not wait for this.
    InvalidBundle = "invalid-bundle", UNPROCESSABLE_ENTITY, "Not a bundle of a run";
    CannotFork = "cannot-fork", UNPROCESSABLE_ENTITY, "The run cannot be forked there";
    /// The trial cannot be made as it was asked for.
    InvalidTrial = "invalid-trial", UNPROCESSABLE_ENTITY, "The trial cannot be made";
    CannotUndo = "cannot-undo", UNPROCESSABLE_ENTITY, "The run cannot be undone";
    RunDeleted = "run-deleted", GONE, "The run was deleted";
    RunUnderWay = "run-under-way", CONFLICT, "The run has not ended";
    RunElsewhere = "run-elsewhere", CONFLICT, "Another server drives the run";
    NotWaiting = "not-waiting", CONFLICT, "Nothing waits for this";
    /// A run of the conversation has not ended.
    ConversationBusy = "conversation-busy", CONFLICT, "The conversation is busy";
    /// The conversation was put away.
    ConversationClosed = "conversation-closed", CONFLICT, "The conversation is closed";
    /// The agent is switched off.
    AgentDisabled = "agent-disabled", CONFLICT, "The agent is disabled";
    /// As many runs are under way as the server allows.
    TooManyRuns = "too-many-runs", TOO_MANY_REQUESTS, "Too many runs are under way";
    /// The body is too large.
    PayloadTooLarge = "payload-too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// A server that this one was told to ask failed or refused.
    UpstreamFailed = "upstream-failed", BAD_GATEWAY, "The other server failed";
    /// A part of the server did not answer.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The server is not able to answer now";
    /// A defect of the server.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server made a mistake";
}

impl Code {
    /// The code of that text.
    pub fn parse(text: &str) -> Option<Self> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

/// What a client reads when a request fails.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    kind: String,
    /// The code in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable code.
    code: &'static str,
    /// What happened in this case, and what would help.
    detail: String,
    /// Every place that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip)]
    status_code: StatusCode,
}

/// One place that is wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// A JSON pointer into the body.
    path: String,
    /// What is wrong there.
    message: String,
    /// Where in the text of the field.
    #[serde(flatten)]
    place: Option<Place>,
}

/// A place in a text.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// The bytes from the beginning of the text.
    pub start: usize,
    /// The same, for the end of what is wrong.
    pub end: usize,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/errors/{}", code.as_str()),
            title: code.title(),
            status: code.status().as_u16(),
            code: code.as_str(),
            detail: detail.into(),
            errors: Vec::new(),
            status_code: code.status(),
        }
    }

    /// The same problem, with the places that are wrong.
    pub fn at(mut self, issues: impl IntoIterator<Item = DefinitionIssue>) -> Self {
        self.errors.extend(issues.into_iter().map(|issue| FieldError {
            path: issue.path,
            message: issue.message,
            place: None,
        }));
        self
    }

    /// The same problem, with one place that is wrong.
    pub fn at_field(self, path: &str, message: impl Into<String>) -> Self {
        self.at([DefinitionIssue { path: path.to_owned(), message: message.into() }])
    }

    /// The same problem, with a place in the text of a field that is wrong.
    pub fn at_place(mut self, path: &str, message: impl Into<String>, place: Place) -> Self {
        self.errors.push(FieldError { path: path.to_owned(), message: message.into(), place: Some(place) });
        self
    }

    /// A wrong parameter, header or field.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(Code::InvalidRequest, format!("`{}`: {message}", path.trim_start_matches('/')))
            .at_field(path, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status_code;
        let mut response = (status, axum::Json(self)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
