//! Import and export of Arazzo documents.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails at the first unexpected value"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_machine::workflow::{WorkflowGraph, WorkflowSource};
use toolwright_types::{
    DurationMs, ErrorCode, ErrorRoutes, InvocationConfig, OnError, RetryPolicy, ToolDefinition, ToolType,
    WorkflowDefinition, WorkflowStep,
};
use toolwright_workflow::arazzo::export::{ArazzoVersion, export};
use toolwright_workflow::arazzo::import::{Imported, import};
use toolwright_workflow::arazzo::{
    Operation, OperationBody, OperationParameter, OperationRef, OperationTool, ParameterLocation, Problem,
};

/// The tools of the tests: `shop/OPERATION` calls the operation with this id.
fn tool(operation: &str) -> Option<OperationTool> {
    let parameter = |name: &str, location| OperationParameter { name: name.into(), location, field: name.into() };
    let parameters = vec![
        parameter("id", ParameterLocation::Path),
        parameter("status", ParameterLocation::Query),
        parameter("X-Trace", ParameterLocation::Header),
    ];
    let body = match operation {
        "listPets" | "getPet" => OperationBody::None,
        "placeOrder" | "notify" => OperationBody::Fields,
        "replaceTags" => OperationBody::Field("body".into()),
        _ => return None,
    };
    let content_type = "application/json".to_owned();
    Some(OperationTool { handler_ref: format!("shop/{operation}"), parameters, body, content_type })
}

fn tool_of(operation: &OperationRef<'_>) -> Option<OperationTool> {
    match operation {
        OperationRef::Id { source: Some("shop"), id } => tool(id),
        OperationRef::Path { source: "shop", path, method } if path == "/pets/{id}" && method == "get" => {
            tool("getPet")
        }
        _ => None,
    }
}

fn operation_of(handler: &str) -> Option<Operation> {
    let operation_id = handler.strip_prefix("shop/")?.to_owned();
    let tool = tool(&operation_id)?;
    Some(Operation {
        source_name: "shop".into(),
        source_url: "https://shop.example/openapi.json".into(),
        operation_id,
        tool,
    })
}

fn document(workflows: Value) -> Value {
    json!({
        "arazzo": "1.0.1",
        "info": { "title": "Shop", "version": "2.0.0" },
        "sourceDescriptions": [{ "name": "shop", "url": "https://shop.example/openapi.json", "type": "openapi" }],
        "workflows": workflows,
    })
}

/// A document with one workflow that has the given steps.
fn with_steps(steps: Value) -> Value {
    document(json!([{ "workflowId": "order", "steps": steps }]))
}

fn read(document: &Value) -> Result<Imported, Vec<Problem>> {
    import(document, None, tool_of)
}

/// Imports a document with one workflow, which must compile.
fn imported(document: &Value) -> WorkflowDefinition {
    let mut workflows = read(document).unwrap().workflows;
    let definition = workflows.pop().unwrap();
    compile(&definition);
    definition
}

fn compile(definition: &WorkflowDefinition) {
    let source = WorkflowSource {
        definition: definition.clone().into(),
        registrations: Default::default(),
        conditions: Default::default(),
    };
    WorkflowGraph::compile(source).unwrap();
}

fn steps_of(definition: &WorkflowDefinition) -> Value {
    serde_json::to_value(&definition.steps).unwrap()
}

/// The paths of the problems of a document.
fn refused(document: &Value) -> Vec<String> {
    read(document).unwrap_err().into_iter().map(|problem| problem.path).collect()
}

fn defined(definition: Value) -> WorkflowDefinition {
    serde_json::from_value(definition).unwrap()
}

