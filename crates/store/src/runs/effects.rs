//! Stores and lists effects: the writes to the outside world. An effect is stored in the same transaction as the
//! journal entry that determines its outcome.

use std::str::FromStr;

use toolwright_types::{CallId, Owner, PrincipalId, RunId, Timestamp};

use super::rows::{InvalidRow, call_id, run_id};
use super::{CallFilter, Owners, RealmRuns, RunKind};
use crate::db::{StoreError, Tx};
use crate::page::{Page, TimeCursor, push_limit};
use crate::sql::{Bound, Sql, statement_chunks, storable};

/// The position after an effect in a list.
pub type EffectCursor = TimeCursor<(RunId, CallId)>;

/// The outcome of a write to the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectOutcome {
    /// The write took effect.
    Done,
    /// The write did not take effect.
    Failed,
    /// The write may have taken effect.
    Unknown,
    /// The write took effect, and another run undid it.
    Undone,
    /// The write was captured and not sent.
    Captured,
}

impl EffectOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Done, Self::Failed, Self::Unknown, Self::Undone, Self::Captured];

    /// The name of the outcome in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Undone => "undone",
            Self::Captured => "captured",
        }
    }
}

impl FromStr for EffectOutcome {
    type Err = UnknownOutcomeName;

    fn from_str(text: &str) -> Result<Self, UnknownOutcomeName> {
        let found = Self::ALL.into_iter().find(|outcome| outcome.as_str() == text);
        found.ok_or_else(|| UnknownOutcomeName(text.to_owned()))
    }
}

/// The text is not an outcome of an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `done`, `failed`, `unknown`, `undone` or `captured`, got `{0}`")]
pub struct UnknownOutcomeName(String);

/// A write to the outside world, as it is stored when its outcome is determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEffect {
    /// The call.
    pub call_id: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The version of the tool.
    pub version: String,
    /// The tool that executed the call, if the run replaces the called tool with another implementation.
    pub implementation: Option<String>,
    /// The input, as JSON.
    pub input: String,
    /// The outcome.
    pub outcome: EffectOutcome,
    /// The message of the error.
    pub error: Option<String>,
    /// The name of the principal that approved the call.
    pub approved_by: Option<String>,
    /// The time of the intent.
    pub started_at: Timestamp,
    /// The time when the outcome was determined.
    pub ended_at: Timestamp,
}

/// A call that a later run has undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneEffect {
    /// The run that made the call.
    pub run: RunId,
    /// The call.
    pub call_id: CallId,
    /// The time at which the call was undone.
    pub at: Timestamp,
}

/// The resolution of a write whose outcome was unknown: the principal that set the outcome, the time and a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The name of the principal.
    pub by: String,
    /// The time at which the principal set the outcome.
    pub at: Timestamp,
    /// The remark of the principal.
    pub note: Option<String>,
}

/// An effect with its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRecord {
    /// The run that made the call.
    pub run: RunId,
    /// The kind of the run.
    pub kind: RunKind,
    /// The name of the run's agent or tool.
    pub subject: String,
    /// The principal that requested the run.
    pub owner: Owner,
    /// The name of the principal whose permissions the run uses. `None` if the principal does not exist any more.
    pub principal: Option<String>,
    /// The effect.
    pub effect: StoredEffect,
    /// The resolution, if the outcome was unknown and a principal set it.
    pub resolution: Option<Resolution>,
    /// The run that undid the call, and the time.
    pub undone: Option<(RunId, Timestamp)>,
}

/// A query for effects. Fields that are `None` or empty do not restrict the result.
#[derive(Debug, Clone)]
pub struct EffectQuery {
    /// The filter on the calls. `since` and `before` restrict the time at which the outcome was determined.
    pub filter: CallFilter,
    /// The effect must have one of these outcomes.
    pub outcomes: Vec<EffectOutcome>,
    /// The page size. Values outside 1–1000 are set to the nearest limit.
    pub limit: u32,
    /// The cursor that was returned with the previous page. `None` for the first page.
    pub cursor: Option<EffectCursor>,
}

impl Default for EffectQuery {
    fn default() -> Self {
        Self { filter: CallFilter::default(), outcomes: Vec::new(), limit: 20, cursor: None }
    }
}

