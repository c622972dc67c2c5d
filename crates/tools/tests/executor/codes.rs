//! Error codes of failures that do not involve the network: input, policy, secrets, limits, functions.

use serde_json::{Value, json};
use toolwright_tools::{CallRequest, ToolFailure};
use toolwright_types::{ErrorCode, Surface};

use crate::test_functions;
use crate::world::{World, detail, done, execute, failure, request};

#[tokio::test]
async fn invalid_input_is_reported_by_field_and_the_tool_does_not_run() {
    let world = World::start().await;
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" }, "s": { "type": "string" } }, "required": ["n"] });
    world.get("t", "/count/bad-input", json!({ "inputJsonSchema": schema }));
    let envelope = world.call("t", json!({ "n": "three", "s": 1 })).await;
    assert!(
        failure(&envelope).starts_with("VALIDATION_ERROR input_schema: the input does not match its schema: /n: "),
        "{}",
        failure(&envelope)
    );
    let paths: Vec<Value> = detail(&envelope, "errors").as_array().unwrap().iter().map(|e| e["path"].clone()).collect();
    assert_eq!(paths, [json!("/n"), json!("/s")]);
    assert_eq!(envelope.metadata.attempt, 0);
    assert_eq!(world.faults.hits("/count"), 0);
}

#[tokio::test]
async fn error_for_a_megabyte_of_invalid_input_is_under_1000_bytes() {
    let world = World::start().await;
    world.get("t", "/echo", json!({ "inputJsonSchema": { "type": "object" } }));
    let envelope = world.call("t", json!("x".repeat(1_000_000))).await;
    assert!(failure(&envelope).len() < 1_000, "{} bytes", failure(&envelope).len());
    assert!(detail(&envelope, "errors").to_string().len() < 1_000);
}

#[tokio::test]
async fn string_input_that_is_not_json_is_a_validation_error() {
    let world = World::start().await;
    world.function("t", "calculator", json!({}));
    let envelope = world.call("t", json!("{\"expression\": ")).await;
    assert!(failure(&envelope).starts_with("VALIDATION_ERROR input_schema"), "{}", failure(&envelope));
    assert_eq!(envelope.input, json!("{\"expression\": "));
}

#[tokio::test]
async fn input_error_that_only_the_function_detects_is_a_validation_error() {
    let world = World::start().await;
    world.function("t", "calculator", json!({}));
    let envelope = world.call("t", json!({ "expression": "1 / 0" })).await;
    assert!(failure(&envelope).starts_with("VALIDATION_ERROR -: division by zero"), "{}", failure(&envelope));
}

#[tokio::test]
async fn call_over_the_rate_limit_fails_with_a_retry_delay() {
    let world = World::start().await;
    world.get("t", "/count/limited", json!({ "rateLimit": { "perSecond": 0.1, "burst": 2 } }));
    world.output("t", json!({})).await;
    world.output("t", json!({})).await;
    let envelope = world.call("t", json!({})).await;
    assert!(failure(&envelope).starts_with("RATE_LIMIT tool_rate_limit: "), "{}", failure(&envelope));
    let wait = envelope.error.unwrap().retry_after_s.unwrap();
    assert!((8.0..=10.0).contains(&wait), "{wait}");
    assert_eq!(world.faults.hits("/count/limited"), 2);
}

#[tokio::test]
async fn realms_do_not_share_a_rate_limit() {
    let world = World::start().await;
    world.get("t", "/echo", json!({ "rateLimit": { "perSecond": 0.1, "burst": 1 } }));
    world.output("t", json!({})).await;
    let elsewhere = crate::world::context("admin", 2);
    assert!(done(execute(&world.executor, &elsewhere, request("t", json!({}))).await).is_success());
    assert!(!world.call("t", json!({})).await.is_success());
}

#[tokio::test]
async fn very_small_and_very_large_rate_limits_do_not_panic() {
    let world = World::start().await;
    for (at, (per_second, burst)) in
        [(1e-300, u32::MAX), (1e300, u32::MAX), (0.000_01, u32::MAX), (f64::MIN_POSITIVE, 1)].into_iter().enumerate()
    {
        let name = format!("t{at}");
        world.function(&name, "echo", json!({ "rateLimit": { "perSecond": per_second, "burst": burst } }));
        assert_eq!(world.output(&name, json!({})).await, json!({}), "{per_second} {burst}");
    }
}

