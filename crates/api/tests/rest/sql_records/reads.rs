//! Tests the import of tables as entity types, and queries over these types.

use serde_json::{Value, json};

use super::{Shop, ShopDatabase, gateway, ids};
use crate::harness::envelopes;

on_both_shops!(
    database_tables_are_imported_as_read_only_types,
    queries_over_external_tables_have_the_same_results_as_over_stored_records,
    agent_uses_tools_of_an_imported_type_to_answer,
    record_rules_hide_rows_and_fields_of_external_tables,
    database_import_does_not_overwrite_edited_or_manual_types,
    type_with_a_missing_table_or_column_is_rejected,
    queries_fail_only_for_types_whose_database_is_unreachable,
    external_type_uses_only_the_realm_secret_for_its_database,
    database_import_of_more_than_1000_tables_is_rejected,
);

async fn database_tables_are_imported_as_read_only_types(shop: Shop) {
    let shown = shop.import(json!({})).await.expect(200);
    let names = |report: &Value| -> Vec<String> {
        report["imported"].as_array().unwrap().iter().map(|one| one["refName"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&shown), ["OddName", "Customer", "Order"]);
    assert_eq!(shown["skipped"][0]["name"], "order_lines");
    assert_eq!(shown["applied"], false);
    shop.server.get("types/Order").await.problem(404, "not-found");

    assert_eq!(names(&shop.import_all().await), ["OddName", "Customer", "Order"]);
    let order = shop.server.get("types/Order").await.expect(200);
    assert_eq!(order["source"], "database-imported");
    assert_eq!(
        order["relations"],
        json!([{ "name": "customer", "type": "Customer", "field": "customer_id", "many": false }])
    );
    let properties = &order["jsonSchema"]["properties"];
    assert_eq!(properties["customer_id"], json!({ "type": "string" }));
    assert_eq!(properties["placed_on"], json!({ "type": ["string", "null"], "format": "date" }));
    if matches!(shop.database, ShopDatabase::Postgres(_)) {
        assert_eq!(properties["status"], json!({ "type": "string", "enum": ["open", "paid"] }));
        assert_eq!(properties["total"], json!({ "type": ["number", "null"] }));
    }
    assert_eq!(order["searchableFields"], json!(["customer_id", "status"]));
    for (tool, status) in [
        ("search_orders", 200),
        ("count_orders", 200),
        ("get_order", 200),
        ("create_order", 404),
        ("update_order", 404),
        ("delete_order", 404),
    ] {
        assert_eq!(shop.server.get(&format!("tools/{tool}")).await.status.as_u16(), status, "{tool}");
    }
    for (route, more) in [
        ("save", json!({ "entity": { "status": "open" } })),
        ("delete", json!({ "id": "1" })),
        ("deleteMany", json!({ "all": true })),
    ] {
        let problem = shop.gateway(route, "Order", more).await.problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("read-only external source"), "{problem}");
    }
    let odd = shop.gateway("find", "OddName", json!({})).await.expect(200)["rows"][0].clone();
    assert_eq!(odd, json!({ "id": "7", "Gr__e": 7, "id_2": "seven", "a_b__DROP_TABLE_orders__--": "x" }));
}

async fn queries_over_external_tables_have_the_same_results_as_over_stored_records(shop: Shop) {
    shop.import_all().await;
    for (query, expected) in [
        ("", vec!["1", "2", "3", "4", "5", "6"]),
        ("status:open && total:>#500", vec!["1", "2", "4", "6"]),
        ("status:OPEN && !!customer_id:#1", vec!["4"]),
        ("status:^[paid]", vec!["3"]),
        ("total:##99.99 || total:null", vec!["5"]),
        ("placed_on:>=2026-02-02 && placed_on:<2026-03-01", vec!["3", "4"]),
        ("placed_on:null", vec!["5"]),
        ("notes.tags:new", vec!["1"]),
        ("text(NEW)", vec!["1"]),
        ("hasEdge(customer, 2)", vec!["4"]),
        ("id:^[2, 4, 99]", vec!["2", "4"]),
    ] {
        let found = shop.gateway("find", "Order", json!({ "query": query })).await.expect(200);
        assert_eq!(ids(&found), expected, "{query}");
        let count = shop.gateway("count", "Order", json!({ "query": query })).await.expect(200);
        assert_eq!(count["count"], expected.len(), "{query}");
    }
    assert_eq!(
        ids(&shop.gateway("find", "Customer", json!({ "query": "hasIncomingEdge(customer, 4)" })).await.expect(200)),
        ["2"]
    );
    let expanded = shop.gateway("find", "Order", json!({ "query": "id:4 && expand(customer)" })).await.expect(200);
    assert_eq!(
        expanded["rows"][0]["customer"],
        json!({ "id": "2", "name": "Bolt", "region": "south", "secret": "silver" })
    );
    let mut page = json!({ "sort": [{ "field": "total", "dir": "DESC" }], "page": { "limit": 4 } });
    let first = shop.gateway("find", "Order", page.clone()).await.expect(200);
    assert_eq!(ids(&first), ["2", "3", "1", "4"]);
    page["page"]["cursor"] = first["nextCursor"].clone();
    assert_eq!(ids(&shop.gateway("find", "Order", page).await.expect(200)), ["6", "5"]);
    let problem = shop.gateway("find", "Order", json!({ "query": "version:#1" })).await.problem(422, "invalid-query");
    assert!(problem["detail"].as_str().unwrap().contains("no field `version`"), "{problem}");
    let csv = shop.server.get("/api/query/export?rootType=Order&columns=id,total&query=status:paid").await;
    assert_eq!(csv.text, "id,total\n3,900\n");
}

