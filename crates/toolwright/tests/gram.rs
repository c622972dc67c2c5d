//! Tests the gram commands of the CLI: on files without a server, and on the definitions of a real server. Also tests
//! that one agent returns the same response over the CLI, the Rust API and REST.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{BINARY, CommandOutput, Server};
use toolwright_engine::{execute_agent_with_library, gram_response};
use toolwright_gram::{AgentResponse, parse};

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello_world.gram");

/// A temporary folder of files, in which gram commands run without a server.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs `toolwright gram …` in the folder. No server listens at the configured URL, so a command that sends
    /// requests fails.
    fn gram(&self, args: &[&str]) -> CommandOutput {
        let child = Command::new(BINARY)
            .arg("gram")
            .args(args)
            .current_dir(self.0.path())
            .env("TOOLWRIGHT_URL", "http://127.0.0.1:1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        CommandOutput::wait(args, child.unwrap())
    }
}

const DESK: &str = "[desk:Agent {instruction: \"Help.\", model: \"default\", delegateAgentRefs: [\"clerk\"]} |\n  lookUp, calculator]\n";
const CLERK: &str = r#"// Files documents.
[clerk:Agent {instruction: "File.", model: "default"} |
  [store:Tool {description: "Stores", sideEffects: "writes"} | (id::Int)==>(::Boolean)]
]
[lookUp:Tool {description: "Looks up"} | (id::Int)==>(::String)]
"#;

#[test]
fn gram_check_resolves_names_across_files_and_warns_about_unknown_tools() {
    let folder = Folder::new(&[("desk.gram", DESK), ("clerk.gram", CLERK)]);
    let checked = folder.gram(&["check", "."]).expect_exit(0);
    assert!(checked.out.starts_with("warning[undefined-reference]: "), "{}", checked.out);
    assert!(checked.out.contains("./desk.gram:2:11") && checked.out.contains("✓ 2 files OK"), "{}", checked.out);
    assert!(
        checked.out.contains("= the server must have a tool with this name when the agent runs"),
        "{}",
        checked.out
    );
    let json = folder.gram(&["check", "--json", "."]).expect_exit(0).json();
    assert_eq!((&json["ok"], &json["diagnostics"][0]["severity"]), (&json!(true), &json!("warning")));
    assert_eq!(json["diagnostics"].as_array().unwrap().len(), 1, "`lookUp` is defined in the other file");
}

#[test]
fn gram_check_reports_errors_with_their_position_and_error_code() {
    let folder = Folder::new(&[
        ("cut.gram", "[a:Agent {model: \"m\""),
        ("bare.gram", "[a:Agent {model: \"m\"}]"),
        ("odd.gram", &CLERK.replace("sideEffects", "effects")),
    ]);
    let cut = folder.gram(&["check", "cut.gram"]).expect_exit(6);
    assert!(cut.out.contains("--> cut.gram:1:21") && cut.out.contains('^'), "{}", cut.out);
    let found = folder.gram(&["check", "--json", "bare.gram"]).expect_exit(6).json();
    let first = &found["diagnostics"][0];
    assert_eq!((&found["ok"], &first["code"], &first["line"]), (&json!(false), &json!("invalid-agent"), &json!(1)));
    assert!(first["file"].as_str().unwrap().ends_with("bare.gram"));
    let odd = folder.gram(&["check", "--json", "odd.gram"]).expect_exit(6).json();
    let first = &odd["diagnostics"][0];
    assert_eq!(first["message"], "property `effects` of tool `store` is unknown");
    assert_eq!((&first["code"], &first["line"], &first["column"]), (&json!("invalid-tool"), &json!(3), &json!(3)));
    std::fs::write(folder.path("short.gram"), "(`ä`)\n(`ä`)->(b)").unwrap();
    let expected = json!({
        "file": "short.gram", "severity": "error", "code": "unexpected-token", "span": { "start": 13, "end": 15 },
        "line": 2, "column": 6, "end": { "line": 2, "column": 8 },
        "message": "expected an arrow, found `->`", "hint": "arrows have two strokes: `-->`",
    });
    let all = folder.gram(&["check", "--json", "short.gram"]).expect_exit(6).json();
    assert_eq!(all, json!({ "ok": false, "diagnostics": [expected] }));
    folder.gram(&["check", "none.gram"]).expect_exit(2);
    std::fs::write(folder.path("bytes.gram"), b"(a)\xff").unwrap();
    assert!(folder.gram(&["check", "bytes.gram"]).expect_exit(6).out.contains("invalid-utf8"));
}

