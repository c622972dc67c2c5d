//! Reads and writes records that are rows of an external SQL table.
//!
//! The definition of a type names a secret, and the secret contains the URL of a database. The URL is looked up when
//! records are accessed. Open connections are cached until they are idle for ten minutes. The columns of a table are
//! cached for one minute.

mod address;
mod mapping;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::ExposeSecret;
use serde_json::Value;
use toolwright_store::{
    AccessMode, ExternalDatabase, ExternalTable, RecordPage, RowRemoveOutcome, RowWrite, RowWriteOutcome,
    SecretIdentity, Selection, Store, TableInfo, UnsealError,
};
use toolwright_tools::http::EgressPolicy;
use toolwright_tools::{DefinitionIssue, Violation};
use toolwright_types::{RealmScope, RecordLocation, RefName, SqlRecords, TypeDefinition};

pub(crate) use address::schema_and_table;

use super::source::{ChangeOutcome, RecordChange, Removal};
use super::{CompiledType, RecordError, RecordSet, RecordSource};
use toolwright_catalog::Unavailable;

/// How long the columns of a table are cached.
const TABLE_CACHE_TTL: Duration = Duration::from_secs(60);
/// The maximum number of databases with open connections.
const MAX_DATABASES: u64 = 64;
/// How long an unused database keeps its connections.
const DATABASE_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// The databases that this server may access.
#[derive(Debug, Clone, Default)]
pub struct DatabaseAccess {
    /// The networks of permitted Postgres servers.
    pub egress: EgressPolicy,
    /// The folder of permitted SQLite files; `None` disables SQLite.
    pub sqlite_folder: Option<PathBuf>,
    /// The data folder of this server, whose files are never permitted.
    pub own_folder: PathBuf,
}

/// The source of records in external databases. Cheap to clone.
#[derive(Clone)]
pub struct SqlTables(Arc<Inner>);

struct Inner {
    store: Store,
    access: DatabaseAccess,
    /// The open databases. Reading and writing use separate connections.
    databases: moka::future::Cache<(SecretIdentity, AccessMode), ExternalDatabase>,
    /// The tables and their columns, by secret, definition id and definition revision.
    tables: moka::future::Cache<(SecretIdentity, String, i64), Arc<ExternalTable>>,
}

/// A failure to access an external database.
#[derive(Debug)]
pub enum DatabaseError {
    /// The secret, the definition or the server's configuration must be changed.
    Misconfigured(String),
    /// The database does not answer.
    Unavailable(Unavailable),
}

impl DatabaseError {
    /// Converts an error of the store. An error with a remedy is a misconfiguration, any other error means that the
    /// database is unavailable.
    pub fn from_store(error: toolwright_store::StoreError) -> Self {
        match error.remedy() {
            Some(remedy) => DatabaseError::Misconfigured(remedy.to_owned()),
            None => DatabaseError::Unavailable(unavailable(error)),
        }
    }
}

impl From<Unavailable> for DatabaseError {
    fn from(error: Unavailable) -> Self {
        DatabaseError::Unavailable(error)
    }
}

impl SqlTables {
    /// Creates a source without open connections.
    pub fn new(store: Store, access: DatabaseAccess) -> Self {
        let close_evicted = |_: Arc<(SecretIdentity, AccessMode)>, database: ExternalDatabase, _| {
            let closed: moka::notification::ListenerFuture = Box::pin(async move { database.close().await });
            closed
        };
        let databases = moka::future::Cache::builder()
            .max_capacity(MAX_DATABASES)
            .time_to_idle(DATABASE_IDLE_TIMEOUT)
            .async_eviction_listener(close_evicted)
            .build();
        let tables = moka::future::Cache::builder().max_capacity(10_000).time_to_live(TABLE_CACHE_TTL).build();
        Self(Arc::new(Inner { store, access, databases, tables }))
    }

    /// Opens a database for reading. The URL of the database is in a secret of the realm.
    pub async fn database(&self, realm: &RealmScope, secret: &str) -> Result<ExternalDatabase, DatabaseError> {
        let secret_identity = self.secret_identity(realm, secret).await?;
        self.open_database(realm, secret, secret_identity, AccessMode::Read).await
    }

    async fn secret_identity(&self, realm: &RealmScope, secret: &str) -> Result<SecretIdentity, DatabaseError> {
        let name: Option<RefName> = secret.parse().ok();
        let found = match name {
            Some(name) => self.0.store.secrets(realm).shared(&name).await.map_err(Unavailable::from)?,
            None => None,
        };
        found.ok_or_else(|| {
            let shown: String = secret.chars().take(128).collect();
            DatabaseError::Misconfigured(format!(
                "there is no secret `{shown}` in the realm or the org; store the URL of the database in it: toolwright secrets set {shown}"
            ))
        })
    }

