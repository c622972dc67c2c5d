//! Collects and prints the violations and the statistics of a round.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toolwright_store::JournalEntry;
use toolwright_types::{CallId, RunId};

use super::journals::StoredRun;
use super::killer::KillStats;
use super::proxy::RequestKind;

/// Maximum number of characters printed per journal entry.
const SHOWN_CHARS: usize = 400;

/// The violations that the checks found.
#[derive(Default)]
pub(crate) struct Violations(Vec<Violation>);

struct Violation {
    run: Option<RunId>,
    call: Option<CallId>,
    description: String,
}

impl Violations {
    pub(crate) fn add(&mut self, run: RunId, call: Option<&CallId>, description: impl Into<String>) {
        self.0.push(Violation { run: Some(run), call: call.cloned(), description: description.into() });
    }

    /// Adds a violation that belongs to no run.
    pub(crate) fn add_global(&mut self, description: impl Into<String>) {
        self.0.push(Violation { run: None, call: None, description: description.into() });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints each violation with the journal of its run.
    pub(crate) fn print(&self, runs: &BTreeMap<RunId, StoredRun>) {
        for Violation { run, call, description } in &self.0 {
            let run_name = run.map_or_else(|| "–".to_owned(), |run| run.to_string());
            let call = call.as_ref().map_or("–", CallId::as_str);
            println!("\nVIOLATION: {description}\n  run {run_name}, call {call}");
            let journal = run.and_then(|run| runs.get(&run)).map_or(&[][..], |stored| &stored.entries);
            journal.iter().for_each(print_entry);
        }
    }
}

fn print_entry(entry: &JournalEntry) {
    let body: String = entry.body.chars().take(SHOWN_CHARS).collect();
    println!("  {:>3} {} {:<16} {body}", entry.n, entry.at, entry.kind);
}

/// Statistics of one or more rounds.
#[derive(Debug, Default, Clone)]
pub(crate) struct Statistics {
    pub kill_stats: KillStats,
    pub acknowledged: usize,
    /// Runs that started although the server died before it acknowledged the start.
    pub unacknowledged: usize,
    pub children: usize,
    /// Number of runs by final status.
    pub ends: BTreeMap<String, usize>,
    pub replies: u64,
    pub calls: usize,
    pub decisions: usize,
    pub results: usize,
    pub signals: usize,
    /// Runs of workflows.
    pub workflows: usize,
    /// Number of changes in the CRM, by kind of write.
    pub writes: BTreeMap<RequestKind, usize>,
    /// Calls with an unknown outcome.
    pub unknown: usize,
    /// Number of CRM changes by calls with an unknown outcome.
    pub unknown_changed: usize,
    /// Requests that were sent again with the same idempotency key, by kind.
    pub repeated: BTreeMap<RequestKind, usize>,
    pub verified: usize,
    /// Calls of steps that the CRM refused, so that their steps were repeated.
    pub refused: usize,
    pub elapsed: Duration,
}

impl Statistics {
    pub(crate) fn add(&mut self, other: Self) {
        other
            .kill_stats
            .kills
            .iter()
            .for_each(|(kill_point, kills)| *self.kill_stats.kills.entry(*kill_point).or_default() += kills);
        self.kill_stats.starts.extend(other.kill_stats.starts);
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.children += other.children;
        other.ends.into_iter().for_each(|(end, runs)| *self.ends.entry(end).or_default() += runs);
        self.replies += other.replies;
        self.calls += other.calls;
        self.decisions += other.decisions;
        self.results += other.results;
        self.signals += other.signals;
        self.workflows += other.workflows;
        self.refused += other.refused;
        other.writes.into_iter().for_each(|(kind, writes)| *self.writes.entry(kind).or_default() += writes);
        self.unknown += other.unknown;
        self.unknown_changed += other.unknown_changed;
        other.repeated.into_iter().for_each(|(kind, times)| *self.repeated.entry(kind).or_default() += times);
        self.verified += other.verified;
        self.elapsed += other.elapsed;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: u64 = self.kill_stats.kills.values().sum();
        writeln!(f, "kills                {kills}")?;
        for (kill_point, kills) in &self.kill_stats.kills {
            writeln!(f, "  {kill_point:<34} {kills:>6}", kill_point = kill_point.to_string())?;
        }
        let runs = self.acknowledged + self.unacknowledged + self.children;
        writeln!(f, "runs                 {runs}")?;
        writeln!(f, "  acknowledged                       {:>6}", self.acknowledged)?;
        writeln!(f, "  started without acknowledgement    {:>6}", self.unacknowledged)?;
        writeln!(f, "  child runs                         {:>6}", self.children)?;
        writeln!(f, "  of workflows                       {:>6}", self.workflows)?;
        for (end, runs) in &self.ends {
            writeln!(f, "  ended {end:<28} {runs:>6}")?;
        }
        writeln!(f, "recorded outcomes    {}", self.replies + self.calls as u64)?;
        writeln!(f, "  model replies                      {:>6}", self.replies)?;
        writeln!(f, "  calls                              {:>6}", self.calls)?;
        writeln!(f, "  decisions acknowledged             {:>6}", self.decisions)?;
        writeln!(f, "  client results acknowledged        {:>6}", self.results)?;
        writeln!(f, "  signals acknowledged               {:>6}", self.signals)?;
        writeln!(f, "  refused, then repeated by a step   {:>6}", self.refused)?;
        writeln!(f, "writes at the CRM    {}", self.writes.values().sum::<usize>())?;
        for (kind, name) in [
            (RequestKind::Idempotent, "idempotent"),
            (RequestKind::Verifiable, "verifiable"),
            (RequestKind::Unverifiable, "neither"),
        ] {
            let count = |counts: &BTreeMap<RequestKind, usize>| counts.get(&kind).copied().unwrap_or_default();
            writeln!(f, "  {name:<34} {:>6}  ({} sent again)", count(&self.writes), count(&self.repeated))?;
        }
        writeln!(f, "  verify operations                  {:>6}", self.verified)?;
        writeln!(
            f,
            "unknown outcomes     {} reported, of which {} had changed the CRM",
            self.unknown, self.unknown_changed
        )?;
        let mut starts: Vec<u128> = self.kill_stats.starts.iter().map(Duration::as_millis).collect();
        starts.sort_unstable();
        let percentile =
            |percent: usize| starts.get((starts.len() * percent / 100).min(starts.len().saturating_sub(1))).copied();
        let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(percent).unwrap_or_default());
        writeln!(f, "time to ready        p50 {p50} ms, p95 {p95} ms, max {max} ms, {} starts", starts.len())?;
        write!(f, "elapsed              {} s", self.elapsed.as_secs())
    }
}
