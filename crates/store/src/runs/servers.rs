//! Which server drives a run, and for how long it may.

use std::fmt;

use toolwright_types::{DocumentId as _, RealmScope, RunId, Timestamp};

use super::Run;
use super::rows::{RunInRealmRow, run_columns};
use crate::db::{Tx, Unavailable};
use crate::store::Store;

/// A server, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerId(String);

impl ServerId {
    /// What stands in the place of a server where a conductor outside drives a run. It has no lease: nobody takes a run
    /// from it.
    pub(crate) const CONDUCTOR: &str = "conductor";

    /// The conductor, as whom every server writes that it reaches.
    pub fn conductor() -> Self {
        Self(Self::CONDUCTOR.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// One that no other has.
    pub fn generate() -> Self {
        Self(RunId::generate().to_string().replacen("run_", "srv_", 1))
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Store {
    /// Lets a server drive runs until `until`, or longer if it may already: of two requests the later can arrive first.
    pub async fn lease(&self, server: &ServerId, until: Timestamp) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        let sql = "INSERT INTO servers (id, lease_until) VALUES ($1, $2)
                   ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
                   WHERE excluded.lease_until > servers.lease_until";
        execute!(tx, sqlx::query(sql).bind(server.to_string()).bind(until.as_micros()))?;
        tx.commit_unannounced().await
    }

    /// Ends a server's lease: what it drove may be taken up at once.
    pub async fn end_lease(&self, server: &ServerId) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM servers WHERE id = $1").bind(server.to_string()))?;
        tx.commit_unannounced().await
    }

    /// Ends the leases of all servers, for the one that has the database to itself.
    pub async fn end_all_leases(&self) -> Result<(), Unavailable> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM servers"))?;
        tx.commit_unannounced().await
    }

    /// Makes a server the one that drives a run; false when another does, or the run has ended.
    pub async fn take_run(&self, run: RunId, server: &ServerId, now: Timestamp) -> Result<bool, Unavailable> {
        let mut tx = self.db.begin().await?;
        let sql = "UPDATE runs SET driver_id = $2
                   WHERE id = $1 AND ended_at IS NULL AND (driver_id IS NULL OR driver_id = $2 OR driver_id <> $4 AND
                         NOT EXISTS (SELECT 1 FROM servers s WHERE s.id = runs.driver_id AND s.lease_until > $3))";
        let taken = execute!(
            tx,
            sqlx::query(sql)
                .bind(run.to_string())
                .bind(server.to_string())
                .bind(now.as_micros())
                .bind(ServerId::CONDUCTOR)
        )?;
        tx.commit_unannounced().await?;
        Ok(taken == 1)
    }

    /// Every run that something was under way in when its server was lost; the oldest first.
    pub async fn abandoned_runs(&self, now: Timestamp) -> Result<Vec<(RealmScope, Run)>, Unavailable> {
        let rows: Vec<RunInRealmRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT m.id, m.org_id, m.name, ",
                run_columns!(),
                " FROM runs r JOIN realms m ON m.id = r.realm_id
                  WHERE r.status = 'RUNNING' AND (r.driver_id IS NULL OR r.driver_id <> $2) AND NOT EXISTS
                        (SELECT 1 FROM servers s WHERE s.id = r.driver_id AND s.lease_until > $1)
                  ORDER BY r.started_at, r.id"
            ))
            .bind(now.as_micros())
            .bind(ServerId::CONDUCTOR)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(RunInRealmRow::into_pair).collect()
    }
}

/// Fails unless the server drives all these runs, and keeps it so until the transaction ends.
///
/// Only where servers share a database: elsewhere nobody could have taken them.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "servers share no SQLite"))]
pub(crate) async fn still_drives(tx: &mut Tx, server: &ServerId, runs: &[RunId]) -> Result<(), Unavailable> {
    match tx {
        Tx::Sqlite(_) => Ok(()),
        #[cfg(feature = "postgres")]
        Tx::Postgres(_) if runs.is_empty() => Ok(()),
        #[cfg(feature = "postgres")]
        Tx::Postgres(tx) => {
            let found = sqlx::query("SELECT 1 FROM runs r WHERE r.driver_id = $1 AND r.id = ANY($2) FOR SHARE")
                .bind(server.as_str())
                .bind(runs.iter().map(RunId::to_string).collect::<Vec<_>>())
                .fetch_all(&mut **tx)
                .await?;
            if found.len() == runs.len() { Ok(()) } else { Err(sqlx::Error::RowNotFound.into()) }
        }
    }
}
