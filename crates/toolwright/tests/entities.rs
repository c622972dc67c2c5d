//! Types and records on the command line, and the demo's own: an agent that answers from records through generated tools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::Server;

const TYPE: &str = r#"
name: Thing
description: Things that are there.
jsonSchema:
  type: object
  properties: { colour: { type: string }, size: { type: integer } }
  additionalProperties: false
searchableFields: [colour]
"#;

#[test]
fn the_order_desk_answers_through_generated_tools_only() {
    let server = Server::start();
    let asked = ["agents", "run", "order-desk", "How many open orders above 500 for Acme?", "--json"];
    let run = server.run(&asked).exits(0).json();
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
        let tool = server.run(&["tools", "get", name, "--json"]).exits(0).json();
        assert_eq!(tool["source"], "auto-generated");
    }
    assert_eq!(calls[0]["output"], json!({ "count": 3 }));
    // The demo has no tool that deletes an order, because the type says so.
    server.run(&["tools", "get", "delete_order"]).exits(3);
}

#[test]
fn a_second_start_of_the_demo_changes_nothing() {
    let mut server = Server::start();
    let shown = |server: &Server| {
        let lists = [
            vec!["types", "list"],
            vec!["tools", "list", "--all"],
            vec!["agents", "list"],
            vec!["records", "find", "Order"],
            vec!["records", "find", "Customer"],
        ];
        lists.map(|list| server.run(&[&list[..], &["--json"]].concat()).exits(0).json())
    };
    server.run(&["records", "delete", "Order", "ord-2001"]).exits(0);
    server.run(&["records", "save", "Customer", r#"{"id": "cus-new", "name": "New"}"#]).exits(0);
    let before = shown(&server);
    assert_eq!(before[3]["rowCount"], 19);
    server.crash();
    assert_eq!(shown(&server), before);
}

#[test]
fn types_and_records_are_worked_on_from_the_command_line() {
    let server = Server::start();
    let apply = ["types", "apply", "-f", "-"];
    assert_eq!(server.run_with(&apply, TYPE).exits(0).out, "✓ created    type Thing\n");
    assert_eq!(server.run_with(&apply, TYPE).exits(0).out, "= unchanged  type Thing\n");
    let listed = server.run(&["types", "list"]).exits(0).out;
    assert!(
        listed.lines().any(|line| line.starts_with("Thing") && line.ends_with("Things that are there.")),
        "{listed}"
    );
    let shown = server.run(&["types", "get", "Thing"]).exits(0).out;
    assert!(shown.contains("searchable") && shown.contains("\"colour\""), "{shown}");

    let saved = server.run(&["records", "save", "Thing", r#"{"id": "t1", "colour": "red", "size": 3}"#]).exits(0);
    assert_eq!(saved.out, "✓ saved      t1 (version 1)\n");
    server.run(&["records", "save", "Thing", r#"{"colour": 7}"#]).exits(6);
    server.run(&["records", "save", "Thing", "{"]).exits(2);
    server.run(&["records", "save", "Nothing", "{}"]).exits(3);
    let stale = server.run(&["records", "save", "Thing", r#"{"id": "t1", "version": 4}"#]).exits(5);
    assert!(stale.err.contains("version-conflict"), "{}", stale.err);

    let table = "id,colour,size\nt2,blue,5\nt3,green,much\nt4,red,1\n";
    let imported = server.run_with(&["records", "import", "Thing", "-"], table).exits(6);
    assert_eq!(imported.out, "2 created, 0 updated, 1 failed\n");
    assert!(imported.err.contains("line 3: `size`: `much` is no number"), "{}", imported.err);
    let found = server.run(&["records", "find", "Thing", "colour:red", "--sort", "-size"]).exits(0).out;
    assert_eq!(
        found,
        "ID  VERSION  RECORD\nt1  1        {\"colour\":\"red\",\"size\":3}\nt4  1        {\"colour\":\"red\",\"size\":1}\n"
    );
    let wrong = server.run(&["records", "find", "Thing", "colour:[red]"]).exits(6);
    assert!(wrong.err.contains("invalid-query"), "{}", wrong.err);
    assert_eq!(server.run(&["records", "count", "Thing"]).exits(0).out, "3\n");
    let exported = server.run(&["records", "export", "Thing", "size:>#1"]).exits(0).out;
    assert_eq!(exported, "id,colour,size\nt1,red,3\nt2,blue,5\n");

    server.run(&["types", "delete", "Thing"]).exits(5);
    server.run(&["records", "delete", "Thing"]).exits(2);
    assert_eq!(server.run(&["records", "delete", "Thing", "t1"]).exits(0).out, "✓ deleted    1 record(s)\n");
    server.run(&["records", "delete", "Thing", "t1"]).exits(3);
    assert_eq!(server.run(&["records", "delete", "Thing", "--all"]).exits(0).out, "✓ deleted    2 record(s)\n");
    assert_eq!(server.run(&["types", "delete", "Thing"]).exits(0).out, "✓ deleted    Thing\n");
}

/// Answers one request with these bytes, and is gone.
fn dying_server(answer: &'static str) -> String {
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
        stream.write_all(answer.as_bytes()).unwrap();
    });
    url
}

#[test]
fn an_import_that_breaks_off_says_what_was_written() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
    const LINE: &str = "{\"created\": 498, \"updated\": 1, \"failed\": [], \"failures\": 1, \"done\": false}\n";
    let cut = format!("{HEAD}{:x}\r\n{LINE}\r\n", LINE.len());
    let ended = format!("{cut}0\r\n\r\n");
    for answer in [cut, ended] {
        let url = dying_server(answer.leak());
        let args = ["--url", &url, "records", "import", "Thing", "-"];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolwright"));
        command.args(args).env("TOOLWRIGHT_API_KEY", "some-key").stdin(std::process::Stdio::piped());
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"id\na\n").unwrap();
        let err = support::Ended::of(&args, child).exits(7).err;
        assert!(err.contains("error[broken-off]"), "{err}");
        assert!(err.contains("498 created, 1 updated, 1 failed before that"), "{err}");
        assert!(!err.contains("not as a toolwright server") && !err.contains("TOOLWRIGHT_URL"), "{err}");
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
fn an_existing_database_becomes_tools_in_one_command() {
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
    let server = Server::start_bare_with(vec![("TOOLWRIGHT_SQLITE_FOLDER", folder)]);
    server.run_with(&["secrets", "set", "shop-db"], "sqlite:shop.db").exits(0);
    let import = ["types", "import", "database", "--secret", "shop-db"];
    let shown = server.run(&import).exits(0).out;
    assert!(shown.contains("+ imported   type Order\n"), "{shown}");
    assert!(shown.contains("- skipped    order_lines: its primary key has 2 columns"), "{shown}");
    assert!(
        shown.ends_with("2 imported, 0 updated, 0 unchanged, 1 skipped (nothing was written; --apply writes)\n"),
        "{shown}"
    );
    server.run(&["types", "get", "Order"]).exits(3);
    server.run(&[&import[..], &["--table", "orders", "--table", "cust*", "--apply"]].concat()).exits(0);
    let of = server.run(&["types", "get", "Order"]).exits(0).out;
    assert!(of.contains("sql orders, by secret shop-db"), "{of}");
    let count = ["tools", "run", "count_orders", "-p", "query=status:open && total:>#500 && hasEdge(customer, 1)"];
    assert!(server.run(&count).exits(0).out.contains("\"count\": 2"));
    let found = server.run(&["records", "find", "Order", "status:paid"]).exits(0).out;
    assert!(found.contains(r#"{"customer_id":"1","status":"paid","total":900.0}"#), "{found}");
    server.run(&["records", "save", "Order", r#"{"status": "open"}"#]).exits(4);
    let missing = server.run(&["types", "import", "database", "--secret", "none"]).exits(6);
    assert!(missing.err.contains("toolwright secrets set none"), "{}", missing.err);

    let document = r#"{"openapi": "3.1.0", "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}, "Kind": {"type": "string"}}}}"#;
    let imported = server.run_with(&["types", "import", "openapi", "-", "--apply"], document).exits(0).out;
    assert_eq!(
        imported,
        "+ imported   type Pet\n- skipped    Kind: it is of type string, and records are objects\n1 imported, 0 updated, 0 unchanged, 1 skipped\n"
    );
    assert!(server.run(&["records", "save", "Pet", r#"{"name": "Rex"}"#]).exits(0).out.starts_with("✓ saved"));
}
