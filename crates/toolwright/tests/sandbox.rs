//! Code in the sandbox of the product: its own binary as the worker, and tools that are code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code, reason = "shared with the tests of the interpreters")]
#[path = "../../sandbox/tests/corpus/mod.rs"]
mod corpus;
mod support;

use futures::StreamExt;
use futures::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};
use support::Server;
use support::scene::api;
use toolwright_sandbox::{AsyncHost, Failure, Job, Language, Limits, Sandbox, SandboxConfig};

/// Grants `echo`.
struct Echo;

impl AsyncHost for Echo {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        assert_eq!(function, "echo", "nothing else was granted");
        Box::pin(async move { Ok(arguments) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_gets_out_of_the_worker_or_uses_it_up() {
    let sandbox = Sandbox::new(SandboxConfig {
        arguments: vec!["sandbox-worker".to_owned()],
        ..SandboxConfig::new(support::BINARY)
    });
    let before = resident_megabytes("self");
    let objections: Vec<String> = futures::stream::iter(corpus::all())
        .map(|attempt| {
            let sandbox = sandbox.clone();
            async move {
                let outcome = sandbox.run(attempt.language, "a tenant", attempt.job(), &Echo).await;
                // The walls of the process may end what goes beyond a limit before its interpreter does, and say so otherwise.
                let beyond = matches!(attempt.expected, corpus::Expected::Limit(_));
                let ended = matches!(outcome, Err(Failure::Limit { .. } | Failure::Exception { .. }));
                attempt.objection(&outcome).filter(|_| !(beyond && ended))
            }
        })
        .buffer_unordered(3)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(objections.is_empty(), "{}", objections.join("\n"));
    for (language, code) in [(Language::Python, "1 + 1"), (Language::JavaScript, "1 + 1")] {
        let job = Job { code: code.into(), inputs: json!({}), functions: Vec::new(), limits: Limits::default() };
        assert_eq!(sandbox.run(language, "a tenant", job, &Echo).await.unwrap().result, json!(2));
    }
    let after = resident_megabytes("self");
    assert!(after < before + 100, "{before} MB became {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_unharmed_by_what_models_write() {
    let server = Server::start_bare_with(Vec::new());
    call(&server, "python", json!({ "code": "1" })).await;
    let before = resident_megabytes(&server.pid().to_string());
    for (code, reason) in [
        ("while True: pass", "limit"),
        ("x = [0]\nwhile True: x = x + x", "limit"),
        ("len(str(10 ** 10000000))", "limit"),
        ("def f(): return f()\nf()", "limit"),
        ("while True: print('x' * 1000)", "limit"),
        ("'x' * 100000000", "limit"),
        ("import socket", "exception"),
        ("open('/etc/passwd').read()", "exception"),
        ("().__class__.__base__.__subclasses__()", "exception"),
        ("__import__('os').system('id')", "exception"),
        ("def (", "code"),
    ] {
        let receipt = call(&server, "python", json!({ "code": code })).await;
        assert_eq!(receipt["error"]["code"], "SANDBOX_ERROR", "{code}: {receipt}");
        assert_eq!(receipt["error"]["details"]["reason"], reason, "{code}: {receipt}");
    }
    let receipt = call(&server, "python", json!({ "code": "print('hi')\nn * 2", "inputs": { "n": 21 } })).await;
    assert_eq!(receipt["output"], json!({ "result": 42, "stdout": "hi\n" }));
    let after = resident_megabytes(&server.pid().to_string());
    assert!(after < before + 50, "{before} MB became {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_calls_what_it_was_granted_and_nothing_more() {
    let server = Server::start_bare_with(Vec::new());
    let hello = json!({ "hello": "sayHello", "more": "stats/outer" });
    let greet = "hello(personName=who)";
    define(&server, "stats/greet", json!({ "path": "python", "code": greet, "functions": hello })).await;
    let receipt = call(&server, "stats%2Fgreet", json!({ "who": "Ada" })).await;
    assert!(receipt["output"].to_string().contains("Ada"), "{receipt}");
    let called = &receipt["metadata"]["calls"][0];
    assert_eq!((&called["name"], &called["input"]), (&json!("sayHello"), &json!({ "personName": "Ada" })), "{receipt}");
    assert!(called["t_end"].is_string() && called["error"].is_null(), "{receipt}");

    let caught = "try {\n  hello({ personName: 7 })\n} catch (error) {\n  result = error.message\n}";
    define(&server, "stats/wrong", json!({ "path": "javascript", "code": caught, "functions": hello })).await;
    let receipt = call(&server, "stats%2Fwrong", json!({})).await;
    assert!(receipt["output"].as_str().unwrap_or_default().starts_with("VALIDATION_ERROR"), "{receipt}");
    assert_eq!(receipt["metadata"]["calls"][0]["error"]["code"], "VALIDATION_ERROR", "{receipt}");

    let code = "sayHello(personName='Ada')";
    define(&server, "stats/ungranted", json!({ "path": "python", "code": code })).await;
    let receipt = call(&server, "stats%2Fungranted", json!({})).await;
    assert_eq!(receipt["error"]["details"]["reason"], "exception", "{receipt}");

    // It calls itself, again and again.
    define(&server, "stats/outer", json!({ "path": "python", "code": "more()", "functions": hello })).await;
    let receipt = call(&server, "stats%2Fouter", json!({})).await;
    assert!(receipt["error"]["message"].as_str().unwrap().contains("nested too deeply"), "{receipt}");
    assert_eq!(receipt["metadata"]["calls"][0]["calls"][0]["name"], "stats/outer", "{receipt}");

    // `http_request` may write, and the tool does not say that it does.
    let request =
        json!({ "path": "python", "code": "get(url='http://10.0.0.1/')", "functions": { "get": "http_request" } });
    define(&server, "stats/harmless", request.clone()).await;
    let receipt = call(&server, "stats%2Fharmless", json!({})).await;
    assert!(receipt["error"]["message"].as_str().unwrap().contains("POLICY_DENIED"), "{receipt}");
    assert!(receipt["error"]["message"].as_str().unwrap().contains("sideEffects"), "{receipt}");
    define_with(&server, "stats/honest", request, json!({ "sideEffects": "writes" })).await;
    let receipt = call(&server, "stats%2Fhonest", json!({})).await;
    assert!(
        receipt["error"]["message"].as_str().unwrap().contains("not a public address"),
        "egress rules hold for code: {receipt}"
    );

    define_with(&server, "careful", json!({ "path": "echo" }), json!({ "requiresConfirmation": true })).await;
    let code = json!({ "path": "python", "code": "careful()", "functions": { "careful": "careful" } });
    define(&server, "stats/careless", code).await;
    let receipt = call(&server, "stats%2Fcareless", json!({})).await;
    assert!(receipt["error"]["message"].as_str().unwrap().contains("approval"), "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_code_was_calling_when_it_was_ended_is_told() {
    let server = Server::start_bare_with(Vec::new());
    let forever = json!({ "path": "python", "code": "while True:\n    pass" });
    define_with(&server, "forever", forever, json!({ "timeoutMs": 60_000 })).await;
    let waits = json!({ "path": "python", "code": "forever(n=1)", "functions": { "forever": "forever" } });
    define_with(&server, "waits", waits, json!({ "timeoutMs": 1500 })).await;
    let receipt = call(&server, "waits", json!({})).await;
    assert!(receipt["error"].is_object(), "{receipt}");
    let called = receipt["metadata"]["calls"].as_array().unwrap();
    assert_eq!(called.len(), 1, "{receipt}");
    assert_eq!((&called[0]["name"], &called[0]["input"]), (&json!("forever"), &json!({ "n": 1 })), "{receipt}");
    assert!(called[0].get("t_end").is_none(), "nobody knows what became of it: {receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_code_did_is_taken_back_as_a_whole_and_what_it_left_halfway_is_told() {
    let server = Server::start_bare_with(Vec::new());
    let writes = |more: Value| {
        let mut own = json!({ "sideEffects": "writes", "compensateToolRef": "unput" });
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        own
    };
    define_with(&server, "unput", json!({ "path": "echo" }), json!({ "sideEffects": "writes" })).await;
    define_with(&server, "put", json!({ "path": "echo" }), writes(json!({}))).await;
    let code = |code: &str| json!({ "path": "javascript", "code": code, "functions": { "put": "put" } });
    define_with(&server, "whole", code("put({ n: 1 })"), writes(json!({}))).await;
    define_with(&server, "half", code("put({ n: 1 }); throw new Error('late')"), writes(json!({}))).await;
    define_with(&server, "none", code("throw new Error('early')"), writes(json!({}))).await;
    for (tool, steps, kept) in [("whole", 1, 0), ("half", 0, 1), ("none", 0, 0)] {
        call(&server, tool, json!({})).await;
        let (_, runs) = api(&server, Method::GET, "runs?kind=tool&limit=1", None).await;
        assert_eq!(runs["items"][0]["subject"], tool, "{runs}");
        let path = format!("runs/{}/undo", runs["items"][0]["id"].as_str().unwrap());
        let (status, plan) = api(&server, Method::POST, &path, Some(json!({ "dryRun": true }))).await;
        let told = |list: &str| plan[list].as_array().map(|calls| calls.len());
        assert_eq!((status, told("steps"), told("kept")), (200, Some(steps), Some(kept)), "{tool}: {plan}");
        let calls = plan["steps"].as_array().unwrap().iter().chain(plan["kept"].as_array().unwrap());
        assert!(calls.map(|call| &call["tool"]).all(|name| *name == format!("{tool}@1.0.0")), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_waits_for_code_keeps_nobody_waiting() {
    let server = Server::start_bare_with(vec![("TOOLWRIGHT_SANDBOX__MAX_RUNNING", "2".to_owned())]);
    define(&server, "inner", json!({ "path": "python", "code": "n + 1" })).await;
    let outer = json!({ "path": "python", "code": "inner(n=n)", "functions": { "inner": "inner" } });
    define(&server, "outer", outer).await;
    let calls = (0..12).map(|n| {
        let server = &server;
        async move { call(server, "outer", json!({ "n": n })).await["output"].clone() }
    });
    let outputs: Vec<Value> = futures::future::join_all(calls).await;
    assert_eq!(outputs, (1..=12).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_waited_for_its_turn_until_it_was_late_says_so() {
    let server = Server::start_bare_with(vec![("TOOLWRIGHT_SANDBOX__MAX_RUNNING", "1".to_owned())]);
    let forever = json!({ "path": "python", "code": "while True:\n    pass" });
    define_with(&server, "forever", forever, json!({ "timeoutMs": 3000 })).await;
    let receipts = futures::future::join_all((0..3).map(|_| call(&server, "forever", json!({})))).await;
    let waited = |receipt: &&Value| receipt["error"]["details"]["queued_ms"].as_u64().is_some();
    let late: Vec<&Value> = receipts.iter().filter(waited).map(|receipt| &receipt["error"]).collect();
    assert!(!late.is_empty(), "{receipts:?}");
    for error in late {
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("TIMEOUT"), &json!("deadline")), "{error}");
        assert!(error["message"].as_str().unwrap().contains("sandbox.max_running"), "{error}");
    }
    // The built-in tool waits in the same queue.
    let python = call(&server, "python", json!({ "code": "1 + 1" })).await;
    assert_eq!(python["output"]["result"], 2, "{python}");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_python_is_there_for_those_who_need_it() {
    let server = Server::start_bare_with(Vec::new());
    let code =
        "import statistics, socket\ntry:\n    socket.socket()\nexcept PermissionError:\n    pass\nstatistics.mean(xs)";
    define(&server, "stats/mean", json!({ "path": "cpython", "code": code })).await;
    assert_eq!(call(&server, "stats%2Fmean", json!({ "xs": [1, 2, 6] })).await["output"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_code_is_refused_when_it_is_saved() {
    let server = Server::start_bare_with(Vec::new());
    for (invocation, place) in [
        (json!({ "path": "cobol", "code": "x" }), "/invocation/path"),
        (json!({ "code": "x" }), "/invocation/path"),
        (json!({ "path": "python", "code": "x".repeat(5 << 20) }), "/invocation/code"),
        (json!({ "path": "python", "code": "x", "functions": { "a b": "echo" } }), "/invocation/functions/a b"),
        (json!({ "path": "python", "code": "x", "functions": { "result": "echo" } }), "/invocation/functions/result"),
        (json!({ "path": "echo", "functions": { "f": "echo" } }), "/invocation/functions"),
    ] {
        let body = json!({ "refName": "bad", "toolType": "FUNCTION", "invocation": invocation });
        let (status, problem) = api(&server, Method::POST, "tools", Some(body)).await;
        assert_eq!((status, &problem["errors"][0]["path"]), (422, &json!(place)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_runs_no_code_says_so() {
    let server = Server::start_bare_with(vec![("TOOLWRIGHT_SANDBOX__ENABLED", "false".to_owned())]);
    define(&server, "stats/one", json!({ "path": "python", "code": "1" })).await;
    let receipt = call(&server, "stats%2Fone", json!({})).await;
    assert_eq!(receipt["error"]["details"]["reason"], "unavailable", "{receipt}");
    let (status, _) = api(&server, Method::GET, "tools/python", None).await;
    assert_eq!(status, 404);
}

async fn define(server: &Server, name: &str, invocation: Value) {
    define_with(server, name, invocation, json!({})).await;
}

async fn define_with(server: &Server, name: &str, invocation: Value, more: Value) {
    let mut body = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "invocation": invocation });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (status, problem) = api(server, Method::POST, "tools", Some(body)).await;
    assert_eq!(status, 201, "{problem}");
}

async fn call(server: &Server, tool: &str, input: Value) -> Value {
    let path = format!("tools/{tool}/execute");
    let (status, receipt) = api(server, Method::POST, &path, Some(json!({ "input": input }))).await;
    assert_eq!(status, 200, "{receipt}");
    receipt
}

fn resident_megabytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}
