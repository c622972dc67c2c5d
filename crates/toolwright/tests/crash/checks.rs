//! Checks that the journals, the CRM's audit log, the API and the users' observations agree after all kills of a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use toolwright_store::RunKind;
use toolwright_testkit::Audit;
use toolwright_types::{CallId, RunId, ToolEnvelope};

use super::client::Client;
use super::journals::{History, JournalSummary, StoredRun, idempotency_key, is_refused, parse_entries};
use super::proxy::{ProxiedRequest, RequestKind, find_tag};
use super::report::{Statistics, Violations};
use super::users::Observations;
use super::{Scheduler, workload};

/// Number of runs fetched concurrently.
const CONCURRENCY: usize = 8;
/// Maximum time to read the event stream of an ended run.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the users, the proxy and the CRM recorded during a round, independently of the server.
pub(crate) struct Evidence {
    pub observations: Observations,
    pub requests: Vec<ProxiedRequest>,
    pub audit: Audit,
}

/// A run, its events and its conversation turns as the API returns them.
struct ApiRun {
    run: Value,
    /// The instance, if the run executes a workflow.
    instance: Option<Value>,
    stream: Vec<(Option<u64>, Value)>,
    turns: Vec<Value>,
    effects: Vec<Value>,
}

/// Runs all checks and returns the statistics of the round. The server must be running, and no run may be in progress.
pub(crate) async fn check(
    client: &Client,
    history: &mut History,
    evidence: &Evidence,
    scheduler: Scheduler,
) -> Statistics {
    let runs = history.runs.clone();
    let mut violations = std::mem::take(&mut history.violations);
    let ledger = CrmLedger::new(evidence);
    for (subject, description) in &evidence.observations.errors {
        violations.add_global(format!("{subject}: {description}"));
    }
    check_acknowledged(&runs, &evidence.observations, &mut violations);
    check_not_repeated(history, evidence, &mut violations);
    ledger.check_keys(&mut violations);

    let mut statistics = count(&runs, evidence, &ledger);
    let mut api_runs = stream::iter(runs.keys().map(|run| fetch_run(client, *run))).buffer_unordered(CONCURRENCY);
    while let Some((run, api_run)) = api_runs.next().await {
        let stored = &runs[&run];
        let summary = JournalSummary::new(&stored.entries);
        let mut check = RunCheck { run, stored, api_run: &api_run, summary, scheduler, violations: &mut violations };
        check.check_journal();
        check.check_end(&evidence.observations);
        check.check_api();
        check.check_children(&runs);
        let writes = check.check_envelopes(history, &ledger, &mut statistics);
        check.check_workflow(&writes);
    }
    let (_, approvals) = client.get("approvals").await;
    if approvals["items"] != json!([]) {
        violations.add_global(format!("approvals are still pending: {approvals}"));
    }
    ledger.check_all_accounted(&mut violations);
    drop(api_runs);
    history.violations = violations;
    statistics
}

/// Checks that no run, decision, client result or signal that the server acknowledged is lost.
fn check_acknowledged(runs: &BTreeMap<RunId, StoredRun>, observations: &Observations, violations: &mut Violations) {
    for (run, agent) in &observations.runs {
        let id: RunId = run.parse().unwrap();
        match runs.get(&id) {
            None => violations.add(id, None, format!("an acknowledged run of {agent} is lost")),
            Some(_) if !observations.ended.contains(run) => violations.add(id, None, "its stream did not end"),
            Some(_) => {}
        }
    }
    let summary = |run: &str| {
        runs.get(&run.parse().unwrap()).map(|stored| JournalSummary::new(&stored.entries)).unwrap_or_default()
    };
    for (run, call) in &observations.decisions {
        if summary(run).decided.iter().filter(|decided| decided.as_str() == call).count() != 1 {
            let call = call_id(call);
            violations.add(run.parse().unwrap(), Some(&call), "an acknowledged decision is not recorded exactly once");
        }
    }
    for (run, call) in observations.results.keys() {
        if summary(run).returned.iter().filter(|returned| returned.as_str() == call).count() != 1 {
            let call = call_id(call);
            violations.add(run.parse().unwrap(), Some(&call), "an acknowledged result is not recorded exactly once");
        }
    }
    for (run, sent) in &observations.signals {
        let received = summary(run).signals;
        for signal in sent {
            let times = received.iter().filter(|number| **number == json!(signal.number)).count();
            if times > 1 || (times == 0 && signal.acknowledged) {
                let acknowledged = if signal.acknowledged { "acknowledged" } else { "unacknowledged" };
                let description = format!("an {acknowledged} signal is recorded {times} times");
                violations.add(run.parse().unwrap(), None, description);
            }
        }
    }
}

