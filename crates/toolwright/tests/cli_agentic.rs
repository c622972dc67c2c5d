//! Tests `toolwright agentic-tools` against a real server and a scripted model: printed output and exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::terminal::Terminal;
use support::{BINARY, CommandOutput, Server};

/// Starts a server with the tools `look`, which reads, and `pay`, which needs an approval.
fn server() -> Server {
    let server = Server::start_without_demo(Vec::new());
    let echo = |name: &str, more: Value| {
        let mut tool = json!({ "refName": name, "toolType": "FUNCTION", "description": "Returns the input.",
            "invocation": { "path": "echo" }, "outputJsonSchema": {} });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let look = json!({ "inputJsonSchema": { "type": "object", "properties": { "id": { "type": "integer" } } } });
    let tools =
        json!([echo("crm/look", look), echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })),]);
    server.run_with_stdin(&["apply", "-f", "-"], &tools.to_string()).expect_exit(0);
    server
}

/// Returns an agentic tool in the deterministic mode. Its model writes the plan `steps` and then a summary.
fn deterministic(name: &str, tools: &[&str], steps: &Value) -> Value {
    let sequence: Vec<Value> =
        tools.iter().enumerate().map(|(at, tool)| json!({ "step": at + 1, "actionSlug": tool })).collect();
    let usage = json!({ "inputTokens": 800, "outputTokens": 434 });
    let plan = json!({ "reasoning": "The task names one deal.", "steps": steps });
    let rules = json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": r#"{"summary":"all done"}"#, "usage": usage } },
        { "reply": { "text": plan.to_string(), "usage": usage } },
    ]);
    json!({ "name": name, "description": "Looks after deals.", "executionMode": "deterministic",
        "embeddedLLMConfig": model(&rules), "toolAllocation": { "sequence": sequence } })
}

fn model(rules: &Value) -> Value {
    json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } })
}

fn define(server: &Server, tool: &Value) {
    server.run_with_stdin(&["agentic-tools", "create", "-f", "-"], &tool.to_string()).expect_exit(0);
}

fn look_once() -> Value {
    json!([{ "step": 1, "parameters": { "id": 7 } }])
}

/// The id of the last execution of a tool.
fn last_execution(server: &Server, tool: &str) -> String {
    let list = server.run(&["agentic-tools", "history", tool, "--json"]).expect_exit(0).json();
    list["items"][0]["id"].as_str().unwrap().to_owned()
}

/// Asserts that a text contains these parts, in this order.
#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` is missing or too early in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

fn outcomes(output: &CommandOutput) -> Vec<String> {
    let items = output.json()["items"].as_array().unwrap().clone();
    items
        .iter()
        .map(|item| format!("{} {}", item["outcome"].as_str().unwrap(), item["ref"].as_str().unwrap()))
        .collect()
}

/// The candidates for the last word of a command line, one per line.
fn complete(server: &Server, words: &[&str]) -> String {
    let command = Command::new(BINARY)
        .args(["--", "toolwright"])
        .args(words)
        .env("COMPLETE", "fish")
        .env("TOOLWRIGHT_URL", &server.url)
        .env("TOOLWRIGHT_API_KEY", support::ADMIN_KEY)
        .output();
    String::from_utf8(command.unwrap().stdout).unwrap()
}

