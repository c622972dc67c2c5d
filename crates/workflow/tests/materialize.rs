//! Runs that are materialized to workflows.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails at the first unexpected value"
)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwright_machine::workflow::{WorkflowGraph, WorkflowIssue, WorkflowSource};
use toolwright_types::{
    CallId, CallMetadata, CallSource, ErrorCode, RunId, SideEffects, Timestamp, ToolEnvelope, ToolError, WorkflowStep,
};
use toolwright_workflow::materialize::{
    LeftOutReason, MAX_CALLS, MaterializeError, Materialized, NotReproducedReason, Selection, SourceAgent, SourceCall,
    SourceRun, materialize,
};

const MESSAGE: &str = "Tell Ada about order ord-2024-17.";

/// A recorded call of its own batch. A tool whose name begins with `save` or `send` writes.
fn call(batch: u32, tool: &str, input: Value, output: Value) -> SourceCall {
    let writes = tool.contains("save") || tool.contains("send");
    SourceCall {
        envelope: ToolEnvelope {
            call_id: CallId::derive(tool, "1.2.0", &input, u64::from(batch)),
            name: tool.to_owned(),
            version: "1.2.0".to_owned(),
            input,
            output,
            error: None,
            t_start: Timestamp::from_micros(0),
            t_end: Timestamp::from_micros(0),
            cached: false,
            truncated: false,
            attachments: Vec::new(),
            metadata: CallMetadata::default(),
        },
        side_effects: if writes { SideEffects::Writes } else { SideEffects::Reads },
        batch,
        is_agent: false,
    }
}

fn failed(batch: u32, tool: &str, input: Value) -> SourceCall {
    let mut call = call(batch, tool, input, Value::Null);
    call.envelope.error = Some(ToolError::new(ErrorCode::ValidationError, "no such order"));
    call
}

/// An agent's run with these calls.
fn agent_run(calls: impl Into<Vec<SourceCall>>, response: &str) -> SourceRun {
    SourceRun {
        run: RunId::from_bits(7),
        subject: "clerk".to_owned(),
        agent: Some(SourceAgent { agent_ref: "clerk@=2.0.0".to_owned(), message: MESSAGE.to_owned() }),
        input: Map::from_iter([("userMessage".to_owned(), json!(MESSAGE))]),
        calls: calls.into(),
        output: json!({ "response": response }),
    }
}

/// Materializes all calls, and checks that the workflow compiles without warnings.
fn all(run: &SourceRun) -> Materialized {
    selected(run, &Selection::All)
}

fn selected(run: &SourceRun, selection: &Selection) -> Materialized {
    let made = materialize(run, selection, None).unwrap();
    assert_eq!(issues(&made), [], "{:#?}", made.definition);
    made
}

fn issues(made: &Materialized) -> Vec<WorkflowIssue> {
    let source = WorkflowSource {
        definition: std::sync::Arc::new(made.definition.clone()),
        registrations: Default::default(),
        conditions: Default::default(),
    };
    match WorkflowGraph::compile(source) {
        Ok(graph) => graph.warnings().to_vec(),
        Err(issues) => issues,
    }
}

fn step<'a>(made: &'a Materialized, name: &str) -> &'a WorkflowStep {
    made.definition.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("{:#?}", made.definition))
}

fn input(made: &Materialized, step_name: &str) -> Value {
    step(made, step_name).input.clone().unwrap()
}

/// The defaults of the inputs, by name.
fn defaults(made: &Materialized) -> Value {
    let schema = made.definition.input_schema.clone().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.into_iter().map(|(name, schema)| (name, schema["default"].clone())).collect::<Map<_, _>>().into()
}

fn assert_reproduced(made: &Materialized) {
    let not_reproduced = made.verification.not_reproduced.iter().filter(|one| one.step.is_some());
    assert_eq!(not_reproduced.collect::<Vec<_>>(), Vec::<&_>::new());
    assert_eq!(made.verification.reproduced, made.verification.calls);
}

