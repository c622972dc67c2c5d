//! Holds the journals, the CRM's books, the API and what the users were told against each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use toolwright_testkit::Audit;
use toolwright_types::{CallId, RunId, ToolEnvelope};

use super::client::Client;
use super::crowd::Memory;
use super::journals::{Facts, History, Kept, key_of, parsed};
use super::report::{Figures, Violations};
use super::tap::{Kind, Passage, tag_in};
use super::{Driver, workload};

/// How many runs are looked at side by side.
const AT_ONCE: usize = 8;
/// How long the stream of a run that has ended may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that was seen from outside.
pub struct Evidence {
    pub memory: Memory,
    pub passages: Vec<Passage>,
    pub audit: Audit,
}

/// A run as the API tells it.
struct Told {
    run: Value,
    stream: Vec<(Option<u64>, Value)>,
    turns: Vec<Value>,
}

/// Checks everything, and counts it. The server lives, and nothing is under way.
pub async fn check(client: &Client, history: &mut History, evidence: &Evidence, driver: Driver) -> Figures {
    let runs = history.runs.clone();
    let mut violations = std::mem::take(&mut history.violations);
    let books = Books::of(evidence);
    for (about, what) in &evidence.memory.complaints {
        violations.add_homeless(format!("{about}: {what}"));
    }
    check_acknowledged(&runs, &evidence.memory, &mut violations);
    check_not_repeated(history, evidence, &mut violations);
    books.check_keys(&mut violations);

    let mut figures = count(&runs, evidence, &books);
    let mut told = stream::iter(runs.keys().map(|run| tell(client, *run))).buffer_unordered(AT_ONCE);
    while let Some((run, told)) = told.next().await {
        let kept = &runs[&run];
        let facts = Facts::of(&kept.entries);
        let mut case = Case { run, kept, told: &told, facts, driver, violations: &mut violations };
        case.check_journal();
        case.check_end(&evidence.memory);
        case.check_told();
        case.check_children(&runs);
        case.check_receipts(history, &books, &mut figures);
    }
    let (_, left) = client.get("approvals").await;
    if left["items"] != json!([]) {
        violations.add_homeless(format!("approvals are asked for that nobody needs: {left}"));
    }
    books.check_nothing_else(&mut violations);
    drop(told);
    history.violations = violations;
    figures
}

/// No run, decision or result that was acknowledged is lost.
fn check_acknowledged(runs: &BTreeMap<RunId, Kept>, memory: &Memory, violations: &mut Violations) {
    for (run, agent) in &memory.runs {
        let id: RunId = run.parse().unwrap();
        match runs.get(&id) {
            None => violations.add(id, None, format!("an acknowledged run of {agent} is lost")),
            Some(_) if !memory.ended.contains(run) => violations.add(id, None, "its stream did not come to an end"),
            Some(_) => {}
        }
    }
    let facts = |run: &str| runs.get(&run.parse().unwrap()).map(|kept| Facts::of(&kept.entries)).unwrap_or_default();
    for (run, call) in &memory.decisions {
        if facts(run).decided.iter().filter(|decided| decided.as_str() == call).count() != 1 {
            let call = call_id(call);
            violations.add(run.parse().unwrap(), Some(&call), "an acknowledged decision is not there once");
        }
    }
    for (run, call) in memory.results.keys() {
        if facts(run).returned.iter().filter(|returned| returned.as_str() == call).count() != 1 {
            let call = call_id(call);
            violations.add(run.parse().unwrap(), Some(&call), "an acknowledged result is not there once");
        }
    }
}

/// A step whose outcome was written when a server died is not performed again.
fn check_not_repeated(history: &History, evidence: &Evidence, violations: &mut Violations) {
    for (n, passage) in evidence.passages.iter().enumerate() {
        let done = passage.tag.as_ref().and_then(|tag| history.done.get(tag));
        if let Some((_, run, call)) = done.filter(|(passed, ..)| n >= *passed) {
            violations.add(*run, Some(call), format!("a completed step was performed again: {passage:?}"));
        }
    }
}