/// Checks that a call whose outcome was in the journal when a server died is not performed again.
fn check_not_repeated(history: &History, evidence: &Evidence, violations: &mut Violations) {
    for (n, request) in evidence.requests.iter().enumerate() {
        let completed = request.tag.as_ref().and_then(|tag| history.completed.get(tag));
        if let Some((_, run, call)) = completed.filter(|(requests_before, ..)| n >= *requests_before) {
            violations.add(*run, Some(call), format!("a completed call was performed again: {request:?}"));
        }
    }
}

fn count(runs: &BTreeMap<RunId, StoredRun>, evidence: &Evidence, ledger: &CrmLedger) -> Statistics {
    let observations = &evidence.observations;
    let mut statistics = Statistics {
        acknowledged: observations.runs.len(),
        decisions: observations.decisions.len(),
        results: observations.results.len(),
        signals: observations.signals.values().flatten().filter(|signal| signal.acknowledged).count(),
        verified: evidence.requests.iter().filter(|request| request.kind == RequestKind::Verify).count(),
        ..Statistics::default()
    };
    for (run, stored) in runs {
        match stored.row.parent {
            Some(_) => statistics.children += 1,
            None if !observations.runs.contains_key(&run.to_string()) => statistics.unacknowledged += 1,
            None => {}
        }
        *statistics.ends.entry(stored.row.state.status.to_string()).or_default() += 1;
        statistics.workflows += usize::from(stored.row.kind == RunKind::Workflow);
        let summary = JournalSummary::new(&stored.entries);
        statistics.replies += summary.replies;
        statistics.calls += summary.outcomes.len() + summary.returned.len();
    }
    for (key, (kind, _)) in &ledger.sent {
        *statistics.writes.entry(*kind).or_default() += ledger.changes.get(key).map_or(0, Vec::len);
        let times = evidence.requests.iter().filter(|request| request.key.as_ref() == Some(key)).count();
        *statistics.repeated.entry(*kind).or_default() += times.saturating_sub(1);
    }
    statistics
}

/// The writes that the proxy and the CRM recorded.
struct CrmLedger {
    /// For each idempotency key, the kind and the tags of the requests that carried it.
    sent: HashMap<String, (RequestKind, BTreeSet<String>)>,
    /// For each idempotency key, the ids of the records that the CRM changed.
    changes: HashMap<String, Vec<String>>,
    /// Idempotency keys of the calls that have an envelope.
    accounted: std::cell::RefCell<BTreeSet<String>>,
}

impl CrmLedger {
    fn new(evidence: &Evidence) -> Self {
        let mut sent: HashMap<String, (RequestKind, BTreeSet<String>)> = HashMap::new();
        for request in &evidence.requests {
            if let Some(key) = &request.key {
                let (_, tags) = sent.entry(key.clone()).or_insert((request.kind, BTreeSet::new()));
                tags.extend(request.tag.clone());
            }
        }
        let mut changes: HashMap<String, Vec<String>> = HashMap::new();
        for entry in &evidence.audit.log {
            changes.entry(entry.idempotency_key.clone().unwrap_or_default()).or_default().push(entry.id.clone());
        }
        Self { sent, changes, accounted: Default::default() }
    }

    /// Checks that each idempotency key belongs to one call, and that each call has one idempotency key.
    fn check_keys(&self, violations: &mut Violations) {
        let mut keys: HashMap<&String, &String> = HashMap::new();
        for (key, (_, tags)) in &self.sent {
            if tags.len() != 1 {
                violations.add_global(format!("key {key} was sent for {} calls: {tags:?}", tags.len()));
            }
            for tag in tags {
                if let Some(other) = keys.insert(tag, key) {
                    violations.add_global(format!("{tag} was sent with two keys: {key} and {other}"));
                }
            }
        }
    }

