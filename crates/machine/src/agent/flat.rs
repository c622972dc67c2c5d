//! An event as it can be written and read back: values that are nested too deep are text.
//!
//! The machine would flatten them anyway; a journal has to hold what the machine is told.

use toolwright_types::{ModelReply, ToolError};

use super::depth::{shallow, shallow_arguments};
use super::desk::flatten;
use super::{ClientResult, Decision, Happened, Prepared};

impl Happened {
    /// The same event, with no value nested deeper than a journal can hold.
    pub fn flat(self) -> Self {
        match self {
            Happened::ModelReplied { step, reply, misfit } => {
                Happened::ModelReplied { step, reply: Box::new(flat_reply(*reply)), misfit }
            }
            Happened::Prepared { step, calls } => {
                Happened::Prepared { step, calls: calls.into_iter().map(flat_prepared).collect() }
            }
            Happened::PreparedAgain { call_id, call } => Happened::PreparedAgain { call_id, call: flat_prepared(call) },
            Happened::CallEnded { mut envelope, usage, calls, offers } => {
                flatten(&mut envelope);
                Happened::CallEnded { envelope, usage, calls, offers }
            }
            Happened::CallHandedOver { prepared_payload, schema, mut pending } => {
                flatten(&mut pending);
                Happened::CallHandedOver {
                    prepared_payload: shallow(prepared_payload),
                    schema: shallow(schema),
                    pending,
                }
            }
            Happened::Approval { call_id, definition_hash, decision: Decision::Edit { input }, by } => {
                Happened::Approval { call_id, definition_hash, decision: Decision::Edit { input: shallow(input) }, by }
            }
            Happened::ClientReturned { call_id, result } => {
                Happened::ClientReturned { call_id, result: flat_result(result) }
            }
            other => other,
        }
    }
}

fn flat_reply(mut reply: ModelReply) -> ModelReply {
    for call in &mut reply.tool_calls {
        let arguments = std::mem::replace(&mut call.arguments, toolwright_types::Arguments::Malformed(String::new()));
        call.arguments = shallow_arguments(arguments);
    }
    reply.thinking = reply.thinking.into_iter().map(shallow).collect();
    reply
}

fn flat_prepared(prepared: Prepared) -> Prepared {
    match prepared {
        Prepared::Refused(mut envelope) => {
            flatten(&mut envelope);
            Prepared::Refused(envelope)
        }
        ready => ready,
    }
}

fn flat_result(result: ClientResult) -> ClientResult {
    match result {
        ClientResult::Output(output) => ClientResult::Output(shallow(output)),
        ClientResult::Error(error) => ClientResult::Error(ToolError { details: error.details.map(shallow), ..error }),
    }
}
