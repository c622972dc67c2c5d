//! Regular expressions for `matches`: linear in time, limited in size.

use regex::{Regex, RegexBuilder};

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4 * 1024;

/// Largest compiled pattern, in bytes.
const MAX_COMPILED: usize = 1024 * 1024;

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("a pattern has at most {MAX_PATTERN} bytes, this one {}", pattern.len()));
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(50)
        .build()
        .map_err(|error| format!("pattern `{pattern}` is wrong: {}", reason(&error)))
}

/// The last line of the library's message; the lines before it draw the pattern again.
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