async fn agent_uses_tools_of_an_imported_type_to_answer(shop: Shop) {
    shop.import_all().await;
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": [{ "name": "search_customers", "arguments": { "query": "name:Acme", "fields": "+id" } }] } },
        { "when": { "afterTool": "search_customers" }, "reply": { "toolCalls": [
            { "name": "count_orders", "arguments": { "query": "status:open && total:>#500 && hasEdge(customer, 1)" } },
            { "name": "get_order", "arguments": { "id": "2" } },
        ] } },
        { "reply": { "text": "3 orders; the largest is 2." } },
    ]);
    shop.server.define_agent("desk", rules, json!({ "toolCategories": ["quantum.crud"] })).await;
    let run = shop.server.run("desk", "How many open orders above 500 for Acme?").await;
    let envelopes = envelopes(&run);
    assert_eq!(envelopes[0]["output"]["items"], json!([{ "id": "1" }]), "{run}");
    assert_eq!(envelopes[1]["output"], json!({ "count": 3 }), "{run}");
    assert_eq!(envelopes[2]["output"]["total"].as_f64(), Some(1180.0), "{run}");
    assert_eq!(run["responseText"], "3 orders; the largest is 2.");
}

async fn record_rules_hide_rows_and_fields_of_external_tables(shop: Shop) {
    shop.import_all().await;
    let key = shop.server.issue_key(json!({ "principal": "northerner", "roles": ["admin"] })).await;
    let north = shop.server.with_key(&key);
    let all = gateway(&north, "find", "Customer", json!({})).await.expect(200);
    assert_eq!(
        all["rows"],
        json!([{ "id": "1", "name": "Acme", "region": "north" }, { "id": "3", "name": "Cube", "region": "north" }])
    );
    assert_eq!(gateway(&north, "count", "Customer", json!({ "query": "text(gold)" })).await.expect(200)["count"], 0);
    assert_eq!(shop.gateway("count", "Customer", json!({ "query": "text(gold)" })).await.expect(200)["count"], 1);
    gateway(&north, "find", "Customer", json!({ "query": "secret:gold" })).await.problem(422, "invalid-query");
    let expanded = gateway(&north, "find", "Order", json!({ "query": "expand(customer)" })).await.expect(200);
    assert_eq!(expanded["rows"][3]["customer"], Value::Null);
    assert_eq!(expanded["rows"][0]["customer"], json!({ "id": "1", "name": "Acme", "region": "north" }));
    let hidden = north.post("tools/get_customer/execute", json!({ "input": { "id": "2" } })).await.expect(200);
    assert_eq!(hidden["error"]["details"]["reason"], "not_found", "{hidden}");
}