    /// Checks that every change in the CRM belongs to a call with an envelope.
    fn check_all_accounted(&self, violations: &mut Violations) {
        for (key, records) in &self.changes {
            if !self.accounted.borrow().contains(key) {
                let sent = self.sent.get(key);
                violations
                    .add_global(format!("the CRM changed {records:?} for {sent:?}, but no run has an envelope for it"));
            }
        }
    }
}

/// The data for the checks of one run.
struct RunCheck<'a> {
    run: RunId,
    stored: &'a StoredRun,
    api_run: &'a ApiRun,
    summary: JournalSummary,
    scheduler: Scheduler,
    violations: &'a mut Violations,
}

impl RunCheck<'_> {
    fn report(&mut self, call: Option<&CallId>, description: impl Into<String>) {
        self.violations.add(self.run, call, description);
    }

    /// Checks that the journal has no gaps, can be replayed, and has at most one outcome per call.
    fn check_journal(&mut self) {
        let entries = &self.stored.entries;
        if !entries.iter().map(|entry| entry.n).eq(1..=entries.len() as u64) {
            self.report(None, "its journal has gaps");
        }
        if let Err(error) = toolwright_machine::journal::replay(parse_entries(entries)) {
            self.report(None, format!("its journal cannot be replayed: {error}"));
        }
        let mut ended = BTreeSet::new();
        let outcomes: Vec<CallId> = self.summary.outcomes.iter().map(|envelope| envelope.call_id.clone()).collect();
        for call in outcomes.iter().chain(&self.summary.returned.clone()) {
            if !ended.insert(call.clone()) {
                self.report(Some(call), "a call has two outcomes");
            }
        }
    }

    /// Checks that the run completed, and that its database row, the API and its event stream agree.
    fn check_end(&mut self, observations: &Observations) {
        let (api_run, row) = (self.api_run, &self.stored.row);
        let status = api_run.run["status"].as_str().unwrap_or("missing").to_owned();
        if status != row.state.status.to_string() {
            self.report(None, format!("its status is {} in its row and {status} in the API", row.state.status));
        }
        if status != "COMPLETED" {
            self.report(None, format!("its status is {status}: {} {}", api_run.run["reason"], api_run.run["message"]));
        }
        let last = api_run.stream.last().map(|(_, event)| event.clone()).unwrap_or_default();
        if (&last["type"], &last["status"], &last["content"])
            != (&json!("DONE"), &api_run.run["status"], &api_run.run["responseText"])
        {
            self.report(None, format!("its stream ends with {last}, but the run is {}", api_run.run));
        }
        let live = observations.events.get(&self.run.to_string());
        let replayed: BTreeMap<u64, &Value> =
            api_run.stream.iter().filter_map(|(id, event)| Some(((*id)?, event))).collect();
        for (id, received) in live.into_iter().flatten() {
            if replayed.get(id) != Some(&received) {
                self.report(
                    None,
                    format!("event {id} was {received} live and is {:?} when replayed", replayed.get(id)),
                );
            }
        }
    }

    /// Checks that the API and the event stream list the same calls, and that the conversation contains every turn
    /// once.
    fn check_api(&mut self) {
        let api_run = self.api_run;
        let ids: Vec<u64> = api_run.stream.iter().filter_map(|(id, _)| *id).collect();
        if !ids.is_sorted_by(|one, next| one < next) {
            self.report(None, format!("the ids of its stream are not in order: {ids:?}"));
        }
        let by_id = |call: &Value| (call["callId"].as_str().unwrap_or_default().to_owned(), call.clone());
        let ends = api_run.stream.iter().filter(|(_, event)| event["type"] == "TOOL_CALL_END");
        let streamed: Vec<(String, Value)> = ends.map(|(_, event)| by_id(&event["toolInvocation"])).collect();
        let listed: BTreeMap<String, Value> = calls(&api_run.run).map(by_id).collect();
        if streamed.len() != listed.len() || streamed.into_iter().collect::<BTreeMap<_, _>>() != listed {
            self.report(None, "its stream and the API list different calls");
        }
        if !api_run.run["conversationId"].is_null() {
            let turns = |role: &str| api_run.turns.iter().filter(|turn| turn["role"] == role).count();
            let expected = (1, self.summary.replies as usize, calls(&api_run.run).count());
            let found = (turns("user"), turns("assistant"), turns("tool"));
            if found != expected {
                self.report(
                    None,
                    format!("its conversation has {found:?} user, assistant and tool turns, expected {expected:?}"),
                );
            }
        }
    }

    /// Checks that the steps and the output of a workflow follow from its journal, and that the output has the ids that
    /// the CRM returned. `writes` has the id of each write by the letter of its call, or null if it failed.
    fn check_workflow(&mut self, writes: &BTreeMap<char, Value>) {
        let Some(instance) = &self.api_run.instance else { return };
        let output = &instance["output"];
        let replayed = toolwright_machine::journal::replay(parse_entries(&self.stored.entries));
        if let Ok((_, replayed)) = replayed {
            if replayed.workflow_output() != output {
                let expected = replayed.workflow_output();
                self.report(None, format!("its output is {output}, but its journal leads to {expected}"));
            }
            for step in replayed.step_reports() {
                let shown = &instance["steps"][&step.name];
                if shown["status"] != json!(step.status) || shown["output"] != step.output || !step.status.has_ended() {
                    self.report(None, format!("a step is {shown}, but its journal leads to {step:?}"));
                }
            }
        }
        for (letter, id) in writes {
            if output[letter.to_string()] != *id {
                self.report(None, format!("its output is {output}, but call {letter} returned {id}"));
            }
        }
        if workload::awaits_signal(&self.stored.row.subject) && self.summary.signals.first() != Some(&output["signal"])
        {
            let signals = self.summary.signals.clone();
            self.report(None, format!("its output is {output}, but it received the signals {signals:?}"));
        }
    }

    /// Checks that each call of a delegate, an agent or a workflow started exactly one child run.
    fn check_children(&mut self, runs: &BTreeMap<RunId, StoredRun>) {
        let children = runs.values().filter(|stored| stored.row.parent == Some(self.run)).count();
        if children != workload::children(&self.stored.row.subject) {
            self.report(None, format!("it has {children} child runs"));
        }
    }

    /// Checks that every call in the script has one envelope, and that the envelope matches the changes in the CRM.
    /// Returns the id that each write returned, by the letter of the call.
    fn check_envelopes(
        &mut self,
        history: &History,
        ledger: &CrmLedger,
        statistics: &mut Statistics,
    ) -> BTreeMap<char, Value> {
        let (mut letters, mut writes) = (String::new(), BTreeMap::new());
        // All attempts of a step have the idempotency key of its first call.
        let mut first_calls: HashMap<String, CallId> = HashMap::new();
        let api_run = self.api_run;
        for id in api_run.run["outputs"]["tool_order"].as_array().into_iter().flatten() {
            let envelope = &api_run.run["outputs"]["tools_by_id"][id.as_str().unwrap()];
            let envelope: ToolEnvelope = serde_json::from_value(envelope.clone()).unwrap();
            let Some(tag) = find_tag(&envelope.input.to_string()) else {
                if !envelope.is_success() {
                    self.report(Some(&envelope.call_id), format!("a child run failed: {:?}", envelope.error));
                }
                continue;
            };
            let first = first_calls.entry(tag.clone()).or_insert_with(|| envelope.call_id.clone()).clone();
            if is_refused(&envelope) {
                statistics.refused += 1;
                continue;
            }
            letters.extend(tag.chars().last());
            writes.extend(
                tag.chars()
                    .last()
                    .filter(|_| is_write(&envelope))
                    .map(|letter| (letter, envelope.output["id"].clone())),
            );
            let key = idempotency_key(self.run, &first);
            self.check_envelope(&envelope, &tag, &key, history, ledger, statistics);
        }
        let mut sorted: Vec<char> = letters.chars().collect();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(workload::letters(&self.stored.row.subject).chars()) {
            self.report(None, format!("its envelopes cover the calls {letters}, which differs from its script"));
        }
        writes
    }

    fn check_envelope(
        &mut self,
        envelope: &ToolEnvelope,
        tag: &str,
        key: &str,
        history: &History,
        ledger: &CrmLedger,
        statistics: &mut Statistics,
    ) {
        let call = &envelope.call_id;
        ledger.accounted.borrow_mut().insert(key.to_owned());
        let changes = ledger.changes.get(key).map_or(&[][..], Vec::as_slice);
        let was_open = history.open_writes.contains(&(self.run, call.clone()));
        let unknown = reason(envelope) == Some("outcome_unknown");
        let unverifiable = envelope.name == "hubspot/send-email";
        self.check_effect(envelope, unknown);
        if changes.len() > 1 {
            self.report(Some(call), format!("{tag} changed the CRM {} times", changes.len()));
        }
        if unknown {
            statistics.unknown += 1;
            statistics.unknown_changed += changes.len();
            if !unverifiable || !was_open {
                self.report(Some(call), format!("{tag} must not have an unknown outcome: {:?}", envelope.error));
            }
        } else if unverifiable && was_open && self.scheduler == Scheduler::Local {
            // With local drivers, a call that was open at a crash and cannot be verified must have an unknown outcome.
            // Under Restate, its outcome may be known, or the call may not have started. The following branches check
            // these cases.
            self.report(Some(call), format!("{tag} was open at a crash, but its outcome is not unknown: {envelope:?}"));
        } else if workload::is_denied(tag) && reason(envelope) == Some("approval_denied") {
            if !changes.is_empty() {
                self.report(Some(call), format!("{tag} was denied, but changed the CRM"));
            }
        } else if !envelope.is_success() {
            self.report(Some(call), format!("{tag} failed: {:?}", envelope.error));
        } else if is_write(envelope)
            && envelope.output["id"].as_str().map(|id| vec![id.to_owned()]).as_deref() != Some(changes)
        {
            self.report(Some(call), format!("{tag} returned {}, but the CRM changed {changes:?}", envelope.output));
        }
    }

    /// Checks that the stored effect of a write has the same outcome as its envelope, and that other calls have no
    /// effect.
    fn check_effect(&mut self, envelope: &ToolEnvelope, unknown: bool) {
        let call = envelope.call_id.as_str();
        let found =
            self.api_run.effects.iter().find(|effect| effect["callId"] == call).map(|effect| &effect["outcome"]);
        let expected = match is_write(envelope) {
            true if unknown => Some(json!("unknown")),
            true if envelope.is_success() => Some(json!("done")),
            _ => None,
        };
        if found != expected.as_ref() {
            self.report(Some(&envelope.call_id), format!("its effect is {found:?}, expected {expected:?}"));
        }
    }
}