fn count(runs: &BTreeMap<RunId, Kept>, evidence: &Evidence, books: &Books) -> Figures {
    let memory = &evidence.memory;
    let mut figures = Figures {
        acknowledged: memory.runs.len(),
        decisions: memory.decisions.len(),
        results: memory.results.len(),
        verified: evidence.passages.iter().filter(|passage| passage.kind == Kind::Verify).count(),
        ..Figures::default()
    };
    for (run, kept) in runs {
        match kept.row.parent {
            Some(_) => figures.children += 1,
            None if !memory.runs.contains_key(&run.to_string()) => figures.unacknowledged += 1,
            None => {}
        }
        *figures.ends.entry(kept.row.state.status.to_string()).or_default() += 1;
        let facts = Facts::of(&kept.entries);
        figures.replies += facts.replies;
        figures.calls += facts.outcomes.len() + facts.returned.len();
    }
    for (key, (kind, _)) in &books.sent {
        *figures.writes.entry(*kind).or_default() += books.made.get(key).map_or(0, Vec::len);
        let times = evidence.passages.iter().filter(|passage| passage.key.as_ref() == Some(key)).count();
        *figures.repeated.entry(*kind).or_default() += times.saturating_sub(1);
    }
    figures
}

/// What the CRM knows of the writes.
struct Books {
    /// What each key was sent for.
    sent: HashMap<String, (Kind, BTreeSet<String>)>,
    /// The records that were changed under each key.
    made: HashMap<String, Vec<String>>,
    /// Keys that a receipt accounts for.
    explained: std::cell::RefCell<BTreeSet<String>>,
}

impl Books {
    fn of(evidence: &Evidence) -> Self {
        let mut sent: HashMap<String, (Kind, BTreeSet<String>)> = HashMap::new();
        for passage in &evidence.passages {
            if let Some(key) = &passage.key {
                let (_, tags) = sent.entry(key.clone()).or_insert((passage.kind, BTreeSet::new()));
                tags.extend(passage.tag.clone());
            }
        }
        let mut made: HashMap<String, Vec<String>> = HashMap::new();
        for entry in &evidence.audit.log {
            made.entry(entry.idempotency_key.clone().unwrap_or_default()).or_default().push(entry.id.clone());
        }
        Self { sent, made, explained: Default::default() }
    }

    /// One key is for one call, and the other way round.
    fn check_keys(&self, violations: &mut Violations) {
        let mut keys: HashMap<&String, &String> = HashMap::new();
        for (key, (_, tags)) in &self.sent {
            if tags.len() != 1 {
                violations.add_homeless(format!("key {key} was sent for several calls: {tags:?}"));
            }
            for tag in tags {
                if let Some(other) = keys.insert(tag, key) {
                    violations.add_homeless(format!("{tag} was sent with two keys: {key} and {other}"));
                }
            }
        }
    }

    /// Nothing was changed that no run has a receipt for.
    fn check_nothing_else(&self, violations: &mut Violations) {
        for (key, records) in &self.made {
            if !self.explained.borrow().contains(key) {
                let sent = self.sent.get(key);
                violations.add_homeless(format!("the CRM changed {records:?} for {sent:?}, and no run knows of it"));
            }
        }
    }
}

/// One run under examination.
struct Case<'a> {
    run: RunId,
    kept: &'a Kept,
    told: &'a Told,
    facts: Facts,
    driver: Driver,
    violations: &'a mut Violations,
}

