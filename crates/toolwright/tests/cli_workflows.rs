//! Tests the commands for workflows, their runs, step registrations and condition bindings against a real server, with the
//! examples of the documentation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};
use support::terminal::Terminal;
use support::{ADMIN_KEY, BINARY, CommandOutput, Server};

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

/// A tool that returns its input, and fails if the input has no `ok`.
const PICKY: &str = "refName: picky\ntoolType: FUNCTION\ndescription: Accepts ok.\ninvocation: { path: echo }\nsideEffects: none\ninputJsonSchema: { type: object, required: [ok] }\n";

/// Writes definitions that are given as YAML.
fn define(server: &Server, yaml: &str) {
    server.run_with_stdin(&["apply", "-f", "-"], yaml).expect_exit(0);
}

/// The commands that the output names to continue a run.
fn next_commands(out: &str) -> Vec<Vec<&str>> {
    let commands = out.lines().filter_map(|line| line.split_once("→ toolwright "));
    commands.map(|(_, command)| command.split(' ').collect()).collect()
}

/// The id of the run that the output names.
fn run_id(out: &str) -> &str {
    let at = out.find("run_").unwrap_or_else(|| panic!("no run id in {out}"));
    out[at..].split_whitespace().next().unwrap()
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
    for definition in [TOOL, REGISTRATION, CONDITION] {
        server.run_with_stdin(&["apply", "-f", "-"], definition).expect_exit(0);
    }
    std::fs::write(&file, format!("{CONDITION}---\n{}", WORKFLOW.replace("[load]", "[laod]"))).unwrap();
    let file = file.to_str().unwrap();
    let invalid = server.run(&["workflows", "check", file]).expect_exit(6);
    let place = format!("{file}:11  /steps/1/dependsOn/0: step `laod` does not exist");
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
    assert_eq!(blocks.len(), 9);
    for block in blocks {
        server.run_with_stdin(&["apply", "-f", "-"], block).expect_exit(0);
        let again = server.run_with_stdin(&["apply", "-f", "-"], block).expect_exit(0).out;
        assert!(again.lines().all(|line| line.starts_with("= unchanged")), "{again}");
    }
    for name in ["orders/fulfil", "orders/route", "orders/fetch", "orders/deliver", "orders/ask"] {
        server.run(&["workflows", "check", name]).expect_exit(0);
        let exported = server.run(&["workflows", "export", name]).expect_exit(0).out;
        let again = server.run_with_stdin(&["apply", "-f", "-"], &exported).expect_exit(0).out;
        assert!(again.starts_with("= unchanged"), "{again}");
    }
}