const SELECT: &str = "SELECT c.run_id, c.call_id, c.tool, c.version, c.implementation, c.input, c.outcome, c.error,
        c.approved_by, c.started_at, c.ended_at, c.resolved_by, c.resolved_at, c.note, c.undone_by, c.undone_at,
        r.kind, r.subject, r.owner_id, (SELECT p.name FROM principals p WHERE p.id = r.principal_id) AS principal
     FROM effects c JOIN runs r ON r.id = c.run_id WHERE c.realm_id = ";

impl RealmRuns<'_> {
    /// Returns one page of effects of runs that belong to `owners`, newest first.
    pub async fn effects(
        &self,
        owners: Owners,
        query: &EffectQuery,
    ) -> Result<Page<EffectRecord, EffectCursor>, StoreError> {
        let mut sql = Sql::new(SELECT);
        sql.text(self.realm.to_string());
        owners.push(&mut sql);
        query.filter.push(&mut sql, "c.ended_at");
        if let Some((first, rest)) = query.outcomes.split_first() {
            sql.push(" AND c.outcome IN (").text(first.as_str());
            for outcome in rest {
                sql.push(", ").text(outcome.as_str());
            }
            sql.push(")");
        }
        if let Some((at, (run, call))) = query.cursor.as_ref().map(EffectCursor::position) {
            sql.push(" AND (c.ended_at, c.run_id, c.call_id) < (").integer(at);
            sql.push(", ").text(run.to_string()).push(", ").free_text(call.as_str()).push(")");
        }
        sql.push(" ORDER BY c.ended_at DESC, c.run_id DESC, c.call_id DESC");
        push_limit(&mut sql, query.limit);

        let (text, values) = sql.into_parts();
        let rows: Vec<EffectRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, query.limit, |last: &EffectRecord| {
            EffectCursor::after(last.effect.ended_at, (last.run, last.effect.call_id.clone()))
        })
    }

    /// Returns the effect of a call, if the run belongs to `owners`.
    pub async fn effect(&self, owners: Owners, run: RunId, call: &CallId) -> Result<Option<EffectRecord>, StoreError> {
        let mut sql = Sql::new(SELECT);
        sql.text(self.realm.to_string());
        owners.push(&mut sql);
        sql.push(" AND c.run_id = ").text(run.to_string()).push(" AND c.call_id = ").free_text(call.as_str());
        let (text, values) = sql.into_parts();
        let row: Option<EffectRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_optional(pool))?;
        row.map(EffectRecord::try_from).transpose()
    }

    /// Returns the calls of a run that were undone.
    pub async fn undone_calls(&self, run: RunId) -> Result<Vec<CallId>, StoreError> {
        let rows: Vec<String> = read!(&self.store.db, |pool| {
            sqlx::query_scalar(
                "SELECT c.call_id FROM effects c WHERE c.realm_id = $1 AND c.run_id = $2 AND c.outcome = 'undone'",
            )
            .bind(self.realm.to_string())
            .bind(run.to_string())
            .fetch_all(pool)
        })?;
        rows.into_iter().map(call_id).collect()
    }

    /// Sets the outcome of a write whose outcome is unknown. Returns `false` if there is no such write.
    pub async fn resolve_effect(
        &self,
        run: RunId,
        call: &CallId,
        outcome: EffectOutcome,
        resolution: &Resolution,
    ) -> Result<bool, StoreError> {
        let mut tx = self.store.db.begin().await?;
        let mut sql = Sql::new("UPDATE effects SET outcome = ");
        sql.text(outcome.as_str()).push(", resolved_by = ").free_text(&resolution.by);
        sql.push(", resolved_at = ").integer(resolution.at.as_micros());
        sql.push(", note = ").bind(Bound::TextOrNull(resolution.note.as_deref().map(storable)));
        sql.push(" WHERE outcome = 'unknown' AND realm_id = ").text(self.realm.to_string());
        sql.push(" AND run_id = ").text(run.to_string()).push(" AND call_id = ").free_text(call.as_str());
        let changed = sql.execute(&mut tx).await?;
        tx.commit_unannounced().await?;
        Ok(changed == 1)
    }
}