#[test]
fn agentic_tools_are_created_from_files_and_listed_and_shown() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let first = file("first.json", deterministic("Deal Manager", &["crm/look"], &look_once()).to_string());
    let second = file(
        "second.yaml",
        "name: research\nexecutionMode: agentic\nstatus: draft\ntoolAllocation:\n  availableTools: [{ actionSlug: crm/look, priority: 2 }]\n".into(),
    );
    let created = server.run(&["agentic-tools", "create", "-f", &first, &second]).expect_exit(0);
    let expected = "✓ created    agentic tool deal-manager  active, revision 1\n\
        ✓ created    agentic tool research  draft, revision 1\n";
    assert_eq!(created.out, expected);
    let list = server.run(&["agentic-tools", "list"]).expect_exit(0).out;
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert_contains(rows[0], &["NAME", "MODE", "STATUS", "TOOLS", "DESCRIPTION"]);
    assert_contains(rows[1], &["deal-manager  deterministic  active  1      Looks after deals."]);
    assert_contains(rows[2], &["research      agentic        draft   1"]);
    for (filter, name) in [(["--status", "draft"], "research"), (["--mode", "deterministic"], "deal-manager")] {
        let found = server.run(&["agentic-tools", "list", "--json", filter[0], filter[1]]).expect_exit(0).json();
        let names: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|item| &item["slug"]).collect();
        assert_eq!(names, [name]);
    }
    let shown = server.run(&["agentic-tools", "show", "deal-manager"]).expect_exit(0).out;
    let limits = "limits    10 steps, 300 s, $1, 500 items, 4000 tokens per reply";
    let parts = ["deal-manager@1.0.0  active\n", "Looks after deals.", "mode      deterministic", limits, "STEP  TOOL"];
    assert_contains(&shown, &parts);
    assert_contains(
        &shown,
        &["PARAMETER", "task", "string", "system prompt (generated)\nYou are the embedded assistant"],
    );
    let yaml = server.run(&["agentic-tools", "get", "research", "--yaml"]).expect_exit(0).out;
    assert_contains(&yaml, &["slug: research\n", "executionMode: agentic\n"]);
    server.run(&["agentic-tools", "delete", "research"]).expect_exit(0);
    let missing = server.run(&["agentic-tools", "get", "deal-manger"]).expect_exit(3);
    assert_contains(&missing.err, &["error[not-found]", "`deal-manger`", "did you mean `deal-manager`?"]);
}

#[test]
fn invalid_definition_is_reported_with_its_line_and_valid_definitions_are_still_created() {
    let server = server();
    let text = "name: bad\nexecutionMode: agentic\nsafetyLimits:\n  maxSteps: 1000\ntoolAllocation:\n  availableTools: [{ actionSlug: crm/look }]\n---\n\
        name: good\nexecutionMode: agentic\ntoolAllocation:\n  availableTools: [{ actionSlug: crm/look }, { actionSlug: no/such }]\n";
    let mixed = server.run_with_stdin(&["agentic-tools", "create", "-f", "-", "--json"], text).expect_exit(6);
    assert_eq!(outcomes(&mixed), ["failed bad", "created good"]);
    assert_contains(&mixed.json()["items"][1]["warnings"].to_string(), &["no/such"]);
    assert_contains(
        &mixed.err,
        &["error[invalid-definition]", "-:4: /safetyLimits/maxSteps: must be between 1 and 100, got 1000"],
    );
    let create = |text: &str| server.run_with_stdin(&["agentic-tools", "create", "-f", "-"], text);
    assert_contains(&create("[1]").expect_exit(6).err, &["-:1: must be an object"]);
    assert_contains(&create("").expect_exit(6).err, &["-: contains no document"]);
    assert_contains(&create("a: [").expect_exit(6).err, &["nothing was sent"]);
    assert_contains(
        &create("name: good\nexecutionMode: agentic\n").expect_exit(6).err,
        &["/toolAllocation/availableTools"],
    );
    let taken =
        create("name: good\nexecutionMode: agentic\ntoolAllocation:\n  availableTools: [{ actionSlug: pay }]\n");
    taken.expect_exit(5);
    server.run(&["agentic-tools", "create", "-f", "/no/such/file.json"]).expect_exit(2);
}

#[test]
fn options_create_an_agentic_tool_and_are_required_without_a_terminal() {
    let server = server();
    let none = server.run(&["agentic-tools", "create"]).expect_exit(2);
    let message = "give a definition with --file, or --name, --mode and --tool; only a terminal asks for them; \
        missing: --name, --mode, --tool";
    assert_contains(&none.err, &["error[usage]", message]);
    let some = server.run(&["agentic-tools", "create", "--name", "a", "--tool", "pay"]).expect_exit(2);
    assert!(some.err.trim_end().ends_with("missing: --mode"), "{}", some.err);
    server.run(&["agentic-tools", "create", "-f", "x.json", "--name", "a"]).expect_exit(2);
    server.run(&["agentic-tools", "create", "--name", "a", "--mode", "other"]).expect_exit(2);
    let options = ["--name", "Deal Manager", "--mode", "deterministic", "--tool", "crm/look", "--tool", "pay"];
    let more =
        ["--description", "Pays.", "--model", "scripted/x", "--status", "draft", "--set", "safetyLimits.maxSteps=3"];
    let all = [&["agentic-tools", "create"], &options[..], &more[..]].concat();
    let created = server.run(&all).expect_exit(0).out;
    assert_eq!(created, "✓ created    agentic tool deal-manager  draft, revision 1\n");
    let tool = server.run(&["agentic-tools", "get", "deal-manager", "--json"]).expect_exit(0).json();
    let sequence = json!([{ "step": 1, "actionSlug": "crm/look" }, { "step": 2, "actionSlug": "pay" }]);
    assert_eq!(tool["toolAllocation"]["sequence"], sequence);
    assert_eq!((&tool["description"], &tool["status"]), (&json!("Pays."), &json!("draft")));
    let model = &tool["embeddedLLMConfig"];
    assert_eq!((&model["provider"], &model["model"]), (&json!("scripted"), &json!("x")));
    assert_eq!(tool["safetyLimits"]["maxSteps"], 3);
}