#[test]
fn gram_fmt_lists_or_rewrites_unformatted_files() {
    let folder = Folder::new(&[("a.gram", "[a:Agent{instruction:\"x\",model:\"m\"}|t]//why\n"), ("b.gram", "(b)\n")]);
    let listed = folder.gram(&["fmt", "--check", "."]).expect_exit(1);
    assert_eq!(listed.out.trim_end(), "./a.gram");
    folder.gram(&["fmt", "."]).expect_exit(0);
    assert_eq!(folder.read("a.gram"), "[a:Agent {instruction: \"x\", model: \"m\"} | t] //why\n");
    assert_eq!(folder.gram(&["fmt", "--check", "."]).expect_exit(0).out, "");
    std::fs::write(folder.path("c.gram"), "(c").unwrap();
    let rejected = folder.gram(&["fmt", "."]).expect_exit(6);
    assert!(rejected.err.contains("error[invalid-gram]") && rejected.err.contains("c.gram:1:"), "{}", rejected.err);
}

#[test]
fn gram_files_can_be_queried_rewritten_and_compared() {
    let folder = Folder::new(&[("desk.gram", DESK), ("clerk.gram", CLERK)]);
    let query = r#"(agent:Agent)==>(tool:Tool {sideEffects: "writes", requiresConfirmation:: absent})"#;
    let found = folder.gram(&["query", query, "."]).expect_exit(0);
    assert_eq!(
        found.out, "agent=clerk  tool=store\nagent=desk  tool=store\n",
        "`desk` reaches `store` through `clerk`"
    );
    assert_eq!(found.err.trim_end(), "2 matches");
    let json = folder.gram(&["query", "--json", query, "clerk.gram"]).expect_exit(0).json();
    assert_eq!(json["matches"][0]["tool"]["subject"]["identity"], "store");
    folder.gram(&["query", "(a", "."]).expect_exit(6);

    std::fs::copy(folder.path("clerk.gram"), folder.path("clerk.old")).unwrap();
    let changes = ["rewrite", "(`desk`)==>(t:Tool {sideEffects: \"writes\"})", "(t {requiresConfirmation: true})"];
    let expected = CLERK.replace("\"writes\"", "\"writes\", requiresConfirmation: true");
    let printed = folder.gram(&[&changes[..], &["desk.gram", "clerk.gram"]].concat()).expect_exit(0);
    assert_eq!((printed.out, folder.read("clerk.gram")), (format!("{DESK}{expected}"), CLERK.to_owned()));
    let written = folder.gram(&[&changes[..], &[".", "--write"]].concat()).expect_exit(0);
    assert_eq!((written.out.as_str(), written.err.trim_end()), ("./clerk.gram\n", "1 changed"));
    assert_eq!(folder.read("clerk.gram"), expected, "comments and layout are kept");
    let changed = folder.gram(&["diff", "clerk.old", "clerk.gram"]).expect_exit(1);
    assert_eq!(changed.out, "clerk | store: added `requiresConfirmation` true\n");
    assert_eq!(folder.gram(&["diff", "desk.gram", "desk.gram"]).expect_exit(0).out, "");
    assert_eq!(folder.gram(&["query", query, "clerk.gram"]).expect_exit(0).out, "");
}

