//! Checks ARCHITECTURE.md against the manifests and the file system.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

type Dependencies = BTreeMap<String, BTreeSet<String>>;

#[test]
fn crate_dependencies_match_architecture_md() {
    let (documented, actual) = (documented_dependencies(), actual_dependencies());
    assert_eq!(documented, actual, "left: ARCHITECTURE.md, right: manifests");
}

#[test]
fn crate_dependencies_are_acyclic() {
    let dependencies = actual_dependencies();
    let mut placed = BTreeSet::new();
    while placed.len() < dependencies.len() {
        let ready: Vec<&String> = dependencies
            .iter()
            .filter(|(name, uses)| !placed.contains(*name) && uses.is_subset(&placed))
            .map(|(name, _)| name)
            .collect();
        assert!(!ready.is_empty(), "the dependencies of the crates have a cycle");
        let ready: Vec<String> = ready.into_iter().cloned().collect();
        placed.extend(ready);
    }
}

#[test]
fn rust_files_named_in_architecture_md_exist() {
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
            "ARCHITECTURE.md names `{name}`, which does not exist"
        );
    }
}

/// Reads the dependencies of each crate from the table of ARCHITECTURE.md with the columns `crate`, `owns` and `uses`.
fn documented_dependencies() -> Dependencies {
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

fn actual_dependencies() -> Dependencies {
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
