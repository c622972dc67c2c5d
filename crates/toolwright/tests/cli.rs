//! The command line against a real server: exit codes, JSON for programs, text for people.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::{BINARY, Server};

#[test]
fn doctor_follows_the_way_to_a_working_call() {
    let server = Server::start();
    let healthy = server.run(&["doctor"]).exits(0);
    for check in
        ["✓ reachable", "✓ ready", "✓ key        you are admin in realm default (admin)", "✓ version", "✓ clock"]
    {
        assert!(healthy.out.contains(check), "{check}: {}", healthy.out);
    }
    let checks = server.run(&["doctor", "--json"]).exits(0).json();
    assert_eq!((checks["ok"].clone(), checks["checks"].as_array().unwrap().len()), (json!(true), 5));

    let stranger = server.run(&["--api-key", "not-a-key-of-this-server", "doctor"]).exits(4);
    assert!(stranger.out.contains("✗ key"), "{}", stranger.out);
    assert!(stranger.out.contains("TOOLWRIGHT_API_KEY"), "{}", stranger.out);
    let nobody = server.run(&["--url", "http://127.0.0.1:1", "doctor"]).exits(7);
    assert!(nobody.out.contains("✗ reachable") && nobody.out.contains("toolwright serve"), "{}", nobody.out);
}

#[test]
fn tools_are_listed_and_shown() {
    let server = Server::start();
    let table = server.run(&["tools", "list", "--category", "crm.deals"]).exits(0);
    assert!(table.out.starts_with("NAME"), "{}", table.out);
    assert!(table.out.contains("hubspot/search-deals") && !table.out.contains("orders/get"), "{}", table.out);
    assert!(!table.out.contains(['\t', '\u{1b}']), "plain text when it is not a terminal");

    let page = server.run(&["tools", "list", "--limit", "3", "--json"]).exits(0).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    assert!(page["nextCursor"].is_string());
    let whole = server.run(&["tools", "list", "--limit", "3", "--all", "--json"]).exits(0).json();
    assert_eq!((whole["items"].as_array().unwrap().len(), &whole["nextCursor"]), (25, &Value::Null));
    assert!(server.run(&["tools", "list", "--limit", "3"]).exits(0).err.contains("--all"));
    assert!(server.run(&["tools", "list", "--builtin"]).exits(0).out.contains("calculator"));

    let shown = server.run(&["tools", "get", "hubspot/get-deal"]).exits(0);
    assert!(shown.out.starts_with("hubspot/get-deal@1.0.0  active\n"), "{}", shown.out);
    assert!(shown.out.contains("dealId     string  yes"), "{}", shown.out);
    let tool = server.run(&["tools", "get", "hubspot/get-deal", "--version", "1.0.0", "--json"]).exits(0).json();
    assert_eq!(tool["refName"], "hubspot/get-deal");
}

#[test]
fn failures_have_numbers_codes_and_pages() {
    let server = Server::start();
    let missing = server.run(&["tools", "get", "no/such"]).exits(3);
    assert!(missing.err.starts_with("error[not-found]: "), "{}", missing.err);
    assert!(missing.err.contains("/errors/not-found"), "{}", missing.err);
    assert_eq!(missing.out, "");
    let problem = server.run(&["tools", "get", "no/such", "--json"]).exits(3).json();
    assert_eq!(problem["code"], "not-found");

    let nobody = server.run(&["--api-key", "", "tools", "list"]).exits(4);
    assert!(
        nobody.err.contains("error[unauthenticated]") && nobody.err.contains("TOOLWRIGHT_API_KEY"),
        "{}",
        nobody.err
    );
    assert!(server.run(&["--realm", "elsewhere", "tools", "list"]).exits(4).err.contains("error[forbidden]"));
    server.run(&["tools", "list", "--limit", "1000"]).exits(2);
    server.run(&["tools", "run", "echo", "--input", "{"]).exits(2);
    server.run(&["tools", "run", "echo", "--version", "nonsense"]).exits(6);
    let gone = server.run(&["--url", "http://127.0.0.1:1", "tools", "list"]).exits(7);
    assert!(gone.err.contains("error[unreachable]"), "{}", gone.err);
    assert!(server.run(&["--help"]).exits(0).out.contains("Exit codes:"));
}

