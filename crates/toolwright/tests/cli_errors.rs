//! Tests the error messages of the command line: they suggest similar names, name the lines of a file, and do not
//! repeat errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use serde_json::json;
use support::Server;

#[test]
fn unknown_name_is_reported_with_similar_names() {
    let server = Server::start();
    for (args, hint) in [
        (&["tools", "get", "hubspot/get-dael"][..], "did you mean `hubspot/get-deal`?"),
        (&["tools", "run", "calculater"], "did you mean `calculator`?"),
        (&["agents", "run", "asistant", "hello"], "did you mean `assistant`?"),
        (&["agents", "delete", "asistant"], "did you mean `assistant`?"),
        (&["providers", "get", "hubspott"], "did you mean `hubspot`?"),
        (&["records", "find", "Oder"], "did you mean `Order`?"),
    ] {
        let failed = server.run(args).expect_exit(3);
        assert!(failed.err.contains(&format!("  hint: {hint}\n")), "{args:?}: {}", failed.err);
    }
    assert!(!server.run(&["tools", "get", "nothing/like-it"]).expect_exit(3).err.contains("did you mean"));
    let called = server.run(&["tools", "run", "hubspot/get-deal", "-p", "dealID=101"]).expect_exit(1);
    assert!(called.err.contains("! the tool has no parameter `dealID`; did you mean `dealId`?\n"), "{}", called.err);
}

#[test]
fn error_names_the_commands_and_options_of_the_command_line() {
    let server = Server::start();
    let unknown = server.run(&["records", "count", "Oder"]).expect_exit(3).err;
    assert!(unknown.contains("`toolwright types list` lists the types") && !unknown.contains("rootTypes"), "{unknown}");
    // The harness sets the environment variables of the connection.
    let usage = server.run(&["runs", "approve"]).expect_exit(2).err;
    assert!(usage.contains("Usage: toolwright runs approve <RUN> <CALL>\n"), "{usage}");
    let usage = server.run(&["--realm", "default", "runs", "approve"]).expect_exit(2).err;
    assert!(!usage.contains("--api-key"), "{usage}");
    server.run(&["tools", "run", "echo", "-p", "a=1"]).expect_exit(0);
    let runs = server.run(&["runs", "list", "--json"]).expect_exit(0).json();
    let run = runs["items"][0]["id"].as_str().unwrap();
    server.run(&["approvals", "get", run, "call_x"]).expect_exit(3);
}

#[test]
fn each_mistake_in_definition_files_is_reported_once_with_its_line() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let yaml = write(
        "tools.yaml",
        "refName: fine\ntoolType: FUNCTION\ninvocation: { path: echo }\n---\nrefName: broken\ntoolType: NONSENSE\n\
         timeoutMs: soon\ninvocation:\n  path: echo\n  colour: red\n",
    );
    let json = write("tool.json", "{\n  \"refName\": \"other\",\n  \"toolType\": \"FUNCTION\",\n  \"color\": 1\n}\n");
    let failed = server.run(&["apply", "-f", &yaml, &json]).expect_exit(6);
    assert!(failed.out.contains("created    tool fine"), "{}", failed.out);
    for place in [
        "tools.yaml:6: /toolType: ",
        "tools.yaml:7: /timeoutMs: ",
        "tools.yaml:10: /invocation/colour: ",
        "tool.json:4: /color: ",
    ] {
        assert_eq!(failed.err.matches(place).count(), 1, "{place}: {}", failed.err);
    }
    assert_eq!(failed.err.matches("unknown field `color`").count(), 1, "{}", failed.err);
    assert!(failed.err.contains("error[invalid-definition]: the definition is not valid\n"), "{}", failed.err);

    let unparsed = write("unparsed.yaml", "refName: a\n---\nkind: nonsense\n---\na: [\n");
    let failed = server.run(&["apply", "-f", &unparsed]).expect_exit(6);
    assert!(failed.err.contains("found 3 errors in definition files"), "{}", failed.err);
    for place in ["unparsed.yaml:1: cannot determine", "unparsed.yaml:3: `kind` must be", "at line 6"] {
        assert!(failed.err.contains(place), "{place}: {}", failed.err);
    }
}

#[test]
fn unknown_parameter_of_a_short_form_schema_is_rejected_and_an_egress_address_is_stored_as_a_network() {
    let server = Server::start_without_demo(Vec::new());
    let tool = json!({ "refName": "short", "toolType": "FUNCTION", "invocation": { "path": "echo" },
        "inputSchema": { "text": { "type": "string" } } });
    server.run_with_stdin(&["apply", "-f", "-"], &tool.to_string()).expect_exit(0);
    server.run(&["tools", "run", "short", "-p", "text=a"]).expect_exit(0);
    let refused = server.run(&["tools", "run", "short", "-p", "txet=a"]).expect_exit(1);
    assert!(refused.out.contains("VALIDATION_ERROR") && refused.out.contains("txet"), "{}", refused.out);
    assert!(refused.err.contains("did you mean `text`?"), "{}", refused.err);

    let provider = json!({ "refName": "near", "baseUrl": "http://127.0.0.1:1", "egressAllow": ["127.0.0.1", "::1"] });
    server.run_with_stdin(&["apply", "-f", "-"], &provider.to_string()).expect_exit(0);
    let stored = server.run(&["providers", "get", "near", "--json"]).expect_exit(0).json();
    assert_eq!(stored["egressAllow"], json!(["127.0.0.1/32", "::1/128"]));
    server.run_with_stdin(&["diff", "-f", "-"], &provider.to_string()).expect_exit(0);
}

#[test]
fn version_and_overview_are_printed_and_blobs_are_downloaded() {
    let server = Server::start_without_demo(Vec::new());
    let version = server.run(&["version"]).expect_exit(0).out;
    assert!(version.starts_with("client  ") && version.contains(&format!("  {}\n", server.url)), "{version}");
    let offline = server.run(&["--url", "http://127.0.0.1:1", "version"]).expect_exit(7);
    assert!(offline.out.starts_with("client  "), "{}", offline.out);
    assert!(server.run(&[]).expect_exit(0).out.contains("Definitions:\n  apply"));

    let tool =
        json!({ "refName": "big", "toolType": "FUNCTION", "maxOutputBytes": 100, "invocation": { "path": "echo" } });
    server.run_with_stdin(&["apply", "-f", "-"], &tool.to_string()).expect_exit(0);
    let text = format!("text={}", "0123456789".repeat(50));
    let envelope = server.run(&["tools", "run", "big", "-p", &text, "--json"]).expect_exit(0).json();
    let url = envelope["attachments"][0]["url"].as_str().unwrap();
    let id = url.rsplit('/').next().unwrap();
    assert!(server.run(&["blobs", "get", url]).expect_exit(0).out.contains("0123456789"));
    let file = server.folder.path().join("blob");
    let written = server.run(&["blobs", "get", id, "-o", file.to_str().unwrap()]).expect_exit(0);
    assert!(written.out.starts_with("✓ wrote ") && std::fs::read(&file).unwrap().len() > 500, "{}", written.out);
    server.run(&["blobs", "get", "none", "-o", "-"]).expect_exit(3);
}