#[test]
fn run_prints_each_change_of_a_step_and_the_output() {
    let server = Server::start_without_demo(Vec::new());
    define(
        &server,
        "refName: shop/many\ninputSchema: { type: object, required: [ids] }\nsteps:\n- { name: load, handlerRef: echo, input: { ids: '${input.ids}' } }\n- { name: each, handlerRef: echo, dependsOn: [load], forEach: '${load.ids}', input: { id: '${item}' } }\n- { name: never, handlerRef: echo, dependsOn: [load], condition: '${size(input.ids) > 5}' }\noutput: { count: '${each == null ? 0 : size(each)}' }\n",
    );
    let args = ["workflows", "run", "shop/many", "--input", r#"{"ids": ["a", "b"]}"#];
    let run = server.run(&args).expect_exit(0);
    for expected in ["✓ load  COMPLETED  ", "✓ each  COMPLETED  ", "  2/2 items", "– never  SKIPPED"] {
        assert!(run.out.contains(expected), "{expected}: {}", run.out);
    }
    assert!(run.out.contains("✓ COMPLETED  2 completed, 1 skipped"), "{}", run.out);
    assert!(run.out.ends_with("\n\n{\n  \"count\": 2\n}\n"), "{}", run.out);
    let document = server.run(&[&args[..], &["--json"]].concat()).expect_exit(0).json();
    assert_eq!((&document["status"], &document["output"]), (&json!("COMPLETED"), &json!({ "count": 2 })));
    assert_eq!(document["steps"]["each"]["items"][1]["output"], json!({ "id": "b" }));

    let only = server.run(&[&args[..], &["--only", "load", "--json"]].concat()).expect_exit(0).json();
    assert_eq!(
        (&only["steps"]["load"]["status"], &only["steps"]["each"]["status"]),
        (&json!("COMPLETED"), &json!("SKIPPED"))
    );
    let input = server.folder.path().join("input.json");
    std::fs::write(&input, r#"{"ids": []}"#).unwrap();
    let from_file = format!("@{}", input.display());
    let run = server.run(&["workflows", "run", "shop/many", "--input", &from_file, "--durable"]).expect_exit(0).out;
    assert!(run.contains("✓ each  COMPLETED  ") && run.contains("0/0 items"), "{run}");
    server.run(&["workflows", "run", "shop/many"]).expect_exit(6);
    server.run(&["workflows", "run", "shop/many", "--version", "2.0.0"]).expect_exit(3);
    let missing = server.run(&["workflows", "run", "shop/manny"]).expect_exit(3);
    assert!(missing.err.contains("did you mean `shop/many`?"), "{}", missing.err);
}

#[test]
fn failed_run_names_the_error_and_is_retried_from_a_step_or_with_its_failed_items() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, PICKY);
    define(
        &server,
        "refName: shop/flaky\nsteps:\n- { name: first, handlerRef: echo, input: { n: 1 } }\n- { name: each, handlerRef: picky, dependsOn: [first], forEach: '${input.items}', input: '${item}' }\noutput: '${each}'\n",
    );
    let input = r#"{"items": [{"ok": 1}, {"no": 2}]}"#;
    let failed = server.run(&["workflows", "run", "shop/flaky", "--input", input]).expect_exit(1).out;
    for expected in
        ["✗ each  FAILED", "1/2 items  1 failed", "VALIDATION_ERROR: 1 of 2 items failed", "✗ ERROR  ", "step_failed"]
    {
        assert!(failed.contains(expected), "{expected}: {failed}");
    }
    let commands = next_commands(&failed);
    assert_eq!(commands, [["workflow-instances", "retry", run_id(&failed)]]);
    server.run(&commands[0]).expect_exit(1);

    define(&server, &PICKY.replace("[ok]", "[]"));
    let retried = server.run(&commands[0]).expect_exit(0).out;
    assert!(retried.contains("✓ first  COMPLETED  from the earlier run"), "{retried}");
    let id = run_id(&retried);
    let document = server.run(&["workflow-instances", "get", id, "--json"]).expect_exit(0).json();
    let attempts = |document: &Value| document["steps"]["each"]["attempts"].clone();
    assert_eq!((attempts(&document), &document["forkedFrom"]["runId"]), (json!(1), &json!(run_id(&failed))));
    let all = server.run(&[&commands[0][..], &["--all-items", "--json"]].concat()).expect_exit(0).json();
    assert_eq!(attempts(&all), json!(2));

    let nothing = server.run(&["workflow-instances", "retry", id]).expect_exit(6);
    assert!(nothing.err.contains("has no failed step"), "{}", nothing.err);
    let from = server.run(&["workflow-instances", "retry", id, "--from", "each", "--json"]).expect_exit(0).json();
    assert_eq!((&from["steps"]["first"]["reused"], attempts(&from)), (&json!(true), json!(2)));
    define(
        &server,
        "refName: shop/flaky\nsteps:\n- { name: first, handlerRef: echo, input: { n: 1 } }\n- { name: each, handlerRef: echo, dependsOn: [first], input: { new: true } }\noutput: '${each}'\n",
    );
    let latest = ["workflow-instances", "retry", id, "--only", "each", "--latest", "--json"];
    assert_eq!(server.run(&latest).expect_exit(0).json()["output"], json!({ "new": true }));
    server.run(&["workflow-instances", "retry", id, "--from", "each", "--only", "first"]).expect_exit(2);
}

