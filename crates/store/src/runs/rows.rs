//! Converts database rows to runs, journal entries and waits.

use serde_json::Value;
use toolwright_types::{CallId, ConversationId, Owner, PrincipalId, RealmId, RealmScope, RunId, Timestamp};

use super::{
    Ancestry, EntryHash, EntryNotes, Fork, JournalEntry, JournalPosition, PendingWait, Run, RunLabels, RunState,
    ServerId, TrialAssignment, Wait, WaitKind,
};
use crate::db::StoreError;
use crate::tenancy::RealmRow;

/// The columns of a [`RunRow`].
macro_rules! run_columns {
    () => {
        "r.id AS run_id, r.realm_id, r.kind, r.subject, r.subject_hash, r.parent_id, r.conversation_id, r.owner_id,
         r.principal_id, r.durable, r.started_at, r.forked_from, r.forked_at_entry, r.trial_kind, r.trial_arm,
         r.trial_of, r.agent_version, r.correlation_id, r.user_message, r.status, r.reason, r.message,
         r.updated_at, r.ended_at, r.wake_at, r.iterations, r.tokens, r.cost_usd, r.driver_id, r.last_entry_n, r.last_entry_hash"
    };
}

pub(super) use run_columns;

#[derive(sqlx::FromRow)]
pub(super) struct RunRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    #[sqlx(try_from = "String")]
    realm_id: RealmId,
    kind: String,
    subject: String,
    subject_hash: String,
    parent_id: Option<String>,
    conversation_id: Option<String>,
    #[sqlx(try_from = "String")]
    owner_id: PrincipalId,
    #[sqlx(try_from = "String")]
    principal_id: PrincipalId,
    durable: bool,
    started_at: i64,
    forked_from: Option<String>,
    forked_at_entry: Option<i64>,
    trial_kind: Option<String>,
    trial_arm: Option<String>,
    trial_of: Option<String>,
    agent_version: Option<String>,
    correlation_id: Option<String>,
    user_message: Option<String>,
    #[sqlx(flatten)]
    state: StateRow,
}

#[derive(sqlx::FromRow)]
struct StateRow {
    status: String,
    reason: Option<String>,
    message: Option<String>,
    updated_at: i64,
    ended_at: Option<i64>,
    wake_at: Option<i64>,
    iterations: i64,
    tokens: i64,
    cost_usd: f64,
    driver_id: Option<String>,
    last_entry_n: i64,
    last_entry_hash: Vec<u8>,
}

impl TryFrom<RunRow> for Run {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        let parent = row.parent_id.map(RunId::try_from).transpose().map_err(StoreError::unreadable)?;
        let conversation =
            row.conversation_id.map(ConversationId::try_from).transpose().map_err(StoreError::unreadable)?;
        let forked = row.forked_from.map(RunId::try_from).transpose().map_err(StoreError::unreadable)?;
        let fork = match (forked, row.forked_at_entry) {
            (Some(run), Some(n)) => Some(Fork { run, n: u64::try_from(n).map_err(StoreError::unreadable)? }),
            (None, None) => None,
            _ => {
                return Err(StoreError::unreadable(InvalidRow(
                    "`forked_from` and `forked_at_entry` must be set together",
                )));
            }
        };
        let trial = match (row.trial_kind, row.trial_arm) {
            (Some(kind), Some(arm)) => {
                Some(TrialAssignment { kind: kind.parse().map_err(StoreError::unreadable)?, arm, of: row.trial_of })
            }
            (None, None) => None,
            _ => return Err(StoreError::unreadable(InvalidRow("`trial_kind` and `trial_arm` must be set together"))),
        };
        Ok(Self {
            realm: row.realm_id,
            id: row.run_id,
            kind: row.kind.parse().map_err(StoreError::unreadable)?,
            subject: row.subject,
            subject_hash: row.subject_hash,
            parent,
            conversation,
            owner: Owner::new(row.owner_id),
            principal: row.principal_id,
            durable: row.durable,
            scheduled: row.state.driver_id.as_deref() == Some(ServerId::SCHEDULER),
            started_at: Timestamp::from_micros(row.started_at),
            fork,
            trial,
            labels: RunLabels {
                agent_version: row.agent_version,
                correlation_id: row.correlation_id,
                user_message: row.user_message,
            },
            state: row.state.try_into()?,
        })
    }
}

