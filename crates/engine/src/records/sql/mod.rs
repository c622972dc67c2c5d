//! Records that are rows of somebody else's table.
//!
//! A definition names a secret, the secret holds a URL, the URL leads to a database. Each step is taken when records are asked
//! for, and what was found is kept for a while: connections as long as they are used, columns for a minute.

mod address;
mod fields;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::ExposeSecret;
use serde_json::Value;
use toolwright_store::{
    Elsewhere, Reach, RecordPage, RowWrite, RowWritten, RowsRemoved, SecretIdentity, Selection, Store, Table,
    TableInfo, UnsealError,
};
use toolwright_tools::http::Egress;
use toolwright_tools::{DefinitionIssue, Violation};
use toolwright_types::{RealmScope, RecordsIn, RefName, SqlRecords, TypeDefinition};

pub(crate) use address::schema_and_table;

use super::source::{Change, Removal, Written};
use super::{CompiledType, RecordError, RecordSet, RecordSource};
use crate::Unavailable;

/// How long columns are believed.
const BELIEVED: Duration = Duration::from_secs(60);
/// Databases with open connections.
const MOST_DATABASES: u64 = 64;
/// How long a database that nobody asks keeps its connections.
const IDLE: Duration = Duration::from_secs(600);

/// Which databases may be reached.
#[derive(Debug, Clone, Default)]
pub struct Reachable {
    /// The networks of Postgres servers.
    pub egress: Egress,
    /// The folder whose SQLite files may be read; none when absent.
    pub sqlite_folder: Option<PathBuf>,
    /// The folder of this server, whose files never are.
    pub own_folder: PathBuf,
}

/// Finds records in databases that are not ours. Cheap to clone.
#[derive(Clone)]
pub struct SqlTables(Arc<Inner>);

struct Inner {
    store: Store,
    reachable: Reachable,
    /// Those that are only read and those that are written, each with connections of its own.
    databases: moka::future::Cache<(SecretIdentity, Reach), Elsewhere>,
    /// By the secret's value, and the definition's revision.
    tables: moka::future::Cache<(SecretIdentity, String, i64), Arc<Table>>,
}

/// Why a database cannot be asked.
#[derive(Debug)]
pub enum Unreachable {
    /// Somebody has to change something: the secret, the definition, the rules.
    Refused(String),
    /// It does not answer.
    Unavailable(Unavailable),
}

impl From<Unavailable> for Unreachable {
    fn from(error: Unavailable) -> Self {
        Unreachable::Unavailable(error)
    }
}

impl SqlTables {
    pub(crate) fn new(store: Store, reachable: Reachable) -> Self {
        let closing = |_: Arc<(SecretIdentity, Reach)>, database: Elsewhere, _| {
            let closed: moka::notification::ListenerFuture = Box::pin(async move { database.close().await });
            closed
        };
        let databases = moka::future::Cache::builder()
            .max_capacity(MOST_DATABASES)
            .time_to_idle(IDLE)
            .async_eviction_listener(closing)
            .build();
        let tables = moka::future::Cache::builder().max_capacity(10_000).time_to_live(BELIEVED).build();
        Self(Arc::new(Inner { store, reachable, databases, tables }))
    }

    /// The database that a secret of the realm leads to.
    pub(crate) async fn database(&self, realm: &RealmScope, secret: &str) -> Result<Elsewhere, Unreachable> {
        let identity = self.identity(realm, secret).await?;
        self.opened(realm, secret, identity, Reach::Read).await
    }

    async fn identity(&self, realm: &RealmScope, secret: &str) -> Result<SecretIdentity, Unreachable> {
        let name: Option<RefName> = secret.parse().ok();
        let found = match name {
            Some(name) => self.0.store.secrets(realm).shared(&name).await.map_err(Unavailable::from)?,
            None => None,
        };
        found.ok_or_else(|| {
            let shown: String = secret.chars().take(128).collect();
            Unreachable::Refused(format!(
                "there is no secret `{shown}` of the realm or the org; store the URL of the database in it: toolwright secrets set {shown}"
            ))
        })
    }

