//! What a server asks about the runs of all realms, to go on with them.

use toolwright_types::{RealmScope, Timestamp};

use super::rows::{RunInRealmRow, run_columns};
use super::{Run, ServerId};
use crate::db::Unavailable;
use crate::page;
use crate::store::Store;

impl Store {
    /// The runs that a server must look at by `now`, the most urgent first; at least 1 and at most 1000 whatever the
    /// limit says.
    pub async fn due_runs(&self, now: Timestamp, limit: u32) -> Result<Vec<(RealmScope, Run)>, Unavailable> {
        let rows: Vec<RunInRealmRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT m.id, m.org_id, m.name, ",
                run_columns!(),
                " FROM runs r JOIN realms m ON m.id = r.realm_id
                  WHERE r.wake_at <= $1 AND (r.driver_id IS NULL OR r.driver_id <> $3)
                  ORDER BY r.wake_at, r.id LIMIT $2"
            ))
            .bind(now.as_micros())
            .bind(i64::from(page::clamp(limit)))
            .bind(ServerId::CONDUCTOR)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(RunInRealmRow::into_pair).collect()
    }

    /// When the next run must be looked at; never, when none is waiting for a time.
    pub async fn next_wake(&self) -> Result<Option<Timestamp>, Unavailable> {
        let micros: Option<i64> = read!(&self.db, |pool| {
            sqlx::query_scalar(
                "SELECT MIN(wake_at) FROM runs WHERE wake_at IS NOT NULL AND (driver_id IS NULL OR driver_id <> $1)",
            )
            .bind(ServerId::CONDUCTOR)
            .fetch_one(pool)
        })?;
        Ok(micros.map(Timestamp::from_micros))
    }
}
