//! Creates, replaces and deletes documents.

use semver::Version;
use serde_json::Value;
use toolwright_types::{Document, DocumentKind, DocumentMeta, RealmId, RefName, Timestamp, TypeId, json::hex_digest};

use super::rows::VersionRow;
use super::{DocumentRef, InvalidBody, NewRevision, RealmDefinitions};
use crate::db::{StoreError, Tx};
use crate::events::EventType;
use crate::events::write::{self as events, NewEvent};
use crate::sql::Sql;

/// The reason why a document cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The realm already has a document with this kind and name.
    #[error("`{0}` already exists")]
    Duplicate(RefName),
    /// The name has the form of an id.
    #[error("name must not have the form of an id, got `{0}`")]
    NameIsId(RefName),
    /// The body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a document cannot be replaced.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The document does not exist.
    #[error("the document does not exist")]
    NotFound,
    /// The document was changed after the caller read it.
    #[error("the document has been changed; its current revision is {current}")]
    Stale {
        /// The current revision.
        current: i64,
    },
    /// Another apply set created the document.
    #[error("the document belongs to the apply set `{0}`")]
    OtherSet(String),
    /// The new name is in use.
    #[error("`{0}` already exists")]
    Duplicate(RefName),
    /// The new name has the form of an id.
    #[error("name must not have the form of an id, got `{0}`")]
    NameIsId(RefName),
    /// The body cannot be stored.
    #[error(transparent)]
    Body(#[from] InvalidBody),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a document cannot be deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The document does not exist.
    #[error("the document does not exist")]
    NotFound,
    /// The document was changed after the caller read it.
    #[error("the document has been changed; its current revision is {current}")]
    Stale {
        /// The current revision.
        current: i64,
    },
    /// The document is an entity type that has records.
    #[error("the type has records")]
    HasRecords,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RealmDefinitions<'_> {
    /// Creates a document with its first revision.
    pub async fn create(&self, kind: DocumentKind, new: NewRevision, by: &str) -> Result<Document<Value>, CreateError> {
        new.check()?;
        let mut tx = self.store.db.begin().await?;
        let written = self.create_in_tx(&mut tx, kind, new, by).await?;
        tx.commit().await?;
        self.store.announce_events();
        Ok(written)
    }

    /// Writes the next revision of a document, in an existing or a new version. If `expected` is set, it must equal the
    /// document's current revision.
    pub async fn replace(
        &self,
        kind: DocumentKind,
        of: &DocumentRef,
        expected: Option<i64>,
        new: NewRevision,
        by: &str,
    ) -> Result<Document<Value>, ReplaceError> {
        new.check()?;
        let mut tx = self.store.db.begin().await?;
        let written = self.replace_in_tx(&mut tx, kind, of, expected, new, by).await?;
        tx.commit().await?;
        self.store.announce_events();
        Ok(written)
    }

    /// Does the work of [`RealmDefinitions::create`] inside a transaction. The caller has checked the body.
    pub(super) async fn create_in_tx(
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
        let created = RevisionSlot {
            id: kind.new_id(),
            revision: 1,
            apply_set: new.apply_set.clone(),
            created_by: by.to_owned(),
            created_at: now.as_micros(),
        };
        let inserted = execute!(
            *tx,
            sqlx::query(
                "INSERT INTO documents (id, realm_id, kind, ref_name, ref_key, source, revision, head_revision,
                                        created_by, created_at, updated_by, updated_at, apply_set)
                 VALUES ($1, $2, $3, $4, $5, $6, 1, 1, $7, $8, $7, $8, $9)",
            )
            .bind(&created.id)
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(new.ref_name.as_str())
            .bind(new.ref_name.key())
            .bind(new.source.as_str())
            .bind(by)
            .bind(now.as_micros())
            .bind(new.apply_set.as_deref())
        );
        match inserted {
            Err(error) if error.is_unique_violation() => return Err(CreateError::Duplicate(new.ref_name)),
            other => other?,
        };
        let content_hash = insert_revision(tx, &created, &new, by, now).await?;
        self.insert_event(tx, EventType::DefinitionCreated, kind, &created, &new).await?;
        Ok(created.document(new, content_hash, by, now))
    }

    /// Does the work of [`RealmDefinitions::replace`] inside a transaction. The caller has checked the body.
    pub(super) async fn replace_in_tx(
        &self,
        tx: &mut Tx,
        kind: DocumentKind,
        of: &DocumentRef,
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
        if let (Some(owner), Some(set)) = (&written.apply_set, &new.apply_set)
            && owner != set
        {
            return Err(ReplaceError::OtherSet(owner.clone()));
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
            Err(error) if error.is_unique_violation() => {
                return Err(ReplaceError::Duplicate(new.ref_name));
            }
            other => other?,
        };
        self.insert_event(tx, EventType::DefinitionUpdated, kind, &written, &new).await?;
        Ok(written.document(new, content_hash, by, now))
    }

    /// Deletes a document with its versions, so that its name can be used again. If `expected` is set, it must equal
    /// the document's current revision.
    pub async fn delete(&self, kind: DocumentKind, of: &DocumentRef, expected: Option<i64>) -> Result<(), DeleteError> {
        let (id, name) = of.columns();
        let mut tx = self.store.db.begin().await?;
        let deleted: Option<(String, i64, String, i64)> = within!(tx, |conn| {
            sqlx::query_as(
                "UPDATE documents SET deleted_at = $1
                 WHERE realm_id = $2 AND kind = $3 AND deleted_at IS NULL AND (id = $4 OR ref_key = $5)
                 RETURNING id, revision, ref_name, head_revision",
            )
            .bind(self.store.now().as_micros())
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_optional(conn)
        })?;
        let (id, current, ref_name, head) = deleted.ok_or(DeleteError::NotFound)?;
        if expected.is_some_and(|expected| expected != current) {
            return Err(DeleteError::Stale { current });
        }
        if let (DocumentKind::Type, Ok(of)) = (kind, id.parse())
            && has_records(&mut tx, self.realm, of).await?
        {
            return Err(DeleteError::HasRecords);
        }
        let body = read_body(&mut tx, &id, head).await?;
        let event = NewEvent::definition(EventType::DefinitionDeleted, kind, (&id, &ref_name, current), &body);
        events::insert(&mut tx, self.realm, self.store.now(), event).await?;
        tx.commit().await?;
        self.store.announce_events();
        Ok(())
    }

    async fn insert_event(
        &self,
        tx: &mut Tx,
        event_type: EventType,
        kind: DocumentKind,
        written: &RevisionSlot,
        new: &NewRevision,
    ) -> Result<(), StoreError> {
        let identity = (written.id.as_str(), new.ref_name.as_str(), written.revision);
        let event = NewEvent::definition(event_type, kind, identity, &new.body);
        events::insert(tx, self.realm, self.store.now(), event).await
    }

    /// Increments the revision.
    ///
    /// INVARIANT: this is the first statement of a replacement. It locks the document's row until the end of the
    /// transaction. Concurrent writers therefore wait for each other, each sees the result of the previous one, and no
    /// revision number is used twice.
    async fn take_next_revision(
        &self,
        tx: &mut Tx,
        kind: DocumentKind,
        of: &DocumentRef,
    ) -> Result<Option<RevisionSlot>, StoreError> {
        let (id, name) = of.columns();
        within!(*tx, |conn| {
            sqlx::query_as(
                "UPDATE documents SET revision = revision + 1
                 WHERE realm_id = $1 AND kind = $2 AND deleted_at IS NULL AND (id = $3 OR ref_key = $4)
                 RETURNING id, revision, apply_set, created_by, created_at",
            )
            .bind(self.realm.to_string())
            .bind(kind.as_str())
            .bind(id)
            .bind(name.as_deref())
            .fetch_optional(conn)
        })
    }
}

