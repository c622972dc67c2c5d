//! Converts database rows to documents.

use serde_json::Value;
use toolwright_types::{DefinitionSource, Document, DocumentMeta, RefName, Timestamp};

use crate::db::StoreError;

/// The columns of a [`DocumentRow`] for a document: the content of its head, and the author and time of the latest
/// write to any of its versions.
macro_rules! current_columns {
    () => {
        "d.id, d.ref_name, d.source, d.apply_set, d.revision, d.created_by, d.created_at, d.updated_by, d.updated_at,
         r.content_hash, r.body"
    };
}

/// The columns of a [`DocumentRow`] for one version: the content, author and time of the version's newest revision.
macro_rules! version_columns {
    () => {
        "d.id, d.ref_name, d.source, d.apply_set, d.revision, d.created_by, d.created_at, r.written_by AS updated_by,
         r.written_at AS updated_at, r.content_hash, r.body"
    };
}

/// The columns of a [`DocumentRow`] for one revision: its number, content, author and time.
macro_rules! revision_columns {
    () => {
        "d.id, d.ref_name, d.source, d.apply_set, r.revision, d.created_by, d.created_at, r.written_by AS updated_by,
         r.written_at AS updated_at, r.content_hash, r.body"
    };
}

pub(crate) use current_columns;
pub(super) use {revision_columns, version_columns};

#[derive(sqlx::FromRow)]
pub(crate) struct DocumentRow {
    id: String,
    #[sqlx(try_from = "String")]
    ref_name: RefName,
    source: String,
    apply_set: Option<String>,
    revision: i64,
    content_hash: String,
    created_by: String,
    created_at: i64,
    updated_by: String,
    updated_at: i64,
    body: String,
}

impl TryFrom<DocumentRow> for Document<Value> {
    type Error = StoreError;

    fn try_from(row: DocumentRow) -> Result<Self, StoreError> {
        let meta = DocumentMeta {
            id: row.id,
            ref_name: row.ref_name,
            source: source(row.source)?,
            apply_set: row.apply_set,
            revision: row.revision,
            content_hash: row.content_hash,
            created_by: row.created_by,
            created_at: Timestamp::from_micros(row.created_at),
            updated_by: row.updated_by,
            updated_at: Timestamp::from_micros(row.updated_at),
        };
        let body = serde_json::from_str(&row.body).map_err(StoreError::unreadable)?;
        Ok(Document { meta, body })
    }
}

fn source(text: String) -> Result<DefinitionSource, StoreError> {
    serde_json::from_value(Value::String(text)).map_err(StoreError::unreadable)
}

/// A version with its newest revision.
#[derive(sqlx::FromRow)]
pub(super) struct VersionRow {
    pub(super) version: String,
    pub(super) revision: i64,
    pub(super) active: bool,
}
