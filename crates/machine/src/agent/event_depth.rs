//! Limits the nesting depth of the values in an event, so that a journal can store the event and read it back.
//!
//! The machine applies the same limit to the events that it receives, so the journal and the machine contain the same
//! values.

use toolwright_types::{ModelReply, ToolError};

use super::closer::limit_envelope_depth;
use super::depth::{limit_arguments_depth, limit_depth};
use super::{ClientResult, Decision, EventKind, PreparedCall};

impl EventKind {
    /// Replaces every value of the event that is nested too deeply by its JSON text.
    pub fn limit_depth(self) -> Self {
        match self {
            EventKind::ModelReplied { iteration, reply, schema_error, answer_unchecked } => {
                let reply = Box::new(limit_reply_depth(*reply));
                EventKind::ModelReplied { iteration, reply, schema_error, answer_unchecked }
            }
            EventKind::Prepared { iteration, calls } => {
                EventKind::Prepared { iteration, calls: calls.into_iter().map(limit_prepared_depth).collect() }
            }
            EventKind::PreparedAgain { call_id, call } => {
                EventKind::PreparedAgain { call_id, call: limit_prepared_depth(call) }
            }
            EventKind::CallEnded { mut envelope, usage, nested_calls, offered_tools } => {
                limit_envelope_depth(&mut envelope);
                EventKind::CallEnded { envelope, usage, nested_calls, offered_tools }
            }
            EventKind::HandedToClient { prepared_payload, schema, mut pending } => {
                limit_envelope_depth(&mut pending);
                EventKind::HandedToClient {
                    prepared_payload: limit_depth(prepared_payload),
                    schema: limit_depth(schema),
                    pending,
                }
            }
            EventKind::ApprovalDecided {
                call_id,
                definition_hash,
                decision: Decision::Edit { input },
                decided_by,
                reason,
            } => EventKind::ApprovalDecided {
                call_id,
                definition_hash,
                decision: Decision::Edit { input: limit_depth(input) },
                decided_by,
                reason,
            },
            EventKind::SignalReceived { name, payload, sent_by } => {
                EventKind::SignalReceived { name, payload: limit_depth(payload), sent_by }
            }
            EventKind::ClientReturned { call_id, result } => {
                EventKind::ClientReturned { call_id, result: limit_result_depth(result) }
            }
            other => other,
        }
    }
}

fn limit_reply_depth(mut reply: ModelReply) -> ModelReply {
    for call in &mut reply.tool_calls {
        let arguments = std::mem::replace(&mut call.arguments, toolwright_types::Arguments::Malformed(String::new()));
        call.arguments = limit_arguments_depth(arguments);
    }
    reply.thinking = reply.thinking.into_iter().map(limit_depth).collect();
    reply
}

fn limit_prepared_depth(prepared: PreparedCall) -> PreparedCall {
    match prepared {
        PreparedCall::Refused(mut envelope) => {
            limit_envelope_depth(&mut envelope);
            PreparedCall::Refused(envelope)
        }
        ready => ready,
    }
}

fn limit_result_depth(result: ClientResult) -> ClientResult {
    match result {
        ClientResult::Output(output) => ClientResult::Output(limit_depth(output)),
        ClientResult::Error(error) => {
            ClientResult::Error(ToolError { details: error.details.map(limit_depth), ..error })
        }
    }
}
