//! Tests entity types and records on the command line. Also tests the demo's agent `order-desk`, which reads records
//! with generated tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use serde_json::{Value, json};
use support::Server;

const TYPE: &str = r#"
name: Thing
description: Some things.
jsonSchema:
  type: object
  properties: { colour: { type: string }, size: { type: integer } }
  additionalProperties: false
searchableFields: [colour]
"#;

#[test]
fn order_desk_agent_answers_with_generated_tools_only() {
    let server = Server::start();
    let command = ["agents", "run", "order-desk", "How many open orders above 500 for Acme?", "--json"];
    let run = server.run(&command).expect_exit(0).json();
    assert_eq!(run["responseText"], "3 orders; the largest is ord-2002 ($1180).", "{run}");
    let outputs = &run["outputs"];
    let calls: Vec<&Value> = outputs["tool_order"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| &outputs["tools_by_id"][id.as_str().unwrap()])
        .collect();
    assert_eq!(calls.len(), 2);
    for (call, name) in calls.iter().zip(["count_orders", "search_orders"]) {
        assert_eq!((&call["name"], &call["error"]), (&json!(name), &Value::Null), "{call}");
        let tool = server.run(&["tools", "get", name, "--json"]).expect_exit(0).json();
        assert_eq!(tool["source"], "auto-generated");
    }
    assert_eq!(calls[0]["output"], json!({ "count": 3 }));
    // The demo's entity type `Order` disables its generated delete tool.
    server.run(&["tools", "get", "delete_order"]).expect_exit(3);
}

