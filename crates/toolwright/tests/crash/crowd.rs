//! Those who use the server: they start runs, follow them, decide, return results, and remember what was acknowledged.

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

use super::client::{Client, Gone};
use super::dice::Dice;
use super::tap;
use super::workload::{self, Agent};

/// How often a person looks for something to decide.
const GLANCE: Duration = Duration::from_millis(60);

/// The users.
#[derive(Clone)]
pub struct Crowd {
    client: Client,
    memory: Arc<Mutex<Memory>>,
    dice: Arc<Mutex<Dice>>,
    labels: Arc<AtomicU64>,
    /// Whether no more runs are started.
    enough: Arc<AtomicBool>,
    /// Counts what was acknowledged.
    acknowledged: watch::Sender<u64>,
    followers: TaskTracker,
    people: TaskTracker,
    home: tokio_util::sync::CancellationToken,
}

/// What the users know.
#[derive(Default, Clone)]
pub struct Memory {
    /// Runs that were acknowledged: their agents, by id.
    pub runs: BTreeMap<String, &'static str>,
    /// Of those, the ones that their followers saw the end of.
    pub ended: BTreeSet<String>,
    /// Starts that were never answered.
    pub unanswered: u64,
    /// Decisions that were acknowledged: run and call.
    pub decisions: BTreeSet<(String, String)>,
    /// Results that were acknowledged: what was returned, by run and call.
    pub results: BTreeMap<(String, String), Value>,
    /// Events with an id, as they were seen live, by run.
    pub events: HashMap<String, BTreeMap<u64, Value>>,
    /// What should not have happened.
    pub complaints: Vec<(String, String)>,
}

impl Crowd {
    pub fn new(client: Client, dice: Dice) -> Self {
        Self {
            client,
            memory: Arc::default(),
            dice: Arc::new(Mutex::new(dice)),
            labels: Arc::default(),
            enough: Arc::default(),
            acknowledged: watch::Sender::new(0),
            followers: TaskTracker::new(),
            people: TaskTracker::new(),
            home: tokio_util::sync::CancellationToken::new(),
        }
    }

    /// Keeps this many runs under way from now on.
    pub fn begin(&self, runs: usize) {
        for _ in 0..runs {
            let user = self.clone();
            self.followers.spawn(async move { user.home.clone().run_until_cancelled(user.use_it()).await });
        }
        let person = self.clone();
        self.people.spawn(async move { person.home.clone().run_until_cancelled(person.decide()).await });
    }

    /// Counts what was acknowledged.
    pub fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// Starts nothing new, and waits until all that was started has ended, for as long as `patience`.
    pub async fn finish(self, patience: Duration) -> Memory {
        self.enough.store(true, Ordering::Relaxed);
        self.followers.close();
        self.people.close();
        // What has not ended then is found by those who check.
        let _ = tokio::time::timeout(patience, async {
            self.followers.wait().await;
            self.adopt().await;
        })
        .await;
        self.home.cancel();
        self.followers.wait().await;
        self.people.wait().await;
        lock(&self.memory).clone()
    }

    /// Follows the runs that began although nobody was told so.
    async fn adopt(&self) {
        let unfinished = "runs?status=RUNNING,AWAITING_APPROVAL,AWAITING_CLIENT&limit=100";
        loop {
            let (_, page) = self.client.get(unfinished).await;
            let runs = page["items"].as_array().unwrap().iter();
            let orphans: Vec<String> = runs
                .filter(|run| run["parentRunId"].is_null())
                .map(|run| run["id"].as_str().unwrap().to_owned())
                .collect();
            if orphans.is_empty() {
                return;
            }
            let follow = |run: String| {
                let mut user = self.clone();
                async move { user.follow(&run).await }
            };
            futures::future::join_all(orphans.into_iter().map(follow)).await;
        }
    }

    async fn use_it(mut self) {
        while !self.enough.load(Ordering::Relaxed) {
            if let Some(run) = self.start().await {
                self.follow(&run).await;
                lock(&self.memory).ended.insert(run);
            }
        }
    }

    /// Starts a run under a label that was never used before: one that was not answered may be under way.
    async fn start(&mut self) -> Option<String> {
        let url = self.client.server().await;
        let agent = lock(&self.dice).pick(&Agent::ALL);
        let label = format!("r{}", self.labels.fetch_add(1, Ordering::Relaxed));
        let path = format!("agents/{}/execute/durable", agent.name());
        match self.client.ask(Method::POST, &path, Some(&json!({ "userMessage": label }))).await {
            Ok((202, body)) => {
                let run = body["runId"].as_str().unwrap().to_owned();
                lock(&self.memory).runs.insert(run.clone(), agent.name());
                self.acknowledge();
                Some(run)
            }
            Ok(other) => {
                self.complain(&label, format!("a start was refused: {other:?}"));
                None
            }
            Err(Gone) => {
                lock(&self.memory).unanswered += 1;
                self.client.other_than(&url).await;
                None
            }
        }
    }

