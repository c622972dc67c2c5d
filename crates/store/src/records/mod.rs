//! The records of one type in one realm: JSON objects that filters of the query language find.
//!
//! What a record may look like, who may see it and what its next version is are decided elsewhere; here it is found,
//! and written if it is still what the writer had read.

mod indexes;
mod select;
mod write;

use toolwright_query::sql::{Column, Dialect, InvalidName, Layout, Searchable};
use toolwright_types::{RealmId, RealmScope, TypeId};

pub use select::{RecordPage, Selection};
pub use write::{RecordWrite, WriteRecordsError};

use crate::db::Db;
use crate::store::Store;

/// The records of one type; those of every other, and of every other realm, do not exist here.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    store: &'a Store,
    // INVARIANT: every statement of this module is confined to this realm and this type.
    realm: RealmId,
    of: TypeId,
}

impl<'a> Records<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope, of: TypeId) -> Self {
        Self { store, realm: scope.realm, of }
    }

    fn dialect(&self) -> Dialect {
        dialect(&self.store.db)
    }
}

pub(crate) fn dialect(db: &Db) -> Dialect {
    match db {
        Db::Sqlite { .. } => Dialect::Sqlite,
        #[cfg(feature = "postgres")]
        Db::Postgres(_) => Dialect::Postgres,
    }
}

/// The names of the table, as statements of this module call it.
fn layout(searchable: &[Searchable]) -> Result<Layout, InvalidName> {
    let layout = Layout::new(Column::new("r.id")?, Column::new("r.body")?);
    Ok(layout.with_searchable(searchable.iter().cloned()))
}