/// The metadata that a new revision takes from the document's stored row.
#[derive(sqlx::FromRow)]
struct RevisionSlot {
    id: String,
    revision: i64,
    apply_set: Option<String>,
    created_by: String,
    created_at: i64,
}

impl RevisionSlot {
    fn document(self, new: NewRevision, content_hash: String, by: &str, now: Timestamp) -> Document<Value> {
        let meta = DocumentMeta {
            id: self.id,
            ref_name: new.ref_name,
            source: new.source,
            apply_set: self.apply_set,
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

/// Whether the entity type has records. The caller has locked the type's row. Every writer of records locks the same
/// row, so no record can be added until the caller's transaction ends.
async fn has_records(tx: &mut Tx, realm: RealmId, of: TypeId) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT EXISTS (SELECT 1 FROM records WHERE realm_id = ");
    sql.id(realm).push(" AND type_id = ").id(of).push(")");
    let (text, values) = sql.into_parts();
    within!(*tx, |conn| bind_all!(sqlx::query_scalar(text), values).fetch_one(conn))
}

async fn read_body(tx: &mut Tx, document: &str, revision: i64) -> Result<Value, StoreError> {
    let body: String = within!(*tx, |conn| {
        sqlx::query_scalar("SELECT body FROM revisions WHERE document_id = $1 AND revision = $2")
            .bind(document)
            .bind(revision)
            .fetch_one(conn)
    })?;
    serde_json::from_str(&body).map_err(StoreError::unreadable)
}

fn looks_like_id(kind: DocumentKind, name: &RefName) -> bool {
    matches!(DocumentRef::parse(kind, name.as_str()), DocumentRef::Id(_))
}

/// Inserts the revision and returns its content hash.
async fn insert_revision(
    tx: &mut Tx,
    of: &RevisionSlot,
    new: &NewRevision,
    by: &str,
    now: Timestamp,
) -> Result<String, StoreError> {
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

/// Returns the revision number of the head: the newest revision of the highest active version, or of the highest
/// version if none is active.
async fn find_head(tx: &mut Tx, document: &str) -> Result<i64, StoreError> {
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
    head.map(|row| row.revision).ok_or_else(|| StoreError::unreadable(NoRevision(document.to_owned())))
}

/// The error for a document without revisions. It indicates a damaged database, because a document and its first
/// revision are inserted together.
#[derive(Debug, thiserror::Error)]
#[error("document `{0}` has no revision")]
struct NoRevision(String);
