//! A bundle replays to the same bytes, and a changed bundle is reported with the place of the change.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle, StoredEntry};
use toolwright_machine::journal::{Entry, chain};
use toolwright_types::RunId;

use crate::script::{Script, ScriptedDriver, scripts};

/// Returns the same scripts in every test run.
fn seeded_scripts(count: usize) -> Vec<Script> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| scripts().new_tree(&mut runner).unwrap().current()).collect()
}

fn bundle_of(journal: &[Entry], run: RunId) -> Bundle {
    let mut previous = chain::origin(run);
    let mut parts = Vec::new();
    let mut written = Vec::new();
    for entry in journal {
        let (body, more) = entry.split_shared_parts();
        parts.extend(more);
        previous = chain::link(&previous, entry.n, entry.at, &body);
        written.push(StoredEntry { n: entry.n, at: entry.at, body, hash: previous });
    }
    Bundle::new(run, written, parts, Vec::new()).unwrap()
}

fn recorded_bundle(script: &Script) -> Bundle {
    let (driver, _) = ScriptedDriver::new(script, false).run_to_end();
    bundle_of(&driver.journal, driver.run.id())
}

/// Recomputes the hash chain after a change, as a forger would.
fn with_recomputed_chain(mut bundle: Bundle) -> Bundle {
    let mut previous = chain::origin(bundle.run);
    for entry in &mut bundle.entries {
        previous = chain::link(&previous, entry.n, entry.at, &entry.body);
        entry.hash = previous;
    }
    bundle
}

#[test]
fn thousand_random_runs_replay_byte_for_byte() {
    for script in seeded_scripts(1000) {
        let bundle = recorded_bundle(&script);
        let text = bundle.to_text();
        let read = Bundle::parse(&text).unwrap();
        assert_eq!(read, bundle);
        assert_eq!(read.to_text(), text);
        assert_eq!(read.replay().unwrap(), None, "{text}");
    }
}

#[test]
fn edited_entry_breaks_the_chain_at_that_entry() {
    for (at, script) in seeded_scripts(50).iter().enumerate() {
        let bundle = recorded_bundle(script);
        let chosen = at * 7 % bundle.entries.len();
        let n = bundle.entries[chosen].n;
        let mut edited = bundle.clone();
        edited.entries[chosen].body.push(' ');
        assert!(matches!(Bundle::parse(&edited.to_text()), Err(InvalidBundle::BrokenChain { n: found }) if found == n));
    }
}

#[test]
fn replay_of_a_bundle_with_a_forged_entry_does_not_differ_before_that_entry() {
    let mut forged = 0;
    for script in seeded_scripts(200) {
        let bundle = recorded_bundle(&script);
        let changes =
            |entry: &StoredEntry| entry.body.contains("\"call_ended\"") || entry.body.contains("\"model_replied\"");
        for (at, entry) in bundle.entries.iter().enumerate().filter(|(_, entry)| changes(entry)) {
            let mut body: Value = serde_json::from_str(&entry.body).unwrap();
            if let Some(envelope) = body.get_mut("envelope") {
                envelope["t_end"] = json!("2031-01-01T00:00:00Z");
            } else {
                body["reply"]["content"] = json!("something else");
            }
            let mut other = bundle.clone();
            other.entries[at].body = body.to_string();
            let divergence = Bundle::parse(&with_recomputed_chain(other).to_text()).unwrap().replay().unwrap();
            // A changed entry does not alter the run if a limit or the end of the run discards its content.
            if let Some(divergence) = divergence {
                assert!(divergence.entry >= entry.n || divergence.entry == 0, "{divergence} before {}", entry.n);
                if body.get("envelope").is_some() {
                    assert_eq!(divergence.entry, entry.n, "{divergence}");
                }
                forged += 1;
            }
        }
    }
    assert!(forged >= 50, "only {forged} forgeries diverged");
}

#[test]
fn error_of_an_invalid_bundle_states_the_problem() {
    let text = recorded_bundle(&seeded_scripts(1)[0]).to_text();
    let lines: Vec<&str> = text.lines().collect();
    let without = |at: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n")
    };
    let entries: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("{\"entry\"")).collect();
    let mut swapped = lines.clone();
    swapped.swap(entries[0], entries[1]);
    let table = [
        (String::new(), "the bundle is incomplete: it is empty"),
        ("{}".to_owned(), "line 1: not a bundle: the field `bundle` is missing"),
        ("hello".to_owned(), "line 1: not a bundle: the line is not JSON"),
        (
            text.replacen("\"bundle\":1", "\"bundle\":2", 1),
            "the bundle has format version 2, which this release does not support",
        ),
        (without(lines.len() - 1), "the bundle is incomplete: the outcome is missing"),
        (without(entries[0]), "entry 1 was changed, moved or dropped: the hash chain breaks there"),
        (without(*entries.last().unwrap()), "the bundle is incomplete: the entries do not match the header"),
        (swapped.join("\n"), "entry 1 was changed, moved or dropped: the hash chain breaks there"),
        (format!("{text}{text}"), "unexpected line after the outcome"),
        (text.replacen("{\"entry\":1", "{\"what\":1", 1), "must have one of the fields"),
        (text.get(..text.len() / 2).unwrap_or_default().to_owned(), "line "),
    ];
    for (text, expected) in table {
        let error = Bundle::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "got `{error}`, expected `{expected}`");
    }
}

#[test]
fn bundle_with_a_missing_or_changed_part_is_rejected() {
    let mut journal = Vec::new();
    let script = &seeded_scripts(1)[0];
    let (driver, _) = ScriptedDriver::new(script, false).run_to_end();
    journal.extend(driver.journal.iter().cloned());
    let toolwright_machine::journal::EntryBody::Started(start) = &mut journal[0].body else {
        panic!("the first entry is not the start")
    };
    let long = "Be kind. ".repeat(100);
    std::sync::Arc::make_mut(&mut start.spec.request.messages)
        .insert(0, toolwright_types::Message::System { content: long.clone() });
    let bundle = bundle_of(&journal, driver.run.id());
    assert_eq!(bundle.parts.len(), 1, "a long message is a shared part");
    assert!(!bundle.entries[0].body.contains(&long));
    assert_eq!(Bundle::parse(&bundle.to_text()).unwrap().replay().unwrap(), None);

    let mut missing = bundle.clone();
    missing.parts.clear();
    assert!(Bundle::parse(&missing.to_text()).unwrap_err().to_string().contains("is missing"));

    let mut changed = bundle.clone();
    changed.parts[0].body = changed.parts[0].body.replace("kind", "mean");
    assert!(Bundle::parse(&changed.to_text()).unwrap_err().to_string().contains("was changed"));

    let mut blob = bundle;
    let bytes = toolwright_machine::journal::bundle::AttachedBlob { id: "00-aa".into(), base64: "AAAA".into() };
    blob.blobs.push(bytes);
    assert!(matches!(Bundle::parse(&blob.to_text()), Err(InvalidBundle::Blob(_))));
}
