//! Tests `toolwright tools check` and `toolwright tools import mcp` against a real server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use serde_json::{Value, json};
use support::Server;

const CHECKS: [&str; 9] =
    ["definition", "name", "usage", "execution-mode", "invalid-input", "output", "ids", "failures", "run"];

fn define(server: &Server, tool: Value) {
    let stdin = tool.to_string();
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &stdin).expect_exit(0);
}

/// Returns the status and the detail of the check `name` of the first tool in the JSON output.
fn check<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let checks = report["items"][0]["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
    (found["status"].as_str().unwrap(), found["detail"].as_str().unwrap())
}

fn echo(name: &str, more: Value) -> Value {
    let mut tool = json!({ "refName": name, "toolType": "FUNCTION", "description": "Returns the input without a change.",
        "invocation": { "path": "echo" }, "inputJsonSchema": { "type": "object" }, "examples": [{ "input": { "a": 1 } }] });
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool
}

#[test]
fn tool_without_defects_passes_all_nine_checks() {
    let server = Server::start();
    define(&server, echo("fine", json!({ "sideEffects": "none" })));
    let report = server.run(&["tools", "check", "fine", "--json"]).expect_exit(0).json();
    assert_eq!((&report["ok"], &report["items"][0]["tool"]), (&json!(true), &json!("fine@1.0.0")), "{report}");
    let names: Vec<&str> =
        report["items"][0]["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, CHECKS);
    for name in CHECKS {
        assert_eq!(check(&report, name).0, "passed", "{report}");
    }
    let text = server.run(&["tools", "check", "fine", "hubspot/get-deal"]).expect_exit(0).out;
    assert!(text.starts_with("✓ fine@1.0.0\n  ✓ definition      valid, without warnings\n"), "{text}");
    assert!(text.contains("  ✓ run             COMPLETED, with an intact journal\n"), "{text}");
    assert!(text.ends_with("2 tools checked, 0 failed\n"), "{text}");
    server.run(&["tools", "check", "no/such"]).expect_exit(3);
    server.run(&["tools", "check"]).expect_exit(2);
}

#[test]
fn tool_that_writes_is_called_only_with_the_writes_option() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, echo("note", json!({ "sideEffects": "writes" })));
    let runs = || server.run(&["runs", "list", "--json"]).expect_exit(0).json()["items"].as_array().unwrap().len();
    let report = server.run(&["tools", "check", "note", "--json"]).expect_exit(0).json();
    for name in ["execution-mode", "output", "ids", "run"] {
        assert_eq!(check(&report, name), ("skipped", "the tool writes; use --writes to call it"), "{report}");
    }
    assert_eq!(check(&report, "invalid-input").0, "passed", "{report}");
    assert_eq!(runs(), 0, "the tool was not called");
    let report = server.run(&["tools", "check", "note", "--writes", "--json"]).expect_exit(0).json();
    assert_eq!(check(&report, "run").0, "passed", "{report}");
    assert!(runs() > 0);
}

#[test]
fn output_check_of_a_tool_without_examples_is_skipped_unless_an_input_is_given() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, echo("look", json!({ "examples": [] })));
    let report = server.run(&["tools", "check", "--all", "--json"]).expect_exit(0).json();
    assert_eq!(check(&report, "output"), ("skipped", "the definition has no examples; use --input to call the tool"));
    let report = server.run(&["tools", "check", "--all", "--input", r#"{"a": 1}"#, "--json"]).expect_exit(0).json();
    assert_eq!(check(&report, "output").0, "passed", "{report}");
}

#[test]
fn client_tool_passes_the_check_and_leaves_no_waiting_run() {
    let server = Server::start_without_demo(Vec::new());
    define(&server, echo("open", json!({ "isToolFullyExecutedOnServer": false, "sideEffects": "reads" })));
    let report = server.run(&["tools", "check", "open", "--json"]).expect_exit(0).json();
    assert_eq!(check(&report, "execution-mode").0, "passed", "{report}");
    assert_eq!(check(&report, "run").1, "AWAITING_CLIENT, with an intact journal", "{report}");
    let runs = server.run(&["runs", "list", "--json"]).expect_exit(0).json();
    assert!(runs["items"].as_array().unwrap().iter().all(|run| run["status"] != "AWAITING_CLIENT"), "{runs}");
}

#[test]
fn each_defect_of_a_tool_fails_the_corresponding_check() {
    let server = Server::start_without_demo(Vec::new());
    let not_text = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let failing = json!({ "path": "python", "code": "result = unknown_name" });
    for (tool, name, detail) in [
        (echo("t1", json!({ "description": "t1" })), "usage", "say more than the name"),
        (echo("t2", json!({ "outputJsonSchema": not_text })), "output", "PROVIDER_ERROR"),
        (
            echo("t3", json!({ "verifyToolRef": "gone", "sideEffects": "writes" })),
            "definition",
            "no tool `gone` exists",
        ),
        (echo("t4", json!({ "invocation": failing })), "run", "must be COMPLETED"),
    ] {
        let reference = tool["refName"].as_str().unwrap().to_owned();
        define(&server, tool);
        let report = server.run(&["tools", "check", &reference, "--json"]).expect_exit(1).json();
        let (status, found) = check(&report, name);
        assert!(status == "failed" && found.contains(detail), "{reference}: {report}");
        assert_eq!((&report["ok"], &report["items"][0]["ok"]), (&json!(false), &json!(false)));
    }
    let text = server.run(&["tools", "check", "t1"]).expect_exit(1).out;
    assert!(text.starts_with("✗ t1@1.0.0\n") && text.contains("  ✗ usage "), "{text}");
}

#[test]
fn tools_of_an_mcp_server_are_imported() {
    let server = Server::start_with_env(vec![("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8".into())]);
    let peer = Server::start_with_flags(&["--mcp-fixtures"]);
    let url = format!("{}/mcp", peer.url);
    let preview = server.run(&["tools", "import", "mcp", &url, "--prefix", "peer/"]).expect_exit(0);
    assert!(preview.out.contains("+ imported   peer/") && preview.out.contains("use --apply"), "{}", preview.out);
    assert!(preview.out.contains("+ provider   provider mcp-127.0.0.1-"), "{}", preview.out);
    assert!(!server.run(&["tools", "list", "--all"]).expect_exit(0).out.contains("peer/"));
    server.run(&["providers", "list"]).expect_exit(0);
    let imported = server.run(&["tools", "import", "mcp", &url, "--prefix", "peer/", "--apply"]).expect_exit(0);
    assert!(imported.out.contains("+ provider   provider mcp-127.0.0.1-"), "{}", imported.out);
    assert!(imported.out.contains("+ imported   peer/"), "{}", imported.out);
    let again =
        server.run(&["tools", "import", "mcp", &url, "--prefix", "peer/", "--apply", "--json"]).expect_exit(0).json();
    assert_eq!((&again["imported"], &again["providerCreated"]), (&json!([]), &Value::Null), "{again}");

    for args in [&["tools", "import", "mcp"][..], &["tools", "import", "mcp", &url, "--command", "x"]] {
        server.run(args).expect_exit(2);
    }
    let failed = server.run(&["tools", "import", "mcp", "--command", "no-such-program-of-toolwright", "--arg", "-v"]);
    assert!(failed.err.starts_with("error["), "{}", failed.err);
}
