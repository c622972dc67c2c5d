//! A fast path for `tools/call` of read-only tools, for clients that expect only the result and possibly progress
//! notifications.
//!
//! For every request, rmcp sets up tasks and channels for messages in both directions. A simple call needs neither, so
//! it is answered here without rmcp. The fast path handles a request only if the request would pass every check of
//! rmcp. All other requests are handled by rmcp.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use rmcp::model::{ClientCapabilities, JsonObject, JsonRpcError, ProgressToken, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};
use sync_wrapper::SyncStream;
use tokio_util::sync::CancellationToken;
use toolwright_catalog::Session;
use toolwright_tools::{CallProgress, ReadyCall, UpdateReceiver};
use toolwright_types::{CorrelationId, Surface};

use super::endpoint::SESSION_ID;
use super::progress::{HEARTBEAT, ProgressTracker};
use super::results::CallResponse;
use super::{McpResponse, Server, calls, invalid_message, unavailable};
use crate::{correlation, hops};

const METHOD: &str = "tools/call";
const CANCELLED: &str = "notifications/cancelled";
const MAX_NOTIFICATION_BYTES: usize = 4096;
const EVENT_STREAM: &str = "text/event-stream";
/// How long a call with a progress token may take before the response becomes an event stream.
const STREAM_AFTER: Duration = Duration::from_millis(250);
/// The protocol revision without MCP sessions.
const STATELESS_REVISION: &str = "2026-07-28";
/// The protocol revisions with MCP sessions.
const SESSION_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A call that may qualify for the fast path. It is not known yet whether its tool is read-only.
pub(super) struct FastPathCall {
    id: RequestId,
    name: String,
    arguments: JsonObject,
    /// The id of the MCP session, if the client has one.
    session: Option<String>,
    /// The progress token of the request, if the client expects progress notifications.
    progress: Option<ProgressToken>,
    /// The number of Toolwright servers that the request has passed through.
    hops: u8,
    /// The correlation id that the request carries, if any.
    correlation: Option<CorrelationId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    params: Params,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    name: String,
    #[serde(default)]
    arguments: JsonObject,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<ClientCapabilities>,
    #[serde(rename = "progressToken")]
    progress: Option<ProgressToken>,
    #[serde(default, rename = "toolwright/hops")]
    hops: Value,
    #[serde(default, rename = "toolwright/correlationId")]
    correlation: Value,
}

/// Parses a request that may qualify for the fast path.
pub(super) fn parse(request: &Request<Bytes>, hosts: &[String]) -> Option<FastPathCall> {
    let headers = request.headers();
    let is_candidate = request.method() == Method::POST
        && !headers.contains_key(ORIGIN)
        && request.uri().authority().is_none()
        && is_allowed_host(single_header(headers, &HOST)?, hosts)
        && accepts_json_and_events(single_header(headers, &ACCEPT)?)
        && invalid_message::is_json(headers);
    if !is_candidate {
        return None;
    }
    let session = match headers.contains_key(SESSION_ID) {
        true => Some(single_header(headers, &SESSION_ID)?.to_owned()),
        false => None,
    };
    let revision = single_header(headers, &PROTOCOL_VERSION)?;
    let fits = match session {
        Some(_) => SESSION_REVISIONS.contains(&revision),
        None => revision == STATELESS_REVISION && single_header(headers, &MCP_METHOD)? == METHOD,
    };
    if !fits {
        return None;
    }
    let Message { jsonrpc, id, method, params } = serde_json::from_slice(request.body()).ok()?;
    let Params { name, arguments, meta } = params;
    let fits = match session {
        // Progress needs a response stream. In an MCP session, the client may resume the stream after a disconnect, and
        // only rmcp supports that. So a call with a progress token in a session is left to rmcp.
        Some(_) => meta.revision.is_none() && meta.progress.is_none(),
        None => {
            meta.revision.is_some_and(|declared| declared == revision)
                && meta.capabilities.is_some()
                && single_header(headers, &MCP_NAME)? == name
        }
    };
    let eligible = fits && jsonrpc == "2.0" && method == METHOD;
    eligible.then_some(FastPathCall {
        id,
        name,
        arguments,
        session,
        progress: meta.progress,
        hops: hops::from_value(&meta.hops),
        correlation: correlation::from_value(&meta.correlation),
    })
}

/// Returns the id of the request to cancel if the message is a cancellation notification.
pub(super) fn cancelled_request(message: &[u8]) -> Option<RequestId> {
    if message.len() > MAX_NOTIFICATION_BYTES {
        return None;
    }
    #[derive(Deserialize)]
    struct Notification<'a> {
        method: &'a str,
        params: Cancelled,
    }
    #[derive(Deserialize)]
    struct Cancelled {
        #[serde(rename = "requestId")]
        request: RequestId,
    }
    let Notification { method, params } = serde_json::from_slice(message).ok()?;
    (method == CANCELLED).then_some(params.request)
}

