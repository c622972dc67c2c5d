//! Contains the statements that write conversations. [`crate::writer`] decides when and in which order they are
//! executed.

use toolwright_types::{ConversationId, RealmId, Timestamp};

use super::{ConversationStatus, NewConversation, NewTurn};
use crate::db::{StoreError, Tx};
use crate::sql::{Bound, Sql, count, statement_chunks, storable};

pub(crate) async fn open(tx: &mut Tx, realm: RealmId, new: &NewConversation) -> Result<(), StoreError> {
    execute!(
        *tx,
        sqlx::query(
            "INSERT INTO conversations (id, realm_id, agent, owner_id, title, status, turn_count, total_tokens,
                                        summarised_turns, shared_context, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 0, '{}', $7, $7)",
        )
        .bind(new.id.to_string())
        .bind(realm.to_string())
        .bind(storable(&new.agent))
        .bind(new.owner.to_string())
        .bind(new.title.as_deref().map(storable))
        .bind(ConversationStatus::Active.as_str())
        .bind(new.created_at.as_micros())
    )?;
    Ok(())
}

/// Turns to append to a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewTurns<'a> {
    pub(crate) realm: RealmId,
    pub(crate) conversation: ConversationId,
    pub(crate) turns: &'a [NewTurn],
    pub(crate) title_if_none: Option<&'a str>,
}

/// Appends the turns. Does nothing if the conversation was deleted.
pub(crate) async fn add_turns(tx: &mut Tx, new: NewTurns<'_>) -> Result<(), StoreError> {
    let Some(turn_count) = reserve_turns(tx, new).await? else { return Ok(()) };
    let first = turn_count - rows(new.turns);
    let indexed: Vec<(i64, &NewTurn)> = (first..).zip(new.turns).collect();
    for turns in statement_chunks(&indexed, 10) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO turns (conversation_id, turn_index, id, role, content, body, tokens, duration_ms, run_id,
                                created_at)
             VALUES ",
        );
        sql.rows(turns, |sql, (index, turn)| {
            sql.text(new.conversation).push(", ").integer(*index).push(", ").text(turn.id);
            sql.push(", ").free_text(&turn.role).push(", ").free_text(&turn.content);
            sql.push(", ").bind(Bound::TextOrNull(turn.body.clone()));
            sql.push(", ").integer(count(turn.tokens)).push(", ").integer(count(turn.duration_ms));
            sql.push(", ").bind(Bound::TextOrNull(turn.run.map(String::from)));
            sql.push(", ").integer(turn.at.as_micros());
        });
        sql.execute(tx).await?;
    }
    Ok(())
}

/// Reserves indexes for the turns and returns the new number of turns.
///
/// INVARIANT: this statement runs before the turns are inserted. It locks the conversation's row until the end of the
/// transaction. Concurrent writers therefore wait, and no index is used twice.
async fn reserve_turns(tx: &mut Tx, new: NewTurns<'_>) -> Result<Option<i64>, StoreError> {
    within!(*tx, |conn| {
        sqlx::query_scalar(
            "UPDATE conversations SET turn_count = turn_count + $1, total_tokens = total_tokens + $2,
                    title = COALESCE(title, $3), updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at END
             WHERE realm_id = $5 AND id = $6 RETURNING turn_count",
        )
        .bind(rows(new.turns))
        .bind(new.turns.iter().map(|turn| count(turn.tokens)).sum::<i64>())
        .bind(new.title_if_none.map(storable))
        .bind(new.turns.iter().map(|turn| turn.at).max().map(Timestamp::as_micros))
        .bind(new.realm.to_string())
        .bind(new.conversation.to_string())
        .fetch_optional(conn)
    })
}

fn rows(turns: &[NewTurn]) -> i64 {
    i64::try_from(turns.len()).unwrap_or(i64::MAX)
}

/// A summary of the first turns of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary<'a> {
    pub(crate) realm: RealmId,
    pub(crate) conversation: ConversationId,
    pub(crate) text: &'a str,
    pub(crate) turns: u32,
}

/// Replaces the summary. Does nothing if the conversation was deleted.
pub(crate) async fn summarise(tx: &mut Tx, summary: Summary<'_>) -> Result<(), StoreError> {
    execute!(
        *tx,
        sqlx::query("UPDATE conversations SET summary = $1, summarised_turns = $2 WHERE realm_id = $3 AND id = $4")
            .bind(storable(summary.text))
            .bind(i64::from(summary.turns))
            .bind(summary.realm.to_string())
            .bind(summary.conversation.to_string())
    )?;
    Ok(())
}

/// The shared context of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedContext<'a> {
    pub(crate) realm: RealmId,
    pub(crate) conversation: ConversationId,
    pub(crate) json: &'a str,
}

/// Replaces the shared context. Does nothing if the conversation was deleted.
pub(crate) async fn share_context(tx: &mut Tx, shared: SharedContext<'_>) -> Result<(), StoreError> {
    execute!(
        *tx,
        sqlx::query("UPDATE conversations SET shared_context = $1 WHERE realm_id = $2 AND id = $3")
            .bind(shared.json)
            .bind(shared.realm.to_string())
            .bind(shared.conversation.to_string())
    )?;
    Ok(())
}
