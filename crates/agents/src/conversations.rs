//! Lists, reads, updates and deletes conversations.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_machine::AgentOutputs;
use toolwright_machine::view::{InvocationStatus, ToolCallEntry};
use toolwright_store::Store;
pub use toolwright_store::{
    Conversation, ConversationCursor, ConversationPatch, ConversationQuery, ConversationStatus, Page, Turn,
};
use toolwright_types::{CallId, ConversationId, PrincipalId, RunId};

use toolwright_catalog::Unavailable;
use toolwright_catalog::{Access, Session};
use toolwright_runs::turns::{TurnBody, TurnCall};
use toolwright_runs::{CommandError, Runs};

/// Manages stored conversations. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    store: Store,
    access: Access,
    runs: Runs,
}

/// Why a conversation could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The conversation does not exist, or the principal may not see it.
    #[error("there is no conversation `{0}`")]
    Unknown(String),
    /// A run of the conversation has not ended.
    #[error("run `{0}` of this conversation has not ended; wait for it or cancel it")]
    Busy(toolwright_types::RunId),
    /// The change is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The principal lacks permission.
    #[error(transparent)]
    Denied(#[from] toolwright_catalog::Denied),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A turn, and the results of the calls that it requested.
#[derive(Debug)]
pub struct TurnWithCalls {
    /// The turn.
    pub turn: Turn,
    /// The calls, in the order in which the model requested them.
    pub tool_calls: Vec<ToolCallEntry>,
    /// For a tool result: the id that the model gave the call, and the name of the tool.
    pub result_of: Option<(String, String)>,
    /// For a tool result: the id of the call. The turn that requested the call lists it under the same id.
    pub call_id: Option<CallId>,
}

impl From<toolwright_store::StoreError> for ConversationError {
    fn from(error: toolwright_store::StoreError) -> Self {
        ConversationError::Unavailable(error.into())
    }
}

impl Conversations {
    /// Creates the service.
    pub fn new(store: Store, access: Access, runs: Runs) -> Self {
        Self { store, access, runs }
    }

    /// Returns a page of the principal's conversations. With `all`, returns the conversations of all principals.
    pub async fn list(
        &self,
        session: &Session,
        all: bool,
        query: ConversationQuery,
    ) -> Result<Page<Conversation, ConversationCursor>, ConversationError> {
        let query = self.permitted_query(session, all, query)?;
        Ok(self.store.conversations(&session.realm).list(&query).await?)
    }

    /// Counts the principal's conversations. With `all`, counts the conversations of all principals.
    pub async fn count(
        &self,
        session: &Session,
        all: bool,
        query: ConversationQuery,
    ) -> Result<u64, ConversationError> {
        let query = self.permitted_query(session, all, query)?;
        Ok(self.store.conversations(&session.realm).count(&query).await?)
    }

    fn permitted_query(
        &self,
        session: &Session,
        all: bool,
        mut query: ConversationQuery,
    ) -> Result<ConversationQuery, ConversationError> {
        if all {
            // No principal has the id 0. So only a session that may read the conversations of every owner passes this
            // check.
            let unowned = Resource::Conversation { owner: PrincipalId::from_bits(0) };
            self.access.require(session, Action::Read, unowned)?;
        } else {
            query.owner = Some(session.principal.id);
        }
        Ok(query)
    }

    /// Returns a conversation and at most `limit` of its turns, beginning with turn `from`. Reads the results of calls
    /// from the journals of the runs.
    pub async fn get(
        &self,
        session: &Session,
        id: ConversationId,
        from: u32,
        limit: u32,
    ) -> Result<(Conversation, Vec<TurnWithCalls>), ConversationError> {
        let conversation = self.permitted(session, id, Action::Read).await?;
        let turns = self.store.conversations(&session.realm).turns(id, from, limit).await?;
        let turns: Vec<(Turn, TurnBody)> = turns.into_iter().map(with_body).collect();
        let with_calls = turns.iter().filter(|(_, body)| !body.tool_calls.is_empty());
        let runs: HashSet<RunId> = with_calls.filter_map(|(turn, _)| turn.run).collect();
        let mut outputs = HashMap::new();
        for run in runs {
            outputs.extend(self.outputs(session, run).await?.map(|found| (run, found)));
        }
        Ok((conversation, join_calls(turns, &outputs)))
    }

    /// The outputs of a run; `None` if the run was deleted.
    async fn outputs(&self, session: &Session, run: RunId) -> Result<Option<AgentOutputs>, Unavailable> {
        match self.runs.get(session, run).await {
            Ok(record) => Ok(Some(record.snapshot.run.outputs())),
            Err(CommandError::Unavailable(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Changes the title or the status of a conversation.
    pub async fn update(
        &self,
        session: &Session,
        id: ConversationId,
        patch: ConversationPatch,
    ) -> Result<Conversation, ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        let updated = self.store.conversations(&session.realm).update(id, patch).await;
        updated.map_err(|error| match error {
            toolwright_store::UpdateError::Store(inner) => inner.into(),
            other => ConversationError::Invalid(other.to_string()),
        })
    }

    /// Deletes a conversation with all its turns.
    pub async fn delete(&self, session: &Session, id: ConversationId) -> Result<(), ConversationError> {
        self.permitted(session, id, Action::Write).await?;
        if let Some((run, _)) = self.runs.open_run_of(&session.realm, id).await? {
            return Err(ConversationError::Busy(run));
        }
        let deleted = self.store.conversations(&session.realm).delete(id).await?;
        if deleted { Ok(()) } else { Err(ConversationError::Unknown(id.to_string())) }
    }

    async fn permitted(
        &self,
        session: &Session,
        id: ConversationId,
        action: Action,
    ) -> Result<Conversation, ConversationError> {
        let unknown = || ConversationError::Unknown(id.to_string());
        let found = self.store.conversations(&session.realm).get(id).await?.ok_or_else(unknown)?;
        let resource = Resource::Conversation { owner: found.owner };
        if self.access.require(session, Action::Read, resource).is_err() {
            return Err(unknown());
        }
        self.access.require(session, action, resource)?;
        Ok(found)
    }
}

fn with_body(turn: Turn) -> (Turn, TurnBody) {
    let body = TurnBody::of(&turn);
    (turn, body)
}

/// Adds the results of calls to the turns that requested them.
fn join_calls(turns: Vec<(Turn, TurnBody)>, outputs: &HashMap<RunId, AgentOutputs>) -> Vec<TurnWithCalls> {
    let results: HashMap<(Option<RunId>, String), (String, bool)> = turns
        .iter()
        .filter_map(|(turn, body)| {
            let (id, _, is_error) = body.result_of.as_ref()?;
            Some(((turn.run, id.clone()), (turn.content.clone(), *is_error)))
        })
        .collect();
    let call = |run: Option<RunId>, call: TurnCall| {
        let envelope = run.and_then(|run| outputs.get(&run)).zip(call.call_id.as_ref());
        match envelope.and_then(|(outputs, id)| outputs.tools_by_id.get(id)) {
            Some(envelope) => ToolCallEntry::from(envelope),
            None => call_without_envelope(&call, results.get(&(run, call.requested.id.clone()))),
        }
    };
    turns
        .into_iter()
        .map(|(turn, body)| TurnWithCalls {
            tool_calls: body.tool_calls.into_iter().map(|requested| call(turn.run, requested)).collect(),
            result_of: body.result_of.map(|(id, tool, _)| (id, tool)),
            call_id: body.call_id,
            turn,
        })
        .collect()
}

/// Returns the entry of a call whose run was deleted. `result` is the text that the model received for the call, if the
/// turn with this text exists.
fn call_without_envelope(call: &TurnCall, result: Option<&(String, bool)>) -> ToolCallEntry {
    let (name, input) = (&call.requested.name, call.input());
    // The version of the tool is not known, so the id is derived as for an unknown tool.
    let call_id = call.call_id.clone().unwrap_or_else(|| CallId::derive(name, "", &input, 0));
    let mut entry = ToolCallEntry::unfinished(name, &call_id, &input);
    match result {
        Some((content, true)) => {
            entry.invocation.status = Some(InvocationStatus::Error);
            entry.invocation.error_message = Some(content.clone());
        }
        Some((content, false)) => {
            // Normally, the text is the output as JSON. A text that is not valid JSON, because it was truncated or
            // contains a note, becomes a string.
            let output = serde_json::from_str(content).unwrap_or_else(|_| Value::String(content.clone()));
            entry.invocation.status = Some(InvocationStatus::Success);
            entry.call.was_executed = true;
            entry.call.result_json = Some(output.to_string());
            entry.invocation.output = output;
        }
        None => {
            let unknown = "the outcome of this call is unknown, because its run was deleted";
            entry.invocation.error_message = Some(unknown.to_owned());
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use toolwright_types::{Arguments, DocumentId, RequestedCall, Timestamp, TurnId};

    use super::*;

    fn turn(run: RunId, role: &str, content: &str) -> Turn {
        let (id, role, content) = (TurnId::generate(), role.to_owned(), content.to_owned());
        let at = Timestamp::from_micros(0);
        Turn { index: 0, id, role, content, body: None, tokens: 0, duration_ms: 0, run: Some(run), at }
    }

    fn call(id: &str) -> TurnCall {
        let arguments = Arguments::Json(serde_json::json!({ "q": id }));
        TurnCall { requested: RequestedCall { id: id.to_owned(), name: "find".to_owned(), arguments }, call_id: None }
    }

    #[test]
    fn calls_of_a_deleted_run_show_the_text_that_the_model_received() {
        let run = RunId::generate();
        let result = |id: &str, failed| TurnBody {
            tool_calls: Vec::new(),
            result_of: Some((id.to_owned(), "find".to_owned(), failed)),
            call_id: None,
        };
        let calls = ["a", "b", "c", "d"].map(call).into();
        let turns = vec![
            (turn(run, "assistant", ""), TurnBody { tool_calls: calls, ..TurnBody::default() }),
            (turn(run, "tool", "{\"n\":1}"), result("a", false)),
            (turn(run, "tool", "{\"n\":1} [note: truncated]"), result("b", false)),
            (turn(run, "tool", "{\"error\":{}}"), result("c", true)),
            (turn(RunId::generate(), "tool", "{}"), result("d", false)),
        ];
        let joined = join_calls(turns, &HashMap::new());
        let shown: Vec<_> = joined[0].tool_calls.iter().map(|entry| &entry.invocation).collect();
        let error = |at: usize| shown[at].error_message.as_deref().unwrap_or_default();
        assert_eq!(
            (&shown[0].output, shown[0].status),
            (&serde_json::json!({ "n": 1 }), Some(InvocationStatus::Success))
        );
        assert_eq!(shown[1].output, "{\"n\":1} [note: truncated]");
        assert_eq!((shown[2].status, error(2)), (Some(InvocationStatus::Error), "{\"error\":{}}"));
        assert_eq!((shown[3].status, shown[3].output.is_null()), (None, true));
        assert!(error(3).contains("unknown"), "{}", error(3));
        assert_eq!(joined[1].result_of, Some(("a".to_owned(), "find".to_owned())));
    }
}
