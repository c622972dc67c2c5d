//! The statements that write runs. When and in what order they are used is decided in [`crate::writer`].

use toolwright_types::{RealmId, RunId, Timestamp};

use super::{Entry, NewRun, RunState, ServerId, Wait, story};
use crate::db::{Tx, Unavailable};
use crate::sql::{Bound, Sql, count, in_statements, storable};

/// A run to be inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun<'a> {
    pub(crate) realm: RealmId,
    pub(crate) run: &'a NewRun,
    pub(crate) state: &'a RunState,
    /// The server that drives it.
    pub(crate) server: &'a ServerId,
}

/// A run that was over before it was written: one row, with its journal in it.
#[derive(Debug, Clone)]
pub(crate) struct Told<'a> {
    pub(crate) realm: RealmId,
    pub(crate) run: &'a NewRun,
    pub(crate) state: &'a RunState,
    pub(crate) entries: Vec<&'a Entry>,
}

impl Told<'_> {
    /// Whether a run that begins like this is one: it has ended, and has nothing to do with anything else.
    pub(crate) fn is_one(run: &NewRun, state: &RunState) -> bool {
        let alone = run.parent.is_none() && run.conversation.is_none() && run.fork.is_none() && run.trial.is_none();
        alone && run.parts.is_empty() && state.ended_at.is_some() && state.wake_at.is_none() && !state.driven
    }
}

/// A run that stands somewhere else now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled<'a> {
    pub(crate) run: RunId,
    pub(crate) state: &'a RunState,
    /// The server that has driven it until now.
    pub(crate) server: &'a ServerId,
}

pub(crate) async fn insert_runs(tx: &mut Tx, runs: &[Begun<'_>]) -> Result<(), Unavailable> {
    for runs in in_statements(runs, 30) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO runs (id, realm_id, kind, subject, subject_hash, parent_id, conversation_id, owner_id,
                               principal_id, durable, started_at, forked_from, forked_at, trial_kind, trial_arm, trial_of,
                               parts, status, reason, message, updated_at, ended_at, wake_at, iterations, tokens, cost_usd, driver_id,
                               marked_n, marked_hash)
             VALUES ",
        );
        sql.rows(runs, push_run);
        sql.execute(tx).await?;
    }
    Ok(())
}

fn push_run(sql: &mut Sql, begun: &Begun<'_>) {
    let Begun { realm, run, state, server } = begun;
    let conversation = Bound::TextOrNull(run.conversation.map(String::from));
    sql.text(run.id).push(", ").text(*realm).push(", ").text(run.kind.as_str());
    sql.push(", ").free_text(&run.subject).push(", ").free_text(&run.subject_hash);
    sql.push(", ").bind(Bound::TextOrNull(run.parent.map(String::from)));
    // A conversation may have been deleted while the run was about to begin.
    sql.push(", (SELECT c.id FROM conversations c WHERE c.id = ").bind(conversation);
    sql.push(" AND c.realm_id = ").text(*realm).push(")");
    sql.push(", ").text(run.owner).push(", ").text(run.principal);
    sql.push(", ").bind(Bound::Boolean(run.durable)).push(", ").integer(run.started_at.as_micros());
    sql.push(", ").bind(Bound::TextOrNull(run.fork.map(|fork| fork.run.into())));
    sql.push(", ").bind(Bound::IntegerOrNull(run.fork.map(|fork| count(fork.n))));
    let trial = run.trial.as_ref();
    sql.push(", ").bind(Bound::TextOrNull(trial.map(|trial| trial.kind.as_str().to_owned())));
    sql.push(", ").bind(Bound::TextOrNull(trial.map(|trial| storable(&trial.arm))));
    sql.push(", ").bind(Bound::TextOrNull(trial.and_then(|trial| trial.of.as_deref().map(storable))));
    sql.push(", ").text(run.parts.join(","));
    push_state(sql, state, server);
}

/// The columns from `status` to `marked_hash`, each behind a comma.
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
    sql.push(", ").integer(count(state.mark.n)).push(", ").bind(Bound::Bytes(state.mark.hash.to_vec()));
}

pub(crate) async fn insert_told(tx: &mut Tx, told: &[Told<'_>]) -> Result<(), Unavailable> {
    for told in in_statements(told, 20) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO runs (id, realm_id, kind, subject, subject_hash, owner_id, principal_id, durable, started_at,
                               status, reason, message, updated_at, ended_at, iterations, tokens, cost_usd, marked_n,
                               marked_hash, story)
             VALUES ",
        );
        sql.rows(told, |sql, told| {
            let Told { realm, run, state, entries } = told;
            sql.text(run.id).push(", ").text(*realm).push(", ").text(run.kind.as_str());
            sql.push(", ").free_text(&run.subject).push(", ").free_text(&run.subject_hash);
            sql.push(", ").text(run.owner).push(", ").text(run.principal);
            sql.push(", ").bind(Bound::Boolean(run.durable)).push(", ").integer(run.started_at.as_micros());
            sql.push(", ").text(state.status.as_str());
            sql.push(", ").bind(Bound::TextOrNull(state.reason.as_deref().map(storable)));
            sql.push(", ").bind(Bound::TextOrNull(state.message.as_deref().map(storable)));
            sql.push(", ").integer(state.updated_at.as_micros());
            sql.push(", ").bind(Bound::IntegerOrNull(state.ended_at.map(Timestamp::as_micros)));
            sql.push(", ").integer(i64::from(state.iterations)).push(", ").integer(count(state.tokens));
            sql.push(", ").bind(Bound::Float(state.cost_usd)).push(", ").integer(count(state.mark.n));
            sql.push(", ")
                .bind(Bound::Bytes(state.mark.hash.to_vec()))
                .push(", ")
                .text(story::write(entries, &state.mark));
        });
        sql.execute(tx).await?;
    }
    Ok(())
}

