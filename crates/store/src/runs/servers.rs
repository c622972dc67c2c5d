//! Stores the leases of servers and assigns runs to servers.

use std::fmt;

use toolwright_types::{DocumentId as _, RealmScope, RunId, Timestamp};

use super::Run;
use super::rows::{RunInRealmRow, run_columns};
use super::write::ApplyError;
use crate::db::{StoreError, Tx};
use crate::store::Store;

/// The id of a server process. A restarted server has a new id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerId(String);

impl ServerId {
    /// The value of `driver_id` for runs that the external scheduler drives. This id has no lease, and no server claims
    /// such a run.
    pub(crate) const SCHEDULER: &str = "scheduler";

    /// Returns the id of the external scheduler. A server that executes a task of the scheduler writes under this id.
    pub fn scheduler() -> Self {
        Self(Self::SCHEDULER.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Generates a unique id.
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
    /// Extends a server's lease to `until`. Never shortens the lease, because two requests may arrive in reverse order.
    pub async fn lease(&self, server: &ServerId, until: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let sql = "INSERT INTO servers (id, lease_until) VALUES ($1, $2)
                   ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
                   WHERE excluded.lease_until > servers.lease_until";
        execute!(tx, sqlx::query(sql).bind(server.to_string()).bind(until.as_micros()))?;
        tx.commit_unannounced().await
    }

    /// Ends a server's lease. Other servers may claim its runs at once.
    pub async fn end_lease(&self, server: &ServerId) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM servers WHERE id = $1").bind(server.to_string()))?;
        tx.commit_unannounced().await
    }

    /// Ends the leases of all servers. A server calls this only if it shares the database with no other server.
    pub async fn end_all_leases(&self) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        execute!(tx, sqlx::query("DELETE FROM servers"))?;
        tx.commit_unannounced().await
    }

    /// Makes the server the driver of a run. Returns `false` if the run has ended, or if the external scheduler or
    /// another server with a valid lease drives it.
    pub async fn claim_run(&self, run: RunId, server: &ServerId, now: Timestamp) -> Result<bool, StoreError> {
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
                .bind(ServerId::SCHEDULER)
        )?;
        tx.commit_unannounced().await?;
        Ok(taken == 1)
    }

    /// Returns all runs that need a driver and whose driver has no valid lease, oldest first. These are runs with
    /// status `RUNNING`, and suspended runs that a server claimed in order to execute a command. Such a server may have
    /// committed the command, but not the new status. Runs of the external scheduler are not included.
    pub async fn abandoned_runs(&self, now: Timestamp) -> Result<Vec<(RealmScope, Run)>, StoreError> {
        let rows: Vec<RunInRealmRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT m.id, m.org_id, m.name, ",
                run_columns!(),
                " FROM runs r JOIN realms m ON m.id = r.realm_id
                  WHERE r.id IN (SELECT id FROM runs WHERE status = 'RUNNING'
                                 UNION SELECT id FROM runs WHERE driver_id IS NOT NULL AND ended_at IS NULL)
                        AND (r.driver_id IS NULL OR r.driver_id <> $2) AND NOT EXISTS
                        (SELECT 1 FROM servers s WHERE s.id = r.driver_id AND s.lease_until > $1)
                  ORDER BY r.started_at, r.id"
            ))
            .bind(now.as_micros())
            .bind(ServerId::SCHEDULER)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(RunInRealmRow::into_pair).collect()
    }
}

/// Fails with [`ApplyError::LeaseLost`] unless the server drives all of these runs. Locks the rows of the runs, so that
/// no other server can claim them until the transaction ends.
///
/// The check is needed only on Postgres, where several servers share a database. An SQLite file has one server, so no
/// other server can claim its runs.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "SQLite is not shared by servers"))]
pub(crate) async fn ensure_still_driven(tx: &mut Tx, server: &ServerId, runs: &[RunId]) -> Result<(), ApplyError> {
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
                .await
                .map_err(StoreError::from)?;
            if found.len() == runs.len() { Ok(()) } else { Err(ApplyError::LeaseLost) }
        }
    }
}
