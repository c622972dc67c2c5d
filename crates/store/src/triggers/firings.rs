//! The firings of triggers.

use std::str::FromStr;

use toolwright_types::{FiringId, RealmId, RealmScope, RunId, Timestamp, TriggerId};

use crate::db::{StoreError, Tx};
use crate::page::{self, Page, TimeCursor};
use crate::sql::{Sql, storable};
use crate::store::Store;

/// The columns of a [`FiringRow`].
macro_rules! columns {
    () => {
        "id, realm_id, trigger_id, cause, fired_at, status, run_id, attempts, retry_at, repeats, error"
    };
}

/// How long an attempt has to start the run of a firing. Then another attempt may start it.
const CLAIM_MICROS: i64 = 60_000_000;

/// The firings of the triggers of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmFirings<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

/// The status of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FiringStatus {
    /// The run has not started yet.
    Pending,
    /// The run has started.
    Started,
    /// The run could not be started.
    Failed,
    /// No run was started: the time was missed, or the last run had not ended.
    Skipped,
}

impl FiringStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Started, Self::Failed, Self::Skipped];

    /// The name of the status in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            FiringStatus::Pending => "PENDING",
            FiringStatus::Started => "STARTED",
            FiringStatus::Failed => "FAILED",
            FiringStatus::Skipped => "SKIPPED",
        }
    }
}

/// The text is not a status of a firing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `PENDING`, `STARTED`, `FAILED` or `SKIPPED`, got `{0}`")]
pub struct InvalidFiringStatus(String);

impl FromStr for FiringStatus {
    type Err = InvalidFiringStatus;

    fn from_str(text: &str) -> Result<Self, InvalidFiringStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| InvalidFiringStatus(text.to_owned()))
    }
}

/// A firing to create.
#[derive(Debug, Clone)]
pub struct NewFiring {
    /// The id.
    pub id: FiringId,
    /// The realm of the trigger.
    pub realm: RealmId,
    /// The trigger.
    pub trigger: TriggerId,
    /// What caused the firing: a scheduled time, or the id of a webhook. The same cause fires once.
    pub cause: String,
    /// The time.
    pub fired_at: Timestamp,
    /// Whether a server repeats the start of the run if it fails. The sender of a webhook repeats it instead.
    pub repeats: bool,
    /// The reason why no run is started.
    pub skipped: Option<String>,
    /// The id of the run.
    pub run: RunId,
}

impl NewFiring {
    /// Inserts the firing. Does nothing if the same cause has fired before.
    pub(super) async fn insert(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let status = if self.skipped.is_some() { FiringStatus::Skipped } else { FiringStatus::Pending };
        let retry_at = self.skipped.is_none().then(|| self.fired_at.as_micros() + CLAIM_MICROS);
        let inserted = execute!(
            *tx,
            sqlx::query(
                "INSERT INTO trigger_firings (id, realm_id, trigger_id, cause, fired_at, status, run_id, attempts,
                                              retry_at, repeats, error)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9, $10) ON CONFLICT (trigger_id, cause) DO NOTHING",
            )
            .bind(self.id.to_string())
            .bind(self.realm.to_string())
            .bind(self.trigger.to_string())
            .bind(storable(&self.cause))
            .bind(self.fired_at.as_micros())
            .bind(status.as_str())
            .bind(self.run.to_string())
            .bind(retry_at)
            .bind(self.repeats)
            .bind(self.skipped.as_deref().map(storable))
        )?;
        Ok(inserted == 1)
    }
}

/// A firing of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The id.
    pub id: FiringId,
    /// The realm of the trigger.
    pub realm: RealmId,
    /// The trigger.
    pub trigger: TriggerId,
    /// What caused the firing: a scheduled time, or the id of a webhook.
    pub cause: String,
    /// The time.
    pub fired_at: Timestamp,
    /// The status.
    pub status: FiringStatus,
    /// The id of the run. The run exists if the status is `Started`.
    pub run: RunId,
    /// The number of attempts to start the run.
    pub attempts: i64,
    /// Why the run was not started.
    pub error: Option<String>,
    /// Whether a server repeats the start of the run if it fails.
    pub repeats: bool,
    retry_at: Option<i64>,
}

impl Store {
    /// Returns the firings of one realm.
    pub fn firings(&self, scope: &RealmScope) -> RealmFirings<'_> {
        RealmFirings { store: self, realm: scope.realm }
    }

    /// Returns at most `limit` firings of all realms whose run was not started in time.
    pub async fn due_firings(&self, now: Timestamp, limit: i64) -> Result<Vec<Firing>, StoreError> {
        let rows: Vec<FiringRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM trigger_firings WHERE repeats AND retry_at <= $1 ORDER BY retry_at LIMIT $2"
            ))
            .bind(now.as_micros())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Firing::try_from).collect()
    }

    /// Claims a firing for another attempt, so that no other attempt starts its run until the claim ends. Returns `None`
    /// if an attempt is in progress or has started the run.
    pub async fn claim_firing(&self, firing: &Firing, now: Timestamp) -> Result<Option<Firing>, StoreError> {
        let retry_at = now.as_micros() + CLAIM_MICROS;
        let mut tx = self.db.begin().await?;
        let claimed = execute!(
            tx,
            sqlx::query(
                "UPDATE trigger_firings SET retry_at = $1, attempts = attempts + 1
                 WHERE id = $2 AND retry_at = $3 AND retry_at <= $4",
            )
            .bind(retry_at)
            .bind(firing.id.to_string())
            .bind(firing.retry_at)
            .bind(now.as_micros())
        )?;
        tx.commit_unannounced().await?;
        let attempts = firing.attempts + 1;
        Ok((claimed == 1).then(|| Firing { attempts, retry_at: Some(retry_at), ..firing.clone() }))
    }

    /// Deletes firings that are older than `before` and have ended. Returns their number.
    pub async fn delete_old_firings(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.db.begin().await?;
        let deleted = execute!(
            tx,
            sqlx::query("DELETE FROM trigger_firings WHERE fired_at < $1 AND NOT (repeats AND retry_at IS NOT NULL)")
                .bind(before.as_micros())
        )?;
        tx.commit_unannounced().await?;
        Ok(deleted)
    }
}

