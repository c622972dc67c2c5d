//! Asks the user, through the MCP client, for consent to a call.
//!
//! A client with an MCP session is asked while its request is pending. A client of protocol revision 2026-07-28
//! receives the question as the result of its request, and repeats the request with the decision and a token. The token
//! is signed. It is valid only once, and only for the same call by the same principal. If the tool, its provider or
//! another tool that the tool may call changes while the user decides, the decision is void.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion, RequestStateCodec, SealOptions,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use toolwright_catalog::Session;
use toolwright_tools::ReadyCall;
use toolwright_types::{ErrorCode, ToolError};

use super::Server;
use super::shown_input::{TooManyValues, shown_input};

/// How long the user has to decide.
const DECISION_TIMEOUT: Duration = Duration::from_secs(600);
/// The name of the requested input.
const CONFIRM_INPUT: &str = "confirm";

/// Creates the signed tokens that clients return, and rejects tokens that were used before.
pub(super) struct ConsentTokens {
    codec: RequestStateCodec,
    used: moka::sync::Cache<String, ()>,
}

impl ConsentTokens {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let used = moka::sync::Cache::builder().max_capacity(100_000).time_to_live(2 * DECISION_TIMEOUT).build();
        Self { codec: RequestStateCodec::new_unchecked(key.to_vec()), used }
    }

    /// Creates the token that the client returns with its repeated request. The token contains `state` and is valid
    /// only for `binding`.
    pub(super) fn seal(&self, state: Value, binding: &str) -> Result<String, ErrorData> {
        let nonce = data_encoding::HEXLOWER.encode(&rand::random::<[u8; 16]>());
        let options = SealOptions::new().associated_data(binding.as_bytes()).ttl(DECISION_TIMEOUT);
        let sealed = self.codec.seal_json_with(&json!({ "once": nonce, "state": state }), &options);
        sealed.map_err(|_| ErrorData::internal_error("the request state could not be signed", None))
    }

    /// Returns the state in the token. Returns `None` if the token has an invalid signature, was issued for another
    /// binding, has expired, or was used before.
    pub(super) fn open(&self, sealed: &str, binding: &str) -> Option<Value> {
        let mut opened: Value = self.codec.open_json_with(sealed, binding.as_bytes()).ok()?;
        let nonce = opened.get("once")?.as_str()?.to_owned();
        let fresh = self.used.entry(nonce).or_insert(()).is_fresh();
        fresh.then(|| opened.get_mut("state").map(Value::take)).flatten()
    }
}

/// A request for the user's consent.
pub(super) struct ConsentRequest {
    /// The text that the client shows to the user.
    message: Result<String, TooManyValues>,
    /// Identifies the call to which the decision applies.
    binding: String,
    tool: String,
}

impl ConsentRequest {
    /// Creates a request that asks the user whether a call may be executed.
    /// `closure` is the fingerprint of all definitions behind the call.
    fn for_call(session: &Session, ready: &ReadyCall, closure: &str) -> Self {
        let tool = ready.name().to_owned();
        let binding = json!([session.realm.realm, session.principal.id, ready.call_id(), closure]);
        Self { message: confirmation_text(&tool, &ready.input), binding: binding.to_string(), tool }
    }
}

/// The text of the question whether a tool may be called. Fails if the input cannot be shown.
pub(super) fn confirmation_text(tool: &str, input: &Value) -> Result<String, TooManyValues> {
    Ok(format!("May the tool `{tool}` be called with {}?", shown_input(input)?))
}

/// The outcome of a consent request.
pub(super) enum Consent {
    /// The user approved.
    Granted,
    /// The user denied, or the client does not support elicitation.
    Denied(Box<ToolError>),
    /// The client has to repeat the request with a decision.
    InputRequired(Box<InputRequiredResult>),
}

/// The user's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConsentDecision {
    Approved,
    Denied { reason: Option<String> },
}

