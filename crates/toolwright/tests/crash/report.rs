//! What was found, and in figures.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toolwright_store::Entry;
use toolwright_types::{CallId, RunId};

use super::journals::Kept;
use super::killer::Deeds;
use super::tap::Kind;

/// How much of an entry is shown.
const SHOWN: usize = 400;

/// What must not be.
#[derive(Default)]
pub struct Violations(Vec<Violation>);

struct Violation {
    run: Option<RunId>,
    call: Option<CallId>,
    what: String,
}

impl Violations {
    pub fn add(&mut self, run: RunId, call: Option<&CallId>, what: impl Into<String>) {
        self.0.push(Violation { run: Some(run), call: call.cloned(), what: what.into() });
    }

    /// One that belongs to no run.
    pub fn add_homeless(&mut self, what: impl Into<String>) {
        self.0.push(Violation { run: None, call: None, what: what.into() });
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints each with the journal of its run.
    pub fn print(&self, runs: &BTreeMap<RunId, Kept>) {
        for Violation { run, call, what } in &self.0 {
            let run_name = run.map_or_else(|| "–".to_owned(), |run| run.to_string());
            let call = call.as_ref().map_or("–", CallId::as_str);
            println!("\nVIOLATION: {what}\n  run {run_name}, call {call}");
            let journal = run.and_then(|run| runs.get(&run)).map_or(&[][..], |kept| &kept.entries);
            journal.iter().for_each(print_entry);
        }
    }
}

fn print_entry(entry: &Entry) {
    let body: String = entry.body.chars().take(SHOWN).collect();
    println!("  {:>3} {} {:<16} {body}", entry.n, entry.at, entry.kind);
}

/// The figures of one round or of several.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    pub deeds: Deeds,
    pub acknowledged: usize,
    /// Runs that began although nobody was told so.
    pub unacknowledged: usize,
    pub children: usize,
    /// How the runs ended.
    pub ends: BTreeMap<String, usize>,
    pub replies: u64,
    pub calls: usize,
    pub decisions: usize,
    pub results: usize,
    /// Records that the CRM changed.
    pub writes: BTreeMap<Kind, usize>,
    /// Calls that were told as unknown, and of those the ones that had been made.
    pub unknown: usize,
    pub unknown_made: usize,
    /// Requests that reached the CRM again, because nobody knew their outcome.
    pub repeated: BTreeMap<Kind, usize>,
    pub verified: usize,
    pub took: Duration,
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        other.deeds.kills.iter().for_each(|(blow, kills)| *self.deeds.kills.entry(*blow).or_default() += kills);
        self.deeds.starts.extend(other.deeds.starts);
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.children += other.children;
        other.ends.into_iter().for_each(|(end, runs)| *self.ends.entry(end).or_default() += runs);
        self.replies += other.replies;
        self.calls += other.calls;
        self.decisions += other.decisions;
        self.results += other.results;
        other.writes.into_iter().for_each(|(kind, writes)| *self.writes.entry(kind).or_default() += writes);
        self.unknown += other.unknown;
        self.unknown_made += other.unknown_made;
        other.repeated.into_iter().for_each(|(kind, times)| *self.repeated.entry(kind).or_default() += times);
        self.verified += other.verified;
        self.took += other.took;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: u64 = self.deeds.kills.values().sum();
        writeln!(f, "kills                {kills}")?;
        for (blow, kills) in &self.deeds.kills {
            writeln!(f, "  {blow:<34} {kills:>6}", blow = blow.to_string())?;
        }
        let runs = self.acknowledged + self.unacknowledged + self.children;
        writeln!(f, "runs                 {runs}")?;
        writeln!(f, "  acknowledged                       {:>6}", self.acknowledged)?;
        writeln!(f, "  begun, but the answer was lost     {:>6}", self.unacknowledged)?;
        writeln!(f, "  of delegates                       {:>6}", self.children)?;
        for (end, runs) in &self.ends {
            writeln!(f, "  ended {end:<28} {runs:>6}")?;
        }
        writeln!(f, "steps                {}", self.replies + self.calls as u64)?;
        writeln!(f, "  replies of the model               {:>6}", self.replies)?;
        writeln!(f, "  calls                              {:>6}", self.calls)?;
        writeln!(f, "  decisions acknowledged             {:>6}", self.decisions)?;
        writeln!(f, "  client results acknowledged        {:>6}", self.results)?;
        writeln!(f, "writes at the CRM    {}", self.writes.values().sum::<usize>())?;
        for (kind, name) in
            [(Kind::Idempotent, "idempotent"), (Kind::Verifiable, "with verify"), (Kind::Blind, "with neither")]
        {
            let count = |of: &BTreeMap<Kind, usize>| of.get(&kind).copied().unwrap_or_default();
            writeln!(f, "  {name:<34} {:>6}  ({} sent again)", count(&self.writes), count(&self.repeated))?;
        }
        writeln!(f, "  questions to verify                {:>6}", self.verified)?;
        writeln!(f, "unknown outcomes     {} told, of which {} had been made", self.unknown, self.unknown_made)?;
        let mut starts: Vec<u128> = self.deeds.starts.iter().map(Duration::as_millis).collect();
        starts.sort_unstable();
        let at = |part: usize| starts.get((starts.len() * part / 100).min(starts.len().saturating_sub(1))).copied();
        let [half, most, all] = [50, 95, 100].map(|part| at(part).unwrap_or_default());
        writeln!(f, "time to ready        p50 {half} ms, p95 {most} ms, max {all} ms, {} starts", starts.len())?;
        write!(f, "took                 {} s", self.took.as_secs())
    }
}