#[test]
fn fields_and_status_of_an_agentic_tool_can_be_changed() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    let file = server.folder.path().join("patch.yaml");
    std::fs::write(&file, "description: New.\nsafetyLimits: { maxSteps: 4 }\n").unwrap();
    let file = file.to_str().unwrap();
    let updated = server.run(&["agentic-tools", "update", "m", "-f", file, "--set", "safetyLimits.maxItems=7"]);
    assert_eq!(updated.expect_exit(0).out, "✓ updated    agentic tool m  active, revision 2\n");
    let get = || server.run(&["agentic-tools", "get", "m", "--json"]).expect_exit(0).json();
    let limits = get()["safetyLimits"].clone();
    assert_eq!(
        (&get()["description"], &limits["maxSteps"], &limits["maxItems"]),
        (&json!("New."), &json!(4), &json!(7))
    );
    server.run(&["agentic-tools", "update", "m", "--set", "description=null"]).expect_exit(0);
    assert_eq!(get().get("description"), None);
    let wrong = server.run(&["agentic-tools", "update", "m", "--set", "safetyLimits.maxSteps=0"]).expect_exit(6);
    assert_contains(&wrong.err, &["/safetyLimits/maxSteps: must be between 1 and 100, got 0"]);
    let nothing = server.run(&["agentic-tools", "update", "m"]).expect_exit(2);
    assert_contains(&nothing.err, &["`-f FILE`", "`--set FIELD=JSON`"]);
    server.run(&["agentic-tools", "disable", "m"]).expect_exit(0);
    assert_eq!(get()["status"], "disabled");
    let refused = server.run(&["agentic-tools", "invoke", "m", "go"]).expect_exit(1).out;
    assert_contains(&refused, &["tool `m` is disabled"]);
    let execution = refused.trim_end().lines().last().unwrap().trim().to_owned();
    let logs = server.run(&["agentic-tools", "logs", "m", &execution]).expect_exit(0).out;
    assert_contains(&logs, &["m  ✗ error", "error\n", "tool `m` is disabled"]);
    let enabled = server.run(&["agentic-tools", "enable", "m"]).expect_exit(0).out;
    assert_contains(&enabled, &["✓ enabled    agentic tool m  active"]);
    server.run(&["agentic-tools", "invoke", "m", "go"]).expect_exit(0);
    let block = r#"{"refName":"m","status":"blocked"}"#;
    server.run_with_stdin(&["agentic-tools", "update", "m", "-f", "-"], block).expect_exit(0);
    assert_contains(&server.run(&["agentic-tools", "enable", "m"]).expect_exit(6).err, &["is blocked"]);
    assert_eq!(get()["status"], "blocked");
}

#[test]
fn calls_are_listed_in_order_also_if_a_call_was_refused() {
    let server = server();
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "pay", "arguments": {} }] } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "crm/look", "arguments": { "id": 1 } }] } },
        { "reply": { "text": "done" } },
    ]);
    let allocation = json!({ "availableTools": [{ "actionSlug": "crm/look" }] });
    define(
        &server,
        &json!({ "name": "m", "executionMode": "agentic", "embeddedLLMConfig": model(&rules), "toolAllocation": allocation }),
    );
    server.run(&["agentic-tools", "invoke", "m", "go"]).expect_exit(0);
    let logs = server.run(&["agentic-tools", "logs", "m", &last_execution(&server, "m")]).expect_exit(0).out;
    let calls = ["[1] LLM planning", "[2] Tool call: pay", "[3] LLM error recovery", "[4] Tool call: crm/look"];
    assert_contains(&logs, &calls);
}

