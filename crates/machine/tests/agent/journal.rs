//! Replaying a journal gives the state of the run and its timeline.

use proptest::prelude::*;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, EventKind};
use toolwright_machine::journal::{Entry, EntryBody, ReplayError, UnreadableEntry, replay};
use toolwright_machine::timeline::{RunUpdate, RunUpdateKind, Timeline};

use crate::harness::at;
use crate::script::{Script, ScriptedDriver, scripts};

fn run_script(script: &Script) -> ScriptedDriver<'_> {
    let (driver, ended) = ScriptedDriver::new(script, false).run_to_end();
    assert!(ended);
    driver
}

/// Serializes and parses the entries, as a store does.
fn reparse(journal: &[Entry]) -> Vec<Entry> {
    journal.iter().map(|entry| Entry::parse(entry.n, entry.at, &entry.to_json()).unwrap()).collect()
}

fn timeline_of(journal: &[Entry]) -> Vec<RunUpdate> {
    let EntryBody::Started(start) = &journal[0].body else { panic!("the first entry is not the start") };
    let mut timeline = Timeline::new(AgentRun::new(start.spec.clone(), journal[0].at));
    let mut updates = timeline.advance().updates;
    for entry in &journal[1..] {
        if let EntryBody::Event(kind) = &entry.body {
            updates.extend(timeline.apply(Event { at: entry.at, kind: kind.clone() }).unwrap().updates);
        }
    }
    updates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaying_a_journal_gives_the_state_of_the_live_run(script in scripts()) {
        let driver = run_script(&script);
        let (_, run) = replay(reparse(&driver.journal)).unwrap();
        let mut live = driver.run.clone();
        live.reissue_effects();
        prop_assert_eq!(run, live);
    }

    #[test]
    fn every_journal_prefix_replays_to_a_run_that_can_continue(script in scripts(), cut in 0usize..1000) {
        let journal = reparse(&run_script(&script).journal);
        let cut = cut % journal.len() + 1;
        let (_, mut run) = replay(journal[..cut].to_vec()).unwrap();
        prop_assert!(!run.next().is_empty() || run.ending().is_some());
    }

    #[test]
    fn timeline_reports_each_call_once_and_the_end_of_the_run_last(script in scripts()) {
        let driver = run_script(&script);
        let updates = timeline_of(&reparse(&driver.journal));
        let outputs = driver.run.outputs();
        let mut ended: Vec<String> = updates
            .iter()
            .filter_map(|update| match &update.kind {
                RunUpdateKind::CallEnded(call) => Some(call.call.call_id.to_string()),
                _ => None,
            })
            .collect();
        let mut results: Vec<String> = outputs.tool_order.iter().map(ToString::to_string).collect();
        ended.sort();
        results.sort();
        prop_assert_eq!(ended, results);
        let ends = updates.iter().filter(|update| matches!(update.kind, RunUpdateKind::Ended { .. })).count();
        prop_assert_eq!(ends, 1);
        let is_end = matches!(&updates.last().unwrap().kind, RunUpdateKind::Ended { response, .. } if *response == outputs.response);
        prop_assert!(is_end);
    }
}

#[test]
fn journal_without_start_or_with_a_gap_is_rejected() {
    let event_entry = |n| Entry { n, at: at(0), body: EntryBody::Event(EventKind::TimerFired) };
    assert!(matches!(replay([]), Err(ReplayError::MissingStart)));
    assert!(matches!(replay([event_entry(1)]), Err(ReplayError::MissingStart)));
    let script = Script::example();
    let mut journal = run_script(&script).journal;
    journal.truncate(1);
    journal.push(event_entry(3));
    assert!(matches!(replay(journal), Err(ReplayError::Gap { expected: 2, found: 3 })));
}

#[test]
fn stored_entry_has_a_format_version_and_newer_versions_are_rejected() {
    let entry = Entry { n: 7, at: at(0), body: EntryBody::Event(EventKind::TimerFired) };
    assert_eq!((entry.kind(), entry.to_json().as_str()), ("timer_fired", r#"{"v":1,"type":"timer_fired"}"#));
    let later = Entry::parse(7, at(0), r#"{"v":2,"type":"timer_fired"}"#);
    assert!(matches!(later, Err(UnreadableEntry::Version { n: 7, version: 2 })));
    assert!(matches!(Entry::parse(7, at(0), "{}"), Err(UnreadableEntry::Damaged { n: 7, .. })));
}
