//! Plain calls: `tools/call` of a tool that only reads, by a client that wants nothing but the result, or to hear that it takes long.
//!
//! The library makes a conversation of every request, with tasks and channels for what may be said in between. Of a plain call
//! next to nothing is said in between, so it is answered where it arrives. What is taken here would have passed every check of the
//! library; whatever might not, or needs more than an answer, is left to it.

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
use serde_json::json;
use sync_wrapper::SyncStream;
use tokio_util::sync::CancellationToken;
use toolwright_engine::Session;
use toolwright_tools::{Hearing, ReadyCall, Step};
use toolwright_types::Surface;

use super::endpoint::SESSION_ID;
use super::progress::{Course, HEARTBEAT};
use super::results::Answered;
use super::{Answer, Server, calls, unavailable, unread};

const METHOD: &str = "tools/call";
const CANCELLED: &str = "notifications/cancelled";
const LONGEST_NOTIFICATION: usize = 4096;
const EVENTS: &str = "text/event-stream";
/// From when on a call takes long.
const LONG: Duration = Duration::from_millis(250);
/// The revision without sessions.
const REVISION: &str = "2026-07-28";
/// Those with sessions.
const WITH_SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A call that may be plain; whether its tool only reads is not known yet.
pub(super) struct PlainCall {
    id: RequestId,
    name: String,
    arguments: JsonObject,
    /// The session it is made in, of an older client.
    session: Option<String>,
    /// Under what the client wants to hear that it takes long.
    progress: Option<ProgressToken>,
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
}

/// The call that a request is, if it may be plain.
pub(super) fn read(request: &Request<Bytes>, hosts: &[String]) -> Option<PlainCall> {
    let headers = request.headers();
    let welcome = request.method() == Method::POST
        && !headers.contains_key(ORIGIN)
        && request.uri().authority().is_none()
        && is_called_by(only(headers, &HOST)?, hosts)
        && takes_either(only(headers, &ACCEPT)?)
        && unread::is_json(headers);
    if !welcome {
        return None;
    }
    let session = match headers.contains_key(SESSION_ID) {
        true => Some(only(headers, &SESSION_ID)?.to_owned()),
        false => None,
    };
    let revision = only(headers, &PROTOCOL_VERSION)?;
    let fits = match session {
        Some(_) => WITH_SESSIONS.contains(&revision),
        None => revision == REVISION && only(headers, &MCP_METHOD)? == METHOD,
    };
    if !fits {
        return None;
    }
    let Message { jsonrpc, id, method, params } = serde_json::from_slice(request.body()).ok()?;
    let Params { name, arguments, meta } = params;
    let fits = match session {
        // What takes long in a session can be taken up again when the connection breaks, and that is the library's.
        Some(_) => meta.revision.is_none() && meta.progress.is_none(),
        None => {
            meta.revision.is_some_and(|meant| meant == revision)
                && meta.capabilities.is_some()
                && only(headers, &MCP_NAME)? == name
        }
    };
    let plain = fits && jsonrpc == "2.0" && method == METHOD;
    plain.then_some(PlainCall { id, name, arguments, session, progress: meta.progress })
}

