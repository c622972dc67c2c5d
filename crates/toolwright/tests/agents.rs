//! Agents on the command line, against a real server and a scripted model: what people see, and what scripts branch on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use serde_json::json;
use support::{Ended, Server};
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

/// A server that has the definitions.
fn started() -> Server {
    let server = Server::start();
    server.run_with(&["agents", "apply", "-f", "-"], DEFINITIONS).exits(0);
    server
}

/// A run that waits for a decision: the run and its call.
fn waiting(server: &Server) -> (String, String) {
    let run = server.run(&[&MOVE[..], &["--json"]].concat()).exits(8).json();
    let field = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    (field(&run["runId"]), field(&run["approvals"][0]["callId"]))
}

/// Checks what people see. What differs from run to run has a name instead.
macro_rules! seen {
    ($text:expr, @$snapshot:literal) => {
        insta::assert_snapshot!(stable(&$text), @$snapshot)
    };
}

fn stable(text: &str) -> String {
    let differing = [
        ("run_[0-9A-Z]{26}", "RUN"),
        ("conv_[0-9A-Z]{26}", "CONVERSATION"),
        ("call_[0-9a-z]{26}", "CALL"),
        (r"\d+ ms|\d+\.\d s", "TIME"),
        (r"[0-9,]+ tokens( \([0-9,]+ in, [0-9,]+ out\))?", "TOKENS"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "MINUTE"),
    ];
    differing.iter().fold(text.to_owned(), |text, (pattern, name)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
    })
}

