//! Helpers for letters, letter case and quotes that field paths, patterns and the parser share.

use std::fmt::{self, Formatter};

/// Whether a comparison distinguishes upper and lower case. Only ASCII letters are compared case-insensitively, as in
/// the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Case {
    /// `~cs`
    Sensitive,
    /// `~ci`
    Insensitive,
}

/// Whether a character is a letter, a digit or a combining accent of any script.
pub(crate) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}')
}

/// Writes a text in quotes. A quote in the text is doubled.
pub(crate) fn write_quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('"', "\"\""))
}