#[test]
fn steps_run_in_order_and_read_the_outputs_of_earlier_steps() {
    let definition = imported(&document(json!([{
        "workflowId": "order",
        "summary": "Order a pet",
        "description": "Finds a pet and orders it.",
        "inputs": { "$ref": "#/components/inputs/order" },
        "steps": [
            {
                "stepId": "find-pet",
                "operationId": "listPets",
                "parameters": [{ "name": "status", "in": "query", "value": "available" }],
                "outputs": { "pet": "$response.body#/0", "name": "$steps.find-pet.outputs.pet#/name" }
            },
            {
                "stepId": "place",
                "description": "Places the order.",
                "operationId": "$sourceDescriptions.shop.placeOrder",
                "parameters": [{ "name": "x-trace", "in": "header", "value": "pet {$steps.find-pet.outputs.name}" }],
                "requestBody": { "contentType": "application/json", "payload": {
                    "petId": "$steps.find-pet.outputs.pet#/id", "price": "${5}", "customer": "{$inputs.customer#/id}"
                } },
                "outputs": { "id": "$response.body#/id" }
            },
            {
                "stepId": "check",
                "operationPath": "{$sourceDescriptions.shop.url}#/paths/~1pets~1{id}/get",
                "parameters": [{ "name": "id", "in": "path", "value": "$steps.place.outputs.id" }]
            }
        ],
        "outputs": { "order": "$steps.place.outputs.id", "source": "$sourceDescriptions.shop.url" }
    }])).as_object().map(|fields| {
        let mut fields = fields.clone();
        fields.insert("components".into(), json!({ "inputs": {
            "order": { "type": "object", "properties": { "customer": { "$ref": "#/components/inputs/customer" } } },
            "customer": { "type": "object" }
        } }));
        Value::Object(fields)
    }).unwrap());
    assert_eq!((definition.ref_name.as_str(), definition.version.to_string().as_str()), ("order", "2.0.0"));
    assert_eq!(definition.name.as_deref(), Some("Order a pet"));
    assert_eq!(
        definition.input_schema,
        Some(json!({
            "type": "object",
            "properties": { "customer": { "$ref": "#/$defs/customer" } },
            "$defs": { "customer": { "type": "object" } }
        }))
    );
    assert_eq!(
        steps_of(&definition),
        json!([
            { "name": "find-pet", "handlerRef": "shop/listPets", "input": { "status": "available" } },
            {
                "name": "place",
                "description": "Places the order.",
                "handlerRef": "shop/placeOrder",
                "input": {
                    "X-Trace": "pet ${`find-pet`[0].name}",
                    "petId": "${`find-pet`[0].id}",
                    "price": "$${5}",
                    "customer": "${string(input.customer.id)}"
                },
                "dependsOn": ["find-pet"]
            },
            { "name": "check", "handlerRef": "shop/getPet", "input": { "id": "${place.id}" }, "dependsOn": ["place"] }
        ])
    );
    let output = json!({ "order": "${place.id}", "source": "https://shop.example/openapi.json" });
    assert_eq!(definition.output, Some(output));
}

#[test]
fn success_actions_become_branches() {
    let definition = imported(&with_steps(json!([
        {
            "stepId": "find",
            "operationId": "listPets",
            "onSuccess": [
                { "name": "none", "type": "end", "criteria": [{ "condition": "$statusCode == 200 && 5 > $response.body#/total" }] },
                { "name": "in stock", "type": "goto", "stepId": "notify", "criteria": [
                    { "condition": "$response.body#/status == 'Available'" }, { "condition": "$statusCode < 300" }
                ] }
            ],
            "successCriteria": [{ "condition": "$statusCode == 200" }]
        },
        { "stepId": "place", "operationId": "placeOrder" },
        { "stepId": "notify", "operationId": "notify" }
    ])));
    assert_eq!(
        steps_of(&definition),
        json!([
            { "name": "find", "handlerRef": "shop/listPets" },
            {
                "name": "find_next",
                "handlerRef": "quantum.flow.branch",
                "input": {
                    "cases": [
                        { "name": "none", "when": "${find.total < 5}" },
                        { "name": "in_stock", "when": "${string(find.status).lowerAscii() == 'available'}" }
                    ],
                    "default": "next"
                },
                "dependsOn": ["find"]
            },
            { "name": "place", "handlerRef": "shop/placeOrder", "dependsOn": ["find_next.next"] },
            { "name": "notify", "handlerRef": "shop/notify", "dependsOn": ["find_next.in_stock", "place"] }
        ])
    );
}

#[test]
fn failure_actions_become_retries_and_error_routes() {
    let definition = imported(&with_steps(json!([
        {
            "stepId": "find",
            "operationId": "listPets",
            "onFailure": [
                { "name": "again", "type": "retry", "retryAfter": 1.5, "retryLimit": 3, "criteria": [{ "condition": "$statusCode == 429" }] },
                { "name": "login", "type": "goto", "stepId": "notify", "criteria": [{ "condition": "$statusCode == 401 || $statusCode == 403" }] },
                { "name": "other", "type": "goto", "stepId": "place" }
            ]
        },
        { "stepId": "check", "operationId": "getPet", "onFailure": [{ "name": "ignore", "type": "goto", "stepId": "place" }] },
        { "stepId": "place", "operationId": "placeOrder", "onSuccess": [{ "name": "done", "type": "end" }] },
        { "stepId": "notify", "operationId": "notify" }
    ])));
    assert_eq!(
        steps_of(&definition),
        json!([
            {
                "name": "find",
                "handlerRef": "shop/listPets",
                "retry": { "maxAttempts": 4, "delay": "1500ms", "maxDelay": "1500ms", "on": ["RATE_LIMIT"] },
                "onError": { "branch": { "AUTH_REQUIRED": "notify", "default": "find_failed" } }
            },
            { "name": "find_failed", "handlerRef": "quantum.flow.join" },
            { "name": "check", "handlerRef": "shop/getPet", "dependsOn": ["find"], "onError": "continue" },
            { "name": "place", "handlerRef": "shop/placeOrder", "dependsOn": ["check", "find_failed"] },
            { "name": "notify", "handlerRef": "shop/notify" }
        ])
    );
}