    async fn opened(
        &self,
        realm: &RealmScope,
        secret: &str,
        identity: SecretIdentity,
        reach: Reach,
    ) -> Result<Elsewhere, Unreachable> {
        if let Some(open) = self.0.databases.get(&(identity, reach)).await {
            return Ok(open);
        }
        let url = self.0.store.secrets(realm).unseal(&identity).await.map_err(|error| match error {
            UnsealError::Unavailable(error) => Unreachable::Unavailable(error.into()),
            other => Unreachable::Refused(other.to_string()),
        })?;
        let refused = |why: String| Unreachable::Refused(format!("the URL in secret `{secret}` cannot be used: {why}"));
        let address = address::parse(url.expose_secret()).map_err(refused)?;
        let address = address::permitted(address, &self.0.reachable).await.map_err(refused)?;
        let unsupported = || refused("this build has no Postgres support".to_owned());
        let database = Elsewhere::new(&address, reach).ok_or_else(unsupported)?;
        // Whoever was first is kept: one that is replaced is closed, and somebody may be asking it.
        Ok(self.0.databases.entry((identity, reach)).or_insert(database).await.into_value())
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        for (_, database) in self.0.databases.iter() {
            database.close().await;
        }
    }

    /// What is wrong with a definition in the light of its database, or what its author should know: a database that cannot
    /// be asked yet may be there later.
    pub(crate) async fn check(
        &self,
        realm: &RealmScope,
        definition: &TypeDefinition,
        sql: &SqlRecords,
    ) -> Result<Vec<String>, Vec<DefinitionIssue>> {
        let described = async {
            let database = self.database(realm, &sql.url_secret_ref).await?;
            described(&database, sql).await
        };
        match described.await {
            Ok(Some(table)) => fields::table(definition, sql, &table).map(|_| Vec::new()),
            Ok(None) => Err(vec![no_table(sql)]),
            Err(Unreachable::Refused(why)) => Ok(vec![format!("its records cannot be reached: {why}")]),
            Err(Unreachable::Unavailable(_)) => {
                Ok(vec!["its table was not looked at, because the database does not answer".to_owned()])
            }
        }
    }

    /// The database and the table with the records of a type, to be read.
    async fn of(&self, set: RecordSet<'_>) -> Result<(Elsewhere, Arc<Table>), RecordError> {
        self.reached(set, Reach::Read).await
    }

    async fn reached(&self, set: RecordSet<'_>, reach: Reach) -> Result<(Elsewhere, Arc<Table>), RecordError> {
        let of = set.of;
        let Some(RecordsIn::Sql(sql)) = &of.definition.records else {
            return Err(unreachable(of, Unreachable::Refused("they are not in a table".to_owned())));
        };
        let realm = &set.session.realm;
        let found = async {
            let identity = self.identity(realm, &sql.url_secret_ref).await?;
            let database = self.opened(realm, &sql.url_secret_ref, identity, reach).await?;
            let key = (identity, of.meta.id.clone(), of.meta.revision);
            if let Some(table) = self.0.tables.get(&key).await {
                return Ok((database, table));
            }
            let refused = |issue: DefinitionIssue| Unreachable::Refused(issue.message);
            let info = described(&database, sql).await?.ok_or_else(|| refused(no_table(sql)))?;
            let table = fields::table(&of.definition, sql, &info);
            let table = table.map_err(|mut issues| refused(issues.swap_remove(0)))?;
            let table = Arc::new(table);
            self.0.tables.insert(key, Arc::clone(&table)).await;
            Ok((database, table))
        };
        found.await.map_err(|error| unreachable(of, error))
    }
}

async fn described(database: &Elsewhere, sql: &SqlRecords) -> Result<Option<TableInfo>, Unreachable> {
    let (schema, table) = schema_and_table(&sql.table);
    database.table(schema, table).await.map_err(unanswered)
}

/// Why a database does not answer: what somebody has to change, or that it may later.
pub(crate) fn unanswered(error: toolwright_store::Unavailable) -> Unreachable {
    match error.remedy() {
        Some(remedy) => Unreachable::Refused(remedy.to_owned()),
        None => Unreachable::Unavailable(silent(error)),
    }
}

