//! Where records live. The store of this server is the first such place; another system may be a second.

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_store::{RecordPage, RecordWrite, Selection, Store, WriteRecordsError};
use toolwright_types::RealmScope;

use super::CompiledType;
use crate::Unavailable;

/// The records of one type in one realm.
#[derive(Clone, Copy)]
pub struct RecordSet<'a> {
    /// The realm.
    pub realm: &'a RealmScope,
    /// The type.
    pub of: &'a CompiledType,
}

/// A place where records live. It finds and writes; what may be found and written is decided before.
pub trait RecordSource: Send + Sync {
    /// The records of a page, whole, in order.
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, Unavailable>>;

    /// How many there are.
    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, Unavailable>>;

    /// Writes all or nothing, and says of each whether it was written: one that is not at the version it replaces was not.
    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        writes: &'a [RecordWrite],
    ) -> BoxFuture<'a, Result<Vec<bool>, WriteRecordsError>>;

    /// Removes records, with `version` only those at that version, and says how many.
    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        version: Option<i64>,
    ) -> BoxFuture<'a, Result<u64, Unavailable>>;
}

/// The store of this server.
pub(crate) struct StoreSource(pub Store);

impl RecordSource for StoreSource {
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, Unavailable>> {
        Box::pin(async move { Ok(self.0.records(set.realm, set.of.id).find(selection, page).await?) })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, Unavailable>> {
        Box::pin(async move { Ok(self.0.records(set.realm, set.of.id).count(selection).await?) })
    }

    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        writes: &'a [RecordWrite],
    ) -> BoxFuture<'a, Result<Vec<bool>, WriteRecordsError>> {
        Box::pin(async move { self.0.records(set.realm, set.of.id).write(writes).await })
    }

    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        version: Option<i64>,
    ) -> BoxFuture<'a, Result<u64, Unavailable>> {
        Box::pin(async move { Ok(self.0.records(set.realm, set.of.id).remove(selection, version).await?) })
    }
}