impl Case<'_> {
    fn complain(&mut self, call: Option<&CallId>, what: impl Into<String>) {
        self.violations.add(self.run, call, what);
    }

    /// Gapless, and no call has two outcomes.
    fn check_journal(&mut self) {
        let entries = &self.kept.entries;
        if !entries.iter().map(|entry| entry.n).eq(1..=entries.len() as u64) {
            self.complain(None, "its journal has gaps");
        }
        if let Err(error) = toolwright_machine::journal::replay(parsed(entries)) {
            self.complain(None, format!("its journal does not make a run: {error}"));
        }
        let mut ended = BTreeSet::new();
        let outcomes: Vec<CallId> = self.facts.outcomes.iter().map(|envelope| envelope.call_id.clone()).collect();
        for call in outcomes.iter().chain(&self.facts.returned.clone()) {
            if !ended.insert(call.clone()) {
                self.complain(Some(call), "a call has two outcomes");
            }
        }
    }

    /// It ended as its script says, in the list, in the API and in its stream.
    fn check_end(&mut self, memory: &Memory) {
        let (told, row) = (self.told, &self.kept.row);
        let status = told.run["status"].as_str().unwrap_or("missing").to_owned();
        if status != row.state.status.to_string() {
            self.complain(None, format!("its row says {} and the API {status}", row.state.status));
        }
        if status != "COMPLETED" {
            self.complain(None, format!("it is {status}: {} {}", told.run["reason"], told.run["message"]));
        }
        let last = told.stream.last().map(|(_, event)| event.clone()).unwrap_or_default();
        if (&last["type"], &last["status"], &last["content"])
            != (&json!("DONE"), &told.run["status"], &told.run["responseText"])
        {
            self.complain(None, format!("its stream ends with {last}, and the run is {}", told.run));
        }
        let live = memory.events.get(&self.run.to_string());
        let replayed: BTreeMap<u64, &Value> =
            told.stream.iter().filter_map(|(id, event)| Some(((*id)?, event))).collect();
        for (id, seen) in live.into_iter().flatten() {
            if replayed.get(id) != Some(&seen) {
                self.complain(None, format!("event {id} was {seen} live and is {:?} now", replayed.get(id)));
            }
        }
    }

    /// What the API says of the calls is what the stream tells, and the conversation has every turn once.
    fn check_told(&mut self) {
        let told = self.told;
        let ids: Vec<u64> = told.stream.iter().filter_map(|(id, _)| *id).collect();
        if !ids.is_sorted_by(|one, next| one < next) {
            self.complain(None, format!("the ids of its stream are not in order: {ids:?}"));
        }
        let by_id = |call: &Value| (call["callId"].as_str().unwrap_or_default().to_owned(), call.clone());
        let ends = told.stream.iter().filter(|(_, event)| event["type"] == "TOOL_CALL_END");
        let streamed: Vec<(String, Value)> = ends.map(|(_, event)| by_id(&event["toolInvocation"])).collect();
        let stated: BTreeMap<String, Value> = calls(&told.run).map(by_id).collect();
        if streamed.len() != stated.len() || streamed.into_iter().collect::<BTreeMap<_, _>>() != stated {
            self.complain(None, "its stream and the API differ in the calls it made");
        }
        if !told.run["conversationId"].is_null() {
            let turns = |role: &str| told.turns.iter().filter(|turn| turn["role"] == role).count();
            let expected = (1, self.facts.replies as usize, calls(&told.run).count());
            let found = (turns("user"), turns("assistant"), turns("tool"));
            if found != expected {
                self.complain(None, format!("its conversation has {found:?} turns, not {expected:?}"));
            }
        }
    }

    /// A call that starts a run starts one run.
    fn check_children(&mut self, runs: &BTreeMap<RunId, Kept>) {
        let children = runs.values().filter(|kept| kept.row.parent == Some(self.run)).count();
        if children != workload::children(&self.kept.row.subject) {
            self.complain(None, format!("it has {children} runs of delegates"));
        }
    }

    /// Every call of the script has one receipt, which says what happened at the CRM.
    fn check_receipts(&mut self, history: &History, books: &Books, figures: &mut Figures) {
        let outputs = self.told.run["outputs"]["tools_by_id"].as_object().cloned().unwrap_or_default();
        let mut letters = String::new();
        for (_, receipt) in outputs {
            let receipt: ToolEnvelope = serde_json::from_value(receipt).unwrap();
            if let Some(tag) = tag_in(&receipt.input.to_string()) {
                letters.extend(tag.chars().last());
                self.check_receipt(&receipt, &tag, history, books, figures);
            } else if !receipt.is_success() {
                self.complain(Some(&receipt.call_id), format!("a delegate failed: {:?}", receipt.error));
            }
        }
        let mut sorted: Vec<char> = letters.chars().collect();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(workload::letters(&self.kept.row.subject).chars()) {
            self.complain(None, format!("it has receipts for {letters}, which is not what its script says"));
        }
    }

    fn check_receipt(
        &mut self,
        receipt: &ToolEnvelope,
        tag: &str,
        history: &History,
        books: &Books,
        figures: &mut Figures,
    ) {
        let call = &receipt.call_id;
        let key = key_of(self.run, call);
        books.explained.borrow_mut().insert(key.clone());
        let made = books.made.get(&key).map_or(&[][..], Vec::as_slice);
        let left_open = history.left_open.contains(&(self.run, call.clone()));
        let unknown = reason(receipt) == Some("outcome_unknown");
        let blind = receipt.name == "hubspot/send-email";
        if made.len() > 1 {
            self.complain(Some(call), format!("{tag} was made {} times", made.len()));
        }
        if unknown {
            figures.unknown += 1;
            figures.unknown_made += made.len();
            if !blind || !left_open {
                self.complain(Some(call), format!("{tag} is told as unknown: {:?}", receipt.error));
            }
        } else if blind && left_open && self.driver == Driver::Server {
            // Restate may have had the outcome, or not have begun: then what the receipt says is held against the CRM.
            self.complain(Some(call), format!("{tag} was left open by a crash, and nobody was told: {receipt:?}"));
        } else if workload::is_denied(tag) && reason(receipt) == Some("approval_denied") {
            if !made.is_empty() {
                self.complain(Some(call), format!("{tag} was denied, and made"));
            }
        } else if !receipt.is_success() {
            self.complain(Some(call), format!("{tag} failed: {:?}", receipt.error));
        } else if is_write(receipt)
            && receipt.output["id"].as_str().map(|id| vec![id.to_owned()]).as_deref() != Some(made)
        {
            self.complain(Some(call), format!("{tag} says {}, and the CRM changed {made:?}", receipt.output));
        }
    }
}