    async fn open_database(
        &self,
        realm: &RealmScope,
        secret: &str,
        secret_identity: SecretIdentity,
        mode: AccessMode,
    ) -> Result<ExternalDatabase, DatabaseError> {
        if let Some(open) = self.0.databases.get(&(secret_identity, mode)).await {
            return Ok(open);
        }
        let url = self.0.store.secrets(realm).unseal(&secret_identity).await.map_err(|error| match error {
            UnsealError::Store(error) => DatabaseError::Unavailable(error.into()),
            other => DatabaseError::Misconfigured(other.to_string()),
        })?;
        let unusable =
            |why: String| DatabaseError::Misconfigured(format!("the URL in secret `{secret}` cannot be used: {why}"));
        let address = address::parse(url.expose_secret()).map_err(unusable)?;
        let address = address::check_permitted(address, &self.0.access).await.map_err(unusable)?;
        let unsupported = || unusable("this build has no Postgres support".to_owned());
        let database = ExternalDatabase::new(&address, mode).ok_or_else(unsupported)?;
        // A concurrent request may have opened the same database first. The connections of that request are kept,
        // because they may be in use.
        Ok(self.0.databases.entry((secret_identity, mode)).or_insert(database).await.into_value())
    }

    /// Closes all connections.
    pub async fn close(&self) {
        for (_, database) in self.0.databases.iter() {
            database.close().await;
        }
    }

    /// Checks a definition against its table. If the database cannot be accessed, returns a warning and no error,
    /// because the database may become available later.
    pub async fn check(
        &self,
        realm: &RealmScope,
        definition: &TypeDefinition,
        sql: &SqlRecords,
    ) -> Result<Vec<String>, Vec<DefinitionIssue>> {
        let table = async {
            let database = self.database(realm, &sql.url_secret_ref).await?;
            describe_table(&database, sql).await
        };
        match table.await {
            Ok(Some(table)) => mapping::map_table(definition, sql, &table).map(|_| Vec::new()),
            Ok(None) => Err(vec![missing_table(sql)]),
            Err(DatabaseError::Misconfigured(why)) => Ok(vec![format!("its records cannot be reached: {why}")]),
            Err(DatabaseError::Unavailable(_)) => {
                Ok(vec!["its table was not checked, because the database does not answer".to_owned()])
            }
        }
    }

    /// Opens the database and the table of a type for reading.
    async fn read_table(&self, set: RecordSet<'_>) -> Result<(ExternalDatabase, Arc<ExternalTable>), RecordError> {
        self.open_table(set, AccessMode::Read).await
    }

    async fn open_table(
        &self,
        set: RecordSet<'_>,
        mode: AccessMode,
    ) -> Result<(ExternalDatabase, Arc<ExternalTable>), RecordError> {
        let entity_type = set.entity_type;
        let Some(RecordLocation::Sql(sql)) = &entity_type.definition.records else {
            return Err(to_record_error(
                entity_type,
                DatabaseError::Misconfigured("the type has no SQL table".to_owned()),
            ));
        };
        let realm = &set.session.realm;
        let found = async {
            let secret_identity = self.secret_identity(realm, &sql.url_secret_ref).await?;
            let database = self.open_database(realm, &sql.url_secret_ref, secret_identity, mode).await?;
            let key = (secret_identity, entity_type.meta.id.clone(), entity_type.meta.revision);
            if let Some(table) = self.0.tables.get(&key).await {
                return Ok((database, table));
            }
            let misconfigured = |issue: DefinitionIssue| DatabaseError::Misconfigured(issue.message);
            let info = describe_table(&database, sql).await?.ok_or_else(|| misconfigured(missing_table(sql)))?;
            let table = mapping::map_table(&entity_type.definition, sql, &info);
            let table = table.map_err(|mut issues| misconfigured(issues.swap_remove(0)))?;
            let table = Arc::new(table);
            self.0.tables.insert(key, Arc::clone(&table)).await;
            Ok((database, table))
        };
        found.await.map_err(|error| to_record_error(entity_type, error))
    }
}

async fn describe_table(database: &ExternalDatabase, sql: &SqlRecords) -> Result<Option<TableInfo>, DatabaseError> {
    let (schema, table) = schema_and_table(&sql.table);
    database.table(schema, table).await.map_err(DatabaseError::from_store)
}