#[test]
fn values_of_earlier_outputs_become_references() {
    let order = json!({ "id": "ord-2024-17", "total": 250, "open": true, "items": [{ "sku": "KB-200" }, { "sku": "MS-110" }],
        "customer": { "name": "Ada", "mail": "ada@example.com" }, "x-ref": "R-9918" });
    for (name, value, expected) in [
        ("text", json!("ada@example.com"), json!("${load.customer.mail}")),
        ("number", json!(250), json!("${load.total}")),
        ("name in brackets", json!("R-9918"), json!("${load['x-ref']}")),
        ("item of a list", json!({ "sku": "MS-110" }), json!("${load.items[1]}")),
        ("object", order["customer"].clone(), json!("${load.customer}")),
        ("whole list", order["items"].clone(), json!("${load.items}")),
        ("one field of all items", json!(["KB-200", "MS-110"]), json!("${load.items.map(each, each.sku)}")),
        ("some items", json!(["MS-110"]), json!(["${load.items[1].sku}"])),
        ("whole output", order.clone(), json!("${load}")),
        (
            "fields",
            json!({ "a": 250, "b": ["ada@example.com"] }),
            json!({ "a": "${load.total}", "b": ["${load.customer.mail}"] }),
        ),
        ("part of a text", json!("mailto:ada@example.com?cc=none"), json!("mailto:${load.customer.mail}?cc=none")),
        ("text with braces", json!("${x} ada@example.com"), json!("$${x} ${load.customer.mail}")),
        ("message of the user", json!(MESSAGE), json!("${input.userMessage}")),
        ("true is a constant", json!(true), json!("${input.value}")),
        ("short text is a constant", json!("Ada"), json!("${input.value}")),
        ("end of a word is a constant", json!("xada@example.com"), json!("${input.value}")),
        ("beginning of a word is a constant", json!("to ada@example.community"), json!("${input.value}")),
        ("null is a constant", json!(null), json!(null)),
    ] {
        let calls =
            [call(1, "crm/load", json!({}), order.clone()), call(2, "send", json!({ "value": value }), json!({}))];
        let made = all(&agent_run(calls, "Done."));
        assert_eq!(input(&made, "send"), json!({ "value": expected }), "{name}");
        assert_reproduced(&made);
    }
}

#[test]
fn trivial_value_is_linked_only_at_the_same_path() {
    let calls = [
        call(1, "load", json!({}), json!({ "page": { "size": 5 }, "limit": 5, "open": true })),
        call(2, "list", json!({ "page": { "size": 5 }, "limit": 9, "open": true, "other": 5 }), json!({})),
    ];
    let made = all(&agent_run(calls, "Done."));
    let expected =
        json!({ "page": "${load.page}", "limit": "${input.limit}", "open": "${load.open}", "other": "${input.other}" });
    assert_eq!(input(&made, "list"), expected);
    assert_eq!(defaults(&made), json!({ "limit": 9, "other": 5 }));
    assert_reproduced(&made);
}

#[test]
fn ambiguous_value_comes_from_the_latest_call_and_the_shortest_path() {
    let calls = [
        call(1, "first", json!({}), json!({ "id": "cus-4711" })),
        call(2, "second", json!({}), json!({ "deep": { "id": "cus-4711" }, "customer": "cus-4711" })),
        call(3, "use", json!({ "id": "cus-4711" }), json!({})),
    ];
    assert_eq!(input(&all(&agent_run(calls, "Done.")), "use"), json!({ "id": "${second.customer}" }));
}

#[test]
fn call_of_the_same_reply_is_no_source() {
    let calls = [
        call(1, "first", json!({}), json!({ "id": "cus-4711" })),
        call(1, "second", json!({ "id": "cus-4711" }), json!({})),
    ];
    let made = all(&agent_run(calls, "Done."));
    assert_eq!(input(&made, "second"), json!({ "id": "${input.id}" }));
    assert_eq!(step(&made, "second").depends_on, [""; 0]);
}