#[test]
fn workflows_that_are_executed_and_components_are_imported_with_a_workflow() {
    let mut source = document(json!([
        {
            "workflowId": "main",
            "dependsOn": ["login"],
            "parameters": [{ "reference": "$components.parameters.trace" }],
            "failureActions": [{ "reference": "$components.failureActions.again" }],
            "steps": [
                { "stepId": "find", "operationId": "listPets", "parameters": [
                    { "reference": "$components.parameters.status", "value": "sold" }
                ] },
                {
                    "stepId": "sub", "workflowId": "place", "parameters": [
                        { "name": "pet", "value": "$workflows.login.outputs.user" }, { "name": "X-Trace", "value": 1 }
                    ],
                    "outputs": { "order": "$outputs.order#/id" }
                }
            ],
            "outputs": { "order": "$steps.sub.outputs.order" }
        },
        { "workflowId": "place", "steps": [{ "stepId": "a", "operationId": "placeOrder", "outputs": { "o": "$response.body" } }, { "stepId": "b", "workflowId": "inner" }],
          "outputs": { "order": "$steps.a.outputs.o" } },
        { "workflowId": "login", "steps": [{ "stepId": "a", "operationId": "notify", "outputs": { "o": "$response.body.user" } }],
          "outputs": { "user": "$steps.a.outputs.o" } },
        { "workflowId": "inner", "steps": [{ "stepId": "a", "operationId": "notify" }] },
        { "workflowId": "other", "steps": [{ "stepId": "a", "operationId": "unknown" }] }
    ]));
    source.as_object_mut().unwrap().insert(
        "components".into(),
        json!({
            "parameters": {
                "trace": { "name": "X-Trace", "in": "header", "value": "t" },
                "status": { "name": "status", "in": "query", "value": "available" }
            },
            "failureActions": { "again": { "name": "again", "type": "retry" } }
        }),
    );
    let workflows = import(&source, Some("main"), tool_of).unwrap().workflows;
    let names: Vec<&str> = workflows.iter().map(|workflow| workflow.ref_name.as_str()).collect();
    assert_eq!(names, ["main", "place", "login", "inner"]);
    workflows.iter().for_each(compile);
    let retry = json!({ "maxAttempts": 2 });
    assert_eq!(
        steps_of(&workflows[0]),
        json!([
            { "name": "login", "handlerRef": "quantum.workflows.execute", "input": { "workflowRef": "login" } },
            { "name": "find", "handlerRef": "shop/listPets", "input": { "status": "sold", "X-Trace": "t" },
              "dependsOn": ["login"], "retry": retry },
            { "name": "sub", "handlerRef": "quantum.workflows.execute",
              "input": { "workflowRef": "place", "input": { "pet": "${login.user}", "X-Trace": 1 } },
              "dependsOn": ["find"], "retry": retry }
        ])
    );
    assert_eq!(workflows[0].output, Some(json!({ "order": "${sub.order.id}" })));
    assert_eq!(workflows[2].output, Some(json!({ "user": "${a.user}" })));
}

#[test]
fn replacements_and_selectors_set_values_of_a_payload() {
    let mut source = with_steps(json!([
        { "stepId": "find", "operationId": "listPets", "outputs": {
            "first": { "context": "$response.body", "selector": "$.pets[0].tags", "type": "jsonpath" }
        } },
        { "stepId": "tags", "operationId": "replaceTags", "timeout": 500, "dependsOn": ["find"], "requestBody": {
            "payload": "{\"tags\": [\"a\", \"b\"], \"note\": null}",
            "replacements": [
                { "target": "/tags/1", "value": "$steps.find.outputs.first" },
                { "target": "/extra", "value": { "context": "$inputs.data", "selector": "/x", "type": "jsonpointer" } }
            ]
        } }
    ]));
    source["arazzo"] = json!("1.1.0");
    let definition = imported(&source);
    let body = json!({ "tags": ["a", "${find.pets[0].tags}"], "note": null, "extra": "${input.data.x}" });
    assert_eq!(definition.steps[1].input, Some(json!({ "body": body })));
    assert_eq!(definition.steps[1].timeout, Some(DurationMs(500)));
    // The same document in version 1.0 has neither selectors nor timeouts.
    source["arazzo"] = json!("1.0.0");
    let steps = "/workflows/0/steps";
    assert_eq!(
        refused(&source),
        [
            format!("{steps}/0/outputs/first"),
            format!("{steps}/1/timeout"),
            format!("{steps}/1/dependsOn"),
            format!("{steps}/1/requestBody/replacements/0/value")
        ]
    );
}

