//! ARCHITECTURE.md is true: its table of crates is compared with the manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crates_depend_on_what_the_architecture_says() {
    let (documented, actual) = (documented(), actual());
    assert_eq!(documented, actual, "left: ARCHITECTURE.md, right: the manifests");
}

#[test]
fn arrows_point_down_only() {
    let edges = actual();
    let mut placed = BTreeSet::new();
    while placed.len() < edges.len() {
        let ready: Vec<&String> = edges
            .iter()
            .filter(|(name, uses)| !placed.contains(*name) && uses.is_subset(&placed))
            .map(|(name, _)| name)
            .collect();
        assert!(!ready.is_empty(), "the crates depend on each other in a circle");
        let ready: Vec<String> = ready.into_iter().cloned().collect();
        placed.extend(ready);
    }
}

#[test]
fn files_that_the_architecture_names_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let text = std::fs::read_to_string(format!("{root}ARCHITECTURE.md")).unwrap();
    for name in text.split('`').filter(|name| name.ends_with(".rs") && !name.contains(['{', ' '])) {
        let candidates = [
            format!("{root}{name}"),
            format!("{root}crates/{name}"),
            format!("{root}crates/tools/src/executor/{name}"),
            format!("{root}crates/tools/src/{name}"),
        ];
        assert!(
            candidates.iter().any(|path| std::path::Path::new(path).exists()),
            "ARCHITECTURE.md names `{name}`, which is not there"
        );
    }
}

/// The rows `| crate | owns | uses |`.
fn documented() -> Edges {
    let text = include_str!("../../../ARCHITECTURE.md");
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells.as_slice() else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        let uses =
            uses.split(',').filter_map(|used| used.trim().strip_prefix('`')?.strip_suffix('`')).map(str::to_owned);
        Some((name.to_owned(), uses.collect()))
    });
    rows.collect()
}

fn actual() -> Edges {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &str| name.strip_prefix("toolwright-").unwrap_or(name).to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let uses = package["dependencies"].as_array().unwrap().iter();
            let ours = uses.filter(|d| d["kind"].is_null() && d["name"].as_str().unwrap().starts_with("toolwright-"));
            (short(package["name"].as_str().unwrap()), ours.map(|d| short(d["name"].as_str().unwrap())).collect())
        })
        .collect()
}
