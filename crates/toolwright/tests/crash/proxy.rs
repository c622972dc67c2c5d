//! A proxy between the server and the CRM. It records every request. At points that the killer chooses, it makes a
//! request wait until the killer releases it.
//!
//! The proxy may forward a request although the server that sent it is dead. Real networks behave like this, so a write
//! can take effect without a recorded outcome.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_testkit::LOOPBACK;
use toolwright_tools::http::{EgressPolicy, HttpClient};

use super::rng::SeededRng;
use super::workload;

/// Maximum simulated latency of a request or a response.
const MAX_LATENCY: Duration = Duration::from_millis(25);
/// Maximum extra delay of a request from a dead server. It is well below the timeout of the verifiable tool:
/// verification starts after that timeout and assumes that the request has arrived or was lost.
const MAX_DELIVERY_DELAY: Duration = Duration::from_millis(1000);

/// The kind of tool that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RequestKind {
    Read,
    /// A write that the CRM performs only once for each idempotency key.
    Idempotent,
    /// A write with a verify operation.
    Verifiable,
    /// A write that is neither idempotent nor verifiable.
    Unverifiable,
    /// A verify operation.
    Verify,
}

/// A request that the proxy received.
#[derive(Debug, Clone)]
pub(crate) struct ProxiedRequest {
    pub kind: RequestKind,
    /// The tag of the call that sent the request. See [`workload`](super::workload).
    pub tag: Option<String>,
    pub key: Option<String>,
}

/// The point at which the proxy makes a request wait for the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterceptPoint {
    /// The request arrived at the proxy and was not forwarded.
    Arrived,
    /// The CRM performed the request, and the proxy has not sent the response.
    Performed,
    /// The proxy has sent the response.
    Answered,
}

/// The killer's handle on a request that waits at the proxy. The request continues when the killer drops the guard.
pub(crate) type HoldGuard = oneshot::Sender<()>;

enum Interception {
    /// Makes one request wait. `only` limits the interception to one kind of request. The first `skip` requests of that
    /// kind pass.
    Request { point: InterceptPoint, only: Option<RequestKind>, skip: u64, notify: oneshot::Sender<HoldGuard> },
    /// Makes responses wait until there are `size` of them, so that the server commits their outcomes together.
    Batch { size: usize, held: Vec<HoldGuard>, notify: oneshot::Sender<HoldGuard> },
}

/// The proxy. Clones share their state.
#[derive(Clone)]
pub(crate) struct CrmProxy(Arc<Inner>);

