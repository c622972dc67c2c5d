//! Selects the source of a type's records: the store of this server, an external SQL table, or an API that tools call.

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_store::{RecordPage, RecordWrite, Selection, Store, WriteRecordsError};
use toolwright_types::RecordLocation;

use super::rest::RestResources;
use super::save::version_of;
use super::source::{ChangeOutcome, RecordChange, RecordSet, RecordSource, Removal};
use super::sql::SqlTables;
use super::{CompiledType, RecordError};

/// All record sources.
pub(crate) struct Sources {
    pub store: StoreSource,
    pub sql: SqlTables,
    pub rest: RestResources,
}

impl Sources {
    /// Returns the source of a type's records.
    pub(crate) fn for_type(&self, entity_type: &CompiledType) -> &dyn RecordSource {
        match &entity_type.definition.records {
            None => &self.store,
            Some(RecordLocation::Sql(_)) => &self.sql,
            Some(RecordLocation::Rest(_)) => &self.rest,
        }
    }
}

/// The record source that uses the store of this server.
pub(crate) struct StoreSource(pub Store);

impl RecordSource for StoreSource {
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.entity_type.id).find(selection, page).await?) })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move { Ok(self.0.records(&set.session.realm, set.entity_type.id).count(selection).await?) })
    }

    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        changes: Vec<RecordChange>,
    ) -> BoxFuture<'a, Result<Vec<ChangeOutcome>, RecordError>> {
        Box::pin(async move {
            let writes: Vec<RecordWrite> = changes.into_iter().map(to_record_write).collect();
            let written = self.0.records(&set.session.realm, set.entity_type.id).write(&writes).await;
            let name = || set.entity_type.name().to_owned();
            let written = written.map_err(|error| match error {
                WriteRecordsError::UnknownType => {
                    RecordError::UnknownType { name: name(), realm: set.session.realm.name.to_string() }
                }
                WriteRecordsError::Body(error) => RecordError::from_invalid_body(set.entity_type.name(), &error),
                WriteRecordsError::Store(error) => error.into(),
            })?;
            let outcome = |(write, done): (RecordWrite, bool)| {
                if done { ChangeOutcome::Written(write.body) } else { ChangeOutcome::Conflict }
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
        Box::pin(
            async move { Ok(self.0.records(&set.session.realm, set.entity_type.id).remove(selection, version).await?) },
        )
    }
}

fn to_record_write(change: RecordChange) -> RecordWrite {
    let RecordChange { id, proposed_id, replaces, version, record, by, at } = change;
    let replaces = replaces.as_ref().map(version_of);
    RecordWrite { id: id.unwrap_or(proposed_id), replaces, version, body: record, by, at }
}
