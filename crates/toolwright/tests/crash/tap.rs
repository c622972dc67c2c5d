//! What stands between the server and the CRM, sees every request, and lets the killer strike at a chosen point.
//!
//! A request that came this far is carried out although the server that sent it is dead: that is how a real system
//! behaves, and what makes an unknown outcome.

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
use toolwright_tools::http::{Egress, HttpClient};

use super::dice::Dice;

/// How long a request takes to the CRM, and an answer from it.
const WAY: Duration = Duration::from_millis(25);
/// How late a request can be that a dead server sent. Well below the time-out of the tool that is asked about: that is
/// what a time-out promises to whoever asks.
const LATE: Duration = Duration::from_millis(1000);

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Read,
    /// A write that the CRM makes once per key.
    Idempotent,
    /// A write that can be asked about.
    Verifiable,
    /// A write with neither.
    Blind,
    /// The question about a write.
    Verify,
}

/// A request that came by.
#[derive(Debug, Clone)]
pub struct Passage {
    pub kind: Kind,
    /// The step of the workload that it is for.
    pub tag: Option<String>,
    pub key: Option<String>,
}

/// Where the killer lies in wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The request is at the CRM, which has done nothing yet.
    Arrived,
    /// The CRM has done it and not answered.
    Performed,
    /// The answer is on its way.
    Answered,
}

/// Sent to the killer: the request is held until this is dropped.
pub type Hold = oneshot::Sender<()>;

enum Ambush {
    /// At the next request of a kind, after some others.
    At { point: Point, only: Option<Kind>, skip: u64, sprung: oneshot::Sender<Hold> },
    /// Answers are held back until there are enough, so that their outcomes are committed together.
    Flood { enough: usize, held: Vec<Hold>, sprung: oneshot::Sender<Hold> },
}

/// The tap. Clones are the same one.
#[derive(Clone)]
pub struct Tap(Arc<Inner>);

