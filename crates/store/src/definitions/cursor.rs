//! Encodes and decodes the cursors of document lists. To clients a cursor is opaque text that they send back to get the
//! next page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toolwright_types::DocumentMeta;

use super::{DocumentSort, DocumentSortKey};
use crate::page::{InvalidPageCursor, decode, encode};

/// The position after a document in a sorted list. A cursor contains the document's sort value and id instead of an
/// offset, so that concurrent inserts and deletes do not shift the pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentCursor {
    #[serde(rename = "s")]
    sort: DocumentSort,
    #[serde(rename = "a")]
    after: Position,
    #[serde(rename = "i")]
    id: String,
}

/// The value by which the document is sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Position {
    Name(String),
    Time(i64),
}

impl DocumentCursor {
    /// Creates a cursor for a list with this order. The cursor points to the position after the document.
    pub fn after(meta: &DocumentMeta, sort: DocumentSort) -> Self {
        let after = match sort.by {
            DocumentSortKey::RefName => Position::Name(meta.ref_name.key()),
            DocumentSortKey::CreatedAt => Position::Time(meta.created_at.as_micros()),
            DocumentSortKey::UpdatedAt => Position::Time(meta.updated_at.as_micros()),
        };
        Self { sort, after, id: meta.id.clone() }
    }

    pub(super) fn sort(&self) -> DocumentSort {
        self.sort
    }

    pub(super) fn position(&self) -> (&Position, &str) {
        (&self.after, &self.id)
    }

    /// Clients can forge cursors, so all values are checked before they reach the database. The position must have the
    /// type of the sort key. The id and the position must not contain U+0000, which Postgres rejects.
    fn is_valid(&self) -> bool {
        let position = match (self.sort.by, &self.after) {
            (DocumentSortKey::RefName, Position::Name(name)) => !name.contains('\0'),
            (DocumentSortKey::CreatedAt | DocumentSortKey::UpdatedAt, Position::Time(_)) => true,
            _ => false,
        };
        position && !self.id.contains('\0')
    }
}

impl FromStr for DocumentCursor {
    type Err = InvalidPageCursor;

    fn from_str(text: &str) -> Result<Self, InvalidPageCursor> {
        let cursor: Self = decode(text)?;
        if cursor.is_valid() { Ok(cursor) } else { Err(InvalidPageCursor) }
    }
}

impl fmt::Display for DocumentCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(self, f)
    }
}