#[tokio::test]
async fn policy_denial_states_its_reason() {
    let world = World::start().await;
    world.function("off", "echo", json!({ "enabled": false }));
    world.function("blocked", "echo", json!({ "status": "blocked" }));
    world.function("only-steps", "echo", json!({ "availableAs": ["workflowStep"] }));
    world.function("secret-garden", "echo", json!({}));
    world.authorizer.denied.lock().unwrap().insert("secret-garden".into());
    world.provider(json!({ "refName": "closed", "enabled": false }));
    let through = |name: &str, provider: &str| json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": provider, "invocation": { "path": "/echo" } });
    world.tool(through("via-closed", "closed"));
    world.tool(through("via-nothing", "lost"));
    world.tool(json!({ "refName": "flow", "toolType": "WORKFLOW", "invocation": { "path": "x" } }));
    world.function("unbound", "nowhere", json!({}));
    for (tool, expected) in [
        ("nobody", "POLICY_DENIED unknown_tool: no tool `nobody` in realm `realm1`"),
        ("off", "POLICY_DENIED disabled: tool `off` is disabled"),
        ("blocked", "POLICY_DENIED blocked: tool `blocked@1.0.0` is blocked"),
        ("only-steps", "POLICY_DENIED not_available: tool `only-steps` is not available as `tool`"),
        (
            "secret-garden",
            "POLICY_DENIED permission: `admin` lacks `ai://tools/secret-garden/execute`: forbidden by no-entry",
        ),
        ("via-closed", "POLICY_DENIED provider_disabled: provider `closed` is disabled"),
        ("via-nothing", "POLICY_DENIED unknown_provider: no provider `lost`, which tool `via-nothing` needs"),
        ("flow", "POLICY_DENIED no_backend: this server cannot run tools of type WORKFLOW"),
        ("unbound", "POLICY_DENIED unbound_function: no function `nowhere` is registered"),
    ] {
        assert_eq!(failure(&world.call(tool, json!({})).await), expected);
    }
}

#[tokio::test]
async fn call_through_a_surface_that_the_tool_does_not_allow_is_refused() {
    let world = World::start().await;
    world.function("steps-and-mcp", "echo", json!({ "availableAs": ["workflowStep", "mcpTool"] }));
    for (surface, allowed) in [(Surface::Tool, false), (Surface::WorkflowStep, true), (Surface::McpTool, true)] {
        let cx = toolwright_tools::CallContext { surface, ..world.cx.clone() };
        let envelope = done(execute(&world.executor, &cx, request("steps-and-mcp", json!({}))).await);
        assert_eq!(envelope.is_success(), allowed, "{surface:?}");
    }
}

#[tokio::test]
async fn call_of_a_version_that_does_not_exist_is_refused() {
    let world = World::start().await;
    world.function("t", "echo", json!({ "version": "1.2.0" }));
    let ask = |version: &str| CallRequest { version: Some(version.parse().unwrap()), ..request("t", json!({})) };
    assert!(done(execute(&world.executor, &world.cx, ask("^1.1")).await).is_success());
    let envelope = done(execute(&world.executor, &world.cx, ask("2")).await);
    assert_eq!(
        failure(&envelope),
        "POLICY_DENIED unknown_tool: no tool `t` with a version that matches `^2` in realm `realm1`"
    );
}

#[tokio::test]
async fn call_with_a_missing_secret_fails_before_anything_is_sent() {
    let world = World::start().await;
    world.provider(json!({ "refName": "locked", "auth": { "authType": "bearer", "secretRef": "crm-token" } }));
    world.get("t", "/count/locked", json!({ "providerRef": "locked" }));
    let envelope = world.call("t", json!({})).await;
    assert!(
        failure(&envelope).starts_with("AUTH_REQUIRED missing_secret: no secret `crm-token`"),
        "{}",
        failure(&envelope)
    );
    assert_eq!(detail(&envelope, "secret"), json!("crm-token"));
    assert_eq!(world.faults.hits("/count"), 0);
}

/// The function of this test returns the error code of a sandbox.
#[tokio::test]
async fn sandbox_error_of_a_function_is_reported_unchanged() {
    let world = World::with_functions(test_functions::library("sandboxed", |_| async {
        Err(ToolFailure::fatal(ErrorCode::SandboxError, "memory limit of 64 MB exceeded").reason("memory"))
    }))
    .await;
    world.function("t", "sandboxed", json!({ "defaultRetryCount": 3, "defaultRetryBackoff": "none" }));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "SANDBOX_ERROR memory: memory limit of 64 MB exceeded");
    assert_eq!(envelope.metadata.attempt, 1);
}

#[tokio::test]
async fn panic_fails_its_call_and_later_calls_succeed() {
    let world = World::with_functions(test_functions::library("fragile", |input| async move {
        assert!(input["fall"].is_null(), "`fall` must be absent");
        Ok(input)
    }))
    .await;
    world.function("t", "fragile", json!({}));
    let envelope = world.call("t", json!({ "fall": true })).await;
    assert_eq!(failure(&envelope), "UNKNOWN panic: tool `t` failed unexpectedly");
    assert_eq!(world.output("t", json!({})).await, json!({}));
}

#[tokio::test]
async fn cancelled_call_ends_immediately() {
    let world = World::start().await;
    world.get("t", "/slow/600000", json!({}));
    let cancel = world.cx.cancel.clone();
    let (envelope, ()) = futures::join!(world.call("t", json!({})), async {
        while world.faults.hits("/slow") == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    });
    assert_eq!(failure(&envelope), "UNKNOWN cancelled: the call was cancelled");
    assert_eq!(failure(&world.call("t", json!({})).await), "UNKNOWN cancelled: the call was cancelled");
}

#[tokio::test]
async fn error_of_an_unavailable_catalog_does_not_reveal_the_cause() {
    let world = World::start().await;
    *world.catalog.broken.lock().unwrap() = true;
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "UNKNOWN unavailable: the catalog is unavailable; the server's log has the cause");
}
