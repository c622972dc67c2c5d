//! The errors of client commands and how they are reported.

use std::borrow::Cow;
use std::io;

use serde_json::{Value, json};
use toolwright_api::wire::{FieldError, Problem};

use super::exit::Exit;
use super::follow::pluralize;
use super::output::{Output, sanitize_line};
use super::source_lines::DocumentLines;
use super::suggest::did_you_mean;

/// An error that stops a command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server rejected the request with a problem document.
    #[error("{}", .0.headline())]
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
    #[error("found {} in definition files; nothing was sent", pluralize(.0.len() as u64, "error"))]
    InvalidDefinitions(Vec<String>),
    /// Gram texts with errors; one message per error.
    #[error("found {}", pluralize(.0.len() as u64, "gram error"))]
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
    /// The problem. Its `type` is the URL of the page that explains the code, or empty if no page exists.
    pub problem: Problem,
    /// The original document, for `--json`.
    text: String,
    /// The collection and the name of the definition that was requested, if any.
    pub requested: Option<(&'static str, String)>,
    /// Hints that the client adds.
    pub hints: Vec<String>,
    /// The file of the rejected definition and the line numbers of its fields, if the definition was read from a file.
    pub source: Option<(String, DocumentLines)>,
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
    /// Parses the problem document of an error response. If the response has none, for example because a proxy sent the
    /// response, the code is derived from the status.
    pub(super) fn parse(status: u16, text: String, server: &str) -> Self {
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => {
                let page =
                    if problem.kind.starts_with('/') { format!("{server}{}", problem.kind) } else { problem.kind };
                let problem = Problem { status, kind: page, ..problem };
                Self { problem, text, requested: None, hints: Vec::new(), source: None }
            }
            Err(_) => {
                let detail = format!("the server responded with status {status} and without a problem document");
                Self::new(status, &format!("http-{status}"), detail)
            }
        }
    }

    /// Creates a refusal for which the server sent no problem document.
    pub(super) fn new(status: u16, code: &str, detail: String) -> Self {
        let text = json!({ "status": status, "code": code, "detail": detail }).to_string();
        let (kind, title, errors) = (String::new(), "".into(), Vec::new());
        let problem = Problem { kind, title, status, code: code.to_owned().into(), detail, errors };
        Self { problem, text, requested: None, hints: Vec::new(), source: None }
    }

    /// Returns the first line of the message. If the problem's detail only repeats a listed error, the title is used,
    /// so that no error is printed twice.
    fn headline(&self) -> String {
        let Problem { title, detail, .. } = &self.problem;
        match self.listed_errors().first() {
            Some(first) if !title.is_empty() && detail.contains(&first.message) => {
                let mut letters = title.chars();
                let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
                format!("{first}{}", letters.as_str())
            }
            _ => detail.clone(),
        }
    }

    /// Returns the errors that are listed below the headline. If the only error is already in the detail, it is listed
    /// only if its line in a file is known.
    fn listed_errors(&self) -> &[FieldError] {
        let Problem { detail, errors, .. } = &self.problem;
        match errors.as_slice() {
            [one] if self.source.is_none() && detail.contains(&one.message) => &[],
            errors => errors,
        }
    }

    /// Returns the problem document, for a JSON list of results.
    pub(super) fn document(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the lines below the headline: the invalid fields, then hints.
    pub(super) fn details(&self) -> Vec<String> {
        let Problem { kind: page, status, .. } = &self.problem;
        let place = |error: &FieldError| {
            let (file, lines) = self.source.as_ref()?;
            lines.line(&error.path).map(|line| format!("{file}:{line}: "))
        };
        let line = |error| format!("{}{}", place(error).unwrap_or_default(), field_error_line(error));
        let mut lines: Vec<String> = self.listed_errors().iter().map(line).collect();
        lines.extend(self.hints.iter().map(|hint| format!("hint: {hint}")));
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
    match (error.line, error.column) {
        (Some(line), Some(column)) => format!("{path}: {line}:{column}: {}", error.message),
        _ => format!("{path}: {}", with_similar_field(&error.message)),
    }
}

/// Adds the most similar field to the message about an unknown field, before the list of all fields.
fn with_similar_field(message: &str) -> Cow<'_, str> {
    let similar = || {
        let (unknown, fields) = message.strip_prefix("unknown field `")?.split_once("`, expected ")?;
        // Every second part between backticks is a name.
        let hint = did_you_mean(unknown, fields.split('`').skip(1).step_by(2))?;
        Some(format!("unknown field `{unknown}`; {hint} Expected {fields}"))
    };
    similar().map_or(Cow::Borrowed(message), Cow::Owned)
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
    fn field_error_that_the_detail_repeats_is_printed_only_once() {
        let problem = |errors: &str| {
            let detail = r#""status":422,"code":"c","detail":"the definition is not valid: /a: is missing""#;
            let text = format!(r#"{{"type":"","title":"The definition is not valid",{detail},"errors":[{errors}]}}"#);
            Refusal::parse(422, text, "http://h")
        };
        let one = r#"{"path":"/a","message":"is missing"}"#;
        let mut single = problem(one);
        assert_eq!(
            (single.headline().as_str(), single.details().len()),
            ("the definition is not valid: /a: is missing", 0)
        );
        single.source = Some(("f.yaml".into(), DocumentLines::default()));
        assert_eq!((single.headline().as_str(), single.details().len()), ("the definition is not valid", 1));
        let several = problem(&format!("{one},{one}"));
        assert_eq!((several.headline().as_str(), several.details().len()), ("the definition is not valid", 2));
    }

    #[test]
    fn unknown_field_is_reported_with_a_similar_field_before_the_list_of_fields() {
        let line = |message: &str| {
            let error = serde_json::json!({ "path": "/x", "message": message });
            field_error_line(&serde_json::from_value(error).unwrap())
        };
        assert_eq!(
            line("unknown field `sytemPrompt`, expected one of `refName`, `systemPrompt`"),
            "/x: unknown field `sytemPrompt`; did you mean `systemPrompt`? Expected one of `refName`, `systemPrompt`"
        );
        let other = "unknown field `color`, expected `refName` or `systemPrompt`";
        assert_eq!(line(other), format!("/x: {other}"));
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
