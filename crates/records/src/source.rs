//! The trait for record sources, and the types of the changes that a source writes.

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_query::Sort;
use toolwright_store::{RecordPage, Selection};
use toolwright_tools::Violation;
use toolwright_types::Timestamp;

use super::tool_caller::ToolCaller;
use super::{CompiledType, RecordError};
use toolwright_catalog::Session;

/// The records of one type in one realm, as one session accesses them.
#[derive(Clone, Copy)]
pub struct RecordSet<'a> {
    /// The principal and the realm.
    pub session: &'a Session,
    /// The type of the records.
    pub entity_type: &'a CompiledType,
    /// Calls the tools that read records from an API; `None` if tools cannot be called.
    pub tool_caller: Option<&'a ToolCaller>,
}

/// Storage for records. Before a source is called, [`Records`](crate::Records) has checked the permission and validated
/// the request.
pub trait RecordSource: Send + Sync {
    /// Returns the first of these fields that no record can have. A source that has no information beyond the schema
    /// returns `None`.
    fn first_unknown_field<'a>(
        &'a self,
        _set: RecordSet<'a>,
        _fields: &'a [String],
    ) -> BoxFuture<'a, Result<Option<&'a str>, RecordError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the records of a page in sort order, with all fields.
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>>;

    /// Returns the number of selected records.
    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>>;

    /// Returns the records of a page and the number of records on all pages.
    fn find_and_count<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<(Vec<Value>, u64), RecordError>> {
        Box::pin(async move { Ok((self.find(set, selection, page).await?, self.count(set, selection).await?)) })
    }

    /// Returns the record with this id, with all its fields. `selection` matches at most this record.
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

    /// Writes changes in one transaction and returns the outcome of each change. A record that has changed after it was
    /// read is not written. A read-only source returns an error.
    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        _changes: Vec<RecordChange>,
    ) -> BoxFuture<'a, Result<Vec<ChangeOutcome>, RecordError>> {
        Box::pin(std::future::ready(Err(read_only_error(set.entity_type))))
    }

    /// Deletes records and returns their number. A read-only source returns an error.
    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        _selection: &'a Selection,
        _removal: Removal,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(std::future::ready(Err(read_only_error(set.entity_type))))
    }
}

/// One record to write.
#[derive(Debug, Clone)]
pub struct RecordChange {
    /// The id; `None` if the caller sent none.
    pub id: Option<String>,
    /// A generated id that is used if the caller sent none and the source assigns none.
    pub proposed_id: String,
    /// The stored record as it was read before the change; `None` if the record must not exist yet.
    pub replaces: Option<Value>,
    /// The new version, for types with versions.
    pub version: i64,
    /// The new record with all its fields.
    pub record: Value,
    /// The name of the principal that writes.
    pub by: String,
    /// The time of the write.
    pub at: Timestamp,
}

/// Which records of a selection to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Deletes the only matching record. With a version, the record is deleted only if it still has that version. If
    /// several records match, none is deleted.
    One(Option<i64>),
    /// Deletes every matching record.
    All,
}

/// The outcome of a change.
#[derive(Debug, Clone)]
pub enum ChangeOutcome {
    /// The record as it was written.
    Written(Value),
    /// The record changed after it was read; nothing was written.
    Conflict,
    /// The source rejected the record.
    Rejected(Violation),
}

/// The error of a write to a read-only source.
pub(super) fn read_only_error(entity_type: &CompiledType) -> RecordError {
    RecordError::Forbidden(format!("the records of type `{}` are in a read-only external source", entity_type.name()))
}
