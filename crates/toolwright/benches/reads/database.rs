//! Fills the database with copies of a run, and executes SQL statements directly.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row as _, SqliteConnection};

use crate::routes::Names;

/// The columns of `runs` whose values a copy takes from its original.
const COPIED: &str =
    "realm_id, subject_hash, owner_id, principal_id, durable, reason, message, iterations, tokens, last_entry_n,
    last_entry_hash, shared_parts, agent_version, correlation_id, user_message";

/// A connection to the database of the server.
pub(crate) enum Database {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Creates an empty database on a Postgres server and returns its URL.
pub(crate) async fn create(server: &str) -> String {
    let name = format!("bench_reads_{}", std::process::id());
    let mut connection = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    format!("{server}/{name}")
}

impl Database {
    pub(crate) async fn connect(url: &str) -> Self {
        if url.starts_with("sqlite") {
            Self::Sqlite(SqliteConnection::connect(url).await.unwrap())
        } else {
            Self::Postgres(PgConnection::connect(url).await.unwrap())
        }
    }

    /// Adds `runs` runs. Each hundredth run is a copy of the template's waiting run, and all others are copies of the
    /// template's ended run. A copy includes the journal, the waits, the decisions and the effects of the run.
    pub(crate) async fn fill(&mut self, template: &Names, runs: usize) {
        let series = format!(
            "WITH RECURSIVE s (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM s WHERE i < {runs})"
        );
        let id = |i: &str| format!("'run_01000000000000' || SUBSTR(CAST(1000000000000 + {i} AS TEXT), 2)");
        let copy = id("s.i");
        let (run, waiting) = (&template.run, &template.waiting);
        for (original, which) in [(run, "s.i % 100 <> 0"), (waiting, "s.i % 100 = 0")] {
            self.execute(format!(
                "INSERT INTO runs (id, kind, subject, parent_id, started_at, updated_at, ended_at, status, cost_usd, {COPIED})
                 {series}
                 SELECT {copy}, CASE WHEN s.i % 5000 = 7 THEN 'tool' ELSE r.kind END,
                        CASE WHEN s.i % 2000 = 3 THEN 'rare' ELSE r.subject END,
                        CASE WHEN s.i <= 3 THEN '{run}' END,
                        r.started_at - s.i * 1000000, r.updated_at - s.i * 1000000, r.ended_at - s.i * 1000000,
                        CASE WHEN s.i % 50 = 1 THEN 'ERROR' WHEN s.i % 5000 = 9 THEN 'TIMEOUT' ELSE r.status END,
                        CASE WHEN s.i % 5000 = 11 THEN 9.0 ELSE r.cost_usd END, {COPIED}
                 FROM s CROSS JOIN runs r WHERE r.id = '{original}' AND {which}"
            ))
            .await;
            self.execute(format!(
                "INSERT INTO journal (run_id, n, written_at, kind, body, hash, call_id, tool, fork_state)
                 {series}
                 SELECT {copy}, j.n, j.written_at - s.i * 1000000, j.kind, j.body, j.hash, j.call_id,
                        CASE WHEN s.i % 2000 = 5 AND j.tool IS NOT NULL THEN 'rare' ELSE j.tool END, j.fork_state
                 FROM s CROSS JOIN journal j WHERE j.run_id = '{original}' AND {which}"
            ))
            .await;
        }
        self.execute(format!(
            "INSERT INTO waits (run_id, call_id, realm_id, kind, body, requested_at, expires_at, tool)
             {series}
             SELECT {copy}, w.call_id, w.realm_id, w.kind, w.body, w.requested_at - s.i, w.expires_at, w.tool
             FROM s CROSS JOIN waits w WHERE w.run_id = '{waiting}' AND s.i % 100 = 0"
        ))
        .await;
        let tool = "CASE WHEN s.i % 2000 = 5 THEN 'rare' ELSE c.tool END";
        self.execute(format!(
            "INSERT INTO decisions (run_id, n, call_id, realm_id, tool, outcome, decided_by, decided_at, body)
             {series}
             SELECT {copy}, c.n, c.call_id, c.realm_id, {tool}, c.outcome, c.decided_by, c.decided_at - s.i * 1000000, c.body
             FROM s CROSS JOIN decisions c WHERE c.run_id = '{run}' AND s.i % 100 <> 0"
        ))
        .await;
        self.execute(format!(
            "INSERT INTO effects (run_id, call_id, realm_id, tool, version, input, outcome, approved_by, started_at, ended_at)
             {series}
             SELECT {copy}, c.call_id, c.realm_id, {tool}, c.version, c.input, c.outcome, c.approved_by, c.started_at,
                    c.ended_at - s.i * 1000000
             FROM s CROSS JOIN effects c WHERE c.run_id = '{run}' AND s.i % 100 <> 0"
        ))
        .await;
        let analyze = if matches!(self, Self::Sqlite(_)) { "ANALYZE" } else { "VACUUM ANALYZE" };
        self.execute(analyze.to_owned()).await;
    }

    /// Returns `template` with the remaining fields, whose values are read from the database.
    pub(crate) async fn names(&mut self, template: &Names) -> Names {
        let row = format!("SELECT realm_id || ' ' || principal_id FROM runs WHERE id = '{}'", template.run);
        let ids = self.texts(&row).await.remove(0);
        let (realm, principal) = ids.split_once(' ').unwrap();
        let middle = "SELECT CAST((MIN(started_at) + MAX(started_at)) / 2 AS TEXT) FROM runs";
        let micros: i64 = self.texts(middle).await.remove(0).parse().unwrap();
        let time = jiff::Timestamp::from_microsecond(micros).unwrap().to_string();
        Names {
            run: template.run.clone(),
            waiting: template.waiting.clone(),
            long: template.long.clone(),
            realm: realm.to_owned(),
            principal: principal.to_owned(),
            middle: (micros, time),
        }
    }

    /// Returns the number of journal entries.
    pub(crate) async fn entries(&mut self) -> String {
        self.texts("SELECT CAST(COUNT(*) AS TEXT) FROM journal").await.remove(0)
    }

    /// Executes a query and returns the number of rows.
    pub(crate) async fn rows(&mut self, sql: &str) -> usize {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query(sql).fetch_all(connection).await.unwrap().len(),
            Self::Postgres(connection) => sqlx::query(sql).fetch_all(connection).await.unwrap().len(),
        }
    }

    /// Returns the tables that a query reads completely, according to its query plan. Such a query uses no index, or it
    /// reads the whole index.
    pub(crate) async fn scanned_tables(&mut self, sql: &str) -> String {
        let (explain, scan) = match self {
            Self::Sqlite(_) => ("EXPLAIN QUERY PLAN", "SCAN "),
            Self::Postgres(_) => ("EXPLAIN", "Seq Scan on "),
        };
        let plan = self.texts(&format!("{explain} {sql}")).await;
        let table = |line: &String| line.split_once(scan)?.1.split_whitespace().next().map(str::to_owned);
        let scans = plan.iter().filter_map(table);
        scans.collect::<Vec<_>>().join(", ")
    }

    async fn execute(&mut self, sql: String) {
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Sqlite(connection) => connection.execute(sql).await.map(drop).unwrap(),
            Self::Postgres(connection) => connection.execute(sql).await.map(drop).unwrap(),
        }
    }

    /// Returns the last column of a query as text.
    async fn texts(&mut self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => {
                let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| row.get(row.len() - 1)).collect()
            }
            Self::Postgres(connection) => {
                let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
                rows.iter().map(|row| row.get(row.len() - 1)).collect()
            }
        }
    }
}