#[test]
fn parts_that_cannot_be_expressed_are_refused_with_their_place() {
    let call = |extra: Value| {
        let mut step = json!({ "stepId": "a", "operationId": "placeOrder" });
        step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with_steps(json!([step, { "stepId": "b", "operationId": "notify" }]))
    };
    let value = |value: &str| call(json!({ "requestBody": { "payload": { "x": value } } }));
    let criterion = |condition: &str| json!([{ "condition": condition }]);
    let on_success =
        |criterion: Value| call(json!({ "onSuccess": [{ "name": "x", "type": "end", "criteria": [criterion] }] }));
    let on_failure = |action: Value| call(json!({ "onFailure": [action] }));
    for (document, place) in [
        (json!(1), ""),
        (json!({ "arazzo": "2.0.0" }), "/arazzo"),
        (document(json!([])), "/workflows"),
        (
            document(json!([{ "workflowId": "a b", "steps": [{ "stepId": "a", "operationId": "notify" }] }])),
            "/workflows/0/workflowId",
        ),
        (with_steps(json!([{ "stepId": "input", "operationId": "notify" }])), "/workflows/0/steps/0/stepId"),
        (with_steps(json!([{ "stepId": "a", "operationId": "missing" }])), "/workflows/0/steps/0/operationId"),
        (with_steps(json!([{ "stepId": "a", "operationPath": "shop#/x" }])), "/workflows/0/steps/0/operationPath"),
        (with_steps(json!([{ "stepId": "a", "workflowId": "missing" }])), "/workflows/0/steps/0/workflowId"),
        (call(json!({ "loop": 1 })), "/workflows/0/steps/0/loop"),
        (value("$url"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$statusCode"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$response.header.Location"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$response.body"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$request.query.status"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$steps.b.outputs.x"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("$inputs.a.b"), "/workflows/0/steps/0/requestBody/payload/x"),
        (value("x {$steps.missing.outputs.x}"), "/workflows/0/steps/0/requestBody/payload/x"),
        (call(json!({ "requestBody": { "payload": "a {$inputs.x}" } })), "/workflows/0/steps/0/requestBody/payload"),
        (
            call(json!({ "requestBody": { "contentType": "text/xml", "payload": {} } })),
            "/workflows/0/steps/0/requestBody/contentType",
        ),
        (
            call(json!({ "requestBody": { "payload": {}, "replacements": [{ "target": "//x", "value": 1 }] } })),
            "/workflows/0/steps/0/requestBody/replacements/0",
        ),
        (
            call(json!({ "parameters": [{ "name": "session", "in": "cookie", "value": 1 }] })),
            "/workflows/0/steps/0/parameters/0",
        ),
        (call(json!({ "outputs": { "x": "$response.header.ETag" } })), "/workflows/0/steps/0/outputs/x"),
        (call(json!({ "outputs": { "x": "$steps.a.outputs.x" } })), "/workflows/0/steps/0/outputs/x"),
        (
            call(json!({ "successCriteria": criterion("$response.body#/ok == true") })),
            "/workflows/0/steps/0/successCriteria",
        ),
        (call(json!({ "successCriteria": criterion("$statusCode == 404") })), "/workflows/0/steps/0/successCriteria"),
        (on_success(json!({ "condition": "$statusCode == 201" })), "/workflows/0/steps/0/onSuccess/0/criteria"),
        (
            on_success(json!({ "context": "$response.body", "type": "jsonpath", "condition": "$.x" })),
            "/workflows/0/steps/0/onSuccess/0/criteria/0/type",
        ),
        (
            on_success(json!({ "condition": "$response.body#/a == $inputs.b" })),
            "/workflows/0/steps/0/onSuccess/0/criteria/0/condition",
        ),
        (
            call(json!({ "onSuccess": [{ "name": "x", "type": "goto", "stepId": "a" }] })),
            "/workflows/0/steps/0/onSuccess/0/stepId",
        ),
        (
            call(json!({ "onSuccess": [{ "name": "x", "type": "goto", "workflowId": "w" }] })),
            "/workflows/0/steps/0/onSuccess/0/workflowId",
        ),
        (on_failure(json!({ "name": "x", "type": "retry", "stepId": "b" })), "/workflows/0/steps/0/onFailure/0/stepId"),
        (
            on_failure(json!({ "name": "x", "type": "retry", "criteria": criterion("$statusCode == 503") })),
            "/workflows/0/steps/0/onFailure/0/criteria",
        ),
        (call(json!({ "onSuccess": [{ "name": "x", "type": "end" }] })), "/workflows/0/steps/1"),
    ] {
        let problems = read(&document).unwrap_err();
        let found: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(found, [place], "{document}\n{problems:?}");
    }
}

#[test]
fn criteria_that_are_narrower_than_success_are_a_warning() {
    let warnings = |condition: &str| {
        let step = json!({ "stepId": "a", "operationId": "notify", "successCriteria": [{ "condition": condition }] });
        read(&with_steps(json!([step]))).unwrap().warnings.into_iter().map(|warning| warning.path).collect::<Vec<_>>()
    };
    assert_eq!(warnings("$statusCode == 200 || $statusCode == 201"), ["/workflows/0/steps/0/successCriteria"]);
    assert!(warnings("$statusCode >= 200 && !($statusCode >= 300)").is_empty());
}

#[test]
fn parts_that_arazzo_does_not_have_are_refused_with_their_place() {
    let workflow = |steps: Value| defined(json!({ "refName": "w", "steps": steps, "output": {} }));
    let call = |extra: Value| {
        let mut step = json!({ "name": "a", "handlerRef": "shop/notify" });
        step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        workflow(json!([step, { "name": "b", "handlerRef": "shop/notify", "dependsOn": ["a"] }]))
    };
    let input = |value: Value| call(json!({ "input": { "x": value } }));
    let branch = |when: &str| {
        let cases = json!({ "cases": [{ "name": "x", "when": when }], "default": "y" });
        workflow(json!([
            { "name": "a", "handlerRef": "shop/notify" },
            { "name": "r", "handlerRef": "quantum.flow.branch", "input": cases, "dependsOn": ["a"] },
            { "name": "b", "handlerRef": "shop/notify", "dependsOn": ["r.x"] },
        ]))
    };
    for (definition, place) in [
        (
            workflow(
                json!([{ "name": "a", "handlerRef": "quantum.ai.invokeAgent" }, { "name": "b", "handlerRef": "shop/notify" }]),
            ),
            "/steps/0/handlerRef",
        ),
        (call(json!({ "handlerRef": "unknown" })), "/steps/0/handlerRef"),
        (call(json!({ "forEach": "${input.x}" })), "/steps/0/forEach"),
        (call(json!({ "condition": "${input.x}" })), "/steps/0/condition"),
        (call(json!({ "conditionRef": "c" })), "/steps/0/conditionRef"),
        (call(json!({ "timeout": "1s" })), "/steps/0/timeout"),
        (call(json!({ "retry": { "maxAttempts": 3, "delay": "1s" } })), "/steps/0/retry"),
        (call(json!({ "retry": { "maxAttempts": 3, "on": ["TIMEOUT"] } })), "/steps/0/retry"),
        (call(json!({ "onError": { "branch": { "TIMEOUT": "b" } } })), "/steps/1/dependsOn"),
        (input(json!("${input.x + 1}")), "/steps/0/input/x"),
        (input(json!("${input}")), "/steps/0/input/x"),
        (input(json!("${input.x.length}")), "/steps/0/input/x"),
        (input(json!("${steps.b.error.code}")), "/steps/0/input/x"),
        (input(json!("$inputs.x")), "/steps/0/input/x"),
        (input(json!("a {$inputs.x}")), "/steps/0/input/x"),
        (branch("${a.x == 'Text'}"), "/steps/1/input/cases/0/when"),
        (branch("${a.items.exists(x, x.ok)}"), "/steps/1/input/cases/0/when"),
        (branch("${a.x == input.y}"), "/steps/1/input/cases/0/when"),
        (
            defined(
                json!({ "refName": "w", "steps": [{ "name": "a", "handlerRef": "shop/notify" }], "output": "${a}" }),
            ),
            "/output",
        ),
        (
            defined(
                json!({ "refName": "w", "steps": [{ "name": "a", "handlerRef": "shop/notify" }], "output": { "x": "${a} b" } }),
            ),
            "/output/x",
        ),
    ] {
        let problems = export(&[&definition], ArazzoVersion::V1_0, operation_of).unwrap_err();
        assert_eq!(problems[0].path, place, "{definition:?}\n{problems:?}");
    }
}

#[test]
fn parallel_steps_are_written_in_order_and_read_with_their_dependencies() {
    let definition = defined(json!({
        "refName": "w",
        "steps": [
            { "name": "a", "handlerRef": "shop/listPets" },
            { "name": "b", "handlerRef": "shop/listPets" },
            { "name": "c", "handlerRef": "shop/placeOrder", "input": { "x": "${a[0].id}", "y": "${b}" }, "dependsOn": ["a", "b"] },
            { "name": "d", "handlerRef": "shop/notify", "dependsOn": ["c"] }
        ],
        "output": { "c": "${c.id}" }
    }));
    let written = export(&[&definition], ArazzoVersion::V1_0, operation_of).unwrap();
    let steps = &written["workflows"][0]["steps"];
    assert_eq!(steps[1]["x-toolwright"], json!({ "dependsOn": [] }));
    assert_eq!(steps[2]["x-toolwright"], json!({ "dependsOn": ["a", "b"] }));
    assert_eq!((steps[0].get("x-toolwright"), steps[3].get("x-toolwright")), (None, None));
    assert_eq!(
        steps[2]["requestBody"]["payload"],
        json!({ "x": "$steps.a.outputs.0_id", "y": "$steps.b.outputs.body" })
    );
    assert_eq!(read(&written).unwrap().workflows, [definition]);
    let mut changed = written;
    changed["workflows"][0]["steps"][0]["onFailure"] = json!([{ "name": "x", "type": "goto", "stepId": "d" }]);
    assert_eq!(refused(&changed), ["/workflows/0/steps/0"]);
}

#[test]
fn settings_without_a_field_in_arazzo_are_kept_in_an_extension() {
    let definition = defined(json!({
        "refName": "w", "version": "1.2.3", "durable": false, "limits": { "maxTokens": 5 }, "outputSchema": { "type": "object" },
        "steps": [{ "name": "a", "handlerRef": "shop/notify" }], "output": {}
    }));
    let written = export(&[&definition], ArazzoVersion::V1_1, operation_of).unwrap();
    let extension = json!({ "durable": false, "limits": { "maxTokens": 5 }, "outputSchema": { "type": "object" } });
    assert_eq!(written["workflows"][0]["x-toolwright"], extension);
    assert_eq!(read(&written).unwrap().workflows, [definition]);
    let mut changed = written;
    changed["workflows"][0]["x-toolwright"] = json!({ "refName": "other" });
    assert_eq!(refused(&changed), ["/workflows/0/x-toolwright"]);
}

#[test]
fn parameters_and_body_of_a_tool_are_found_in_its_request() {
    let mut definition = ToolDefinition::new("shop/get".parse().unwrap(), ToolType::ExternalRest);
    definition.invocation = serde_json::from_value::<InvocationConfig>(json!({
        "method": "POST",
        "path": "/pets/${param.id}",
        "query": { "tags*": "${param.tags}", "ids": "${type(param.ids) == 'list' ? param.ids.map(x, string(x)).join(',') : param.ids}" },
        "headers": { "X-Trace": "${param['X-Trace']}" },
        "bodyTemplate": "${param.omit(['id', 'tags'])}"
    }))
    .unwrap();
    let tool = OperationTool::from_definition(&definition).unwrap();
    let found: Vec<_> = tool
        .parameters
        .iter()
        .map(|found| (found.name.as_str(), found.location.as_str(), found.field.as_str()))
        .collect();
    let expected =
        [("id", "path", "id"), ("tags", "query", "tags"), ("ids", "query", "ids"), ("X-Trace", "header", "X-Trace")];
    assert_eq!((found.as_slice(), tool.body), (expected.as_slice(), OperationBody::Fields));
    definition.invocation.response_mapping = Some("$.x".into());
    assert_eq!(OperationTool::from_definition(&definition), None);
}

/// One call of a generated workflow.
#[derive(Debug, Clone)]
struct Call {
    input: Vec<Value>,
    retry: Option<RetryPolicy>,
    timeout: Option<DurationMs>,
    exit: Exit,
}

/// What follows a call of a generated workflow.
#[derive(Debug, Clone)]
enum Exit {
    Next,
    Continue,
    /// A branch with a case that skips steps, and a case that ends.
    Branch {
        skip: usize,
        text: String,
        number: i32,
    },
    /// A retry code leads to a later step, other errors fail.
    Route {
        skip: usize,
        all: bool,
    },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let value = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-z $}]{0,8}".prop_map(Value::from),
        Just(json!("${input.customer.id}")),
        Just(json!("${input.`x-y`}")),
        Just(json!("to ${input.string_}-${input.a.b[3]}!")),
        Just(json!("${string(input.n)}")),
        Just(json!("previous")),
        Just(json!({ "nested": ["${input.list[0]}", null, true] })),
    ];
    let on = prop_oneof![
        Just(vec![]),
        Just(vec![ErrorCode::RateLimit]),
        Just(vec![ErrorCode::RateLimit, ErrorCode::AuthRequired, ErrorCode::ProviderError]),
    ];
    let retry = (1..9_u32, prop::option::of(1..100_000_u64), on).prop_map(|(max_attempts, delay, on)| {
        let delay = delay.map(DurationMs);
        RetryPolicy { max_attempts, delay, max_delay: delay, backoff: None, on }
    });
    let exit = prop_oneof![
        3 => Just(Exit::Next),
        1 => Just(Exit::Continue),
        1 => (0..3_usize, "[a-z' ]{1,6}", any::<i32>()).prop_map(|(skip, text, number)| Exit::Branch { skip, text, number }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(skip, all)| Exit::Route { skip, all }),
    ];
    let timeout = prop::option::of((1..100_000_u64).prop_map(DurationMs));
    let call = (prop::collection::vec(value, 0..4), prop::option::of(retry), timeout, exit)
        .prop_map(|(input, retry, timeout, exit)| Call { input, retry, timeout, exit });
    prop::collection::vec(call, 1..7)
}

