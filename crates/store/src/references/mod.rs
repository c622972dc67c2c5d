//! Reference data: what the systems of providers call things, as it was when they were asked last.
//!
//! What is gone from a system is marked and kept. How items are found by their names is decided elsewhere.

mod due;
mod read;
mod rows;
mod write;

use serde_json::{Map, Value};
use toolwright_types::{RealmId, RealmScope, RefName, Timestamp};

use crate::store::Store;

pub use due::DueSync;

/// The reference data of one realm; that of every other does not exist here.
#[derive(Debug, Clone, Copy)]
pub struct References<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle is confined to this realm.
    realm: RealmId,
}

/// A thing of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    /// Its id there, a text or a number.
    pub id: Value,
    /// What it is called.
    pub name: String,
    /// What else is kept of it.
    pub metadata: Map<String, Value>,
}

/// A thing of a system, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceItem {
    /// What it is.
    pub data_type: String,
    /// Its id as text.
    pub external_id: String,
    /// Its id as the system writes it.
    pub id: Value,
    /// What it is called.
    pub name: String,
    /// What else is kept of it.
    pub metadata: Map<String, Value>,
    /// Whether the system still has it.
    pub active: bool,
    /// When it was seen last.
    pub synced_at: Timestamp,
}

/// How the last fetch of a type went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncState {
    /// The type.
    pub data_type: String,
    /// When it was tried last.
    pub tried_at: Timestamp,
    /// When it went well last.
    pub synced_at: Option<Timestamp>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// When it is tried again.
    pub next_at: Option<Timestamp>,
}

/// What a fetch changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Items that are new, or back.
    pub created: usize,
    /// Items that are called something else, or carry something else.
    pub updated: usize,
    /// Items that are gone.
    pub deleted: usize,
}

/// One type of one provider.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// The provider.
    pub provider: &'a RefName,
    /// The type.
    pub data_type: &'a str,
}

impl<'a> References<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}
