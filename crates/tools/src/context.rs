//! Under whose authority, in which realm and as part of what a call is made.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwright_types::{Principal, RealmScope, RunId, RunStatus, Surface};

/// What is the same for every call of one run.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The run the call belongs to; a direct call is a run of its own.
    pub run: RunId,
    /// The realm the call is confined to.
    pub realm: Arc<RealmScope>,
    /// The effective principal: every permission is checked against it.
    pub principal: Arc<Principal>,
    /// The surface through which the call came.
    pub surface: Surface,
    /// What the caller is, for logs, receipts and permission.
    pub caller: Caller,
    /// Ends the call when cancelled.
    pub cancel: CancellationToken,
    /// How many tools called tools to get here; bounds fallbacks of fallbacks.
    pub depth: u8,
    /// Whether calls that would change something, or that a client would make, end without being made. Holds for
    /// whatever is called on behalf of such a call too.
    pub captures: bool,
    /// What the run lends to the call.
    pub lent: Lent,
}

/// What whoever makes a call lends to it.
#[derive(Debug, Clone, Default)]
pub struct Lent {
    /// The tools that the run's model may ask for, also those it is not shown.
    pub toolbox: Option<Arc<dyn Toolbox>>,
    /// How much a run that the call starts may use.
    pub allowance: Option<Allowance>,
    /// Where a call says which run it started, and what that waits for. Whoever listens drops the call then.
    pub pause: Option<Word<(RunId, RunStatus)>>,
    /// Where a call says how far it is; none where nobody wants to know.
    pub progress: Option<Word<Step>>,
}

/// How far a call is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// How much is done, in whatever the tool counts.
    pub done: f64,
    /// How much there is to do, where that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// The way to tell whoever waits for a call something before it ends. What is newer replaces what nobody has heard yet.
#[derive(Debug, Clone)]
pub struct Word<T>(Arc<watch::Sender<Option<T>>>);

/// Where that is heard.
#[derive(Debug)]
pub struct Hearing<T>(watch::Receiver<Option<T>>);

impl<T> Word<T> {
    /// A new one, and where it is heard.
    pub fn new() -> (Self, Hearing<T>) {
        let (sender, receiver) = watch::channel(None);
        (Self(Arc::new(sender)), Hearing(receiver))
    }

    /// Says it.
    pub fn say(&self, what: T) {
        self.0.send_replace(Some(what));
    }
}

impl<T: Clone> Hearing<T> {
    /// Where nobody says anything.
    pub fn nothing() -> Self {
        Word::new().1
    }

    /// The next thing that is said; waits for ever when nobody is left to say any.
    pub async fn next(&mut self) -> T {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(said) = self.0.borrow_and_update().clone() {
                return said;
            }
        }
    }
}

/// Tools that can be searched.
pub trait Toolbox: std::fmt::Debug + Send + Sync {
    /// The tools that fit `query` best, at most `limit`, the best first.
    fn search(&self, query: &str, limit: usize) -> Vec<Found>;
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Found {
    /// The name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// What is left of a run's budget for one of its calls.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Allowance {
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Dollars.
    pub cost_usd: Option<f64>,
    /// Milliseconds.
    pub time_ms: Option<u64>,
}

/// What made the call, beyond the principal. Empty for a direct call.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// Ties together what one outside request caused.
    pub correlation_id: Option<String>,
    /// The trace the call belongs to.
    pub trace_id: Option<String>,
    /// The agent that calls.
    pub agent: Option<String>,
    /// The workflow instance that calls.
    pub workflow_instance: Option<String>,
    /// The conversation it serves.
    pub conversation: Option<String>,
    /// The session it serves.
    pub session: Option<String>,
    /// Whether the run commits each step before the next.
    pub durable: bool,
}

impl CallContext {
    /// The context of one direct call by `principal`.
    pub fn direct(realm: Arc<RealmScope>, principal: Arc<Principal>, run: RunId) -> Self {
        Self {
            run,
            realm,
            principal,
            surface: Surface::Tool,
            caller: Caller::default(),
            cancel: CancellationToken::new(),
            depth: 0,
            captures: false,
            lent: Lent::default(),
        }
    }

    /// The context of a call made on behalf of this one, which alone knows how far it is.
    pub fn deeper(&self) -> Self {
        let lent = Lent { progress: None, ..self.lent.clone() };
        Self { depth: self.depth.saturating_add(1), lent, ..self.clone() }
    }
}