#[test]
fn constants_become_inputs_with_their_values_as_defaults() {
    let calls = [
        call(
            1,
            "find",
            json!({ "q": "laptops", "limit": 10, "tags": ["a", "b"], "filter": { "open": false }, "rate": 0.5 }),
            json!({}),
        ),
        call(1, "list", json!({ "limit": 20, "query": "laptops", "order-by": "date", "none": [] }), json!({})),
        call(1, "list", json!({ "limit": 20 }), json!({})),
    ];
    let made = all(&agent_run(calls, "Done."));
    let find = json!({ "q": "${input.q}", "limit": "${input.limit}", "tags": "${input.tags}", "filter": { "open": "${input.open}" }, "rate": "${input.rate}" });
    assert_eq!(input(&made, "find"), find);
    let list =
        json!({ "limit": "${input.list_limit}", "query": "${input.q}", "order-by": "${input.order_by}", "none": [] });
    assert_eq!(input(&made, "list"), list);
    assert_eq!(input(&made, "list_2"), json!({ "limit": "${input.list_2_limit}" }));
    let expected = json!({ "q": "laptops", "limit": 10, "tags": ["a", "b"], "open": false, "rate": 0.5, "list_limit": 20,
        "order_by": "date", "list_2_limit": 20 });
    assert_eq!(defaults(&made), expected);
    let schema = made.definition.input_schema.as_ref().unwrap();
    let types = ["q", "limit", "tags", "open", "rate"].map(|name| schema["properties"][name]["type"].as_str().unwrap());
    assert_eq!(types, ["string", "integer", "array", "boolean", "number"]);
    assert_reproduced(&made);
}

#[test]
fn versions_are_exact_and_two_versions_of_a_tool_become_one() {
    let mut second = call(2, "crm/load", json!({}), json!({}));
    second.envelope.version = "1.3.0".to_owned();
    let made = all(&agent_run([call(1, "crm/load", json!({ "id": 1 }), json!({})), second], "Done."));
    assert_eq!(
        made.definition.steps.iter().map(|step| step.handler_ref.as_str()).collect::<Vec<_>>(),
        ["crm/load@=1.3.0"; 2]
    );
    assert_eq!(made.report.warnings.len(), 1);
    assert!(
        made.report.warnings[0].ends_with("used crm/load@1.2.0, its step uses version 1.3.0"),
        "{:?}",
        made.report.warnings
    );
}

#[test]
fn side_effects_keep_their_order() {
    let calls = [
        call(1, "find", json!({}), json!({})),
        call(1, "look", json!({}), json!({})),
        call(2, "save", json!({}), json!({})),
        call(2, "send", json!({}), json!({})),
        call(2, "find", json!({ "a": 1 }), json!({})),
        call(3, "find", json!({ "b": 2 }), json!({})),
        call(4, "save", json!({ "c": 3 }), json!({})),
    ];
    let made = all(&agent_run(calls, "Done."));
    let dependencies = |name: &str| step(&made, name).depends_on.join(" ");
    for (name, expected) in [
        ("find", ""),
        ("look", ""),
        ("save", "find look"),
        ("send", "save"),
        ("find_2", ""),
        ("find_3", "send"),
        ("save_2", "find_2 find_3"),
    ] {
        assert_eq!(dependencies(name), expected, "{name}");
    }
    assert_eq!(made.definition.side_effects, Some(SideEffects::Writes));
}

#[test]
fn text_that_the_model_wrote_becomes_a_step_of_the_agent() {
    let body = "Dear Ada, thank you for your patience. Your order ord-2024-17 has left our house today.";
    let calls = [
        call(1, "load", json!({ "id": "ord-2024-17" }), json!({ "mail": "ada@example.com" })),
        call(2, "send", json!({ "to": "ada@example.com", "parts": [{ "body": body }] }), json!({ "sent": true })),
    ];
    let run = agent_run(calls, "Done.");
    let made = all(&run);
    assert_eq!(input(&made, "send"), json!({ "to": "${load.mail}", "parts": [{ "body": "${write_body.response}" }] }));
    let write = step(&made, "write_body");
    assert_eq!(
        (write.handler_ref.as_str(), write.depends_on.as_slice()),
        ("quantum.ai.invokeAgent", &["load".to_owned()][..])
    );
    let given = write.input.as_ref().unwrap();
    assert_eq!(given["agentRef"], "clerk@=2.0.0");
    assert_eq!(given["context"], json!({ "results": { "load": "${load}" }, "request": "${input.userMessage}" }));
    assert_eq!(step(&made, "send").depends_on, ["write_body"]);
    assert_eq!(made.report.agent_steps.len(), 1);
    assert_eq!(made.report.agent_steps[0].path, "/parts/0/body");
    assert_reproduced(&made);

    // A selected call keeps its exact input.
    let one = selected(&run, &Selection::Calls(vec![run.calls[1].envelope.call_id.clone()]));
    assert_eq!(defaults(&one), json!({ "to": "ada@example.com", "parts": [{ "body": body }] }));
    // The words of the user are an input, and a run without an agent has no agent that could write the text.
    let mut quoted = run.clone();
    quoted.agent.as_mut().unwrap().message = format!("Send this: {body}");
    let mut direct = run;
    (direct.agent, direct.input) = (None, Map::new());
    for run in [quoted, direct] {
        let made = all(&run);
        assert_eq!(made.report.agent_steps, []);
        assert_eq!(defaults(&made)["parts"], json!([{ "body": body }]));
    }
}