#[test]
fn definitions_are_applied_listed_shown_and_deleted() {
    let server = Server::start();
    let apply = ["agents", "apply", "-f", "-"];
    let first = server.run_with(&apply, DEFINITIONS).exits(0);
    assert_eq!(
        first.out,
        "✓ created    fragment manners\n✓ created    tool browser/open\n✓ created    agent crm/assistant\n"
    );
    let again = server.run_with(&apply, DEFINITIONS).exits(0);
    assert_eq!(
        again.out,
        "= unchanged  fragment manners\n= unchanged  tool browser/open\n= unchanged  agent crm/assistant\n"
    );
    let changed = DEFINITIONS.replace("Looks after deals.", "Knows deals.");
    assert!(server.run_with(&apply, &changed).exits(0).out.contains("✓ updated    agent crm/assistant"));

    seen!(server.run(&["agents", "list"]).exits(0).out, @"
    NAME           MODEL                 STATUS   DESCRIPTION
    assistant      the server's default  enabled  Answers questions about deals and orders, and changes them when a person agrees.
    crm/assistant  scripted/rules        enabled  Knows deals.
    order-desk     the server's default  enabled  Answers questions about customers and orders from the records kept here.
    ");
    seen!(server.run(&["agents", "show", AGENT]).exits(0).out, @"
    crm/assistant
    Knows deals.

    model      scripted/rules
    tools      hubspot/get-deal, hubspot/update-deal, browser/open, slow
    approval   before it changes anything
    fragments  manners
    revision   2, MINUTE by admin

    You look after the deals of {{team}}.
    ");
    let tools = server.run(&["agents", "tools", AGENT, "--message", "move a deal"]).exits(0).out;
    assert!(tools.starts_with("NAME") && tools.contains("hubspot/update-deal"), "{tools}");
    seen!(server.run(&["fragments", "show", "manners"]).exits(0).out, @"
    manners
    revision  1, MINUTE by admin

    Be kind.
    ");
    assert!(server.run(&["prompt-fragments", "list"]).exits(0).out.contains("Be kind."));
    let mistaken = server.run_with(&["fragments", "apply", "-f", "-"], "refName: x\nnonsense: 1\n").exits(6);
    assert!(mistaken.err.contains("fragment x") && mistaken.err.contains("nonsense"), "{}", mistaken.err);

    assert_eq!(server.run(&["agents", "delete", AGENT]).exits(0).out, "✓ deleted    crm/assistant\n");
    server.run(&["fragments", "delete", "manners"]).exits(0);
    server.run(&["agents", "show", AGENT]).exits(3);
    server.run(&["agents", "run", AGENT, "hello"]).exits(3);
    server.run(&["agents", "chat", AGENT]).exits(3);
}

#[test]
fn a_run_is_told_as_it_happens() {
    let server = started();
    seen!(server.run(&[&MOVE[..], &["--yes"]].concat()).exits(0).out, @r#"
    Let me look at the deal first.

    ✓ hubspot/get-deal  TIME  dealId="101"

    It is still open, so I will move it.

    ? hubspot/update-deal  writes  needs a decision
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
    let whole = server.run(&[&MOVE[..], &["--yes", "--json"]].concat()).exits(0).json();
    assert_eq!((&whole["status"], &whole["responseText"]), (&json!("COMPLETED"), &json!("Deal 101 is changed.")));
    assert_eq!(whole["toolCalls"].as_array().unwrap().len(), 2);

    let unsaid = server.run(&["agents", "run", AGENT, "hello"]).exits(0);
    assert!(unsaid.err.contains("! the prompt's variable `team` is not in the context"), "{}", unsaid.err);
    let piped = server.run_with(&["agents", "run", AGENT, "-"], "from a pipe").exits(0);
    assert!(piped.out.starts_with("You said: from a pipe\n"), "{}", piped.out);
    server.run(&["agents", "run", AGENT, "hello", "--context", "nonsense"]).exits(2);
}

#[test]
fn a_call_that_needs_a_decision_waits_for_it() {
    let server = started();
    let left = server.run(&MOVE).exits(8);
    assert!(left.out.contains("? hubspot/update-deal  writes  needs a decision\n"), "{}", left.out);
    seen!(left.err, @"  decide with `toolwright runs approve RUN CALL`, or deny, or edit");
    assert!(left.out.contains("\n… AWAITING_APPROVAL  "), "{}", left.out);
    assert!(server.run(&["approvals", "list"]).exits(0).out.contains(r#"properties={"dealstage":"closedwon"}"#));

    let (run, call) = waiting(&server);
    seen!(server.run(&["runs", "deny", &run, &call, "--reason", "not on a Sunday"]).exits(0).out, @"
    ✓ CALL denied

    Fine, I leave deal 101 as it is.

    ✓ COMPLETED  3 model calls · 2 tool calls · TOKENS
      RUN  CONVERSATION
    ");
    seen!(server.run(&["runs", "show", &run]).exits(0).out, @r#"
    agent         crm/assistant
    conversation  CONVERSATION
    began         MINUTE

    ✓ hubspot/get-deal  TIME  dealId="101"
    – hubspot/update-deal  not called  dealId="101" properties={"dealstage":"closedwon"}
      not on a Sunday

    Fine, I leave deal 101 as it is.

    ✓ COMPLETED  3 model calls · 2 tool calls · TOKENS · TIME
      RUN  CONVERSATION
    "#);
    let late = server.run(&["runs", "approve", &run, &call]).exits(5);
    assert!(late.err.starts_with("error[run-ended]"), "{}", late.err);

    let (run, call) = waiting(&server);
    assert!(server.run(&["runs", "approve", &run, &call]).exits(0).out.contains("\nDeal 101 is changed.\n"));
    let (run, call) = waiting(&server);
    let input = r#"{"dealId":"101","properties":{"dealstage":"negotiation"}}"#;
    server.run(&["runs", "edit", &run, &call, "--input", "{"]).exits(2);
    let edited = server.run(&["runs", "edit", &run, &call, "--input", input, "--json"]).exits(0).json();
    assert_eq!(edited["toolCalls"][1]["input"]["properties"]["dealstage"], "negotiation");
    let watched = server.run(&["runs", "watch", &run]).exits(0).out;
    assert!(watched.contains(r#"✓ hubspot/update-deal  "#) && watched.contains("negotiation"), "{watched}");
    let listed = server.run(&["runs", "list", "--agent", AGENT, "--status", "completed", "--json"]).exits(0).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    assert!(server.run(&["runs", "list"]).exits(0).out.contains("AWAITING_APPROVAL"));
    server.run(&["runs", "list", "--status", "done"]).exits(2);
}

#[test]
fn a_client_is_told_what_to_do_and_returns_what_came_of_it() {
    let server = started();
    let asked = server.run(&["agents", "run", AGENT, "open it", "--context", "team=sales"]).exits(8);
    seen!(asked.out, @r#"
    ! browser/open  is for you to do
      {
        "url": "https://h"
      }
      then: toolwright runs results RUN CALL --output JSON

    … AWAITING_CLIENT  1 model call · TOKENS
      RUN  CONVERSATION
    "#);
    let line = asked.out.lines().find_map(|line| line.trim().strip_prefix("then: toolwright ")).unwrap();
    let command: Vec<&str> =
        line.split(' ').map(|word| if word == "JSON" { r#"{"title":"Home"}"# } else { word }).collect();
    let returned = server.run(&command).exits(0);
    assert!(returned.out.contains("\nIt says {\"title\":\"Home\"}\n"), "{}", returned.out);
    server.run(&["runs", "results", "run_x", "call_x"]).exits(2);
}

#[test]
fn a_conversation_is_held_line_by_line() {
    let server = started();
    let chat = ["agents", "chat", AGENT, "--context", "team=sales"];
    let lines = "hello\nmark it as won\nwhat?\nn not today\n/nonsense\n/cost\n/quit\nnot said any more\n";
    let chat = server.run_with(&chat, lines).exits(0);
    seen!(chat.out, @r#"
    You said: hello
    1 model call · TOKENS · TIME

    Let me look at the deal first.

    ✓ hubspot/get-deal  TIME  dealId="101"

    It is still open, so I will move it.

    ? hubspot/update-deal  writes  needs a decision
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
    3 model calls · 2 tool calls · TOKENS · TIME

    2 runs · TOKENS · no known price
    "#);
    seen!(chat.err, @"
      answer y, n REASON, e JSON or s
    there is no /nonsense; /help shows what there is
    go on later with `toolwright agents chat crm/assistant --conversation CONVERSATION`
    ");
    let listed = server.run(&["conversations", "list", "--json"]).exits(0).json();
    let id = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(server.run(&["conversations", "rename", id, "Deals"]).exits(0).out, format!("✓ renamed    {id}\n"));
    let shown = server.run(&["conversations", "show", id]).exits(0).out;
    assert!(shown.contains("title         Deals\n") && shown.contains("Fine, I leave deal 101"), "{shown}");
    let more = ["agents", "chat", AGENT, "--conversation", id, "--context", "team=sales"];
    assert!(server.run_with(&more, "/history\n/help\n").exits(0).out.contains("mark it as won"));
    server.run(&["agents", "chat", AGENT, "--json"]).exits(2);
    server.run(&["conversations", "delete", id]).exits(0);
    server.run(&["conversations", "show", id]).exits(3);
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let server = started();
    let (run, _) = waiting(&server);
    seen!(server.run(&["runs", "cancel", &run]).exits(0).out, @"
    ✗ CANCELLED  cancelled by `admin`
      2 model calls · 2 tool calls · TOKENS
      RUN  CONVERSATION
    ");
    let watched = server.run(&["runs", "watch", &run]).exits(1);
    assert!(watched.out.contains("✗ CANCELLED"), "{}", watched.out);
    assert_eq!(
        server.run(&["runs", "cancel", &run]).exits(5).err.lines().next().unwrap().split(':').next(),
        Some("error[run-ended]")
    );
}

#[test]
fn ctrl_c_ends_the_watching_and_not_the_run() {
    let server = started();
    let (run, _) = waiting(&server);
    let args = ["runs", "watch", &run];
    let mut child = server.spawn(&args);
    assert!(first_note(&mut child).starts_with("  decide with "));
    interrupt(&child);
    let ended = Ended::of(&args, child).exits(130);
    assert_eq!(ended.err, "");
    assert_eq!(server.run(&["runs", "show", &run, "--json"]).exits(0).json()["status"], "AWAITING_APPROVAL");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_the_run_and_not_only_the_command() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let server = started();
    let slow = json!({ "refName": "slow", "toolType": "EXTERNAL_REST", "sideEffects": "reads", "timeoutMs": 60_000,
        "invocation": { "path": faults.url("/slow/30000") } });
    server.run_with(&["tools", "apply", "-f", "-"], &slow.to_string()).exits(0);
    let args = ["agents", "run", AGENT, "slow", "--context", "team=sales"];
    let mut child = server.spawn(&args);
    while faults.hits("/slow") == 0 {
        tokio::task::yield_now().await;
    }
    interrupt(&child);
    assert_eq!(first_note(&mut child), "cancelling the run; Ctrl-C again leaves it to itself\n");
    let ended = Ended::of(&args, child).exits(1);
    assert!(ended.out.contains("✗ slow  ") && ended.out.contains("✗ CANCELLED  cancelled by `admin`"), "{}", ended.out);
    let runs = server.run(&["runs", "list", "--json"]).exits(0).json();
    assert_eq!(runs["items"][0]["status"], "CANCELLED");
    faults.shutdown().await;
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// The first line on stderr, as soon as it is there.
fn first_note(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}
