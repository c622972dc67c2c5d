//! Lists of documents, page by page.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_query::Filter;
use toolwright_types::{Document, DocumentKind, Source};

use super::cursor::Position;
use super::rows::{DocumentRow, current_columns};
use super::{Cursor, Definitions, Equals, filter};
use crate::db::Unavailable;
use crate::matching::{Cell, Shown};
use crate::page::{Page, push_limit};
use crate::sql::{Bound, Sql};

/// Which documents, in which order, from where on.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// All of these must pass.
    pub filters: Vec<Equals>,
    /// What must hold for the document as it is shown; nothing when absent.
    pub matching: Option<Filter>,
    /// How they came to be; it does not matter when absent.
    pub source: Option<Source>,
    /// The order.
    pub sort: Sort,
    /// How many; at least 1 and at most 1000 are given whatever is asked.
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { filters: Vec::new(), matching: None, source: None, sort: Sort::default(), limit: 20, cursor: None }
    }
}

/// An order of documents. Equal ones are in the order of their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// What is compared.
    pub by: SortKey,
    /// From the end.
    pub descending: bool,
}

/// What documents can be sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SortKey {
    /// The name, without regard to case.
    #[default]
    RefName,
    /// When it was created.
    CreatedAt,
    /// When it was last written.
    UpdatedAt,
}

impl SortKey {
    fn column(self) -> &'static str {
        match self {
            SortKey::RefName => "d.ref_key",
            SortKey::CreatedAt => "d.created_at",
            SortKey::UpdatedAt => "d.updated_at",
        }
    }
}

/// A document as clients see it.
const SHOWN: Shown = Shown {
    id: "d.id",
    body: Some("r.body"),
    fields: &[
        ("id", Cell::Plain("d.id")),
        ("refName", Cell::Plain("d.ref_name")),
        ("source", Cell::Plain("d.source")),
        ("revision", Cell::Plain("d.revision")),
        ("createdBy", Cell::Plain("d.created_by")),
        ("createdAt", Cell::Moment("d.created_at")),
        ("updatedBy", Cell::Plain("d.updated_by")),
        ("updatedAt", Cell::Moment("d.updated_at")),
    ],
};

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor was made for another order.
    #[error("the cursor belongs to a list in another order; begin again without it")]
    CursorOfAnotherOrder,
    /// A filter asks for an array or object.
    #[error("filter on `{0}`: only a text, number, boolean or null can be compared")]
    FilterNotScalar(String),
    /// A filter goes too deep.
    #[error("filter on `{0}`: the path has too many steps")]
    FilterTooDeep(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Definitions<'_> {
    /// One page of the documents of a kind, each at its head.
    pub async fn list(&self, kind: DocumentKind, query: &ListQuery) -> Result<Page, ListError> {
        let mut sql = Sql::new(concat!("SELECT ", current_columns!()));
        self.push_from(&mut sql, kind, &query.filters, query.matching.as_ref())?;
        if let Some(source) = query.source {
            sql.push(" AND d.source = ").text(source.as_str());
        }
        push_page(&mut sql, query.sort, query.cursor.as_ref())?;
        push_limit(&mut sql, query.limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<DocumentRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Ok(Page::of(rows, query.limit, |last: &Document<Value>| Cursor::after(&last.meta, query.sort))?)
    }

    /// How many documents of a kind pass the filters.
    pub async fn count(
        &self,
        kind: DocumentKind,
        filters: &[Equals],
        matching: Option<&Filter>,
    ) -> Result<u64, ListError> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, kind, filters, matching)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    fn push_from(
        &self,
        sql: &mut Sql,
        kind: DocumentKind,
        filters: &[Equals],
        matching: Option<&Filter>,
    ) -> Result<(), ListError> {
        sql.push(" FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision");
        sql.push(" WHERE d.realm_id = ").text(self.realm.to_string());
        sql.push(" AND d.kind = ").text(kind.as_str()).push(" AND d.deleted_at IS NULL");
        filters.iter().try_for_each(|filter| filter::push(sql, &self.store.db, filter))?;
        matching.map_or(Ok(()), |filter| Ok(SHOWN.push(sql, &self.store.db, filter)?))
    }
}

fn push_page(sql: &mut Sql, sort: Sort, cursor: Option<&Cursor>) -> Result<(), ListError> {
    let column = sort.by.column();
    if let Some(cursor) = cursor {
        if cursor.sort() != sort {
            return Err(ListError::CursorOfAnotherOrder);
        }
        let (after, id) = cursor.position();
        sql.push(" AND (").push(column).push(", d.id) ").push(if sort.descending { "< (" } else { "> (" });
        sql.bind(match after {
            Position::Name(name) => Bound::Text(name.clone()),
            Position::Time(micros) => Bound::Integer(*micros),
        });
        sql.push(", ").text(id).push(")");
    }
    let direction = if sort.descending { " DESC" } else { "" };
    sql.push(" ORDER BY ").push(column).push(direction).push(", d.id").push(direction);
    Ok(())
}