/// Builds the workflow in the form that an import has.
fn build(calls: &[Call]) -> WorkflowDefinition {
    let mut definition = defined(json!({ "refName": "random", "steps": [], "output": {} }));
    let name = |at: usize| format!("step-{at}");
    let mut waits: Vec<Vec<String>> = vec![Vec::new(); calls.len()];
    let mut parts: Vec<(WorkflowStep, Option<WorkflowStep>)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let is_last = at + 1 == calls.len();
        let mut step: WorkflowStep =
            serde_json::from_value(json!({ "name": name(at), "handlerRef": "shop/notify" })).unwrap();
        step.retry = call.retry.clone();
        step.timeout = call.timeout;
        let values = call.input.iter().enumerate().map(|(field, value)| {
            let value = match value.as_str() {
                Some("previous") if at > 0 => json!(format!("${{`{}`.items[{field}].id}}", name(at - 1))),
                _ => value.clone(),
            };
            (format!("field_{field}"), value)
        });
        let values: serde_json::Map<String, Value> = values.collect();
        step.input = (!values.is_empty()).then_some(Value::Object(values));
        let mut extra = None;
        match &call.exit {
            Exit::Branch { skip, text, number } if !is_last => {
                let branch = format!("{}_next", name(at));
                let target = (at + 1 + skip).min(calls.len() - 1);
                waits[target].push(format!("{branch}.skip"));
                waits[at + 1].push(format!("{branch}.go"));
                let when = format!("!(`{0}`.n >= {number}) || (`{0}`.ok == true && input.flag != null)", name(at));
                let text = text.replace('\'', "\\'");
                let cases = json!([
                    { "name": "skip", "when": format!("${{{when}}}") },
                    { "name": "stop", "when": format!("${{string(`{}`.text).lowerAscii() == '{text}'}}", name(at)) },
                ]);
                extra = Some(
                    serde_json::from_value(json!({
                        "name": branch, "handlerRef": "quantum.flow.branch", "dependsOn": [name(at)],
                        "input": { "cases": cases, "default": "go" },
                    }))
                    .unwrap(),
                );
            }
            Exit::Route { skip, all } if !is_last => {
                waits[at + 1].push(name(at));
                let target = (at + 1 + skip).min(calls.len() - 1);
                if *all && target == at + 1 {
                    step.on_error = OnError::Continue;
                } else {
                    let rescue = format!("{}_failed", name(at));
                    waits[target].push(rescue.clone());
                    step.on_error = match all {
                        true => OnError::Fallback(rescue.clone()),
                        false => OnError::Branch(ErrorRoutes {
                            codes: [("AUTH_REQUIRED".to_owned(), rescue.clone())].into(),
                            default: None,
                        }),
                    };
                    extra = Some(
                        serde_json::from_value(json!({ "name": rescue, "handlerRef": "quantum.flow.join" })).unwrap(),
                    );
                }
            }
            Exit::Continue if !is_last => {
                waits[at + 1].push(name(at));
                step.on_error = OnError::Continue;
            }
            _ if !is_last => waits[at + 1].push(name(at)),
            _ => {}
        }
        parts.push((step, extra));
    }
    for ((mut step, extra), waits) in parts.into_iter().zip(waits) {
        step.depends_on = waits;
        definition.steps.push(step);
        definition.steps.extend(extra);
    }
    definition
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn import_of_an_export_is_the_same_definition(calls in calls()) {
        let definition = build(&calls);
        compile(&definition);
        let written = export(&[&definition], ArazzoVersion::V1_1, operation_of);
        let written = written.map_err(|problems| TestCaseError::fail(format!("{problems:?}")))?;
        let again = read(&written).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{written}")))?;
        prop_assert!(again.warnings.is_empty());
        let same_order = |definition: &WorkflowDefinition| {
            let mut definition = definition.clone();
            definition.steps.iter_mut().for_each(|step| step.depends_on.sort_unstable());
            definition
        };
        prop_assert_eq!(same_order(&again.workflows[0]), same_order(&definition), "{}", written);
    }

    #[test]
    fn any_document_is_read_or_refused(text in "[$.a-z{}#/'=!&|()\\[\\]0-9 ]{0,30}", place in 0..4_usize) {
        let mut step = json!({ "stepId": "a", "operationId": "placeOrder" });
        match place {
            0 => step["requestBody"] = json!({ "payload": { "x": text } }),
            1 => step["outputs"] = json!({ "x": text }),
            2 => step["successCriteria"] = json!([{ "condition": text }]),
            _ => step["onSuccess"] = json!([{ "name": "x", "type": "end", "criteria": [{ "condition": text }] }]),
        }
        if let Ok(imported) = read(&with_steps(json!([step]))) {
            imported.workflows.iter().for_each(compile);
        }
    }
}