#[test]
fn invocation_prints_the_result_and_its_cost_and_with_verbose_the_calls() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    let done = server.run(&["agentic-tools", "invoke", "m", "Look at deal 7"]).expect_exit(0);
    assert_contains(
        &done.out,
        &["{\n  \"summary\": \"all done\"\n}\n", "✓ COMPLETED  2 model calls · 1 tool call · 2,468 tokens · "],
    );
    assert!(done.out.trim_end().ends_with(&last_execution(&server, "m")), "{}", done.out);
    let verbose = server.run_with_stdin(&["agentic-tools", "run", "m", "-", "-v"], "Look at deal 8").expect_exit(0).out;
    let calls = [
        "[1] LLM planning         1,234 tokens · ",
        "[2] Tool call: crm/look  ",
        "[3] LLM result review    1,234 tokens",
    ];
    assert_contains(&verbose, &calls);
    let parameter =
        server.run(&["agentic-tools", "invoke", "m", "-p", "task=9", "-p", "tsk=1", "--json"]).expect_exit(1);
    assert_contains(&parameter.err, &["the tool has no parameter `tsk`; did you mean `task`?"]);
    assert_eq!(parameter.json()["error"]["code"], "VALIDATION_ERROR");
    let json =
        server.run(&["agentic-tools", "invoke", "m", "--input", r#"{"task":"x"}"#, "--json"]).expect_exit(0).json();
    assert_eq!((&json["success"], &json["meta"]["totalTokens"]), (&json!(true), &json!(2468)));
}

#[test]
fn failed_and_partial_and_refused_invocations_have_clear_messages_and_exit_codes() {
    let server = server();
    let rules = json!([{ "reply": { "toolCalls": [{ "name": "crm/look", "arguments": { "id": 1 } }] } }]);
    let allocation = json!({ "availableTools": [{ "actionSlug": "crm/look" }] });
    let endless = json!({ "name": "endless", "executionMode": "agentic", "embeddedLLMConfig": model(&rules),
        "toolAllocation": allocation, "safetyLimits": { "maxSteps": 2 } });
    define(&server, &endless);
    let partial = server.run(&["agentic-tools", "invoke", "endless", "go"]).expect_exit(0);
    assert_contains(&partial.out, &["\"operations_executed\"", "✓ MAX_ITERATIONS  2 model calls · 2 tool calls"]);
    assert_contains(&partial.err, &["! MAX_STEPS_EXCEEDED"]);
    define(&server, &deterministic("broken", &["crm/look"], &json!([{ "step": 1, "parameters": { "id": "x" } }])));
    let failed = server.run(&["agentic-tools", "invoke", "broken", "go"]).expect_exit(1).out;
    assert_contains(&failed, &["✗ broken  PROVIDER_ERROR", "reason: INVALID_LLM_OUTPUT", "✗ ERROR  "]);
    let missing = server.run(&["agentic-tools", "invoke", "brokn", "go"]).expect_exit(3).err;
    assert_contains(&missing, &["error[not-found]", "did you mean `broken`?"]);
    let empty = server.run(&["agentic-tools", "invoke", "broken"]).expect_exit(1).out;
    assert_contains(&empty, &["✗ broken  VALIDATION_ERROR", "✗ FAILED"]);
}

#[test]
fn invocation_that_waits_prints_the_commands_for_the_decision() {
    let server = server();
    define(&server, &deterministic("payer", &["pay"], &json!([{ "step": 1, "parameters": { "amount": 5 } }])));
    let waiting = server.run(&["agentic-tools", "invoke", "payer", "pay"]).expect_exit(8);
    let execution = last_execution(&server, "payer");
    let decide = format!("  then: toolwright runs approve {execution} call_");
    assert_contains(
        &waiting.out,
        &["? pay  writes  requires approval\n", "\"amount\": 5", &decide, "… AWAITING_APPROVAL"],
    );
    assert_contains(&waiting.err, &[&format!("`toolwright agentic-tools logs payer {execution}`")]);
    let listed = server.run(&["agentic-tools", "history", "payer", "--status", "running"]).expect_exit(0).out;
    assert_contains(&listed, &["EXECUTION", &execution, "awaiting_approval", "pay"]);
    let logs = server.run(&["agentic-tools", "logs", "payer", &execution]).expect_exit(0);
    assert_contains(&logs.out, &["payer  … awaiting_approval", "plan", "1.", "parameters  amount=5"]);
    assert_contains(&logs.err, &[&format!("`toolwright runs get {execution}`")]);
    let call = waiting.out.split("call_").nth(1).unwrap().split_whitespace().next().unwrap();
    server.run(&["runs", "approve", &execution, &format!("call_{call}")]).expect_exit(0);
    let logs = server.run(&["agentic-tools", "execution", "payer", &execution]).expect_exit(0).out;
    assert_contains(&logs, &["payer  ✓ success", "Tool call: pay@1.0.0  success", "\"summary\": \"all done\""]);
}

#[test]
fn terminal_asks_for_decisions_of_an_invocation_and_then_shows_the_result() {
    let server = server();
    define(
        &server,
        &deterministic("payer", &["pay"], &json!([{ "step": 1, "parameters": { "mail": "ada@mail.org" } }])),
    );
    let mut terminal = Terminal::start(&server, &["agentic-tools", "invoke", "payer", "pay"]);
    terminal.wait_for("? pay  writes  requires approval");
    terminal.wait_for("y approve");
    terminal.send("y");
    let shown = terminal.wait_for_exit(0);
    assert_contains(
        &shown,
        &["approved", "payer", "\"summary\": \"all done\"", "✓ COMPLETED  2 model calls · 1 tool call"],
    );
}

#[test]
fn logs_show_the_request_plan_calls_result_and_cost_of_an_execution() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    server.run(&["agentic-tools", "invoke", "m", "Look at deal 7"]).expect_exit(0);
    let history = server.run(&["agentic-tools", "history", "m"]).expect_exit(0).out;
    let execution = last_execution(&server, "m");
    assert_contains(&history, &[&execution, "success", "Look at deal 7", "2,468"]);
    let logs = server.run(&["agentic-tools", "logs", "m", &execution]).expect_exit(0).out;
    let parts = [
        "m  ✓ success\n",
        "mode       deterministic",
        "model      scripted/rules",
        "\nrequest\n  {\n    \"task\": \"Look at deal 7\"",
        "\nplan\n  The task names one deal.\n  1.  crm/look  completed, 1 call\n    parameters  id=7\n",
        "\ncalls\n[1] LLM planning  COMPLETE  1,234 tokens (800 in, 434 out) · ",
        "    reasoning  The task names one deal.\n",
        "[2] Tool call: crm/look@1.0.0  success  ",
        "    parameters  id=7\n",
        "[3] LLM result review  COMPLETE  1,234 tokens",
        "\nresult\n  {\n    \"summary\": \"all done\"",
        "\ncost\n  CALL                 COUNT  TOKENS  COST\n  LLM planning         1      1,234",
        "total                3      2,468",
    ];
    assert_contains(&logs, &parts);
    assert!(!logs.contains("prompt\n"), "prompts are printed only with --verbose: {logs}");
    let verbose = server.run(&["agentic-tools", "logs", "m", &execution, "-v"]).expect_exit(0).out;
    assert_contains(
        &verbose,
        &["    prompt\n      [system]\n", "    reply\n      {\"reasoning\"", "    response\n", "    call  call_"],
    );
    let json = server.run(&["agentic-tools", "logs", "m", &execution, "--json"]).expect_exit(0).json();
    assert_eq!(json["costBreakdown"]["totalTokens"], 2468);
    server.run(&["agentic-tools", "logs", "m", "run_01M7F4JEK8CBJ14F7PB8Z4CVTC"]).expect_exit(3);
    server.run(&["agentic-tools", "history", "m", "--status", "other"]).expect_exit(2);
}

