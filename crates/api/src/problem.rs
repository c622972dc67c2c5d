//! Errors of the REST API: RFC 9457 problem documents with stable codes. Each code has a documentation page.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use toolwright_tools::DefinitionIssue;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:ident, $title:literal;)*) => {
        /// A stable code. Clients branch on it, and `docs/errors/<code>.md` explains it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// The documentation page of the code, in Markdown.
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
    /// The body is not JSON, or is nested too deeply.
    InvalidJson = "invalid-json", BAD_REQUEST, "The body is not valid JSON";
    /// The body is not YAML, or is nested too deeply.
    InvalidYaml = "invalid-yaml", BAD_REQUEST, "The body is not valid YAML";
    /// A parameter, header or field of the request is invalid.
    InvalidRequest = "invalid-request", BAD_REQUEST, "The request is not valid";
    /// A definition is invalid.
    InvalidDefinition = "invalid-definition", UNPROCESSABLE_ENTITY, "The definition is not valid";
    /// A selector or expression cannot be parsed or evaluated.
    InvalidExpression = "invalid-expression", UNPROCESSABLE_ENTITY, "The expression is not valid";
    /// A text, signature or query is not valid gram.
    InvalidGram = "invalid-gram", UNPROCESSABLE_ENTITY, "The gram is not valid";
    /// A document or schema cannot be imported.
    CannotImport = "cannot-import", UNPROCESSABLE_ENTITY, "The document cannot be imported";
    /// The definition cannot be exported in the requested format.
    CannotExport = "cannot-export", UNPROCESSABLE_ENTITY, "The definition cannot be exported";
    /// A query, order, cursor or list of fields is invalid.
    InvalidQuery = "invalid-query", UNPROCESSABLE_ENTITY, "The query is not valid";
    /// A record does not match its type.
    InvalidRecord = "invalid-record", UNPROCESSABLE_ENTITY, "The record is not valid";
    /// The API key is missing or unknown.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "Authentication is required";
    /// The signature, the time or the id of an incoming webhook is missing or wrong.
    WebhookNotAuthentic = "webhook-not-authentic", UNAUTHORIZED, "The webhook is not authentic";
    /// The trigger of an incoming webhook is paused.
    TriggerPaused = "trigger-paused", CONFLICT, "The trigger is paused";
    /// The principal lacks the permission.
    Forbidden = "forbidden", FORBIDDEN, "This is not permitted";
    /// The route does not exist.
    RouteNotFound = "route-not-found", NOT_FOUND, "The route does not exist";
    /// The route does not support the method.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "The method is not allowed";
    /// The definition, version, run, secret, key, realm or blob does not exist.
    NotFound = "not-found", NOT_FOUND, "It does not exist";
    /// The name is in use.
    Duplicate = "duplicate", CONFLICT, "It already exists";
    /// The definition was changed since it was read.
    StaleRevision = "stale-revision", PRECONDITION_FAILED, "The definition was changed concurrently";
    /// Another apply set created the definition.
    OtherApplySet = "other-apply-set", CONFLICT, "The definition belongs to another apply set";
    /// The record was changed since it was read.
    VersionConflict = "version-conflict", CONFLICT, "The record was changed concurrently";
    /// The type has records.
    TypeInUse = "type-in-use", CONFLICT, "The type has records";
    /// Other agents use a tool that a gram text would change.
    ToolInUse = "tool-in-use", CONFLICT, "Other agents use the tool";
    /// The principal already has the maximum number of secrets or of other items.
    LimitReached = "limit-reached", CONFLICT, "A limit is reached";
    /// The run has ended.
    RunEnded = "run-ended", CONFLICT, "The run has ended";
    /// The bundle cannot be parsed or is inconsistent.
    InvalidBundle = "invalid-bundle", UNPROCESSABLE_ENTITY, "The bundle is not valid";
    /// The run cannot be forked at the requested entry or with the requested changes.
    CannotFork = "cannot-fork", UNPROCESSABLE_ENTITY, "The run cannot be forked there";
    /// The trial request is invalid.
    InvalidTrial = "invalid-trial", UNPROCESSABLE_ENTITY, "The trial is not valid";
    /// The run cannot be undone.
    CannotUndo = "cannot-undo", UNPROCESSABLE_ENTITY, "The run cannot be undone";
    /// The run cannot be materialized.
    CannotMaterialize = "cannot-materialize", UNPROCESSABLE_ENTITY, "The run cannot be materialized";
    /// The run was deleted.
    RunDeleted = "run-deleted", GONE, "The run was deleted";
    /// The run has not ended.
    RunUnderWay = "run-under-way", CONFLICT, "The run has not ended";
    /// Another server drives the run.
    RunElsewhere = "run-elsewhere", CONFLICT, "Another server drives the run";
    /// The run does not wait for the decision or the result that was sent.
    NotWaiting = "not-waiting", CONFLICT, "The run is not waiting for this";
    /// The outcome of the effect is known.
    OutcomeKnown = "outcome-known", CONFLICT, "The outcome is known";
    /// A run of the conversation has not ended.
    ConversationBusy = "conversation-busy", CONFLICT, "The conversation is busy";
    /// The conversation is completed or archived.
    ConversationClosed = "conversation-closed", CONFLICT, "The conversation is closed";
    /// The agent is disabled.
    AgentDisabled = "agent-disabled", CONFLICT, "The agent is disabled";
    /// The workflow is disabled.
    WorkflowDisabled = "workflow-disabled", CONFLICT, "The workflow is disabled";
    /// The server has reached its limit of concurrent runs.
    TooManyRuns = "too-many-runs", TOO_MANY_REQUESTS, "Too many runs are active";
    /// The body is too large.
    PayloadTooLarge = "payload-too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// An external system failed or rejected the request.
    UpstreamFailed = "upstream-failed", BAD_GATEWAY, "An external system failed";
    /// A component of the server is unavailable.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The server is unavailable";
    /// The disk of the database or of the blobs is full.
    DiskFull = "disk-full", INSUFFICIENT_STORAGE, "The disk is full";
    /// The server failed unexpectedly.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed unexpectedly";
}

