//! Runs in files: replayed to the byte, and every change told where it is.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use toolwright_machine::journal::bundle::{Bundle, InvalidBundle, Written};
use toolwright_machine::journal::{Entry, chain};
use toolwright_types::RunId;

use crate::script::{Player, Script, scripts};

/// The same scripts in every run of the test.
fn seeded(count: usize) -> Vec<Script> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| scripts().new_tree(&mut runner).unwrap().current()).collect()
}

fn bundle_of(journal: &[Entry], run: RunId) -> Bundle {
    let mut previous = chain::origin(run);
    let mut parts = Vec::new();
    let mut written = Vec::new();
    for entry in journal {
        let (body, more) = entry.parted();
        parts.extend(more);
        previous = chain::link(&previous, entry.n, entry.at, &body);
        written.push(Written { n: entry.n, at: entry.at, body, hash: previous });
    }
    Bundle::of(run, written, parts, Vec::new()).unwrap()
}

fn recorded(script: &Script) -> Bundle {
    let (player, _) = Player::new(script, false).play();
    bundle_of(&player.journal, player.run.id())
}

/// The bundle with a chain that fits it again, as a forger would make it.
fn rechained(mut bundle: Bundle) -> Bundle {
    let mut previous = chain::origin(bundle.run);
    for entry in &mut bundle.entries {
        previous = chain::link(&previous, entry.n, entry.at, &entry.body);
        entry.hash = previous;
    }
    bundle
}

#[test]
fn a_thousand_mixed_runs_replay_to_the_byte() {
    for script in seeded(1000) {
        let bundle = recorded(&script);
        let text = bundle.text();
        let read = Bundle::read(&text).unwrap();
        assert_eq!(read, bundle);
        assert_eq!(read.text(), text);
        assert_eq!(read.replay().unwrap(), None, "{text}");
    }
}

#[test]
fn what_was_edited_by_hand_is_found_where_it_is() {
    for (at, script) in seeded(50).iter().enumerate() {
        let bundle = recorded(script);
        let chosen = at * 7 % bundle.entries.len();
        let n = bundle.entries[chosen].n;
        let mut edited = bundle.clone();
        edited.entries[chosen].body.push(' ');
        assert!(matches!(Bundle::read(&edited.text()), Err(InvalidBundle::Chain { n: found }) if found == n));
    }
}

#[test]
fn what_was_forged_with_its_hashes_diverges_where_it_is() {
    let mut forged = 0;
    for script in seeded(200) {
        let bundle = recorded(&script);
        let changes =
            |entry: &Written| entry.body.contains("\"call_ended\"") || entry.body.contains("\"model_replied\"");
        for (at, entry) in bundle.entries.iter().enumerate().filter(|(_, entry)| changes(entry)) {
            let mut body: Value = serde_json::from_str(&entry.body).unwrap();
            if let Some(envelope) = body.get_mut("envelope") {
                envelope["t_end"] = json!("2031-01-01T00:00:00Z");
            } else {
                body["reply"]["content"] = json!("something else");
            }
            let mut other = bundle.clone();
            other.entries[at].body = body.to_string();
            let divergence = Bundle::read(&rechained(other).text()).unwrap().replay().unwrap();
            // What a limit or the end of the run makes pointless changes nothing that anyone could see.
            if let Some(divergence) = divergence {
                assert!(divergence.entry >= entry.n || divergence.entry == 0, "{divergence} before {}", entry.n);
                if body.get("envelope").is_some() {
                    assert_eq!(divergence.entry, entry.n, "{divergence}");
                }
                forged += 1;
            }
        }
    }
    assert!(forged >= 50, "{forged} forgeries were tried");
}

#[test]
fn whatever_is_no_bundle_is_told_with_its_place() {
    let text = recorded(&seeded(1)[0]).text();
    let lines: Vec<&str> = text.lines().collect();
    let without = |at: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n")
    };
    let entries: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("{\"entry\"")).collect();
    let mut swapped = lines.clone();
    swapped.swap(entries[0], entries[1]);
    let table = [
        (String::new(), "the bundle is cut off: it is empty"),
        ("{}".to_owned(), "line 1: this is no bundle: its first line has no `bundle`"),
        ("hello".to_owned(), "line 1: this is no bundle: its first line is not JSON"),
        (text.replacen("\"bundle\":1", "\"bundle\":2", 1), "the bundle has form 2, which this release does not know"),
        (without(lines.len() - 1), "the bundle is cut off: it has no outcome"),
        (without(entries[0]), "entry 1 was changed, moved or dropped: the chain of hashes breaks there"),
        (without(*entries.last().unwrap()), "the bundle is cut off: its entries are not those that its header counts"),
        (swapped.join("\n"), "entry 1 was changed, moved or dropped: the chain of hashes breaks there"),
        (format!("{text}{text}"), "there is something behind the outcome"),
        (text.replacen("{\"entry\":1", "{\"what\":1", 1), "it is neither a part, a blob, an entry"),
        (text.get(..text.len() / 2).unwrap_or_default().to_owned(), "line "),
    ];
    for (text, expected) in table {
        let error = Bundle::read(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  is not\n{expected}");
    }
}

#[test]
fn a_part_or_blob_that_is_missing_or_changed_is_told() {
    let mut journal = Vec::new();
    let script = &seeded(1)[0];
    let (player, _) = Player::new(script, false).play();
    journal.extend(player.journal.iter().cloned());
    let toolwright_machine::journal::Recorded::Began(began) = &mut journal[0].what else { panic!("no beginning") };
    let long = "Be kind. ".repeat(100);
    std::sync::Arc::make_mut(&mut began.spec.request.messages)
        .insert(0, toolwright_types::Message::System { content: long.clone() });
    let bundle = bundle_of(&journal, player.run.id());
    assert_eq!(bundle.parts.len(), 1, "a long message is a part");
    assert!(!bundle.entries[0].body.contains(&long));
    assert_eq!(Bundle::read(&bundle.text()).unwrap().replay().unwrap(), None);

    let mut missing = bundle.clone();
    missing.parts.clear();
    assert!(Bundle::read(&missing.text()).unwrap_err().to_string().contains("is missing"));

    let mut changed = bundle.clone();
    changed.parts[0].body = changed.parts[0].body.replace("kind", "mean");
    assert!(Bundle::read(&changed.text()).unwrap_err().to_string().contains("was changed"));

    let mut blob = bundle;
    let bytes = toolwright_machine::journal::bundle::Attached { id: "00-aa".into(), base64: "AAAA".into() };
    blob.blobs.push(bytes);
    assert!(matches!(Bundle::read(&blob.text()), Err(InvalidBundle::Blob(_))));
}