fn missing_table(sql: &SqlRecords) -> DefinitionIssue {
    let message = format!("there is no table `{}` that the user of the URL may read", sql.table);
    DefinitionIssue { path: "/records/table".to_owned(), message }
}

fn to_record_error(entity_type: &CompiledType, error: DatabaseError) -> RecordError {
    match error {
        DatabaseError::Misconfigured(message) => {
            RecordError::ExternalSource { name: entity_type.name().to_owned(), message }
        }
        DatabaseError::Unavailable(error) => error.into(),
    }
}

/// The error for a database that did not answer. The client sees only its message; the cause is logged.
fn unavailable(error: toolwright_store::StoreError) -> Unavailable {
    Unavailable::new("the database with the records did not answer", error)
}

/// The violation for a change that the database rejected. The message of the database may be shown, because it refers
/// only to values that the caller sent.
fn rejected_by_database(why: &str) -> Violation {
    Violation { path: String::new(), message: format!("the database rejected the record: {why}") }
}

/// The violation for a row that the database did not write, although it reported success.
fn row_ignored() -> Violation {
    let message = "the table did not store the row and reported no error; a trigger or rule may prevent the write";
    Violation { path: String::new(), message: message.to_owned() }
}

/// The violation for an id that several rows have.
fn duplicate_key() -> Violation {
    let message = "several rows of the table have this id, so nothing was changed; the type needs a unique `idField`";
    Violation { path: "/id".to_owned(), message: message.to_owned() }
}

impl RecordSource for SqlTables {
    fn first_unknown_field<'a>(
        &'a self,
        set: RecordSet<'a>,
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Option<&'a str>, RecordError>> {
        Box::pin(async move {
            let (_, table) = self.read_table(set).await?;
            Ok(fields.iter().map(String::as_str).find(|field| !table.layout.may_have_field(field)))
        })
    }

    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.read_table(set).await?;
            Ok(database.find(&table, selection, page).await.map_err(unavailable)?)
        })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.read_table(set).await?;
            Ok(database.count(&table, selection).await.map_err(unavailable)?)
        })
    }

    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        changes: Vec<RecordChange>,
    ) -> BoxFuture<'a, Result<Vec<ChangeOutcome>, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.open_table(set, AccessMode::Write).await?;
            let writes: Vec<_> = changes.iter().map(|change| write::row_write(&table, change)).collect();
            let has_changes = |row: &&RowWrite<'_>| row.replaces.is_none() || !row.values.is_empty();
            let rows: Vec<RowWrite<'_>> = writes.iter().flatten().filter(has_changes).cloned().collect();
            let written =
                if rows.is_empty() { Vec::new() } else { database.write(&table, &rows).await.map_err(unavailable)? };
            let mut written = written.into_iter();
            let outcome = |(change, row): (&RecordChange, &Result<RowWrite<'_>, Violation>)| match row {
                Err(violation) => ChangeOutcome::Rejected(violation.clone()),
                // No column changes, so no row was written.
                Ok(row) if !has_changes(&row) => ChangeOutcome::Written(change.record.clone()),
                Ok(_) => match written.next() {
                    Some(RowWriteOutcome::Written(record)) => {
                        ChangeOutcome::Written(record.unwrap_or_else(|| change.record.clone()))
                    }
                    Some(RowWriteOutcome::Rejected(why)) => ChangeOutcome::Rejected(rejected_by_database(&why)),
                    Some(RowWriteOutcome::Ignored) => ChangeOutcome::Rejected(row_ignored()),
                    Some(RowWriteOutcome::Ambiguous) => ChangeOutcome::Rejected(duplicate_key()),
                    Some(RowWriteOutcome::Conflict) | None => ChangeOutcome::Conflict,
                },
            };
            Ok(changes.iter().zip(&writes).map(outcome).collect())
        })
    }

    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        removal: Removal,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.open_table(set, AccessMode::Write).await?;
            let (version, max_rows) = match removal {
                Removal::One(version) => (version, 1),
                Removal::All => (None, u64::MAX),
            };
            let rejected = |violation: Violation| RecordError::from_violation(set.entity_type.name(), violation);
            match database.remove(&table, selection, version, max_rows).await.map_err(unavailable)? {
                RowRemoveOutcome::Removed(removed) => Ok(removed),
                RowRemoveOutcome::Rejected(why) => Err(rejected(rejected_by_database(&why))),
                RowRemoveOutcome::Ambiguous => Err(rejected(duplicate_key())),
            }
        })
    }
}

impl std::fmt::Debug for SqlTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlTables").field("reachable", &self.0.access).finish_non_exhaustive()
    }
}
