//! Compares the journals of two runs, entry by entry.

use serde_json::Value;
use toolwright_catalog::{Session, Unavailable};
use toolwright_machine::journal::diff::{ValueDifference, differences, remove_timestamps};
use toolwright_store::JournalEntry;
use toolwright_types::{ConversationId, RealmScope, RunId, Timestamp};

use super::InspectError;
use crate::{Inner, Runs};

/// The number of entries of each journal that are in memory at a time.
const WINDOW: u32 = 100;

/// The maximum number of differences that a divergence lists.
const MAX_DIFFERENCES: usize = 20;

/// The fields of the first entry that identify a run or a request. They are not compared.
const ORIGIN_FIELDS: [&str; 6] = ["correlation", "session", "conversation", "parent", "parent_call", "forked_from"];

/// The result of a comparison.
pub struct JournalComparison {
    /// The first difference between the journals; `None` if the journals are equal.
    pub divergence: Option<Divergence>,
    /// One page of the entries of both journals, aligned by number.
    pub entries: Vec<AlignedEntry>,
    /// The number of the first entry of the next page; `None` on the last page.
    pub next: Option<u64>,
}

/// The first difference between two journals.
pub struct Divergence {
    /// The number of the entry.
    pub n: u64,
    /// The kind of the entry of the first run; `None` if its journal ends before this entry.
    pub kind: Option<String>,
    /// The kind of the entry of the second run; `None` if its journal ends before this entry.
    pub other_kind: Option<String>,
    /// The differing fields. Empty if one of the journals ends before this entry.
    pub differences: Vec<ValueDifference>,
}

/// Two entries with the same number.
pub struct AlignedEntry {
    /// The number that both entries have.
    pub n: u64,
    /// The kind and the time of the entry of the first run; `None` if its journal ends before this entry.
    pub one: Option<(String, Timestamp)>,
    /// The kind and the time of the entry of the second run; `None` if its journal ends before this entry.
    pub other: Option<(String, Timestamp)>,
    /// Whether the entries are equal, apart from times and ids.
    pub equal: bool,
}

impl Runs {
    /// Compares the journals of two runs. Entries are aligned by their number, because a fork and its original number
    /// their entries in the same way. First, both journals are read up to the first difference, in windows of 100
    /// entries. Then the page that begins at entry `from` is read. Default of `from`: a few entries before the first
    /// difference.
    pub async fn compare_journals(
        &self,
        session: &Session,
        runs: [RunId; 2],
        from: Option<u64>,
        limit: u32,
    ) -> Result<JournalComparison, InspectError> {
        for run in runs {
            self.inspected(session, run).await?;
        }
        let home = &session.realm;
        let divergence = self.0.first_divergence(home, runs).await?;
        let default_from = || divergence.as_ref().map_or(1, |divergence| divergence.n.saturating_sub(3).max(1));
        let from = from.unwrap_or_else(default_from).max(1);
        let mut pairs = self.0.pairs(home, runs, from - 1, limit.saturating_add(1)).await?;
        let page_size = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = pairs.get(page_size).map(|pair| pair.n);
        pairs.truncate(page_size);
        Ok(JournalComparison { divergence, entries: pairs.iter().map(Pair::aligned).collect(), next })
    }
}

/// Two entries with the same number.
struct Pair {
    n: u64,
    one: Option<JournalEntry>,
    other: Option<JournalEntry>,
}

impl Inner {
    async fn first_divergence(&self, home: &RealmScope, runs: [RunId; 2]) -> Result<Option<Divergence>, Unavailable> {
        let mut after = 0;
        loop {
            let pairs = self.pairs(home, runs, after, WINDOW).await?;
            if let Some(pair) = pairs.iter().find(|pair| !pair.is_equal()) {
                return Ok(Some(pair.divergence()));
            }
            match pairs.last() {
                Some(last) => after = last.n,
                None => return Ok(None),
            }
        }
    }

    /// Reads up to `limit` entries of both runs after entry `after`.
    async fn pairs(
        &self,
        home: &RealmScope,
        runs: [RunId; 2],
        after: u64,
        limit: u32,
    ) -> Result<Vec<Pair>, Unavailable> {
        let [one, other] = runs;
        let one = self.store.runs(home).entries(one, after, limit).await?;
        let other = self.store.runs(home).entries(other, after, limit).await?;
        let last = one.iter().chain(&other).map(|entry| entry.n).max().unwrap_or(after);
        let (mut one, mut other) = (one.into_iter(), other.into_iter());
        Ok((after + 1..=last).map(|n| Pair { n, one: one.next(), other: other.next() }).collect())
    }
}

impl Pair {
    fn is_equal(&self) -> bool {
        match (&self.one, &self.other) {
            (Some(one), Some(other)) => one.body == other.body || comparable(one) == comparable(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    fn aligned(&self) -> AlignedEntry {
        let named = |entry: &Option<JournalEntry>| entry.as_ref().map(|entry| (entry.kind.clone(), entry.at));
        AlignedEntry { n: self.n, one: named(&self.one), other: named(&self.other), equal: self.is_equal() }
    }

    fn divergence(&self) -> Divergence {
        let kind = |entry: &Option<JournalEntry>| entry.as_ref().map(|entry| entry.kind.clone());
        let body = |entry: &Option<JournalEntry>| entry.as_ref().map(comparable).unwrap_or_default();
        let mut differences = match (&self.one, &self.other) {
            (Some(_), Some(_)) => differences(&body(&self.one), &body(&self.other)),
            _ => Vec::new(),
        };
        differences.truncate(MAX_DIFFERENCES);
        Divergence { n: self.n, kind: kind(&self.one), other_kind: kind(&self.other), differences }
    }
}

/// The content of an entry without the parts that always differ between two runs: times, the ids of runs and
/// conversations, and the ids that a model provider gives to calls. Shared parts are compared by their hashes.
fn comparable(entry: &JournalEntry) -> Value {
    let mut body: Value = serde_json::from_str(&entry.body).unwrap_or_default();
    if let Some(start) = body.as_object_mut().filter(|_| entry.n == 1) {
        start.retain(|name, _| !ORIGIN_FIELDS.contains(&name.as_str()));
    }
    for call in body.pointer_mut("/reply/tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.retain(|name, _| name != "id");
        }
    }
    remove_timestamps(&mut body);
    replace_ids(&mut body);
    body
}

fn replace_ids(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<RunId>().is_ok() => *text = "run".to_owned(),
        Value::String(text) if text.parse::<ConversationId>().is_ok() => *text = "conversation".to_owned(),
        Value::Object(fields) => fields.values_mut().for_each(replace_ids),
        Value::Array(items) => items.iter_mut().for_each(replace_ids),
        _ => {}
    }
}
