//! A run is a function of its journal: its state, and what those see who watch it.

use proptest::prelude::*;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, Happened};
use toolwright_machine::journal::{Entry, Recorded, ReplayError, UnreadableEntry, replay};
use toolwright_machine::timeline::{Moment, Timeline, Told};

use crate::bench::at;
use crate::script::{Player, Script, scripts};

fn played(script: &Script) -> Player<'_> {
    let (player, ended) = Player::new(script, false).play();
    assert!(ended);
    player
}

/// The entries as a store gives them back.
fn reread(journal: &[Entry]) -> Vec<Entry> {
    journal.iter().map(|entry| Entry::read(entry.n, entry.at, &entry.body()).unwrap()).collect()
}

fn story(journal: &[Entry]) -> Vec<Moment> {
    let Recorded::Began(began) = &journal[0].what else { panic!("no beginning") };
    let mut timeline = Timeline::of(AgentRun::new(began.spec.clone(), journal[0].at));
    let mut moments = timeline.advance().moments;
    for entry in &journal[1..] {
        if let Recorded::Happened(what) = &entry.what {
            moments.extend(timeline.apply(Event { at: entry.at, what: what.clone() }).unwrap().moments);
        }
    }
    moments
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_gives_the_run_back(script in scripts()) {
        let player = played(&script);
        let (_, run) = replay(reread(&player.journal)).unwrap();
        let mut live = player.run.clone();
        live.reissue();
        prop_assert_eq!(run, live);
    }

    #[test]
    fn every_prefix_of_a_journal_is_a_run_that_goes_on(script in scripts(), cut in 0usize..1000) {
        let journal = reread(&played(&script).journal);
        let cut = cut % journal.len() + 1;
        let (_, mut run) = replay(journal[..cut].to_vec()).unwrap();
        prop_assert!(!run.next().is_empty() || run.ending().is_some());
    }

    #[test]
    fn whoever_watches_hears_of_each_call_once_and_of_the_end_last(script in scripts()) {
        let player = played(&script);
        let moments = story(&reread(&player.journal));
        let outputs = player.run.outputs();
        let mut ended: Vec<String> = moments
            .iter()
            .filter_map(|moment| match &moment.what {
                Told::CallEnded(call) => Some(call.call.call_id.to_string()),
                _ => None,
            })
            .collect();
        let mut receipts: Vec<String> = outputs.tool_order.iter().map(ToString::to_string).collect();
        ended.sort();
        receipts.sort();
        prop_assert_eq!(ended, receipts);
        let ends = moments.iter().filter(|moment| matches!(moment.what, Told::Ended { .. })).count();
        prop_assert_eq!(ends, 1);
        let told = matches!(&moments.last().unwrap().what, Told::Ended { response, .. } if *response == outputs.response);
        prop_assert!(told);
    }
}

#[test]
fn what_is_no_journal_is_refused() {
    let happened = |n| Entry { n, at: at(0), what: Recorded::Happened(Happened::TimePassed) };
    assert!(matches!(replay([]), Err(ReplayError::NoBeginning)));
    assert!(matches!(replay([happened(1)]), Err(ReplayError::NoBeginning)));
    let script = Script::example();
    let mut journal = played(&script).journal;
    journal.truncate(1);
    journal.push(happened(3));
    assert!(matches!(replay(journal), Err(ReplayError::Gap { expected: 2, found: 3 })));
}

#[test]
fn an_entry_says_its_kind_and_version_and_a_later_one_is_refused() {
    let entry = Entry { n: 7, at: at(0), what: Recorded::Happened(Happened::TimePassed) };
    assert_eq!((entry.kind(), entry.body().as_str()), ("time_passed", r#"{"v":1,"type":"time_passed"}"#));
    let later = Entry::read(7, at(0), r#"{"v":2,"type":"time_passed"}"#);
    assert!(matches!(later, Err(UnreadableEntry::Version { n: 7, version: 2 })));
    assert!(matches!(Entry::read(7, at(0), "{}"), Err(UnreadableEntry::Damaged { n: 7, .. })));
}