#[test]
fn rerun_executes_the_recorded_plan_or_a_changed_plan() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    server.run(&["agentic-tools", "invoke", "m", "go"]).expect_exit(0);
    let first = last_execution(&server, "m");
    let again = server.run(&["agentic-tools", "rerun", "m", &first, "-v"]).expect_exit(0).out;
    assert_contains(
        &again,
        &["[1] Tool call: crm/look", "\"operations_executed\"", "✓ COMPLETED  1 tool call · 0 tokens"],
    );
    let plan = "steps:\n  - step: 1\n    parameters: { id: 8 }\n";
    server.run_with_stdin(&["agentic-tools", "rerun", "m", &first, "--plan", "-"], plan).expect_exit(0);
    let logs = server.run(&["agentic-tools", "logs", "m", &last_execution(&server, "m")]).expect_exit(0).out;
    assert_contains(&logs, &["parameters  id=8"]);
    let plan = "steps:\n  - step: 4\n";
    let wrong = server.run_with_stdin(&["agentic-tools", "rerun", "m", &first, "--plan", "-"], plan).expect_exit(6);
    assert_contains(&wrong.err, &["executionPlan"]);
}

#[test]
fn prompt_is_tested_with_a_sample_task() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    let tested = server.run(&["agentic-tools", "test", "m", "Look at deal 7"]).expect_exit(0).out;
    assert_contains(&tested, &["system prompt\n", "1. crm/look", "Look at deal 7", "\nmessage\n", "input tokens"]);
    assert!(!tested.contains("reply\n"), "the model was not called: {tested}");
    let called = server.run(&["agentic-tools", "test", "m", "go", "--model-call"]).expect_exit(0).out;
    assert_contains(&called, &["\nreply\n{\"reasoning\"", "1,234 tokens", "run_"]);
    let prompt = "Only this: {{user_task}} {{nothing}}";
    let other = server.run_with_stdin(&["agentic-tools", "test", "m", "Dance", "--prompt", "-"], prompt).expect_exit(0);
    assert_contains(&other.out, &["system prompt\nOnly this: <data name=\"user_task\">\nDance\n"]);
    assert_contains(&other.err, &["! ", "`nothing`"]);
    let json = server.run(&["agentic-tools", "test", "m", "x", "--json"]).expect_exit(0).json();
    assert!(json["estimatedTokens"].is_u64(), "{json}");
}

