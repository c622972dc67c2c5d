//! Lists and counts documents.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_query::Filter;
use toolwright_types::{DefinitionSource, Document, DocumentKind};

use super::cursor::Position;
use super::filter::MAX_PATH_SEGMENTS;
use super::rows::{DocumentRow, current_columns};
use super::{DocumentCursor, FieldEquals, RealmDefinitions, filter};
use crate::db::StoreError;
use crate::page::{Page, push_limit};
use crate::row_filter::{FieldColumn, RowView};
use crate::sql::{Bound, Sql};

/// A page of documents at their head revisions.
pub type DocumentPage = Page<Document<Value>, DocumentCursor>;

/// A query for documents.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Equality filters. A document must match all of them.
    pub filters: Vec<FieldEquals>,
    /// A filter on the JSON object that clients receive for a document.
    pub matching: Option<Filter>,
    /// If set, only definitions with this source are listed.
    pub source: Option<DefinitionSource>,
    /// If set, only definitions that this apply set created are listed.
    pub apply_set: Option<String>,
    /// The order.
    pub sort: DocumentSort,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<DocumentCursor>,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self {
            filters: Vec::new(),
            matching: None,
            source: None,
            apply_set: None,
            sort: DocumentSort::default(),
            limit: 20,
            cursor: None,
        }
    }
}

/// The sort order of a list of documents. Documents with equal keys are sorted by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentSort {
    /// The sort key.
    pub by: DocumentSortKey,
    /// Whether the order is descending.
    pub descending: bool,
}

/// The keys by which documents can be sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DocumentSortKey {
    /// The name, without regard to case.
    #[default]
    RefName,
    /// The time of the creation.
    CreatedAt,
    /// The time of the last write.
    UpdatedAt,
}

impl DocumentSortKey {
    fn column(self) -> &'static str {
        match self {
            DocumentSortKey::RefName => "d.ref_key",
            DocumentSortKey::CreatedAt => "d.created_at",
            DocumentSortKey::UpdatedAt => "d.updated_at",
        }
    }
}

/// The mapping from the row of a document to the JSON object that filters are evaluated on.
const LIST_VIEW: RowView = RowView {
    id: "d.id",
    body: Some("r.body"),
    fields: &[
        ("id", FieldColumn::Scalar("d.id")),
        ("refName", FieldColumn::Scalar("d.ref_name")),
        ("source", FieldColumn::Scalar("d.source")),
        ("applySet", FieldColumn::Scalar("d.apply_set")),
        ("revision", FieldColumn::Scalar("d.revision")),
        ("createdBy", FieldColumn::Scalar("d.created_by")),
        ("createdAt", FieldColumn::Timestamp("d.created_at")),
        ("updatedBy", FieldColumn::Scalar("d.updated_by")),
        ("updatedAt", FieldColumn::Timestamp("d.updated_at")),
    ],
};

/// The reason why documents cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor was returned for a list with another order.
    #[error("the cursor belongs to a list with another order; start again without it")]
    CursorSortMismatch,
    /// The value of a filter is an array or object.
    #[error("filter on `{0}`: value must be a string, number, boolean or null")]
    FilterNotScalar(String),
    /// The path of a filter has too many segments.
    #[error("filter on `{0}`: path must have at most {MAX_PATH_SEGMENTS} segments")]
    FilterTooDeep(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RealmDefinitions<'_> {
    /// Returns one page of the documents of a kind, each at its head revision.
    pub async fn list(&self, kind: DocumentKind, query: &ListQuery) -> Result<DocumentPage, ListError> {
        let mut sql = Sql::new(concat!("SELECT ", current_columns!()));
        self.push_from(&mut sql, kind, &query.filters, query.matching.as_ref())?;
        if let Some(source) = query.source {
            sql.push(" AND d.source = ").text(source.as_str());
        }
        if let Some(set) = &query.apply_set {
            sql.push(" AND d.apply_set = ").text(set);
        }
        push_page(&mut sql, query.sort, query.cursor.as_ref())?;
        push_limit(&mut sql, query.limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<DocumentRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Ok(Page::from_rows(rows, query.limit, |last: &Document<Value>| DocumentCursor::after(&last.meta, query.sort))?)
    }

    /// Counts the documents of a kind that match the filters.
    pub async fn count(
        &self,
        kind: DocumentKind,
        filters: &[FieldEquals],
        matching: Option<&Filter>,
    ) -> Result<u64, ListError> {
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, kind, filters, matching)?;
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        Ok(u64::try_from(count).map_err(StoreError::unreadable)?)
    }

    fn push_from(
        &self,
        sql: &mut Sql,
        kind: DocumentKind,
        filters: &[FieldEquals],
        matching: Option<&Filter>,
    ) -> Result<(), ListError> {
        sql.push(" FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision");
        sql.push(" WHERE d.realm_id = ").text(self.realm.to_string());
        sql.push(" AND d.kind = ").text(kind.as_str()).push(" AND d.deleted_at IS NULL");
        filters.iter().try_for_each(|filter| filter::push(sql, &self.store.db, filter))?;
        matching.map_or(Ok(()), |filter| Ok(LIST_VIEW.push(sql, &self.store.db, filter)?))
    }
}

fn push_page(sql: &mut Sql, sort: DocumentSort, cursor: Option<&DocumentCursor>) -> Result<(), ListError> {
    let column = sort.by.column();
    if let Some(cursor) = cursor {
        if cursor.sort() != sort {
            return Err(ListError::CursorSortMismatch);
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
