//! Reading single documents and their history.

use std::cmp::Reverse;

use semver::Version;
use serde_json::Value;
use toolwright_types::{Document, DocumentKind};

use super::rows::{DocumentRow, current_columns, version_columns};
use super::{Definitions, Ref};
use crate::db::Unavailable;

impl Definitions<'_> {
    /// The document's head.
    pub async fn get(&self, kind: DocumentKind, of: &Ref) -> Result<Option<Document<Value>>, Unavailable> {
        let (id, name) = of.columns();
        let row: Option<DocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                current_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id AND r.revision = d.head_revision
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND (d.id = $3 OR d.ref_key = $4)"
            ))
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_optional(pool)
        })?;
        row.map(Document::try_from).transpose()
    }

    /// One version of the document, at its newest revision.
    pub async fn get_version(
        &self,
        kind: DocumentKind,
        of: &Ref,
        version: &Version,
    ) -> Result<Option<Document<Value>>, Unavailable> {
        let (id, name) = of.columns();
        let row: Option<DocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                version_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND (d.id = $3 OR d.ref_key = $4)
                       AND r.version = $5
                 ORDER BY r.revision DESC LIMIT 1"
            ))
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .bind(version.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Document::try_from).transpose()
    }

    /// Every version at its newest revision, the highest first; none when there is no such document.
    pub async fn versions(&self, kind: DocumentKind, of: &Ref) -> Result<Vec<Document<Value>>, Unavailable> {
        let (id, name) = of.columns();
        let mut rows: Vec<VersionedRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT r.version, ",
                version_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND (d.id = $3 OR d.ref_key = $4)
                       AND r.revision = (SELECT MAX(n.revision) FROM revisions n
                                         WHERE n.document_id = r.document_id AND n.version = r.version)"
            ))
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_all(pool)
        })?;
        // SQL would put 1.10.0 before 1.9.0. A text that is no version, as in kinds without, comes last.
        rows.sort_by_cached_key(|row| Reverse(Version::parse(&row.version).ok()));
        rows.into_iter().map(|row| row.document.try_into()).collect()
    }

    /// The newest revision with exactly this content, whichever version it belongs to.
    pub async fn by_hash(
        &self,
        kind: DocumentKind,
        content_hash: &str,
    ) -> Result<Option<Document<Value>>, Unavailable> {
        if content_hash.contains('\0') {
            return Ok(None);
        }
        let row: Option<DocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT d.id, d.ref_name, d.source, r.revision, d.created_by, d.created_at,
                        r.written_by AS updated_by, r.written_at AS updated_at, r.content_hash, r.body
                 FROM documents d JOIN revisions r ON r.document_id = d.id
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND r.content_hash = $3
                 ORDER BY r.written_at DESC, r.revision DESC LIMIT 1",
            )
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(content_hash)
            .fetch_optional(pool)
        })?;
        row.map(Document::try_from).transpose()
    }
}

#[derive(sqlx::FromRow)]
struct VersionedRow {
    version: String,
    #[sqlx(flatten)]
    document: DocumentRow,
}