#[test]
fn prompt_versions_are_listed_and_restored_and_the_prompt_is_regenerated() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    for prompt in ["The first own prompt.", "The second own prompt."] {
        server.run(&["agentic-tools", "update", "m", "--set", &format!("systemPrompt={prompt}")]).expect_exit(0);
    }
    let list = server.run(&["agentic-tools", "prompt", "versions", "m"]).expect_exit(0).out;
    let rows: Vec<&str> = list.lines().skip(1).collect();
    assert_contains(rows[0], &["3 ", "admin", "written", "+1 -1", "The second own prompt."]);
    assert_contains(rows[2], &["1 ", "generated", "-", "You are the embedded assistant"]);
    let diffs = server.run(&["agentic-tools", "prompt", "versions", "m", "--diff"]).expect_exit(0).out;
    assert_contains(
        &diffs,
        &["revision 3  ", "  - The first own prompt.\n  + The second own prompt.", "revision 1  ", "first version"],
    );

    let restored = server.run(&["agentic-tools", "prompt", "restore", "m", "2"]).expect_exit(0).out;
    assert_eq!(restored, "✓ restored   prompt of revision 2; m has revision 4\n");
    let prompt = || server.run(&["agentic-tools", "get", "m", "--json"]).expect_exit(0).json()["systemPrompt"].clone();
    assert_eq!(prompt(), "The first own prompt.");
    server.run(&["agentic-tools", "prompt", "restore", "m", "99"]).expect_exit(3);
    server.run(&["agentic-tools", "prompt", "restore", "m", "x"]).expect_exit(2);

    let planned = server.run(&["agentic-tools", "prompt", "regenerate", "m", "--dry-run"]).expect_exit(0);
    assert_contains(&planned.out, &["  - The first own prompt.", "  + You are the embedded assistant"]);
    assert_contains(&planned.err, &["dry run: nothing was written"]);
    assert_eq!(prompt(), "The first own prompt.");
    let saved = server.run(&["agentic-tools", "prompt", "regenerate", "m"]).expect_exit(0).out;
    assert_contains(&saved, &["  + You are", "✓ saved      revision 5"]);
    let again = server.run(&["agentic-tools", "prompt", "regenerate", "m"]).expect_exit(0).out;
    assert_contains(&again, &["= unchanged"]);
    let written = server.run(&["agentic-tools", "prompt", "regenerate", "m", "--use-model", "--dry-run", "--json"]);
    assert_contains(&written.expect_exit(0).json()["systemPrompt"].to_string(), &["reasoning"]);
}

