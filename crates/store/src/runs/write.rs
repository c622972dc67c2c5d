//! The statements that write runs. When and in what order they are used is decided in [`crate::writer`].

use toolwright_types::{RealmId, RunId, RunStatus, Timestamp};

use super::{Entry, NewRun, RunState, Wait};
use crate::db::{Tx, Unavailable};
use crate::sql::{Bound, Sql, count, in_statements, storable};

/// A run to be inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun<'a> {
    pub(crate) realm: RealmId,
    pub(crate) run: &'a NewRun,
    pub(crate) state: &'a RunState,
}

pub(crate) async fn insert_runs(tx: &mut Tx, runs: &[Begun<'_>]) -> Result<(), Unavailable> {
    for runs in in_statements(runs) {
        let mut sql = Sql::new(
            "INSERT INTO runs (id, realm_id, kind, subject, subject_hash, parent_id, conversation_id, owner_id,
                               principal_id, durable, started_at, status, reason, message, updated_at, ended_at, wake_at,
                               iterations, tokens, cost_usd)
             VALUES ",
        );
        sql.rows(runs, push_run);
        let (text, values) = sql.into_parts();
        execute!(*tx, bind_all!(sqlx::query(text), values))?;
    }
    Ok(())
}

fn push_run(sql: &mut Sql, begun: &Begun<'_>) {
    let Begun { realm, run, state } = begun;
    let conversation = Bound::TextOrNull(run.conversation.map(String::from));
    sql.text(run.id).push(", ").text(*realm).push(", ").text(run.kind.as_str());
    sql.push(", ").free_text(&run.subject).push(", ").free_text(&run.subject_hash);
    sql.push(", ").bind(Bound::TextOrNull(run.parent.map(String::from)));
    // A conversation may have been deleted while the run was about to begin.
    sql.push(", (SELECT c.id FROM conversations c WHERE c.id = ").bind(conversation);
    sql.push(" AND c.realm_id = ").text(*realm).push(")");
    sql.push(", ").text(run.owner).push(", ").text(run.principal);
    sql.push(", ").bind(Bound::Boolean(run.durable)).push(", ").integer(run.started_at.as_micros());
    for value in state_columns(state) {
        sql.push(", ").bind(value);
    }
}

/// The columns from `status` to `cost_usd`, in their order.
fn state_columns(state: &RunState) -> [Bound; 9] {
    let RunState { status, reason, message, updated_at, ended_at, wake_at, iterations, tokens, cost_usd } = state;
    [
        Bound::Text(RunStatus::as_str(*status).to_owned()),
        Bound::TextOrNull(reason.as_deref().map(storable)),
        Bound::TextOrNull(message.as_deref().map(storable)),
        Bound::Integer(updated_at.as_micros()),
        Bound::IntegerOrNull(ended_at.map(Timestamp::as_micros)),
        Bound::IntegerOrNull(wake_at.map(Timestamp::as_micros)),
        Bound::Integer(i64::from(*iterations)),
        Bound::Integer(count(*tokens)),
        Bound::Float(*cost_usd),
    ]
}

pub(crate) async fn append(tx: &mut Tx, entries: &[(RunId, &Entry)]) -> Result<(), Unavailable> {
    for entries in in_statements(entries) {
        let mut sql = Sql::new("INSERT INTO journal (run_id, n, written_at, kind, body) VALUES ");
        sql.rows(entries, |sql, (run, entry)| {
            sql.text(*run).push(", ").integer(count(entry.n)).push(", ").integer(entry.at.as_micros());
            sql.push(", ").text(entry.kind.as_str()).push(", ").text(entry.body.as_str());
        });
        let (text, values) = sql.into_parts();
        execute!(*tx, bind_all!(sqlx::query(text), values))?;
    }
    Ok(())
}

pub(crate) async fn settle(tx: &mut Tx, run: RunId, state: &RunState) -> Result<(), Unavailable> {
    let statement =
        "UPDATE runs SET status = $2, reason = $3, message = $4, updated_at = $5, ended_at = $6, wake_at = $7,
                            iterations = $8, tokens = $9, cost_usd = $10
                     WHERE id = $1";
    let values = state_columns(state);
    let settled = execute!(*tx, bind_all!(sqlx::query(statement).bind(run.to_string()), values))?;
    if settled == 0 { Err(sqlx::Error::RowNotFound.into()) } else { Ok(()) }
}

pub(crate) async fn delete_waits(tx: &mut Tx, run: RunId) -> Result<(), Unavailable> {
    execute!(*tx, sqlx::query("DELETE FROM waits WHERE run_id = $1").bind(run.to_string()))?;
    Ok(())
}

pub(crate) async fn insert_waits(tx: &mut Tx, run: RunId, waits: &[Wait]) -> Result<(), Unavailable> {
    for wait in waits {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO waits (run_id, call_id, realm_id, kind, body, asked_at, expires_at)
                 VALUES ($1, $2, (SELECT r.realm_id FROM runs r WHERE r.id = $1), $3, $4, $5, $6)",
            )
            .bind(run.to_string())
            .bind(wait.call_id.as_str())
            .bind(wait.kind.as_str())
            .bind(wait.body.as_str())
            .bind(wait.asked_at.as_micros())
            .bind(wait.expires_at.map(Timestamp::as_micros))
        )?;
    }
    Ok(())
}