fn no_table(sql: &SqlRecords) -> DefinitionIssue {
    let message = format!("there is no table `{}` that the user of the URL may read", sql.table);
    DefinitionIssue { path: "/records/table".to_owned(), message }
}

fn unreachable(of: &CompiledType, error: Unreachable) -> RecordError {
    match error {
        Unreachable::Refused(message) => RecordError::Elsewhere { name: of.name().to_owned(), message },
        Unreachable::Unavailable(error) => error.into(),
    }
}

/// What whoever asked is told; the log has the cause.
fn silent(error: toolwright_store::Unavailable) -> Unavailable {
    Unavailable::new("the database with the records did not answer")(Box::new(error))
}

/// What the database says against a change, which speaks of what was sent.
fn refused(why: &str) -> Violation {
    Violation { path: String::new(), message: format!("the database refuses it: {why}") }
}

/// What nobody said anything against, and is not done.
fn ignored() -> Violation {
    let message = "the table did not take the row, and a trigger or a rule of it gave no reason; nothing was written";
    Violation { path: String::new(), message: message.to_owned() }
}

/// A key that turns out to be none.
fn ambiguous() -> Violation {
    let message =
        "the table has several rows with this id; nothing was changed. Give the type an `idField` that is unique";
    Violation { path: "/id".to_owned(), message: message.to_owned() }
}

impl RecordSource for SqlTables {
    fn unknown<'a>(
        &'a self,
        set: RecordSet<'a>,
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Option<&'a str>, RecordError>> {
        Box::pin(async move {
            let (_, table) = self.of(set).await?;
            Ok(fields.iter().map(String::as_str).find(|field| !table.layout.may_have(field)))
        })
    }

    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.of(set).await?;
            Ok(database.find(&table, selection, page).await.map_err(silent)?)
        })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.of(set).await?;
            Ok(database.count(&table, selection).await.map_err(silent)?)
        })
    }

    fn write<'a>(
        &'a self,
        set: RecordSet<'a>,
        changes: Vec<Change>,
    ) -> BoxFuture<'a, Result<Vec<Written>, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.reached(set, Reach::Write).await?;
            let planned: Vec<_> = changes.iter().map(|change| write::row(&table, change)).collect();
            let changing = |row: &&RowWrite<'_>| row.replaces.is_none() || !row.values.is_empty();
            let rows: Vec<RowWrite<'_>> = planned.iter().flatten().filter(changing).cloned().collect();
            let written =
                if rows.is_empty() { Vec::new() } else { database.write(&table, &rows).await.map_err(silent)? };
            let mut written = written.into_iter();
            let outcome = |(change, row): (&Change, &Result<RowWrite<'_>, Violation>)| match row {
                Err(violation) => Written::Refused(violation.clone()),
                // Nothing is different, so nothing is done.
                Ok(row) if !changing(&row) => Written::Done(change.record.clone()),
                Ok(_) => match written.next() {
                    Some(RowWritten::Done(record)) => Written::Done(record.unwrap_or_else(|| change.record.clone())),
                    Some(RowWritten::Refused(why)) => Written::Refused(refused(&why)),
                    Some(RowWritten::Ignored) => Written::Refused(ignored()),
                    Some(RowWritten::Ambiguous) => Written::Refused(ambiguous()),
                    Some(RowWritten::Overtaken) | None => Written::Overtaken,
                },
            };
            Ok(changes.iter().zip(&planned).map(outcome).collect())
        })
    }

    fn remove<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        removal: Removal,
    ) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move {
            let (database, table) = self.reached(set, Reach::Write).await?;
            let (version, most) = match removal {
                Removal::One(version) => (version, 1),
                Removal::All => (None, u64::MAX),
            };
            let against = |violation: Violation| RecordError::refused(set.of.name(), violation);
            match database.remove(&table, selection, version, most).await.map_err(silent)? {
                RowsRemoved::Done(removed) => Ok(removed),
                RowsRemoved::Refused(why) => Err(against(refused(&why))),
                RowsRemoved::Ambiguous => Err(against(ambiguous())),
            }
        })
    }
}

impl std::fmt::Debug for SqlTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqlTables").field("reachable", &self.0.reachable).finish_non_exhaustive()
    }
}
