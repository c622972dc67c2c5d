//! Contains the statements that write runs. [`crate::writer`] decides when and in which order they are executed.

use toolwright_types::{RealmId, RunId, Timestamp};

use super::{JournalEntry, NewRun, RunLabels, RunState, ServerId, Wait, inline_journal};
use crate::db::{StoreError, Tx};
use crate::sql::{Bound, Sql, count, statement_chunks, storable};

/// The reason why the changes of a batch cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// The server no longer drives one of the runs, or a newer state of one of the runs is already stored.
    #[error("the server does not drive the run any more")]
    LeaseLost,
    /// The database failed or rejected a statement.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunInsert<'a> {
    pub(crate) realm: RealmId,
    pub(crate) run: &'a NewRun,
    pub(crate) state: &'a RunState,
    /// The server that drives the run.
    pub(crate) server: &'a ServerId,
}

/// A run that has ended before it is first written. It is stored as one row with an inline journal.
#[derive(Debug, Clone)]
pub(crate) struct InlineRun<'a> {
    pub(crate) realm: RealmId,
    pub(crate) run: &'a NewRun,
    pub(crate) state: &'a RunState,
    pub(crate) entries: Vec<&'a JournalEntry>,
}

impl InlineRun<'_> {
    /// Whether a new run can be stored with an inline journal. It must have ended, and it must not refer to another
    /// run, a conversation, a trial or shared parts.
    pub(crate) fn qualifies(run: &NewRun, state: &RunState) -> bool {
        let is_standalone =
            run.parent.is_none() && run.conversation.is_none() && run.fork.is_none() && run.trial.is_none();
        is_standalone
            && run.shared_parts.is_empty()
            && state.ended_at.is_some()
            && state.wake_at.is_none()
            && !state.driven
    }
}

/// A new state of an existing run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateUpdate<'a> {
    pub(crate) run: RunId,
    pub(crate) state: &'a RunState,
    /// The server that drives the run.
    pub(crate) server: &'a ServerId,
}

pub(crate) async fn insert_runs(tx: &mut Tx, runs: &[RunInsert<'_>]) -> Result<(), StoreError> {
    for runs in statement_chunks(runs, 33) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO runs (id, realm_id, kind, subject, subject_hash, parent_id, conversation_id, owner_id,
                               principal_id, durable, started_at, forked_from, forked_at_entry, trial_kind, trial_arm, trial_of,
                               shared_parts, agent_version, correlation_id, user_message, status, reason, message, updated_at, ended_at, wake_at, iterations, tokens, cost_usd, driver_id,
                               last_entry_n, last_entry_hash)
             VALUES ",
        );
        sql.rows(runs, push_run);
        sql.execute(tx).await?;
    }
    Ok(())
}

fn push_run(sql: &mut Sql, insert: &RunInsert<'_>) {
    let RunInsert { realm, run, state, server } = insert;
    let conversation = Bound::TextOrNull(run.conversation.map(String::from));
    sql.text(run.id).push(", ").text(*realm).push(", ").text(run.kind.as_str());
    sql.push(", ").free_text(&run.subject).push(", ").free_text(&run.subject_hash);
    sql.push(", ").bind(Bound::TextOrNull(run.parent.map(String::from)));
    // Stores null if the conversation was deleted after the run started.
    sql.push(", (SELECT c.id FROM conversations c WHERE c.id = ").bind(conversation);
    sql.push(" AND c.realm_id = ").text(*realm).push(")");
    sql.push(", ").text(run.owner.id()).push(", ").text(run.principal);
    sql.push(", ").bind(Bound::Boolean(run.durable)).push(", ").integer(run.started_at.as_micros());
    sql.push(", ").bind(Bound::TextOrNull(run.fork.map(|fork| fork.run.into())));
    sql.push(", ").bind(Bound::IntegerOrNull(run.fork.map(|fork| count(fork.n))));
    let trial = run.trial.as_ref();
    sql.push(", ").bind(Bound::TextOrNull(trial.map(|trial| trial.kind.as_str().to_owned())));
    sql.push(", ").bind(Bound::TextOrNull(trial.map(|trial| storable(&trial.arm))));
    sql.push(", ").bind(Bound::TextOrNull(trial.and_then(|trial| trial.of.as_deref().map(storable))));
    sql.push(", ").text(run.shared_parts.join(","));
    push_labels(sql, &run.labels);
    push_state(sql, state, server);
}