#[test]
fn input_schemas_are_derived_from_gram_files_and_signatures() {
    let folder = Folder::new(&[("clerk.gram", CLERK)]);
    let schemas = folder.gram(&["schema", "clerk.gram"]).expect_exit(0).json();
    assert_eq!(schemas["lookUp"]["properties"]["id"], json!({ "type": "integer" }));
    let one = folder.gram(&["schema", "--signature", "(personName::Text)==>(::String)"]).expect_exit(0).json();
    assert_eq!(one["required"], json!(["personName"]));
    assert!(folder.gram(&["schema", "--signature", "(a::X)==>(::String)"]).expect_exit(6).err.contains("unknown type"));
}

#[test]
fn second_gram_apply_of_a_file_changes_nothing_and_conflicts_are_reported() {
    let server = Server::start();
    let folder = Folder::new(&[("clerk.gram", CLERK), ("bad.gram", "[a:Agent {model: \"m\"}]")]);
    let file = |name: &str| folder.path(name).to_str().unwrap().to_owned();
    let path = file("clerk.gram");
    let dry = server.run(&["gram", "apply", &path, "--dry-run"]).expect_exit(0);
    assert_eq!(dry.out, "✓ created    agent clerk\n✓ created    tool store\n✓ created    tool lookUp\n");
    assert!(dry.err.contains("nothing was written"), "{}", dry.err);
    assert_eq!(server.run(&["gram", "apply", &path]).expect_exit(0).out, dry.out);
    let again = server.run(&["gram", "apply", &path]).expect_exit(0);
    assert!(again.out.lines().all(|line| line.starts_with("= unchanged")), "{}", again.out);
    assert_eq!(server.run(&["tools", "get", "store", "--json"]).expect_exit(0).json()["source"], "gram");
    std::fs::write(&path, "[store:Tool {description: \"Other\"} | (id::Int)==>(::Boolean)]").unwrap();
    let conflict = server.run(&["gram", "apply", &path]);
    assert!(conflict.err.contains("tool-in-use") && conflict.err.contains("agent `clerk`"), "{}", conflict.err);
    server.run(&["gram", "apply", &path, "--overwrite"]).expect_exit(0);
    let invalid = server.run(&["gram", "apply", &file("bad.gram")]).expect_exit(6);
    assert!(invalid.err.contains("invalid-gram") && invalid.err.contains("1:1"), "{}", invalid.err);
}

#[test]
fn applying_exported_gram_definitions_changes_nothing() {
    let server = Server::start();
    let folder = Folder::new(&[
        ("desk.gram", DESK),
        ("clerk.gram", CLERK),
        ("more.yaml", "refName: extra\ntoolType: FUNCTION\ninvocation: { path: echo }\n"),
    ]);
    let apply = ["agents", "apply", "-f", folder.0.path().to_str().unwrap()];
    let first = server.run(&apply).expect_exit(0);
    assert_eq!(
        first.out,
        "✓ created    tool extra\n✓ created    tool store\n✓ created    tool lookUp\n✓ created    agent clerk\n✓ created    agent desk\n"
    );
    assert!(first.err.contains("no function `store` is registered"), "a missing function is a warning: {}", first.err);
    let again = server.run(&apply).expect_exit(0);
    assert!(again.out.lines().all(|line| line.starts_with("= unchanged")), "{}", again.out);
    assert_eq!(
        server.run(&["agents", "get", "desk", "--json"]).expect_exit(0).json()["toolRefs"],
        json!(["lookUp", "calculator"])
    );

    let exported = server.run(&["tools", "export", "store", "--gram"]).expect_exit(0).out;
    assert_eq!(
        exported,
        "[store:ToolSpecification {description: \"Stores\", sideEffects: \"writes\"} |\n  (id::Integer)==>(::Boolean)\n]\n"
    );
    for (name, text) in [
        ("tool.gram", exported),
        ("agent.gram", server.run(&["agents", "export", "desk", "--gram", "--with-tools"]).expect_exit(0).out),
        ("agent.json", server.run(&["agents", "export", "clerk"]).expect_exit(0).out),
        ("rest.gram", server.run(&["tools", "export", "hubspot/search-deals", "--gram"]).expect_exit(0).out),
        ("demo.gram", server.run(&["agents", "export", "assistant", "--gram"]).expect_exit(0).out),
    ] {
        std::fs::write(folder.path(name), text).unwrap();
        let path = folder.path(name);
        let applied = server.run(&["tools", "apply", "-f", path.to_str().unwrap()]).expect_exit(0);
        assert!(
            applied.out.lines().all(|line| line.starts_with("= unchanged")),
            "{name}: {}\n{}",
            applied.out,
            folder.read(name)
        );
        if name.ends_with("gram") {
            folder.gram(&["check", name]).expect_exit(0);
        }
    }
    let text = folder.read("agent.gram");
    assert!(
        text.contains("[desk:Agent") && text.contains("[lookUp:ToolSpecification") && !text.contains("calculator:"),
        "{text}"
    );
    server.run(&["agents", "export", "nobody", "--gram"]).expect_exit(3);
}

