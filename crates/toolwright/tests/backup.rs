//! Tests `toolwright backup` and `toolwright restore` with a running server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqwest::Method;
use serde_json::json;
use support::Server;
use support::runs::{api, define};

/// Starts a server with definitions, a secret and a blob. Returns the server and the path of the blob.
async fn server_with_data() -> (Server, String) {
    let server = Server::start_without_demo(Vec::new());
    let echo =
        json!({ "refName": "big", "toolType": "FUNCTION", "maxOutputBytes": 100, "invocation": { "path": "echo" } });
    define(&server, "tools", echo).await;
    define(&server, "step-registrations", json!({ "name": "find", "toolRef": "big" })).await;
    define(&server, "condition-bindings", json!({ "name": "large", "condition": "${input.large}" })).await;
    let steps = json!([{ "name": "a", "handlerRef": "find", "conditionRef": "large" }]);
    define(&server, "workflows", json!({ "refName": "flow", "steps": steps })).await;
    define(&server, "secrets", json!({ "name": "token", "scope": "realm", "value": "a-value-to-keep" })).await;
    let input = json!({ "input": { "text": "0123456789".repeat(100) } });
    let (_, envelope) = api(&server, Method::POST, "tools/big/execute", Some(input)).await;
    let blob = envelope["attachments"][0]["url"].as_str().unwrap().strip_prefix("/api/v1/ai/").unwrap().to_owned();
    (server, blob)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn backup_of_a_running_server_restores_definitions_secrets_and_blobs() {
    let (mut server, blob) = server_with_data().await;
    let folder = server.folder.path().to_owned();
    let (data, backup) = (folder.join("data"), folder.join("backup"));
    let (data, backup_name) = (data.to_str().unwrap(), backup.to_str().unwrap());
    let written = server.run(&["backup", backup_name, "--data", data, "--with-seal-key"]).expect_exit(0);
    assert!(written.out.contains("the database and 1 blob"), "{}", written.out);
    assert_eq!((mode(&backup), mode(&backup.join("toolwright.db"))), (0o700, 0o600));

    server.kill();
    std::fs::remove_dir_all(data).unwrap();
    server.run(&["restore", backup_name, "--data", data]).expect_exit(0);
    server.restart();
    for definition in ["tools/big", "step-registrations/find", "condition-bindings/large", "workflows/flow"] {
        assert_eq!(api(&server, Method::GET, definition, None).await.0, 200, "{definition}");
    }
    assert_eq!(api(&server, Method::GET, "secrets", None).await.1["items"][0]["name"], "token");
    assert_eq!(api(&server, Method::GET, &blob, None).await.1["text"].as_str().unwrap().len(), 1000);
}

#[tokio::test]
async fn backup_without_the_seal_key_prints_a_notice_and_existing_folders_are_not_overwritten() {
    let (server, _) = server_with_data().await;
    let folder = server.folder.path().to_owned();
    let (data, backup) = (folder.join("data"), folder.join("backup"));
    let (data, backup_name) = (data.to_str().unwrap(), backup.to_str().unwrap());
    let written = server.run(&["backup", backup_name, "--data", data]).expect_exit(0);
    assert!(written.out.contains("the seal key is not in it"), "{}", written.out);
    assert!(!backup.join("seal.key").exists());
    for (arguments, message) in [
        (["backup", backup_name, "--data", data], "exists; name a folder that does not exist yet"),
        (["restore", backup_name, "--data", data], "exists; name a folder that does not exist yet"),
        (["backup", "/nonexistent/b", "--data", "/nonexistent/data"], "use pg_dump if the server uses Postgres"),
        (["restore", data, "--data", "/dev/null/x"], "create `/dev/null/x.unfinished`"),
        (["restore", "/nonexistent", "--data", "/nonexistent/x"], "is not a backup"),
    ] {
        let refused = server.run(&arguments).expect_exit(1);
        assert!(refused.err.contains(message), "{arguments:?}: {}", refused.err);
    }
}

#[tokio::test]
async fn damaged_backup_is_not_restored() {
    let (server, _) = server_with_data().await;
    let folder = server.folder.path().to_owned();
    let (data, backup, target) = (folder.join("data"), folder.join("backup"), folder.join("restored"));
    let (data, backup_name, target_name) = (data.to_str().unwrap(), backup.to_str().unwrap(), target.to_str().unwrap());
    server.run(&["backup", backup_name, "--data", data]).expect_exit(0);
    let database = backup.join("toolwright.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xff);
    std::fs::write(&database, bytes).unwrap();
    let refused = server.run(&["restore", backup_name, "--data", target_name]).expect_exit(1);
    assert!(refused.err.contains("toolwright.db"), "{}", refused.err);
    assert!(!target.exists());
}
