//! The definitions of one realm: documents with a name, an immutable history and, for some kinds, versions.
//!
//! A document's *revision* counts its writes. Each write belongs to one version; of a version the newest
//! revision counts, and of the versions one is the *head*: the highest that is active, else the highest.

mod batch;
mod body;
mod cursor;
mod filter;
mod list;
mod read;
mod reference;
mod rows;
mod write;

use semver::Version;
use serde_json::Value;
use toolwright_types::{RealmId, RealmScope, RefName, Source};

use crate::store::Store;

pub use batch::{BatchError, BatchWrite};
pub use body::InvalidBody;
pub use body::check as check_body;
pub use cursor::Cursor;
pub use filter::Equals;
pub use list::{ListError, ListQuery, Sort, SortKey};
pub use reference::Ref;
pub use write::{CreateError, DeleteError, ReplaceError};

/// The definitions of one realm; those of every other do not exist here.
///
/// In what it returns, `meta.revision` is the number to give as `expected` to the next write. Only
/// [`Definitions::by_hash`] shows the past, and there it is the number of the revision found.
#[derive(Debug, Clone, Copy)]
pub struct Definitions<'a> {
    store: &'a Store,
    // INVARIANT: every query of this module is confined to this realm.
    realm: RealmId,
}

impl<'a> Definitions<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// What one write says.
#[derive(Debug, Clone)]
pub struct NewRevision {
    /// The name; in a replacement another name renames the document.
    pub ref_name: RefName,
    /// The version it belongs to; none for kinds without versions.
    pub version: Option<Version>,
    /// Whether the version may become the head before a higher one that is not active.
    pub active: bool,
    /// How the definition came to be.
    pub source: Source,
    /// The definition.
    pub body: Value,
}

impl NewRevision {
    /// Whether it can be stored and read again.
    pub fn check(&self) -> Result<(), InvalidBody> {
        body::check(&self.body)
    }
}
