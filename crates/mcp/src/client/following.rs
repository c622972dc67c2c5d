//! One `tools/call`, followed until it ends: what the server says of its progress is passed on, and a server whose caller has left
//! is told so.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest, ElicitResult,
    ElicitationAction, InputRequest, InputRequests, InputResponses, ProgressNotificationParam, ProgressToken,
    RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RunningService, ServiceError};
use rmcp::{Peer, RoleClient};
use toolwright_tools::{Hearing, Step, Word};

use super::answers::{Answers, declined};

/// The calls of a connection whose progress somebody wants to hear.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<Mutex<Calls>>);

/// Where to tell of each, and how far it was when that was last done.
type Calls = HashMap<ProgressToken, (Word<Step>, Option<f64>)>;

impl Followed {
    /// Passes on what a server says. The library may bring its words in another order; those that come late are old.
    pub fn tell(&self, news: ProgressNotificationParam) {
        if let Some((word, last)) = self.lock().get_mut(&news.progress_token)
            && last.is_none_or(|last| news.progress > last)
        {
            *last = Some(news.progress);
            word.say(Step { done: news.progress, total: news.total, message: news.message });
        }
    }

    fn add(&self, token: ProgressToken) -> (Hearing<Step>, Following) {
        let (word, hearing) = Word::new();
        self.lock().insert(token.clone(), (word, None));
        (hearing, Following { token, all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with the call.
struct Following {
    token: ProgressToken,
    all: Followed,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.all.lock().remove(&self.token);
    }
}

/// Calls a tool, and tells how far it is.
pub(super) async fn call(
    service: &RunningService<RoleClient, Answers>,
    mut request: CallToolRequestParams,
    tell: impl Fn(Step),
) -> Result<CallToolResult, ServiceError> {
    let message = ClientRequest::CallToolRequest(CallToolRequest::new(request.clone()));
    let handle = service.send_request_with_option(message, PeerRequestOptions::no_options()).await?;
    let (mut heard, _following) = service.service().followed.add(handle.progress_token.clone());
    let mut asked = Asked { peer: service.peer(), id: Some(handle.id.clone()) };
    let mut response = pin!(handle.await_response());
    let response = loop {
        tokio::select! {
            biased;
            step = heard.next() => tell(step),
            response = &mut response => break response,
        }
    };
    asked.id = None;
    match response? {
        ServerResult::CallToolResult(result) => Ok(result),
        // The rounds that follow are the library's.
        ServerResult::InputRequiredResult(wanted) => {
            request.input_responses = wanted.input_requests.map(answered).transpose()?;
            request.request_state = wanted.request_state;
            service.call_tool(request).await
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A request that is under way: whoever leaves it says so.
struct Asked<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let left = CancelledNotificationParam::new(Some(id), Some("the caller has left".into()));
            // It is on its way at once, or the way is full.
            let _ = self.peer.notify_cancelled(left).now_or_never();
        }
    }
}

/// What a server is told that answers with questions: the same as one that asks in between.
fn answered(questions: InputRequests) -> Result<InputResponses, ServiceError> {
    let answer = |(key, question)| match question {
        InputRequest::Elicitation(_) => {
            let no = serde_json::to_value(ElicitResult::new(ElicitationAction::Decline));
            no.map(|no| (key, no)).map_err(|_| ServiceError::UnexpectedResponse)
        }
        _ => Err(ServiceError::McpError(declined("what the server asks for"))),
    };
    questions.into_iter().map(answer).collect()
}
