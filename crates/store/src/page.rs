//! Pages of lists, and the cursors between them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolwright_types::Timestamp;

use crate::db::StoreError;
use crate::sql::Sql;

/// The maximum number of items on a page.
const MAX_LIMIT: u32 = 1000;

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor of the next page. `None` on the last page.
    pub next: Option<C>,
}

impl<T, C> Page<T, C> {
    /// Creates a page from the rows of a query whose limit was set by [`push_limit`].
    pub(crate) fn from_rows<R>(rows: Vec<R>, limit: u32, after: impl FnOnce(&T) -> C) -> Result<Self, StoreError>
    where
        T: TryFrom<R, Error = StoreError>,
    {
        let limit = usize::try_from(clamp(limit)).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        let items: Vec<T> = rows.into_iter().take(limit).map(T::try_from).collect::<Result<_, _>>()?;
        let next = items.last().filter(|_| has_more).map(after);
        Ok(Self { items, next })
    }
}

/// Restricts a page size to the range 1–1000.
pub(crate) fn clamp(limit: u32) -> u32 {
    limit.clamp(1, MAX_LIMIT)
}

/// Limits the query to one row more than the page size. The extra row shows that there is a next page.
pub(crate) fn push_limit(sql: &mut Sql, limit: u32) {
    sql.push(" LIMIT ").integer(i64::from(clamp(limit)) + 1);
}

/// The position after an item in a list sorted by time. A cursor contains the item's time and id instead of an offset,
/// so that concurrent inserts and deletes do not shift the pages. The type of the id distinguishes cursors of different
/// lists.
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
    type Err = InvalidPageCursor;

    fn from_str(text: &str) -> Result<Self, InvalidPageCursor> {
        decode(text)
    }
}

impl<I: Serialize> fmt::Display for TimeCursor<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(self, f)
    }
}

/// The text is not a cursor of this server, or it is a cursor of another list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be the unchanged `nextCursor` of the previous page")]
pub struct InvalidPageCursor;

pub(crate) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, InvalidPageCursor> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidPageCursor)?;
    serde_json::from_slice(&json).map_err(|_| InvalidPageCursor)
}

pub(crate) fn encode(cursor: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let json = serde_json::to_vec(cursor).map_err(|_| fmt::Error)?;
    f.write_str(&URL_SAFE_NO_PAD.encode(json))
}

#[cfg(test)]
mod tests {
    use super::clamp;

    #[test]
    fn page_size_below_1_or_above_1000_is_set_to_the_nearest_limit() {
        for (limit, expected) in [(0, 1), (1, 1), (1000, 1000), (1001, 1000), (u32::MAX, 1000)] {
            assert_eq!(clamp(limit), expected, "{limit}");
        }
    }
}
