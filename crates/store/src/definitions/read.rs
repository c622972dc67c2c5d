//! Reads single documents and their history.

use std::cmp::Reverse;

use semver::Version;
use serde_json::Value;
use toolwright_types::{Document, DocumentKind};

use super::rows::{DocumentRow, current_columns, revision_columns, version_columns};
use super::{DocumentRef, RealmDefinitions};
use crate::db::StoreError;
use crate::page;

impl RealmDefinitions<'_> {
    /// Returns a document at its head version.
    pub async fn get(&self, kind: DocumentKind, of: &DocumentRef) -> Result<Option<Document<Value>>, StoreError> {
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

    /// Returns one version of a document, at its newest revision.
    pub async fn get_version(
        &self,
        kind: DocumentKind,
        of: &DocumentRef,
        version: &Version,
    ) -> Result<Option<Document<Value>>, StoreError> {
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

    /// Returns all versions at their newest revisions, highest first. Empty if the document does not exist.
    pub async fn versions(&self, kind: DocumentKind, of: &DocumentRef) -> Result<Vec<Document<Value>>, StoreError> {
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
        // The versions are sorted here and not in SQL, because SQL compares text, and as text 1.10.0 is lower than
        // 1.9.0. The empty version of kinds without versions sorts last.
        rows.sort_by_cached_key(|row| Reverse(Version::parse(&row.version).ok()));
        rows.into_iter().map(|row| row.document.try_into()).collect()
    }

    /// Returns the revisions with a number of at most `newest`, newest first. Empty if the document does not exist. A
    /// limit outside 1–1000 is set to the nearest bound.
    pub async fn revisions(
        &self,
        kind: DocumentKind,
        of: &DocumentRef,
        newest: i64,
        limit: u32,
    ) -> Result<Vec<Document<Value>>, StoreError> {
        let (id, name) = of.columns();
        let rows: Vec<DocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                revision_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND (d.id = $3 OR d.ref_key = $4)
                       AND r.revision <= $5
                 ORDER BY r.revision DESC LIMIT $6"
            ))
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .bind(newest)
            .bind(i64::from(page::clamp(limit)))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Document::try_from).collect()
    }

    /// Returns the newest revision with this content hash, in any document of the kind and any version.
    pub async fn by_hash(&self, kind: DocumentKind, content_hash: &str) -> Result<Option<Document<Value>>, StoreError> {
        if content_hash.contains('\0') {
            return Ok(None);
        }
        let row: Option<DocumentRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                revision_columns!(),
                " FROM documents d JOIN revisions r ON r.document_id = d.id
                 WHERE d.realm_id = $1 AND d.kind = $2 AND d.deleted_at IS NULL AND r.content_hash = $3
                 ORDER BY r.written_at DESC, r.revision DESC LIMIT 1"
            ))
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