#[test]
fn examples_of_the_documentation_are_the_same_workflow() {
    let page = include_str!("../../../docs/arazzo.md");
    let blocks: Vec<&str> = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [source, definition] = blocks.as_slice() else {
        panic!("the page must have two examples, got {}", blocks.len())
    };
    let definition = defined(serde_json::from_str(definition).unwrap());
    assert_eq!(imported(&serde_json::from_str(source).unwrap()), definition);
    let written = export(&[&definition], ArazzoVersion::V1_0, operation_of).unwrap();
    assert_eq!(read(&written).unwrap().workflows, [definition]);
}

#[test]
fn workflows_that_execute_each_other_are_written_to_one_document() {
    let customer = json!({ "customer": { "type": "object" } });
    let properties = json!({ "customer": { "$ref": "#/$defs/customer" } });
    let schema = json!({ "type": "object", "properties": properties, "$defs": customer });
    let outer = defined(json!({
        "refName": "outer",
        "inputSchema": schema,
        "steps": [{
            "name": "sub", "handlerRef": "quantum.workflows.execute",
            "input": { "workflowRef": "inner", "input": { "who": "${input.customer.id}" } }
        }],
        "output": { "total": "${sub.order.total}" }
    }));
    let inner = defined(json!({
        "refName": "inner",
        "version": "3.0.0",
        "inputSchema": schema,
        "steps": [
            { "name": "a", "handlerRef": "shop/placeOrder", "input": { "id": "${input.who}", "note": "x" } },
            { "name": "b", "handlerRef": "mail/notify", "dependsOn": ["a"] }
        ],
        "output": { "order": "${a}" }
    }));
    let operation_of = |handler: &str| {
        let id = handler.strip_prefix("mail/");
        let mut operation = operation_of(&format!("shop/{}", id.or(handler.strip_prefix("shop/"))?))?;
        if id.is_some() {
            (operation.source_name, operation.source_url) = ("mail".into(), "https://mail.example/openapi.json".into());
        }
        Some(operation)
    };
    let written = export(&[&outer, &inner], ArazzoVersion::V1_0, operation_of).unwrap();
    assert_eq!(written["components"], json!({ "inputs": customer }));
    assert_eq!(written["workflows"][1]["steps"][1]["operationId"], "$sourceDescriptions.mail.notify");
    let again = import(&written, None, |operation| match operation {
        OperationRef::Id { source: Some("mail"), id } => {
            tool(id).map(|tool| OperationTool { handler_ref: format!("mail/{id}"), ..tool })
        }
        other => tool_of(other),
    });
    assert_eq!(again.unwrap().workflows, [outer.clone(), inner]);
    let problems = export(&[&outer], ArazzoVersion::V1_0, operation_of).unwrap_err();
    assert_eq!(problems[0].path, "/steps/0/input/workflowRef");
}
