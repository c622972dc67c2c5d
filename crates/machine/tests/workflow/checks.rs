//! Issues of workflow definitions that are found when they are compiled.

use toolwright_machine::workflow::{IssueSeverity, MAX_WORKFLOW_EDGES, WorkflowGraph};

use crate::harness::{issues, source};

/// Checks the first issue of a workflow: its code and path, and a part of its message or hint.
fn assert_issue(yaml: &str, code: &str, path: &str, text: &str) {
    let issues = issues(yaml);
    let first = &issues[0];
    assert_eq!((first.code.as_str(), first.path.as_str()), (code, path), "{issues:#?}");
    assert!(first.to_string().contains(text), "{first}");
}

fn step(fields: &str) -> String {
    format!("steps:\n- {{ name: a, handlerRef: search }}\n- {{ name: b, {fields} }}\n")
}

#[test]
fn every_mistake_has_a_code_a_path_and_a_hint() {
    assert_issue("steps: []", "step_count", "/steps", "1 to 10000");
    assert_issue(
        &step("handlerRef: search, dependsOn: [c]"),
        "unknown_step",
        "/steps/1/dependsOn/0",
        "`c` does not exist",
    );
    assert_issue(
        &step("handlerRef: search, dependsOn: [A]"),
        "unknown_step",
        "/steps/1/dependsOn/0",
        "did you mean `a`?",
    );
    assert_issue(
        &step("handlerRef: search, dependsOn: [a, a]"),
        "duplicate_dependency",
        "/steps/1/dependsOn/1",
        "twice",
    );
    assert_issue(
        &step("handlerRef: search, dependsOn: [a.large]"),
        "unknown_case",
        "/steps/1/dependsOn/0",
        "not a branch",
    );
    assert_issue(
        &step("handlerRef: quantum.ai.invokeAgents"),
        "unknown_handler",
        "/steps/1/handlerRef",
        "did you mean `quantum.ai.invokeAgent`?",
    );
    assert_issue(
        &step("handlerRef: search, input: '${a.n}'"),
        "unordered_reference",
        "/steps/1/input",
        "add the step to `dependsOn`",
    );
    assert_issue(
        &step("handlerRef: search, input: '${steps.c.output}'"),
        "unknown_step",
        "/steps/1/input",
        "`c`, which does not exist",
    );
    assert_issue(
        &step("handlerRef: search, input: '${b.n}'"),
        "unordered_reference",
        "/steps/1/input",
        "its own result",
    );
    assert_issue(&step("handlerRef: search, input: { x: ['${1 +}'] }"), "expression", "/steps/1/input/x/0", "");
    assert_issue(
        &step("handlerRef: search, condition: 'a > 1'"),
        "condition",
        "/steps/1/condition",
        "one `${…}` expression",
    );
    assert_issue(
        &step("handlerRef: search, conditionRef: none"),
        "unknown_condition",
        "/steps/1/conditionRef",
        "create it",
    );
    assert_issue(
        &step("handlerRef: search, retry: { maxAttempts: 0 }"),
        "retry",
        "/steps/1/retry/maxAttempts",
        "1 to 100",
    );
    assert_issue(&step("handlerRef: search, timeout: 0"), "duration", "/steps/1/timeout", "");
    assert_issue(
        &step("handlerRef: search, forEach: { items: [], concurrency: 0 }"),
        "concurrency",
        "/steps/1/forEach/concurrency",
        "1 to 1000",
    );
    assert_issue(
        &step("handlerRef: search, onError: { fallback: b }"),
        "error_target",
        "/steps/1/onError/fallback",
        "own error",
    );
    assert_issue(
        &step("handlerRef: search, onError: { fallback: c }"),
        "unknown_step",
        "/steps/1/onError/fallback",
        "`c`",
    );
    assert_issue(
        &step("handlerRef: search, onError: { branch: { NOPE: a } }"),
        "error_code",
        "/steps/1/onError/branch/NOPE",
        "RATE_LIMIT",
    );
    assert_issue(&step("handlerRef: quantum.flow.branch"), "branch", "/steps/1/input", "`cases`");
    assert_issue(
        &step("handlerRef: quantum.flow.branch, input: { cases: [{ name: x }] }"),
        "branch",
        "/steps/1/input/cases/0/when",
        "expression",
    );
    assert_issue(
        &step("handlerRef: quantum.flow.join, forEach: [1]"),
        "for_each",
        "/steps/1/forEach",
        "remove `forEach`",
    );
    assert_issue("steps: [{ name: input, handlerRef: search }]", "step_name", "/steps/0/name", "another meaning");
    assert_issue("steps: [{ name: a.b, handlerRef: search }]", "step_name", "/steps/0/name", "letters");
    assert_issue(
        "steps: [{ name: a, handlerRef: s }, { name: a, handlerRef: s }]",
        "duplicate_step",
        "/steps/1/name",
        "rename",
    );
    assert_issue(
        "steps: [{ name: a, handlerRef: s, outputAs: b }, { name: b, handlerRef: s }]",
        "duplicate_output",
        "/steps/0/outputAs",
        "another step",
    );
    assert_issue(
        "steps: [{ name: a, handlerRef: s, outputAs: x }, { name: b, handlerRef: s, outputAs: x }]",
        "duplicate_output",
        "/steps/1/outputAs",
        "rename",
    );
    assert_issue("steps: [{ name: a, handlerRef: s }]\noutput: '${steps.b.output}'", "unknown_step", "/output", "`b`");
    assert_issue("steps: [{ name: a, handlerRef: s }]\nlimits: { maxItems: 0 }", "limit", "/limits/maxItems", "1 to");
}