#[test]
fn failed_calls_are_left_out_and_listed() {
    let calls = [
        failed(1, "load", json!({ "id": "wrong-id" })),
        failed(2, "send", json!({})),
        call(3, "load", json!({ "id": "ord-2024-17" }), json!({ "ok": true })),
    ];
    let run = agent_run(calls, "Done.");
    let made = all(&run);
    assert_eq!(made.definition.steps.len(), 1);
    let left_out: Vec<_> =
        made.report.left_out.iter().map(|call| (call.tool.as_str(), call.reason, call.code)).collect();
    assert_eq!(
        left_out,
        [
            ("load", LeftOutReason::Retried, ErrorCode::ValidationError),
            ("send", LeftOutReason::Failed, ErrorCode::ValidationError)
        ]
    );
    assert_eq!(defaults(&made), json!({ "id": "ord-2024-17" }));
    // A failed call that is selected becomes a step.
    let selection = Selection::Calls(vec![run.calls[0].envelope.call_id.clone()]);
    let made = selected(&run, &selection);
    assert_eq!((defaults(&made), &made.definition.output), (json!({ "id": "wrong-id" }), &Some(json!("${load}"))));
    assert_eq!(made.verification.output_reproduced, None);
    assert_reproduced(&made);
}

#[test]
fn selected_calls_read_only_each_other() {
    let calls = [
        call(1, "find", json!({ "q": "Ada" }), json!({ "id": "cus-4711" })),
        call(2, "load", json!({ "id": "cus-4711" }), json!({ "mail": "ada@example.com" })),
        call(3, "send", json!({ "to": "ada@example.com", "id": "cus-4711" }), json!({})),
    ];
    let run = agent_run(calls, "Done.");
    let made = selected(&run, &Selection::Calls([2, 1].map(|at| run.calls[at].envelope.call_id.clone()).to_vec()));
    assert_eq!(made.definition.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["load", "send"]);
    assert_eq!(input(&made, "send"), json!({ "to": "${load.mail}", "id": "${input.id}" }));
    assert_eq!((defaults(&made), &made.definition.output), (json!({ "id": "cus-4711" }), &None));
    assert_reproduced(&made);
}

#[test]
fn redacted_value_becomes_a_required_input_and_is_not_reproduced() {
    let calls = [
        call(1, "login", json!({ "token": "[redacted]" }), json!({ "session": "[redacted]", "user": "ada-4711" })),
        call(
            2,
            "list",
            json!({ "session": "[redacted]", "url": "https://x/?key=[redacted]", "all": ["[redacted]", 5], "user": "ada-4711",
            "odd": { "[redacted]": 1 } }),
            json!({}),
        ),
    ];
    let made = all(&agent_run(calls, "The token is [redacted]."));
    assert_eq!(input(&made, "login"), json!({ "token": "${input.token}" }));
    let expected = json!({ "session": "${input.session}", "url": "${input.url}", "all": ["${input.all}", "${input.list_all}"],
        "user": "${login.user}", "odd": "${input.odd}" });
    assert_eq!(input(&made, "list"), expected);
    let schema = made.definition.input_schema.as_ref().unwrap();
    assert_eq!(schema["required"], json!(["token", "session", "url", "all", "odd"]));
    assert!(!serde_json::to_string(&made.definition).unwrap().contains("[redacted]"));
    let listed: Vec<_> = made.verification.not_reproduced.iter().map(|one| (one.path.as_str(), one.reason)).collect();
    let redacted = |path| (path, NotReproducedReason::Redacted);
    assert_eq!(listed, ["/token", "/session", "/url", "/all/0", "/odd", ""].map(redacted));
    assert_eq!((made.verification.calls, made.verification.reproduced), (2, 0));
}

