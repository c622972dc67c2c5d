//! Writes a write set to the database.

use toolwright_types::{RunId, Timestamp};

use super::write_set::{ConversationChange, WriteSet};
use crate::conversations::write as conversations;
use crate::db::Tx;
use crate::events::write::RunEvents;
use crate::runs::write::ApplyError;
use crate::runs::{ServerId, checkpoints, decisions, effects, inbox, parts, servers, tasks, write as runs};

/// Writes the whole write set. After an error the caller must roll the transaction back. Returns whether events may
/// have been written.
pub(super) async fn apply(
    tx: &mut Tx,
    write_set: &WriteSet<'_>,
    server: &ServerId,
    now: Timestamp,
) -> Result<bool, ApplyError> {
    for (realm, conversation) in &write_set.conversations {
        conversations::open(tx, *realm, conversation).await?;
    }
    for change in &write_set.conversation_changes {
        match change {
            ConversationChange::NewTurns(turns) => conversations::add_turns(tx, *turns).await?,
            ConversationChange::Summary(summary) => conversations::summarise(tx, *summary).await?,
            ConversationChange::SharedContext(shared) => conversations::share_context(tx, *shared).await?,
        }
    }
    parts::upsert(tx, &write_set.parts, now).await?;
    runs::insert_runs(tx, &write_set.runs).await?;
    runs::insert_inline_runs(tx, &write_set.inline_runs).await?;
    servers::ensure_still_driven(tx, server, &write_set.continued()).await?;
    runs::append(tx, &write_set.entries).await?;
    // Events are written before states and waits are updated, because events are derived from the differences between
    // the stored and the new rows.
    let events = RunEvents::new(&write_set.runs, &write_set.decisions, &write_set.states, &write_set.waits);
    events.insert(tx).await?;
    runs::update_states(tx, &write_set.states).await?;
    // Only updated runs can have earlier waits. Runs that this write set inserts have none.
    let updated: Vec<RunId> = write_set.states.iter().map(|update| update.run).collect();
    runs::delete_waits(tx, &updated).await?;
    runs::insert_waits(tx, &write_set.waits).await?;
    decisions::insert(tx, &write_set.decisions).await?;
    effects::upsert(tx, &write_set.effects).await?;
    effects::mark_undone(tx, &write_set.undone).await?;
    checkpoints::upsert(tx, &write_set.checkpoints).await?;
    checkpoints::delete(tx, &write_set.ended).await?;
    inbox::reply(tx, &write_set.replies).await?;
    tasks::clear(tx, &write_set.cleared).await?;
    Ok(!events.is_empty())
}
