//! Simulated users: they start runs, follow them, send signals, decide approvals, return results and record every
//! acknowledgement.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::client::{Client, ServerGone};
use super::proxy;
use super::rng::SeededRng;
use super::workload::{self, Subject};

/// How often an approver polls for pending approvals.
const POLL_INTERVAL: Duration = Duration::from_millis(60);
/// Maximum time between the start of a run and the signal that it awaits. The step that awaits the signal starts within
/// this time, so some signals arrive before it.
const MAX_SIGNAL_PAUSE: Duration = Duration::from_millis(600);

/// The simulated users. Clones share their state.
#[derive(Clone)]
pub(crate) struct Users {
    client: Client,
    observations: Arc<Mutex<Observations>>,
    rng: Arc<Mutex<SeededRng>>,
    labels: Arc<AtomicU64>,
    /// Set when the users must not start further runs.
    stopping: Arc<AtomicBool>,
    /// Number of acknowledged requests.
    acknowledged: watch::Sender<u64>,
    followers: TaskTracker,
    approvers: TaskTracker,
    cancel: tokio_util::sync::CancellationToken,
}

/// Everything the users observed.
#[derive(Default, Clone)]
pub(crate) struct Observations {
    /// The runs whose start was acknowledged: the name of the agent or the workflow, by run id.
    pub runs: BTreeMap<String, &'static str>,
    /// Runs whose start was acknowledged and whose event stream ended.
    pub ended: BTreeSet<String>,
    /// Number of start requests that got no response.
    pub unanswered: u64,
    /// Acknowledged decisions, as pairs of run id and call id.
    pub decisions: BTreeSet<(String, String)>,
    /// The output of each acknowledged client result, by run id and call id.
    pub results: BTreeMap<(String, String), Value>,
    /// The signals that users sent, by run id. Each signal has a different number as its data.
    pub signals: BTreeMap<String, Vec<SentSignal>>,
    /// The events that users received while the run was in progress, by run id and event id. Events without an id are
    /// left out.
    pub events: HashMap<String, BTreeMap<u64, Value>>,
    /// Unexpected responses, as pairs of a subject and a description.
    pub errors: Vec<(String, String)>,
}

/// A signal that a user sent.
#[derive(Clone)]
pub(crate) struct SentSignal {
    pub number: u64,
    pub acknowledged: bool,
}

impl Users {
    pub(crate) fn new(client: Client, rng: SeededRng) -> Self {
        Self {
            client,
            observations: Arc::default(),
            rng: Arc::new(Mutex::new(rng)),
            labels: Arc::default(),
            stopping: Arc::default(),
            acknowledged: watch::Sender::new(0),
            followers: TaskTracker::new(),
            approvers: TaskTracker::new(),
            cancel: tokio_util::sync::CancellationToken::new(),
        }
    }

    /// Starts the users. They keep `runs` runs in progress.
    pub(crate) fn start(&self, runs: usize) {
        for _ in 0..runs {
            let user = self.clone();
            self.followers
                .spawn(async move { user.cancel.clone().run_until_cancelled(user.start_and_follow_runs()).await });
        }
        let approver = self.clone();
        self.approvers
            .spawn(async move { approver.cancel.clone().run_until_cancelled(approver.decide_approvals()).await });
    }

    /// Subscribes to the number of acknowledged requests.
    pub(crate) fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// Stops starting runs and waits up to `timeout` until all runs have ended. Returns the observations.
    pub(crate) async fn finish(self, timeout: Duration) -> Observations {
        self.stopping.store(true, Ordering::Relaxed);
        self.followers.close();
        self.approvers.close();
        // A timeout is not an error here, because the checks report the runs that have not ended.
        let _ = tokio::time::timeout(timeout, async {
            self.followers.wait().await;
            self.follow_unacknowledged().await;
        })
        .await;
        self.cancel.cancel();
        self.followers.wait().await;
        self.approvers.wait().await;
        lock(&self.observations).clone()
    }

