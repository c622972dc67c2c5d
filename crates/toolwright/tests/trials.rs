//! Trials on the command line, against a real server and a scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use support::Server;

const DEFINITIONS: &str = r#"
refName: look
toolType: FUNCTION
description: Looks at something.
inputJsonSchema: { type: object, properties: { at: { type: string } }, required: [at] }
outputJsonSchema: {}
invocation: { path: echo }
---
refName: glass
toolType: FUNCTION
description: Looks closer.
inputJsonSchema: { type: object, properties: { at: { type: string } }, required: [at] }
outputJsonSchema: {}
invocation: { path: echo, bodyTemplate: { at: "${at}, closer" } }
---
refName: note
toolType: FUNCTION
description: Writes something down.
sideEffects: writes
outputJsonSchema: {}
invocation: { path: echo }
---
refName: scout
toolRefs: [look, note]
libraries:
  glass: { look: glass }
llmConfig:
  provider: scripted
  model: rules
  extraParams:
    script:
      rules:
        - when: { turn: 0 }
          reply: { toolCalls: [{ name: look, arguments: { at: "{{user}}" } }] }
        - when: { turn: 1 }
          reply: { toolCalls: [{ name: note, arguments: { saw: "{{result/at}}" } }] }
      otherwise: { text: "Noted." }
"#;

fn started() -> Server {
    let server = Server::start();
    server.run_with(&["tools", "apply", "-f", "-"], DEFINITIONS).exits(0);
    server
}

#[test]
fn a_recorded_run_is_replayed_against_something_new() {
    let server = started();
    let run = server.run(&["agents", "run", "scout", "the sky", "--json"]).exits(0).json();
    let run = run["runId"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let file = file.to_str().unwrap();
    server.run(&["runs", "export", run, "-o", file]).exits(0);
    server.run(&["runs", "replay", file]).exits(0);
    let same = server.run(&["runs", "replay", file, "--with", "look@1.0.0"]).exits(0);
    assert!(same.out.contains("✓ the same"), "{}", same.out);
    let other = server.run(&["runs", "replay", file, "--with", "look=glass"]).exits(1);
    assert_eq!(
        other.out.lines().take(11).collect::<Vec<_>>(),
        [
            "CALL                VERSION  RESULT    ERROR",
            "look → glass@1.0.0  1.0.0    made",
            "note                1.0.0    captured",
            "1 replies recorded, 2 asked for anew",
            "/calls/0/output/at",
            "  - \"the sky\"",
            "  + \"the sky, closer\"",
            "/calls/1/input/saw",
            "  - \"the sky\"",
            "  + \"the sky, closer\"",
            "/calls/1/output",
        ]
    );
    assert_eq!(
        server.run(&["runs", "replay", file, "--with", "look=glass", "--json"]).exits(1).json()["replayOf"],
        run
    );
    let wrong = server.run(&["runs", "replay", file, "--with", "look@9.0.0"]).exits(6);
    assert!(wrong.err.contains("there is no tool `look@9.0.0`"), "{}", wrong.err);
    server.run(&["runs", "replay", file, "--with", "look"]).exits(2);
    server.run(&["runs", "replay", file, "--with-prompt", "no such file"]).exits(2);
    server.run(&["runs", "replay", "no such file", "--with", "look=glass"]).exits(2);
}
