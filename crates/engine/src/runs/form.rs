//! What the journals of direct calls have in common. A tool is called again and again by the same principal, and all that its
//! journals begin with is the same each time but for the run and the input: it is written once, with room for these two.

use std::sync::Arc;

use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use serde_json::Value;
use toolwright_machine::agent::{Facts, Happened, PlannedCall, Prepared as Verdict};
use toolwright_machine::journal::{Began, Entry, Recorded};
use toolwright_tools::{CallContext, ReadyCall};
use toolwright_types::{DocumentId, RunId, Timestamp};

use super::Planned;
use super::effects::facts;
use crate::access::Session;

/// How many are kept: a few megabytes.
const MOST: usize = 2_000;

/// The forms of what was called lately.
pub(crate) struct Forms(Cache<Key<String>, Arc<Form>>);

/// All that a form depends on.
#[derive(PartialEq, Eq, Hash)]
struct Key<S> {
    realm: S,
    principal: S,
    tool: S,
    definition: S,
    policy: S,
}

impl Equivalent<Key<String>> for Key<&str> {
    fn equivalent(&self, other: &Key<String>) -> bool {
        let Key { realm, principal, tool, definition, policy } = other;
        *self == Key { realm, principal, tool, definition, policy }
    }
}

impl Default for Forms {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

impl Forms {
    /// The form of a call that is about to be made.
    pub(super) fn of(&self, session: &Session, cx: &CallContext, ready: &ReadyCall) -> Arc<Form> {
        let make = || Arc::new(Form::new(session, facts(cx, ready)));
        if !ready.resolved_inputs().is_empty() || ready.tool.definition.sequential {
            return make();
        }
        let key = Key {
            realm: cx.realm.name.as_str(),
            principal: cx.principal.name.as_str(),
            tool: ready.name(),
            definition: ready.tool.content_hash.as_str(),
            policy: ready.permit.policy.as_str(),
        };
        if let Some(known) = self.0.get(&key) {
            return known;
        }
        let Key { realm, principal, tool, definition, policy } = key;
        let [realm, principal, tool, definition, policy] =
            [realm, principal, tool, definition, policy].map(str::to_owned);
        let made = make();
        self.0.insert(Key { realm, principal, tool, definition, policy }, Arc::clone(&made));
        made
    }
}

/// The first two entries of a call that is made, as they are written.
pub(super) struct Form {
    pub facts: Facts,
    /// The beginning: what comes before the run, between it and the input, and after that.
    began: [String; 3],
    /// That the call can be made.
    pub prepared: String,
}

impl Form {
    pub fn new(session: &Session, facts: Facts) -> Self {
        let (name, hash) = (facts.name.clone(), facts.definition_hash.clone());
        // Ids that nothing else has mark the places.
        let (run, input) = (RunId::generate(), RunId::generate().to_string());
        let began = beginning(session, run, name, hash, Value::String(input.clone()));
        let began = written(1, Recorded::Began(Box::new(began)));
        let (before, rest) = began.split_once(&run.to_string()).unwrap_or((&began, ""));
        let (between, after) = rest.split_once(&format!("\"{input}\"")).unwrap_or((rest, ""));
        let began = [before, between, after].map(str::to_owned);
        let prepared = written(2, Recorded::Happened(prepared(Verdict::Ready(Box::new(facts.clone())))));
        Self { facts, began, prepared }
    }

    /// The first entry of a run with an input.
    pub fn began(&self, run: RunId, input: &Value) -> String {
        let [before, between, after] = &self.began;
        [before, run.to_string().as_str(), between, input.to_string().as_str(), after].concat()
    }
}

fn written(n: u64, what: Recorded) -> String {
    Entry { n, at: Timestamp::from_micros(0), what }.body()
}

/// What is known of the one call of a run.
pub(super) fn prepared(verdict: Verdict) -> Happened {
    Happened::Prepared { step: 1, calls: vec![verdict] }.flat()
}

/// The beginning of a run that is one call. To call is to agree to it.
pub(super) fn beginning(session: &Session, run: RunId, tool: String, definition_hash: String, input: Value) -> Began {
    let plan = vec![PlannedCall { tool: tool.clone(), input }];
    let mut began = Planned { run, subject: tool, definition_hash, task: None, plan, durable: false }.begin(session);
    began.direct = true;
    began.spec.policy.confirmed = true;
    began
}