async fn database_import_does_not_overwrite_edited_or_manual_types(shop: Shop) {
    shop.server.post("types", json!({ "name": "Customer", "description": "Mine." })).await.expect(201);
    let report = shop.import_all().await;
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(shop.server.get("types/Customer").await.expect(200)["description"], "Mine.");
    let again = shop.import_all().await;
    assert_eq!((again["imported"].as_array().unwrap().len(), again["unchanged"].as_array().unwrap().len()), (0, 2));

    shop.execute("ALTER TABLE orders ADD COLUMN channel TEXT").await;
    let skipped = shop.import_all().await;
    assert!(skipped["skipped"].to_string().contains("use `update`"), "{skipped}");
    let updated = shop.import(json!({ "apply": true, "update": true })).await.expect(200);
    assert_eq!(updated["updated"], json!([{ "refName": "Order" }]));
    assert_eq!(shop.gateway("count", "Order", json!({ "query": "channel:null" })).await.expect(200)["count"], 6);

    // The import does not update a type that was edited.
    shop.server.patch("types/Order", json!({ "description": "What was bought." })).await.expect(200);
    let unchanged = shop.import(json!({ "apply": true, "update": true })).await.expect(200);
    assert!(unchanged["skipped"].to_string().contains("changed since"), "{unchanged}");
    // After a column is removed from the type's schema, records no longer contain it.
    let mut order = shop.server.get("types/Order").await.expect(200);
    order["jsonSchema"]["properties"].as_object_mut().unwrap().remove("total");
    order["jsonSchema"]["required"] = json!([]);
    shop.server.put("types/Order", order).await.expect(200);
    let found = shop.gateway("find", "Order", json!({ "query": "id:1" })).await.expect(200);
    assert_eq!((found["rows"][0].get("total"), &found["rows"][0]["status"]), (None, &json!("open")));
    // An external type can be deleted while its table has rows.
    assert_eq!(shop.server.delete("types/Order").await.status.as_u16(), 204);
}

async fn type_with_a_missing_table_or_column_is_rejected(shop: Shop) {
    let order = |records: Value| json!({ "name": "Order", "records": records, "jsonSchema": { "properties": { "state": { "type": "string" }, "total": {} } } });
    let sql = json!({ "kind": "sql", "urlSecretRef": "shop-db", "table": "orders", "columns": { "state": "status" } });
    for (change, path) in [
        (json!({ "table": "nothing" }), "/records/table"),
        (json!({ "table": "orders; DROP TABLE orders" }), "/records/table"),
        (json!({ "idField": "number" }), "/records/idField"),
        (json!({ "columns": { "state": "stat\"us" } }), "/records/columns/state"),
        (json!({ "columns": {} }), "/jsonSchema/properties/state"),
        (json!({ "kind": "nosql" }), "/records"),
        (json!({ "tabel": "orders" }), "/records"),
        (json!({ "urlSecretRef": 7 }), "/records"),
    ] {
        let mut records = sql.clone();
        records.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let problem = shop.server.post("types", order(records)).await.problem(422, "invalid-definition");
        let found = problem["errors"][0]["path"].as_str().unwrap();
        assert!(found.starts_with(path), "{change}: {problem}");
    }
    let created = shop.server.post("types", order(sql)).await.expect(201);
    assert_eq!(created["records"]["columns"], json!({ "state": "status" }));
    let found = shop.gateway("find", "Order", json!({ "query": "state:paid" })).await.expect(200);
    assert_eq!(found["rows"][0]["id"], "3");
    assert_eq!(found["rows"][0].as_object().unwrap().len(), 3, "{found}");
    // A type without a schema returns every column of its table.
    let all =
        json!({ "name": "Everything", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "customers" } });
    shop.server.post("types", all).await.expect(201);
    let found = shop.gateway("find", "Everything", json!({ "query": "name:Bolt" })).await.expect(200);
    assert_eq!(found["rows"][0], json!({ "id": "2", "name": "Bolt", "region": "south", "secret": "silver" }));
    // Queries and sorting by an unknown field are rejected.
    for (more, path) in [
        (json!({ "query": "nope:1" }), "/query"),
        (json!({ "query": "name:Bolt && !!nope.deeper:~" }), "/query"),
        (json!({ "sort": [{ "field": "nope" }] }), "/sort"),
    ] {
        let problem = shop.gateway("find", "Everything", more).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("has no field `nope"), "{problem}");
    }
    for route in ["count", "plan", "deleteMany"] {
        let answer = shop.gateway(route, "Everything", json!({ "query": "nope:1" })).await;
        assert!(matches!(answer.status.as_u16(), 403 | 422), "{route}");
    }
}