struct Inner {
    crm: String,
    client: reqwest::Client,
    passages: Mutex<Vec<Passage>>,
    /// How many servers have died.
    deaths: AtomicU64,
    ambush: Mutex<Option<Ambush>>,
    dice: Mutex<Dice>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Tap {
    /// Opens a tap before the CRM at `crm`, and gives its address.
    pub async fn open(crm: String, dice: Dice) -> (Self, String) {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = HttpClient::new(Egress::everything()).unguarded().unwrap();
        let tap = Self(Arc::new(Inner {
            crm,
            client,
            passages: Mutex::default(),
            deaths: AtomicU64::default(),
            ambush: Mutex::default(),
            dice: Mutex::new(dice),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }));
        let app = Router::new().fallback(receive).with_state(tap.clone());
        let served = axum::serve(listener, app).with_graceful_shutdown(tap.0.stop.clone().cancelled_owned());
        tap.0.tasks.spawn(async move { served.await });
        (tap, url)
    }

    /// Waits until everything that came by is done.
    pub async fn close(self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Everything that came by until now.
    pub fn passages(&self) -> Vec<Passage> {
        lock(&self.0.passages).clone()
    }

    /// How much came by until now.
    pub fn count(&self) -> usize {
        lock(&self.0.passages).len()
    }

    /// Lies in wait for a request.
    pub fn await_request(&self, point: Point, only: Option<Kind>, skip: u64) -> oneshot::Receiver<Hold> {
        let (sprung, springs) = oneshot::channel();
        *lock(&self.0.ambush) = Some(Ambush::At { point, only, skip, sprung });
        springs
    }

    /// Lies in wait for many answers.
    pub fn await_flood(&self, enough: usize) -> oneshot::Receiver<Hold> {
        let (sprung, springs) = oneshot::channel();
        *lock(&self.0.ambush) = Some(Ambush::Flood { enough, held: Vec::new(), sprung });
        springs
    }

    /// Is told that the server is dead, and with it whoever waits for an answer.
    pub fn server_died(&self) {
        self.0.deaths.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits no longer, and lets go what was held.
    pub fn give_up(&self) {
        *lock(&self.0.ambush) = None;
    }

    async fn carry(self, parts: Parts, body: Bytes, answer: oneshot::Sender<Response>) {
        let passage = Passage::of(&parts, &body);
        lock(&self.0.passages).push(passage.clone());
        let deaths = self.deaths();
        self.spring(Point::Arrived, &passage).await;
        self.travel().await;
        if self.deaths() != deaths {
            // What a dead server sent is lost, or comes late.
            let late = {
                let mut dice = lock(&self.0.dice);
                (dice.below(2) == 0).then(|| dice.moment(LATE))
            };
            match late {
                None => return,
                Some(late) => tokio::time::sleep(late).await,
            }
        }
        let response = self.forward(parts, body).await;
        self.spring(Point::Performed, &passage).await;
        self.travel().await;
        // Whoever asked may be dead.
        let _ = answer.send(response);
        self.spring(Point::Answered, &passage).await;
    }

    async fn travel(&self) {
        let way = lock(&self.0.dice).moment(WAY);
        tokio::time::sleep(way).await;
    }

    async fn forward(&self, parts: Parts, body: Bytes) -> Response {
        let url = format!("{}{}", self.0.crm, parts.uri);
        let mut headers = parts.headers;
        headers.remove("host");
        let sent = self.0.client.request(parts.method, url).headers(headers).body(body).send().await.unwrap();
        let status = sent.status();
        (status, [("content-type", "application/json")], sent.bytes().await.unwrap()).into_response()
    }

    /// Waits here if this is where the killer strikes.
    async fn spring(&self, point: Point, passage: &Passage) {
        if let Some(held) = self.caught(point, passage) {
            // Let go by the killer, who drops his end.
            let _ = held.await;
        }
    }

    fn deaths(&self) -> u64 {
        self.0.deaths.load(Ordering::Relaxed)
    }

    fn caught(&self, at: Point, passage: &Passage) -> Option<oneshot::Receiver<()>> {
        let mut place = lock(&self.0.ambush);
        let (hold, held) = oneshot::channel();
        match place.as_mut()? {
            Ambush::At { point, only, skip, .. } => {
                if *point != at || only.is_some_and(|kind| kind != passage.kind) {
                    return None;
                }
                if *skip > 0 {
                    *skip -= 1;
                    return None;
                }
                let Some(Ambush::At { sprung, .. }) = place.take() else { return None };
                // A killer who has given up lets go at once.
                let _ = sprung.send(hold);
            }
            Ambush::Flood { enough, held: others, .. } => {
                if at != Point::Performed {
                    return None;
                }
                if others.len() + 1 < *enough {
                    others.push(hold);
                    return Some(held);
                }
                let Some(Ambush::Flood { sprung, .. }) = place.take() else { return None };
                let _ = sprung.send(hold);
            }
        }
        Some(held)
    }
}

async fn receive(State(tap): State<Tap>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let (answer, answered) = oneshot::channel();
    let carried = tap.clone().carry(parts, body, answer);
    tap.0.tasks.spawn(carried);
    answered.await.unwrap_or_else(|_| StatusCode::GATEWAY_TIMEOUT.into_response())
}

impl Passage {
    fn of(parts: &Parts, body: &Bytes) -> Self {
        let path = parts.uri.path();
        let kind = match path.rsplit('/').next() {
            Some("notes") if parts.method == Method::GET => Kind::Verify,
            Some("notes") => Kind::Verifiable,
            Some("emails") => Kind::Blind,
            _ if parts.method == Method::PATCH => Kind::Idempotent,
            _ => Kind::Read,
        };
        let key = parts.headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        Self { kind, tag: tag_in(&String::from_utf8_lossy(body)), key }
    }
}

/// The name of a step, which the workload puts into the input of every call.
pub fn tag_in(text: &str) -> Option<String> {
    let from = text.find("tag:")?;
    let tag = &text[from..];
    let end = tag.find(|sign: char| !(sign.is_ascii_alphanumeric() || sign == ':')).unwrap_or(tag.len());
    Some(tag[..end].to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