pub(crate) async fn append(tx: &mut Tx, entries: &[(RunId, &Entry)]) -> Result<(), Unavailable> {
    #[cfg(feature = "postgres")]
    if let Tx::Postgres(tx) = tx {
        return append_arrays(tx, entries).await;
    }
    for entries in in_statements(entries, 6) {
        let mut sql =
            Sql::with_many_values(tx, "INSERT INTO journal (run_id, n, written_at, kind, body, hash) VALUES ");
        sql.rows(entries, |sql, (run, entry)| {
            sql.text(*run).push(", ").integer(count(entry.n)).push(", ").integer(entry.at.as_micros());
            sql.push(", ").text(entry.kind.as_str()).push(", ").text(entry.body.as_str());
            sql.push(", ").bind(Bound::Bytes(entry.hash.to_vec()));
        });
        sql.execute(tx).await?;
    }
    Ok(())
}

/// One array for each column: one round trip and one prepared statement, however many entries there are.
#[cfg(feature = "postgres")]
async fn append_arrays(
    tx: &mut sqlx::Transaction<'static, sqlx::Postgres>,
    entries: &[(RunId, &Entry)],
) -> Result<(), Unavailable> {
    if entries.is_empty() {
        return Ok(());
    }
    let column = || entries.iter();
    sqlx::query(
        "INSERT INTO journal (run_id, n, written_at, kind, body, hash)
         SELECT * FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::BYTEA[])",
    )
    .bind(column().map(|(run, _)| run.to_string()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| count(entry.n)).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.at.as_micros()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.kind.as_str()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.body.as_str()).collect::<Vec<_>>())
    .bind(column().map(|(_, entry)| entry.hash.as_slice()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub(crate) async fn settle(tx: &mut Tx, states: &[Settled<'_>]) -> Result<(), Unavailable> {
    for states in in_statements(states, 14) {
        let mut sql = Sql::with_many_values(
            tx,
            "UPDATE runs SET status = v.column2, reason = v.column3, message = v.column4, updated_at = v.column5,
                    ended_at = v.column6, wake_at = v.column7, iterations = v.column8, tokens = v.column9,
                    cost_usd = v.column10, driver_id = v.column11, marked_n = v.column12, marked_hash = v.column13
             FROM (VALUES ",
        );
        sql.rows(states, |sql, settled| {
            sql.text(settled.run);
            push_state(sql, settled.state, settled.server);
            sql.push(", ").text(settled.server.to_string());
        });
        // A state is never replaced by an older one: whoever would do so has been overtaken.
        sql.push(") AS v WHERE runs.id = v.column1 AND runs.driver_id = v.column14 AND runs.marked_n <= v.column12");
        let settled = sql.execute(tx).await?;
        if usize::try_from(settled) != Ok(states.len()) {
            return Err(sqlx::Error::RowNotFound.into());
        }
    }
    Ok(())
}

pub(crate) async fn delete_waits(tx: &mut Tx, runs: &[RunId]) -> Result<(), Unavailable> {
    for runs in in_statements(runs, 1) {
        let mut sql = Sql::with_many_values(tx, "DELETE FROM waits WHERE run_id IN (VALUES ");
        sql.rows(runs, |sql, run| {
            sql.text(*run);
        });
        sql.push(")");
        sql.execute(tx).await?;
    }
    Ok(())
}

pub(crate) async fn insert_waits(tx: &mut Tx, waits: &[(RunId, &Wait)]) -> Result<(), Unavailable> {
    for waits in in_statements(waits, 7) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO waits (run_id, call_id, realm_id, kind, body, asked_at, expires_at) VALUES ",
        );
        sql.rows(waits, |sql, (run, wait)| {
            sql.text(*run).push(", ").text(wait.call_id.as_str());
            sql.push(", (SELECT r.realm_id FROM runs r WHERE r.id = ").text(*run).push(")");
            sql.push(", ").text(wait.kind.as_str()).push(", ").text(wait.body.as_str());
            sql.push(", ").integer(wait.asked_at.as_micros());
            sql.push(", ").bind(Bound::IntegerOrNull(wait.expires_at.map(Timestamp::as_micros)));
        });
        sql.execute(tx).await?;
    }
    Ok(())
}
