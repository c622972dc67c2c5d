//! Rows as they come from the database, and the documents they stand for.

use serde_json::Value;
use toolwright_types::{Document, Meta, RefName, Source, Timestamp};

use crate::db::Unavailable;

/// The columns of a [`DocumentRow`] for a document as it stands: what the head says, who wrote last.
macro_rules! current_columns {
    () => {
        "d.id, d.ref_name, d.source, d.revision, d.created_by, d.created_at, d.updated_by, d.updated_at,
         r.content_hash, r.body"
    };
}

/// The columns of a [`DocumentRow`] for one version: what it says, who wrote it.
macro_rules! version_columns {
    () => {
        "d.id, d.ref_name, d.source, d.revision, d.created_by, d.created_at, r.written_by AS updated_by,
         r.written_at AS updated_at, r.content_hash, r.body"
    };
}

pub(super) use {current_columns, version_columns};

#[derive(sqlx::FromRow)]
pub(super) struct DocumentRow {
    id: String,
    #[sqlx(try_from = "String")]
    ref_name: RefName,
    source: String,
    revision: i64,
    content_hash: String,
    created_by: String,
    created_at: i64,
    updated_by: String,
    updated_at: i64,
    body: String,
}

impl TryFrom<DocumentRow> for Document<Value> {
    type Error = Unavailable;

    fn try_from(row: DocumentRow) -> Result<Self, Unavailable> {
        let meta = Meta {
            id: row.id,
            ref_name: row.ref_name,
            source: source(row.source)?,
            revision: row.revision,
            content_hash: row.content_hash,
            created_by: row.created_by,
            created_at: Timestamp::from_micros(row.created_at),
            updated_by: row.updated_by,
            updated_at: Timestamp::from_micros(row.updated_at),
        };
        let body = serde_json::from_str(&row.body).map_err(Unavailable::unreadable)?;
        Ok(Document { meta, body })
    }
}

fn source(text: String) -> Result<Source, Unavailable> {
    serde_json::from_value(Value::String(text)).map_err(Unavailable::unreadable)
}

/// Where the versions of a document stand.
#[derive(sqlx::FromRow)]
pub(super) struct VersionRow {
    pub(super) version: String,
    pub(super) revision: i64,
    pub(super) active: bool,
}
