//! Where definitions, identities, secrets, runs and conversations are kept: SQL on SQLite or Postgres, one set of
//! queries for both.
//!
//! Nothing here decides who may do what, checks that a definition makes sense, or keeps a cache. A document is
//! JSON with a name, a history and, for some kinds, versions. A run is a row that says where it stands and a journal
//! that says how it came there; what an entry means is not known here.
//!
//! # A document is reached through its realm
//!
//! Every query about documents belongs to [`Definitions`], and that comes from [`Store::in_realm`] alone:
//!
//! ```
//! # use toolwright_store::{Ref, Store, Unavailable};
//! # use toolwright_types::{DocumentKind, RealmScope};
//! async fn exists(store: &Store, realm: &RealmScope, tool: &Ref) -> Result<bool, Unavailable> {
//!     Ok(store.in_realm(realm).get(DocumentKind::Tool, tool).await?.is_some())
//! }
//! ```
//!
//! The same function without a realm does not compile:
//!
//! ```compile_fail,E0599
//! # use toolwright_store::{Ref, Store, Unavailable};
//! # use toolwright_types::DocumentKind;
//! async fn exists(store: &Store, tool: &Ref) -> Result<bool, Unavailable> {
//!     Ok(store.get(DocumentKind::Tool, tool).await?.is_some())
//! }
//! ```
//!
//! Records, runs and conversations are read in the same way, by [`Store::records`], [`Store::runs`] and [`Store::conversations`]; only what a server
//! asks to go on with runs, as by [`Store::abandoned_runs`], spans the realms.
//!
//! Nor can the handle be made by hand:
//!
//! ```compile_fail,E0451
//! # use toolwright_store::{Definitions, Store};
//! # use toolwright_types::RealmId;
//! fn any_realm(store: &Store, realm: RealmId) -> Definitions<'_> {
//!     Definitions { store, realm }
//! }
//! ```

#[macro_use]
mod db;
#[macro_use]
mod sql;

mod conversations;
mod definitions;
mod drift;
mod elsewhere;
mod keys;
mod ledger;
mod matching;
mod page;
mod records;
mod references;
mod runs;
mod seal;
mod secrets;
mod store;
mod tenancy;
mod writer;

pub use conversations::{
    Conversation, ConversationCursor, ConversationPatch, ConversationQuery, ConversationStatus, Conversations,
    NewConversation, NewTurn, Turn, UnknownConversationStatus, UpdateError,
};
pub use db::Unavailable;
pub use definitions::check_body;
pub use definitions::{
    BatchError, BatchWrite, CreateError, Cursor, Definitions, DeleteError, Equals, InvalidBody, ListError, ListQuery,
    NewRevision, Ref, ReplaceError, Sort, SortKey,
};
pub use drift::{Drift, DriftQuery, DriftSource, Drifts, NewDrift};
pub use elsewhere::{
    Address, ColumnInfo, Elsewhere, ForeignKey, PostgresAddress, Reach, Replaced, RowWrite, RowWritten, RowsRemoved,
    Table, TableInfo, Tls, WritableColumn,
};
pub use keys::{CreateKeyError, Key, NewKey};
pub use ledger::{Answer, Ledger, RunChanges};
pub use page::{InvalidCursor, Page, TimeCursor};
pub use records::{RecordPage, RecordWrite, Records, Selection, WriteRecordsError};
pub use references::{Changed, DueSync, NewItem, ReferenceItem, References, Shelf, SyncState};
pub use runs::{
    Checkpoint, Entry, EntryHash, Fork, InTrial, Mark, NewRun, Part, PartHash, PendingWait, Run, RunCursor, RunKind,
    RunQuery, RunState, Runs, Said, ServerId, StepState, Tombstone, UnknownRunKind, Wait, WaitCursor, WaitKind,
    WaitQuery,
};
pub use seal::{SealKey, SealKeyError};
pub use secrets::{PutError, SecretIdentity, SecretInfo, SecretScope, Secrets, UnsealError};
pub use store::{Location, OpenError, Options, Promise, Store};
pub use tenancy::{EnsureError, Tenancy};
pub use writer::{Change, WriteError, Writer, WriterOptions, WriterService, writer};