impl Server {
    /// Requests consent to a call. If a definition behind the call changes, the decision is void. Then a client without
    /// a session gets the question again, and the call of a client with a session is denied.
    pub(super) async fn consent_to_call(
        &self,
        session: &Session,
        ready: &ReadyCall,
        request: &CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Consent, ErrorData> {
        let executor = self.engine().calls.executor();
        let shown = match executor.closure(&session.realm, &ready.tool).await {
            Ok(closure) => closure.fingerprint(),
            Err(error) => return Ok(Consent::Denied(Box::new(error))),
        };
        let consent = self.consent(&ConsentRequest::for_call(session, ready, &shown), request, cx).await?;
        if !matches!(consent, Consent::Granted) {
            return Ok(consent);
        }
        Ok(match executor.closure(&session.realm, &ready.tool).await {
            Ok(current) if current.fingerprint() == shown => Consent::Granted,
            Ok(_) => Consent::Denied(Box::new(definition_changed(ready.name()))),
            Err(error) => Consent::Denied(Box::new(error)),
        })
    }

    async fn consent(
        &self,
        question: &ConsentRequest,
        request: &CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Consent, ErrorData> {
        if !supports_elicitation(cx) {
            return Ok(Consent::Denied(Box::new(elicitation_unsupported(&question.tool))));
        }
        let message = match &question.message {
            Ok(message) => message.clone(),
            Err(error) => return Ok(Consent::Denied(Box::new(input_not_shown(&question.tool, error)))),
        };
        let decision = if is_stateless(cx) {
            let state = request.request_state.as_deref();
            let opened = state.and_then(|state| self.0.consent_tokens.open(state, &question.binding));
            let decision = parse_decision(request.input_responses.as_ref(), CONFIRM_INPUT);
            match opened.and(decision) {
                Some(decision) => decision,
                None => {
                    let state = self.0.consent_tokens.seal(Value::Null, &question.binding)?;
                    let input_required = input_required([(CONFIRM_INPUT.to_owned(), message)], state)?;
                    return Ok(Consent::InputRequired(Box::new(input_required)));
                }
            }
        } else {
            elicit(cx, message).await?
        };
        Ok(match decision {
            ConsentDecision::Approved => Consent::Granted,
            ConsentDecision::Denied { reason } => Consent::Denied(Box::new(denied_error(&question.tool, reason))),
        })
    }
}

/// Whether the client can show a form to the user.
pub(super) fn supports_elicitation(cx: &RequestContext<RoleServer>) -> bool {
    let asks = cx.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // A client that declares neither forms nor URLs uses a revision that had only forms, so it supports forms.
    asks.is_some_and(|asks| asks.form.is_some() || asks.url.is_none())
}

/// Whether the request uses a protocol revision without sessions, in which a question is sent as the result of the
/// request.
pub(super) fn is_stateless(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The result that requests input from the user.
pub(super) fn input_required(
    questions: impl IntoIterator<Item = (String, String)>,
    state: String,
) -> Result<InputRequiredResult, ErrorData> {
    let mut requests = InputRequests::new();
    for (name, message) in questions {
        requests.insert(name, InputRequest::Elicitation(ElicitRequest::new(form(message)?)));
    }
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// Parses the decision that a client of revision 2026-07-28 sent.
pub(super) fn parse_decision(responses: Option<&InputResponses>, name: &str) -> Option<ConsentDecision> {
    let answer = responses?.get(name)?;
    serde_json::from_value::<ElicitResult>(answer.clone()).ok().map(|result| decision(&result))
}

/// Asks the user through a client with an MCP session, while the client's request is pending.
pub(super) async fn elicit(cx: &RequestContext<RoleServer>, message: String) -> Result<ConsentDecision, ErrorData> {
    let elicitation = cx.peer.create_elicitation_with_timeout(form(message)?, Some(DECISION_TIMEOUT));
    match cx.ct.run_until_cancelled(elicitation).await {
        Some(Ok(result)) => Ok(decision(&result)),
        Some(Err(error)) => {
            tracing::warn!(%error, "elicitation failed");
            Ok(ConsentDecision::Denied { reason: Some("the client did not answer".to_owned()) })
        }
        None => Ok(ConsentDecision::Denied { reason: Some("the request was cancelled".to_owned()) }),
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

/// Converts the client's answer to a decision. Only an accepted form with the decision `approve` is an approval; all
/// other answers deny the call.
fn decision(result: &ElicitResult) -> ConsentDecision {
    let content = result.content.as_ref();
    let field = |name: &str| content.and_then(|content| content.get(name)).and_then(Value::as_str);
    match (&result.action, field("decision")) {
        (ElicitationAction::Accept, Some("approve")) => ConsentDecision::Approved,
        _ => ConsentDecision::Denied { reason: field("reason").filter(|reason| !reason.is_empty()).map(str::to_owned) },
    }
}

fn denied_error(tool: &str, reason: Option<String>) -> ToolError {
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    ToolError::new(ErrorCode::PolicyDenied, format!("the call to tool `{tool}` was not approved{why}"))
        .reason("approval_denied")
}

fn definition_changed(tool: &str) -> ToolError {
    let message = format!("a tool that `{tool}` may call changed while the user decided; call `{tool}` again");
    ToolError::new(ErrorCode::PolicyDenied, message).reason("definition_changed")
}

fn elicitation_unsupported(tool: &str) -> ToolError {
    let message = format!(
        "tool `{tool}` requires confirmation, and this client does not support elicitation; use a client that supports \
         elicitation, or call the tool over REST or the command line, where the call itself confirms"
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason("confirmation_required")
}

fn input_not_shown(tool: &str, error: &TooManyValues) -> ToolError {
    let message = format!(
        "tool `{tool}` requires confirmation, and {error}; send a smaller input, or call the tool over REST or the \
         command line, where the call itself confirms"
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason("confirmation_required")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_approves_the_call_only_if_its_action_is_accept_and_its_decision_is_approve() {
        let approve = json!({ "decision": "approve" });
        let denied = |reason: Option<&str>| ConsentDecision::Denied { reason: reason.map(str::to_owned) };
        for (answer, expected) in [
            (json!({ "action": "accept", "content": approve }), ConsentDecision::Approved),
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
            let result: ElicitResult = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(decision(&result), expected, "{answer}");
        }
    }

    #[test]
    fn consent_token_is_valid_once_and_only_for_its_binding() {
        let consent_tokens = ConsentTokens::new(&[7; 32]);
        let sealed = consent_tokens.seal(json!("run_1"), "this call").unwrap();
        assert_eq!(consent_tokens.open(&sealed, "another call"), None);
        assert_eq!(ConsentTokens::new(&[8; 32]).open(&sealed, "this call"), None);
        assert_eq!(consent_tokens.open(&sealed, "this call"), Some(json!("run_1")));
        assert_eq!(consent_tokens.open(&sealed, "this call"), None);
    }
}
