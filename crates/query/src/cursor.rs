//! Pagination cursors. A cursor is an opaque text for clients. It is valid for one query with one sort order.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Query, Sort, SortValue};

/// The position after a document in a list. The cursor contains the id and the sort values of that document, not its
/// index. Inserting or deleting other documents therefore does not shift later pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    list: String,
    values: Vec<SortValue>,
    id: String,
}

/// The reason why a text is not a valid cursor for a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    /// The text is not a cursor.
    #[error("the cursor is malformed; use `nextCursor` of the previous page unchanged")]
    Malformed,
    /// The cursor was created for another query or sort order.
    #[error("the cursor belongs to another list; use the same query and sort order for all pages")]
    OtherList,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CursorData {
    /// The fingerprint of the query and the sort order.
    l: String,
    /// The values of the sort keys.
    k: Vec<Value>,
    /// The id of the document.
    i: String,
}

impl Cursor {
    /// Creates the cursor for the position after `document` in the results of `query`.
    pub fn after(query: Option<&Query>, sort: &Sort, document: &Value, id: &str) -> Self {
        Self { list: fingerprint(query, sort), values: sort.values(document), id: id.to_owned() }
    }

    /// Decodes the output of [`Cursor::to_string`] for the same query and sort order.
    pub fn decode(text: &str, query: Option<&Query>, sort: &Sort) -> Result<Self, InvalidCursor> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor::Malformed)?;
        let data: CursorData = serde_json::from_slice(&json).map_err(|_| InvalidCursor::Malformed)?;
        if data.l != fingerprint(query, sort) {
            return Err(InvalidCursor::OtherList);
        }
        let contains_nul = |text: &str| text.contains('\0');
        if data.k.len() != sort.keys().len()
            || contains_nul(&data.i)
            || data.k.iter().filter_map(Value::as_str).any(contains_nul)
        {
            return Err(InvalidCursor::Malformed);
        }
        Ok(Self { list: data.l, values: data.k.iter().map(SortValue::from_json).collect(), id: data.i })
    }

    /// The sort values of the last document of the previous page.
    pub fn values(&self) -> &[SortValue] {
        &self.values
    }

    /// The id of the last document of the previous page.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// Encodes the cursor for clients.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let k = self.values.iter().map(SortValue::to_json).collect();
        let json =
            serde_json::to_vec(&CursorData { l: self.list.clone(), k, i: self.id.clone() }).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

/// Returns a hash of the query and the sort order. Queries with the same syntax tree have the same fingerprint.
fn fingerprint(query: Option<&Query>, sort: &Sort) -> String {
    let query = query.map(Query::to_string).unwrap_or_default();
    let digest = Sha256::digest(format!("{query}\n{sort}"));
    URL_SAFE_NO_PAD.encode(digest.get(..12).unwrap_or_default())
}
