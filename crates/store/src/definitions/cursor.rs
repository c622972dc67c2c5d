//! Where a page ended, as an opaque text for the client to hand back.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toolwright_types::Meta;

use super::{Sort, SortKey};
use crate::page::{InvalidCursor, decode, encode};

/// The place after a document in a sorted list. It names the document and not a count, so what is inserted or
/// deleted elsewhere shifts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    #[serde(rename = "s")]
    sort: Sort,
    #[serde(rename = "a")]
    after: Position,
    #[serde(rename = "i")]
    id: String,
}

/// The value that a document is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Position {
    Name(String),
    Time(i64),
}

impl Cursor {
    /// The place after a document of a list in that order.
    pub fn after(meta: &Meta, sort: Sort) -> Self {
        let after = match sort.by {
            SortKey::RefName => Position::Name(meta.ref_name.key()),
            SortKey::CreatedAt => Position::Time(meta.created_at.as_micros()),
            SortKey::UpdatedAt => Position::Time(meta.updated_at.as_micros()),
        };
        Self { sort, after, id: meta.id.clone() }
    }

    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) fn position(&self) -> (&Position, &str) {
        (&self.after, &self.id)
    }

    /// A client can write anything into a cursor, so what reaches the database is checked: the type of the
    /// position, and the one character that Postgres refuses.
    fn is_sound(&self) -> bool {
        let position = match (self.sort.by, &self.after) {
            (SortKey::RefName, Position::Name(name)) => !name.contains('\0'),
            (SortKey::CreatedAt | SortKey::UpdatedAt, Position::Time(_)) => true,
            _ => false,
        };
        position && !self.id.contains('\0')
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let cursor: Self = decode(text)?;
        if cursor.is_sound() { Ok(cursor) } else { Err(InvalidCursor) }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(self, f)
    }
}