#[test]
fn run_that_waits_prints_the_command_that_continues_it() {
    let server = Server::start_without_demo(Vec::new());
    // The first step waits, so the run sends no event.
    for durable in [true, false] {
        define(
            &server,
            &format!(
                "refName: shop/pay\ndurable: {durable}\nsteps:\n- {{ name: paid, handlerRef: quantum.flow.waitForSignal, input: {{ signal: order payment }} }}\n- {{ name: ship, handlerRef: echo, dependsOn: [paid], input: '${{paid}}' }}\n"
            ),
        );
        let waiting = server.run(&["workflows", "run", "shop/pay"]).expect_exit(8).out;
        assert!(waiting.contains("? paid  WAITING  waits for signal order payment"), "{waiting}");
        let command =
            format!("→ toolwright workflow-instances signal {} 'order payment' --data JSON", run_id(&waiting));
        assert!(waiting.contains(&command), "{waiting}");
        let signal = ["workflow-instances", "signal", run_id(&waiting), "order payment", "--data", r#"{"amount": 7}"#];
        let done = server.run(&signal).expect_exit(0).out;
        assert!(done.starts_with("✓ paid  quantum.flow.waitForSignal") && done.contains("\"amount\": 7"), "{done}");
        server.run(&signal).expect_exit(5);
    }

    define(
        &server,
        "refName: shop/ask\nsteps:\n- { name: ask, handlerRef: quantum.flow.approval, input: { message: Ship it? } }\n- { name: form, handlerRef: quantum.flow.form, dependsOn: [ask], input: { title: Which size? } }\noutput: '${form}'\n",
    );
    let waiting = server.run(&["workflows", "run", "shop/ask"]).expect_exit(8).out;
    assert!(
        waiting.contains("? ask waits for approval: quantum.flow.approval") && waiting.contains("Ship it?"),
        "{waiting}"
    );
    let commands = next_commands(&waiting);
    assert_eq!((commands.len(), commands[0][1], commands[1][1]), (2, "approve", "deny"));
    server.run(&commands[0]).expect_exit(8);
    let shown = server.run(&["workflow-instances", "get", run_id(&waiting)]).expect_exit(0).out;
    assert!(shown.contains("workflow  shop/ask@1.0.0") && shown.contains("? form waits for the client"), "{shown}");
    let commands = next_commands(&shown);
    let results: Vec<&str> =
        commands[0].iter().map(|word| if *word == "JSON" { r#"{"size": 4}"# } else { word }).collect();
    server.run(&results).expect_exit(0);
    let done = server.run(&["workflow-instances", "get", run_id(&waiting), "--json"]).expect_exit(0).json();
    assert_eq!(done["output"], json!({ "size": 4 }));
}

#[test]
fn run_that_waits_for_a_short_time_is_followed_and_one_that_waits_long_is_not() {
    let server = Server::start_without_demo(Vec::new());
    let sleep = |duration: &str| {
        format!(
            "refName: shop/sleep\nsteps:\n- {{ name: sleep, handlerRef: quantum.flow.sleep, input: {{ duration: {duration} }} }}\n"
        )
    };
    define(&server, &sleep("300ms"));
    let short = server.run(&["workflows", "run", "shop/sleep"]).expect_exit(0).out;
    assert!(short.contains("? sleep  WAITING  waits until ") && short.contains("✓ sleep  COMPLETED"), "{short}");
    define(&server, &sleep("1h"));
    let long = server.run(&["workflows", "run", "shop/sleep"]).expect_exit(8).out;
    let watch = format!("→ toolwright workflow-instances watch {}", run_id(&long));
    assert!(long.contains("? sleep continues at ") && long.contains(&watch), "{long}");
    let cancelled = server.run(&["workflow-instances", "cancel", run_id(&long)]).expect_exit(0).out;
    assert!(cancelled.contains("✗ CANCELLED"), "{cancelled}");
    server.run(&["workflow-instances", "watch", run_id(&long)]).expect_exit(1);
}

#[test]
fn run_is_listed_paused_resumed_and_started_without_waiting() {
    let server = Server::start_without_demo(Vec::new());
    define(
        &server,
        "refName: shop/pause\nsteps:\n- { name: wait, handlerRef: quantum.flow.waitForSignal, input: { signal: go } }\n- { name: after, handlerRef: echo, dependsOn: [wait] }\n",
    );
    let started = server.run(&["workflows", "run", "shop/pause", "--no-wait"]).expect_exit(0).out;
    let id = started.trim();
    let paused = server.run(&["workflow-instances", "pause", id]).expect_exit(8).out;
    assert!(
        paused.contains("… PAUSED") && paused.contains(&format!("→ toolwright workflow-instances resume {id}")),
        "{paused}"
    );
    server.run(&["workflow-instances", "signal", id, "go"]).expect_exit(8);
    let list = server
        .run(&["workflow-instances", "list", "--workflow", "shop/pause", "--status", "paused"])
        .expect_exit(0)
        .out;
    assert!(list.contains(id) && list.contains("PAUSED") && list.contains("shop/pause"), "{list}");
    let resumed = server.run(&["workflow-instances", "resume", id]).expect_exit(0).out;
    assert!(resumed.contains("✓ COMPLETED"), "{resumed}");
    let none = server.run(&["workflow-instances", "list", "--status", "paused"]).expect_exit(0);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "no workflow runs found\n"));
    server.run(&["workflow-instances", "get", "run_00000000000000000000000007"]).expect_exit(3);

    let second = server.run(&["workflows", "run", "shop/pause", "--no-wait", "--json"]).expect_exit(0).json();
    let second = second["runId"].as_str().unwrap();
    let sent = server.run(&["workflow-instances", "signal", second, "go", "--no-wait"]).expect_exit(0).out;
    assert_eq!(sent, format!("✓ {second} signalled\n"));
    let watched = server.run(&["workflow-instances", "watch", second]).expect_exit(0).out;
    assert!(watched.contains("✓ after  COMPLETED"), "{watched}");
}

#[test]
fn steps_are_drawn_in_place_in_a_terminal() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, PICKY);
    define(
        &server,
        "refName: shop/live\nsteps:\n- { name: load, handlerRef: echo, input: { ok: 1 } }\n- { name: paid, handlerRef: quantum.flow.waitForSignal, dependsOn: [load], input: { signal: pay } }\n- { name: each, handlerRef: picky, dependsOn: [load], forEach: [{ ok: 1 }, {}], input: '${item}', onError: continue }\n- { name: done, handlerRef: quantum.flow.join, dependsOn: [paid, each] }\noutput: { paid: '${paid}' }\n",
    );
    let started = server.run(&["workflows", "run", "shop/live", "--no-wait"]).expect_exit(0).out;
    let id = started.trim();
    let mut terminal = Terminal::start(&server, &["workflow-instances", "watch", id]);
    terminal.wait_for("✓ load    echo");
    terminal.wait_for("  ? paid  quantum.flow.waitForSignal  waits for signal pay");
    terminal.wait_for("  ✗ each  picky");
    terminal.wait_for("· done    quantum.flow.join");
    server.run(&["workflow-instances", "signal", id, "pay", "--data", "5"]).expect_exit(0);
    let shown = terminal.wait_for_exit(0);
    let last = &shown[shown.rfind("✓ load").unwrap()..];
    for expected in [
        "  ✓ paid  quantum.flow.waitForSignal",
        "1/2 items  1 failed",
        "✓ done    quantum.flow.join",
        "✓ COMPLETED",
        "\"paid\": 5",
    ] {
        assert!(last.contains(expected), "{expected}: {last}");
    }

    // The output of a started run in a terminal ends with the same tree.
    let shown = Terminal::start(&server, &["workflows", "run", "shop/live"]).wait_for_exit(8);
    assert!(shown.contains("  ? paid  quantum.flow.waitForSignal  waits for signal pay"), "{shown}");
    assert!(shown.contains("→ toolwright workflow-instances signal run_"), "{shown}");
}

