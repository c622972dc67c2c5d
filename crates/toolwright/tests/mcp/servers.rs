//! Tests the import, the calls and the restarts of MCP servers that other projects made.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_tools::http::{EgressPolicy, HttpClient};

use crate::peers::Peers;
use crate::support::runs::{api, wait_until};
use crate::support::{ADMIN_KEY, BINARY, Server};

/// Imports the tools of a reference server, which Toolwright starts as a child process. Returns the names of the tools.
async fn import(server: &Server, package: &str, args: &[&str], env: Value) -> Vec<String> {
    let peers = Peers::install();
    let script = peers.file(&format!("@modelcontextprotocol/{package}/dist/index.js"));
    let mut all = vec![script.to_str().unwrap()];
    all.extend(args);
    let body = json!({ "command": peers.node(), "args": all, "env": env, "transport": "stdio", "prefix": "x_" });
    let (status, view) = api(server, Method::POST, "tools/import/mcp", Some(body)).await;
    assert_eq!(status, 200, "{view}");
    let imported = view["imported"].as_array().unwrap().iter().map(|tool| tool["refName"].as_str().unwrap().to_owned());
    imported.collect()
}

async fn call(server: &Server, tool: &str, input: Value) -> Value {
    let (status, envelope) =
        api(server, Method::POST, &format!("tools/{tool}/execute"), Some(json!({ "input": input }))).await;
    assert_eq!(status, 200, "{envelope}");
    envelope
}