#[derive(sqlx::FromRow)]
struct EffectRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    call_id: String,
    tool: String,
    version: String,
    implementation: Option<String>,
    input: String,
    outcome: String,
    error: Option<String>,
    approved_by: Option<String>,
    started_at: i64,
    ended_at: i64,
    resolved_by: Option<String>,
    resolved_at: Option<i64>,
    note: Option<String>,
    undone_by: Option<String>,
    undone_at: Option<i64>,
    kind: String,
    subject: String,
    #[sqlx(try_from = "String")]
    owner_id: PrincipalId,
    principal: Option<String>,
}

impl TryFrom<EffectRow> for EffectRecord {
    type Error = StoreError;

    fn try_from(row: EffectRow) -> Result<Self, StoreError> {
        let invalid = |_| StoreError::unreadable(InvalidRow("`outcome` of an effect is unknown"));
        let resolved = row.resolved_by.zip(row.resolved_at);
        let undone = run_id(row.undone_by)?.zip(row.undone_at);
        Ok(Self {
            run: row.run_id,
            kind: row.kind.parse().map_err(StoreError::unreadable)?,
            subject: row.subject,
            owner: Owner::new(row.owner_id),
            principal: row.principal,
            effect: StoredEffect {
                call_id: call_id(row.call_id)?,
                tool: row.tool,
                version: row.version,
                implementation: row.implementation,
                input: row.input,
                outcome: row.outcome.parse().map_err(invalid)?,
                error: row.error,
                approved_by: row.approved_by,
                started_at: Timestamp::from_micros(row.started_at),
                ended_at: Timestamp::from_micros(row.ended_at),
            },
            resolution: resolved.map(|(by, at)| Resolution { by, at: Timestamp::from_micros(at), note: row.note }),
            undone: undone.map(|(run, at)| (run, Timestamp::from_micros(at))),
        })
    }
}

/// Inserts effects, or updates the outcomes of stored effects. An effect is already stored if the outcome of its write
/// was unknown and a person had to decide on the call.
pub(crate) async fn upsert(tx: &mut Tx, effects: &[(RunId, &StoredEffect)]) -> Result<(), StoreError> {
    for effects in statement_chunks(effects, 13) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO effects (run_id, call_id, realm_id, tool, version, implementation, input, outcome, error,
                                  approved_by, started_at, ended_at)
             VALUES ",
        );
        sql.rows(effects, |sql, (run, effect)| {
            sql.text(*run).push(", ").text(effect.call_id.as_str());
            sql.push(", (SELECT r.realm_id FROM runs r WHERE r.id = ").text(*run).push(")");
            sql.push(", ").free_text(&effect.tool).push(", ").free_text(&effect.version);
            sql.push(", ").bind(Bound::TextOrNull(effect.implementation.as_deref().map(storable)));
            sql.push(", ").text(effect.input.as_str()).push(", ").text(effect.outcome.as_str());
            sql.push(", ").bind(Bound::TextOrNull(effect.error.as_deref().map(storable)));
            sql.push(", ").bind(Bound::TextOrNull(effect.approved_by.as_deref().map(storable)));
            sql.push(", ").integer(effect.started_at.as_micros()).push(", ").integer(effect.ended_at.as_micros());
        });
        sql.push(
            " ON CONFLICT (run_id, call_id) DO UPDATE SET outcome = excluded.outcome, error = excluded.error,
                  approved_by = excluded.approved_by, started_at = excluded.started_at, ended_at = excluded.ended_at",
        );
        sql.execute(tx).await?;
    }
    Ok(())
}

/// Marks calls as undone. The first element of each pair is the run that undid the call. A call is not marked if it
/// belongs to another realm than this run.
pub(crate) async fn mark_undone(tx: &mut Tx, undone: &[(RunId, &UndoneEffect)]) -> Result<(), StoreError> {
    for (by, effect) in undone {
        let mut sql = Sql::new("UPDATE effects SET outcome = 'undone', undone_by = ");
        sql.text(by.to_string()).push(", undone_at = ").integer(effect.at.as_micros());
        sql.push(" WHERE run_id = ").text(effect.run.to_string());
        sql.push(" AND call_id = ").text(effect.call_id.as_str());
        sql.push(" AND realm_id = (SELECT r.realm_id FROM runs r WHERE r.id = ").text(by.to_string()).push(")");
        sql.execute(tx).await?;
    }
    Ok(())
}