#[test]
fn truncated_output_is_listed_and_its_remaining_values_are_linked() {
    let mut list = call(1, "list", json!({}), json!({ "rows": [{ "id": "row-0001" }] }));
    list.envelope.truncated = true;
    let calls = [list, call(2, "load", json!({ "first": "row-0001", "last": "row-9999" }), json!({}))];
    let made = all(&agent_run(calls, "Done."));
    assert_eq!(made.report.truncated, ["list"]);
    assert_eq!(input(&made, "load"), json!({ "first": "${list.rows[0].id}", "last": "${input.last}" }));
    assert_reproduced(&made);
}

#[test]
fn output_of_the_run_is_found_by_value() {
    let found = json!({ "id": "ord-2024-17", "state": "shipped", "count": 3 });
    for (recorded, expected) in [
        (json!({ "response": "shipped" }), Some(json!({ "response": "${find.state}" }))),
        (
            json!({ "response": "Order ord-2024-17 is ready." }),
            Some(json!({ "response": "Order ${find.id} is ready." })),
        ),
        (
            json!({ "outputContext": { "order": "ord-2024-17", "note": null } }),
            Some(json!({ "outputContext": { "order": "${find.id}", "note": null } })),
        ),
        (json!({ "response": "Order ord-2024-17 has 3 items." }), None),
        (json!({ "response": "Done." }), None),
        (json!({ "outputContext": { "order": "ord-2024-17", "sum": 12 } }), None),
    ] {
        let calls = [call(1, "find", json!({}), found.clone()), call(2, "note", json!({}), json!({ "x": 1 }))];
        let mut run = agent_run(calls, "");
        run.output = recorded.clone();
        let made = all(&run);
        assert_eq!(made.definition.output, expected, "{recorded}");
        assert_eq!(made.verification.output_reproduced, Some(expected.is_some()), "{recorded}");
        let reasons: Vec<_> = made.verification.not_reproduced.iter().map(|one| (&one.step, one.reason)).collect();
        let not_found = [(&None, NotReproducedReason::NotFound)];
        assert_eq!(reasons, not_found[usize::from(expected.is_some())..], "{recorded}");
    }
}

#[test]
fn output_of_a_direct_call_is_the_output_of_its_tool() {
    let mut run = agent_run([call(1, "count", json!({ "id": 7 }), json!({ "n": 3 }))], "");
    (run.agent, run.input, run.output) = (None, Map::new(), json!({ "n": 3 }));
    let made = all(&run);
    assert_eq!((&made.definition.output, made.verification.output_reproduced), (&Some(json!("${count}")), Some(true)));
    assert_eq!(made.report.links.len(), 1);
}

#[test]
fn call_of_another_agent_becomes_an_agent_step() {
    let mut asked = call(
        1,
        "researcher",
        json!({ "task": "Find Ada", "context": { "depth": 200 } }),
        json!({ "responseText": "ada@example.com", "status": "COMPLETED" }),
    );
    (asked.is_agent, asked.side_effects) = (true, SideEffects::Writes);
    let made = all(&agent_run([asked, call(2, "send", json!({ "to": "ada@example.com" }), json!({}))], "Done."));
    let asked = step(&made, "researcher");
    assert_eq!(asked.handler_ref, "quantum.ai.invokeAgent");
    let expected = json!({ "agentRef": "researcher@=1.2.0", "prompt": "${input.prompt}", "context": { "depth": "${input.depth}" } });
    assert_eq!(asked.input, Some(expected));
    assert_eq!(input(&made, "send"), json!({ "to": "${researcher.response}" }));
    assert_reproduced(&made);
}

