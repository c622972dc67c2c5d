//! What every backend owes the executor, whatever runs behind it: an end in time, an end when nobody wants it any more, one
//! of the nine codes, a bounded answer, no secrets, and the next call as if nothing had happened.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::sync::Arc;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use support::scene::api;
use tempfile::TempDir;
use toolwright_engine::{Engine, Options, Session};
use toolwright_mcp::{Client, ClientOptions};
use toolwright_sandbox::{Sandbox, SandboxConfig};
use toolwright_store::{SealKey, SecretScope};
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::faults::Faults;
use toolwright_testkit::grpc::Inventory;
use toolwright_tools::http::{Egress, HttpClient};
use toolwright_tools::{CallContext, CallRequest, Outcome, Tool, ToolCx, ToolFailure, builtin};
use toolwright_types::{DocumentId, RunId, Source, ToolDefinition, ToolEnvelope, ToolProviderConfig, ToolType};

const SECRET: &str = "a-secret-that-nobody-may-see";
const KINDS: [&str; 5] = ["fine", "slow", "fail", "large", "leak"];

/// A backend, and how each kind of call is made with it. A call that it has no way to make is null.
struct Case {
    name: &'static str,
    fine: Value,
    slow: Value,
    fail: (Value, &'static str),
    large: Value,
    leak: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backend_keeps_to_the_rules_of_the_executor() {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let inventory = Inventory::builder().start(LOOPBACK).await.unwrap();
    let other = support::Server::start_bare_with(vec![("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8".to_owned())]);
    let (engine, _folder) = engine().await;
    let session = engine.identity.admin_session().await.unwrap();
    for (name, value) in [("token", SECRET), ("key-of-the-other", support::ADMIN_KEY)] {
        let value = SecretString::from(value);
        engine.vault.put(&session, SecretScope::Realm, &name.parse().unwrap(), value).await.unwrap();
    }
    provider(&engine, &session, "rest", "REST", &faults.base_url(), "token").await;
    provider(&engine, &session, "grpc", "GRPC", &inventory.base_url(), "token").await;
    provider(&engine, &session, "mcp", "MCP", &format!("{}/mcp", other.url), "key-of-the-other").await;
    offer(&other, &faults.base_url()).await;
    for case in [rest("rest", "EXTERNAL_REST"), rest("helix", "HELIX"), grpc(), mcp(), function()]
        .into_iter()
        .chain(sandboxes())
    {
        conforms(&engine, &session, case).await;
    }
    engine.close().await;
}

async fn conforms(engine: &Engine, session: &Session, case: Case) {
    let Case { name, fine, slow, fail: (fail, code), large, leak } = case;
    for (kind, definition) in KINDS.into_iter().zip([&fine, &slow, &fail, &large, &leak]) {
        if !definition.is_null() {
            define(engine, session, &format!("{name}/{kind}"), definition).await;
        }
    }
    let call = |kind: &str| Calling { engine, session, tool: format!("{name}/{kind}") };

    let receipt = call("fine").made().await;
    assert_eq!(receipt.error, None, "{name}");
    assert!(
        receipt.output.to_string().contains("fine") || receipt.output.to_string().contains("item"),
        "{name}: {receipt:?}"
    );

    let receipt = call("slow").made().await;
    let late = receipt.error.map(|error| error.code.to_string()).unwrap_or_default();
    assert!(["TIMEOUT", "SANDBOX_ERROR"].contains(&late.as_str()), "{name} did not end in time: {late:?}");

    let receipt = call("slow").cancelled().await;
    let error = receipt.error.unwrap_or_else(|| panic!("{name} was cancelled, and ended well"));
    let reason = error.details.unwrap_or_default()["reason"].clone();
    assert_eq!((error.code.to_string().as_str(), reason), ("UNKNOWN", json!("cancelled")), "{name}");

    let receipt = call("fail").made().await;
    assert_eq!(receipt.error.map(|error| error.code.to_string()).as_deref(), Some(code), "{name}");

    let receipt = call("large").made().await;
    assert!(receipt.truncated && receipt.error.is_none(), "{name}: {:?}", receipt.error);
    assert!(receipt.output.to_string().len() < 5_000, "{name} gave {} bytes", receipt.output.to_string().len());
    assert_eq!(receipt.attachments.len(), 1, "{name}: the whole is kept");

    if !leak.is_null() {
        let receipt = call("leak").made().await;
        assert_eq!(receipt.error, None, "{name}");
        let told = serde_json::to_string(&receipt).unwrap();
        assert!(!told.contains(SECRET) && !told.contains(support::ADMIN_KEY), "{name} tells a secret: {told}");
        assert!(told.contains("[redacted]"), "{name}: there was a secret to be taken out: {told}");
    }

    let receipt = call("fine").made().await;
    assert_eq!(receipt.error, None, "{name} is as it was before");
}

struct Calling<'a> {
    engine: &'a Engine,
    session: &'a Session,
    tool: String,
}

impl Calling<'_> {
    async fn made(&self) -> ToolEnvelope {
        self.with(self.context()).await
    }

