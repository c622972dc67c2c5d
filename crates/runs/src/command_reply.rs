//! The stored form of a run's reply to a command.

use serde::{Deserialize, Serialize};
use toolwright_catalog::Unavailable;
use toolwright_machine::agent::{ClientResultError, EventError};

use super::command::CommandError;

/// The reply of a run to a command, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CommandReply {
    Accepted,
    Ended(String),
    Rejected(EventError),
    Results(Vec<ClientResultError>),
}

/// Encodes the reply of a run for the store. An error that does not come from the run, such as an unavailable store, is
/// returned as an error. The scheduler then repeats the command.
pub(super) fn encode_reply(result: Result<(), CommandError>) -> Result<String, CommandError> {
    let reply = match result {
        Ok(()) => CommandReply::Accepted,
        Err(CommandError::Ended(status)) => CommandReply::Ended(status),
        Err(CommandError::Rejected(error)) => CommandReply::Rejected(error),
        Err(CommandError::Results(errors)) => CommandReply::Results(errors),
        Err(other) => return Err(other),
    };
    serde_json::to_string(&reply).map_err(|error| unreadable(error).into())
}

pub(super) fn decode_reply(stored: &str) -> Result<(), CommandError> {
    match serde_json::from_str(stored).map_err(unreadable)? {
        CommandReply::Accepted => Ok(()),
        CommandReply::Ended(status) => Err(CommandError::Ended(status)),
        CommandReply::Rejected(error) => Err(CommandError::Rejected(error)),
        CommandReply::Results(errors) => Err(CommandError::Results(errors)),
    }
}

fn unreadable(error: serde_json::Error) -> Unavailable {
    Unavailable::new("the reply of a run cannot be read", error)
}
