//! Tests the CLI against a real server: exit codes, JSON output and text output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::{BINARY, Server};

#[test]
fn doctor_reports_failing_checks_with_a_remedy() {
    let server = Server::start();
    let healthy = server.run(&["doctor"]).expect_exit(0);
    for check in [
        "✓ reachable",
        "✓ ready",
        "✓ key        authenticated as admin in realm default (admin)",
        "✓ version",
        "✓ clock",
    ] {
        assert!(healthy.out.contains(check), "{check}: {}", healthy.out);
    }
    let checks = server.run(&["doctor", "--json"]).expect_exit(0).json();
    assert_eq!((checks["ok"].clone(), checks["checks"].as_array().unwrap().len()), (json!(true), 5));

    let unauthenticated = server.run(&["--api-key", "not-a-key-of-this-server", "doctor"]).expect_exit(4);
    assert!(unauthenticated.out.contains("✗ key"), "{}", unauthenticated.out);
    assert!(unauthenticated.out.contains("TOOLWRIGHT_API_KEY"), "{}", unauthenticated.out);
    let unreachable = server.run(&["--url", "http://127.0.0.1:1", "doctor"]).expect_exit(7);
    assert!(
        unreachable.out.contains("✗ reachable") && unreachable.out.contains("toolwright serve"),
        "{}",
        unreachable.out
    );
}

#[test]
fn tools_can_be_listed_and_shown() {
    let server = Server::start();
    let table = server.run(&["tools", "list", "--category", "crm.deals"]).expect_exit(0);
    assert!(table.out.starts_with("NAME"), "{}", table.out);
    assert!(table.out.contains("hubspot/search-deals") && !table.out.contains("orders/get"), "{}", table.out);
    assert!(!table.out.contains(['\t', '\u{1b}']), "output to a pipe is plain text");

    let page = server.run(&["tools", "list", "--limit", "3", "--json"]).expect_exit(0).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    assert!(page["nextCursor"].is_string());
    let whole = server.run(&["tools", "list", "--limit", "3", "--all", "--json"]).expect_exit(0).json();
    assert_eq!((whole["items"].as_array().unwrap().len(), &whole["nextCursor"]), (30, &Value::Null));
    assert!(server.run(&["tools", "list", "--limit", "3"]).expect_exit(0).err.contains("--all"));
    assert!(server.run(&["tools", "list", "--builtin"]).expect_exit(0).out.contains("calculator"));

    let shown = server.run(&["tools", "get", "hubspot/get-deal"]).expect_exit(0);
    assert!(shown.out.starts_with("hubspot/get-deal@1.0.0  active\n"), "{}", shown.out);
    assert!(shown.out.contains("dealId     string  yes"), "{}", shown.out);
    let tool = server.run(&["tools", "get", "hubspot/get-deal", "--version", "1.0.0", "--json"]).expect_exit(0).json();
    assert_eq!(tool["refName"], "hubspot/get-deal");
}

#[test]
fn failed_command_reports_exit_code_error_code_and_documentation_link() {
    let server = Server::start();
    let missing = server.run(&["tools", "get", "no/such"]).expect_exit(3);
    assert!(missing.err.starts_with("error[not-found]: "), "{}", missing.err);
    assert!(missing.err.contains("/errors/not-found"), "{}", missing.err);
    assert_eq!(missing.out, "");
    let problem = server.run(&["tools", "get", "no/such", "--json"]).expect_exit(3).json();
    assert_eq!(problem["code"], "not-found");

    let unauthenticated = server.run(&["--api-key", "", "tools", "list"]).expect_exit(4);
    assert!(
        unauthenticated.err.contains("error[unauthenticated]") && unauthenticated.err.contains("TOOLWRIGHT_API_KEY"),
        "{}",
        unauthenticated.err
    );
    assert!(server.run(&["--realm", "elsewhere", "tools", "list"]).expect_exit(4).err.contains("error[forbidden]"));
    server.run(&["tools", "list", "--limit", "1000"]).expect_exit(2);
    server.run(&["tools", "run", "echo", "--input", "{"]).expect_exit(2);
    server.run(&["tools", "run", "echo", "--version", "nonsense"]).expect_exit(6);
    let unreachable = server.run(&["--url", "http://127.0.0.1:1", "tools", "list"]).expect_exit(7);
    assert!(unreachable.err.contains("error[unreachable]"), "{}", unreachable.err);
    assert!(server.run(&["--help"]).expect_exit(0).out.contains("Exit codes:"));
}

