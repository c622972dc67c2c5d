//! Where records live: in the store of this server, or where they always were.

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_query::Sort;
use toolwright_store::{RecordPage, RecordWrite, Selection, Store, WriteRecordsError};
use toolwright_tools::Violation;
use toolwright_types::{RecordsIn, Timestamp};

use super::rest::{CallPath, RestResources};
use super::save::version_of;
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

    /// Writes in one transaction, and says what became of each: one that is not what it was any more is not written. A place that
    /// is only read refuses.
    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        _changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<Vec<Written>, RecordError>> {
        Box::pin(std::future::ready(Err(read_only(set.of))))
    }

    /// Removes records, and says how many. A place that is only read refuses.
    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        _selection: &'a Selection,
        _removal: Removal,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(std::future::ready(Err(read_only(set.of))))
    }
}

/// One record to be written.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its id; none where the writer leaves that open.
    pub id: Option<String>,
    /// An id that it may have then.
    pub proposed: String,
    /// What is replaced, as it was read; none for a record that must not exist yet.
    pub replaces: Option<Value>,
    /// The version it has from now on, where records have one.
    pub version: i64,
    /// The record from now on, whole.
    pub record: Value,
    /// Who writes.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Which records of a selection are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The one that there is, with a version only if it is still that one. Where there are several, none.
    One(Option<i64>),
    /// All of them.
    All,
}

/// What became of a change.
#[derive(Debug, Clone)]
pub enum Written {
    /// The record stands so from now on.
    Done(Value),
    /// It was not what it was any more.
    Overtaken,
    /// The place does not take it.
    Refused(Violation),
}

/// What a place answers that is only read.
pub(super) fn read_only(of: &CompiledType) -> RecordError {
    RecordError::Refused(format!("the records of type `{}` live elsewhere, and are only read here", of.name()))
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
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<Vec<Written>, RecordError>> {
        Box::pin(async move {
            let writes: Vec<RecordWrite> = changes.into_iter().map(stored).collect();
            let written = self.0.records(&set.session.realm, set.of.id).write(&writes).await;
            let name = || set.of.name().to_owned();
            let written = written.map_err(|error| match error {
                WriteRecordsError::NoType => {
                    RecordError::UnknownType { name: name(), realm: set.session.realm.name.to_string() }
                }
                WriteRecordsError::Body(error) => RecordError::unstorable(set.of.name(), &error),
                WriteRecordsError::Unavailable(error) => error.into(),
            })?;
            let outcome = |(write, done): (RecordWrite, bool)| {
                if done { Written::Done(write.body) } else { Written::Overtaken }
            };
            Ok(writes.into_iter().zip(written).map(outcome).collect())
        })
    }

    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        removal: Removal,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        let version = match removal {
            Removal::One(version) => version,
            Removal::All => None,
        };
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.of.id).remove(selection, version).await?) })
    }
}

fn stored(change: Change) -> RecordWrite {
    let Change { id, proposed, replaces, version, record, by, at } = change;
    let replaces = replaces.as_ref().map(version_of);
    RecordWrite { id: id.unwrap_or(proposed), replaces, version, body: record, by, at }
}
