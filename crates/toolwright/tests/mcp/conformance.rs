//! Runs the MCP conformance suite against Toolwright's MCP server and MCP client, with all scenarios of a protocol
//! revision.

use crate::peers::{Peers, SuiteReport};
use crate::support::{BINARY, Server};

/// Scenarios that Toolwright's server is expected to fail, with the reasons.
const SERVER_EXCEPTIONS: &str = include_str!("server-exceptions.txt");

#[test]
fn server_conforms_to_mcp_revision_2025_11_25() {
    assert_server_conforms("2025-11-25", 33);
}

#[test]
fn server_conforms_to_mcp_revision_2026_07_28() {
    assert_server_conforms("2026-07-28", 50);
}

fn assert_server_conforms(revision: &str, scenarios: usize) {
    let server = Server::start_with_flags(&["--mcp-fixtures"]);
    let output = tempfile::tempdir().unwrap();
    let url = format!("{}/mcp", server.url);
    let report = Peers::install().run_suite(&["server", "--url", &url, "--requirements", revision], output.path());
    report.check(scenarios, &SuiteReport::parse_exceptions(SERVER_EXCEPTIONS, revision));
}

/// Scenarios that Toolwright's client is expected to fail, with the reasons.
const CLIENT_EXCEPTIONS: &str = include_str!("client-exceptions.txt");

#[test]
fn client_conforms_to_mcp_revision_2025_11_25() {
    assert_client_conforms("2025-11-25", 20);
}

#[test]
fn client_conforms_to_mcp_revision_2026_07_28() {
    assert_client_conforms("2026-07-28", 34);
}

fn assert_client_conforms(revision: &str, scenarios: usize) {
    let output = tempfile::tempdir().unwrap();
    let command = format!("{BINARY} mcp probe --authorize auto --call-all");
    let report =
        Peers::install().run_suite(&["client", "--command", &command, "--requirements", revision], output.path());
    report.check(scenarios, &SuiteReport::parse_exceptions(CLIENT_EXCEPTIONS, revision));
}