/// Returns the value of a header, or `None` if the header does not occur exactly once.
fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether `host`, with or without a port, is one of `names`. If `names` is empty, every host is allowed.
fn is_allowed_host(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    names.is_empty() || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn accepts_json_and_events(accept: &str) -> bool {
    accept.contains("application/json") && accept.contains("text/event-stream")
}

/// The running fast-path calls of MCP sessions. They are registered so that they can be cancelled.
#[derive(Clone, Default)]
pub(super) struct InFlightCalls(Arc<Mutex<HashMap<Key, CancellationToken>>>);

type Key = (String, RequestId);

impl InFlightCalls {
    /// Registers a call until the returned guard is dropped.
    fn register(&self, session: String, id: RequestId, cancel: CancellationToken) -> InFlightGuard {
        let key = (session, id);
        self.lock().insert(key.clone(), cancel);
        InFlightGuard { key, calls: self.clone() }
    }

    /// Cancels a call.
    pub(super) fn cancel(&self, session: &str, id: RequestId) {
        if let Some(cancel) = self.lock().remove(&(session.to_owned(), id)) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct InFlightGuard {
    key: Key,
    calls: InFlightCalls,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.key);
    }
}

impl FastPathCall {
    /// The id of the MCP session, if the client has one.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

impl Server {
    /// Cancels a fast-path call of an MCP session.
    pub(super) fn cancel_call(&self, session: &str, request: RequestId) {
        self.0.fast_path.cancel(session, request);
    }

    /// Executes a call if it qualifies for the fast path. Otherwise returns `None` without side effects.
    pub(super) async fn answer_on_fast_path(&self, session: &Session, call: FastPathCall) -> Option<McpResponse> {
        let FastPathCall { id, name, arguments, session: session_id, progress, hops, correlation } = call;
        let mut session = Session { hops, ..session.clone() };
        session.correlation = correlation.or(session.correlation);
        let session = &session;
        let tool_listing = self.tool_listing(session).await.ok()?;
        let callable = tool_listing.find(&name).filter(|callable| !callable.is_agent())?;
        let request = callable.call_request(arguments);
        let mut direct = self.engine().calls.prepare(session, Surface::McpTool, request).await;
        if direct.ready().is_some_and(needs_library) {
            return None;
        }
        let progress_updates = progress.map(|token| (ProgressTracker::new(token), direct.progress()));
        let has_session = session_id.is_some();
        let _in_flight =
            session_id.map(|session| self.0.fast_path.register(session, id.clone(), direct.cancellation()));
        let message = async move {
            let body =
                match direct.execute_while_awaited().await.map_err(unavailable).and_then(calls::finished_envelope) {
                    Ok(envelope) => serde_json::to_vec(&CallResponse::new(&id, &envelope, has_session)),
                    Err(error) => serde_json::to_vec(&JsonRpcError::new(Some(id), error)),
                };
            // Serialization cannot fail, because the message contains only JSON values.
            body.unwrap_or_default()
        };
        let Some((tracker, updates)) = progress_updates else {
            return Some(answer(invalid_message::JSON, Full::new(message.await.into())));
        };
        let mut message = message.boxed();
        Some(match tokio::time::timeout(STREAM_AFTER, &mut message).await {
            Ok(message) => answer(invalid_message::JSON, Full::new(message.into())),
            Err(_) => {
                let events =
                    ProgressEvents { name, tracker, updates, until_heartbeat: Duration::ZERO, message: Some(message) };
                answer(EVENT_STREAM, StreamBody::new(SyncStream::new(events.into_stream().map(Ok))))
            }
        })
    }
}

fn answer(
    kind: &'static str,
    body: impl Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static,
) -> McpResponse {
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// The event stream of a call that takes longer than [`STREAM_AFTER`].
struct ProgressEvents {
    name: String,
    tracker: ProgressTracker,
    updates: UpdateReceiver<CallProgress>,
    /// The time until the next heartbeat.
    until_heartbeat: Duration,
    /// The future that returns the response message. `None` after the message was sent.
    message: Option<BoxFuture<'static, Vec<u8>>>,
}

impl ProgressEvents {
    /// Returns a stream of progress notifications and heartbeats, which ends with the response.
    fn into_stream(self) -> impl Stream<Item = Frame<Bytes>> + Send {
        futures::stream::unfold(self, |mut call| async move { Some((call.next().await?, call)) })
    }

    async fn next(&mut self) -> Option<Frame<Bytes>> {
        let message = self.message.as_mut()?;
        let until_heartbeat = tokio::time::sleep(std::mem::replace(&mut self.until_heartbeat, HEARTBEAT));
        let mut until_heartbeat = std::pin::pin!(until_heartbeat);
        let notification = loop {
            tokio::select! {
                biased;
                update = self.updates.next() => {
                    if let Some(notification) = self.tracker.forward(update) {
                        break notification;
                    }
                }
                answer = &mut *message => {
                    self.message = None;
                    return Some(event(&answer));
                }
                () = &mut until_heartbeat => break self.tracker.heartbeat(&self.name),
            }
        };
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": notification });
        Some(event(notification.to_string().as_bytes()))
    }
}

fn event(message: &[u8]) -> Frame<Bytes> {
    Frame::data([b"data: ", message, b"\n\n"].concat().into())
}

/// Whether the call must be handled by rmcp. This is the case if the tool requires confirmation, has external effects
/// or starts a run. Such a call must finish even if the client disconnects, which the fast path does not guarantee.
fn needs_library(ready: &ReadyCall) -> bool {
    ready.has_external_effects() || ready.starts_run() || ready.tool.definition.requires_confirmation
}
