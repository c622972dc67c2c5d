//! Random workflows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwright_machine::workflow::{WorkflowGraph, WorkflowSource, WorkflowSpec};

use super::executor::TOOLS;
use super::random::Random;

/// The name of the signal for which steps wait.
pub(super) const SIGNAL: &str = "go";

/// Returns a random workflow. Its graph has no cycles, because each step depends only on earlier steps.
pub(super) fn workflow(random: &mut Random) -> WorkflowSpec {
    let count = 2 + random.below(8);
    let mut steps: Vec<Value> = Vec::new();
    for at in 0..count {
        let step = step(random, at, count);
        steps.push(Value::Object(step));
    }
    let definition =
        json!({ "refName": "simulated", "steps": steps, "limits": { "maxParallelCalls": 1 + random.below(4) } });
    let definition = Arc::new(serde_json::from_value(definition).expect("a definition"));
    let source = WorkflowSource { definition, registrations: BTreeMap::new(), conditions: BTreeMap::new() };
    let graph = WorkflowGraph::compile(source).unwrap_or_else(|issues| panic!("the workflow is valid: {issues:?}"));
    WorkflowSpec { graph: Arc::new(graph), input: json!({ "list": [1, 2, 3] }), reused: BTreeMap::new(), only: None }
}

fn step(random: &mut Random, at: u64, count: u64) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("name".into(), json!(format!("s{at}")));
    let mut before: Vec<String> = Vec::new();
    for from in at.saturating_sub(3)..at {
        if random.chance(500) {
            before.push(format!("s{from}"));
        }
    }
    fields.insert("dependsOn".into(), json!(before));
    let (handler, input) = match random.below(10) {
        0 => ("quantum.flow.sleep", json!({ "duration": random.below(30_000) })),
        1 => ("quantum.flow.waitForSignal", json!({ "signal": SIGNAL })),
        2 => ("quantum.flow.transform", json!({ "n": at })),
        _ => {
            let tool = TOOLS[usize::try_from(random.below(TOOLS.len() as u64)).unwrap_or(0)];
            (tool, json!({ "n": random.below(1000) }))
        }
    };
    fields.insert("handlerRef".into(), json!(handler));
    fields.insert("input".into(), input);
    if random.chance(200) {
        fields.insert("forEach".into(), json!({ "items": "${input.list}", "concurrency": 1 + random.below(3) }));
    }
    if random.chance(300) {
        fields.insert("retry".into(), json!({ "maxAttempts": 1 + random.below(3), "delay": random.below(5_000) }));
    }
    // A step that waits for a signal always has a time limit, because the signal may never be sent.
    if handler == "quantum.flow.waitForSignal" || random.chance(300) {
        fields.insert("timeout".into(), json!(1 + random.below(60_000)));
    }
    if random.chance(150) {
        fields.insert("condition".into(), json!("${size(input.list) > 5}"));
    }
    match random.below(4) {
        0 => {}
        1 if at + 1 < count => drop(fields.insert("onError".into(), json!({ "fallback": format!("s{}", at + 1) }))),
        _ => drop(fields.insert("onError".into(), json!("continue"))),
    }
    fields
}