#[test]
fn interrupted_run_is_cancelled() {
    let server = Server::start_without_demo(Vec::new());
    define(
        &server,
        "refName: shop/slow\nsteps:\n- { name: sleep, handlerRef: quantum.flow.sleep, input: { duration: 50s } }\n",
    );
    let mut child = server.spawn(&["workflows", "run", "shop/slow"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("? sleep  WAITING  waits until "), "{first}");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.starts_with("✗ CANCELLED")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// An agent that calls `picky` twice, first without the required `ok`, and has a pin for the result.
const PICKER: &str = r#"
refName: picker
toolRefs: [picky]
pins: [{ name: picked, selector: { tool: picky } }]
llmConfig:
  provider: scripted
  model: picker
  extraParams:
    script:
      rules:
      - when: { turn: 0 }
        reply: { toolCalls: [{ name: picky, arguments: { wrong: 1 } }] }
      - when: { turn: 1 }
        reply: { toolCalls: [{ name: picky, arguments: { ok: first-choice } }] }
      otherwise: { text: "I have chosen 1 of 2." }
"#;

#[test]
fn run_is_materialized_to_a_file_and_what_is_missing_is_reported() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, &format!("{PICKY}---\n{PICKER}"));
    let run = server.run(&["agents", "run", "picker", "Choose.", "--json"]).expect_exit(0).json();
    let run = run["runId"].as_str().unwrap();
    let file = server.folder.path().join("picked.yaml");
    let args = ["runs", "materialize", run, "--name", "picked", "-o", file.to_str().unwrap()];
    let made = server.run(&args).expect_exit(0);
    assert_eq!(made.out, format!("✓ wrote picked to {}\n", file.display()));
    let notes = normalized(&made.err);
    let expected = "1 of 1 call reproduced\nleft out: picky CALL failed and was called again (VALIDATION_ERROR)\n\
                    not reproduced: output is in no output of a call\n";
    assert_eq!(notes, expected);
    assert!(std::fs::read_to_string(&file).unwrap().contains("handlerRef: picky@=1.0.0"));
    server.run(&["workflows", "check", file.to_str().unwrap()]).expect_exit(0);
    server.run(&["workflows", "apply", "-f", file.to_str().unwrap()]).expect_exit(0);
    let executed = server.run(&["workflows", "run", "picked", "--json"]).expect_exit(0).json();
    assert_eq!(executed["output"], json!({ "ok": "first-choice" }));

    let pinned = server.run(&["runs", "materialize", run, "--pin", "picked", "--json"]).expect_exit(0).json();
    let call = pinned["report"]["steps"][0]["callId"].as_str().unwrap();
    let called = server.run(&["runs", "materialize", run, "--call", call]).expect_exit(0);
    assert_eq!(called.out, pinned["yaml"].as_str().unwrap());
    server.run(&["runs", "materialize", run, "--call", call, "--pin", "picked"]).expect_exit(2);
    server.run(&["runs", "materialize", run, "--pin", "other"]).expect_exit(6);
    server.run(&["runs", "materialize", run, "--name", "picked", "--save"]).expect_exit(5);
    server.run(&["tools", "delete", "picky"]).expect_exit(0);
    let invalid = server.run(&["runs", "materialize", run]).expect_exit(6);
    assert!(
        invalid.err.contains("error: /steps/0/handlerRef: no tool or step registration `picky`"),
        "{}",
        invalid.err
    );
}

