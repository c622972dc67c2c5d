//! Tests the trial commands of the CLI against a real server and a scripted model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

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

fn start_with_definitions() -> Server {
    let server = Server::start();
    server.run_with_stdin(&["tools", "apply", "-f", "-"], DEFINITIONS).expect_exit(0);
    server
}

#[test]
fn runs_replay_command_with_another_tool_prints_the_differences() {
    let server = start_with_definitions();
    let run = server.run(&["agents", "run", "scout", "the sky", "--json"]).expect_exit(0).json();
    let run = run["runId"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let file = file.to_str().unwrap();
    server.run(&["runs", "export", run, "-o", file]).expect_exit(0);
    server.run(&["runs", "replay", file]).expect_exit(0);
    let same = server.run(&["runs", "replay", file, "--with", "look@1.0.0"]).expect_exit(0);
    assert!(same.out.contains("✓ no differences"), "{}", same.out);
    let other = server.run(&["runs", "replay", file, "--with", "look=glass"]).expect_exit(1);
    assert_eq!(
        other.out.lines().take(11).collect::<Vec<_>>(),
        [
            "CALL                VERSION  RESULT    ERROR",
            "look → glass@1.0.0  1.0.0    made",
            "note                1.0.0    captured",
            "replies: 1 recorded, 2 new",
            "/calls/0/output/at",
            "  - \"the sky\"",
            "  + \"the sky, closer\"",
            "/calls/1/input/saw",
            "  - \"the sky\"",
            "  + \"the sky, closer\"",
            "/calls/1/output",
        ]
    );
    let replayed = server.run(&["runs", "replay", file, "--with", "look=glass", "--json"]).expect_exit(1).json();
    assert_eq!(replayed["replayOf"], run);
    let shown = server.run(&["runs", "get", replayed["runId"].as_str().unwrap()]).expect_exit(0).out;
    assert!(shown.contains("✓ note  captured  saw=\"the sky, closer\""), "{shown}");
    let wrong = server.run(&["runs", "replay", file, "--with", "look@9.0.0"]).expect_exit(6);
    assert!(wrong.err.contains("there is no tool `look@9.0.0`"), "{}", wrong.err);
    server.run(&["runs", "replay", file, "--with", "look"]).expect_exit(2);
    server.run(&["runs", "replay", file, "--with-prompt", "no such file"]).expect_exit(2);
    server.run(&["runs", "replay", "no such file", "--with", "look=glass"]).expect_exit(2);
}

#[test]
fn trials_run_command_compares_two_libraries() {
    let server = start_with_definitions();
    let folder = tempfile::tempdir().unwrap();
    let inputs = folder.path().join("inputs.jsonl");
    std::fs::write(&inputs, "\"the sky\"\n\n{\"userMessage\": \"the sea\", \"context\": {\"wind\": 3}}\n").unwrap();
    let inputs = inputs.to_str().unwrap();
    let args = ["trials", "run", "scout", "--a", "default", "--b", "glass", "--inputs", inputs, "--repeat", "2"];
    let result = server.run(&args).expect_exit(0);
    for line in [
        "library         default",
        "runs            4 of 4",
        "completed       100 % (51 % to 100 %)",
        "same status in 100 % (51 % to 100 %) of the pairs, same reply in 100 % (51 % to 100 %)",
    ] {
        assert!(result.out.contains(line), "{line}: {}", result.out);
    }
    assert!(result.err.contains("started") && result.err.contains("95 %"), "{}", result.err);
    let trial = result.out.split_whitespace().next().unwrap();
    assert_eq!(server.run(&["trials", "get", trial, "--json"]).expect_exit(0).json()["b"]["completed"], 4);
    assert!(server.run(&["trials", "get", trial]).expect_exit(0).out.contains("glass"));
    let runs = server.run(&["runs", "list", "--agent", "scout", "--all", "--json"]).expect_exit(0).json();
    assert!(runs["items"].as_array().unwrap().iter().all(|run| run["trial"]["kind"] == "compare"));

    let run = server.run(&["agents", "run", "scout", "the sky", "--json"]).expect_exit(0).json();
    let run = run["runId"].as_str().unwrap();
    let recorded = ["trials", "run", "scout", "--a", "look@1.0.0", "--b", "look=glass", "--runs", run, "--json"];
    assert_eq!(server.run(&recorded).expect_exit(0).json()["b"]["arm"], "look=glass");
    let bundles = folder.path().join("bundles");
    std::fs::create_dir(&bundles).unwrap();
    server.run(&["runs", "export", run, "-o", bundles.join("one.jsonl").to_str().unwrap()]).expect_exit(0);
    let library = folder.path().join("far.json");
    std::fs::write(&library, r#"{ "look": "glass" }"#).unwrap();
    let (library, bundles) = (format!("@{}", library.display()), bundles.to_str().unwrap().to_owned());
    let from_folder = ["trials", "run", "scout", "--a", "look@1.0.0", "--b", &library, "--runs", &bundles, "--json"];
    assert_eq!(server.run(&from_folder).expect_exit(0).json()["b"]["arm"], "far");
    let report = server.run(&["trials", "report", "scout", "--since", "1h"]).expect_exit(0);
    assert!(report.err.contains("no trial runs found"), "{}", report.err);
}

#[test]
fn invalid_trial_is_rejected_with_a_reason() {
    let server = start_with_definitions();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inputs.jsonl");
    let path = file.to_str().unwrap();
    let run_trial = |a: &str, b: &str| server.run(&["trials", "run", "scout", "--a", a, "--b", b, "--inputs", path]);
    std::fs::write(&file, "\"the sky\"\n7\n").unwrap();
    assert!(run_trial("default", "glass").expect_exit(2).err.contains("line 2"), "the message names the line");
    std::fs::write(&file, "").unwrap();
    assert!(run_trial("default", "glass").expect_exit(6).err.contains("between 1 and 2000 runs"), "the input is empty");
    std::fs::write(&file, "\"the sky\"\n").unwrap();
    assert!(run_trial("default", "default").expect_exit(6).err.contains("the libraries must differ"));
    assert!(
        run_trial("default", "lens").expect_exit(6).err.contains("has no library `lens`; it has `glass`, `default`")
    );
    assert!(run_trial("default", "look=lens").expect_exit(6).err.contains("there is no tool `lens`"));
    run_trial("default", "look=").expect_exit(2);
    server.run(&["trials", "run", "scout", "--a", "default", "--b", "glass"]).expect_exit(2);
    server.run(&["trials", "run", "nobody", "--a", "default", "--b", "glass", "--inputs", path]).expect_exit(3);
    server.run(&["trials", "get", "trial_00000000000000000000000000"]).expect_exit(3);
    server.run(&["trials", "report", "nobody"]).expect_exit(3);
}

#[test]
fn trials_report_command_shows_both_libraries_of_a_live_split() {
    let server = start_with_definitions();
    let split =
        DEFINITIONS.replace("toolRefs: [look, note]", "toolRefs: [look, note]\nsplit: { library: glass, share: 1 }");
    server.run_with_stdin(&["tools", "apply", "-f", "-"], &split).expect_exit(0);
    server.run(&["agents", "run", "scout", "the sky"]).expect_exit(0);
    let report = server.run(&["trials", "report", "scout", "--since", "1h"]).expect_exit(0);
    assert!(report.out.starts_with("live split of scout\n"), "{}", report.out);
    assert!(report.out.contains("library         default  glass"), "{}", report.out);
}
