//! Finds the runs, in all realms, whose wake time has come.

use toolwright_types::{RealmScope, Timestamp};

use super::rows::{RunInRealmRow, run_columns};
use super::{Run, ServerId};
use crate::db::StoreError;
use crate::page;
use crate::store::Store;

impl Store {
    /// Returns the runs whose wake time is `now` or earlier, earliest first. Runs of the external scheduler are not
    /// included. A limit outside 1–1000 is set to the nearest bound.
    pub async fn due_runs(&self, now: Timestamp, limit: u32) -> Result<Vec<(RealmScope, Run)>, StoreError> {
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
            .bind(ServerId::SCHEDULER)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(RunInRealmRow::into_pair).collect()
    }

    /// Returns the earliest wake time of all runs, except runs of the external scheduler. `None` if none of them has a
    /// wake time.
    pub async fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        let micros: Option<i64> = read!(&self.db, |pool| {
            sqlx::query_scalar(
                "SELECT MIN(wake_at) FROM runs WHERE wake_at IS NOT NULL AND (driver_id IS NULL OR driver_id <> $1)",
            )
            .bind(ServerId::SCHEDULER)
            .fetch_one(pool)
        })?;
        Ok(micros.map(Timestamp::from_micros))
    }
}
