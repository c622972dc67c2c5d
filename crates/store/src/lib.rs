//! Stores definitions, identities, secrets, records, runs and conversations in SQLite or Postgres. Both databases use
//! the same queries.
//!
//! This crate does not check permissions, and it neither validates nor caches definitions. A document is JSON with a
//! name, a history and, for some kinds, versions. A run is a row with the current state and a journal with the history
//! of that state. This crate does not parse the content of journal entries.
//!
//! # Every query is confined to a realm
//!
//! All queries for documents are methods of [`RealmDefinitions`], and only [`Store::definitions`] creates that handle:
//!
//! ```
//! # use toolwright_store::{DocumentRef, Store, StoreError};
//! # use toolwright_types::{DocumentKind, RealmScope};
//! async fn exists(store: &Store, realm: &RealmScope, tool: &DocumentRef) -> Result<bool, StoreError> {
//!     Ok(store.definitions(realm).get(DocumentKind::Tool, tool).await?.is_some())
//! }
//! ```
//!
//! The same function without a realm does not compile:
//!
//! ```compile_fail,E0599
//! # use toolwright_store::{DocumentRef, Store, StoreError};
//! # use toolwright_types::DocumentKind;
//! async fn exists(store: &Store, tool: &DocumentRef) -> Result<bool, StoreError> {
//!     Ok(store.get(DocumentKind::Tool, tool).await?.is_some())
//! }
//! ```
//!
//! [`Store::records`], [`Store::runs`] and [`Store::conversations`] also return handles for one realm. The exceptions
//! are queries that a server needs to recover runs, such as [`Store::abandoned_runs`]: they span all realms.
//!
//! # Every list of runs is confined to owners
//!
//! A run contains the data of its owner. So every query for runs has the owners as a parameter, unless it selects a run
//! by its id:
//!
//! ```
//! # use toolwright_store::{Owners, Run, RunQuery, Store, StoreError};
//! # use toolwright_types::{Owner, RealmScope};
//! async fn latest(store: &Store, realm: &RealmScope, owner: Owner) -> Result<Option<Run>, StoreError> {
//!     let page = store.runs(realm).list(Owners::Only(owner), &RunQuery::default()).await?;
//!     Ok(page.items.into_iter().next())
//! }
//! ```
//!
//! The same function without an owner does not compile:
//!
//! ```compile_fail,E0061
//! # use toolwright_store::{Run, RunQuery, Store, StoreError};
//! # use toolwright_types::RealmScope;
//! async fn latest(store: &Store, realm: &RealmScope) -> Result<Option<Run>, StoreError> {
//!     let page = store.runs(realm).list(&RunQuery::default()).await?;
//!     Ok(page.items.into_iter().next())
//! }
//! ```
//!
//! The id of the principal that a run acts as is not an owner:
//!
//! ```compile_fail,E0308
//! # use toolwright_store::{Owners, Run};
//! fn owners(run: &Run) -> Owners {
//!     Owners::Only(run.principal)
//! }
//! ```
//!
//! # Handles
//!
//! A handle for one realm cannot be constructed directly:
//!
//! ```compile_fail,E0451
//! # use toolwright_store::{RealmDefinitions, Store};
//! # use toolwright_types::RealmId;
//! fn any_realm(store: &Store, realm: RealmId) -> RealmDefinitions<'_> {
//!     RealmDefinitions { store, realm }
//! }
//! ```

#[macro_use]
mod db;
#[macro_use]
mod sql;

mod backup;
mod browser_sessions;
mod conversations;
mod definitions;
mod drift;
mod events;
mod external;
mod keys;
mod page;
mod principals;
mod records;
mod references;
mod row_filter;
mod runs;
mod seal;
mod secrets;
mod store;
mod tenancy;
mod triggers;
mod webhooks;
mod writer;

pub use backup::{BackupError, check_sqlite, copy_sqlite};
pub use browser_sessions::NewBrowserSession;
pub use conversations::{
    Conversation, ConversationCursor, ConversationPatch, ConversationQuery, ConversationStatus, NewConversation,
    NewTurn, RealmConversations, Turn, UnknownConversationStatus, UpdateError,
};
pub use db::StoreError;
pub use definitions::check_body;
pub use definitions::{
    BatchError, BatchWrite, CreateError, DeleteError, DocumentCursor, DocumentPage, DocumentRef, DocumentSort,
    DocumentSortKey, FieldEquals, InvalidBody, ListError, ListQuery, NewRevision, RealmDefinitions, ReplaceError,
};
pub use drift::{Drift, DriftQuery, DriftSource, NewDrift, RealmDrift};
pub use events::{
    Event, EventBounds, EventKind, EventPage, EventPosition, EventType, InvalidEventPosition, RealmEvents,
};
pub use external::{
    AccessMode, ColumnInfo, DatabaseAddress, ExpectedRow, ExternalDatabase, ExternalTable, ForeignKey, PostgresAddress,
    RowRemoveOutcome, RowWrite, RowWriteOutcome, TableInfo, TlsMode, WritableColumn,
};
pub use keys::{ApiKey, CreateKeyError, NewApiKey};
pub use page::{InvalidPageCursor, Page, TimeCursor};
pub use principals::{PrincipalQuery, PrincipalSummary};
pub use records::{RealmRecords, RecordPage, RecordWrite, Selection, WriteRecordsError};
pub use references::{DueSync, NewReferenceItem, RealmReferences, ReferenceItem, ReferenceSet, SyncCounts, SyncState};
pub use runs::{
    Ancestry, CallFilter, DecisionCursor, DecisionOutcome, DecisionQuery, DecisionRecord, EffectCursor, EffectOutcome,
    EffectQuery, EffectRecord, EntryHash, EntryNotes, Fork, InboxItem, JournalEntry, JournalPageQuery, JournalPosition,
    JournalRow, NewRun, Owners, PartHash, PendingWait, RealmRuns, Resolution, Run, RunCursor, RunKind, RunLabels,
    RunQuery, RunState, ServerId, StoredCheckpoint, StoredDecision, StoredEffect, StoredPart, StoredTask, TaskStart,
    TaskState, Tombstone, TrialAssignment, TrialQuery, TrialSummary, UndoneEffect, UnknownRunKind, Wait, WaitCursor,
    WaitKind, WaitQuery,
};
pub use seal::{SealKey, SealKeyError};
pub use secrets::{PutError, RealmSecrets, SecretIdentity, SecretInfo, SecretScope, UnsealError};
pub use store::{Location, OpenStoreError, Store, StoreOptions, SyncMode};
pub use tenancy::{EnsureError, Tenancy};
pub use triggers::{Firing, FiringStatus, InvalidFiringStatus, NewFiring, RealmFirings, ScheduledTrigger, Schedules};
pub use webhooks::{Delivery, DeliveryOutcome, DeliveryStatus, InvalidDeliveryStatus, NewDelivery, RealmDeliveries};
pub use writer::{
    BoxFuture, BuildChanges, RunChange, RunChanges, RunStore, WriteError, Writer, WriterOptions, WriterService, writer,
};
