//! Tests the sandbox with the real binary as its worker process, and tools that are implemented as sandboxed code.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

#[allow(dead_code, reason = "shared with the interpreter tests")]
#[path = "../../sandbox/tests/corpus/mod.rs"]
mod corpus;
mod support;

use futures::StreamExt;
use futures::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};
use support::Server;
use support::runs::api;
use toolwright_sandbox::{AsyncHost, Job, JobError, JobLimits, Language, Sandbox, SandboxConfig};

/// Implements the only function that the sandboxed code may call: `echo`, which returns its arguments.
struct Echo;

impl AsyncHost for Echo {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        assert_eq!(function, "echo", "only `echo` is granted");
        Box::pin(async move { Ok(arguments) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_escape_attempts_fail_and_leave_the_sandbox_usable() {
    let sandbox = Sandbox::new(SandboxConfig {
        arguments: vec!["sandbox-worker".to_owned()],
        ..SandboxConfig::new(support::BINARY)
    });
    let before = resident_megabytes("self");
    let mismatches: Vec<String> = futures::stream::iter(corpus::all())
        .map(|attempt| {
            let sandbox = sandbox.clone();
            async move {
                let outcome = sandbox.run(attempt.language, "a tenant", attempt.job(), &Echo).await;
                // The operating system's limits on the worker may stop the code before the interpreter's limits do. The
                // error then differs from the expected one.
                let exceeds_limit = matches!(attempt.expected, corpus::Expected::Limit(_));
                let was_stopped = matches!(outcome, Err(JobError::Limit { .. } | JobError::Exception { .. }));
                attempt.mismatch(&outcome).filter(|_| !(exceeds_limit && was_stopped))
            }
        })
        .buffer_unordered(3)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    for (language, code) in [(Language::Python, "1 + 1"), (Language::JavaScript, "1 + 1")] {
        let job = Job { code: code.into(), inputs: json!({}), functions: Vec::new(), limits: JobLimits::default() };
        assert_eq!(sandbox.run(language, "a tenant", job, &Echo).await.unwrap().result, json!(2));
    }
    let after = resident_megabytes("self");
    assert!(after < before + 100, "memory grew from {before} MB to {after} MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_python_code_fails_and_does_not_grow_server_memory() {
    let server = Server::start_without_demo(Vec::new());
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
        let envelope = call(&server, "python", json!({ "code": code })).await;
        assert_eq!(envelope["error"]["code"], "SANDBOX_ERROR", "{code}: {envelope}");
        assert_eq!(envelope["error"]["details"]["reason"], reason, "{code}: {envelope}");
    }
    let envelope = call(&server, "python", json!({ "code": "print('hi')\nn * 2", "inputs": { "n": 21 } })).await;
    assert_eq!(envelope["output"], json!({ "result": 42, "stdout": "hi\n" }));
    let after = resident_megabytes(&server.pid().to_string());
    assert!(after < before + 50, "memory grew from {before} MB to {after} MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxed_code_can_call_only_its_granted_functions() {
    let server = Server::start_without_demo(Vec::new());
    let hello = json!({ "hello": "sayHello", "more": "stats/outer" });
    let greet = "hello(personName=who)";
    define(&server, "stats/greet", json!({ "path": "python", "code": greet, "functions": hello })).await;
    let envelope = call(&server, "stats%2Fgreet", json!({ "who": "Ada" })).await;
    assert!(envelope["output"].to_string().contains("Ada"), "{envelope}");
    let called = &envelope["metadata"]["calls"][0];
    assert_eq!(
        (&called["name"], &called["input"]),
        (&json!("sayHello"), &json!({ "personName": "Ada" })),
        "{envelope}"
    );
    assert!(called["t_end"].is_string() && called["error"].is_null(), "{envelope}");

    let caught = "try {\n  hello({ personName: 7 })\n} catch (error) {\n  result = error.message\n}";
    define(&server, "stats/wrong", json!({ "path": "javascript", "code": caught, "functions": hello })).await;
    let envelope = call(&server, "stats%2Fwrong", json!({})).await;
    assert!(envelope["output"].as_str().unwrap_or_default().starts_with("VALIDATION_ERROR"), "{envelope}");
    assert_eq!(envelope["metadata"]["calls"][0]["error"]["code"], "VALIDATION_ERROR", "{envelope}");

    for (language, code) in
        [("python", "add_message(text='skipped 2')\n7"), ("javascript", "add_message({ text: 'skipped 2' }); 7")]
    {
        let name = format!("stats/{language}");
        define(&server, &name, json!({ "path": language, "code": code })).await;
        let envelope = call(&server, &name.replace('/', "%2F"), json!({})).await;
        assert_eq!(
            (&envelope["output"], &envelope["metadata"]["messages"]),
            (&json!(7), &json!(["skipped 2"])),
            "{envelope}"
        );
    }

    let code = "sayHello(personName='Ada')";
    define(&server, "stats/ungranted", json!({ "path": "python", "code": code })).await;
    let envelope = call(&server, "stats%2Fungranted", json!({})).await;
    assert_eq!(envelope["error"]["details"]["reason"], "exception", "{envelope}");

    // `stats/outer` calls itself, because its function `more` is bound to `stats/outer`.
    define(&server, "stats/outer", json!({ "path": "python", "code": "more()", "functions": hello })).await;
    let envelope = call(&server, "stats%2Fouter", json!({})).await;
    assert!(envelope["error"]["message"].as_str().unwrap().contains("nested too deeply"), "{envelope}");
    assert_eq!(envelope["metadata"]["calls"][0]["calls"][0]["name"], "stats/outer", "{envelope}");

    // `stats/harmless` declares no side effects, but its function `http_request` may write.
    let code = "send(url='http://10.0.0.1/', method='POST')";
    let request = json!({ "path": "python", "code": code, "functions": { "send": "http_request" } });
    define(&server, "stats/harmless", request.clone()).await;
    let envelope = call(&server, "stats%2Fharmless", json!({})).await;
    assert!(envelope["error"]["message"].as_str().unwrap().contains("POLICY_DENIED"), "{envelope}");
    assert!(envelope["error"]["message"].as_str().unwrap().contains("sideEffects"), "{envelope}");
    define_with(&server, "stats/honest", request, json!({ "sideEffects": "writes" })).await;
    let envelope = call(&server, "stats%2Fhonest", json!({})).await;
    assert!(
        envelope["error"]["message"].as_str().unwrap().contains("not a public address"),
        "egress rules apply to code: {envelope}"
    );

    define_with(&server, "careful", json!({ "path": "echo" }), json!({ "requiresConfirmation": true })).await;
    let code = json!({ "path": "python", "code": "careful()", "functions": { "careful": "careful" } });
    define(&server, "stats/careless", code).await;
    let envelope = call(&server, "stats%2Fcareless", json!({})).await;
    assert!(envelope["error"]["message"].as_str().unwrap().contains("approval"), "{envelope}");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_a_client_tool_prepares_the_payload_and_cannot_write() {
    let server = Server::start_without_demo(Vec::new());
    let client = json!({ "isToolFullyExecutedOnServer": false, "sideEffects": "writes",
        "inputSchema": { "path": { "type": "string", "required": true } } });
    let code = "if path.startswith('..'):\n    raise ValueError('outside of the project')\n\
                result = { 'open': '/srv/' + path, 'greeting': hello(personName='Ada') }";
    let invocation = json!({ "path": "python", "code": code, "functions": { "hello": "sayHello" } });
    define_with(&server, "open", invocation, client.clone()).await;
    let body = json!({ "input": { "path": "a.rs" } });
    let (status, waiting) = api(&server, Method::POST, "tools/open/execute", Some(body)).await;
    let payload = &waiting["clientActions"][0]["preparedPayload"];
    assert_eq!((status, &payload["open"]), (202, &json!("/srv/a.rs")), "{waiting}");
    assert!(payload["greeting"].as_str().unwrap().contains("Ada"), "{waiting}");
    // The code can refuse the call.
    let refused = call(&server, "open", json!({ "path": "../etc" })).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("outside of the project"), "{refused}");
    // The client performs the action, so the code must not.
    let code = "send(url='http://10.0.0.1/', method='POST')";
    let invocation = json!({ "path": "python", "code": code, "functions": { "send": "http_request" } });
    define_with(&server, "eager", invocation, client).await;
    let refused = call(&server, "eager", json!({ "path": "a.rs" })).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("only prepares a payload"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn envelope_of_timed_out_code_lists_its_unfinished_call() {
    let server = Server::start_without_demo(Vec::new());
    let forever = json!({ "path": "python", "code": "while True:\n    pass" });
    define_with(&server, "forever", forever, json!({ "timeoutMs": 60_000 })).await;
    let waits = json!({ "path": "python", "code": "forever(n=1)", "functions": { "forever": "forever" } });
    define_with(&server, "waits", waits, json!({ "timeoutMs": 1500 })).await;
    let envelope = call(&server, "waits", json!({})).await;
    assert!(envelope["error"].is_object(), "{envelope}");
    let called = envelope["metadata"]["calls"].as_array().unwrap();
    assert_eq!(called.len(), 1, "{envelope}");
    assert_eq!((&called[0]["name"], &called[0]["input"]), (&json!("forever"), &json!({ "n": 1 })), "{envelope}");
    assert!(called[0].get("t_end").is_none(), "the outcome of the call is unknown: {envelope}");
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_plan_compensates_successful_calls_of_code_tools_but_not_failed_calls() {
    let server = Server::start_without_demo(Vec::new());
    let writes = |fields: Value| {
        let mut own = json!({ "sideEffects": "writes", "compensateToolRef": "unput" });
        own.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
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
        let count = |list: &str| plan[list].as_array().map(|calls| calls.len());
        assert_eq!((status, count("steps"), count("kept")), (200, Some(steps), Some(kept)), "{tool}: {plan}");
        let calls = plan["steps"].as_array().unwrap().iter().chain(plan["kept"].as_array().unwrap());
        assert!(calls.map(|call| &call["tool"]).all(|name| *name == format!("{tool}@1.0.0")), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_sandbox_calls_do_not_deadlock_the_sandbox_queue() {
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_SANDBOX__MAX_RUNNING", "2".to_owned())]);
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
async fn error_of_a_timeout_in_the_sandbox_queue_names_the_concurrency_limit() {
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_SANDBOX__MAX_RUNNING", "1".to_owned())]);
    let forever = json!({ "path": "python", "code": "while True:\n    pass" });
    define_with(&server, "forever", forever, json!({ "timeoutMs": 3000 })).await;
    let envelopes = futures::future::join_all((0..3).map(|_| call(&server, "forever", json!({})))).await;
    let was_queued = |envelope: &&Value| envelope["error"]["details"]["queued_ms"].as_u64().is_some();
    let timed_out: Vec<&Value> = envelopes.iter().filter(was_queued).map(|envelope| &envelope["error"]).collect();
    assert!(!timed_out.is_empty(), "{envelopes:?}");
    for error in timed_out {
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("TIMEOUT"), &json!("deadline")), "{error}");
        assert!(error["message"].as_str().unwrap().contains("sandbox.max_running"), "{error}");
    }
    // The built-in tool `python` uses the same queue, which must be free again after the timeouts.
    let python = call(&server, "python", json!({ "code": "1 + 1" })).await;
    assert_eq!(python["output"]["result"], 2, "{python}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cpython_code_can_import_the_standard_library_but_cannot_open_sockets() {
    let server = Server::start_without_demo(Vec::new());
    let code =
        "import statistics, socket\ntry:\n    socket.socket()\nexcept PermissionError:\n    pass\nstatistics.mean(xs)";
    define(&server, "stats/mean", json!({ "path": "cpython", "code": code })).await;
    assert_eq!(call(&server, "stats%2Fmean", json!({ "xs": [1, 2, 6] })).await["output"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_code_tool_is_rejected_with_the_path_of_the_error() {
    let server = Server::start_without_demo(Vec::new());
    for (invocation, path) in [
        (json!({ "path": "cobol", "code": "x" }), "/invocation/path"),
        (json!({ "code": "x" }), "/invocation/path"),
        (json!({ "path": "python", "code": "x".repeat(5 << 20) }), "/invocation/code"),
        (json!({ "path": "python", "code": "x", "functions": { "a b": "echo" } }), "/invocation/functions/a b"),
        (json!({ "path": "python", "code": "x", "functions": { "result": "echo" } }), "/invocation/functions/result"),
        (json!({ "path": "echo", "functions": { "f": "echo" } }), "/invocation/functions"),
    ] {
        let body = json!({ "refName": "bad", "toolType": "FUNCTION", "invocation": invocation });
        let (status, problem) = api(&server, Method::POST, "tools", Some(body)).await;
        assert_eq!((status, &problem["errors"][0]["path"]), (422, &json!(path)), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_tool_is_unavailable_when_the_sandbox_is_disabled() {
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_SANDBOX__ENABLED", "false".to_owned())]);
    define(&server, "stats/one", json!({ "path": "python", "code": "1" })).await;
    let envelope = call(&server, "stats%2Fone", json!({})).await;
    assert_eq!(envelope["error"]["details"]["reason"], "unavailable", "{envelope}");
    let (status, _) = api(&server, Method::GET, "tools/python", None).await;
    assert_eq!(status, 404);
}

async fn define(server: &Server, name: &str, invocation: Value) {
    define_with(server, name, invocation, json!({})).await;
}

async fn define_with(server: &Server, name: &str, invocation: Value, fields: Value) {
    let mut body = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "invocation": invocation });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let (status, problem) = api(server, Method::POST, "tools", Some(body)).await;
    assert_eq!(status, 201, "{problem}");
}

async fn call(server: &Server, tool: &str, input: Value) -> Value {
    let path = format!("tools/{tool}/execute");
    let (status, envelope) = api(server, Method::POST, &path, Some(json!({ "input": input }))).await;
    assert_eq!(status, 200, "{envelope}");
    envelope
}

fn resident_megabytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}
