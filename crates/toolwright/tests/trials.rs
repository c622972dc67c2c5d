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
    let replayed = server.run(&["runs", "replay", file, "--with", "look=glass", "--json"]).exits(1).json();
    assert_eq!(replayed["replayOf"], run);
    let shown = server.run(&["runs", "show", replayed["runId"].as_str().unwrap()]).exits(0).out;
    assert!(shown.contains("✓ note  captured  saw=\"the sky, closer\""), "{shown}");
    let wrong = server.run(&["runs", "replay", file, "--with", "look@9.0.0"]).exits(6);
    assert!(wrong.err.contains("there is no tool `look@9.0.0`"), "{}", wrong.err);
    server.run(&["runs", "replay", file, "--with", "look"]).exits(2);
    server.run(&["runs", "replay", file, "--with-prompt", "no such file"]).exits(2);
    server.run(&["runs", "replay", "no such file", "--with", "look=glass"]).exits(2);
}

#[test]
fn two_libraries_are_compared() {
    let server = started();
    let folder = tempfile::tempdir().unwrap();
    let inputs = folder.path().join("inputs.jsonl");
    std::fs::write(&inputs, "\"the sky\"\n\n{\"userMessage\": \"the sea\", \"context\": {\"wind\": 3}}\n").unwrap();
    let inputs = inputs.to_str().unwrap();
    let args = ["trials", "run", "scout", "--a", "default", "--b", "glass", "--inputs", inputs, "--repeat", "2"];
    let told = server.run(&args).exits(0);
    for line in [
        "library          default",
        "runs             4 of 4",
        "completed        100 % (51 % to 100 %)",
        "the same status in 100 % (51 % to 100 %), the same answer in 100 % (51 % to 100 %) of the pairs",
    ] {
        assert!(told.out.contains(line), "{line}: {}", told.out);
    }
    assert!(told.err.contains("has begun") && told.err.contains("95 %"), "{}", told.err);
    let trial = told.out.split_whitespace().next().unwrap();
    assert_eq!(server.run(&["trials", "show", trial, "--json"]).exits(0).json()["b"]["completed"], 4);
    assert!(server.run(&["trials", "show", trial]).exits(0).out.contains("glass"));
    let runs = server.run(&["runs", "list", "--all", "--json"]).exits(0).json();
    assert!(runs["items"].as_array().unwrap().iter().all(|run| run["trial"]["kind"] == "compare"));

    let run = server.run(&["agents", "run", "scout", "the sky", "--json"]).exits(0).json();
    let run = run["runId"].as_str().unwrap();
    let recorded = ["trials", "run", "scout", "--a", "look@1.0.0", "--b", "look=glass", "--runs", run, "--json"];
    assert_eq!(server.run(&recorded).exits(0).json()["b"]["arm"], "look=glass");
    let bundles = folder.path().join("bundles");
    std::fs::create_dir(&bundles).unwrap();
    server.run(&["runs", "export", run, "-o", bundles.join("one.jsonl").to_str().unwrap()]).exits(0);
    let library = folder.path().join("far.json");
    std::fs::write(&library, r#"{ "look": "glass" }"#).unwrap();
    let (library, bundles) = (format!("@{}", library.display()), bundles.to_str().unwrap().to_owned());
    let folder_of = ["trials", "run", "scout", "--a", "look@1.0.0", "--b", &library, "--runs", &bundles, "--json"];
    assert_eq!(server.run(&folder_of).exits(0).json()["b"]["arm"], "far");
    let report = server.run(&["trials", "report", "scout", "--since", "1h"]).exits(0);
    assert!(report.err.contains("no run of the agent was tried"), "{}", report.err);
}

#[test]
fn a_trial_that_cannot_be_says_why() {
    let server = started();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inputs.jsonl");
    let path = file.to_str().unwrap();
    let with = |a: &str, b: &str| server.run(&["trials", "run", "scout", "--a", a, "--b", b, "--inputs", path]);
    std::fs::write(&file, "\"the sky\"\n7\n").unwrap();
    assert!(with("default", "glass").exits(2).err.contains("line 2"), "the place is named");
    std::fs::write(&file, "").unwrap();
    assert!(with("default", "glass").exits(6).err.contains("1 to 2000 runs"), "nothing to try");
    std::fs::write(&file, "\"the sky\"\n").unwrap();
    assert!(with("default", "default").exits(6).err.contains("the same"));
    assert!(with("default", "lens").exits(6).err.contains("has no library `lens`; it has `glass`, `default`"));
    assert!(with("default", "look=lens").exits(6).err.contains("there is no tool `lens`"));
    with("default", "look=").exits(2);
    server.run(&["trials", "run", "scout", "--a", "default", "--b", "glass"]).exits(2);
    server.run(&["trials", "run", "nobody", "--a", "default", "--b", "glass", "--inputs", path]).exits(3);
    server.run(&["trials", "show", "trial_00000000000000000000000000"]).exits(3);
    server.run(&["trials", "report", "nobody"]).exits(3);
}

#[test]
fn live_arms_are_reported() {
    let server = started();
    let split =
        DEFINITIONS.replace("toolRefs: [look, note]", "toolRefs: [look, note]\nsplit: { library: glass, share: 1 }");
    server.run_with(&["tools", "apply", "-f", "-"], &split).exits(0);
    server.run(&["agents", "run", "scout", "the sky"]).exits(0);
    let report = server.run(&["trials", "report", "scout", "--since", "1h"]).exits(0);
    assert!(report.out.starts_with("live split of scout\n"), "{}", report.out);
    assert!(report.out.contains("library          default  glass"), "{}", report.out);
}