#[test]
fn run_without_suitable_calls_is_refused() {
    let run = agent_run([failed(1, "load", json!({}))], "Done.");
    let mut unknown_tool = run.clone();
    unknown_tool.calls[0].envelope.version.clear();
    let failed_id = run.calls[0].envelope.call_id.clone();
    let other = CallId::derive("other", "1.0.0", &json!({}), 0);
    let many: Vec<SourceCall> = (0..=1000).map(|at| call(at, "load", json!({ "at": at }), json!({}))).collect();
    assert_eq!(many.len(), MAX_CALLS + 1);
    for (run, selection, message) in [
        (&agent_run([], "Done."), Selection::All, "made no calls"),
        (&run, Selection::All, "all calls of run"),
        (&run, Selection::Calls(vec![other]), "has no call `call_"),
        (&unknown_tool, Selection::Calls(vec![failed_id]), "a tool that does not exist"),
        (&agent_run(many, "Done."), Selection::All, "at most 1000 calls can be materialized together, got 1001"),
    ] {
        let error: MaterializeError = materialize(run, &selection, None).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn default_name_is_made_from_the_agent_or_the_tool_of_the_only_call() {
    let run = agent_run([call(1, "crm/load", json!({}), json!({})), call(2, "send", json!({}), json!({}))], "Done.");
    let id = run.run.to_string().to_lowercase();
    let suffix = &id[id.len() - 8..];
    assert_eq!(all(&run).definition.ref_name.as_str(), format!("clerk-{suffix}"));
    let one = Selection::Calls(vec![run.calls[0].envelope.call_id.clone()]);
    assert_eq!(selected(&run, &one).definition.ref_name.as_str(), format!("crm/load-{suffix}"));
    let named = materialize(&run, &Selection::All, Some("orders/tell".parse().unwrap())).unwrap();
    assert_eq!(named.definition.ref_name.as_str(), "orders/tell");
}

#[test]
fn captured_call_is_a_warning() {
    let mut saved = call(1, "save", json!({}), json!({ "captured": true }));
    saved.envelope.metadata.source = Some(CallSource::Captured);
    let made = all(&agent_run([saved], "Done."));
    let id = &made.report.steps[0].call_id;
    assert_eq!(made.report.warnings, [format!("call `{id}` was captured, so its output is not from the tool")]);
}

/// The largest allowed number of calls, each of which reads the output of the one before it.
#[test]
fn long_chain_with_large_outputs_is_materialized() {
    let mut before = json!("start");
    let calls: Vec<SourceCall> = (1..=1000)
        .map(|at| {
            let rows: Vec<Value> =
                (0..50).map(|row| json!({ "id": format!("row-{at}-{row}"), "open": true })).collect();
            let output = json!({ "next": format!("token-{at:05}"), "rows": rows });
            let made = call(at, "load", json!({ "cursor": before.clone() }), output.clone());
            before = output["next"].clone();
            made
        })
        .collect();
    let made = all(&agent_run(calls, "Done."));
    assert_eq!(made.definition.steps.len(), 1000);
    assert_eq!(input(&made, "load_1000"), json!({ "cursor": "${load_999.next}" }));
    assert_reproduced(&made);
}

/// Any JSON, with names and texts that are difficult to write as expressions, and with values that often repeat.
fn any_json() -> impl Strategy<Value = Value> {
    let texts = [
        "ada@example.com",
        "ord-2024-17",
        "${a}",
        "$${input.b}",
        "it's \"x\" \\\\ y",
        "",
        "a}b{c",
        "line\none",
        "\u{1}\u{7f}x",
        "äöü-0001",
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0), Just(250), Just(i64::MAX), Just(-7)].prop_map(Value::from),
        prop_oneof![Just(0.5), Just(1e300), Just(2.0)].prop_map(Value::from),
        Just(json!(u64::MAX)),
        proptest::sample::select(texts.to_vec()).prop_map(Value::from),
        proptest::collection::vec(proptest::sample::select(texts.to_vec()), 2..4)
            .prop_map(|texts| texts.join(" ").into()),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        prop_oneof![list, fields(inner).prop_map(Value::Object)]
    })
}

fn fields(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let names = [
        "id",
        "x-y",
        "it's",
        "${a}",
        "",
        "length",
        "in",
        "input",
        "a.b",
        "a/b~c",
        "\\\\",
        "näme",
        "userMessage",
        "each",
        "\n",
    ];
    let entry = (proptest::sample::select(names.to_vec()), value);
    proptest::collection::vec(entry, 0..4)
        .prop_map(|entries| entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    #[test]
    fn workflow_of_any_run_is_valid_and_has_the_recorded_inputs(
        recorded in proptest::collection::vec((0..2_u32, 0..4_usize, fields(any_json()), any_json()), 1..7),
        response in any_json(),
    ) {
        let mut batch = 0;
        let calls: Vec<SourceCall> = recorded
            .into_iter()
            .map(|(next, tool, input, output)| {
                batch += next;
                call(batch, ["load", "crm/in", "save", "output"][tool], Value::Object(input), output)
            })
            .collect();
        let mut run = agent_run(calls, "");
        run.output = json!({ "outputContext": response });
        let made = all(&run);
        assert_reproduced(&made);
        prop_assert_eq!(made.definition.output.is_some(), made.verification.output_reproduced == Some(true) || made.verification.calls == 1);
    }
}
