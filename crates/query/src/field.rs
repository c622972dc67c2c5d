//! The path of a field: names with dots between them.

use std::fmt;

use crate::syntax::lexer::is_letter;

/// No document of ours nests as deep, and a path longer than this is a mistake or an attack.
pub const MAX_SEGMENTS: usize = 16;

/// Names with dots between them, as in `address.city`. Each name is made of the characters of a bare word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(Box<str>);

impl Field {
    /// Reads a path such as `address.city`. The error says what would be right.
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

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names, at least one.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not the path of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// It is empty or holds something else than the characters of a bare word.
    #[error("`{0}` is not a field; write names of letters, digits and `_ / @ ' -` with dots between them")]
    Characters(Box<str>),
    /// A name between two dots is empty or begins or ends with a space.
    #[error("the path `{0}` has a name that is empty or begins or ends with a space; write it as in `address.city`")]
    Names(Box<str>),
    /// It has too many names.
    #[error("a path has more than {MAX_SEGMENTS} names")]
    Depth,
}
