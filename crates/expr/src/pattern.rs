//! Regular expressions for `matches`. Matching takes linear time, and the size is limited.

use regex::{Regex, RegexBuilder};

/// The maximum length of a pattern, in bytes.
const MAX_PATTERN: usize = 4 * 1024;

/// The maximum size of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 1024 * 1024;

/// Compiles a pattern, or returns an error message.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("a pattern must be at most {MAX_PATTERN} bytes, got {}", pattern.len()));
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(50)
        .build()
        .map_err(|error| format!("invalid pattern `{pattern}`: {}", reason(&error)))
}

/// Returns the last line of the error message of the `regex` crate. The lines before it repeat the pattern.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large; use fewer repetitions".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    }
}
