//! `toolwright mcp login`, from the page that is shown to a tool that works, with a browser of few words.

use std::io::{BufRead, BufReader};
use std::process::Child;

use reqwest::Method;
use serde_json::json;
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::gatehouse::{Gatehouse, Handle};
use toolwright_tools::http::{Egress, HttpClient};

use crate::support::scene::{api, define};
use crate::support::{ADMIN_KEY, Ended, Server};

const LOGIN: [&str; 4] = ["mcp", "login", "gate", "--no-browser"];

/// A server with a provider that somebody logs in to, the gate of that, and what is behind it.
async fn gated() -> (Server, Handle, Server) {
    let behind = Server::start_bare_with(Vec::new());
    let echo = json!({ "refName": "shout", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    define(&behind, "tools", echo).await;
    let http = HttpClient::new(Egress::everything()).unguarded().unwrap();
    let gate = Gatehouse::start(LOOPBACK, http, &format!("{}/mcp", behind.url), ADMIN_KEY).await.unwrap();
    let server = Server::start_bare_with(Vec::new());
    let provider = json!({
        "refName": "gate", "providerType": "MCP", "baseUrl": gate.url("/mcp"), "egressAllow": ["127.0.0.0/8"],
        "auth": { "authType": "oauth2", "secretRef": "gate-login" },
    });
    define(&server, "tool-providers", provider).await;
    (server, gate, behind)
}

/// The page that a command shows.
fn page(command: &mut Child) -> String {
    let mut lines = BufReader::new(command.stderr.as_mut().unwrap()).lines();
    lines.find_map(|line| line.unwrap().trim().strip_prefix("http").map(|rest| format!("http{rest}"))).unwrap()
}

/// What a browser sees that opens a page and goes where it is sent.
async fn browse(url: &str) -> (u16, String) {
    let http = HttpClient::new(Egress::everything()).unguarded().unwrap();
    let mut answer = http.get(url).send().await.unwrap();
    if let Some(location) = answer.headers().get("location") {
        answer = http.get(location.to_str().unwrap()).send().await.unwrap();
    }
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_logs_in_can_use_the_tools_and_a_restart_changes_nothing() {
    let (mut server, gate, _behind) = gated().await;
    gate.tokens_live(0);
    let mut command = server.spawn(&LOGIN);
    let page = page(&mut command);
    // Somebody else on the machine knocks first, without a word that only the page knows.
    let (_, back) = page.split_once("redirect_uri=").unwrap();
    let back = back.split('&').next().unwrap().replace("%3A", ":").replace("%2F", "/");
    let (status, shown) = browse(&format!("{back}?code=code-1&state=guessed")).await;
    assert_eq!(status, 400, "{shown}");
    let (status, shown) = browse(&page).await;
    assert_eq!(status, 200, "{shown}");
    assert!(shown.contains("Logged in"), "{shown}");
    let ended = Ended::of(&LOGIN, command).exits(0);
    assert_eq!(ended.out, "✓ logged in to gate  secret gate-login  scope user  renews itself\n");

    let (status, view) = api(&server, Method::POST, "tools/import/mcp", Some(json!({ "providerRef": "gate" }))).await;
    assert_eq!(status, 200, "{view}");
    for renewals in 2..5 {
        let (_, envelope) =
            api(&server, Method::POST, "tools/shout/execute", Some(json!({ "input": { "a": 1 } }))).await;
        assert_eq!(envelope["output"], json!({ "a": 1 }), "{envelope}");
        assert_eq!((gate.renewals(), gate.reuses()), (renewals, 0));
        server.crash();
    }
    assert!(!server.log().contains("gate-access") && !server.log().contains("gate-refresh"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_no_is_not_logged_in() {
    let (server, gate, _behind) = gated().await;
    gate.say_no();
    let mut command = server.spawn(&LOGIN);
    let (status, shown) = browse(&page(&mut command)).await;
    assert_eq!(status, 400, "{shown}");
    assert!(shown.contains("access_denied (not today)"), "{shown}");
    let ended = Ended::of(&LOGIN, command).exits(4);
    assert!(ended.err.contains("error[not-logged-in]: not logged in to `gate`"), "{}", ended.err);
    let (_, secrets) = api(&server, Method::GET, "secrets", None).await;
    assert_eq!(secrets["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_logs_in_where_nobody_can() {
    let (server, _gate, behind) = gated().await;
    let token = json!({ "refName": "keyed", "providerType": "MCP", "baseUrl": format!("{}/mcp", behind.url),
        "auth": { "authType": "bearer", "secretRef": "s" } });
    define(&server, "tool-providers", token).await;
    let ended = server.run(&["mcp", "login", "keyed", "--no-browser"]).exits(2);
    assert!(ended.err.contains("`authType: oauth2`"), "{}", ended.err);
    server.run(&["mcp", "login", "nobody", "--no-browser"]).exits(3);
    // A server that says nothing about OAuth: ours wants a key.
    let silent = json!({ "refName": "silent", "providerType": "MCP", "baseUrl": format!("{}/healthz", behind.url),
        "auth": { "authType": "oauth2", "secretRef": "s" } });
    define(&server, "tool-providers", silent).await;
    let ended = server.run(&["mcp", "login", "silent", "--no-browser"]).exits(4);
    assert!(ended.err.contains("not logged in to `silent`"), "{}", ended.err);
    // Whoever may not keep a login for all is not sent to log in first.
    let (_, issued) = api(&server, Method::POST, "keys", Some(json!({ "principal": "someone" }))).await;
    let for_all = [&LOGIN[..], &["--scope", "realm"]].concat();
    let refused = server.spawn_as(issued["key"].as_str().unwrap(), &for_all);
    let ended = Ended::of(&for_all, refused).exits(4);
    assert!(ended.err.contains("error[forbidden]") && !ended.err.contains("To log in"), "{}", ended.err);
}
