//! Sends one `tools/call` request. Forwards the server's progress notifications to the caller, and sends a cancellation
//! to the server if the caller drops the call.

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
use toolwright_tools::{CallProgress, UpdateReceiver, UpdateSender};

use super::handler::{PeerHandler, declined};

/// The progress subscriptions of the calls that use one connection.
#[derive(Clone, Default)]
pub(crate) struct ProgressSubscriptions(Arc<Mutex<Subscriptions>>);

/// For each call, the channel for its progress, and the last progress that was sent to the channel.
type Subscriptions = HashMap<ProgressToken, (UpdateSender<CallProgress>, Option<f64>)>;

impl ProgressSubscriptions {
    /// Forwards a progress notification. rmcp may deliver notifications out of order, so a notification that does not
    /// increase the progress is dropped.
    pub(super) fn dispatch(&self, update: ProgressNotificationParam) {
        if let Some((sender, last)) = self.lock().get_mut(&update.progress_token)
            && last.is_none_or(|last| update.progress > last)
        {
            *last = Some(update.progress);
            sender.send(CallProgress { done: update.progress, total: update.total, message: update.message });
        }
    }

    fn subscribe(&self, token: ProgressToken) -> (UpdateReceiver<CallProgress>, ProgressSubscription) {
        let (sender, receiver) = UpdateSender::new();
        self.lock().insert(token.clone(), (sender, None));
        (receiver, ProgressSubscription { token, subscriptions: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription to the progress of one call. It ends when this value is dropped.
struct ProgressSubscription {
    token: ProgressToken,
    subscriptions: ProgressSubscriptions,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.subscriptions.lock().remove(&self.token);
    }
}

/// Calls a tool and passes its progress to `on_progress`.
pub(super) async fn call_tool(
    service: &RunningService<RoleClient, PeerHandler>,
    mut request: CallToolRequestParams,
    on_progress: impl Fn(CallProgress),
) -> Result<CallToolResult, ServiceError> {
    let message = ClientRequest::CallToolRequest(CallToolRequest::new(request.clone()));
    let handle = service.send_request_with_option(message, PeerRequestOptions::no_options()).await?;
    let (mut updates, _subscription) = service.service().progress.subscribe(handle.progress_token.clone());
    let mut in_flight = CancelOnDrop { peer: service.peer(), id: Some(handle.id.clone()) };
    let mut response = pin!(handle.await_response());
    let response = loop {
        tokio::select! {
            biased;
            update = updates.next() => on_progress(update),
            response = &mut response => break response,
        }
    };
    in_flight.id = None;
    match response? {
        ServerResult::CallToolResult(result) => Ok(result),
        // Repeat the request and decline the requested inputs. If the server requests input again, rmcp passes the
        // request to `PeerHandler`, which declines it.
        ServerResult::InputRequiredResult(input_required) => {
            request.input_responses = input_required.input_requests.map(decline_inputs).transpose()?;
            request.request_state = input_required.request_state;
            service.call_tool(request).await
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A guard that sends a cancellation to the server if the guard is dropped while `id` is set.
struct CancelOnDrop<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let notification = CancelledNotificationParam::new(Some(id), Some("the caller cancelled the call".into()));
            // If the queue is full, the cancellation is not sent, because `drop` cannot wait.
            let _ = self.peer.notify_cancelled(notification).now_or_never();
        }
    }
}

/// Declines the inputs that a server requests in its result. [`PeerHandler`] declines inputs that are requested during
/// a call.
fn decline_inputs(questions: InputRequests) -> Result<InputResponses, ServiceError> {
    let answer = |(key, question)| match question {
        InputRequest::Elicitation(_) => {
            let declined = serde_json::to_value(ElicitResult::new(ElicitationAction::Decline));
            declined.map(|declined| (key, declined)).map_err(|_| ServiceError::UnexpectedResponse)
        }
        _ => Err(ServiceError::McpError(declined("this kind of input"))),
    };
    questions.into_iter().map(answer).collect()
}
