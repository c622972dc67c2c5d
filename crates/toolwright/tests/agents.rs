//! Tests the agent commands of the CLI against a real server and a scripted model: printed output and exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use serde_json::json;
use support::{CommandOutput, Server};
use toolwright_testkit::{Faults, LOOPBACK};

const DEFINITIONS: &str = r#"
refName: crm/assistant
description: Looks after deals.
systemPrompt: "You look after the deals of {{team}}."
systemPromptRefs: [manners]
toolRefs: [hubspot/get-deal, hubspot/update-deal, browser/open, slow]
requiresApproval: true
llmConfig:
  provider: scripted
  model: rules
  extraParams:
    script:
      rules:
        - when: { user: won, turn: 0 }
          reply:
            text: Let me look at the deal first.
            toolCalls: [{ name: hubspot/get-deal, arguments: { dealId: "101" } }]
        - when: { user: won, turn: 1 }
          reply:
            text: It is still open, so I will move it.
            toolCalls: [{ name: hubspot/update-deal, arguments: { dealId: "101", properties: { dealstage: closedwon } } }]
        - when: { afterTool: hubspot/update-deal, failed: true }
          reply: { text: "Fine, I leave deal 101 as it is." }
        - when: { afterTool: hubspot/update-deal }
          reply: { text: "Deal 101 is changed." }
        - when: { user: open, turn: 0 }
          reply: { text: "", toolCalls: [{ name: browser/open, arguments: { url: "https://h" } }] }
        - when: { afterTool: browser/open }
          reply: { text: "It says {{result}}" }
        - when: { user: slow, turn: 0 }
          reply: { text: "", toolCalls: [{ name: slow, arguments: {} }] }
      otherwise: { text: "You said: {{user}}" }
---
kind: fragment
refName: manners
content: Be kind.
---
refName: browser/open
toolType: FUNCTION
isToolFullyExecutedOnServer: false
invocation: { path: echo }
"#;
const AGENT: &str = "crm/assistant";
const MOVE: [&str; 6] = ["agents", "run", AGENT, "mark it as won", "--context", "team=sales"];

/// Starts a server and applies [`DEFINITIONS`] to it.
fn start_with_definitions() -> Server {
    let server = Server::start();
    server.run_with_stdin(&["agents", "apply", "-f", "-"], DEFINITIONS).expect_exit(0);
    server
}

/// Starts a run that waits for an approval. Returns the ids of the run and the call.
fn start_waiting_run(server: &Server) -> (String, String) {
    let run = server.run(&[&MOVE[..], &["--json"]].concat()).expect_exit(8).json();
    let field = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    (field(&run["runId"]), field(&run["approvals"][0]["callId"]))
}

/// Compares a command's output with an inline snapshot, after replacing ids, times and token counts by placeholders.
macro_rules! assert_output {
    ($text:expr, @$snapshot:literal) => {
        insta::assert_snapshot!(normalize(&$text), @$snapshot)
    };
}

fn normalize(text: &str) -> String {
    let patterns = [
        ("run_[0-9A-Z]{26}", "RUN"),
        ("conv_[0-9A-Z]{26}", "CONVERSATION"),
        ("call_[0-9a-z]{26}", "CALL"),
        (r"\d+ ms|\d+\.\d s", "TIME"),
        (r"[0-9,]+ tokens( \([0-9,]+ in, [0-9,]+ out\))?", "TOKENS"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "MINUTE"),
    ];
    patterns.iter().fold(text.to_owned(), |text, (pattern, name)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
    })
}