/// A shell block of the page about workflows with the block after it: what it prints, or a part of the JSON that it prints.
struct DocumentedRun<'a> {
    script: &'a str,
    output: Option<&'a str>,
    response: Option<&'a str>,
}

fn documented_runs() -> Vec<DocumentedRun<'static>> {
    let text = include_str!("../../../docs/workflows.md");
    let blocks = text.split("<!-- run -->\n```sh\n").skip(1);
    let after = |text: &'static str, marker: &str| {
        let (_, rest) = text.split_once("\n```\n")?;
        let block = rest.trim_start().strip_prefix(marker)?;
        Some(block.split("```").next().unwrap())
    };
    let block = |text: &'static str| DocumentedRun {
        script: text.split("\n```\n").next().unwrap(),
        output: after(text, "<!-- output -->\n```text\n"),
        response: after(text, "<!-- response -->\n```json\n"),
    };
    blocks.map(block).collect()
}

/// Replaces ids and durations, which differ in each run, and removes the lines of running steps, which depend on the time.
fn normalized(text: &str) -> String {
    let text = Regex::new("run_[A-Z0-9]{26}").unwrap().replace_all(text, "RUN");
    let text = Regex::new("call_[a-z0-9]{26}").unwrap().replace_all(&text, "CALL");
    let text = Regex::new(r"\d+(\.\d)? m?s\b").unwrap().replace_all(&text, "TIME");
    text.lines().filter(|line| !line.starts_with('▸')).map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Asserts that each field of `expected` has the same value in `actual`.
fn assert_contains(actual: &Value, expected: &Value, path: &str) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            for (name, value) in expected {
                assert_contains(actual.get(name).unwrap_or(&Value::Null), value, &format!("{path}/{name}"));
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "{path}");
            for (at, (actual, expected)) in actual.iter().zip(expected).enumerate() {
                assert_contains(actual, expected, &format!("{path}/{at}"));
            }
        }
        _ => assert_eq!(normalized(&actual.to_string()), normalized(&expected.to_string()), "{path}"),
    }
}

