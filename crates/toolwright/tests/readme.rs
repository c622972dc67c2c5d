//! Executes the tour of the README against a server with the demo. The tour consists of the shell blocks that are
//! marked with `<!-- tour -->`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::path::Path;
use std::process::Command;

/// Returns the shell blocks that follow `<!-- tour -->`.
fn tour() -> String {
    let text = include_str!("../../../README.md");
    let blocks = text.split("<!-- tour -->\n```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn readme_tour_commands_succeed() {
    let server = support::Server::start();
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_toolwright")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &tour()])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("TOOLWRIGHT_URL", &server.url)
        .env("TOOLWRIGHT_API_KEY", support::ADMIN_KEY)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for expected in [
        "hubspot/batch-update-deals",
        "Acme Corp - Platform License",
        "\"secret_scope\":\"realm\"",
        "created",
        "Corner Bookshop",
        "There is no such customer. Ask for the id; it looks like cus-1.",
        "VALIDATION_ERROR",
        "exit code 1",
        "\"input_schema\"",
        "Updated 5 deals of Acme Corp to Negotiation.",
        "https://kitebridge.example/pricing",
    ] {
        assert!(
            stdout.contains(expected) || stderr.contains(expected),
            "`{expected}` is missing in:\n{stdout}\n{stderr}"
        );
    }
}
