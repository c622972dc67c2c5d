//! Stores the records of one entity type in one realm. A record is a JSON object; filters of the query language select
//! records.
//!
//! The caller validates records, checks permissions and assigns versions. This module finds records. It writes a record
//! only if the record has not changed since the caller read it.

mod indexes;
mod select;
mod write;

use toolwright_query::sql::{Column, Dialect, InvalidIdentifier, Layout, SearchableField};
use toolwright_types::{RealmId, RealmScope, TypeId};

pub use select::{RecordPage, Selection};
pub use write::{RecordWrite, WriteRecordsError};

use crate::store::Store;

/// The records of one type in one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmRecords<'a> {
    store: &'a Store,
    // INVARIANT: every statement of this handle reads or changes only rows of this realm and type.
    realm: RealmId,
    entity_type: TypeId,
}

impl Store {
    /// Returns the records of one type in one realm.
    pub fn records(&self, scope: &RealmScope, entity_type: TypeId) -> RealmRecords<'_> {
        RealmRecords::new(self, scope, entity_type)
    }
}

impl<'a> RealmRecords<'a> {
    fn new(store: &'a Store, scope: &RealmScope, entity_type: TypeId) -> Self {
        Self { store, realm: scope.realm, entity_type }
    }

    fn dialect(&self) -> Dialect {
        self.store.db.dialect()
    }
}

/// Returns the layout that filters are compiled with: the columns `id` and `body` of the table with alias `r`, and the
/// indexed fields.
fn layout(searchable: &[SearchableField]) -> Result<Layout, InvalidIdentifier> {
    let layout = Layout::new(Column::new("r.id")?, Column::new("r.body")?);
    Ok(layout.with_searchable(searchable.iter().cloned()))
}