#[test]
fn documented_runs_print_what_the_page_shows() {
    let server = Server::start_without_demo(Vec::new());
    for block in documented_definitions().iter().rev().take(4).rev() {
        define(&server, block);
    }
    let runs = documented_runs();
    assert_eq!(runs.len(), 9);
    assert!(runs.iter().all(|run| run.output.is_some() || run.response.is_some()));
    const END: &str = "=== end of block";
    let scripts: Vec<String> = runs.iter().map(|run| format!("{}\necho '{END}'\n", run.script)).collect();
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(BINARY).parent().unwrap();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &scripts.concat()])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap()))
        .env("TOOLWRIGHT_URL", &server.url)
        .env("TOOLWRIGHT_API_KEY", ADMIN_KEY)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for (run, printed) in runs.iter().zip(out.split(&format!("{END}\n"))) {
        if let Some(expected) = run.output {
            assert_eq!(normalized(printed), normalized(expected), "{}", run.script);
        }
        if let Some(expected) = run.response {
            let actual = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
            assert_contains(&actual, &serde_json::from_str(expected).unwrap(), "");
        }
    }

    // The table of the outputs of agent steps names every field.
    let asked = server.run(&["workflows", "run", "orders/ask", "--input", r#"{"order": "1"}"#, "--json"]);
    let asked = asked.expect_exit(0).json();
    let mut fields: Vec<&str> =
        asked["steps"]["ask"]["output"].as_object().unwrap().keys().map(String::as_str).collect();
    let text = include_str!("../../../docs/workflows.md");
    let table = text.split("<!-- agent outputs -->\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = table.lines().skip(2).map(|row| row.split('|').nth(1).unwrap());
    let mut documented: Vec<&str> =
        names.flat_map(|names| names.split(", ").map(|name| name.trim_matches([' ', '`']))).collect();
    fields.sort_unstable();
    documented.sort_unstable();
    assert_eq!(fields, documented);
}

const PETS: &str = "openapi: 3.1.0\ninfo: { title: Pets, version: 1.0.0 }\nservers: [{ url: https://pets.example }]\npaths: { /pets: { get: { operationId: listPets, responses: { 200: { description: ok } } } } }\n";
const ARAZZO: &str = "arazzo: 1.0.1\ninfo: { title: Pets, version: 1.0.0 }\nsourceDescriptions: [{ name: shop, url: files/pets.yaml }]\nworkflows:\n- workflowId: pets\n  steps: [{ stepId: list, operationId: listPets }]\n";

#[test]
fn arazzo_document_is_imported_and_its_export_is_imported_without_a_change() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (pets, arazzo) = (file("pets.yaml", PETS), file("arazzo.yaml", ARAZZO));
    let refused = server.run(&["workflows", "import", &arazzo]).expect_exit(6);
    assert!(refused.err.contains("error[cannot-import]") && refused.err.contains("listPets"), "{}", refused.err);
    server.run(&["tools", "import", "openapi", &pets, "--provider", "zoo", "--apply"]).expect_exit(0);
    let tool = server.run(&["tools", "export", "zoo/listPets"]).expect_exit(0).json();
    assert_eq!(tool["origin"]["document"], "pets.yaml", "the folder of the file is not sent: {tool}");

    let preview = server.run(&["workflows", "import", &arazzo]).expect_exit(0).out;
    let total = "1 imported, 0 updated, 0 unchanged, 0 skipped (nothing was written; use --apply to write)\n";
    assert_eq!(preview, format!("+ imported   pets\n{total}"));
    server.run(&["workflows", "get", "pets"]).expect_exit(3);
    server.run(&["workflows", "import", &arazzo, "--provider", "shop=zoo", "--apply"]).expect_exit(0);
    let exported = server.run(&["workflows", "export", "pets", "--format", "arazzo", "--yaml"]).expect_exit(0).out;
    assert!(exported.contains("operationId: listPets") && exported.contains("url: pets.yaml"), "{exported}");
    let again = server.run_with_stdin(&["workflows", "import", "-", "--apply"], &exported).expect_exit(0).out;
    assert_eq!(again, "0 imported, 0 updated, 1 unchanged, 0 skipped\n");
    let changed =
        server.run_with_stdin(&["workflows", "import", "-"], &exported.replace("version: 1.0.0", "version: 1.1.0"));
    assert!(changed.expect_exit(5).err.contains("--update"));

    server.run(&["workflows", "import", &arazzo, "--provider", "zoo"]).expect_exit(2);
    server.run(&["workflows", "export", "pets", "--arazzo-version", "1.1"]).expect_exit(2);
    server.run(&["workflows", "export", "pets", "--format", "arazzo", "--arazzo-version", "1.1"]).expect_exit(0);
}