async fn queries_fail_only_for_types_whose_database_is_unreachable(shop: Shop) {
    shop.import_all().await;
    for (name, url, message) in [
        ("private", "postgres://a:s3cr3t@10.0.0.1/x", "not a public address"),
        ("elsewhere", "sqlite:../../etc/passwd", "no such file"),
        ("absolute", "sqlite:///etc/passwd", "no such file"),
        ("wrong", "s3cr3t", "must be a URL"),
    ] {
        shop.server.post("secrets", json!({ "name": name, "value": url })).await.expect(201);
        let problem = shop.import(json!({ "secretRef": name })).await.problem(422, "cannot-import");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
        assert!(!problem.to_string().contains("s3cr3t"), "{problem}");
        let entity_type = json!({ "name": format!("Of-{name}"), "records": { "kind": "sql", "urlSecretRef": name, "table": "orders" } });
        let created = shop.server.post("types", entity_type).await.expect(201);
        assert!(created["warnings"][0].as_str().unwrap().contains(message), "{created}");
        shop.gateway("find", &format!("Of-{name}"), json!({})).await.problem(502, "upstream-failed");
    }
    shop.import(json!({ "secretRef": "no-such" })).await.problem(422, "cannot-import");
    // The secret names a file that is not a database, or a database that does not exist.
    let (url, message) = match &shop.database {
        ShopDatabase::Sqlite(folder) => {
            std::fs::write(folder.path().join("letter.db"), "Dear reader, ".repeat(100)).unwrap();
            ("sqlite:letter.db".to_owned(), "is not an SQLite database")
        }
        ShopDatabase::Postgres(url) => (format!("{url}_that_never_was"), "no database with this name"),
    };
    shop.server.post("secrets", json!({ "name": "letter", "value": url })).await.expect(201);
    let problem = shop.import(json!({ "secretRef": "letter" })).await.problem(422, "cannot-import");
    assert_eq!(problem["errors"][0]["path"], "/secretRef");
    assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
    let entity_type =
        json!({ "name": "Letter", "records": { "kind": "sql", "urlSecretRef": "letter", "table": "orders" } });
    assert!(shop.server.post("types", entity_type).await.expect(201)["warnings"].to_string().contains(message));
    let problem = shop.gateway("count", "Letter", json!({})).await.problem(502, "upstream-failed");
    assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
    // No database server listens on this port.
    shop.server.post("secrets", json!({ "name": "dead", "value": "postgres://a:b@127.0.0.1:1/x" })).await.expect(201);
    let entity_type =
        json!({ "name": "Dead", "records": { "kind": "sql", "urlSecretRef": "dead", "table": "orders" } });
    let created = shop.server.post("types", entity_type).await.expect(201);
    assert!(created["warnings"][0].as_str().unwrap().contains("does not answer"), "{created}");
    shop.gateway("count", "Dead", json!({})).await.problem(503, "unavailable");
    shop.gateway("export", "Dead", json!({})).await.problem(503, "unavailable");
    let call = shop.server.post("tools/count_deads/execute", json!({ "input": {} })).await.expect(200);
    assert_eq!(call["error"]["code"], "PROVIDER_ERROR", "{call}");
    assert_eq!(shop.gateway("count", "Order", json!({})).await.expect(200)["count"], 6);
    // When a table is dropped, only the queries of its type fail.
    shop.execute("DROP TABLE orders").await;
    assert!(shop.gateway("count", "Order", json!({})).await.status.is_server_error());
    assert_eq!(shop.gateway("count", "Customer", json!({})).await.expect(200)["count"], 3);
}

async fn external_type_uses_only_the_realm_secret_for_its_database(shop: Shop) {
    shop.import_all().await;
    shop.server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = shop.server.in_realm("other");
    gateway(&other, "count", "Order", json!({})).await.problem(404, "not-found");
    let member = shop.server.member("someone").await;
    assert_eq!(gateway(&member, "count", "Order", json!({})).await.expect(200)["count"], 6);
    member.post("types/import/database", json!({ "secretRef": "shop-db" })).await.problem(403, "forbidden");
    // A user's own secret with the same name is not used, so a user cannot make the type read another database.
    member.post("secrets", json!({ "name": "shop-db", "value": "sqlite:mine.db", "scope": "user" })).await.expect(201);
    assert_eq!(gateway(&member, "count", "Order", json!({})).await.expect(200)["count"], 6);
    // After the realm's secret changes, the next query uses its new value.
    shop.server.post("secrets", json!({ "name": "shop-db", "value": "sqlite:none.db" })).await;
    shop.gateway("count", "Order", json!({})).await.problem(502, "upstream-failed");
}

async fn database_import_of_more_than_1000_tables_is_rejected(shop: Shop) {
    let all: Vec<String> =
        (0..960).map(|n| format!("CREATE TABLE t{n} (id INTEGER PRIMARY KEY, name TEXT);")).collect();
    shop.execute(&all.concat()).await;
    let shown = shop.import(json!({ "tables": ["t*"] })).await.expect(200);
    assert!(shown["imported"].as_array().unwrap().len() >= 960, "{shown}");
    let more: Vec<String> = (0..60).map(|n| format!("CREATE TABLE u{n} (id INTEGER PRIMARY KEY);")).collect();
    shop.execute(&more.concat()).await;
    let problem = shop.import(json!({ "tables": [] })).await.problem(422, "cannot-import");
    assert!(problem["detail"].as_str().unwrap().contains("at most 1000 types"), "{problem}");
}
