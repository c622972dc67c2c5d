//! What a run adds to its conversation.

use toolwright_machine::agent::AgentRun;
use toolwright_machine::journal::Began;
use toolwright_store::{Change, NewTurn};
use toolwright_types::{DocumentId, Message, RealmId, RunId, Timestamp, TurnId};

use crate::agents::memory::turn_of;

/// The turn of what a user said, at the beginning of a run.
pub(crate) fn of_user(run: RunId, message: &Message, at: Timestamp) -> NewTurn {
    turn(run, message, at, 0, 0)
}

/// What was said since the user spoke, at the end of a run. Tokens and time stand on its last turn.
pub(super) fn of_run(began: &Began, realm: RealmId, run: &AgentRun, at: Timestamp) -> Option<Change> {
    let conversation = began.conversation?;
    let known = began.spec.request.messages.len();
    let said = run.messages().get(known..).unwrap_or_default();
    let spent = run.spent();
    let last = said.len().saturating_sub(1);
    let turns = said.iter().enumerate().map(|(position, message)| {
        let (tokens, millis) = if position == last { (spent.usage.total(), spent.active_us / 1000) } else { (0, 0) };
        turn(run.id(), message, at, tokens, millis)
    });
    Some(Change::AddTurns { realm, conversation, turns: turns.collect(), title_if_none: None })
}

fn turn(run: RunId, message: &Message, at: Timestamp, tokens: u64, duration_ms: u64) -> NewTurn {
    let (role, content, body) = turn_of(message);
    NewTurn { id: TurnId::generate(), role: role.to_owned(), content, body, tokens, duration_ms, run: Some(run), at }
}
