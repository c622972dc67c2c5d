//! Stores definitions. A definition is a document with a name, an immutable history and, for some kinds, versions.
//!
//! Every write of a document creates a *revision*; revisions are numbered 1, 2, 3. Each revision belongs to one
//! version, and the newest revision of a version is the current one. One version is the *head*: the highest active
//! version, or the highest version if none is active.

mod batch;
mod body;
mod cursor;
mod document_ref;
mod filter;
mod list;
mod read;
pub(crate) mod rows;
mod write;

use semver::Version;
use serde_json::Value;
use toolwright_types::{DefinitionSource, RealmId, RealmScope, RefName};

use crate::store::Store;

pub use batch::{BatchError, BatchWrite};
pub use body::InvalidBody;
pub use body::check as check_body;
pub use cursor::DocumentCursor;
pub use document_ref::DocumentRef;
pub use filter::FieldEquals;
pub use list::{DocumentPage, DocumentSort, DocumentSortKey, ListError, ListQuery};
pub use write::{CreateError, DeleteError, ReplaceError};

/// The definitions of one realm.
///
/// In returned documents `meta.revision` is the number to pass as `expected` to the next write. The exceptions are
/// [`RealmDefinitions::by_hash`] and [`RealmDefinitions::revisions`], which also return past revisions: there
/// `meta.revision` is the number of the returned revision.
#[derive(Debug, Clone, Copy)]
pub struct RealmDefinitions<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

impl Store {
    /// Returns the definitions of one realm.
    pub fn definitions(&self, scope: &RealmScope) -> RealmDefinitions<'_> {
        RealmDefinitions::new(self, scope)
    }
}

impl<'a> RealmDefinitions<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}

/// The content of one write.
#[derive(Debug, Clone)]
pub struct NewRevision {
    /// The name. A replacement with another name renames the document.
    pub ref_name: RefName,
    /// The version. `None` for kinds without versions.
    pub version: Option<Version>,
    /// Whether the version is active. An inactive version is the head only if no version is active.
    pub active: bool,
    /// The source of the definition.
    pub source: DefinitionSource,
    /// The apply set of the write. A new document belongs to it. A replacement fails if the document belongs to another
    /// set, and never changes the set of a document.
    pub apply_set: Option<String>,
    /// The definition.
    pub body: Value,
}

impl NewRevision {
    /// Checks that the body can be stored and read back.
    pub fn check(&self) -> Result<(), InvalidBody> {
        body::check(&self.body)
    }
}
