//! The context of a call: realm, principal, run, caller and the resources that the run provides.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwright_types::{CorrelationId, Owner, Principal, RealmScope, RunId, RunStatus, Surface};

/// The context of a call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The run that the call belongs to. A direct call is a run of its own.
    pub run: RunId,
    /// The realm that the call is confined to.
    pub realm: Arc<RealmScope>,
    /// The principal whose permissions are checked.
    pub principal: Arc<Principal>,
    /// The principal that started the run. The results are the data of this principal. It may differ from `principal`.
    pub owner: Owner,
    /// The surface through which the tool is called: as a tool, as a workflow step or as an MCP tool.
    pub surface: Surface,
    /// The caller, for logs, envelopes and permissions.
    pub caller: CallerInfo,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// The nesting depth: the delegation depth of the run, which is 0 for a run without a parent, plus 1 for each tool
    /// between the run and this call. Limits nested calls and fallbacks.
    pub depth: u8,
    /// The number of Toolwright servers that the request has passed through before this one.
    pub hops: u8,
    /// Whether the run captures calls, as a shadow run does. Writes and calls to client tools are then not performed,
    /// and their envelopes are marked as captured. The same applies to nested calls.
    pub captures: bool,
    /// The resources that the run provides to the call.
    pub resources: CallResources,
}

/// The resources that a run provides to a call.
#[derive(Debug, Clone, Default)]
pub struct CallResources {
    /// The tools that the run's model may call, including those that are not in its prompt.
    pub toolbox: Option<Arc<dyn Toolbox>>,
    /// The budget of a child run that the call starts.
    pub allowance: Option<Allowance>,
    /// Reports the id and the status of the child run that this call started, as soon as the child run waits. The
    /// receiver then drops the call.
    pub pause: Option<UpdateSender<(RunId, RunStatus)>>,
    /// Reports progress. `None` if no one observes the call.
    pub progress: Option<UpdateSender<CallProgress>>,
}

/// The progress of a call that is running.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallProgress {
    /// The amount of work done so far, in a unit that the tool chooses.
    pub done: f64,
    /// The total amount of work, in the same unit, if known.
    pub total: Option<f64>,
    /// The current activity.
    pub message: Option<String>,
}

/// The sending half of a channel that carries updates of a running call. A new value replaces an earlier value that the
/// receiver has not read yet.
#[derive(Debug, Clone)]
pub struct UpdateSender<T>(Arc<watch::Sender<Option<T>>>);

/// The receiving half of the channel.
#[derive(Debug)]
pub struct UpdateReceiver<T>(watch::Receiver<Option<T>>);

impl<T> UpdateSender<T> {
    /// Creates a channel.
    pub fn new() -> (Self, UpdateReceiver<T>) {
        let (sender, receiver) = watch::channel(None);
        (Self(Arc::new(sender)), UpdateReceiver(receiver))
    }

    /// Sends a value.
    pub fn send(&self, value: T) {
        self.0.send_replace(Some(value));
    }
}

impl<T: Clone> UpdateReceiver<T> {
    /// A receiver that never yields a value.
    pub fn never() -> Self {
        UpdateSender::new().1
    }

    /// Returns the next value. Waits forever once all senders are gone.
    pub async fn next(&mut self) -> T {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(value) = self.0.borrow_and_update().clone() {
                return value;
            }
        }
    }
}

/// A searchable set of tools.
pub trait Toolbox: std::fmt::Debug + Send + Sync {
    /// Returns at most `limit` tools that match `query`, best first.
    fn search(&self, query: &str, limit: usize) -> Vec<ToolMatch>;
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Found")]
pub struct ToolMatch {
    /// The name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
}

/// The part of a run's budget that is left for a call of this run.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Allowance {
    /// The remaining tool calls.
    pub tool_calls: u32,
    /// The remaining tokens.
    pub tokens: Option<u64>,
    /// The remaining cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// The remaining time, in milliseconds.
    pub time_ms: Option<u64>,
}

/// Data about the caller of a call, in addition to the principal. [`CallContext::direct`] leaves all fields empty.
#[derive(Debug, Clone, Default)]
pub struct CallerInfo {
    /// The correlation id, which all calls caused by one external request share. Backends send it to other systems.
    pub correlation_id: Option<CorrelationId>,
    /// The trace that the call belongs to.
    pub trace_id: Option<String>,
    /// The agent that calls.
    pub agent: Option<String>,
    /// The workflow instance that calls.
    pub workflow_instance: Option<String>,
    /// The conversation that the call serves.
    pub conversation: Option<String>,
    /// The session that the call serves.
    pub session: Option<String>,
    /// Whether the run commits each journal entry before it continues.
    pub durable: bool,
}

impl CallContext {
    /// Creates the context of a direct call by `principal`.
    pub fn direct(realm: Arc<RealmScope>, principal: Arc<Principal>, run: RunId) -> Self {
        Self {
            run,
            realm,
            owner: Owner::of(&principal),
            principal,
            surface: Surface::Tool,
            caller: CallerInfo::default(),
            cancel: CancellationToken::new(),
            depth: 0,
            hops: 0,
            captures: false,
            resources: CallResources::default(),
        }
    }

    /// Creates the context of a nested call. Only the outer call reports progress.
    pub fn nested(&self) -> Self {
        let resources = CallResources { progress: None, ..self.resources.clone() };
        Self { depth: self.depth.saturating_add(1), resources, ..self.clone() }
    }
}