/// The request that a message takes back, if it is such a message, which are short.
pub(super) fn taken_back(message: &[u8]) -> Option<RequestId> {
    if message.len() > LONGEST_NOTIFICATION {
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

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether `host`, with or without a port, is one of the names of this server; any is when there are none.
fn is_called_by(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    names.is_empty() || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn takes_either(accept: &str) -> bool {
    accept.contains("application/json") && accept.contains("text/event-stream")
}

/// The plain calls under way in sessions, for clients that take one back.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<HashMap<Key, CancellationToken>>>);

type Key = (String, RequestId);

impl UnderWay {
    /// Remembers a call for as long as what this gives.
    fn add(&self, session: String, id: RequestId, cancel: CancellationToken) -> Remembered {
        let key = (session, id);
        self.lock().insert(key.clone(), cancel);
        Remembered { key, calls: self.clone() }
    }

    /// Cancels a call.
    pub fn cancel(&self, session: &str, id: RequestId) {
        if let Some(cancel) = self.lock().remove(&(session.to_owned(), id)) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Remembered {
    key: Key,
    calls: UnderWay,
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.key);
    }
}

impl PlainCall {
    /// The session it is made in, of an older client.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

impl Server {
    /// Cancels a plain call of a session.
    pub(super) fn take_back(&self, session: &str, request: RequestId) {
        self.0.plain.cancel(session, request);
    }

    /// The answer to a call, if it turns out to be plain; otherwise nothing has happened.
    pub(super) async fn answer_plainly(&self, session: &Session, call: PlainCall) -> Option<Answer> {
        let PlainCall { id, name, arguments, session: of_session, progress } = call;
        let offer = self.offer(session).await.ok()?;
        let callable = offer.find(&name).filter(|callable| !callable.is_agent())?;
        let wanted = callable.called_with(arguments);
        let mut direct = self.engine().calls.prepare(session, Surface::McpTool, wanted).await;
        if direct.ready().is_some_and(needs_more) {
            return None;
        }
        let followed = progress.map(|token| (Course::new(token), direct.progress()));
        let is_older = of_session.is_some();
        let _under_way = of_session.map(|session| self.0.plain.add(session, id.clone(), direct.cancels()));
        let message = async move {
            let written = match direct.make_while_wanted().await.map_err(unavailable).and_then(calls::ended) {
                Ok(envelope) => serde_json::to_vec(&Answered::new(&id, &envelope, is_older)),
                Err(error) => serde_json::to_vec(&JsonRpcError::new(Some(id), error)),
            };
            // Values of JSON in a fixed shape: this cannot fail.
            written.unwrap_or_default()
        };
        let Some((course, heard)) = followed else {
            return Some(answer(unread::JSON, Full::new(message.await.into())));
        };
        let mut message = message.boxed();
        Some(match tokio::time::timeout(LONG, &mut message).await {
            Ok(message) => answer(unread::JSON, Full::new(message.into())),
            Err(_) => {
                let told = Told { name, course, heard, silence: Duration::ZERO, message: Some(message) };
                answer(EVENTS, StreamBody::new(SyncStream::new(told.events().map(Ok))))
            }
        })
    }
}

fn answer(kind: &'static str, body: impl Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static) -> Answer {
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// A call that takes long, by now.
struct Told {
    name: String,
    course: Course,
    heard: Hearing<Step>,
    /// For how long nothing is said of it.
    silence: Duration,
    /// What answers it; absent when it was sent.
    message: Option<BoxFuture<'static, Vec<u8>>>,
}

impl Told {
    /// How far it is, again and again that it is under way, and at last the message that answers it.
    fn events(self) -> impl Stream<Item = Frame<Bytes>> + Send {
        futures::stream::unfold(self, |mut call| async move { Some((call.next().await?, call)) })
    }

    async fn next(&mut self) -> Option<Frame<Bytes>> {
        let message = self.message.as_mut()?;
        let silence = tokio::time::sleep(std::mem::replace(&mut self.silence, HEARTBEAT));
        let mut silence = std::pin::pin!(silence);
        let news = loop {
            tokio::select! {
                biased;
                step = self.heard.next() => {
                    if let Some(news) = self.course.passed_on(step) {
                        break news;
                    }
                }
                answer = &mut *message => {
                    self.message = None;
                    return Some(event(&answer));
                }
                () = &mut silence => break self.course.beat(&self.name),
            }
        };
        let news = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": news });
        Some(event(news.to_string().as_bytes()))
    }
}

fn event(message: &[u8]) -> Frame<Bytes> {
    Frame::data([b"data: ", message, b"\n\n"].concat().into())
}

/// Whether somebody is asked before the call is made, or it changes something: then whoever leaves must hear of it later.
fn needs_more(ready: &ReadyCall) -> bool {
    ready.reaches_out() || ready.tool.definition.requires_confirmation
}
