//! The errors of client commands and how they are reported.

use std::io;

use serde_json::{Value, json};
use toolwright_api::wire::{FieldError, Problem};

use super::exit::Exit;
use super::output::{Output, sanitize_line};

/// An error that stops a command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server rejected the request with a problem document.
    #[error("{}", .0.problem.detail)]
    Refused(Box<Refusal>),
    /// No response was received.
    #[error("cannot reach {url}: {cause}")]
    Unreachable { url: String, cause: String },
    /// The response does not come from a toolwright server.
    #[error("unexpected response from {url}: {cause}")]
    Unexpected { url: String, cause: String },
    /// The connection was lost before the response was complete.
    #[error("connection to {url} lost before the response was complete: {cause}")]
    ConnectionLost { url: String, cause: String },
    /// The login at a provider's MCP server failed.
    #[error("not logged in to `{provider}`: {cause}")]
    Login { provider: String, cause: String },
    /// An MCP server cannot be used.
    #[error("cannot use {url}: {cause}")]
    McpServer {
        url: String,
        cause: String,
        hint: &'static str,
        /// Whether the credentials are missing or were rejected.
        denied: bool,
    },
    /// Invalid arguments, or an unusable file or environment variable.
    #[error("{0}")]
    Usage(String),
    /// Definition files with errors, found before anything was sent; one message per error.
    #[error("found {} error(s) in definition files; nothing was sent", .0.len())]
    InvalidDefinitions(Vec<String>),
    /// Gram texts with errors; one message per error.
    #[error("found {} gram error(s)", .0.len())]
    InvalidGram(Vec<String>),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The output could not be written.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

/// A problem document (RFC 9457) of the server.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The problem. Its `type` is the URL of the page that explains the code. It is empty if no page exists.
    pub problem: Problem,
    /// The original document, for `--json`.
    text: String,
}

impl Failure {
    /// Returns the exit code.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Failure::Refused(refusal) => Exit::from_status(refusal.problem.status),
            Failure::Unreachable { .. } | Failure::Unexpected { .. } | Failure::ConnectionLost { .. } => {
                Exit::Unavailable
            }
            Failure::Login { .. } | Failure::McpServer { denied: true, .. } => Exit::Denied,
            Failure::McpServer { denied: false, .. } => Exit::Unavailable,
            Failure::Usage(_) => Exit::Usage,
            Failure::InvalidDefinitions(_) | Failure::InvalidGram(_) => Exit::Invalid,
            Failure::Interrupted => Exit::Interrupted,
            // A closed pipe, as in `toolwright … | head`, is not an error.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
            Failure::Output(_) => Exit::Unavailable,
        }
    }

    /// Prints the error to stderr. With `--json`, also prints the problem document to stdout. Returns the exit code.
    pub(super) fn report(&self, output: &Output) -> Exit {
        if let (true, Failure::Refused(refusal)) = (output.json, self) {
            // A closed pipe is not an error.
            let _ = output.document(&refusal.text);
        }
        self.print(output)
    }

    /// Prints the error to stderr and returns the exit code.
    pub(super) fn print(&self, output: &Output) -> Exit {
        let exit = self.exit();
        // The user pressed Ctrl-C and needs no message.
        if !matches!(exit, Exit::Ok | Exit::Interrupted) {
            output.note(self.headline(output));
            for line in self.details() {
                output.note(format!("  {}", sanitize_line(&line)));
            }
        }
        exit
    }

    fn headline(&self, output: &Output) -> String {
        let code = match self {
            Failure::Refused(refusal) => &*refusal.problem.code,
            Failure::Unreachable { .. } => "unreachable",
            Failure::Unexpected { .. } => "unexpected-answer",
            Failure::ConnectionLost { .. } => "broken-off",
            Failure::McpServer { denied: true, .. } => "unauthenticated",
            Failure::McpServer { denied: false, .. } => "unreachable",
            Failure::Login { .. } => "not-logged-in",
            Failure::Usage(_) => "usage",
            Failure::InvalidDefinitions(_) => "invalid-definition",
            Failure::InvalidGram(_) => "invalid-gram",
            Failure::Interrupted => "interrupted",
            Failure::Output(_) => "output",
        };
        let cause = std::error::Error::source(self).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!(
            "{} {}",
            output.err.bad(format!("error[{}]:", sanitize_line(code))),
            sanitize_line(&format!("{self}{cause}"))
        )
    }

    fn details(&self) -> Vec<String> {
        match self {
            Failure::Refused(refusal) => refusal.details(),
            Failure::Unreachable { .. } => {
                vec!["hint: start a server with `toolwright serve`, or select one with --url or TOOLWRIGHT_URL".into()]
            }
            Failure::McpServer { hint, .. } => vec![format!("hint: {hint}")],
            Failure::Unexpected { .. } => vec!["hint: check --url or TOOLWRIGHT_URL".into()],
            Failure::ConnectionLost { .. } => vec!["hint: check the server with `toolwright doctor`".into()],
            Failure::InvalidDefinitions(errors) | Failure::InvalidGram(errors) => errors.clone(),
            Failure::Login { .. } | Failure::Usage(_) | Failure::Interrupted | Failure::Output(_) => Vec::new(),
        }
    }
}