fn is_write(envelope: &ToolEnvelope) -> bool {
    ["hubspot/update-deal", "hubspot/add-note", "hubspot/send-email"].contains(&envelope.name.as_str())
}

fn reason(envelope: &ToolEnvelope) -> Option<&str> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}

fn calls(run: &Value) -> impl Iterator<Item = &Value> {
    run["toolCalls"].as_array().into_iter().flatten()
}

fn call_id(text: &str) -> CallId {
    serde_json::from_value(json!(text)).unwrap()
}

async fn fetch_run(client: &Client, run: RunId) -> (RunId, ApiRun) {
    let (_, api_run) = client.get(&format!("runs/{run}")).await;
    let turns = match api_run["conversationId"].as_str() {
        None => Vec::new(),
        Some(conversation) => {
            let (_, conversation) = client.get(&format!("conversations/{conversation}")).await;
            conversation["turns"].as_array().cloned().unwrap_or_default()
        }
    };
    let ended = api_run["status"].as_str().is_some_and(|status| status == "COMPLETED" || status == "ERROR");
    let stream = if ended { fetch_stream(client, run).await } else { Vec::new() };
    let instance = match api_run["kind"].as_str() {
        Some("workflow") => Some(client.get(&format!("workflow-instances/{run}")).await.1),
        _ => None,
    };
    let (_, effects) = client.get(&format!("effects?runId={run}&limit=100")).await;
    let effects = effects["items"].as_array().cloned().unwrap_or_default();
    (run, ApiRun { run: api_run, instance, stream, turns, effects })
}

/// Reads the whole event stream of an ended run.
async fn fetch_stream(client: &Client, run: RunId) -> Vec<(Option<u64>, Value)> {
    let response = client.events(&run.to_string(), 0).await.unwrap();
    let mut last = String::new();
    let events = response.bytes_stream().eventsource().map(|event| {
        let event = event.unwrap();
        // For an event without an id, the parser returns the id of the previous event.
        let id = if event.id == last { None } else { event.id.parse().ok() };
        last = event.id;
        (id, serde_json::from_str(&event.data).unwrap())
    });
    tokio::time::timeout(TIMEOUT, events.collect())
        .await
        .unwrap_or_else(|_| panic!("the stream of {run} did not end in time"))
}