impl RealmFirings<'_> {
    /// Creates a firing. Returns the earlier firing if the same cause has fired before.
    pub async fn create(&self, new: &NewFiring) -> Result<Option<Firing>, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let created = new.insert(&mut tx).await?;
        tx.commit_unannounced().await?;
        if created { Ok(None) } else { self.by_cause(new.trigger, &new.cause).await }
    }

    /// Returns the firing of a cause.
    pub async fn by_cause(&self, trigger: TriggerId, cause: &str) -> Result<Option<Firing>, StoreError> {
        let row: Option<FiringRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM trigger_firings WHERE realm_id = $1 AND trigger_id = $2 AND cause = $3"
            ))
            .bind(self.realm.to_string())
            .bind(trigger.to_string())
            .bind(storable(cause))
            .fetch_optional(pool)
        })?;
        row.map(Firing::try_from).transpose()
    }

    /// Stores the outcome of an attempt to start a run. With `Pending`, a server starts the run again after the claim has
    /// ended. With `retry_at`, another request may start it again from this time on.
    pub async fn finish(
        &self,
        id: FiringId,
        status: FiringStatus,
        error: Option<&str>,
        retry_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "UPDATE trigger_firings SET status = $1, error = $2,
                        retry_at = CASE WHEN $1 = 'PENDING' THEN retry_at ELSE $5 END
                 WHERE realm_id = $3 AND id = $4 AND status <> 'STARTED'",
            )
            .bind(status.as_str())
            .bind(error.map(storable))
            .bind(self.realm.to_string())
            .bind(id.to_string())
            .bind(retry_at.map(Timestamp::as_micros))
        )?;
        tx.commit_unannounced().await
    }

    /// Returns the last firing of a trigger that started a run.
    pub async fn last_started(&self, trigger: TriggerId) -> Result<Option<Firing>, StoreError> {
        let row: Option<FiringRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM trigger_firings WHERE realm_id = $1 AND trigger_id = $2 AND status = 'STARTED'
                 ORDER BY fired_at DESC, id DESC LIMIT 1"
            ))
            .bind(self.realm.to_string())
            .bind(trigger.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Firing::try_from).transpose()
    }

    /// Returns a page of the firings of a trigger, newest first.
    pub async fn list(
        &self,
        trigger: TriggerId,
        status: Option<FiringStatus>,
        cursor: Option<&TimeCursor<FiringId>>,
        limit: u32,
    ) -> Result<Page<Firing, TimeCursor<FiringId>>, StoreError> {
        let mut sql = Sql::new(concat!("SELECT ", columns!(), " FROM trigger_firings WHERE realm_id = "));
        sql.id(self.realm).push(" AND trigger_id = ").id(trigger);
        if let Some(status) = status {
            sql.push(" AND status = ").text(status.as_str());
        }
        if let Some((at, id)) = cursor.map(TimeCursor::position) {
            sql.push(" AND (fired_at, id) < (").integer(at).push(", ").id(*id).push(")");
        }
        sql.push(" ORDER BY fired_at DESC, id DESC");
        page::push_limit(&mut sql, limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<FiringRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, limit, |firing: &Firing| TimeCursor::after(firing.fired_at, firing.id))
    }
}

#[derive(sqlx::FromRow)]
struct FiringRow {
    id: String,
    realm_id: String,
    trigger_id: String,
    cause: String,
    fired_at: i64,
    status: String,
    run_id: String,
    attempts: i64,
    retry_at: Option<i64>,
    repeats: bool,
    error: Option<String>,
}

impl TryFrom<FiringRow> for Firing {
    type Error = StoreError;

    fn try_from(row: FiringRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.parse().map_err(StoreError::unreadable)?,
            realm: row.realm_id.parse().map_err(StoreError::unreadable)?,
            trigger: row.trigger_id.parse().map_err(StoreError::unreadable)?,
            cause: row.cause,
            fired_at: Timestamp::from_micros(row.fired_at),
            status: row.status.parse().map_err(StoreError::unreadable)?,
            run: row.run_id.parse().map_err(StoreError::unreadable)?,
            attempts: row.attempts,
            error: row.error,
            repeats: row.repeats,
            retry_at: row.retry_at,
        })
    }
}

impl From<&NewFiring> for Firing {
    fn from(new: &NewFiring) -> Self {
        Self {
            id: new.id,
            realm: new.realm,
            trigger: new.trigger,
            cause: new.cause.clone(),
            fired_at: new.fired_at,
            status: if new.skipped.is_some() { FiringStatus::Skipped } else { FiringStatus::Pending },
            run: new.run,
            attempts: 1,
            error: new.skipped.clone(),
            repeats: new.repeats,
            retry_at: None,
        }
    }
}
