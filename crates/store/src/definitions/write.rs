//! Creating, replacing and deleting documents.

use semver::Version;
use serde_json::Value;
use toolwright_types::{Document, DocumentKind, Meta, RealmId, RefName, Timestamp, TypeId, json::hex_digest};

use super::rows::VersionRow;
use super::{Definitions, InvalidBody, NewRevision, Ref};
use crate::db::{Tx, Unavailable};
use crate::sql::Sql;

/// Why a document cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The realm has a document of this kind and name.
    #[error("`{0}` already exists")]
    Duplicate(RefName),
    /// The name would be taken for an id.
    #[error("`{0}` has the form of an id and cannot be a name")]
    NameIsId(RefName),
    /// The body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a document cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// There is no such document.
    #[error("the document does not exist")]
    NotFound,
    /// Someone else has written since.
    #[error("the document is at revision {current} by now")]
    Stale {
        /// Its present revision.
        current: i64,
    },
    /// The new name is taken.
    #[error("`{0}` already exists")]
    Duplicate(RefName),
    /// The new name would be taken for an id.
    #[error("`{0}` has the form of an id and cannot be a name")]
    NameIsId(RefName),
    /// The body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a document cannot be deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// There is no such document.
    #[error("the document does not exist")]
    NotFound,
    /// Someone else has written since.
    #[error("the document is at revision {current} by now")]
    Stale {
        /// Its present revision.
        current: i64,
    },
    /// It is a type, and there are records of it.
    #[error("the type has records")]
    HasRecords,
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Definitions<'_> {
    /// Writes the first revision of a new document.
    pub async fn create(&self, kind: DocumentKind, new: NewRevision, by: &str) -> Result<Document<Value>, CreateError> {
        new.check()?;
        let mut tx = self.store.db.begin().await?;
        let written = self.create_within(&mut tx, kind, new, by).await?;
        tx.commit().await?;
        Ok(written)
    }

    /// Writes the next revision: of the version it names if the document has it, else of a new version. With
    /// `expected`, only if that is still the document's revision.
    pub async fn replace(
        &self,
        kind: DocumentKind,
        of: &Ref,
        expected: Option<i64>,
        new: NewRevision,
        by: &str,
    ) -> Result<Document<Value>, ReplaceError> {
        new.check()?;
        let mut tx = self.store.db.begin().await?;
        let written = self.replace_within(&mut tx, kind, of, expected, new, by).await?;
        tx.commit().await?;
        Ok(written)
    }

    /// [`Definitions::create`] as a part of a transaction. The body was checked.
    pub(super) async fn create_within(
        &self,
        tx: &mut Tx,
        kind: DocumentKind,
        new: NewRevision,
        by: &str,
    ) -> Result<Document<Value>, CreateError> {
        if looks_like_id(kind, &new.ref_name) {
            return Err(CreateError::NameIsId(new.ref_name));
        }
        let now = self.store.now();
        let created =
            Written { id: kind.new_id(), revision: 1, created_by: by.to_owned(), created_at: now.as_micros() };
        let inserted = execute!(
            *tx,
            sqlx::query(
                "INSERT INTO documents (id, realm_id, kind, ref_name, ref_key, source, revision, head_revision,
                                        created_by, created_at, updated_by, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, 1, 1, $7, $8, $7, $8)",
            )
            .bind(&created.id)
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(new.ref_name.as_str())
            .bind(new.ref_name.key())
            .bind(new.source.as_str())
            .bind(by)
            .bind(now.as_micros())
        );
        match inserted {
            Err(error) if error.is_duplicate() => return Err(CreateError::Duplicate(new.ref_name)),
            other => other?,
        };
        let content_hash = insert_revision(tx, &created, &new, by, now).await?;
        Ok(created.document(new, content_hash, by, now))
    }

    /// [`Definitions::replace`] as a part of a transaction. The body was checked.
    pub(super) async fn replace_within(
        &self,
        tx: &mut Tx,
        kind: DocumentKind,
        of: &Ref,
        expected: Option<i64>,
        new: NewRevision,
        by: &str,
    ) -> Result<Document<Value>, ReplaceError> {
        if looks_like_id(kind, &new.ref_name) {
            return Err(ReplaceError::NameIsId(new.ref_name));
        }
        let now = self.store.now();
        let written = self.take_next_revision(tx, kind, of).await?.ok_or(ReplaceError::NotFound)?;
        let current = written.revision - 1;
        if expected.is_some_and(|expected| expected != current) {
            return Err(ReplaceError::Stale { current });
        }
        let content_hash = insert_revision(tx, &written, &new, by, now).await?;
        let head = find_head(tx, &written.id).await?;
        let updated = execute!(
            *tx,
            sqlx::query(
                "UPDATE documents SET ref_name = $1, ref_key = $2, source = $3, head_revision = $4, updated_by = $5,
                        updated_at = $6
                 WHERE id = $7",
            )
            .bind(new.ref_name.as_str())
            .bind(new.ref_name.key())
            .bind(new.source.as_str())
            .bind(head)
            .bind(by)
            .bind(now.as_micros())
            .bind(&written.id)
        );
        match updated {
            Err(error) if error.is_duplicate() => {
                return Err(ReplaceError::Duplicate(new.ref_name));
            }
            other => other?,
        };
        Ok(written.document(new, content_hash, by, now))
    }

    /// Makes the document and its versions unreachable, and its name free. With `expected`, only if that is
    /// still its revision.
    pub async fn delete(&self, kind: DocumentKind, of: &Ref, expected: Option<i64>) -> Result<(), DeleteError> {
        let (id, name) = of.columns();
        let mut tx = self.store.db.begin().await?;
        let deleted: Option<(String, i64)> = within!(tx, |conn| {
            sqlx::query_as(
                "UPDATE documents SET deleted_at = $1
                 WHERE realm_id = $2 AND kind = $3 AND deleted_at IS NULL AND (id = $4 OR ref_key = $5)
                 RETURNING id, revision",
            )
            .bind(self.store.now().as_micros())
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_optional(conn)
        })?;
        let (id, current) = deleted.ok_or(DeleteError::NotFound)?;
        if expected.is_some_and(|expected| expected != current) {
            return Err(DeleteError::Stale { current });
        }
        if let (DocumentKind::Type, Ok(of)) = (kind, id.parse())
            && has_records(&mut tx, self.realm, of).await?
        {
            return Err(DeleteError::HasRecords);
        }
        Ok(tx.commit().await?)
    }

    /// Counts one more write.
    ///
    /// INVARIANT: this comes first in a replacement. It locks the document's row until the end, so writers go
    /// one after the other, each sees what the one before it wrote, and no revision is taken twice.
    async fn take_next_revision(
        &self,
        tx: &mut Tx,
        kind: DocumentKind,
        of: &Ref,
    ) -> Result<Option<Written>, Unavailable> {
        let (id, name) = of.columns();
        within!(*tx, |conn| {
            sqlx::query_as(
                "UPDATE documents SET revision = revision + 1
                 WHERE realm_id = $1 AND kind = $2 AND deleted_at IS NULL AND (id = $3 OR ref_key = $4)
                 RETURNING id, revision, created_by, created_at",
            )
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_optional(conn)
        })
    }
}

