//! Tests the rules that every backend must follow. A call ends within its timeout and when it is cancelled. A failed
//! call has one of the nine error codes. The output is truncated at its maximum size and contains no secret. A failed
//! call does not affect the next call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::sync::Arc;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use support::runs::api;
use tempfile::TempDir;
use toolwright_catalog::Session;
use toolwright_engine::{Engine, Options};
use toolwright_mcp::{Client, ClientOptions, ProcessLimits};
use toolwright_sandbox::{Sandbox, SandboxConfig};
use toolwright_store::{SealKey, SecretScope};
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::faults::Faults;
use toolwright_testkit::grpc::Inventory;
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_tools::{CallContext, CallOutcome, CallRequest, Preparation, Tool, ToolCx, ToolFailure, builtin};
use toolwright_types::{
    DefinitionSource, DocumentId, RunId, ToolDefinition, ToolEnvelope, ToolProviderConfig, ToolType,
};

const SECRET: &str = "a-secret-that-must-not-leak";
const KINDS: [&str; 5] = ["fine", "slow", "fail", "large", "leak"];

/// A backend and the definitions of its tools, one tool for each kind of call in [`KINDS`]. `fail` also has the
/// expected error code. A definition is `Null` if the backend does not support that kind of call.
struct Case {
    name: &'static str,
    fine: Value,
    slow: Value,
    fail: (Value, &'static str),
    large: Value,
    leak: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backend_enforces_timeout_and_cancellation_and_redacts_secrets() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let inventory = Inventory::builder().start(LOOPBACK).await.unwrap();
    let mcp_server = support::Server::start_without_demo(vec![("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8".to_owned())]);
    let (engine, _folder) = engine().await;
    let session = engine.identity.admin_session().await.unwrap();
    for (name, value) in [("token", SECRET), ("mcp-server-key", support::ADMIN_KEY)] {
        let value = SecretString::from(value);
        engine.vault.put(&session, SecretScope::Realm, &name.parse().unwrap(), value).await.unwrap();
    }
    define_provider(&engine, &session, "rest", "REST", &faults.base_url(), "token").await;
    define_provider(&engine, &session, "grpc", "GRPC", &inventory.base_url(), "token").await;
    define_provider(&engine, &session, "mcp", "MCP", &format!("{}/mcp", mcp_server.url), "mcp-server-key").await;
    define_mcp_tools(&mcp_server, &faults.base_url()).await;
    for case in [rest("rest", "EXTERNAL_REST"), rest("helix", "HELIX"), grpc(), mcp(), function()]
        .into_iter()
        .chain(sandboxes())
    {
        assert_meets_contract(&engine, &session, case).await;
    }
    engine.close().await;
}

async fn assert_meets_contract(engine: &Engine, session: &Session, case: Case) {
    let Case { name, fine, slow, fail: (fail, code), large, leak } = case;
    for (kind, definition) in KINDS.into_iter().zip([&fine, &slow, &fail, &large, &leak]) {
        if !definition.is_null() {
            define(engine, session, &format!("{name}/{kind}"), definition).await;
        }
    }
    let call = |kind: &str| Caller { engine, session, tool: format!("{name}/{kind}") };

    let envelope = call("fine").call().await;
    assert_eq!(envelope.error, None, "{name}");
    assert!(
        envelope.output.to_string().contains("fine") || envelope.output.to_string().contains("item"),
        "{name}: {envelope:?}"
    );

    let envelope = call("slow").call().await;
    let error = envelope.error.unwrap_or_else(|| panic!("{name} must time out"));
    let reason = error.details.unwrap_or_default()["reason"].clone();
    // The sandbox enforces the time limit of code in every language, so its error has the code `SANDBOX_ERROR` and not
    // `TIMEOUT`.
    let expected = if code == "SANDBOX_ERROR" { (code, json!("limit")) } else { ("TIMEOUT", json!("deadline")) };
    assert_eq!((error.code.to_string().as_str(), reason), expected, "{name}");

    let envelope = call("slow").call_and_cancel().await;
    let error = envelope.error.unwrap_or_else(|| panic!("{name} succeeded although it was cancelled"));
    let reason = error.details.unwrap_or_default()["reason"].clone();
    assert_eq!((error.code.to_string().as_str(), reason), ("UNKNOWN", json!("cancelled")), "{name}");

    let envelope = call("fail").call().await;
    assert_eq!(envelope.error.map(|error| error.code.to_string()).as_deref(), Some(code), "{name}");

    let envelope = call("large").call().await;
    assert!(envelope.truncated && envelope.error.is_none(), "{name}: {:?}", envelope.error);
    assert!(envelope.output.to_string().len() < 5_000, "{name} returned {} bytes", envelope.output.to_string().len());
    assert_eq!(envelope.attachments.len(), 1, "{name}: the whole output is an attachment");

    if !leak.is_null() {
        let envelope = call("leak").call().await;
        assert_eq!(envelope.error, None, "{name}");
        let json = serde_json::to_string(&envelope).unwrap();
        assert!(!json.contains(SECRET) && !json.contains(support::ADMIN_KEY), "{name} leaks a secret: {json}");
        assert!(json.contains("[redacted]"), "{name}: the output must have contained a secret: {json}");
    }

    let envelope = call("fine").call().await;
    assert_eq!(envelope.error, None, "{name} still works");
}

struct Caller<'a> {
    engine: &'a Engine,
    session: &'a Session,
    tool: String,
}