#[test]
fn a_tool_is_called_and_its_receipt_shown() {
    let server = Server::start();
    // The schema wants text, so 101 is text.
    let deal = server.run(&["tools", "run", "hubspot/get-deal", "-p", "dealId=101"]).exits(0);
    let (headline, output) = deal.out.split_once('\n').unwrap();
    assert!(headline.starts_with("✓ hubspot/get-deal@1.0.0  ") && headline.ends_with(" ms  attempt 1"), "{headline}");
    assert_eq!(serde_json::from_str::<Value>(output).unwrap()["id"], "101");

    let envelope = server.run(&["tools", "run", "orders/get", "-p", "orderId=ord-1001", "--json"]).exits(0).json();
    assert_eq!((&envelope["name"], &envelope["output"]["id"]), (&json!("orders/get"), &json!("ord-1001")));
    server.run(&["tools", "run", "hubspot/deal-stages"]).exits(0);
    assert!(
        server.run(&["tools", "run", "hubspot/deal-stages"]).exits(0).out.lines().next().unwrap().ends_with("  cached")
    );

    let wrong = server.run(&["tools", "run", "hubspot/get-deal", "--input", r#"{"dealId": 7}"#]).exits(1);
    assert!(wrong.out.starts_with("✗ hubspot/get-deal  VALIDATION_ERROR  "), "{}", wrong.out);
    assert!(wrong.out.contains("\n  /dealId: "), "{}", wrong.out);
    let envelope = server.run(&["tools", "run", "hubspot/get-deal", "-p", "dealId=x", "--json"]).exits(1).json();
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR");
    server.run(&["tools", "run", "no/such"]).exits(3);
}

#[test]
fn an_input_comes_from_everywhere_and_can_be_checked_alone() {
    let server = Server::start();
    let file = server.folder.path().join("input.json");
    std::fs::write(&file, r#"{"a": {"x": 1, "y": 2}}"#).unwrap();
    let from_file = format!("@{}", file.display());
    let echo = ["tools", "run", "echo", "--json", "--input"];
    let merged = server.run(&[&echo[..], &[&from_file, "-p", "a.x=9", "-p", "a.z=text"]].concat()).exits(0).json();
    assert_eq!(merged["output"], json!({ "a": { "x": 9, "y": 2, "z": "text" } }));
    let piped = server.run_with(&[&echo[..], &["-"]].concat(), r#"{"from": "stdin"}"#).exits(0).json();
    assert_eq!(piped["output"], json!({ "from": "stdin" }));

    let check = ["tools", "validate", "hubspot/get-deal"];
    assert!(server.run(&[&check[..], &["-p", "dealId=101"]].concat()).exits(0).out.starts_with("✓ hubspot/get-deal"));
    let wrong = server.run(&check).exits(1);
    assert!(wrong.out.starts_with("✗ hubspot/get-deal") && wrong.out.contains("dealId"), "{}", wrong.out);
    assert_eq!(server.run(&[&check[..], &["--json"]].concat()).exits(1).json()["valid"], false);
}

#[test]
fn files_are_applied_once_and_again_only_when_they_change() {
    let server = Server::start();
    let folder = server.folder.path().join("definitions");
    let apply = ["tools", "apply", "-f", folder.to_str().unwrap()];
    write(
        &folder,
        "b/tools.yaml",
        "kind: tool\nrefName: a/first\ntoolType: FUNCTION\ndescription: one\ninvocation: { path: echo }\n---\nrefName: a/second\ntoolType: FUNCTION\ninvocation: { path: echo }\n",
    );
    write(&folder, "z/provider.json", r#"[{ "refName": "shop", "baseUrl": "https://shop.example" }]"#);

    let first = server.run(&apply).exits(0);
    assert_eq!(first.out, "✓ created    provider shop\n✓ created    tool a/first\n✓ created    tool a/second\n");
    let again = server.run(&apply).exits(0);
    assert_eq!(again.out, "= unchanged  provider shop\n= unchanged  tool a/first\n= unchanged  tool a/second\n");
    // A line that is gone from the file is a change too.
    write(
        &folder,
        "b/tools.yaml",
        "kind: tool\nrefName: a/first\ntoolType: FUNCTION\ninvocation: { path: echo }\n---\nversion: 2.0.0\nrefName: a/second\ntoolType: FUNCTION\ninvocation: { path: echo }\n",
    );
    let changed = server.run(&[&apply[..], &["--json"]].concat()).exits(0).json();
    let outcomes: Vec<_> =
        changed["items"].as_array().unwrap().iter().map(|item| item["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["unchanged", "updated", "updated"]);
    assert!(server.run(&["tools", "get", "a/first", "--json"]).exits(0).json().get("description").is_none());
    assert_eq!(server.run(&["tools", "get", "a/second", "--json"]).exits(0).json()["version"], "2.0.0");

    let deleted = server.run(&["tools", "delete", "a/first", "no/such", "a/second"]).exits(3);
    assert_eq!(deleted.out, "✓ deleted    a/first\n✓ deleted    a/second\n");
    assert!(deleted.err.contains("error[not-found]"), "{}", deleted.err);
}

#[test]
fn definitions_that_the_server_has_already_are_unchanged() {
    let server = Server::start();
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/demo")).unwrap();
    let files = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    // Providers have another address at every start, and tables are no definitions.
    let defines = |file: &String| file.ends_with(".json") && !file.contains("/provider-");
    let tools: Vec<String> = files.filter(defines).collect();
    let args: Vec<&str> = ["tools", "apply", "-f"].into_iter().chain(tools.iter().map(String::as_str)).collect();
    let applied = server.run(&args).exits(0);
    assert_eq!(applied.out.lines().count(), 19);
    assert!(applied.out.lines().all(|line| line.starts_with("= unchanged  ")), "{}", applied.out);
}

#[test]
fn a_wrong_definition_stops_itself_and_a_wrong_file_stops_everything() {
    let server = Server::start();
    let folder = server.folder.path().join("definitions");
    let apply = ["tools", "apply", "-f", folder.to_str().unwrap()];
    write(&folder, "bad.json", r#"{ "refName": "bad", "toolType": "FUNCTION", "nonsense": 1 }"#);
    write(&folder, "good.json", r#"{ "refName": "good", "toolType": "FUNCTION", "invocation": { "path": "echo" } }"#);
    let refused = server.run(&apply).exits(6);
    assert_eq!(refused.out, "✓ created    tool good\n");
    assert!(refused.err.contains("tool bad") && refused.err.contains("bad.json (document 1)"), "{}", refused.err);
    assert!(refused.err.contains("nonsense") && refused.err.contains("error[invalid-definition]"), "{}", refused.err);

    write(&folder, "later.yml", "refName: later\ntoolType: FUNCTION\ninvocation: { path: echo }\n---\nrefName: what\n");
    let unread = server.run(&apply).exits(6);
    assert!(unread.err.contains("later.yml (document 2)"), "{}", unread.err);
    assert_eq!(unread.out, "");
    server.run(&["tools", "get", "later"]).exits(3);
}

#[test]
fn secrets_go_in_and_never_come_out() {
    let server = Server::start();
    let value = "s3cret-of-this-test";
    let set = server.run_with(&["secrets", "set", "shop-token"], &format!("{value}\n")).exits(0);
    assert_eq!(set.out, "✓ secret shop-token is set  scope realm  revision 1\n");
    let file = server.folder.path().join("value");
    std::fs::write(&file, value).unwrap();
    let from_file =
        ["secrets", "set", "shop-token", "--scope", "user", "--from-file", file.to_str().unwrap(), "--json"];
    assert_eq!(server.run(&from_file).exits(0).json()["scope"], "user");
    server.run(&["secrets", "set", "other", "--from-env", "TOOLWRIGHT_API_KEY"]).exits(0);
    server.run(&["secrets", "set", "other", "--from-env", "NO_SUCH_VARIABLE"]).exits(2);
    server.run_with(&["secrets", "set", "other"], "").exits(2);

    let listed = server.run(&["secrets", "list"]).exits(0);
    assert!(listed.out.contains("shop-token") && !listed.out.contains(value), "{}", listed.out);
    server.run(&["secrets", "remove", "shop-token"]).exits(0);
    server.run(&["secrets", "remove", "shop-token"]).exits(3);
    server.run(&["secrets", "remove", "shop-token", "--scope", "user"]).exits(0);
}

#[test]
fn a_key_is_printed_alone_works_and_can_be_revoked() {
    let server = Server::start();
    let made = server
        .run(&["keys", "create", "--principal", "bot", "--role", "member", "--label", "ci", "--expires-in", "30d"])
        .exits(0);
    let key = made.out.trim_end().to_owned();
    assert!(key.starts_with("tw_") && !key.contains(char::is_whitespace), "{}", made.out);
    assert!(made.err.contains("is a key of bot until "), "{}", made.err);
    assert!(server.run(&["--api-key", &key, "doctor"]).exits(0).out.contains("you are bot in realm default (member)"));
    let refused = server.run(&["--api-key", &key, "tools", "delete", "orders/get"]).exits(4);
    assert!(refused.err.contains("error[forbidden]"), "{}", refused.err);

    let keys = server.run(&["keys", "list", "--json"]).exits(0).json();
    let id = keys["items"][0]["id"].as_str().unwrap();
    assert!(server.run(&["keys", "list"]).exits(0).out.contains("active"));
    server.run(&["keys", "revoke", id]).exits(0);
    server.run(&["--api-key", &key, "tools", "list"]).exits(4);
    assert!(server.run(&["keys", "list"]).exits(0).out.contains("revoked"));
    server.run(&["keys", "create", "--expires-in", "soon"]).exits(2);
    let other = server.run(&["keys", "create", "--principal", "bot", "--role", "admin"]).exits(5);
    assert!(other.err.contains("error[duplicate]"), "{}", other.err);
}

#[test]
fn completions_know_the_whole_command_line() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::new(BINARY).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("serve") && script.contains("validate"), "{shell}");
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_description_of_an_api_becomes_tools() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    let document = "openapi: 3.0.3\ninfo: {title: Shop}\nservers: [{url: https://shop.example.com}]\npaths:\n  /pets:\n    get: {operationId: listPets, tags: [pets], summary: List pets}\n    post: {operationId: addPet, requestBody: {required: true, content: {image/png: {}}}}\n";
    std::fs::write(&file, document).unwrap();
    let file = file.to_str().unwrap();

    let tried = server.run(&["tools", "import", "openapi", file, "--dry-run"]).exits(0);
    assert!(
        tried.out.contains("+ imported   shop/listPets") && tried.out.contains("(nothing was written)"),
        "{}",
        tried.out
    );
    server.run(&["tools", "get", "shop/listPets"]).exits(3);
    let done = server.run(&["tools", "import", "openapi", file, "--provider", "pets"]).exits(0);
    assert!(done.out.ends_with("1 imported, 0 updated, 0 unchanged, 1 skipped\n"), "{}", done.out);
    assert!(done.out.contains("- skipped    POST /pets: its body is image/png"), "{}", done.out);
    assert!(done.err.contains("! the document asks for no authentication"), "{}", done.err);
    assert!(server.run(&["tools", "list", "--tag", "pets"]).exits(0).out.contains("pets/listPets"));
    let report = server
        .run(&["tools", "import", "openapi", file, "--provider", "pets", "--tag", "none", "--json"])
        .exits(0)
        .json();
    assert_eq!(report["imported"], json!([]));

    let refused = server.run(&["tools", "import", "openapi", "http://127.0.0.1:1/openapi.json"]).exits(6);
    assert!(refused.err.starts_with("error[cannot-import]: "), "{}", refused.err);
    server.run(&["tools", "import", "openapi", "no-such-file.yaml"]).exits(2);
}
