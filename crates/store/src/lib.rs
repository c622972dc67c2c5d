//! Where definitions, identities and secrets are kept: SQL on SQLite or Postgres, one set of queries for both.
//!
//! Nothing here decides who may do what, checks that a definition makes sense, or keeps a cache. A document is
//! JSON with a name, a history and, for some kinds, versions.
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

mod definitions;
mod keys;
mod seal;
mod secrets;
mod store;
mod tenancy;

pub use db::Unavailable;
pub use definitions::{
    CreateError, Cursor, Definitions, DeleteError, Equals, InvalidBody, InvalidCursor, ListError, ListQuery,
    NewRevision, Page, Ref, ReplaceError, Sort, SortKey,
};
pub use keys::{CreateKeyError, Key, NewKey};
pub use seal::{SealKey, SealKeyError};
pub use secrets::{PutError, SecretIdentity, SecretInfo, SecretScope, Secrets, UnsealError};
pub use store::{Location, OpenError, Options, Store};
pub use tenancy::{EnsureError, Tenancy};