#[test]
fn demo_restart_keeps_types_records_tools_and_agents() {
    let mut server = Server::start();
    let list_all = |server: &Server| {
        let lists = [
            vec!["types", "list"],
            vec!["tools", "list", "--all"],
            vec!["agents", "list"],
            vec!["records", "find", "Order"],
            vec!["records", "find", "Customer"],
        ];
        lists.map(|list| server.run(&[&list[..], &["--json"]].concat()).expect_exit(0).json())
    };
    server.run(&["records", "delete", "Order", "ord-2001"]).expect_exit(0);
    server.run(&["records", "save", "Customer", r#"{"id": "cus-new", "name": "New"}"#]).expect_exit(0);
    let before = list_all(&server);
    assert_eq!(before[3]["rowCount"], 19);
    server.kill_and_restart();
    assert_eq!(list_all(&server), before);
}

#[test]
fn types_and_records_can_be_managed_from_the_command_line() {
    let server = Server::start();
    let apply = ["types", "apply", "-f", "-"];
    assert_eq!(server.run_with_stdin(&apply, TYPE).expect_exit(0).out, "✓ created    type Thing\n");
    assert_eq!(server.run_with_stdin(&apply, TYPE).expect_exit(0).out, "= unchanged  type Thing\n");
    let listed = server.run(&["types", "list"]).expect_exit(0).out;
    assert!(listed.lines().any(|line| line.starts_with("Thing") && line.ends_with("Some things.")), "{listed}");
    let shown = server.run(&["types", "get", "Thing"]).expect_exit(0).out;
    assert!(shown.contains("searchable") && shown.contains("\"colour\""), "{shown}");

    let saved = server.run(&["records", "save", "Thing", r#"{"id": "t1", "colour": "red", "size": 3}"#]).expect_exit(0);
    assert_eq!(saved.out, "✓ saved      t1 (version 1)\n");
    server.run(&["records", "save", "Thing", r#"{"colour": 7}"#]).expect_exit(6);
    server.run(&["records", "save", "Thing", "{"]).expect_exit(2);
    server.run(&["records", "save", "Nothing", "{}"]).expect_exit(3);
    let stale = server.run(&["records", "save", "Thing", r#"{"id": "t1", "version": 4}"#]).expect_exit(5);
    assert!(stale.err.contains("version-conflict"), "{}", stale.err);

    let table = "id,colour,size\nt2,blue,5\nt3,green,much\nt4,red,1\n";
    let imported = server.run_with_stdin(&["records", "import", "Thing", "-"], table).expect_exit(6);
    assert_eq!(imported.out, "2 created, 0 updated, 1 failed\n");
    assert!(imported.err.contains("line 3: `size` must be a number, got `much`"), "{}", imported.err);
    let found = server.run(&["records", "find", "Thing", "colour:red", "--sort", "-size"]).expect_exit(0).out;
    assert_eq!(
        found,
        "ID  VERSION  RECORD\nt1  1        {\"colour\":\"red\",\"size\":3}\nt4  1        {\"colour\":\"red\",\"size\":1}\n"
    );
    let wrong = server.run(&["records", "find", "Thing", "colour:[red]"]).expect_exit(6);
    assert!(wrong.err.contains("invalid-query"), "{}", wrong.err);
    assert_eq!(server.run(&["records", "count", "Thing"]).expect_exit(0).out, "3\n");
    let exported = server.run(&["records", "export", "Thing", "size:>#1"]).expect_exit(0).out;
    assert_eq!(exported, "id,colour,size\nt1,red,3\nt2,blue,5\n");

    server.run(&["types", "delete", "Thing"]).expect_exit(5);
    server.run(&["records", "delete", "Thing"]).expect_exit(2);
    assert_eq!(server.run(&["records", "delete", "Thing", "t1"]).expect_exit(0).out, "✓ deleted    1 record\n");
    server.run(&["records", "delete", "Thing", "t1"]).expect_exit(3);
    assert_eq!(server.run(&["records", "delete", "Thing", "--all"]).expect_exit(0).out, "✓ deleted    2 records\n");
    assert_eq!(server.run(&["types", "delete", "Thing"]).expect_exit(0).out, "✓ deleted    Thing\n");
}

/// Starts an HTTP server that sends `response` to the first request and closes the connection. Returns its URL.
fn start_one_shot_server(response: &'static str) -> String {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = BufReader::new(stream.try_clone().unwrap());
        let mut length = 0;
        loop {
            let mut line = String::new();
            request.read_line(&mut line).unwrap();
            match line.trim_end().to_ascii_lowercase().strip_prefix("content-length: ") {
                Some(bytes) => length = bytes.parse().unwrap(),
                None if line == "\r\n" => break,
                None => {}
            }
        }
        request.read_exact(&mut vec![0; length]).unwrap();
        stream.write_all(response.as_bytes()).unwrap();
    });
    url
}

#[test]
fn interrupted_csv_import_reports_the_records_written_so_far() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
    const LINE: &str = "{\"created\": 498, \"updated\": 1, \"failed\": [], \"failures\": 1, \"done\": false}\n";
    let truncated = format!("{HEAD}{:x}\r\n{LINE}\r\n", LINE.len());
    let without_summary = format!("{truncated}0\r\n\r\n");
    for response in [truncated, without_summary] {
        let url = start_one_shot_server(response.leak());
        let args = ["--url", &url, "records", "import", "Thing", "-"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolwright"));
        command.args(args).env("TOOLWRIGHT_API_KEY", "some-key").stdin(std::process::Stdio::piped());
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"id\na\n").unwrap();
        let err = support::CommandOutput::wait(&args, child).expect_exit(7).err;
        assert!(err.contains("error[broken-off]"), "{err}");
        assert!(err.contains("498 created, 1 updated, 1 failed so far"), "{err}");
        assert!(!err.contains("unexpected response") && !err.contains("TOOLWRIGHT_URL"), "{err}");
    }
}

const ORDERS: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), status TEXT NOT NULL, total REAL);
CREATE TABLE order_lines (order_id INTEGER, line INTEGER, sku TEXT, PRIMARY KEY (order_id, line));
CREATE INDEX orders_by_status ON orders (status);
INSERT INTO customers VALUES (1, 'Acme'), (2, 'Bolt');
INSERT INTO orders VALUES (1, 1, 'open', 720.5), (2, 1, 'open', 1180), (3, 1, 'paid', 900), (4, 2, 'open', 650);
";

#[test]
fn existing_database_is_imported_as_types_and_tools() {
    let files = tempfile::tempdir().unwrap();
    let shop = files.path().join("shop.db");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        use sqlx::{Connection, Executor};
        let mut connection =
            sqlx::SqliteConnection::connect(&format!("sqlite:{}?mode=rwc", shop.display())).await.unwrap();
        connection.execute(ORDERS).await.unwrap();
        connection.close().await.unwrap();
    });
    let folder = files.path().to_str().unwrap().to_owned();
    let server = Server::start_without_demo(vec![("TOOLWRIGHT_SQLITE_FOLDER", folder)]);
    server.run_with_stdin(&["secrets", "set", "shop-db"], "sqlite:shop.db").expect_exit(0);
    let import = ["types", "import", "database", "--secret", "shop-db"];
    let shown = server.run(&import).expect_exit(0).out;
    assert!(shown.contains("+ imported   type Order\n"), "{shown}");
    assert!(shown.contains("- skipped    order_lines: its primary key has 2 columns"), "{shown}");
    assert!(
        shown.ends_with("2 imported, 0 updated, 0 unchanged, 1 skipped (nothing was written; use --apply to write)\n"),
        "{shown}"
    );
    server.run(&["types", "get", "Order"]).expect_exit(3);
    server.run(&[&import[..], &["--table", "orders", "--table", "cust*", "--apply"]].concat()).expect_exit(0);
    let order_type = server.run(&["types", "get", "Order"]).expect_exit(0).out;
    assert!(order_type.contains("sql orders, by secret shop-db"), "{order_type}");
    let count = ["tools", "run", "count_orders", "-p", "query=status:open && total:>#500 && hasEdge(customer, 1)"];
    assert!(server.run(&count).expect_exit(0).out.contains("\"count\": 2"));
    let found = server.run(&["records", "find", "Order", "status:paid"]).expect_exit(0).out;
    assert!(found.contains(r#"{"customer_id":"1","status":"paid","total":900.0}"#), "{found}");
    server.run(&["records", "save", "Order", r#"{"status": "open"}"#]).expect_exit(4);
    let missing = server.run(&["types", "import", "database", "--secret", "none"]).expect_exit(6);
    assert!(missing.err.contains("toolwright secrets set none"), "{}", missing.err);

    let document = r#"{"openapi": "3.1.0", "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}, "Kind": {"type": "string"}}}}"#;
    let imported = server.run_with_stdin(&["types", "import", "openapi", "-", "--apply"], document).expect_exit(0).out;
    assert_eq!(
        imported,
        "+ imported   type Pet\n- skipped    Kind: the schema must describe objects, got type `string`\n1 imported, 0 updated, 0 unchanged, 1 skipped\n"
    );
    assert!(server.run(&["records", "save", "Pet", r#"{"name": "Rex"}"#]).expect_exit(0).out.starts_with("✓ saved"));
}