impl TryFrom<StateRow> for RunState {
    type Error = StoreError;

    fn try_from(row: StateRow) -> Result<Self, StoreError> {
        Ok(Self {
            status: row.status.parse().map_err(StoreError::unreadable)?,
            reason: row.reason,
            message: row.message,
            updated_at: Timestamp::from_micros(row.updated_at),
            ended_at: row.ended_at.map(Timestamp::from_micros),
            wake_at: row.wake_at.map(Timestamp::from_micros),
            iterations: u32::try_from(row.iterations).map_err(StoreError::unreadable)?,
            tokens: u64::try_from(row.tokens).map_err(StoreError::unreadable)?,
            cost_usd: row.cost_usd,
            driven: row.driver_id.is_some(),
            journal_position: JournalPosition {
                n: u64::try_from(row.last_entry_n).map_err(StoreError::unreadable)?,
                hash: hash(&row.last_entry_hash)?,
            },
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct EntryRow {
    n: i64,
    written_at: i64,
    kind: String,
    body: String,
    hash: Vec<u8>,
}

impl TryFrom<EntryRow> for JournalEntry {
    type Error = StoreError;

    fn try_from(row: EntryRow) -> Result<Self, StoreError> {
        let n = u64::try_from(row.n).map_err(StoreError::unreadable)?;
        Ok(Self {
            n,
            at: Timestamp::from_micros(row.written_at),
            kind: row.kind,
            body: row.body,
            hash: hash(&row.hash)?,
            notes: EntryNotes::default(),
        })
    }
}

pub(super) fn hash(bytes: &[u8]) -> Result<EntryHash, StoreError> {
    bytes.try_into().map_err(StoreError::unreadable)
}

#[derive(sqlx::FromRow)]
pub(super) struct WaitRow {
    #[sqlx(try_from = "String")]
    run_id: RunId,
    subject: String,
    #[sqlx(try_from = "String")]
    owner_id: PrincipalId,
    parent_id: Option<String>,
    root_id: Option<String>,
    call_id: String,
    kind: String,
    tool: String,
    body: String,
    requested_at: i64,
    expires_at: Option<i64>,
}

impl TryFrom<WaitRow> for PendingWait {
    type Error = StoreError;

    fn try_from(row: WaitRow) -> Result<Self, StoreError> {
        let wait = Wait {
            call_id: call_id(row.call_id)?,
            kind: wait_kind(&row.kind)?,
            tool: row.tool,
            body: row.body,
            requested_at: Timestamp::from_micros(row.requested_at),
            expires_at: row.expires_at.map(Timestamp::from_micros),
        };
        let ancestry = Ancestry::read(row.parent_id, row.root_id)?;
        Ok(Self { run: row.run_id, subject: row.subject, owner: Owner::new(row.owner_id), ancestry, wait })
    }
}

fn wait_kind(text: &str) -> Result<WaitKind, StoreError> {
    match text {
        "approval" => Ok(WaitKind::Approval),
        "client" => Ok(WaitKind::Client),
        _ => Err(StoreError::unreadable(InvalidRow("`kind` of a wait must be `approval` or `client`"))),
    }
}

/// The error for a stored row whose columns contradict each other or contain an unknown value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidRow(pub(super) &'static str);

pub(super) fn run_id(text: Option<String>) -> Result<Option<RunId>, StoreError> {
    text.map(RunId::try_from).transpose().map_err(StoreError::unreadable)
}

pub(super) fn call_id(text: String) -> Result<CallId, StoreError> {
    serde_json::from_value(Value::String(text)).map_err(StoreError::unreadable)
}

/// A database row with a run and its realm.
#[derive(sqlx::FromRow)]
pub(super) struct RunInRealmRow {
    #[sqlx(flatten)]
    realm: RealmRow,
    #[sqlx(flatten)]
    run: RunRow,
}

impl RunInRealmRow {
    pub(super) fn into_pair(self) -> Result<(RealmScope, Run), StoreError> {
        Ok((self.realm.into(), self.run.try_into()?))
    }
}
