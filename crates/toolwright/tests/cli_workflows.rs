//! Tests the commands for workflows, step registrations and condition bindings against a real server, with the examples of
//! the documentation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use serde_json::json;
use support::{CommandOutput, Server};

const TOOL: &str = "refName: shop/find\ntoolType: FUNCTION\ndescription: Finds an order.\ninvocation: { path: echo }\n";
const REGISTRATION: &str = "name: find_order\ntoolRef: shop/find@^1\ninputMapping:\n  text: ${order}\n";
const CONDITION: &str = "name: is-large\ncondition: ${input.amount > 1000}\n";
const WORKFLOW: &str = "refName: shop/fulfil\ndescription: Fulfils an order.\nsteps:\n- name: load\n  handlerRef: find_order\n- name: review\n  handlerRef: echo\n  dependsOn: [load]\n  conditionRef: is-large\n  timeout: 60s\n";

/// The YAML blocks of the page about workflows that contain definitions.
fn documented_definitions() -> Vec<&'static str> {
    let text = include_str!("../../../docs/workflows.md");
    let blocks = text.split("<!-- definitions -->\n```yaml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

/// A folder with a workflow and everything that it uses. The file of the workflow comes first.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), WORKFLOW).unwrap();
    std::fs::write(folder.path().join("b.yaml"), format!("{CONDITION}---\n{REGISTRATION}---\n{TOOL}")).unwrap();
    folder
}

fn apply(server: &Server, folder: &tempfile::TempDir, options: &[&str]) -> CommandOutput {
    server.run(&[&["apply", "-f", folder.path().to_str().unwrap()], options].concat())
}