    /// Follows the unfinished runs whose start was not acknowledged.
    async fn follow_unacknowledged(&self) {
        let unfinished = "runs?status=RUNNING,AWAITING_APPROVAL,AWAITING_CLIENT,WAITING&limit=100";
        loop {
            let (_, page) = self.client.get(unfinished).await;
            let runs = page["items"].as_array().unwrap().iter();
            let text = |run: &Value, field: &str| run[field].as_str().unwrap().to_owned();
            let orphans: Vec<(String, String)> = runs
                .filter(|run| run["parentRunId"].is_null())
                .map(|run| (text(run, "id"), text(run, "subject")))
                .collect();
            if orphans.is_empty() {
                return;
            }
            let follow = |(run, subject): (String, String)| {
                let mut user = self.clone();
                async move { user.follow(&run, &subject).await }
            };
            futures::future::join_all(orphans.into_iter().map(follow)).await;
        }
    }

    async fn start_and_follow_runs(mut self) {
        while !self.stopping.load(Ordering::Relaxed) {
            if let Some((run, subject)) = self.start_run().await {
                self.follow(&run, subject.name()).await;
                lock(&self.observations).ended.insert(run);
            }
        }
    }

    /// Starts a run with a new label. A label is never reused, because a start without a response may
    /// have succeeded.
    async fn start_run(&mut self) -> Option<(String, Subject)> {
        let url = self.client.wait_for_server().await;
        let subject = lock(&self.rng).pick(&Subject::ALL);
        let label = format!("r{}", self.labels.fetch_add(1, Ordering::Relaxed));
        let (path, body) = subject.start_request(&label);
        match self.client.send(Method::POST, &path, Some(&body)).await {
            Ok((202, body)) => {
                let run = body["runId"].as_str().unwrap().to_owned();
                lock(&self.observations).runs.insert(run.clone(), subject.name());
                self.acknowledge();
                Some((run, subject))
            }
            Ok(other) => {
                self.record_error(&label, format!("the start was rejected: {other:?}"));
                None
            }
            Err(ServerGone) => {
                lock(&self.observations).unanswered += 1;
                self.client.wait_for_other_server(&url).await;
                None
            }
        }
    }

    /// Follows the event stream of a run to its end, across server restarts.
    async fn follow(&mut self, run: &str, subject: &str) {
        let sends_signal = workload::awaits_signal(subject);
        let mut follower = FollowState { last: 0, pending_results: BTreeMap::new(), sends_signal };
        loop {
            let url = self.client.wait_for_server().await;
            if self.listen(run, &mut follower).await {
                return;
            }
            self.client.wait_for_other_server(&url).await;
        }
    }

    /// Reads the event stream. Returns `true` if the run has ended or its stream does not exist. Returns `false` if the
    /// server is gone.
    async fn listen(&mut self, run: &str, follower: &mut FollowState) -> bool {
        if self.return_results(run, follower).await.is_err() || self.send_signal(run, follower).await.is_err() {
            return false;
        }
        let Ok(response) = self.client.events(run, follower.last).await else { return false };
        if response.status() != 200 {
            let problem = response.text().await.unwrap_or_default();
            self.record_error(run, format!("an acknowledged run has no stream: {problem}"));
            return true;
        }
        let mut events = response.bytes_stream().eventsource();
        while let Some(Ok(event)) = events.next().await {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            // For an event without an id, the parser returns the id of the previous event.
            if let Some(id) = event.id.parse().ok().filter(|id| *id > follower.last) {
                follower.last = id;
                lock(&self.observations).events.entry(run.to_owned()).or_default().insert(id, data.clone());
            }
            match event.event.as_str() {
                "DONE" | "ERROR" => return true,
                "CLIENT_ACTION" => {
                    let action = &data["clientAction"];
                    let call = action["callId"].as_str().unwrap().to_owned();
                    follower.pending_results.insert(call, workload::signature(&action["preparedPayload"]));
                    if self.return_results(run, follower).await.is_err() {
                        return false;
                    }
                }
                _ => {}
            }
        }
        false
    }

