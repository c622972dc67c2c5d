//! Tests `toolwright mcp login`, from the printed login URL to a successful tool call. A small HTTP client replaces the
//! browser.

use std::io::{BufRead, BufReader};
use std::process::Child;

use reqwest::Method;
use serde_json::json;
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::oauth_proxy::{Handle, OAuthProxy};
use toolwright_tools::http::{EgressPolicy, HttpClient};

use crate::support::runs::{api, define};
use crate::support::{ADMIN_KEY, CommandOutput, Server};

const LOGIN: [&str; 4] = ["mcp", "login", "gate", "--no-browser"];

/// Starts an MCP server, an OAuth proxy in front of it, and a Toolwright server whose provider `gate` uses the proxy.
/// Returns the Toolwright server, the proxy and the MCP server.
async fn start_with_oauth_provider() -> (Server, Handle, Server) {
    let mcp_server = Server::start_without_demo(Vec::new());
    let echo = json!({ "refName": "shout", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    define(&mcp_server, "tools", echo).await;
    let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let gate = OAuthProxy::start(LOOPBACK, http, &format!("{}/mcp", mcp_server.url), ADMIN_KEY).await.unwrap();
    let server = Server::start_without_demo(Vec::new());
    let provider = json!({
        "refName": "gate", "providerType": "MCP", "baseUrl": gate.url("/mcp"), "egressAllow": ["127.0.0.0/8"],
        "auth": { "authType": "oauth2", "secretRef": "gate-login" },
    });
    define(&server, "tool-providers", provider).await;
    (server, gate, mcp_server)
}

/// Returns the login URL that the command prints on standard error.
fn login_url(command: &mut Child) -> String {
    let mut lines = BufReader::new(command.stderr.as_mut().unwrap()).lines();
    lines.find_map(|line| line.unwrap().trim().strip_prefix("http").map(|rest| format!("http{rest}"))).unwrap()
}

/// Opens a URL and follows one redirect. Returns the status and the text of the last page.
async fn browse(url: &str) -> (u16, String) {
    let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let mut response = http.get(url).send().await.unwrap();
    if let Some(location) = response.headers().get("location") {
        response = http.get(location.to_str().unwrap()).send().await.unwrap();
    }
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_login_enables_tool_calls_and_survives_server_restarts() {
    let (mut server, gate, _mcp_server) = start_with_oauth_provider().await;
    gate.set_token_lifetime(0);
    let mut command = server.spawn(&LOGIN);
    let url = login_url(&mut command);
    // An attacker on the same machine calls the redirect URI first. The attacker does not know the `state` value of the
    // login URL.
    let (_, redirect) = url.split_once("redirect_uri=").unwrap();
    let redirect = redirect.split('&').next().unwrap().replace("%3A", ":").replace("%2F", "/");
    let (status, shown) = browse(&format!("{redirect}?code=code-1&state=guessed")).await;
    assert_eq!(status, 400, "{shown}");
    let (status, shown) = browse(&url).await;
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("Logged in"), "{shown}");
    let output = CommandOutput::wait(&LOGIN, command).expect_exit(0);
    assert_eq!(output.out, "✓ logged in to gate  secret gate-login  scope user  renewed automatically\n");

    let (status, view) = api(&server, Method::POST, "tools/import/mcp", Some(json!({ "providerRef": "gate" }))).await;
    assert_eq!(status, 200, "{view}");
    for renewals in 2..5 {
        let (_, envelope) =
            api(&server, Method::POST, "tools/shout/execute", Some(json!({ "input": { "a": 1 } }))).await;
        assert_eq!(envelope["output"], json!({ "a": 1 }), "{envelope}");
        assert_eq!((gate.renewals(), gate.refresh_token_reuses()), (renewals, 0));
        server.kill_and_restart();
    }
    assert!(!server.log().contains("gate-access") && !server.log().contains("gate-refresh"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_consent_stores_no_login() {
    let (server, gate, _mcp_server) = start_with_oauth_provider().await;
    gate.deny_consent();
    let mut command = server.spawn(&LOGIN);
    let (status, shown) = browse(&login_url(&mut command)).await;
    assert_eq!(status, 400, "{shown}");
    assert!(shown.contains("access_denied (not today)"), "{shown}");
    let output = CommandOutput::wait(&LOGIN, command).expect_exit(4);
    assert!(output.err.contains("error[not-logged-in]: not logged in to `gate`"), "{}", output.err);
    let (_, secrets) = api(&server, Method::GET, "secrets", None).await;
    assert_eq!(secrets["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_login_without_oauth_or_without_permission_is_rejected() {
    let (server, _gate, mcp_server) = start_with_oauth_provider().await;
    let token = json!({ "refName": "keyed", "providerType": "MCP", "baseUrl": format!("{}/mcp", mcp_server.url),
        "auth": { "authType": "bearer", "secretRef": "s" } });
    define(&server, "tool-providers", token).await;
    let output = server.run(&["mcp", "login", "keyed", "--no-browser"]).expect_exit(2);
    assert!(output.err.contains("`authType: oauth2`"), "{}", output.err);
    server.run(&["mcp", "login", "nobody", "--no-browser"]).expect_exit(3);
    // The URL `/healthz` is not an MCP server and has no OAuth metadata.
    let silent = json!({ "refName": "silent", "providerType": "MCP", "baseUrl": format!("{}/healthz", mcp_server.url),
        "auth": { "authType": "oauth2", "secretRef": "s" } });
    define(&server, "tool-providers", silent).await;
    let output = server.run(&["mcp", "login", "silent", "--no-browser"]).expect_exit(4);
    assert!(output.err.contains("not logged in to `silent`"), "{}", output.err);
    // A principal who may not store a login for the whole realm is rejected before the command prints a login URL.
    let (_, issued) = api(&server, Method::POST, "keys", Some(json!({ "principal": "someone" }))).await;
    let realm_login = [&LOGIN[..], &["--scope", "realm"]].concat();
    let rejected = server.spawn_with_key(issued["key"].as_str().unwrap(), &realm_login);
    let output = CommandOutput::wait(&realm_login, rejected).expect_exit(4);
    assert!(output.err.contains("error[forbidden]") && !output.err.contains("To log in"), "{}", output.err);
}