#[test]
fn folder_with_a_workflow_is_applied_in_the_order_of_dependencies() {
    let server = Server::start_without_demo(Vec::new());
    let folder = folder();
    let created = apply(&server, &folder, &["--set", "shop"]).expect_exit(0);
    assert_eq!(
        created.out,
        "✓ created    tool shop/find\n✓ created    step-registration find_order\n✓ created    condition-binding is-large\n✓ created    workflow shop/fulfil\n"
    );
    assert_eq!(created.err, "");
    let again = apply(&server, &folder, &[]).expect_exit(0).out;
    assert_eq!(again.matches("= unchanged").count(), 4, "{again}");
    let path = folder.path().to_str().unwrap();
    server.run(&["diff", "-f", path]).expect_exit(0);

    std::fs::write(folder.path().join("a.yaml"), WORKFLOW.replace("60s", "2m")).unwrap();
    let changed = server.run(&["diff", "-f", path]).expect_exit(1).out;
    assert!(changed.contains("~ workflow shop/fulfil") && changed.contains("-   timeout: 1m"), "{changed}");
    assert!(apply(&server, &folder, &[]).expect_exit(0).out.contains("✓ updated    workflow shop/fulfil"));

    std::fs::write(folder.path().join("b.yaml"), TOOL).unwrap();
    std::fs::write(folder.path().join("a.yaml"), "").unwrap();
    let pruned = apply(&server, &folder, &["--set", "shop", "--prune", "--json"]).expect_exit(0).json();
    let deleted: Vec<String> = pruned["items"].as_array().unwrap()[1..]
        .iter()
        .map(|item| format!("{} {}", item["outcome"].as_str().unwrap(), item["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(deleted, ["deleted workflow", "deleted condition-binding", "deleted step-registration"]);
}

#[test]
fn workflow_is_listed_shown_exported_and_deleted() {
    let server = Server::start_without_demo(Vec::new());
    let folder = folder();
    apply(&server, &folder, &[]).expect_exit(0);
    let list = server.run(&["workflows", "list"]).expect_exit(0).out;
    assert!(list.contains("shop/fulfil") && list.contains("Fulfils an order."), "{list}");
    let shown = server.run(&["workflows", "get", "shop/fulfil@^1"]).expect_exit(0).out;
    for expected in ["shop/fulfil@1.0.0  active", "find_order", "is-large", "load"] {
        assert!(shown.contains(expected), "{shown}");
    }
    let exported = server.run(&["workflows", "export", "shop/fulfil", "--yaml"]).expect_exit(0).out;
    assert!(exported.contains("refName: shop/fulfil\n") && !exported.contains("revision"), "{exported}");
    let applied = server.run_with_stdin(&["workflows", "apply", "-f", "-"], &exported).expect_exit(0).out;
    assert!(applied.contains("= unchanged  workflow"), "{applied}");

    let newer = WORKFLOW.replace("refName", "version: 2.0.0\nrefName");
    server.run_with_stdin(&["workflows", "apply", "-f", "-"], &newer).expect_exit(0);
    let versions = server.run(&["workflows", "versions", "shop/fulfil"]).expect_exit(0).out;
    assert!(versions.contains("2.0.0") && versions.contains("1.0.0"), "{versions}");
    let revisions = server.run(&["workflows", "revisions", "shop/fulfil", "--diff", "1", "2"]).expect_exit(0).out;
    assert!(revisions.contains("/version"), "{revisions}");
    let uses = server.run(&["tools", "uses", "shop/find"]).expect_exit(0).out;
    assert!(uses.contains("find_order"), "{uses}");

    let deleted = server.run(&["step-registrations", "delete", "find_order"]).expect_exit(0);
    assert!(deleted.err.contains("workflow `shop/fulfil` uses this step registration"), "{}", deleted.err);
    server.run(&["workflows", "delete", "shop/fulfil"]).expect_exit(0);
    let missing = server.run(&["workflows", "get", "shop/fulfi"]).expect_exit(3);
    assert!(missing.err.contains("not-found"), "{}", missing.err);
}

#[test]
fn step_registration_and_condition_binding_are_listed_shown_and_exported() {
    let server = Server::start_without_demo(Vec::new());
    apply(&server, &folder(), &[]).expect_exit(0);
    for (noun, name, expected) in [
        ("step-registrations", "find_order", "shop/find@^1"),
        ("condition-bindings", "is-large", "input.amount > 1000"),
    ] {
        for verb in [&[noun, "list"][..], &[noun, "get", name], &[noun, "export", name]] {
            let printed = server.run(verb).expect_exit(0).out;
            assert!(printed.contains(name) && printed.contains(expected), "{verb:?}: {printed}");
        }
        let exported = server.run(&[noun, "export", name]).expect_exit(0);
        assert_eq!(exported.json().get("refName"), None);
        let applied = server.run_with_stdin(&[noun, "apply", "-f", "-"], &exported.out).expect_exit(0).out;
        assert!(applied.contains("= unchanged"), "{applied}");
        server.run(&[noun, "revisions", name]).expect_exit(0);
        server.run(&[noun, "delete", name]).expect_exit(0);
        server.run(&[noun, "get", name]).expect_exit(3);
    }
}

#[test]
fn check_of_a_workflow_prints_the_lines_of_its_errors_and_writes_nothing() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.yaml");
    std::fs::write(&file, format!("{CONDITION}---\n{}", WORKFLOW.replace("[load]", "[laod]"))).unwrap();
    let file = file.to_str().unwrap();
    let invalid = server.run(&["workflows", "check", file]).expect_exit(6);
    let place = format!("{file}:11  /steps/1/dependsOn/0: must name a step of this workflow, got `laod`");
    assert!(invalid.out.contains("✗ shop/fulfil  1 error\n") && invalid.out.contains(&place), "{}", invalid.out);
    assert!(invalid.out.contains("did you mean `load`?") && invalid.out.contains("unknown_step"), "{}", invalid.out);
    let document = server.run(&["workflows", "check", file, "--json"]).expect_exit(6).json();
    let issue = &document["items"][0]["issues"][0];
    assert_eq!((&issue["line"], &issue["code"]), (&json!(11), &json!("unknown_step")), "{document}");
    server.run(&["workflows", "get", "shop/fulfil"]).expect_exit(3);

    server.run_with_stdin(&["workflows", "check", "-"], WORKFLOW).expect_exit(0);
    server.run_with_stdin(&["workflows", "apply", "-f", "-"], WORKFLOW).expect_exit(0);
    let valid = server.run(&["workflows", "check", "shop/fulfil"]).expect_exit(0).out;
    assert!(valid.starts_with("✓ shop/fulfil  valid"), "{valid}");
    server.run(&["workflows", "check", "no/such"]).expect_exit(3);
    let no_workflow = server.run_with_stdin(&["workflows", "check", "-"], CONDITION).expect_exit(2);
    assert!(no_workflow.err.contains("contains no workflow"), "{}", no_workflow.err);
}

#[test]
fn workflow_of_a_file_or_of_the_server_is_drawn_and_compared() {
    let server = Server::start_without_demo(Vec::new());
    let folder = folder();
    apply(&server, &folder, &[]).expect_exit(0);
    let file = folder.path().join("a.yaml");
    let file = file.to_str().unwrap();
    for (format, expected) in [("mermaid", "s0 --> s1"), ("dot", "s0 -> s1"), ("svg", "</svg>")] {
        let drawn = server.run(&["workflows", "graph", file, "--format", format]).expect_exit(0).out;
        assert!(drawn.contains(expected), "{drawn}");
        assert_eq!(server.run(&["workflows", "graph", "shop/fulfil", "--format", format]).expect_exit(0).out, drawn);
    }
    assert!(server.run(&["workflows", "graph", file]).expect_exit(0).out.starts_with("flowchart LR\n"));
    let unknown = server.run(&["workflows", "graph", file, "--format", "png"]).expect_exit(2);
    assert!(unknown.err.contains("must be `mermaid`, `dot` or `svg`, got `png`"), "{}", unknown.err);

    let equal = server.run(&["workflows", "diff", file, "shop/fulfil"]).expect_exit(0);
    assert_eq!((equal.out.as_str(), equal.err.as_str()), ("", "the workflows are equal\n"));
    std::fs::write(file, WORKFLOW.replace("60s", "2m").replace("dependsOn: [load]", "dependsOn: []")).unwrap();
    let changed = server.run(&["workflows", "diff", "shop/fulfil", file]).expect_exit(1).out;
    assert_eq!(changed, "~ step review\n  ~ timeout: \"1m\" → \"2m\"\n- edge load → review\n");
    let document = server.run(&["workflows", "diff", "shop/fulfil", file, "--json"]).expect_exit(1).json();
    assert_eq!((&document["equal"], &document["edges"][0]["change"]), (&json!(false), &json!("removed")), "{document}");
    server.run(&["workflows", "diff", "no/such", file]).expect_exit(2);
    std::fs::write(file, format!("{WORKFLOW}---\n{}", WORKFLOW.replace("shop/fulfil", "other"))).unwrap();
    let two = server.run(&["workflows", "graph", file]).expect_exit(2);
    assert!(two.err.contains("must contain one workflow, got 2"), "{}", two.err);
}

#[test]
fn definitions_in_the_documentation_are_valid_and_equal_after_an_export() {
    let server = Server::start();
    let blocks = documented_definitions();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        server.run_with_stdin(&["apply", "-f", "-"], block).expect_exit(0);
        let again = server.run_with_stdin(&["apply", "-f", "-"], block).expect_exit(0).out;
        assert!(again.lines().all(|line| line.starts_with("= unchanged")), "{again}");
    }
    for name in ["orders/fulfil", "orders/route", "orders/fetch"] {
        server.run(&["workflows", "check", name]).expect_exit(0);
        let exported = server.run(&["workflows", "export", name]).expect_exit(0).out;
        let again = server.run_with_stdin(&["apply", "-f", "-"], &exported).expect_exit(0).out;
        assert!(again.starts_with("= unchanged"), "{again}");
    }
}