fn text(envelope: &Value) -> &str {
    envelope["output"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("the output has no text: {envelope}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_mcp_everything_server_can_be_imported_and_called() {
    let server = Server::start_without_demo(Vec::new());
    let tools = import(&server, "server-everything", &[], json!({})).await;
    assert!(tools.contains(&"x_echo".to_owned()), "{tools:?}");
    assert_eq!(text(&call(&server, "x_echo", json!({ "message": "hello" })).await), "Echo: hello");
    let picture = call(&server, "x_get-tiny-image", json!({})).await;
    assert_eq!(picture["attachments"][0]["kind"], "image", "{picture}");
    // The child process must not inherit secrets from the environment of the Toolwright server.
    let env = call(&server, "x_get-env", json!({})).await;
    assert!(!env.to_string().contains("TOOLWRIGHT_ADMIN_KEY"), "{env}");
    // Toolwright forwards the progress notifications of the reference server to the client.
    let messages =
        call_over_mcp(&server, "x_trigger-long-running-operation", json!({ "duration": 1, "steps": 4 })).await;
    let steps = messages.iter().filter(|message| message["params"]["total"] == 4.0);
    assert!(
        steps.clone().count() > 0 && steps.into_iter().all(|step| step["params"]["progressToken"] == 1),
        "{messages:?}"
    );
    assert_eq!(messages.last().unwrap()["result"]["isError"], false, "{messages:?}");
}

/// Calls a tool over MCP and returns all messages of the response.
async fn call_over_mcp(server: &Server, tool: &str, arguments: Value) -> Vec<Value> {
    let version = "2026-07-28";
    let meta = json!({ "progressToken": 1, "io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let request = client.post(format!("{}/mcp", server.url)).bearer_auth(ADMIN_KEY);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", version).header("mcp-method", "tools/call");
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let response = request.header("mcp-name", tool).json(&message).send().await.unwrap().text().await.unwrap();
    let data = response.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_server_with_the_older_sse_transport_can_be_imported_and_called() {
    let server = Server::start_without_demo(Vec::new());
    let peer = SsePeer::start();
    let url = format!("http://127.0.0.1:{}/sse", peer.port);
    let provider = json!({ "refName": "old", "providerType": "MCP", "mcpTransport": "sse", "baseUrl": url,
        "egressAllow": ["127.0.0.0/8"] });
    let (status, view) = api(&server, Method::POST, "tool-providers", Some(provider)).await;
    assert_eq!(status, 201, "{view}");
    let (_, test) = api(&server, Method::POST, "tool-providers/old/test", Some(json!({}))).await;
    assert_eq!((&test["ok"], &test["toolCount"]), (&json!(true), &json!(1)), "{test}");
    let import = json!({ "providerRef": "old", "prefix": "x_" });
    let (status, view) = api(&server, Method::POST, "tools/import/mcp", Some(import)).await;
    assert_eq!((status, &view["imported"]), (200, &json!([{ "refName": "x_echo" }])), "{view}");
    assert_eq!(text(&call(&server, "x_echo", json!({ "message": "hello" })).await), "Echo: hello");
    // This server does not support streamable HTTP. So the call fails after `mcpTransport` is changed, which shows that
    // the setting selects the transport.
    let current = json!({ "mcpTransport": "streamable-http" });
    api(&server, Method::PATCH, "tool-providers/old", Some(current)).await;
    let refused = call(&server, "x_echo", json!({ "message": "hello" })).await;
    assert!(!refused["error"].is_null(), "{refused}");
}

/// An MCP server that speaks only the older HTTP+SSE transport.
struct SsePeer {
    process: Child,
    port: u16,
}

impl SsePeer {
    fn start() -> Self {
        let peers = Peers::install();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/sse_server.cjs");
        let mut process = Command::new(peers.node())
            .arg(script)
            .env("NODE_PATH", peers.modules())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
    }
}

impl Drop for SsePeer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_filesystem_server_reads_only_inside_its_folder() {
    let server = Server::start_without_demo(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "the text of a").unwrap();
    import(&server, "server-filesystem", &[folder.path().to_str().unwrap()], json!({})).await;
    let inside = call(&server, "x_read_text_file", json!({ "path": folder.path().join("a.txt") })).await;
    assert!(inside["output"].to_string().contains("the text of a"), "{inside}");
    let outside = call(&server, "x_read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert_eq!(outside["error"]["code"], "PROVIDER_ERROR", "{outside}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_stdio_server_is_restarted_and_keeps_its_data() {
    let server = Server::start_without_demo(Vec::new());
    let file = server.folder.path().join("memory.json");
    let tools = import(&server, "server-memory", &[], json!({ "MEMORY_FILE_PATH": file })).await;
    assert!(tools.contains(&"x_create_entities".to_owned()), "{tools:?}");
    let ada = json!({ "entities": [{ "name": "Ada", "entityType": "person", "observations": ["counts"] }] });
    assert_eq!(call(&server, "x_create_entities", ada).await["error"], Value::Null);
    let pid = child_of(&server, "server-memory");
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    // Calls may fail until Toolwright has restarted the reference server, which then reads its data from the file.
    let graph = wait_until("the restart of the server", async || {
        let graph = call(&server, "x_read_graph", json!({})).await;
        graph["error"].is_null().then_some(graph)
    })
    .await;
    assert!(graph["output"].to_string().contains("Ada"), "{graph}");
    let again = child_of(&server, "server-memory");
    assert_ne!(pid, again);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn stdio_server_exits_when_toolwright_is_terminated() {
    let server = Server::start_without_demo(Vec::new());
    import(&server, "server-memory", &[], json!({})).await;
    let pid = child_of(&server, "server-memory");
    assert!(Command::new("kill").args(["-TERM", &server.pid().to_string()]).status().unwrap().success());
    wait_until("the exit of the child process", async || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stdio_server_runs_as_the_configured_user() {
    if !nix::unistd::geteuid().is_root() {
        // Only root can start a program as another user, so there is nothing to test.
        return;
    }
    let user = ("TOOLWRIGHT_MCP__COMMAND_USER", "65534:65534".to_owned());
    let server = Server::start_without_demo(vec![user]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.path().join("user");
    let script = format!("id -u > {0}.new; echo \"$HOME\" >> {0}.new; mv {0}.new {0}", file.display());
    let provider = json!({ "refName": "id", "providerType": "MCP", "command": "/bin/sh", "args": ["-c", script] });
    let (status, view) = api(&server, Method::POST, "tool-providers", Some(provider)).await;
    assert_eq!(status, 201, "{view}");
    // The program does not speak MCP, so the test of the provider fails after the program has run.
    let (_, test) = api(&server, Method::POST, "tool-providers/id/test", Some(json!({}))).await;
    assert_eq!(test["ok"], false, "{test}");
    let text = wait_until("the output of the program", async || std::fs::read_to_string(&file).ok()).await;
    assert_eq!(text, "65534\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn stdio_import_is_forbidden_when_stdio_is_disabled() {
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_MCP__STDIO", "off".to_owned())]);
    let body = json!({ "command": "cat", "args": [], "transport": "stdio" });
    let (status, problem) = api(&server, Method::POST, "tools/import/mcp", Some(body)).await;
    assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("mcp.stdio"), "{problem}");
}

/// A program that is not an MCP server. It writes its own secrets and everything that it can read about its parent
/// process to standard error.
const SPY: &str = r#"
tr '\0' '\n' < /proc/$PPID/environ >&2
echo "command line: $(tr '\0' ' ' < /proc/$PPID/cmdline)" >&2
echo "own environment: $(env)" >&2
echo "variable: $TOKEN, ${#TOKEN} characters" >&2
echo "argument: $1, ${#1} characters" >&2
"#;

#[tokio::test(flavor = "multi_thread")]
async fn stdio_server_cannot_read_the_secrets_of_its_parent_and_its_own_secrets_are_not_logged() {
    let env = vec![
        ("RUST_LOG", "info".to_owned()),
        ("ANTHROPIC_API_KEY", "the-key-of-a-model".to_owned()),
        ("TOOLWRIGHT_RESTATE__ENDPOINT", "http://someone:the-password-of-a-url@127.0.0.1:1".to_owned()),
    ];
    let server = Server::start_without_demo(env);
    for name in ["token", "argument"] {
        let secret = json!({ "name": name, "value": format!("value of the {name}"), "scope": "realm" });
        let (status, problem) = api(&server, Method::POST, "secrets", Some(secret)).await;
        assert!(status < 300, "{problem}");
    }
    let argument = json!({ "prefix": "--token=", "secretRef": "argument" });
    let provider = json!({ "refName": "spy", "providerType": "MCP", "command": "sh", "args": ["-c", SPY, "spy", argument],
        "envSecretRefs": { "TOKEN": "token" } });
    let (status, stored) = api(&server, Method::POST, "tool-providers", Some(provider)).await;
    assert_eq!((status, &stored["args"][3]), (201, &argument), "{stored}");
    let (status, problem) = api(&server, Method::POST, "tools/import/mcp", Some(json!({ "providerRef": "spy" }))).await;
    assert!(status >= 400, "{problem}");
    let log =
        wait_until("the output of the program", async || Some(server.log()).filter(|log| log.contains("argument: ")))
            .await;
    assert!(log.contains("variable: [redacted], 18 characters"), "{log}");
    assert!(log.contains("argument: --token=[redacted], 29 characters"), "{log}");
    assert!(log.contains("command line: ") && log.contains("PATH="), "the program can read the files: {log}");
    for secret in [ADMIN_KEY, "the-key-of-a-model", "the-password-of-a-url", "value of the"] {
        assert!(!log.contains(secret), "`{secret}` is in the log: {log}");
    }
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", server.pid())).unwrap();
    assert!(!environment.contains(ADMIN_KEY) && environment.contains("PATH="), "{environment}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_in_an_argument_of_an_mcp_command_is_rejected() {
    let server = Server::start_without_demo(Vec::new());
    let provider = json!({ "refName": "p", "providerType": "MCP", "command": "npx", "args": ["-y", "server", "--api-key", "abc"] });
    let (status, problem) = api(&server, Method::POST, "tool-providers", Some(provider)).await;
    assert_eq!((status, &problem["errors"][0]["path"]), (422, &json!("/args/3")), "{problem}");
}

/// Returns the process id of the server's child process that runs `package`.
fn child_of(server: &Server, package: &str) -> u32 {
    let parent = server.pid().to_string();
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|ppid| ppid.trim() == parent))
            && line.contains(package)
    };
    processes.into_iter().find(is_child).unwrap_or_else(|| panic!("no process runs {package}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_running_mcp_commands_of_one_principal_is_limited() {
    let peer = Server::start_without_demo(Vec::new());
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_MCP__MAX_PROCESSES_PER_PRINCIPAL", "1".to_owned())]);
    let secret = json!({ "name": "peer-key", "scope": "realm", "value": ADMIN_KEY });
    api(&server, Method::POST, "secrets", Some(secret)).await;
    // The command `toolwright mcp` is an MCP server over stdio.
    let body = |prefix: &str, realm: &str| {
        let args = json!(["--url", peer.url, "--api-key", { "secretRef": "peer-key" }, "--realm", realm, "mcp"]);
        json!({ "command": BINARY, "args": args, "prefix": prefix })
    };
    let (status, view) = api(&server, Method::POST, "tools/import/mcp", Some(body("a_", "default"))).await;
    assert_eq!(status, 200, "{view}");
    let (status, problem) = api(&server, Method::POST, "tools/import/mcp", Some(body("b_", "other"))).await;
    assert_eq!(status, 502, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("RATE_LIMIT") && detail.contains("mcp.max_processes_per_principal"), "{detail}");
    // The command that already runs can still be called.
    assert_eq!(call(&server, "a_calculator", json!({ "expression": "6*7" })).await["error"], json!(null));
}
