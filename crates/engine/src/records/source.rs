//! Where records live: in the store of this server, or where they always were.

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_query::Sort;
use toolwright_store::{RecordPage, RecordWrite, Selection, Store, WriteRecordsError};
use toolwright_types::RecordsIn;

use super::rest::{CallPath, RestResources};
use super::sql::SqlTables;
use super::{CompiledType, RecordError};
use crate::access::Session;

/// The records of one type in one realm, for one who asks.
#[derive(Clone, Copy)]
pub struct RecordSet<'a> {
    /// Who asks, and in which realm.
    pub session: &'a Session,
    /// The type.
    pub of: &'a CompiledType,
    /// The way to tools, for records that are behind some.
    pub calls: Option<&'a CallPath>,
}

/// A place where records live. It finds and writes; what may be found and written is decided before.
pub trait RecordSource: Send + Sync {
    /// The first of these fields that no record has, where the place knows more than the schema.
    fn unknown<'a>(
        &'a self,
        _set: RecordSet<'a>,
        _fields: &'a [String],
    ) -> BoxFuture<'a, Result<Option<&'a str>, RecordError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The records of a page, whole, in order.
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>>;

    /// How many there are.
    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>>;

    /// The records of a page, and how many there are on all pages.
    fn find_and_count<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<(Vec<Value>, u64), RecordError>> {
        Box::pin(async move { Ok((self.find(set, selection, page).await?, self.count(set, selection).await?)) })
    }

    /// The record of that id, whole. The selection lets at most this one pass.
    fn get<'a>(
        &'a self,
        set: RecordSet<'a>,
        _id: &'a str,
        selection: &'a Selection,
    ) -> BoxFuture<'a, Result<Option<Value>, RecordError>> {
        Box::pin(async move {
            let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit: 1 };
            Ok(self.find(set, selection, &page).await?.pop())
        })
    }

    /// Writes all or nothing, and says of each whether it was written: one that is not at the version it replaces was not.
    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        writes: &'a [RecordWrite],
    ) -> BoxFuture<'a, Result<Vec<bool>, RecordError>>;

    /// Removes records, with `version` only those at that version, and says how many.
    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        version: Option<i64>,
    ) -> BoxFuture<'a, Result<u64, RecordError>>;
}

/// All places there are.
pub(crate) struct Sources {
    pub store: StoreSource,
    pub sql: SqlTables,
    pub rest: RestResources,
}

impl Sources {
    /// The place of a type's records.
    pub fn of(&self, of: &CompiledType) -> &dyn RecordSource {
        match &of.definition.records {
            None => &self.store,
            Some(RecordsIn::Sql(_)) => &self.sql,
            Some(RecordsIn::Rest(_)) => &self.rest,
        }
    }
}

/// The store of this server.
pub(crate) struct StoreSource(pub Store);

impl RecordSource for StoreSource {
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.of.id).find(selection, page).await?) })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.of.id).count(selection).await?) })
    }

    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        writes: &'a [RecordWrite],
    ) -> BoxFuture<'a, Result<Vec<bool>, RecordError>> {
        Box::pin(async move {
            let written = self.0.records(&set.session.realm, set.of.id).write(writes).await;
            let name = || set.of.name().to_owned();
            written.map_err(|error| match error {
                WriteRecordsError::NoType => {
                    RecordError::UnknownType { name: name(), realm: set.session.realm.name.to_string() }
                }
                WriteRecordsError::Body(error) => RecordError::unstorable(set.of.name(), &error),
                WriteRecordsError::Unavailable(error) => error.into(),
            })
        })
    }

    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        version: Option<i64>,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.of.id).remove(selection, version).await?) })
    }
}