#[test]
fn version_in_an_agent_reference_selects_that_version_and_is_refused_by_delete() {
    let server = Server::start();
    let version = |version: &str| {
        format!(
            "refName: ver\nversion: {version}\nsystemPrompt: Prompt {version}.\nllmConfig: {{ provider: scripted, extraParams: {{ script: {{ rules: [], otherwise: {{ text: 'I am {version}' }} }} }} }}\n"
        )
    };
    for number in ["1.0.0", "2.0.0"] {
        server.run_with_stdin(&["agents", "apply", "-f", "-"], &version(number)).expect_exit(0);
    }
    assert_eq!(server.run(&["agents", "get", "ver@^1", "--json"]).expect_exit(0).json()["version"], "1.0.0");
    assert_eq!(server.run(&["agents", "export", "ver@^1"]).expect_exit(0).json()["version"], "1.0.0");
    assert!(server.run(&["agents", "export", "ver@^1", "--gram"]).expect_exit(0).out.contains("Prompt 1.0.0."));
    let versions = server.run(&["agents", "versions", "ver@^1", "--json"]).expect_exit(0).json();
    assert_eq!(versions["items"].as_array().unwrap().len(), 1, "{versions}");
    let all = server.run(&["agents", "versions", "ver"]).expect_exit(0).out;
    assert!(all.contains("2.0.0") && all.contains("1.0.0") && all.contains("active"), "{all}");
    let run = server.run(&["agents", "run", "ver@1.0.0", "hi", "--json"]).expect_exit(0).json();
    assert_eq!(
        (&run["responseText"], &run["agentVersion"]),
        (&serde_json::json!("I am 1.0.0"), &serde_json::json!("1.0.0"))
    );
    let shown = server.run(&["runs", "get", run["runId"].as_str().unwrap()]).expect_exit(0).out;
    assert!(shown.contains("ver@1.0.0"), "{shown}");
    let chat = server.run_with_stdin(&["agents", "chat", "ver@^1"], "hi\n").expect_exit(0);
    assert!(chat.out.contains("I am 1.0.0"), "{}", chat.out);
    for command in [["agents", "get", "ver@^3"], ["agents", "export", "ver@^3"], ["agents", "chat", "ver@^3"]] {
        let error = server.run(&command).err;
        assert!(
            error.contains("agent `ver` has no version that matches `^3`; it has 2.0.0, 1.0.0"),
            "{command:?}: {error}"
        );
    }
    let refused = server.run(&["agents", "delete", "ver@1.0.0"]);
    assert!(refused.err.contains("a delete removes all versions"), "{}", refused.err);
    assert_eq!(server.run(&["tools", "get", "echo@^1", "--json"]).expect_exit(0).json()["version"], "1.0.0");
    server.run(&["tools", "versions", "echo"]).expect_exit(0);
}

