//! Where a page of a list ended. The text is opaque to clients and belongs to one query in one order.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Query, Sort, SortValue};

/// The place after a document. It names the document and not a count, so what is inserted or deleted elsewhere shifts nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    list: String,
    values: Vec<SortValue>,
    id: String,
}

/// A text that cannot say where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    /// It was not made here.
    #[error("the cursor is malformed; use `nextCursor` of the page before as it is")]
    Malformed,
    /// It was made for another query or another order.
    #[error("the cursor belongs to another list; keep query and sort order while paging")]
    OtherList,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    /// Fingerprint of the list.
    l: String,
    /// Values of the keys.
    k: Vec<Value>,
    /// Id of the document.
    i: String,
}

impl Cursor {
    /// The place after this document in the list of this query.
    pub fn after(query: Option<&Query>, sort: &Sort, document: &Value, id: &str) -> Self {
        Self { list: fingerprint(query, sort), values: sort.values(document), id: id.to_owned() }
    }

    /// Reads what [`Cursor::to_string`] wrote for the same query and order.
    pub fn decode(text: &str, query: Option<&Query>, sort: &Sort) -> Result<Self, InvalidCursor> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor::Malformed)?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|_| InvalidCursor::Malformed)?;
        if wire.l != fingerprint(query, sort) {
            return Err(InvalidCursor::OtherList);
        }
        let holds_nul = |text: &str| text.contains('\0');
        if wire.k.len() != sort.keys().len()
            || holds_nul(&wire.i)
            || wire.k.iter().filter_map(Value::as_str).any(holds_nul)
        {
            return Err(InvalidCursor::Malformed);
        }
        Ok(Self { list: wire.l, values: wire.k.iter().map(SortValue::of).collect(), id: wire.i })
    }

    /// What the document before the page is sorted by.
    pub fn values(&self) -> &[SortValue] {
        &self.values
    }

    /// The id of the document before the page.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// `to_string` gives the text for clients.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let k = self.values.iter().map(SortValue::to_json).collect();
        let json = serde_json::to_vec(&Wire { l: self.list.clone(), k, i: self.id.clone() }).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

/// Queries that mean the same tree have the same one, however they were written.
fn fingerprint(query: Option<&Query>, sort: &Sort) -> String {
    let query = query.map(Query::to_string).unwrap_or_default();
    let digest = Sha256::digest(format!("{query}\n{sort}"));
    URL_SAFE_NO_PAD.encode(digest.get(..12).unwrap_or_default())
}