impl Caller<'_> {
    async fn call(&self) -> ToolEnvelope {
        self.execute(self.context()).await
    }

    /// Starts the call and cancels it after 1,000 yields to other tasks, so that the call has time to start.
    async fn call_and_cancel(&self) -> ToolEnvelope {
        let cx = self.context();
        let cancel = cx.cancel.clone();
        let cancellation = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        tokio::join!(self.execute(cx), cancellation).0
    }

    fn context(&self) -> CallContext {
        let Session { realm, principal, .. } = self.session;
        CallContext::direct(Arc::clone(realm), Arc::clone(principal), RunId::generate())
    }

    async fn execute(&self, cx: CallContext) -> ToolEnvelope {
        let request = CallRequest { tool: self.tool.clone(), version: None, input: json!({}) };
        let executor = self.engine.calls.executor();
        let outcome = match executor.prepare_direct(&cx, request).await {
            Preparation::Ready(ready) => executor.call(&cx, *ready).await,
            Preparation::Refused(envelope) => CallOutcome::Done(envelope),
        };
        match outcome {
            CallOutcome::Done(envelope) => *envelope,
            CallOutcome::Client(_) => panic!("{} requires a client", self.tool),
        }
    }
}

async fn engine() -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let seal = SealKey::from_file(folder.path().join("seal.key")).unwrap();
    let mut options = Options::in_folder(folder.path().to_owned(), seal);
    let loopback = || EgressPolicy::allowing(vec!["127.0.0.0/8".parse().unwrap()]);
    options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()];
    options.library = builtin::library().with::<Fine>().with::<Slow>().with::<Panic>().with::<Large>();
    options.sandbox = Some(Sandbox::new(SandboxConfig {
        arguments: vec!["sandbox-worker".to_owned()],
        python: Some("python3".into()),
        ..SandboxConfig::new(support::BINARY)
    }));
    let process_limits = ProcessLimits { per_realm: 0, per_principal: 0 };
    let http = HttpClient::new(loopback());
    let client = Client::new(ClientOptions { http, stdio: false, process_limits, command_user: None });
    options.backends.push((ToolType::ExternalMcp, Arc::new(client)));
    (Engine::open(options).await.unwrap().0, folder)
}

async fn define_provider(engine: &Engine, session: &Session, name: &str, kind: &str, base_url: &str, secret: &str) {
    let body = json!({ "refName": name, "providerType": kind, "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"],
        "auth": { "authType": "bearer", "secretRef": secret } });
    engine.registry.create::<ToolProviderConfig>(session, body, DefinitionSource::Manual).await.unwrap();
}

async fn define(engine: &Engine, session: &Session, name: &str, fields: &Value) {
    let mut body = json!({ "refName": name, "description": name, "sideEffects": "reads", "maxOutputBytes": 1000,
        "timeoutMs": if name.ends_with("slow") { 1_000 } else { 60_000 } });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    engine.registry.create::<ToolDefinition>(session, body, DefinitionSource::Manual).await.unwrap();
}

/// Defines the tools that the MCP backend calls on the MCP server.
async fn define_mcp_tools(mcp_server: &support::Server, faults: &str) {
    let provider =
        json!({ "refName": "faults", "providerType": "REST", "baseUrl": faults, "egressAllow": ["127.0.0.0/8"] });
    api(mcp_server, reqwest::Method::POST, "tool-providers", Some(provider)).await;
    for (name, path) in [("slow", "/slow/60000"), ("fail", "/status/500"), ("large", "/huge/200000")] {
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "faults", "description": name,
            "invocation": { "path": path } });
        let (status, body) = api(mcp_server, reqwest::Method::POST, "tools", Some(tool)).await;
        assert_eq!(status, 201, "{body}");
    }
}