/// The part of a document that a write does not choose.
#[derive(sqlx::FromRow)]
struct Written {
    id: String,
    revision: i64,
    created_by: String,
    created_at: i64,
}

impl Written {
    fn document(self, new: NewRevision, content_hash: String, by: &str, now: Timestamp) -> Document<Value> {
        let meta = Meta {
            id: self.id,
            ref_name: new.ref_name,
            source: new.source,
            revision: self.revision,
            content_hash,
            created_by: self.created_by,
            created_at: Timestamp::from_micros(self.created_at),
            updated_by: by.to_owned(),
            updated_at: now,
        };
        Document { meta, body: new.body }
    }
}

/// Whoever writes a record holds the type's row, so none can come while the row is being changed.
async fn has_records(tx: &mut Tx, realm: RealmId, of: TypeId) -> Result<bool, Unavailable> {
    let mut sql = Sql::new("SELECT EXISTS (SELECT 1 FROM records WHERE realm_id = ");
    sql.id(realm).push(" AND type_id = ").id(of).push(")");
    let (text, values) = sql.into_parts();
    within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_one(conn))
}

fn looks_like_id(kind: DocumentKind, name: &RefName) -> bool {
    matches!(Ref::parse(kind, name.as_str()), Ref::Id(_))
}

/// Writes the revision and gives its content hash.
async fn insert_revision(
    tx: &mut Tx,
    of: &Written,
    new: &NewRevision,
    by: &str,
    now: Timestamp,
) -> Result<String, Unavailable> {
    let content_hash = hex_digest(&new.body);
    execute!(
        *tx,
        sqlx::query(
            "INSERT INTO revisions (document_id, revision, version, active, body, content_hash, written_by, written_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&of.id)
        .bind(of.revision)
        .bind(new.version.as_ref().map(Version::to_string).unwrap_or_default())
        .bind(new.active)
        .bind(new.body.to_string())
        .bind(&content_hash)
        .bind(by)
        .bind(now.as_micros())
    )?;
    Ok(content_hash)
}

/// The revision a reader gets who names no version: the highest active version's newest, else the highest's.
async fn find_head(tx: &mut Tx, document: &str) -> Result<i64, Unavailable> {
    let versions: Vec<VersionRow> = within!(*tx, |conn| {
        sqlx::query_as(
            "SELECT r.version, r.revision, r.active FROM revisions r
             WHERE r.document_id = $1 AND r.revision = (SELECT MAX(n.revision) FROM revisions n
                                                        WHERE n.document_id = r.document_id AND n.version = r.version)",
        )
        .bind(document)
        .fetch_all(conn)
    })?;
    let head = versions.iter().max_by_key(|row| (row.active, Version::parse(&row.version).ok()));
    head.map(|row| row.revision).ok_or_else(|| Unavailable::from(sqlx::Error::RowNotFound))
}