#[test]
fn cycle_is_reported_with_its_steps() {
    let yaml = "
steps:
- { name: start, handlerRef: search }
- { name: a, handlerRef: search, dependsOn: [start, c] }
- { name: b, handlerRef: search, dependsOn: [a] }
- { name: c, handlerRef: search, dependsOn: [b] }
- { name: after, handlerRef: search, dependsOn: [c] }
";
    let issue = &issues(yaml)[0];
    assert_eq!(issue.code, "cycle");
    let message = issue.message.strip_prefix("the steps wait for each other: ").unwrap();
    let steps: Vec<&str> = message.split(" → ").collect();
    assert_eq!((steps.len(), steps.first()), (4, steps.last()));
    for pair in steps.windows(2) {
        assert!(["ab", "bc", "ca"].contains(&pair.concat().as_str()), "{message}");
    }
    assert_issue(
        "steps: [{ name: a, handlerRef: s, dependsOn: [b] }, { name: b, handlerRef: s, onError: { fallback: a }, dependsOn: [a] }]",
        "cycle",
        "/steps/1/dependsOn",
        "→",
    );
    assert_issue("steps: [{ name: a, handlerRef: s, dependsOn: [a] }]", "cycle", "/steps/0/dependsOn", "a → a");
}

#[test]
fn step_that_never_runs_is_a_warning() {
    let graph = WorkflowGraph::compile(source(
        "
steps:
- { name: a, handlerRef: search, condition: '${false}' }
- { name: b, handlerRef: search, dependsOn: [a] }
- { name: c, handlerRef: search }
- { name: d, handlerRef: search, dependsOn: [b, c] }
",
    ))
    .unwrap();
    let warnings: Vec<_> = graph.warnings().iter().map(|issue| (issue.severity, issue.path.as_str())).collect();
    assert_eq!(warnings, [(IssueSeverity::Warning, "/steps/0"), (IssueSeverity::Warning, "/steps/1")]);
}

#[test]
fn graph_with_too_many_steps_or_edges_is_refused_without_compiling_it() {
    let steps: Vec<String> = (0..10_001).map(|n| format!("- {{ name: s{n}, handlerRef: x }}")).collect();
    assert_issue(&format!("steps:\n{}", steps.join("\n")), "step_count", "/steps", "got 10001");
    let names: Vec<String> = (0..400).map(|n| format!("s{n}")).collect();
    let first = names.iter().map(|name| format!("- {{ name: {name}, handlerRef: x }}"));
    let rest = (400..700).map(|n| format!("- {{ name: s{n}, handlerRef: x, dependsOn: [{}] }}", names.join(", ")));
    let steps: Vec<String> = first.chain(rest).collect();
    assert_issue(&format!("steps:\n{}", steps.join("\n")), "edge_count", "/steps", &format!("{MAX_WORKFLOW_EDGES}"));
}

#[test]
fn many_issues_are_cut_off() {
    let steps: Vec<String> =
        (0..1000).map(|n| format!("- {{ name: s{n}, handlerRef: x, dependsOn: [none] }}")).collect();
    assert_eq!(issues(&format!("steps:\n{}", steps.join("\n"))).len(), 50);
}
