//! The statements that write conversations. When and in what order they are used is decided in [`crate::writer`].

use toolwright_types::{ConversationId, RealmId, Timestamp};

use super::{ConversationStatus, NewConversation, NewTurn};
use crate::db::{Tx, Unavailable};
use crate::sql::{Bound, Sql, count, in_statements, storable};

pub(crate) async fn open(tx: &mut Tx, realm: RealmId, new: &NewConversation) -> Result<(), Unavailable> {
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

/// Turns to be added to a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) realm: RealmId,
    pub(crate) conversation: ConversationId,
    pub(crate) turns: &'a [NewTurn],
    pub(crate) title_if_none: Option<&'a str>,
}

/// Adds the turns; or nothing, when the conversation was deleted meanwhile.
pub(crate) async fn add_turns(tx: &mut Tx, said: Said<'_>) -> Result<(), Unavailable> {
    let Some(turn_count) = count_turns(tx, said).await? else { return Ok(()) };
    let first = turn_count - rows(said.turns);
    let indexed: Vec<(i64, &NewTurn)> = (first..).zip(said.turns).collect();
    for turns in in_statements(&indexed, 10) {
        let mut sql = Sql::with_many_values(
            tx,
            "INSERT INTO turns (conversation_id, turn_index, id, role, content, body, tokens, duration_ms, run_id,
                                said_at)
             VALUES ",
        );
        sql.rows(turns, |sql, (index, turn)| {
            sql.text(said.conversation).push(", ").integer(*index).push(", ").text(turn.id);
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

/// Takes the next places in the conversation and gives how many turns it has with them.
///
/// INVARIANT: this comes before the turns. It locks the conversation until the end of the transaction, so those who
/// speak at once do so one after the other, and no index is taken twice.
async fn count_turns(tx: &mut Tx, said: Said<'_>) -> Result<Option<i64>, Unavailable> {
    within!(*tx, |conn| {
        sqlx::query_scalar(
            "UPDATE conversations SET turn_count = turn_count + $1, total_tokens = total_tokens + $2,
                    title = COALESCE(title, $3), updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at END
             WHERE realm_id = $5 AND id = $6 RETURNING turn_count",
        )
        .bind(rows(said.turns))
        .bind(said.turns.iter().map(|turn| count(turn.tokens)).sum::<i64>())
        .bind(said.title_if_none.map(storable))
        .bind(said.turns.iter().map(|turn| turn.at).max().map(Timestamp::as_micros))
        .bind(said.realm.to_string())
        .bind(said.conversation.to_string())
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

/// Replaces the summary; or nothing, when the conversation was deleted meanwhile.
pub(crate) async fn summarise(tx: &mut Tx, summary: Summary<'_>) -> Result<(), Unavailable> {
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