fn rest(name: &'static str, kind: &str) -> Case {
    let tool = |path: &str| json!({ "toolType": kind, "providerRef": "rest", "invocation": { "path": path } });
    Case {
        name,
        fine: tool("/echo/fine"),
        slow: tool("/slow/60000"),
        fail: (tool("/status/500"), "PROVIDER_ERROR"),
        large: tool("/huge/200000"),
        leak: tool("/echo/leak"),
    }
}

fn grpc() -> Case {
    let tool = |method: &str, message: Value| {
        let path = format!("toolwright.fixture.v1.Inventory/{method}");
        json!({ "toolType": "GRPC", "providerRef": "grpc", "invocation": { "path": path, "bodyTemplate": message } })
    };
    Case {
        name: "grpc",
        fine: tool("GetItem", json!({ "id": 7 })),
        slow: tool("Wait", json!({ "millis": 60_000 })),
        fail: (tool("Fail", json!({ "code": 13 })), "PROVIDER_ERROR"),
        large: tool("ListItems", json!({ "id": 100 })),
        leak: tool("Metadata", json!({})),
    }
}

fn mcp() -> Case {
    let tool = |name: &str, arguments: Value| {
        json!({ "toolType": "EXTERNAL_MCP", "providerRef": "mcp",
            "invocation": { "path": name, "bodyTemplate": arguments } })
    };
    Case {
        name: "mcp",
        fine: tool("echo", json!({ "text": "fine" })),
        slow: tool("slow", json!({})),
        fail: (tool("fail", json!({})), "PROVIDER_ERROR"),
        large: tool("large", json!({})),
        leak: tool("echo", json!({ "text": support::ADMIN_KEY })),
    }
}

fn function() -> Case {
    let tool = |path: &str| json!({ "toolType": "FUNCTION", "invocation": { "path": path } });
    Case {
        name: "function",
        fine: tool("fine"),
        slow: tool("slow"),
        fail: (tool("panic"), "UNKNOWN"),
        large: tool("large"),
        leak: Value::Null,
    }
}

fn sandboxes() -> Vec<Case> {
    let case = |name: &'static str, [fine, slow, fail, large]: [&str; 4]| {
        let tool = |code: &str| json!({ "toolType": "FUNCTION", "invocation": { "path": name, "code": code } });
        Case {
            name,
            fine: tool(fine),
            // The time limit is long enough for a new worker process to start. Otherwise it would be reached before the
            // code runs.
            slow: json!({ "toolType": "FUNCTION", "invocation": { "path": name, "code": slow }, "timeoutMs": 3_000 }),
            fail: (tool(fail), "SANDBOX_ERROR"),
            large: tool(large),
            leak: Value::Null,
        }
    };
    let python = ["'fine'", "while True:\n    pass", "1/0", "'x' * 200000"];
    let fine = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\06\00\00\00") (data (i32.const 16) "\22fine\22")
        (func (export "_start") (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    let large = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 8) (data (i32.const 0) "\10\00\00\00\40\0d\03\00")
        (func (export "_start")
          (memory.fill (i32.const 16) (i32.const 120) (i32.const 200000))
          (i32.store8 (i32.const 16) (i32.const 34)) (i32.store8 (i32.const 200015) (i32.const 34))
          (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;
    vec![
        case("python", python),
        case("cpython", python),
        case("javascript", ["'fine'", "for (;;) {}", "throw new Error('no')", "'x'.repeat(200000)"]),
        case(
            "wasm",
            [
                fine,
                r#"(module (memory (export "memory") 1) (func (export "_start") (loop (br 0))))"#,
                r#"(module (memory (export "memory") 1) (func (export "_start") unreachable))"#,
                large,
            ],
        ),
    ]
}

macro_rules! function {
    ($type:ident, $name:literal, $cx:ident => $body:expr) => {
        /// A tool that the function backend executes as Rust code.
        #[derive(Deserialize, JsonSchema)]
        struct $type {}

        impl Tool for $type {
            const NAME: &'static str = $name;
            type Output = String;

            async fn call(self, $cx: &ToolCx<'_>) -> Result<String, ToolFailure> {
                $body
            }
        }
    };
}

function!(Fine, "fine", _cx => Ok("fine".to_owned()));
function!(Slow, "slow", _cx => std::future::pending().await);
function!(Panic, "panic", _cx => panic!("intended"));
function!(Large, "large", _cx => Ok("x".repeat(200_000)));
