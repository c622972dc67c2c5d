//! Stores reference data: the items that each provider's external system contained at the last sync.
//!
//! Items that no longer exist in the external system are kept and marked as deleted. Lookup by name is not part of this
//! module.

mod due;
mod read;
mod rows;
mod write;

use serde_json::{Map, Value};
use toolwright_types::{RealmId, RealmScope, RefName, Timestamp};

use crate::store::Store;

pub use due::DueSync;

/// The reference data of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmReferences<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

/// An item that a sync fetched from the external system.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReferenceItem {
    /// The id in the external system, a string or a number.
    pub id: Value,
    /// The name.
    pub name: String,
    /// Additional fields.
    pub metadata: Map<String, Value>,
}

/// A stored item.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceItem {
    /// The type of the items, such as `users`.
    pub data_type: String,
    /// The id as text.
    pub external_id: String,
    /// The id as JSON, a string or a number as in the external system.
    pub id: Value,
    /// The name.
    pub name: String,
    /// Additional fields.
    pub metadata: Map<String, Value>,
    /// Whether the external system still has the item.
    pub active: bool,
    /// The time of the last sync that returned the item.
    pub synced_at: Timestamp,
}

/// The last and the next sync of a data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncState {
    /// The type of the items, such as `users`.
    pub data_type: String,
    /// The time of the last attempt.
    pub attempted_at: Timestamp,
    /// The time of the last success.
    pub synced_at: Option<Timestamp>,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The time of the next attempt. `None` if no sync is planned.
    pub next_sync_at: Option<Timestamp>,
}

/// The numbers of items that a sync created, updated and deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Items that are new, or that were marked as deleted and exist again.
    pub created: usize,
    /// Items whose name or additional fields changed.
    pub updated: usize,
    /// Items that no longer exist in the external system.
    pub deleted: usize,
}

/// The key of a reference set: one data type of one provider.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceSet<'a> {
    /// The provider.
    pub provider: &'a RefName,
    /// The type of the items, such as `users`.
    pub data_type: &'a str,
}

impl Store {
    /// Returns the reference data of one realm.
    pub fn references(&self, scope: &RealmScope) -> RealmReferences<'_> {
        RealmReferences::new(self, scope)
    }
}

impl<'a> RealmReferences<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }
}