/// Appends the values of the columns from `agent_version` to `user_message`, with a comma before each.
fn push_labels(sql: &mut Sql, labels: &RunLabels) {
    for label in [&labels.agent_version, &labels.correlation_id, &labels.user_message] {
        sql.push(", ").bind(Bound::TextOrNull(label.as_deref().map(storable)));
    }
}

/// Appends the values of the columns from `status` to `last_entry_hash`, with a comma before each.
fn push_state(sql: &mut Sql, state: &RunState, server: &ServerId) {
    sql.push(", ").text(state.status.as_str());
    sql.push(", ").bind(Bound::TextOrNull(state.reason.as_deref().map(storable)));
    sql.push(", ").bind(Bound::TextOrNull(state.message.as_deref().map(storable)));
    sql.push(", ").integer(state.updated_at.as_micros());
    sql.push(", ").bind(Bound::IntegerOrNull(state.ended_at.map(Timestamp::as_micros)));
    sql.push(", ").bind(Bound::IntegerOrNull(state.wake_at.map(Timestamp::as_micros)));
    sql.push(", ").integer(i64::from(state.iterations)).push(", ").integer(count(state.tokens));
    sql.push(", ").bind(Bound::Float(state.cost_usd));
    sql.push(", ").bind(Bound::TextOrNull(state.driven.then(|| server.to_string())));
    sql.push(", ")
        .integer(count(state.journal_position.n))
        .push(", ")
        .bind(Bound::Bytes(state.journal_position.hash.to_vec()));
}

pub(crate) async fn insert_inline_runs(tx: &mut Tx, runs: &[InlineRun<'_>]) -> Result<(), StoreError> {
    for runs in statement_chunks(runs, 23) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO runs (id, realm_id, kind, subject, subject_hash, owner_id, principal_id, durable, started_at,
                               agent_version, correlation_id, user_message, status, reason, message, updated_at, ended_at, iterations, tokens, cost_usd, last_entry_n,
                               last_entry_hash, inline_journal)
             VALUES ",
        );
        sql.rows(runs, |sql, inline| {
            let InlineRun { realm, run, state, entries } = inline;
            sql.text(run.id).push(", ").text(*realm).push(", ").text(run.kind.as_str());
            sql.push(", ").free_text(&run.subject).push(", ").free_text(&run.subject_hash);
            sql.push(", ").text(run.owner.id()).push(", ").text(run.principal);
            sql.push(", ").bind(Bound::Boolean(run.durable)).push(", ").integer(run.started_at.as_micros());
            push_labels(sql, &run.labels);
            sql.push(", ").text(state.status.as_str());
            sql.push(", ").bind(Bound::TextOrNull(state.reason.as_deref().map(storable)));
            sql.push(", ").bind(Bound::TextOrNull(state.message.as_deref().map(storable)));
            sql.push(", ").integer(state.updated_at.as_micros());
            sql.push(", ").bind(Bound::IntegerOrNull(state.ended_at.map(Timestamp::as_micros)));
            sql.push(", ").integer(i64::from(state.iterations)).push(", ").integer(count(state.tokens));
            sql.push(", ").bind(Bound::Float(state.cost_usd)).push(", ").integer(count(state.journal_position.n));
            sql.push(", ")
                .bind(Bound::Bytes(state.journal_position.hash.to_vec()))
                .push(", ")
                .text(inline_journal::write(entries, &state.journal_position));
        });
        sql.execute(tx).await?;
    }
    Ok(())
}

pub(crate) async fn append(tx: &mut Tx, entries: &[(RunId, &JournalEntry)]) -> Result<(), StoreError> {
    #[cfg(feature = "postgres")]
    if let Tx::Postgres(tx) = tx {
        return append_arrays(tx, entries).await;
    }
    for entries in statement_chunks(entries, 9) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO journal (run_id, n, written_at, kind, body, hash, call_id, tool, fork_state) VALUES ",
        );
        sql.rows(entries, |sql, (run, entry)| {
            sql.text(*run).push(", ").integer(count(entry.n)).push(", ").integer(entry.at.as_micros());
            sql.push(", ").text(entry.kind.as_str()).push(", ").text(entry.body.as_str());
            sql.push(", ").bind(Bound::Bytes(entry.hash.to_vec()));
            for note in notes_of(entry) {
                sql.push(", ").bind(Bound::TextOrNull(note));
            }
        });
        sql.execute(tx).await?;
    }
    Ok(())
}

