//! Every scenario that a revision requires, and those it runs beside them.

use crate::peers::{Peers, Verdicts};
use crate::support::{BINARY, Server};

/// What the server does not do, and why.
const OF_THE_SERVER: &str = include_str!("server-exceptions.txt");

#[test]
fn the_server_conforms_to_2025_11_25() {
    server_conforms("2025-11-25", 33);
}

#[test]
fn the_server_conforms_to_2026_07_28() {
    server_conforms("2026-07-28", 50);
}

fn server_conforms(revision: &str, scenarios: usize) {
    let server = Server::start_flagged(&["--mcp-fixtures"]);
    let output = tempfile::tempdir().unwrap();
    let url = format!("{}/mcp", server.url);
    let verdicts = Peers::install().suite(&["server", "--url", &url, "--requirements", revision], output.path());
    verdicts.check(scenarios, &Verdicts::excepted(OF_THE_SERVER, revision));
}

/// What the client does not do, and why.
const OF_THE_CLIENT: &str = include_str!("client-exceptions.txt");

#[test]
fn the_client_conforms_to_2025_11_25() {
    client_conforms("2025-11-25", 20);
}

#[test]
fn the_client_conforms_to_2026_07_28() {
    client_conforms("2026-07-28", 34);
}

fn client_conforms(revision: &str, scenarios: usize) {
    let output = tempfile::tempdir().unwrap();
    let command = format!("{BINARY} mcp probe --authorize auto");
    let verdicts =
        Peers::install().suite(&["client", "--command", &command, "--requirements", revision], output.path());
    verdicts.check(scenarios, &Verdicts::excepted(OF_THE_CLIENT, revision));
}