impl Code {
    /// Parses a code.
    pub fn parse(text: &str) -> Option<Self> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

/// The body of a failed request.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The path of the page that explains the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short summary of the code.
    pub title: Cow<'static, str>,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: Cow<'static, str>,
    /// What happened in this case, and how to fix it.
    pub detail: String,
    /// Every field that is invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// An invalid field.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, or the name of a parameter or header.
    pub path: String,
    /// The rule that the field violates.
    pub message: String,
    /// The line of the error, from 1, if the field is a text to parse or the body is YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in characters, from 1, if the field is a text to parse or the body is YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The byte offset in the text at which the error starts, if the field is a text to parse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// The byte offset in the text at which the error ends, if the field is a text to parse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

impl FieldError {
    /// Creates an error without a position.
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), line: None, column: None, start: None, end: None }
    }
}

/// The position of an error in a text.
pub(crate) struct TextSpan {
    pub line: u32,
    pub column: u32,
    pub start: usize,
    pub end: usize,
}

impl Problem {
    /// Creates a problem.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/errors/{}", code.as_str()),
            title: code.title().into(),
            status: code.status().as_u16(),
            code: code.as_str().into(),
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// Adds invalid fields.
    pub fn with_issues(mut self, issues: impl IntoIterator<Item = DefinitionIssue>) -> Self {
        self.errors.extend(issues.into_iter().map(|issue| FieldError::new(issue.path, issue.message)));
        self
    }

    /// Adds an invalid field.
    pub fn with_field(self, path: &str, message: impl Into<String>) -> Self {
        self.with_issues([DefinitionIssue { path: path.to_owned(), message: message.into() }])
    }

    /// Adds an invalid field, with the position of the error in the text of the field.
    pub(crate) fn with_span(mut self, path: &str, message: impl Into<String>, span: TextSpan) -> Self {
        let TextSpan { line, column, start, end } = span;
        self.errors.push(FieldError {
            line: Some(line),
            column: Some(column),
            start: Some(start),
            end: Some(end),
            ..FieldError::new(path, message)
        });
        self
    }

    /// Creates a problem for an invalid parameter, header or field.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(Code::InvalidRequest, format!("`{}`: {message}", path.trim_start_matches('/')))
            .with_field(path, message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
