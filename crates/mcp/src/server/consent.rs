//! A person's consent, asked for through the client.
//!
//! An older client is asked while its request waits. A client of 2026-07-28 gets the question as the answer, and sends its
//! request again with the decision and the state it was given: signed, for this call of this principal, good once.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion, RequestStateCodec, SealOptions,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use toolwright_engine::Session;
use toolwright_tools::ReadyCall;
use toolwright_types::{ErrorCode, ToolError};

use super::Server;

/// How long a person has to decide.
const PATIENCE: Duration = Duration::from_secs(600);
/// The name of the question about a call.
const CONFIRM: &str = "confirm";
/// How much of the arguments a person is shown.
const SHOWN: usize = 2000;

/// Signs what clients carry, and remembers what was used.
pub(super) struct Consents {
    codec: RequestStateCodec,
    used: moka::sync::Cache<String, ()>,
}

impl Consents {
    pub fn new(key: &[u8; 32]) -> Self {
        let used = moka::sync::Cache::builder().max_capacity(100_000).time_to_live(2 * PATIENCE).build();
        Self { codec: RequestStateCodec::new_unchecked(key.to_vec()), used }
    }

    /// What a client is to send back, for a request that is bound to `binding`.
    pub fn seal(&self, state: Value, binding: &str) -> Result<String, ErrorData> {
        let once = data_encoding::HEXLOWER.encode(&rand::random::<[u8; 16]>());
        let options = SealOptions::new().associated_data(binding.as_bytes()).ttl(PATIENCE);
        let sealed = self.codec.seal_json_with(&json!({ "once": once, "state": state }), &options);
        sealed.map_err(|_| ErrorData::internal_error("the request's state could not be signed", None))
    }

    /// What was sealed, if it was here, for the same request, and the first time that it comes back.
    pub fn open(&self, sealed: &str, binding: &str) -> Option<Value> {
        let mut opened: Value = self.codec.open_json_with(sealed, binding.as_bytes()).ok()?;
        let once = opened.get("once")?.as_str()?.to_owned();
        let fresh = self.used.entry(once).or_insert(()).is_fresh();
        fresh.then(|| opened.get_mut("state").map(Value::take)).flatten()
    }
}

/// Something that a person is asked.
pub(super) struct Question {
    /// The words.
    message: String,
    /// What the decision holds for, and nothing else.
    binding: String,
    tool: String,
}

impl Question {
    /// Whether a call may be made.
    pub fn of_call(session: &Session, ready: &ReadyCall) -> Self {
        let tool = ready.name().to_owned();
        let binding = json!([session.realm.realm, session.principal.id, ready.call_id(), ready.tool.content_hash]);
        Self { message: may_call(&tool, &ready.input), binding: binding.to_string(), tool }
    }
}

/// The question whether a tool may be called.
pub(super) fn may_call(tool: &str, input: &Value) -> String {
    let input = input.to_string();
    let shown: String = input.chars().take(SHOWN).collect();
    let more = if shown.len() < input.len() { "…" } else { "" };
    format!("May the tool `{tool}` be called with {shown}{more}?")
}

/// What came of a question.
pub(super) enum Consent {
    /// Yes.
    Given,
    /// No, or nobody could be asked.
    Refused(Box<ToolError>),
    /// The client is asked; it comes again.
    Asked(Box<InputRequiredResult>),
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Approved,
    Denied { reason: Option<String> },
}

