//! Lists that are read page by page, and the texts that say where a page ended.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{Document, Timestamp};

use crate::Cursor;
use crate::db::Unavailable;
use crate::sql::Sql;

/// The most a page can hold.
const MAX_LIMIT: u32 = 1000;

/// A part of a list: of definitions, each at its head, unless it says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T = Document<Value>, C = Cursor> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; none after the last.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// The page of the rows that a query with [`push_limit`] gave.
    pub(crate) fn of<R>(rows: Vec<R>, limit: u32, after: impl FnOnce(&T) -> C) -> Result<Self, Unavailable>
    where
        T: TryFrom<R, Error = Unavailable>,
    {
        let limit = usize::try_from(clamp(limit)).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        let items: Vec<T> = rows.into_iter().take(limit).map(T::try_from).collect::<Result<_, _>>()?;
        let next = items.last().filter(|_| more).map(after);
        Ok(Self { items, next })
    }
}

/// At least one, at most a thousand.
pub(crate) fn clamp(limit: u32) -> u32 {
    limit.clamp(1, MAX_LIMIT)
}

/// Asks for one row more than the page holds: it shows whether there is a next page.
pub(crate) fn push_limit(sql: &mut Sql, limit: u32) {
    sql.push(" LIMIT ").integer(i64::from(clamp(limit)) + 1);
}

/// The place after an item in a list that is sorted by time. It names the item and not a count, so what is inserted
/// or deleted elsewhere shifts nothing. The kind of id keeps cursors of different lists apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeCursor<I> {
    #[serde(rename = "t")]
    at: i64,
    #[serde(rename = "i")]
    id: I,
}

impl<I> TimeCursor<I> {
    pub(crate) fn after(at: Timestamp, id: I) -> Self {
        Self { at: at.as_micros(), id }
    }

    pub(crate) fn position(&self) -> (i64, &I) {
        (self.at, &self.id)
    }
}

impl<I: DeserializeOwned> FromStr for TimeCursor<I> {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        decode(text)
    }
}

impl<I: Serialize> fmt::Display for TimeCursor<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(self, f)
    }
}

/// Text that is not a cursor of this server, or one of another list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is malformed; use `nextCursor` of the page before as it is")]
pub struct InvalidCursor;

pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, InvalidCursor> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
    serde_json::from_slice(&json).map_err(|_| InvalidCursor)
}

pub(crate) fn encode(cursor: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let json = serde_json::to_vec(cursor).map_err(|_| fmt::Error)?;
    f.write_str(&URL_SAFE_NO_PAD.encode(json))
}
