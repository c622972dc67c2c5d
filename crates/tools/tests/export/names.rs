//! Names of tools for providers.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use toolwright_tools::export::{mangle, snake_case, unmangle};
use toolwright_types::RefName;

fn name(text: &str) -> RefName {
    text.parse().unwrap()
}

#[test]
fn mangled_name_can_be_decoded() {
    for (canonical, wire, snake) in [
        ("echo", "echo", "echo"),
        ("search_Orders", "search_Orders", "search_orders"),
        ("sayHello", "sayHello", "say_hello"),
        ("HTTPRequest2", "HTTPRequest2", "http_request2"),
        ("hubspot-deal-manager", "hubspot-deal-manager", "hubspot_deal_manager"),
        ("hubspot/search-deals", "hubspot__search-deals", "hubspot_search_deals"),
        ("web.search", "web_-search", "web_search"),
        ("a_/b", "a___b", "a_b"),
        ("a_.b", "a__-b", "a_b"),
        ("mcp__git__log", "_mcp__git__log", "mcp_git_log"),
        ("mcp__git/log-all.v2", "_mcp__git-slog--all-dv2", "mcp_git_log_all_v2"),
        ("9lives", "_9lives", "tool_9lives"),
    ] {
        assert_eq!(mangle(&name(canonical)), wire);
        assert_eq!(unmangle(wire), Some(name(canonical)));
        assert_eq!(snake_case(&name(canonical)), snake);
    }
    for foreign in ["", "_", "__", "a__", "a.b", "a/b", "-a", "_a", "_-z", "a__b__c", "a_-_-", "ä"] {
        let read = unmangle(foreign);
        assert!(read.as_ref().is_none_or(|name| mangle(name) == foreign), "{foreign} is read as {read:?}");
    }
}

#[test]
fn names_of_up_to_six_characters_have_distinct_mangled_names() {
    let mut wires = HashMap::new();
    let mut level = vec![String::new()];
    for _ in 0..6 {
        level = level.iter().flat_map(|start| "a9_.-/sd".chars().map(move |c| format!("{start}{c}"))).collect();
        for name in level.iter().filter_map(|text| text.parse::<RefName>().ok()) {
            let wire = mangle(&name);
            assert_eq!(unmangle(&wire).as_ref(), Some(&name));
            assert_eq!(wires.insert(wire, name), None);
        }
        level.retain(|text| text.starts_with(|c: char| c.is_ascii_alphanumeric()));
    }
    assert!(wires.len() > 50_000);
}

#[test]
fn long_name_is_hashed_and_cannot_be_decoded() {
    let long = name(&format!("{}/{}", "n".repeat(60), "t".repeat(60)));
    let wire = mangle(&long);
    assert_eq!(wire.len(), 64);
    assert_eq!(unmangle(&wire), None);
}

fn ref_names() -> impl Strategy<Value = RefName> {
    let part = "[A-Za-z0-9][A-Za-z0-9_.-]{0,70}";
    let tricky = "[a9][a_.-]{0,8}(/[a9][a_.-]{0,8})?";
    prop_oneof![
        tricky.prop_map(|text| text),
        part.prop_map(|text| text),
        (part, part).prop_map(|(a, b)| format!("{a}/{b}"))
    ]
    .prop_filter_map("a refName", |text| text.parse().ok())
}

proptest! {
    #[test]
    fn mangled_names_are_distinct_and_valid_for_every_provider(names in prop::collection::btree_set(ref_names(), 1..60)) {
        let mut wires = BTreeSet::new();
        for name in &names {
            let wire = mangle(name);
            prop_assert!((1..=64).contains(&wire.len()));
            prop_assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
            prop_assert!(wire.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert!(unmangle(&wire).is_none_or(|read| read == *name));
            wires.insert(wire);
            let snake = snake_case(name);
            prop_assert!(snake.len() <= 64 && snake.starts_with(|c: char| c.is_ascii_lowercase()));
            prop_assert!(snake.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
        prop_assert_eq!(wires.len(), names.len());
    }

    #[test]
    fn unmangle_accepts_only_results_of_mangle(text in "\\PC{0,70}|[A-Za-z0-9_-]{0,70}") {
        if let Some(name) = unmangle(&text) {
            prop_assert_eq!(mangle(&name), text);
        }
    }
}