impl Server {
    /// Asks whether a call may be made.
    pub(super) async fn consent(
        &self,
        question: &Question,
        request: &CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Consent, ErrorData> {
        if !can_ask(cx) {
            return Ok(Consent::Refused(Box::new(nobody_to_ask(&question.tool))));
        }
        let verdict = if is_stateless(cx) {
            let state = request.request_state.as_deref();
            let known = state.and_then(|state| self.0.consents.open(state, &question.binding));
            let answer = answer(request.input_responses.as_ref(), CONFIRM);
            match known.and(answer) {
                Some(verdict) => verdict,
                None => {
                    let state = self.0.consents.seal(Value::Null, &question.binding)?;
                    let asked = asked([(CONFIRM.to_owned(), question.message.clone())], state)?;
                    return Ok(Consent::Asked(Box::new(asked)));
                }
            }
        } else {
            ask(cx, question.message.clone()).await?
        };
        Ok(match verdict {
            Verdict::Approved => Consent::Given,
            Verdict::Denied { reason } => Consent::Refused(Box::new(denied(&question.tool, reason))),
        })
    }
}

/// Whether the client can put a form before a person.
pub(super) fn can_ask(cx: &RequestContext<RoleServer>) -> bool {
    let asks = cx.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // One that says nothing of forms or pages is from before there were pages.
    asks.is_some_and(|asks| asks.form.is_some() || asks.url.is_none())
}

/// Whether the request is one of those that questions are the answer to.
pub(super) fn is_stateless(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The answer that is a question.
pub(super) fn asked(
    questions: impl IntoIterator<Item = (String, String)>,
    state: String,
) -> Result<InputRequiredResult, ErrorData> {
    let mut requests = InputRequests::new();
    for (name, message) in questions {
        requests.insert(name, InputRequest::Elicitation(ElicitRequest::new(form(message)?)));
    }
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// What a client of 2026-07-28 sent as the answer to a question.
pub(super) fn answer(responses: Option<&InputResponses>, name: &str) -> Option<Verdict> {
    let said = responses?.get(name)?;
    serde_json::from_value::<ElicitResult>(said.clone()).ok().map(|result| verdict(&result))
}

/// Asks an older client while its request waits.
pub(super) async fn ask(cx: &RequestContext<RoleServer>, message: String) -> Result<Verdict, ErrorData> {
    let asking = cx.peer.create_elicitation_with_timeout(form(message)?, Some(PATIENCE));
    match cx.ct.run_until_cancelled(asking).await {
        Some(Ok(result)) => Ok(verdict(&result)),
        Some(Err(error)) => {
            tracing::warn!(%error, "a client did not answer a question");
            Ok(Verdict::Denied { reason: Some("the client did not answer".to_owned()) })
        }
        None => Ok(Verdict::Denied { reason: Some("the request was cancelled".to_owned()) }),
    }
}

fn form(message: String) -> Result<ElicitRequestParams, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": { "type": "string", "title": "Decision", "enum": ["approve", "deny"] },
            "reason": { "type": "string", "title": "Reason", "description": "Why not" },
        },
        "required": ["decision"],
    });
    let requested_schema: ElicitationSchema =
        serde_json::from_value(schema).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Only a form that says `approve` is a yes.
fn verdict(result: &ElicitResult) -> Verdict {
    let content = result.content.as_ref();
    let field = |name: &str| content.and_then(|content| content.get(name)).and_then(Value::as_str);
    match (&result.action, field("decision")) {
        (ElicitationAction::Accept, Some("approve")) => Verdict::Approved,
        _ => Verdict::Denied { reason: field("reason").filter(|reason| !reason.is_empty()).map(str::to_owned) },
    }
}

fn denied(tool: &str, reason: Option<String>) -> ToolError {
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    ToolError::new(ErrorCode::PolicyDenied, format!("the call of `{tool}` was not approved{why}"))
        .reason("approval_denied")
}

fn nobody_to_ask(tool: &str) -> ToolError {
    let message = format!(
        "tool `{tool}` is only called after a person agreed, and this client cannot ask one; use a client that supports \
         elicitation, or call the tool over REST or the command line, where calling is agreeing"
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason("confirmation_required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_form_that_approves_is_a_yes() {
        let approve = json!({ "decision": "approve" });
        let denied = |reason: Option<&str>| Verdict::Denied { reason: reason.map(str::to_owned) };
        for (said, expected) in [
            (json!({ "action": "accept", "content": approve }), Verdict::Approved),
            (
                json!({ "action": "accept", "content": { "decision": "deny", "reason": "too dear" } }),
                denied(Some("too dear")),
            ),
            (json!({ "action": "accept", "content": {} }), denied(None)),
            (json!({ "action": "accept", "content": { "decision": true } }), denied(None)),
            (json!({ "action": "accept" }), denied(None)),
            (json!({ "action": "decline", "content": approve }), denied(None)),
            (json!({ "action": "cancel" }), denied(None)),
        ] {
            let result: ElicitResult = serde_json::from_value(said.clone()).unwrap();
            assert_eq!(verdict(&result), expected, "{said}");
        }
    }

    #[test]
    fn a_state_is_good_once_and_for_what_it_was_given_for() {
        let consents = Consents::new(&[7; 32]);
        let sealed = consents.seal(json!("run_1"), "this call").unwrap();
        assert_eq!(consents.open(&sealed, "another call"), None);
        assert_eq!(Consents::new(&[8; 32]).open(&sealed, "this call"), None);
        assert_eq!(consents.open(&sealed, "this call"), Some(json!("run_1")));
        assert_eq!(consents.open(&sealed, "this call"), None);
    }
}