#[test]
fn gram_is_applied_from_standard_input() {
    let server = Server::start();
    let apply = ["agents", "apply", "-f", "-"];
    let created = "✓ created    tool store\n✓ created    tool lookUp\n✓ created    agent clerk\n";
    assert_eq!(server.run_with_stdin(&apply, CLERK).expect_exit(0).out, created);
    let again = created.replace("✓ created  ", "= unchanged");
    let exported = server.run(&["agents", "export", "clerk", "--gram", "--with-tools"]).expect_exit(0).out;
    assert_eq!(
        server.run_with_stdin(&apply, &exported).expect_exit(0).out,
        again.replace("tool lookUp\n= unchanged  ", "")
    );
    let apply_gram = [&apply[..], &["--format", "gram"]].concat();
    assert_eq!(server.run_with_stdin(&apply_gram, &format!("{{team: \"x\"}}\n{CLERK}")).expect_exit(0).out, again);

    let desk = server.run_with_stdin(&["tools", "apply", "-f", "-"], &DESK.replace("lookUp, ", "")).expect_exit(0);
    assert_eq!(desk.out, "✓ created    agent desk\n");
    let yaml = "refName: desk\nsystemPrompt: Help.\n";
    assert_eq!(server.run_with_stdin(&apply, yaml).expect_exit(0).out, "✓ updated    agent desk\n");
    assert!(server.run_with_stdin(&apply_gram, yaml).expect_exit(6).err.contains("-:1:1: expected a pattern"));
    let cut = server.run_with_stdin(&apply, "[desk:Agent {").expect_exit(6);
    assert!(cut.err.contains("-:1:14: expected a key"), "a syntax error is reported as gram: {}", cut.err);
    assert!(server.run_with_stdin(&apply, "(a)-->(b)").expect_exit(0).err.contains("no definitions found"));
    let file = server.folder.path().join("a.yaml");
    let rejected = server.run(&["agents", "apply", "--format", "gram", "-f", file.to_str().unwrap()]).expect_exit(2);
    assert!(!rejected.err.contains("--format applies to"), "the missing file is reported first: {}", rejected.err);
    std::fs::write(&file, yaml).unwrap();
    let rejected = server.run(&["agents", "apply", "--format", "gram", "-f", file.to_str().unwrap()]).expect_exit(2);
    assert!(rejected.err.contains("--format applies to standard input"), "{}", rejected.err);
}

#[test]
fn apply_of_an_invalid_gram_file_fails_and_reports_the_position_of_the_error() {
    let server = Server::start();
    let folder = Folder::new(&[("good.gram", DESK), ("odd.gram", &CLERK.replace("model:", "mood: 1, model:"))]);
    let rejected = server.run(&["agents", "apply", "-f", folder.0.path().to_str().unwrap()]).expect_exit(6);
    assert_eq!(rejected.out, "");
    assert!(rejected.err.contains("odd.gram:2:1: property `mood` of agent `clerk` is unknown"), "{}", rejected.err);
}

