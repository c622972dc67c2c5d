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