#[test]
fn agent_definitions_can_be_applied_listed_shown_and_deleted() {
    let server = Server::start();
    let apply = ["agents", "apply", "-f", "-"];
    let first = server.run_with_stdin(&apply, DEFINITIONS).expect_exit(0);
    assert_eq!(
        first.out,
        "✓ created    fragment manners\n✓ created    tool browser/open\n✓ created    agent crm/assistant\n"
    );
    let again = server.run_with_stdin(&apply, DEFINITIONS).expect_exit(0);
    assert_eq!(
        again.out,
        "= unchanged  fragment manners\n= unchanged  tool browser/open\n= unchanged  agent crm/assistant\n"
    );
    let changed = DEFINITIONS.replace("Looks after deals.", "Knows deals.");
    assert!(server.run_with_stdin(&apply, &changed).expect_exit(0).out.contains("✓ updated    agent crm/assistant"));

    assert_output!(server.run(&["agents", "list"]).expect_exit(0).out, @"
    NAME           MODEL           STATUS   DESCRIPTION
    assistant      server default  enabled  Answers questions about deals and orders, and changes them when a person agrees.
    crm/assistant  scripted/rules  enabled  Knows deals.
    order-desk     server default  enabled  Answers questions about customers and orders from the records kept here.
    ");
    assert_output!(server.run(&["agents", "get", AGENT]).expect_exit(0).out, @"
    crm/assistant
    Knows deals.

    model      scripted/rules
    tools      hubspot/get-deal, hubspot/update-deal, browser/open, slow
    approval   required for writes
    fragments  manners
    revision   2, MINUTE by admin

    You look after the deals of {{team}}.
    ");
    let tools = server.run(&["agents", "tools", AGENT, "--message", "move a deal"]).expect_exit(0).out;
    assert!(tools.starts_with("NAME") && tools.contains("hubspot/update-deal"), "{tools}");
    assert_output!(server.run(&["fragments", "get", "manners"]).expect_exit(0).out, @"
    manners
    revision  1, MINUTE by admin

    Be kind.
    ");
    assert!(server.run(&["prompt-fragments", "list"]).expect_exit(0).out.contains("Be kind."));
    let rejected =
        server.run_with_stdin(&["fragments", "apply", "-f", "-"], "refName: x\nnonsense: 1\n").expect_exit(6);
    assert!(rejected.err.contains("fragment x") && rejected.err.contains("nonsense"), "{}", rejected.err);

    assert_eq!(server.run(&["agents", "delete", AGENT]).expect_exit(0).out, "✓ deleted    crm/assistant\n");
    server.run(&["fragments", "delete", "manners"]).expect_exit(0);
    server.run(&["agents", "get", AGENT]).expect_exit(3);
    server.run(&["agents", "run", AGENT, "hello"]).expect_exit(3);
    server.run(&["agents", "chat", AGENT]).expect_exit(3);
}

#[test]
fn agents_run_command_prints_replies_calls_and_approvals() {
    let server = start_with_definitions();
    assert_output!(server.run(&[&MOVE[..], &["--yes"]].concat()).expect_exit(0).out, @r#"
    Let me look at the deal first.

    ✓ hubspot/get-deal  TIME  dealId="101"

    It is still open, so I will move it.

    ? hubspot/update-deal  writes  requires approval
      {
        "dealId": "101",
        "properties": {
          "dealstage": "closedwon"
        }
      }
      approved
    ✓ hubspot/update-deal  TIME  dealId="101" properties={"dealstage":"closedwon"}

    Deal 101 is changed.

    ✓ COMPLETED  3 model calls · 2 tool calls · TOKENS · TIME
      RUN  CONVERSATION
    "#);
    let whole = server.run(&[&MOVE[..], &["--yes", "--json"]].concat()).expect_exit(0).json();
    assert_eq!((&whole["status"], &whole["responseText"]), (&json!("COMPLETED"), &json!("Deal 101 is changed.")));
    assert_eq!(whole["toolCalls"].as_array().unwrap().len(), 2);

    let incomplete = server.run(&["agents", "run", AGENT, "hello"]).expect_exit(0);
    assert!(
        incomplete.err.contains("! the prompt uses variable `team`, which the context lacks"),
        "{}",
        incomplete.err
    );
    let piped = server.run_with_stdin(&["agents", "run", AGENT, "-"], "from a pipe").expect_exit(0);
    assert!(piped.out.starts_with("You said: from a pipe\n"), "{}", piped.out);
    server.run(&["agents", "run", AGENT, "hello", "--context", "nonsense"]).expect_exit(2);
}

#[test]
fn write_that_requires_approval_waits_until_it_is_approved_denied_or_edited() {
    let server = start_with_definitions();
    let waiting = server.run(&MOVE).expect_exit(8);
    assert!(waiting.out.contains("? hubspot/update-deal  writes  requires approval\n"), "{}", waiting.out);
    assert_output!(waiting.err, @"  decide with `toolwright runs approve RUN CALL` (or `deny`, `edit`)");
    assert!(waiting.out.contains("\n… AWAITING_APPROVAL  "), "{}", waiting.out);
    assert!(server.run(&["approvals", "list"]).expect_exit(0).out.contains(r#"properties={"dealstage":"closedwon"}"#));

    let (run, call) = start_waiting_run(&server);
    assert_output!(server.run(&["runs", "deny", &run, &call, "--reason", "not on a Sunday"]).expect_exit(0).out, @"
    ✓ CALL denied

    Fine, I leave deal 101 as it is.

    ✓ COMPLETED  3 model calls · 1 tool call · 1 not called · TOKENS
      RUN  CONVERSATION
    ");
    assert_output!(server.run(&["runs", "get", &run]).expect_exit(0).out, @r#"
    agent         crm/assistant@1.0.0
    conversation  CONVERSATION
    started       MINUTE

    ✓ hubspot/get-deal  TIME  dealId="101"
    – hubspot/update-deal  not called  dealId="101" properties={"dealstage":"closedwon"}
      not on a Sunday

    Fine, I leave deal 101 as it is.

    ✓ COMPLETED  3 model calls · 1 tool call · 1 not called · TOKENS · TIME
      RUN  CONVERSATION
    "#);
    let late = server.run(&["runs", "approve", &run, &call]).expect_exit(5);
    assert!(late.err.starts_with("error[run-ended]"), "{}", late.err);

    let (run, call) = start_waiting_run(&server);
    assert!(server.run(&["runs", "approve", &run, &call]).expect_exit(0).out.contains("\nDeal 101 is changed.\n"));
    let (run, call) = start_waiting_run(&server);
    let input = r#"{"dealId":"101","properties":{"dealstage":"negotiation"}}"#;
    server.run(&["runs", "edit", &run, &call, "--input", "{"]).expect_exit(2);
    let edited = server.run(&["runs", "edit", &run, &call, "--input", input, "--json"]).expect_exit(0).json();
    assert_eq!(edited["toolCalls"][1]["input"]["properties"]["dealstage"], "negotiation");
    let watched = server.run(&["runs", "watch", &run]).expect_exit(0).out;
    assert!(watched.contains(r#"✓ hubspot/update-deal  "#) && watched.contains("negotiation"), "{watched}");
    let listed =
        server.run(&["runs", "list", "--agent", AGENT, "--status", "completed", "--json"]).expect_exit(0).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert!(server.run(&["runs", "list"]).expect_exit(0).out.contains("AWAITING_APPROVAL"));
    server.run(&["runs", "list", "--status", "done"]).expect_exit(2);
}

/// An agent that delegates its message to [`AGENT`].
const BOSS: &str = r#"
refName: boss
delegateAgentRefs: [crm/assistant]
llmConfig:
  provider: scripted
  model: rules
  extraParams:
    script:
      rules:
        - when: { turn: 0 }
          reply: { text: "", toolCalls: [{ name: crm/assistant, arguments: { task: "{{user}}", context: { team: sales } } }] }
      otherwise: { text: "Told: {{result/responseText}}" }
"#;

#[test]
fn approval_of_a_delegate_is_decided_while_its_caller_is_followed() {
    let server = start_with_definitions();
    server.run_with_stdin(&["agents", "apply", "-f", "-"], BOSS).expect_exit(0);
    let followed = server.run(&["agents", "run", "boss", "mark it as won", "--yes"]).expect_exit(0).out;
    assert!(normalize(&followed).contains("… crm/assistant  RUN  AWAITING_APPROVAL\n"), "{followed}");
    assert!(followed.contains("? hubspot/update-deal  writes  requires approval\n"), "{followed}");
    assert!(followed.contains("  approved\n") && followed.contains("Told: Deal 101 is changed."), "{followed}");

    let waiting = server.run(&["agents", "run", "boss", "mark it as won"]).expect_exit(8);
    let hint = waiting.err.split("runs approve ").nth(1).unwrap_or_else(|| panic!("{}", waiting.err));
    let [child, call] = hint.split(['`', ' ']).take(2).collect::<Vec<_>>()[..] else { panic!("{hint}") };
    let boss = waiting.out.split_whitespace().rfind(|word| word.starts_with("run_")).unwrap();
    assert_ne!(child, boss, "the decision is sent to the run of the delegate");
    let shown = server.run(&["runs", "get", boss]).expect_exit(0).out;
    assert!(shown.contains(&format!("… crm/assistant  {child}  AWAITING_APPROVAL")), "{shown}");
    assert!(shown.contains(&format!("requires approval in {child}")), "{shown}");
    let listed = server.run(&["approvals", "list"]).expect_exit(0).out;
    assert!(listed.contains(child) && listed.contains(boss), "{listed}");
    let compared = server.run(&["approvals", "get", child, call]).expect_exit(0).out;
    assert!(compared.contains("root run") && compared.contains("last approved"), "{compared}");

    let approved = server.run(&["runs", "approve", child, call]).expect_exit(0).err;
    let parent = format!("the parent run {boss} continues; follow it with `toolwright runs watch {boss}`\n");
    assert!(approved.contains(&parent), "{approved}");
    let decided = server.run(&["approvals", "list", "--decided", "--tool", "hubspot/update-deal"]).expect_exit(0).out;
    assert_eq!(decided.matches("approved  admin").count(), 2, "{decided}");
    let effects = server.run(&["effects", "list", "--outcome", "done", "--run", child, "--json"]).expect_exit(0).json();
    let effect = effects["items"][0]["id"].as_str().unwrap();
    let shown = server.run(&["effects", "get", effect]).expect_exit(0).out;
    assert!(shown.contains("hubspot/update-deal@") && shown.contains("approved by  admin"), "{shown}");
    assert!(server.run(&["effects", "list"]).expect_exit(0).out.contains(effect));
    server.run(&["effects", "resolve", effect, "--outcome", "failed"]).expect_exit(5);
    let kept = server.run(&["effects", "undo", effect, "--dry-run"]).expect_exit(0).out;
    assert!(kept.contains("cannot be undone: its tool has no `compensateToolRef`"), "{kept}");
}

#[test]
fn journal_and_tree_and_details_of_a_run_are_printed_with_unshortened_ids() {
    let server = start_with_definitions();
    let (run, call) = start_waiting_run(&server);
    server.run(&["runs", "approve", &run, &call]).expect_exit(0);
    let journal = server.run(&["runs", "journal", &run]).expect_exit(0).out;
    assert!(journal.starts_with("ENTRY  KIND"), "{journal}");
    let intent = journal.lines().find(|line| line.contains("intended")).unwrap();
    assert!(intent.contains(&call) && intent.contains("no") && intent.contains("hubspot/update-deal"), "{journal}");
    let at = intent.split_whitespace().next().unwrap();
    let rejected = server.run(&["runs", "fork", &run, "--at", at, "--send-writes"]).expect_exit(6).err;
    assert!(rejected.contains("the nearest entries that can be forked are"), "{rejected}");
    assert!(rejected.contains(&format!("toolwright runs journal {run}")), "{rejected}");
    let part = server.run(&["runs", "journal", &run, "--from", "2", "--limit", "1"]).expect_exit(0);
    assert_eq!((part.out.lines().count(), part.err.contains("--from 3")), (2, true), "{}{}", part.out, part.err);
    let ended = server.run(&["runs", "journal", &run, "--kind", "call_ended", "--json"]).expect_exit(0).json();
    assert_eq!(ended["items"].as_array().unwrap().len(), 2);
    assert_eq!(ended["items"][1]["callId"], json!(call));

    let shown = server.run(&["runs", "get", &run, "-v"]).expect_exit(0).out;
    for text in [
        "user\n      mark it as won",
        "Let me look at the deal first.",
        "      input\n",
        "      output\n",
        "approve by admin",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(shown.contains(&format!("`toolwright runs fork {run} --at ENTRY` works with 1")), "{shown}");
    let tree = server.run(&["runs", "tree", &run]).expect_exit(0).out;
    assert!(tree.starts_with(&format!("{run}\n  crm/assistant@1.0.0  COMPLETED  ")), "{tree}");

    let listed = |filter: &[&str]| {
        let page = server.run(&[&["runs", "list", "--json"], filter].concat()).expect_exit(0).json();
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(listed(&["--called-tool", "hubspot/update-deal", "--text", "AS WON"]), 1);
    assert_eq!(listed(&["--text", "nothing like this"]), 0);
    let filters =
        ["--agent", AGENT, "--principal", "admin", "--max-cost", "1", "--started-after", "2020-01-01T00:00:00Z"];
    assert_eq!(listed(&filters), 1);
    assert_eq!(listed(&["--started-before", "2020-01-01T00:00:00Z"]), 0);
    server.run(&["runs", "list", "--started-after", "yesterday"]).expect_exit(2);
}

#[test]
fn client_action_is_printed_and_returning_its_result_completes_the_run() {
    let server = start_with_definitions();
    let waiting = server.run(&["agents", "run", AGENT, "open it", "--context", "team=sales"]).expect_exit(8);
    assert_output!(waiting.out, @r#"
    ! browser/open  requires a client action
      {
        "url": "https://h"
      }
      then: toolwright runs results RUN CALL --output JSON

    … AWAITING_CLIENT  1 model call · TOKENS
      RUN  CONVERSATION
    "#);
    let line = waiting.out.lines().find_map(|line| line.trim().strip_prefix("then: toolwright ")).unwrap();
    let command: Vec<&str> =
        line.split(' ').map(|word| if word == "JSON" { r#"{"title":"Home"}"# } else { word }).collect();
    let returned = server.run(&command).expect_exit(0);
    assert!(returned.out.contains("\nIt says {\"title\":\"Home\"}\n"), "{}", returned.out);
    server.run(&["runs", "results", "run_x", "call_x"]).expect_exit(2);
}

#[test]
fn each_line_typed_in_a_chat_is_a_message_a_decision_or_a_command() {
    let server = start_with_definitions();
    let chat = ["agents", "chat", AGENT, "--context", "team=sales"];
    let lines = "hello\nmark it as won\nwhat?\nn not today\n/nonsense\n/cost\n/quit\nnot said any more\n";
    let chat = server.run_with_stdin(&chat, lines).expect_exit(0);
    assert_output!(chat.out, @r#"
    You said: hello
    1 model call · TOKENS · TIME

    Let me look at the deal first.

    ✓ hubspot/get-deal  TIME  dealId="101"

    It is still open, so I will move it.

    ? hubspot/update-deal  writes  requires approval
      {
        "dealId": "101",
        "properties": {
          "dealstage": "closedwon"
        }
      }
      denied
    – hubspot/update-deal  not called  dealId="101" properties={"dealstage":"closedwon"}
      not today

    Fine, I leave deal 101 as it is.
    3 model calls · 1 tool call · 1 not called · TOKENS · TIME

    2 runs · TOKENS · price unknown
    "#);
    assert_output!(chat.err, @"
      expected y, n REASON, e JSON or s
    unknown command /nonsense; type /help for a list
    continue with `toolwright agents chat crm/assistant --conversation CONVERSATION`
    ");
    let listed = server.run(&["conversations", "list", "--json"]).expect_exit(0).json();
    let id = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(
        server.run(&["conversations", "rename", id, "Deals"]).expect_exit(0).out,
        format!("✓ renamed    {id}\n")
    );
    let shown = server.run(&["conversations", "get", id]).expect_exit(0).out;
    assert!(shown.contains("title         Deals\n") && shown.contains("Fine, I leave deal 101"), "{shown}");
    let more = ["agents", "chat", AGENT, "--conversation", id, "--context", "team=sales"];
    assert!(server.run_with_stdin(&more, "/history\n/help\n").expect_exit(0).out.contains("mark it as won"));
    server.run(&["agents", "chat", AGENT, "--json"]).expect_exit(2);
    server.run(&["conversations", "delete", id]).expect_exit(0);
    server.run(&["conversations", "get", id]).expect_exit(3);
}

#[test]
fn run_that_waits_for_approval_can_be_cancelled() {
    let server = start_with_definitions();
    let (run, _) = start_waiting_run(&server);
    assert_output!(server.run(&["runs", "cancel", &run]).expect_exit(0).out, @"
    ✗ CANCELLED  cancelled by `admin`
      2 model calls · 1 tool call · 1 not called · TOKENS
      RUN  CONVERSATION
    ");
    let watched = server.run(&["runs", "watch", &run]).expect_exit(1);
    assert!(watched.out.contains("✗ CANCELLED"), "{}", watched.out);
    assert_eq!(
        server.run(&["runs", "cancel", &run]).expect_exit(5).err.lines().next().unwrap().split(':').next(),
        Some("error[run-ended]")
    );
}

#[test]
fn ctrl_c_ends_the_runs_watch_command_but_not_the_run() {
    let server = start_with_definitions();
    let (run, _) = start_waiting_run(&server);
    let args = ["runs", "watch", &run];
    let mut child = server.spawn(&args);
    assert!(first_stderr_line(&mut child).starts_with("  decide with "));
    interrupt(&child);
    let ended = CommandOutput::wait(&args, child).expect_exit(130);
    assert_eq!(ended.err, "");
    assert_eq!(server.run(&["runs", "get", &run, "--json"]).expect_exit(0).json()["status"], "AWAITING_APPROVAL");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_in_the_agents_run_command_cancels_the_run() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let server = start_with_definitions();
    let slow = json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "sideEffects": "reads", "timeoutMs": 60_000,
        "invocation": { "path": faults.url("/slow/30000") } });
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &slow.to_string()).expect_exit(0);
    let args = ["agents", "run", AGENT, "slow", "--context", "team=sales"];
    let mut child = server.spawn(&args);
    while faults.hits("/slow") == 0 {
        tokio::task::yield_now().await;
    }
    interrupt(&child);
    assert_eq!(first_stderr_line(&mut child), "cancelling the run; press Ctrl-C again to exit without waiting\n");
    let ended = CommandOutput::wait(&args, child).expect_exit(1);
    assert!(ended.out.contains("✗ slow  ") && ended.out.contains("✗ CANCELLED  cancelled by `admin`"), "{}", ended.out);
    let runs = server.run(&["runs", "list", "--json"]).expect_exit(0).json();
    assert_eq!(runs["items"][0]["status"], "CANCELLED");
    faults.shutdown().await;
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Waits for the first line on standard error and returns it.
fn first_stderr_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}