impl Refusal {
    /// Parses the problem document of an error response. If the response has none, for example because a proxy sent it,
    /// the code is derived from the status.
    pub(super) fn parse(status: u16, text: String, server: &str) -> Self {
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => {
                let page =
                    if problem.kind.starts_with('/') { format!("{server}{}", problem.kind) } else { problem.kind };
                Self { problem: Problem { status, kind: page, ..problem }, text }
            }
            Err(_) => {
                let detail = format!("the server responded with status {status} and without a problem document");
                Self::new(status, &format!("http-{status}"), detail)
            }
        }
    }

    /// Creates a problem that the server did not describe.
    pub(super) fn new(status: u16, code: &str, detail: String) -> Self {
        let text = json!({ "status": status, "code": code, "detail": detail }).to_string();
        let (kind, title, errors) = (String::new(), "".into(), Vec::new());
        Self { problem: Problem { kind, title, status, code: code.to_owned().into(), detail, errors }, text }
    }

    /// Returns the document as JSON, for a list of results.
    pub(super) fn document(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the lines below the headline: the invalid fields, then hints.
    pub(super) fn details(&self) -> Vec<String> {
        let Problem { kind: page, status, errors, .. } = &self.problem;
        let mut lines: Vec<String> = errors.iter().map(field_error_line).collect();
        if *status == 401 {
            lines.push("hint: set TOOLWRIGHT_API_KEY or pass --api-key".into());
        }
        if !page.is_empty() {
            lines.push(format!("hint: see {page}"));
        }
        lines
    }
}

/// Formats an invalid field.
pub(super) fn field_error_line(error: &FieldError) -> String {
    let path = if error.path.is_empty() { "(root)" } else { &error.path };
    format!("{path}: {}", error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_response_without_problem_document_gets_a_code_from_its_status() {
        let refusal = Refusal::parse(502, "<html>Bad gateway</html>".into(), "http://h");
        assert_eq!((&*refusal.problem.code, refusal.problem.status), ("http-502", 502));
        assert_eq!(refusal.document()["code"], "http-502");
        assert_eq!(Failure::Refused(Box::new(refusal)).exit(), Exit::Unavailable);
    }

    #[test]
    fn problem_output_lists_field_errors_and_documentation_page() {
        let text = r#"{"type":"/errors/invalid-definition","title":"t","status":422,"code":"invalid-definition","detail":"no",
            "errors":[{"path":"/toolType","message":"is missing"},{"path":"","message":"is no object"}]}"#;
        let refusal = Refusal::parse(422, text.into(), "http://h");
        assert_eq!(
            refusal.details(),
            ["/toolType: is missing", "(root): is no object", "hint: see http://h/errors/invalid-definition"]
        );
    }
}