    async fn return_results(&mut self, run: &str, follower: &mut FollowState) -> Result<(), ServerGone> {
        while let Some((call, output)) = follower.pending_results.first_key_value() {
            let body = json!({ "results": [{ "callId": call, "output": output }] });
            let path = format!("runs/{run}/tool-results?wait=false");
            match self.client.send(Method::POST, &path, Some(&body)).await? {
                (202, _) => {
                    let result = ((run.to_owned(), call.clone()), output.clone());
                    lock(&self.observations).results.extend([result]);
                    self.acknowledge();
                }
                // An earlier request returned the result, but its response was lost.
                (409, _) => {}
                other => self.record_error(run, format!("the result of {call} was rejected: {other:?}")),
            }
            follower.pending_results.pop_first();
        }
        Ok(())
    }

    /// Sends the signal that the run awaits, before or after the run awaits it. A signal without a response may have
    /// arrived, so the user sends another one.
    async fn send_signal(&mut self, run: &str, follower: &mut FollowState) -> Result<(), ServerGone> {
        if !follower.sends_signal {
            return Ok(());
        }
        let pause = lock(&self.rng).duration_below(MAX_SIGNAL_PAUSE);
        tokio::time::sleep(pause).await;
        let number = self.labels.fetch_add(1, Ordering::Relaxed);
        let sent = SentSignal { number, acknowledged: false };
        lock(&self.observations).signals.entry(run.to_owned()).or_default().push(sent);
        let path = format!("workflow-instances/{run}/signals/{}?wait=false", workload::SIGNAL);
        let (status, answer) = self.client.send(Method::POST, &path, Some(&json!(number))).await?;
        let mut observations = lock(&self.observations);
        let sent = observations.signals.get_mut(run).unwrap();
        match status {
            202 => sent.last_mut().unwrap().acknowledged = true,
            // An earlier signal, whose response was lost, continued the run.
            409 if sent.len() > 1 => {}
            _ => observations.errors.push((run.to_owned(), format!("the signal was rejected: {status} {answer}"))),
        }
        drop(observations);
        follower.sends_signal = false;
        self.acknowledge();
        Ok(())
    }

    /// Decides pending approvals until the users are stopped.
    async fn decide_approvals(mut self) {
        loop {
            let url = self.client.wait_for_server().await;
            if self.decide_pending().await.is_err() {
                self.client.wait_for_other_server(&url).await;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn decide_pending(&mut self) -> Result<(), ServerGone> {
        let (status, page) = self.client.send(Method::GET, "approvals?limit=100", None).await?;
        if status != 200 {
            self.record_error("approvals", format!("the list failed: {page}"));
        }
        for approval in page["items"].as_array().into_iter().flatten() {
            let (run, call) = (approval["runId"].as_str().unwrap(), approval["callId"].as_str().unwrap());
            let tag = proxy::find_tag(&approval["input"].to_string()).unwrap();
            let decision = if workload::is_denied(&tag) { "deny" } else { "approve" };
            let path = format!("runs/{run}/approvals/{call}?wait=false");
            match self.client.send(Method::POST, &path, Some(&json!({ "decision": decision }))).await? {
                (202, _) => {
                    lock(&self.observations).decisions.insert((run.to_owned(), call.to_owned()));
                    self.acknowledge();
                }
                // An earlier request made the decision, but its response was lost.
                (409, _) => {}
                other => self.record_error(run, format!("the decision on {call} was rejected: {other:?}")),
            }
        }
        Ok(())
    }

    fn acknowledge(&self) {
        self.acknowledged.send_modify(|count| *count += 1);
    }

    fn record_error(&self, subject: &str, description: String) {
        lock(&self.observations).errors.push((subject.to_owned(), description));
    }
}

/// The state of a user who follows a run.
struct FollowState {
    /// The id of the last event received.
    last: u64,
    /// The client results that the run requested and the server has not accepted yet, by call id.
    pending_results: BTreeMap<String, Value>,
    /// Whether the run awaits a signal that the server has not accepted yet.
    sends_signal: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