struct Inner {
    crm: String,
    client: reqwest::Client,
    requests: Mutex<Vec<ProxiedRequest>>,
    /// Number of servers killed so far.
    server_kills: AtomicU64,
    intercept: Mutex<Option<Interception>>,
    /// The tags of the requests that were refused.
    refused: Mutex<BTreeSet<String>>,
    rng: Mutex<SeededRng>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl CrmProxy {
    /// Starts a proxy for the CRM at `crm`. Returns the proxy and its URL.
    pub(crate) async fn start(crm: String, rng: SeededRng) -> (Self, String) {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let proxy = Self(Arc::new(Inner {
            crm,
            client,
            requests: Mutex::default(),
            server_kills: AtomicU64::default(),
            intercept: Mutex::default(),
            refused: Mutex::default(),
            rng: Mutex::new(rng),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }));
        let app = Router::new().fallback(receive).with_state(proxy.clone());
        let served = axum::serve(listener, app).with_graceful_shutdown(proxy.0.stop.clone().cancelled_owned());
        proxy.0.tasks.spawn(async move { served.await });
        (proxy, url)
    }

    /// Stops the proxy and waits for the requests in progress.
    pub(crate) async fn close(self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// All requests received so far.
    pub(crate) fn requests(&self) -> Vec<ProxiedRequest> {
        lock(&self.0.requests).clone()
    }

    /// Number of requests received so far.
    pub(crate) fn request_count(&self) -> usize {
        lock(&self.0.requests).len()
    }

    /// Makes one request wait at `point`. Its guard is sent through the returned channel.
    pub(crate) fn intercept_request(
        &self,
        point: InterceptPoint,
        only: Option<RequestKind>,
        skip: u64,
    ) -> oneshot::Receiver<HoldGuard> {
        let (notify, notified) = oneshot::channel();
        *lock(&self.0.intercept) = Some(Interception::Request { point, only, skip, notify });
        notified
    }

    /// Makes responses wait until there are `size` of them. The guard that holds the last response is sent through the
    /// returned channel.
    pub(crate) fn intercept_batch(&self, size: usize) -> oneshot::Receiver<HoldGuard> {
        let (notify, notified) = oneshot::channel();
        *lock(&self.0.intercept) = Some(Interception::Batch { size, held: Vec::new(), notify });
        notified
    }

    /// Records that the server was killed, so that the proxy loses or delays the requests that it has not forwarded.
    pub(crate) fn server_killed(&self) {
        self.0.server_kills.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops intercepting and releases the responses that wait for a batch.
    pub(crate) fn stop_intercepting(&self) {
        *lock(&self.0.intercept) = None;
    }

    async fn handle(self, parts: Parts, body: Bytes, respond: oneshot::Sender<Response>) {
        let request = ProxiedRequest::new(&parts, &body);
        lock(&self.0.requests).push(request.clone());
        let server_kills = self.server_kills();
        self.hold_if_intercepted(InterceptPoint::Arrived, &request).await;
        self.simulate_latency().await;
        if self.server_kills() != server_kills {
            // The server died after it sent the request. The request is lost or arrives late, with equal probability.
            let delay = {
                let mut rng = lock(&self.0.rng);
                (rng.below(2) == 0).then(|| rng.duration_below(MAX_DELIVERY_DELAY))
            };
            match delay {
                None => return,
                Some(delay) => tokio::time::sleep(delay).await,
            }
        }
        let response = if self.refuses(&request) {
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        } else {
            self.forward(parts, body).await
        };
        self.hold_if_intercepted(InterceptPoint::Performed, &request).await;
        self.simulate_latency().await;
        // Sending fails if the server is dead and no longer waits for the response.
        let _ = respond.send(response);
        self.hold_if_intercepted(InterceptPoint::Answered, &request).await;
    }

    /// Whether the CRM is unavailable for this request.
    fn refuses(&self, request: &ProxiedRequest) -> bool {
        let tag = request.tag.as_ref().filter(|tag| workload::is_refused_once(tag));
        tag.is_some_and(|tag| lock(&self.0.refused).insert(tag.clone()))
    }

    async fn simulate_latency(&self) {
        let latency = lock(&self.0.rng).duration_below(MAX_LATENCY);
        tokio::time::sleep(latency).await;
    }

    async fn forward(&self, parts: Parts, body: Bytes) -> Response {
        let url = format!("{}{}", self.0.crm, parts.uri);
        let mut headers = parts.headers;
        headers.remove("host");
        let sent = self.0.client.request(parts.method, url).headers(headers).body(body).send().await.unwrap();
        let status = sent.status();
        (status, [("content-type", "application/json")], sent.bytes().await.unwrap()).into_response()
    }

    /// Waits until the killer releases the request, if the request is intercepted at `point`.
    async fn hold_if_intercepted(&self, point: InterceptPoint, request: &ProxiedRequest) {
        if let Some(released) = self.try_intercept(point, request) {
            // The killer releases the request by dropping its guard.
            let _ = released.await;
        }
    }

    fn server_kills(&self) -> u64 {
        self.0.server_kills.load(Ordering::Relaxed)
    }

    fn try_intercept(&self, at: InterceptPoint, request: &ProxiedRequest) -> Option<oneshot::Receiver<()>> {
        let mut slot = lock(&self.0.intercept);
        let (guard, released) = oneshot::channel();
        match slot.as_mut()? {
            Interception::Request { point, only, skip, .. } => {
                if *point != at || only.is_some_and(|kind| kind != request.kind) {
                    return None;
                }
                if *skip > 0 {
                    *skip -= 1;
                    return None;
                }
                let Some(Interception::Request { notify, .. }) = slot.take() else { return None };
                // If the killer no longer waits, `send` drops the guard and the request continues at once.
                let _ = notify.send(guard);
            }
            Interception::Batch { size, held, .. } => {
                if at != InterceptPoint::Performed {
                    return None;
                }
                if held.len() + 1 < *size {
                    held.push(guard);
                    return Some(released);
                }
                let Some(Interception::Batch { notify, .. }) = slot.take() else { return None };
                let _ = notify.send(guard);
            }
        }
        Some(released)
    }
}

async fn receive(State(proxy): State<CrmProxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (respond, response) = oneshot::channel();
    let handled = proxy.clone().handle(parts, body, respond);
    proxy.0.tasks.spawn(handled);
    response.await.unwrap_or_else(|_| StatusCode::GATEWAY_TIMEOUT.into_response())
}

impl ProxiedRequest {
    fn new(parts: &Parts, body: &Bytes) -> Self {
        let path = parts.uri.path();
        let kind = match path.rsplit('/').next() {
            Some("notes") if parts.method == Method::GET => RequestKind::Verify,
            Some("notes") => RequestKind::Verifiable,
            Some("emails") => RequestKind::Unverifiable,
            _ if parts.method == Method::PATCH => RequestKind::Idempotent,
            _ => RequestKind::Read,
        };
        let key = parts.headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        Self { kind, tag: find_tag(&String::from_utf8_lossy(body)), key }
    }
}

/// Finds the tag that the workload puts into the input of every call.
pub(crate) fn find_tag(text: &str) -> Option<String> {
    let from = text.find("tag:")?;
    let tag = &text[from..];
    let end = tag.find(|sign: char| !(sign.is_ascii_alphanumeric() || sign == ':')).unwrap_or(tag.len());
    Some(tag[..end].to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
