//! Field paths: names separated by dots.

use std::fmt;

use crate::text::is_letter;

/// The maximum number of names in a field path. A path cannot address a field that is nested deeper in a document.
pub const MAX_SEGMENTS: usize = 16;

/// A field path such as `address.city`. A name may contain the characters that are allowed in an unquoted word of a
/// query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(Box<str>);

impl Field {
    /// Parses a path such as `address.city`.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let shown = || text.chars().take(40).collect::<Box<str>>();
        if text.is_empty() || text.chars().any(|c| !is_letter(c) && !"_./@'- \t&".contains(c)) {
            return Err(InvalidField::Characters(shown()));
        }
        if text.split('.').any(|name| name.is_empty() || name.trim() != name) {
            return Err(InvalidField::Names(shown()));
        }
        if text.split('.').count() > MAX_SEGMENTS {
            return Err(InvalidField::Depth);
        }
        Ok(Self(text.into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names of the path. There is at least one.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a text is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// The text is empty or contains a character that is not allowed in an unquoted word.
    #[error("`{0}` is not a field; write names of letters, digits and `_ / @ ' -`, separated by dots")]
    Characters(Box<str>),
    /// A name is empty or has a leading or trailing space.
    #[error(
        "the names in path `{0}` must not be empty or begin or end with a space; write a path such as `address.city`"
    )]
    Names(Box<str>),
    /// The path has too many names.
    #[error("a path must have at most {MAX_SEGMENTS} names")]
    Depth,
}