#[test]
fn agentic_tool_is_exported_in_formats_and_its_second_apply_changes_nothing() {
    let server = server();
    define(&server, &deterministic("m", &["crm/look"], &look_once()));
    let exported = server.run(&["agentic-tools", "export", "m", "--format", "openai"]).expect_exit(0).out;
    assert_contains(&exported, &["{\n", "\"function\"", "\"task\""]);
    let universal = server.run(&["agentic-tools", "export", "m", "--json"]).expect_exit(0).json();
    assert_contains(&universal.to_string(), &["\"task\""]);
    server.run(&["agentic-tools", "export", "crm/look"]).expect_exit(3);
    server.run(&["agentic-tools", "export", "m", "--format", "other"]).expect_exit(2);

    let yaml = "refName: research\ntoolType: AGENTIC\ndescription: Finds things.\nagentic:\n  executionMode: agentic\n  \
        embeddedLLMConfig: { provider: scripted, model: x }\n  toolAllocation:\n    availableTools: [{ actionSlug: crm/look }]\n  \
        safetyLimits: { timeoutSeconds: 20 }\n";
    let with = |command: &str| server.run_with_stdin(&[command, "-f", "-"], yaml);
    assert_contains(&with("apply").expect_exit(0).out, &["✓ created    tool research"]);
    assert_contains(&with("apply").expect_exit(0).out, &["= unchanged  tool research"]);
    assert_contains(&with("diff").expect_exit(0).out, &["1 unchanged"]);
    let tool = server.run(&["agentic-tools", "get", "research"]).expect_exit(0).out;
    assert_contains(&tool, &["research@1.0.0", "20 s"]);
}

#[test]
fn shell_completion_knows_names_of_agentic_tools_executions_and_allocated_tools() {
    let server = server();
    define(&server, &deterministic("deal-manager", &["crm/look"], &look_once()));
    server.run(&["agentic-tools", "invoke", "deal-manager", "go"]).expect_exit(0);
    let execution = last_execution(&server, "deal-manager");
    for (words, expected) in [
        (&["agentic-tools", "invoke", "deal"][..], "deal-manager"),
        (&["agentic-tools", "prompt", "versions", "d"], "deal-manager"),
        (&["agentic-tools", "logs", "deal-manager", "run_"], &execution),
        (&["agentic-tools", "create", "--tool", "crm/"], "crm/look"),
    ] {
        let completed = complete(&server, words);
        assert_eq!(completed.lines().next(), Some(expected), "{words:?}: {completed}");
    }
}

#[test]
fn create_asks_at_a_terminal_for_the_fields_of_a_new_agentic_tool() {
    let server = server();
    let mut terminal = Terminal::start(&server, &["agentic-tools", "create", "--description", "Looks after deals."]);
    for (question, answer) in [
        ("name ", "Deal Manager\r"),
        ("mode [agentic]", "other\r"),
        ("must be `deterministic` or `agentic`", "d\r"),
        ("model [server default", "\r"),
        ("tool of step 1", "crm/lok\r"),
        ("did you mean `crm/look`?", "crm/l\t\r"),
        ("purpose of this step", "Find the deal\r"),
        ("tool of step 2 [no more]", "\r"),
        ("maximum number of steps [10]", "many\r"),
        ("must be a number, got `many`", "3\r"),
        ("maximum time in seconds [300]", "\r"),
        ("maximum cost in US dollars [1]", "\r"),
    ] {
        terminal.wait_for(question);
        terminal.send(answer);
    }
    terminal.wait_for("\"purpose\": \"Find the deal\"");
    terminal.wait_for("generated system prompt");
    terminal.wait_for("save as draft");
    terminal.send("d");
    terminal.wait_for_exit(0);
    let tool = server.run(&["agentic-tools", "get", "deal-manager", "--json"]).expect_exit(0).json();
    assert_eq!((&tool["status"], &tool["safetyLimits"]["maxSteps"]), (&json!("draft"), &json!(3)));
    let sequence = json!([{ "step": 1, "actionSlug": "crm/look", "purpose": "Find the deal" }]);
    assert_eq!(tool["toolAllocation"]["sequence"], sequence);
}

#[test]
fn interrupting_the_questions_creates_nothing_and_complete_options_skip_the_questions() {
    let server = server();
    let mut terminal = Terminal::start(&server, &["agentic-tools", "create", "--name", "a"]);
    terminal.wait_for("mode [agentic]");
    terminal.send("\u{3}");
    assert_contains(&terminal.wait_for_exit(130), &["nothing was created"]);
    let options = ["--name", "a", "--mode", "agentic", "--tool", "pay", "--status", "active"];
    let all = [&["agentic-tools", "create"], &options[..]].concat();
    assert_contains(&Terminal::start(&server, &all).wait_for_exit(0), &["✓ created    agentic tool a"]);
}
