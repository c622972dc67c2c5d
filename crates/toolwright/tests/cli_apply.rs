//! Tests `toolwright apply` with apply sets, and `toolwright diff`, against a real server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::{CommandOutput, Server};

const TOOL: &str = "refName: shop/find\ntoolType: FUNCTION\ndescription: Finds an order.\ninvocation: { path: echo }\n";
const FRAGMENT: &str = "refName: shop/style\ncontent: |\n  Be brief.\n  Be polite.\n";
const AGENT: &str = "refName: shop/desk\nsystemPromptRefs: [shop/style]\ntoolRefs: [shop/find]\n";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Runs a command on a folder.
fn on(server: &Server, folder: &Path, args: &[&str]) -> CommandOutput {
    let (command, options) = args.split_first().unwrap();
    let mut all = vec![*command, "-f", folder.to_str().unwrap()];
    all.extend(options);
    server.run(&all)
}

fn outcomes(output: &CommandOutput) -> Vec<String> {
    let items = output.json()["items"].as_array().unwrap().clone();
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    items.iter().map(|item| format!("{} {}", text(item, "outcome"), text(item, "refName"))).collect()
}

#[test]
fn folder_with_a_tool_agent_and_fragment_is_applied_and_a_dry_run_writes_nothing() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tool.yaml", TOOL);
    write(folder.path(), "agent.yaml", &format!("{AGENT}---\n{FRAGMENT}"));
    let planned = on(&server, folder.path(), &["apply", "--dry-run"]).expect_exit(0);
    assert!(planned.out.contains("✓ created    fragment shop/style"), "{}", planned.out);
    assert!(planned.err.contains("dry run: nothing was written"), "{}", planned.err);
    server.run(&["tools", "get", "shop/find"]).expect_exit(3);

    on(&server, folder.path(), &["apply"]).expect_exit(0);
    let again = on(&server, folder.path(), &["apply", "--json"]).expect_exit(0);
    assert_eq!(outcomes(&again), ["unchanged shop/style", "unchanged shop/find", "unchanged shop/desk"]);
    let yaml = server.run(&["tools", "get", "shop/find", "--yaml"]).expect_exit(0).out;
    assert!(yaml.contains("refName: shop/find\n") && !yaml.contains("applySet"), "{yaml}");
    server.run(&["tools", "list", "--yaml", "--json"]).expect_exit(2);
    let missing = server.run(&["tools", "get", "no/such", "--yaml"]).expect_exit(3).out;
    assert!(missing.contains("code: not-found\n"), "{missing}");
}

#[test]
fn apply_warns_only_of_references_that_are_missing_at_its_end() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str, other: &str| {
        format!(
            "refName: {name}\ndescription: Sells.\ntoolType: FUNCTION\ncompensateToolRef: {other}\ninvocation: {{ path: echo }}\n"
        )
    };
    let tools = [tool("shop/add", "shop/remove"), tool("shop/remove", "shop/add"), tool("shop/pay", "shop/refund")];
    write(folder.path(), "tools.yaml", &tools.join("---\n"));
    let applied = on(&server, folder.path(), &["apply"]).expect_exit(0);
    assert_eq!(applied.err, "! shop/pay: no tool `shop/refund` exists yet\n", "{}", applied.out);
}

#[test]
fn prune_deletes_only_definitions_that_the_same_apply_set_created() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let foreign = json!({ "refName": "foreign", "content": "without a set" });
    server.run_with_stdin(&["apply", "-f", "-"], &foreign.to_string()).expect_exit(0);
    let other = json!({ "refName": "other", "content": "of another set" });
    server.run_with_stdin(&["apply", "-f", "-", "--set", "other"], &other.to_string()).expect_exit(0);
    write(folder.path(), "tool.yaml", TOOL);
    write(folder.path(), "agent.yaml", AGENT);
    write(folder.path(), "fragment.yaml", FRAGMENT);
    write(folder.path(), "foreign.yaml", "refName: foreign\ncontent: changed by the set\n");
    on(&server, folder.path(), &["apply", "--set", "shop", "--prune"]).expect_exit(0);

    for file in ["agent.yaml", "fragment.yaml", "foreign.yaml"] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    let expected = ["unchanged shop/find", "deleted shop/desk", "deleted shop/style"];
    let planned = on(&server, folder.path(), &["apply", "--set", "shop", "--prune", "--dry-run", "--json"]);
    assert_eq!(outcomes(&planned.expect_exit(0)), expected);
    let differences = on(&server, folder.path(), &["diff", "--set", "shop"]).expect_exit(1).out;
    assert!(differences.contains("- agent shop/desk  only on the server\n"), "{differences}");
    let pruned = on(&server, folder.path(), &["apply", "--set", "shop", "--prune", "--json"]).expect_exit(0);
    assert_eq!(outcomes(&pruned), expected);
    for name in ["foreign", "other"] {
        server.run(&["prompt-fragments", "get", name]).expect_exit(0);
    }
    server.run(&["prompt-fragments", "get", "shop/style"]).expect_exit(3);

    // Another set cannot change the definition, and a failure keeps the prune from deleting anything.
    write(folder.path(), "tool.yaml", &TOOL.replace("an order", "orders"));
    for options in [&["apply", "--set", "other", "--prune"][..], &["apply", "--set", "other", "--dry-run"]] {
        let refused = on(&server, folder.path(), options).expect_exit(5);
        assert!(refused.err.contains("error[other-apply-set]"), "{}", refused.err);
    }
    server.run(&["prompt-fragments", "get", "other"]).expect_exit(0);
    on(&server, folder.path(), &["apply", "--prune"]).expect_exit(2);
}

#[test]
fn diff_shows_changed_lines_and_its_exit_code_distinguishes_differences_from_errors() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tool.yaml", TOOL);
    write(folder.path(), "fragment.yaml", FRAGMENT);
    let created = on(&server, folder.path(), &["diff"]).expect_exit(1).out;
    assert!(created.contains("+ fragment shop/style  only in ") && created.contains("  +   Be polite.\n"), "{created}");
    on(&server, folder.path(), &["apply"]).expect_exit(0);
    let equal = on(&server, folder.path(), &["diff"]).expect_exit(0).out;
    assert_eq!(equal, "0 to create, 0 to update, 0 to delete, 2 unchanged\n");

    write(folder.path(), "fragment.yaml", &FRAGMENT.replace("polite", "friendly"));
    let changed = on(&server, folder.path(), &["diff"]).expect_exit(1).out;
    assert!(changed.contains("~ fragment shop/style  "), "{changed}");
    assert!(changed.contains("      Be brief.\n  -   Be polite.\n  +   Be friendly.\n"), "{changed}");
    let report = on(&server, folder.path(), &["diff", "--json"]).expect_exit(1).json();
    assert_eq!(report["items"][0]["changes"][0]["path"], "/content", "{report}");

    write(folder.path(), "tool.yaml", "refName: [\n");
    on(&server, folder.path(), &["diff"]).expect_exit(2);
    server.run(&["--url", "http://127.0.0.1:1", "diff", "-f", folder.path().to_str().unwrap()]).expect_exit(2);
}