#[test]
fn definitions_of_a_realm_can_be_queried_with_gram() {
    let server = Server::start();
    let query = r#"[agent:Agent | (tool:Tool {sideEffects: "writes"})]"#;
    let found = server.run(&["gram", "query", query]).expect_exit(0);
    assert!(found.out.contains("agent=assistant  tool=hubspot/update-deal"), "{}", found.out);
}

/// Keeps the fields that all interfaces return and removes the durations, so that the responses can be compared.
fn comparable(mut response: Value) -> Value {
    const COMMON: [&str; 5] = ["responseText", "toolCalls", "iterationsUsed", "tokensUsed", "status"];
    response.as_object_mut().unwrap().retain(|name, _| COMMON.contains(&name.as_str()));
    for call in response["toolCalls"].as_array_mut().unwrap() {
        call.as_object_mut().unwrap().shift_remove("durationMs");
    }
    response
}

#[test]
fn hello_world_agent_returns_the_same_response_over_cli_rust_and_rest() {
    let server = Server::start();
    let applied = server.run(&["agents", "apply", "-f", HELLO]).expect_exit(0);
    assert_eq!(applied.out, "✓ created    tool sayHello\n✓ created    agent hello_world_agent\n");
    let by_cli = server.run(&["agents", "run", "hello_world_agent", "World", "--json"]).expect_exit(0).json();

    let text = std::fs::read_to_string(Path::new(HELLO)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (by_rust, by_rest) = runtime.block_on(async {
        let library = toolwright_tools::builtin::library();
        let by_rust = execute_agent_with_library(&text, "World", Vec::new(), library).await.unwrap();
        let url = format!("{}/api/v1/ai/agents/hello_world_agent/execute", server.url);
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let request = client.post(url).bearer_auth(support::ADMIN_KEY).json(&json!({ "userMessage": "World" }));
        (serde_json::to_value(by_rust).unwrap(), request.send().await.unwrap().json::<Value>().await.unwrap())
    });
    let expected = comparable(by_rest);
    assert_eq!(expected["responseText"], "The tool says: \"Hello, World! Nice to meet you.\"");
    assert_eq!(expected["toolCalls"][0]["output"], "Hello, World! Nice to meet you.");
    assert_eq!(comparable(by_cli.clone()), expected);
    assert_eq!(comparable(by_rust.clone()), expected);

    let shown = server.run(&["runs", "get", by_cli["runId"].as_str().unwrap(), "--gram"]).expect_exit(0).out;
    let gram = r#"[:AgentResponse {content: "The tool says: \"Hello, World! Nice to meet you.\""} |
  (:ToolInvocation {
    args: json`{"personName":"World"}`,
    result: json`"Hello, World! Nice to meet you."`,
    toolName: "sayHello"
  })
]
"#;
    assert_eq!(shown, gram);
    let response = gram_response(&serde_json::from_value(by_rust).unwrap());
    assert_eq!(AgentResponse::try_from(&parse(&shown).unwrap()).unwrap(), response);
}

#[test]
fn gram_queries_in_the_documentation_succeed_on_the_demo() {
    let server = Server::start();
    let text = include_str!("../../../docs/gram.md");
    let queries: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("toolwright gram query '")?.strip_suffix('\'')).collect();
    assert_eq!(queries.len(), 5);
    let found: Vec<usize> =
        queries.iter().map(|query| server.run(&["gram", "query", query]).expect_exit(0).out.lines().count()).collect();
    assert!(found[1] == 1 && found[2] > 0 && found[4] > 0, "{found:?}");
}

#[test]
fn gram_example_in_the_documentation_is_valid_and_formatted() {
    let text = include_str!("../../../docs/gram.md");
    let example = text.split("```gram\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = Folder::new(&[("example.gram", example)]);
    folder.gram(&["check", "example.gram"]).expect_exit(0);
    folder.gram(&["fmt", "--check", "example.gram"]).expect_exit(0);
}