#[test]
fn tools_run_command_prints_the_output_or_the_error_of_the_call() {
    let server = Server::start();
    // `dealId` is a string in the tool's input schema, so the CLI sends `101` as a string and not as a number.
    let deal = server.run(&["tools", "run", "hubspot/get-deal", "-p", "dealId=101"]).expect_exit(0);
    let (headline, output) = deal.out.split_once('\n').unwrap();
    assert!(headline.starts_with("✓ hubspot/get-deal@1.0.0  ") && headline.ends_with(" ms  attempt 1"), "{headline}");
    assert_eq!(serde_json::from_str::<Value>(output).unwrap()["id"], "101");

    let envelope =
        server.run(&["tools", "run", "orders/get", "-p", "orderId=ord-1001", "--json"]).expect_exit(0).json();
    assert_eq!((&envelope["name"], &envelope["output"]["id"]), (&json!("orders/get"), &json!("ord-1001")));
    server.run(&["tools", "run", "hubspot/deal-stages"]).expect_exit(0);
    assert!(
        server
            .run(&["tools", "run", "hubspot/deal-stages"])
            .expect_exit(0)
            .out
            .lines()
            .next()
            .unwrap()
            .ends_with("  cached")
    );

    let wrong = server.run(&["tools", "run", "hubspot/get-deal", "--input", r#"{"dealId": 7}"#]).expect_exit(1);
    assert!(wrong.out.starts_with("✗ hubspot/get-deal  VALIDATION_ERROR  "), "{}", wrong.out);
    assert_eq!(wrong.out.matches("/dealId: 7 is not").count(), 1, "{}", wrong.out);
    let envelope = server.run(&["tools", "run", "hubspot/get-deal", "-p", "dealId=x", "--json"]).expect_exit(1).json();
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR");
    server.run(&["tools", "run", "no/such"]).expect_exit(3);
}

#[test]
fn tool_input_can_come_from_a_file_from_stdin_or_from_flags() {
    let server = Server::start();
    let file = server.folder.path().join("input.json");
    std::fs::write(&file, r#"{"a": {"x": 1, "y": 2}}"#).unwrap();
    let from_file = format!("@{}", file.display());
    let echo = ["tools", "run", "echo", "--json", "--input"];
    let merged =
        server.run(&[&echo[..], &[&from_file, "-p", "a.x=9", "-p", "a.z=text"]].concat()).expect_exit(0).json();
    assert_eq!(merged["output"], json!({ "a": { "x": 9, "y": 2, "z": "text" } }));
    let piped = server.run_with_stdin(&[&echo[..], &["-"]].concat(), r#"{"from": "stdin"}"#).expect_exit(0).json();
    assert_eq!(piped["output"], json!({ "from": "stdin" }));

    let check = ["tools", "validate", "hubspot/get-deal"];
    assert!(
        server.run(&[&check[..], &["-p", "dealId=101"]].concat()).expect_exit(0).out.starts_with("✓ hubspot/get-deal")
    );
    let wrong = server.run(&check).expect_exit(1);
    assert!(wrong.out.starts_with("✗ hubspot/get-deal") && wrong.out.contains("dealId"), "{}", wrong.out);
    assert_eq!(server.run(&[&check[..], &["--json"]].concat()).expect_exit(1).json()["valid"], false);
}

#[test]
fn apply_updates_only_changed_definitions() {
    let server = Server::start();
    let folder = server.folder.path().join("definitions");
    let apply = ["tools", "apply", "-f", folder.to_str().unwrap()];
    write(
        &folder,
        "b/tools.yaml",
        "kind: tool\nrefName: a/first\ntoolType: FUNCTION\ndescription: one\ninvocation: { path: echo }\n---\nrefName: a/second\ntoolType: FUNCTION\ninvocation: { path: echo }\n",
    );
    write(&folder, "z/provider.json", r#"[{ "refName": "shop", "baseUrl": "https://shop.example" }]"#);

    let first = server.run(&apply).expect_exit(0);
    assert_eq!(first.out, "✓ created    provider shop\n✓ created    tool a/first\n✓ created    tool a/second\n");
    let again = server.run(&apply).expect_exit(0);
    assert_eq!(again.out, "= unchanged  provider shop\n= unchanged  tool a/first\n= unchanged  tool a/second\n");
    // In the new file, `a/first` has no description any more, and `a/second` has a version. Both differences must be
    // applied.
    write(
        &folder,
        "b/tools.yaml",
        "kind: tool\nrefName: a/first\ntoolType: FUNCTION\ninvocation: { path: echo }\n---\nversion: 2.0.0\nrefName: a/second\ntoolType: FUNCTION\ninvocation: { path: echo }\n",
    );
    let changed = server.run(&[&apply[..], &["--json"]].concat()).expect_exit(0).json();
    let outcomes: Vec<_> =
        changed["items"].as_array().unwrap().iter().map(|item| item["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["unchanged", "updated", "updated"]);
    assert!(server.run(&["tools", "get", "a/first", "--json"]).expect_exit(0).json().get("description").is_none());
    assert_eq!(server.run(&["tools", "get", "a/second", "--json"]).expect_exit(0).json()["version"], "2.0.0");

    let deleted = server.run(&["tools", "delete", "a/first", "no/such", "a/second"]).expect_exit(3);
    assert_eq!(deleted.out, "✓ deleted    a/first\n✓ deleted    a/second\n");
    assert!(deleted.err.contains("error[not-found]"), "{}", deleted.err);
}

#[test]
fn applying_the_demo_definitions_to_a_demo_server_changes_nothing() {
    let server = Server::start();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/demo")).unwrap();
    let files = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    // The demo changes the URL of its providers at every start, so `apply` would report the provider files as changed.
    // The CSV files contain records and not definitions.
    let is_definition = |file: &String| file.ends_with(".json") && !file.contains("/provider-");
    let tools: Vec<String> = files.filter(is_definition).collect();
    let args: Vec<&str> = ["tools", "apply", "-f"].into_iter().chain(tools.iter().map(String::as_str)).collect();
    let applied = server.run(&args).expect_exit(0);
    assert_eq!(applied.out.lines().count(), 24);
    assert!(applied.out.lines().all(|line| line.starts_with("= unchanged  ")), "{}", applied.out);
}

#[test]
fn apply_skips_an_invalid_definition_and_aborts_on_an_unrecognized_document() {
    let server = Server::start();
    let folder = server.folder.path().join("definitions");
    let apply = ["tools", "apply", "-f", folder.to_str().unwrap()];
    write(&folder, "bad.json", r#"{ "refName": "bad", "toolType": "FUNCTION", "nonsense": 1 }"#);
    write(&folder, "good.json", r#"{ "refName": "good", "toolType": "FUNCTION", "invocation": { "path": "echo" } }"#);
    let rejected = server.run(&apply).expect_exit(6);
    assert_eq!(rejected.out, "✓ created    tool good\n");
    assert!(rejected.err.contains("tool bad") && rejected.err.contains("bad.json:1"), "{}", rejected.err);
    assert!(
        rejected.err.contains("nonsense") && rejected.err.contains("error[invalid-definition]"),
        "{}",
        rejected.err
    );

    write(&folder, "later.yml", "refName: later\ntoolType: FUNCTION\ninvocation: { path: echo }\n---\nrefName: what\n");
    let unreadable = server.run(&apply).expect_exit(6);
    assert!(unreadable.err.contains("later.yml:5"), "{}", unreadable.err);
    assert_eq!(unreadable.out, "");
    server.run(&["tools", "get", "later"]).expect_exit(3);
}

#[test]
fn secret_values_are_never_printed() {
    let server = Server::start();
    let value = "s3cret-of-this-test";
    let set = server.run_with_stdin(&["secrets", "set", "shop-token"], &format!("{value}\n")).expect_exit(0);
    assert_eq!(set.out, "✓ secret shop-token set  scope realm  revision 1\n");
    let file = server.folder.path().join("value");
    std::fs::write(&file, value).unwrap();
    let from_file =
        ["secrets", "set", "shop-token", "--scope", "user", "--from-file", file.to_str().unwrap(), "--json"];
    assert_eq!(server.run(&from_file).expect_exit(0).json()["scope"], "user");
    server.run(&["secrets", "set", "other", "--from-env", "TOOLWRIGHT_API_KEY"]).expect_exit(0);
    server.run(&["secrets", "set", "other", "--from-env", "NO_SUCH_VARIABLE"]).expect_exit(2);
    server.run_with_stdin(&["secrets", "set", "other"], "").expect_exit(2);

    let listed = server.run(&["secrets", "list"]).expect_exit(0);
    assert!(listed.out.contains("shop-token") && !listed.out.contains(value), "{}", listed.out);
    server.run(&["secrets", "delete", "shop-token"]).expect_exit(0);
    server.run(&["secrets", "delete", "shop-token"]).expect_exit(3);
    server.run(&["secrets", "delete", "shop-token", "--scope", "user"]).expect_exit(0);
}

#[test]
fn created_api_key_is_the_only_output_and_authenticates_until_revoked() {
    let server = Server::start();
    let created = server
        .run(&["keys", "create", "--principal", "bot", "--role", "member", "--label", "ci", "--expires-in", "30d"])
        .expect_exit(0);
    let key = created.out.trim_end().to_owned();
    assert!(key.starts_with("tw_") && !key.contains(char::is_whitespace), "{}", created.out);
    assert!(created.err.contains(" for bot, expires "), "{}", created.err);
    assert!(
        server
            .run(&["--api-key", &key, "doctor"])
            .expect_exit(0)
            .out
            .contains("authenticated as bot in realm default (member)")
    );
    let rejected = server.run(&["--api-key", &key, "tools", "delete", "orders/get"]).expect_exit(4);
    assert!(rejected.err.contains("error[forbidden]"), "{}", rejected.err);

    let keys = server.run(&["keys", "list", "--json"]).expect_exit(0).json();
    let id = keys["items"][0]["id"].as_str().unwrap();
    assert!(server.run(&["keys", "list"]).expect_exit(0).out.contains("active"));
    server.run(&["keys", "revoke", id]).expect_exit(0);
    server.run(&["--api-key", &key, "tools", "list"]).expect_exit(4);
    assert!(server.run(&["keys", "list"]).expect_exit(0).out.contains("revoked"));
    server.run(&["keys", "create", "--expires-in", "soon"]).expect_exit(2);
    let other = server.run(&["keys", "create", "--principal", "bot", "--role", "admin"]).expect_exit(5);
    assert!(other.err.contains("error[duplicate]"), "{}", other.err);
}

#[test]
fn completions_of_every_shell_register_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::new(BINARY).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("COMPLETE") && script.contains("toolwright"), "{shell}");
    }
}

#[test]
fn completions_contain_commands_and_the_names_of_definitions_on_the_server() {
    let server = Server::start();
    let complete = |url: &str, words: &[&str]| {
        let output = Command::new(BINARY)
            .args(["--", "toolwright"])
            .args(words)
            .env("COMPLETE", "fish")
            .env("TOOLWRIGHT_URL", url)
            .env("TOOLWRIGHT_API_KEY", support::ADMIN_KEY)
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(complete(&server.url, &["pro"]).contains("prompt-fragments"));
    let tools = complete(&server.url, &["tools", "run", "hubspot/g"]);
    assert!(tools.contains("hubspot/get-deal") && !tools.contains("orders/get"), "{tools}");
    assert!(complete(&server.url, &["agents", "delete", "assistant", "as"]).contains("assistant"));
    assert_eq!(complete("http://127.0.0.1:1", &["tools", "run", "hub"]), "");
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn openapi_document_is_imported_as_tools() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    let document = "openapi: 3.0.3\ninfo: {title: Shop}\nservers: [{url: https://shop.example.com}]\npaths:\n  /pets:\n    get: {operationId: listPets, tags: [pets], summary: List pets}\n    post: {operationId: addPet, requestBody: {required: true, content: {image/png: {}}}}\n";
    std::fs::write(&file, document).unwrap();
    let file = file.to_str().unwrap();

    let dry_run = server.run(&["tools", "import", "openapi", file]).expect_exit(0);
    assert!(
        dry_run.out.contains("+ imported   shop/listPets")
            && dry_run.out.contains("(nothing was written; use --apply to write)"),
        "{}",
        dry_run.out
    );
    server.run(&["tools", "get", "shop/listPets"]).expect_exit(3);
    let done = server.run(&["tools", "import", "openapi", file, "--provider", "pets", "--apply"]).expect_exit(0);
    assert!(done.out.ends_with("1 imported, 0 updated, 0 unchanged, 1 skipped\n"), "{}", done.out);
    assert!(
        done.out.contains("- skipped    POST /pets: the request body must be JSON or a form, got image/png"),
        "{}",
        done.out
    );
    assert!(done.err.contains("! the document declares no authentication"), "{}", done.err);
    assert!(server.run(&["tools", "list", "--tag", "pets"]).expect_exit(0).out.contains("pets/listPets"));
    let report = server
        .run(&["tools", "import", "openapi", file, "--provider", "pets", "--tag", "none", "--json"])
        .expect_exit(0)
        .json();
    assert_eq!(report["imported"], json!([]));

    let rejected = server.run(&["tools", "import", "openapi", "http://127.0.0.1:1/openapi.json"]).expect_exit(6);
    assert!(rejected.err.starts_with("error[cannot-import]: "), "{}", rejected.err);
    server.run(&["tools", "import", "openapi", "no-such-file.yaml"]).expect_exit(2);
}

#[test]
fn deleting_a_tool_warns_about_the_agents_that_use_it() {
    let server = Server::start_without_demo(Vec::new());
    let tool = json!({ "refName": "find", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    let agent = json!({ "refName": "desk", "toolRefs": ["find"] });
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &tool.to_string()).expect_exit(0);
    server.run_with_stdin(&["agents", "apply", "-f", "-"], &agent.to_string()).expect_exit(0);
    let deleted = server.run(&["tools", "delete", "find"]).expect_exit(0);
    assert!(deleted.out.contains("deleted    find"), "{}", deleted.out);
    assert!(deleted.err.contains("warning: agent `desk` uses this tool"), "{}", deleted.err);
    let deleted = server.run(&["agents", "delete", "desk", "--json"]).expect_exit(0).json();
    assert_eq!(deleted["items"], json!([{ "ref": "desk", "outcome": "deleted" }]));
}