    /// Follows a run to its end, through however many servers.
    async fn follow(&mut self, run: &str) {
        let mut follower = Follower { last: 0, owed: BTreeMap::new() };
        loop {
            let url = self.client.server().await;
            if self.listen(run, &mut follower).await {
                return;
            }
            self.client.other_than(&url).await;
        }
    }

    /// Listens until the run ends (true) or the server is gone.
    async fn listen(&mut self, run: &str, follower: &mut Follower) -> bool {
        if self.return_results(run, follower).await.is_err() {
            return false;
        }
        let Ok(response) = self.client.events(run, follower.last).await else { return false };
        if response.status() != 200 {
            let problem = response.text().await.unwrap_or_default();
            self.complain(run, format!("an acknowledged run has no stream: {problem}"));
            return true;
        }
        let mut events = response.bytes_stream().eventsource();
        while let Some(Ok(event)) = events.next().await {
            let data: Value = serde_json::from_str(&event.data).unwrap();
            // An event without an id comes with that of the one before it.
            if let Some(id) = event.id.parse().ok().filter(|id| *id > follower.last) {
                follower.last = id;
                lock(&self.memory).events.entry(run.to_owned()).or_default().insert(id, data.clone());
            }
            match event.event.as_str() {
                "DONE" | "ERROR" => return true,
                "CLIENT_ACTION" => {
                    let action = &data["clientAction"];
                    let call = action["callId"].as_str().unwrap().to_owned();
                    follower.owed.insert(call, workload::signature(&action["preparedPayload"]));
                    if self.return_results(run, follower).await.is_err() {
                        return false;
                    }
                }
                _ => {}
            }
        }
        false
    }

    async fn return_results(&mut self, run: &str, follower: &mut Follower) -> Result<(), Gone> {
        while let Some((call, output)) = follower.owed.first_key_value() {
            let body = json!({ "results": [{ "callId": call, "output": output }] });
            let path = format!("runs/{run}/tool-results?wait=false");
            match self.client.ask(Method::POST, &path, Some(&body)).await? {
                (202, _) => {
                    let result = ((run.to_owned(), call.clone()), output.clone());
                    lock(&self.memory).results.extend([result]);
                    self.acknowledge();
                }
                // An earlier one was taken and not acknowledged.
                (409, _) => {}
                other => self.complain(run, format!("the result of {call} was refused: {other:?}")),
            }
            follower.owed.pop_first();
        }
        Ok(())
    }

    /// Decides on every call that waits for a person.
    async fn decide(mut self) {
        loop {
            let url = self.client.server().await;
            if self.decide_all().await.is_err() {
                self.client.other_than(&url).await;
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn decide_all(&mut self) -> Result<(), Gone> {
        let (status, page) = self.client.ask(Method::GET, "approvals?limit=100", None).await?;
        if status != 200 {
            self.complain("approvals", format!("they cannot be listed: {page}"));
        }
        for asked in page["items"].as_array().into_iter().flatten() {
            let (run, call) = (asked["runId"].as_str().unwrap(), asked["callId"].as_str().unwrap());
            let tag = tap::tag_in(&asked["input"].to_string()).unwrap();
            let decision = if workload::is_denied(&tag) { "deny" } else { "approve" };
            let path = format!("runs/{run}/approvals/{call}?wait=false");
            match self.client.ask(Method::POST, &path, Some(&json!({ "decision": decision }))).await? {
                (202, _) => {
                    lock(&self.memory).decisions.insert((run.to_owned(), call.to_owned()));
                    self.acknowledge();
                }
                // An earlier one was taken and not acknowledged.
                (409, _) => {}
                other => self.complain(run, format!("the decision on {call} was refused: {other:?}")),
            }
        }
        Ok(())
    }

    fn acknowledge(&self) {
        self.acknowledged.send_modify(|count| *count += 1);
    }

    fn complain(&self, about: &str, what: String) {
        lock(&self.memory).complaints.push((about.to_owned(), what));
    }
}

/// Where the follower of a run is.
struct Follower {
    /// The last event that was seen.
    last: u64,
    /// Results that were asked for and not taken yet, by call.
    owed: BTreeMap<String, Value>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