/// The values of the columns `call_id`, `tool` and `fork_state`.
fn notes_of(entry: &JournalEntry) -> [Option<String>; 3] {
    let notes = &entry.notes;
    let call_id = notes.call_id.as_ref().map(ToString::to_string);
    [call_id, notes.tool.as_deref().map(storable), notes.fork_state.clone()]
}

/// Inserts the entries with one array per column. This needs one round trip and one prepared statement for any number
/// of entries.
#[cfg(feature = "postgres")]
async fn append_arrays(
    tx: &mut sqlx::Transaction<'static, sqlx::Postgres>,
    entries: &[(RunId, &JournalEntry)],
) -> Result<(), StoreError> {
    if entries.is_empty() {
        return Ok(());
    }
    let column = || entries.iter();
    let (mut call_ids, mut tools, mut fork_states) = (Vec::new(), Vec::new(), Vec::new());
    for (_, entry) in entries {
        let [call_id, tool, fork_state] = notes_of(entry);
        call_ids.push(call_id);
        tools.push(tool);
        fork_states.push(fork_state);
    }
    sqlx::query(
        "INSERT INTO journal (run_id, n, written_at, kind, body, hash, call_id, tool, fork_state)
         SELECT * FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::BYTEA[], $7::TEXT[],
                              $8::TEXT[], $9::TEXT[])",
    )
    .bind(column().map(|(run, _)| run.to_string()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| count(entry.n)).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.at.as_micros()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.kind.as_str()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.body.as_str()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.hash.as_slice()).collect::<Vec<_>>())
    .bind(call_ids)
    .bind(tools)
    .bind(fork_states)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub(crate) async fn update_states(tx: &mut Tx, states: &[StateUpdate<'_>]) -> Result<(), ApplyError> {
    for states in statement_chunks(states, 14) {
        let mut sql = Sql::with_many_values(
            tx,
            "UPDATE runs SET status = v.column2, reason = v.column3, message = v.column4, updated_at = v.column5,
                    ended_at = v.column6, wake_at = v.column7, iterations = v.column8, tokens = v.column9,
                    cost_usd = v.column10, driver_id = v.column11, last_entry_n = v.column12, last_entry_hash = v.column13
             FROM (VALUES ",
        );
        sql.rows(states, |sql, update| {
            sql.text(update.run);
            push_state(sql, update.state, update.server);
            sql.push(", ").text(update.server.to_string());
        });
        // An older state does not replace a newer one. A server that writes an older state no longer drives the run.
        sql.push(
            ") AS v WHERE runs.id = v.column1 AND runs.driver_id = v.column14 AND runs.last_entry_n <= v.column12",
        );
        let affected = sql.execute(tx).await?;
        if usize::try_from(affected) != Ok(states.len()) {
            return Err(ApplyError::LeaseLost);
        }
    }
    Ok(())
}

pub(crate) async fn delete_waits(tx: &mut Tx, runs: &[RunId]) -> Result<(), StoreError> {
    for runs in statement_chunks(runs, 1) {
        let mut sql = Sql::with_many_values(tx, "DELETE FROM waits WHERE run_id IN (VALUES ");
        sql.rows(runs, |sql, run| {
            sql.text(*run);
        });
        sql.push(")");
        sql.execute(tx).await?;
    }
    Ok(())
}

pub(crate) async fn insert_waits(tx: &mut Tx, waits: &[(RunId, &Wait)]) -> Result<(), StoreError> {
    for waits in statement_chunks(waits, 8) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO waits (run_id, call_id, realm_id, kind, tool, body, requested_at, expires_at) VALUES ",
        );
        sql.rows(waits, |sql, (run, wait)| {
            sql.text(*run).push(", ").text(wait.call_id.as_str());
            sql.push(", (SELECT r.realm_id FROM runs r WHERE r.id = ").text(*run).push(")");
            sql.push(", ").text(wait.kind.as_str()).push(", ").free_text(&wait.tool);
            sql.push(", ").text(wait.body.as_str());
            sql.push(", ").integer(wait.requested_at.as_micros());
            sql.push(", ").bind(Bound::IntegerOrNull(wait.expires_at.map(Timestamp::as_micros)));
        });
        sql.execute(tx).await?;
    }
    Ok(())
}
