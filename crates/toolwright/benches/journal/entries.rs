//! Measures how many journal entries the store appends per second, when each entry is committed before the next entry
//! of the same run. For comparison, it also measures inserts into a plain table with the same columns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, Executor};
use tokio_util::sync::CancellationToken;
use toolwright_store::{
    EntryNotes, JournalEntry, JournalPosition, Location, NewRun, RunChange, RunKind, RunLabels, RunState, SealKey,
    ServerId, Store, StoreOptions, WriterOptions,
};
use toolwright_types::{Clock as _, DocumentId, Owner, PrincipalId, RealmId, RunId, RunStatus, SystemClock};

const DURATION: Duration = Duration::from_secs(4);
const BODY: usize = 300;
const MAX_RUNS: usize = 64;

/// For each database: the rows per second inserted into the plain table, with 64 rows per commit.
pub(crate) type Rates = Vec<(&'static str, f64)>;

pub(crate) fn measure(postgres: Option<&str>) -> Rates {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("Entries of {BODY} bytes, each committed before the next of its run.\n");
    println!("| database | concurrent runs | raw rows/s | entries/s | ratio |\n|---|---|---|---|---|");
    runtime.block_on(async {
        let mut rates = Vec::new();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let raw_sql = RawTable::Sqlite(format!("sqlite://{}?mode=rwc", folder.path().join("raw.db").display()));
        rates.push(("SQLite", compare("SQLite", Location::Sqlite(file), &raw_sql).await));
        if let Some(server) = postgres {
            let mut admin = sqlx::PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
            let name = format!("bench_{}", std::process::id());
            admin.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
            let url = format!("{server}/{name}");
            rates.push((
                "Postgres",
                compare("Postgres", Location::Postgres(url.clone()), &RawTable::Postgres(url)).await,
            ));
            admin.execute(sqlx::AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await.unwrap();
        }
        rates
    })
}

async fn compare(database: &'static str, url: Location, raw: &RawTable) -> f64 {
    let seal = SealKey::from_base64(&format!("{}=", "A".repeat(43))).unwrap();
    let store =
        Store::open(StoreOptions { url, sync: toolwright_store::SyncMode::Disk, clock: Arc::new(SystemClock), seal })
            .await
            .unwrap();
    let org = store.tenancy().ensure_org(&"acme".parse().unwrap()).await.unwrap();
    let realm = store.tenancy().ensure_realm(org, &"main".parse().unwrap()).await.unwrap().realm;
    let mut max_rate = 0.0;
    for width in [1, MAX_RUNS] {
        let rows = raw.insert(width).await;
        let entries = append(&store, realm, width).await;
        println!("| {database} | {width} | {rows:.0} | {entries:.0} | {:.0} % |", 100.0 * entries / rows);
        max_rate = rows;
    }
    store.close().await;
    max_rate
}

/// Appends entries to `runs` journals concurrently. Returns the entries per second.
async fn append(store: &Store, realm: RealmId, runs: usize) -> f64 {
    let server = ServerId::generate();
    store.lease(&server, toolwright_types::Timestamp::from_micros(i64::MAX)).await.unwrap();
    let (writer, service) = store.writer(server, WriterOptions::default());
    let writer_task = tokio::spawn(service.run(CancellationToken::new()));
    let started = Instant::now();
    let workers: Vec<_> = (0..runs)
        .map(|_| {
            let (writer, run) = (writer.clone(), new_run());
            tokio::spawn(async move {
                let begin = RunChange::Begin { realm, run: Box::new(run.clone()), state: Box::new(state()) };
                writer.commit(run.id, vec![begin]).await.unwrap();
                let mut n = 0;
                while started.elapsed() < DURATION {
                    n += 1;
                    writer.commit(run.id, vec![entry(n)]).await.unwrap();
                }
                n
            })
        })
        .collect();
    let mut written = 0;
    for worker in workers {
        written += worker.await.unwrap();
    }
    let elapsed = started.elapsed();
    drop(writer);
    writer_task.await.unwrap();
    written as f64 / elapsed.as_secs_f64()
}

fn entry(n: u64) -> RunChange {
    let body = "x".repeat(BODY);
    let (at, notes) = (SystemClock.now(), EntryNotes::default());
    RunChange::Append(JournalEntry { n, at, kind: "call_ended".into(), body, hash: [7; 32], notes })
}

fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        kind: RunKind::Agent,
        subject: "bench".into(),
        subject_hash: "a".repeat(64),
        parent: None,
        conversation: None,
        owner: Owner::new(PrincipalId::generate()),
        principal: PrincipalId::generate(),
        durable: true,
        started_at: SystemClock.now(),
        fork: None,
        trial: None,
        shared_parts: Vec::new(),
        labels: RunLabels::default(),
    }
}

fn state() -> RunState {
    RunState {
        status: RunStatus::Running,
        reason: None,
        message: None,
        updated_at: SystemClock.now(),
        ended_at: None,
        wake_at: None,
        iterations: 0,
        tokens: 0,
        cost_usd: 0.0,
        driven: true,
        journal_position: JournalPosition::default(),
    }
}

/// A plain table with the same columns as the journal table, in SQLite or Postgres. The string is the database URL.
enum RawTable {
    Sqlite(String),
    Postgres(String),
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS raw (run_id TEXT NOT NULL, n BIGINT NOT NULL, written_at BIGINT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hash BYTES NOT NULL, PRIMARY KEY (run_id, n))";

/// Runs sequential transactions, each with `rows` rows in one statement. Returns the rows per second.
macro_rules! insert {
    ($connection:expr, $rows:expr) => {{
        let connection = $connection;
        let values: Vec<String> = (0..$rows)
            .map(|row| {
                let at = row * 6;
                format!("(${}, ${}, ${}, ${}, ${}, ${})", at + 1, at + 2, at + 3, at + 4, at + 5, at + 6)
            })
            .collect();
        let sql = format!("INSERT INTO raw (run_id, n, written_at, kind, body, hash) VALUES {}", values.join(", "));
        let runs: Vec<String> = (0..$rows).map(|_| RunId::generate().to_string()).collect();
        let (started, body, mut n) = (Instant::now(), "x".repeat(BODY), 0_i64);
        while started.elapsed() < DURATION {
            n += 1;
            let mut query = sqlx::query(sqlx::AssertSqlSafe(sql.as_str()));
            for run in &runs {
                let at = SystemClock.now().as_micros();
                query = query.bind(run).bind(n).bind(at).bind("call_ended").bind(&body).bind(vec![7_u8; 32]);
            }
            let mut transaction = connection.begin().await.unwrap();
            query.execute(&mut *transaction).await.unwrap();
            transaction.commit().await.unwrap();
        }
        n as f64 * $rows as f64 / started.elapsed().as_secs_f64()
    }};
}

impl RawTable {
    /// Inserts `rows` rows per commit. Returns the rows per second.
    async fn insert(&self, rows: usize) -> f64 {
        match self {
            RawTable::Sqlite(url) => {
                let options: sqlx::sqlite::SqliteConnectOptions = url.parse().unwrap();
                let options = options
                    .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
                    .synchronous(sqlx::sqlite::SqliteSynchronous::Full);
                let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
                connection.execute(sqlx::AssertSqlSafe(TABLE.replace("BYTES", "BLOB"))).await.unwrap();
                insert!(&mut connection, rows)
            }
            RawTable::Postgres(url) => {
                let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
                connection.execute(sqlx::AssertSqlSafe(TABLE.replace("BYTES", "BYTEA"))).await.unwrap();
                insert!(&mut connection, rows)
            }
        }
    }
}
