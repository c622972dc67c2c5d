//! Why a command could not be carried out, and how that is told.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::Exit;
use super::output::{Output, plain, raw};

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server refused, and said why.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// No server answered.
    #[error("cannot reach {url}: {cause}")]
    Unreachable { url: String, cause: String },
    /// Something answered that is not this server.
    #[error("{url} answered, but not as a toolwright server does: {cause}")]
    Unexpected { url: String, cause: String },
    /// The server answered, and stopped in the middle.
    #[error("the answer of {url} broke off: {cause}")]
    BrokenOff { url: String, cause: String },
    /// Nobody was let in to the system of a provider.
    #[error("not logged in to `{provider}`: {cause}")]
    Login { provider: String, cause: String },
    /// The command line, or what it names, cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Definitions that cannot even be sent; one message each.
    #[error("nothing was sent, because of {} definition file error(s)", .0.len())]
    Definitions(Vec<String>),
    /// Texts that are not gram; one message each.
    #[error("{} mistake(s) in gram", .0.len())]
    Gram(Vec<String>),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The result could not be written.
    #[error("write the result")]
    Output(#[from] io::Error),
}

/// A problem document, as the server sent it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Problem {
    /// The page that explains the code.
    #[serde(rename = "type", default)]
    pub page: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What happened.
    #[serde(default)]
    pub detail: String,
    /// Every place that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The document itself, for `--json`.
    #[serde(skip)]
    pub text: String,
}

/// One place that is wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FieldError {
    /// A JSON pointer, or the name of a parameter.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Failure {
    /// The number this ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Refused(problem) => Exit::of_status(problem.status),
            Failure::Unreachable { .. } | Failure::Unexpected { .. } | Failure::BrokenOff { .. } => Exit::Unavailable,
            Failure::Login { .. } => Exit::Denied,
            Failure::Usage(_) => Exit::Usage,
            Failure::Definitions(_) | Failure::Gram(_) => Exit::Invalid,
            Failure::Interrupted => Exit::Interrupted,
            // `toolwright … | head` is no mistake.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
            Failure::Output(_) => Exit::Unavailable,
        }
    }

    /// Ends the command: with `--json` a problem document is the answer, and so goes to stdout.
    pub fn report(&self, output: &Output) -> Exit {
        if let (true, Failure::Refused(problem)) = (output.json, self) {
            raw(format!("{}\n", problem.text.trim_end()).as_bytes());
        }
        self.tell(output)
    }

    /// Tells on stderr what happened.
    pub fn tell(&self, output: &Output) -> Exit {
        let exit = self.exit();
        // Whoever pressed Ctrl-C need not be told.
        if !matches!(exit, Exit::Ok | Exit::Interrupted) {
            output.note(self.headline(output));
            for line in self.details() {
                output.note(format!("  {}", plain(&line)));
            }
        }
        exit
    }

    fn headline(&self, output: &Output) -> String {
        let code = match self {
            Failure::Refused(problem) => problem.code.as_str(),
            Failure::Unreachable { .. } => "unreachable",
            Failure::Unexpected { .. } => "unexpected-answer",
            Failure::BrokenOff { .. } => "broken-off",
            Failure::Login { .. } => "not-logged-in",
            Failure::Usage(_) => "usage",
            Failure::Definitions(_) => "invalid-definition",
            Failure::Gram(_) => "invalid-gram",
            Failure::Interrupted => "interrupted",
            Failure::Output(_) => "output",
        };
        let cause = std::error::Error::source(self).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{} {}", output.err.bad(format!("error[{}]:", plain(code))), plain(&format!("{self}{cause}")))
    }

    fn details(&self) -> Vec<String> {
        match self {
            Failure::Refused(problem) => problem.details(),
            Failure::Unreachable { .. } => {
                vec![
                    "hint: start a server with `toolwright serve`, or name another with TOOLWRIGHT_URL or --url".into(),
                ]
            }
            Failure::Unexpected { .. } => vec!["hint: check TOOLWRIGHT_URL or --url".into()],
            Failure::BrokenOff { .. } => vec!["hint: see whether the server is up: toolwright doctor".into()],
            Failure::Definitions(errors) | Failure::Gram(errors) => errors.clone(),
            Failure::Login { .. } | Failure::Usage(_) | Failure::Interrupted | Failure::Output(_) => Vec::new(),
        }
    }
}

impl Problem {
    /// The problem in an answer that is no success. Not every answer on the way is from the server: a proxy has no
    /// codes, and its status must do.
    pub fn read(status: u16, text: String, server: &str) -> Self {
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => {
                let page =
                    if problem.page.starts_with('/') { format!("{server}{}", problem.page) } else { problem.page };
                Self { status, text, page, ..problem }
            }
            Err(_) => {
                let detail = format!("the answer has status {status} and is no problem document");
                let code = format!("http-{status}");
                let document = serde_json::json!({ "status": status, "code": code, "detail": detail });
                Self { page: String::new(), status, code, detail, errors: Vec::new(), text: document.to_string() }
            }
        }
    }

    /// The document for a list of results.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Everything but the headline: the places, then where to read on.
    pub fn details(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.errors.iter().map(FieldError::to_string).collect();
        if self.status == 401 {
            lines.push("hint: set TOOLWRIGHT_API_KEY or pass --api-key".into());
        }
        if !self.page.is_empty() {
            lines.push(format!("hint: see {}", self.page));
        }
        lines
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "(root)" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_a_proxy_still_has_a_code() {
        let problem = Problem::read(502, "<html>Bad gateway</html>".into(), "http://h");
        assert_eq!((problem.code.as_str(), problem.status), ("http-502", 502));
        assert_eq!(problem.document()["code"], "http-502");
        assert_eq!(Failure::Refused(Box::new(problem)).exit(), Exit::Unavailable);
    }

    #[test]
    fn a_problem_lists_its_places_and_its_page() {
        let text = r#"{"type":"/errors/invalid-definition","status":422,"code":"invalid-definition","detail":"no",
            "errors":[{"path":"/toolType","message":"is missing"},{"path":"","message":"is no object"}]}"#;
        let problem = Problem::read(422, text.into(), "http://h");
        assert_eq!(
            problem.details(),
            ["/toolType: is missing", "(root): is no object", "hint: see http://h/errors/invalid-definition"]
        );
    }
}