fn is_write(receipt: &ToolEnvelope) -> bool {
    ["hubspot/update-deal", "hubspot/add-note", "hubspot/send-email"].contains(&receipt.name.as_str())
}

fn reason(receipt: &ToolEnvelope) -> Option<&str> {
    receipt.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}

fn calls(run: &Value) -> impl Iterator<Item = &Value> {
    run["toolCalls"].as_array().into_iter().flatten()
}

fn call_id(text: &str) -> CallId {
    serde_json::from_value(json!(text)).unwrap()
}

async fn tell(client: &Client, run: RunId) -> (RunId, Told) {
    let (_, told) = client.get(&format!("runs/{run}")).await;
    let turns = match told["conversationId"].as_str() {
        None => Vec::new(),
        Some(conversation) => {
            let (_, conversation) = client.get(&format!("conversations/{conversation}")).await;
            conversation["turns"].as_array().cloned().unwrap_or_default()
        }
    };
    let ended = told["status"].as_str().is_some_and(|status| status == "COMPLETED" || status == "ERROR");
    let stream = if ended { replayed(client, run).await } else { Vec::new() };
    (run, Told { run: told, stream, turns })
}

/// The whole stream of a run that has ended.
async fn replayed(client: &Client, run: RunId) -> Vec<(Option<u64>, Value)> {
    let response = client.events(&run.to_string(), 0).await.unwrap();
    let mut last = String::new();
    let events = response.bytes_stream().eventsource().map(|event| {
        let event = event.unwrap();
        // An event without an id comes with that of the one before it.
        let id = if event.id == last { None } else { event.id.parse().ok() };
        last = event.id;
        (id, serde_json::from_str(&event.data).unwrap())
    });
    tokio::time::timeout(PATIENCE, events.collect())
        .await
        .unwrap_or_else(|_| panic!("the stream of {run} does not end"))
}
