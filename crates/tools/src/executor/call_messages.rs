//! Collects the messages that a tool adds to its call.

use std::sync::{Mutex, PoisonError};

/// The maximum number of messages of one call.
const MAX_MESSAGES: usize = 20;
/// The maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// The messages of a call. They are stored outside of the attempt, so that they are reported even if the attempt fails
/// or is dropped.
#[derive(Debug, Default)]
pub struct CallMessages(Mutex<Vec<String>>);

impl CallMessages {
    /// Adds a message. A call has at most 20 messages; further messages are dropped.
    pub fn add(&self, message: impl Into<String>) {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() < MAX_MESSAGES {
            messages.push(message.into());
        }
    }

    /// Removes and returns all messages.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Drops the messages above the maximum number, and shortens the others to the maximum length. Call it after the
/// redaction, because a shortened text could hide a part of a secret from the redactor.
pub(super) fn limit(messages: &mut Vec<String>) {
    messages.truncate(MAX_MESSAGES);
    for message in messages {
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
            message.truncate(end);
            message.push('…');
        }
    }
}