    /// Nobody wants it any more as soon as it is under way.
    async fn cancelled(&self) -> ToolEnvelope {
        let cx = self.context();
        let cancel = cx.cancel.clone();
        let soon = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        tokio::join!(self.with(cx), soon).0
    }

    fn context(&self) -> CallContext {
        let Session { realm, principal, .. } = self.session;
        CallContext::direct(Arc::clone(realm), Arc::clone(principal), RunId::generate())
    }

    async fn with(&self, cx: CallContext) -> ToolEnvelope {
        let request = CallRequest { tool: self.tool.clone(), version: None, input: json!({}) };
        match self.engine.calls.executor().execute(&cx, request).await {
            Outcome::Done(envelope) => *envelope,
            Outcome::Client(_) => panic!("{} wants a client", self.tool),
        }
    }
}

async fn engine() -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let seal = SealKey::from_file(folder.path().join("seal.key")).unwrap();
    let mut options = Options::in_folder(folder.path().to_owned(), seal);
    let near = || Egress::allowing(vec!["127.0.0.0/8".parse().unwrap()]);
    options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()];
    options.library = builtin::library().with::<Fine>().with::<Slow>().with::<Panic>().with::<Large>();
    options.sandbox = Some(Sandbox::new(SandboxConfig {
        arguments: vec!["sandbox-worker".to_owned()],
        python: Some("python3".into()),
        ..SandboxConfig::new(support::BINARY)
    }));
    let client = Client::new(ClientOptions { http: HttpClient::new(near()), stdio: false });
    options.backends.push((ToolType::ExternalMcp, Arc::new(client)));
    (Engine::open(options).await.unwrap().0, folder)
}

async fn provider(engine: &Engine, session: &Session, name: &str, kind: &str, base_url: &str, secret: &str) {
    let body = json!({ "refName": name, "providerType": kind, "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"],
        "auth": { "authType": "bearer", "secretRef": secret } });
    engine.registry.create::<ToolProviderConfig>(session, body, Source::Manual).await.unwrap();
}

async fn define(engine: &Engine, session: &Session, name: &str, more: &Value) {
    let mut body = json!({ "refName": name, "description": name, "sideEffects": "reads", "maxOutputBytes": 1000,
        "timeoutMs": if name.ends_with("slow") { 1_000 } else { 60_000 } });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    engine.registry.create::<ToolDefinition>(session, body, Source::Manual).await.unwrap();
}

/// Tools of another server, for MCP.
async fn offer(other: &support::Server, faults: &str) {
    let provider =
        json!({ "refName": "faults", "providerType": "REST", "baseUrl": faults, "egressAllow": ["127.0.0.0/8"] });
    api(other, reqwest::Method::POST, "tool-providers", Some(provider)).await;
    for (name, path) in [("slow", "/slow/60000"), ("fail", "/status/500"), ("large", "/huge/200000")] {
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "faults", "description": name,
            "invocation": { "path": path } });
        let (status, body) = api(other, reqwest::Method::POST, "tools", Some(tool)).await;
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
            slow: tool(slow),
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
        /// For this test.
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
function!(Panic, "panic", _cx => panic!("as wanted"));
function!(Large, "large", _cx => Ok("x".repeat(200_000)));
