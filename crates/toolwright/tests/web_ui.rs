//! Tests that the server process serves the web UI and prints a link that logs in.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

/// A server that is killed at the end of the test.
struct Server {
    child: Child,
    link: String,
}

impl Server {
    fn start(data: &std::path::Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_toolwright"))
            .args(["serve", "--bind", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("TOOLWRIGHT_ADMIN_KEY", "0123456789012345")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Self { child, link: String::new() };
        // A thread reads the whole log, or the server would wait.
        let (sender, links) = mpsc::channel();
        let log = BufReader::new(server.child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map(Result::unwrap).filter(|line| line.contains("/login#token=")) {
                let _ = sender.send(line.trim().to_owned());
            }
        });
        let mut ready = String::new();
        BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("listening on "), "{ready}");
        server.link = links.recv_timeout(Duration::from_secs(10)).unwrap();
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn printed_link_opens_the_web_ui_without_a_key() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (url, token) = server.link.split_once("/login#token=").unwrap();
    let client = Client::builder().no_proxy().build().unwrap();

    let page = client.get(format!("{url}/login")).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self'"), "{policy}");
    assert!(page.text().await.unwrap().contains("<div id=\"root\">"));

    let login = client.post(format!("{url}/api/v1/ai/session")).header("X-Toolwright-UI", "1").header("Origin", url);
    let response = login.json(&json!({ "link": token })).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let who = client.get(format!("{url}/api/v1/ai/whoami")).header("Cookie", cookie).send().await.unwrap();
    assert_eq!(who.json::<Value>().await.unwrap()["principal"], "admin");
}

#[tokio::test]
async fn unknown_paths_of_the_api_do_not_return_the_page() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let (url, _) = server.link.split_once("/login#token=").unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let response = client.get(format!("{url}/api/v1/ai/nothing")).header("Accept", "text/html").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
}
