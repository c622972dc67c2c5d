//! Tests writes to records in external tables.

use serde_json::{Value, json};

use super::{Shop, gateway};
on_both_shops!(
    records_of_a_writable_type_are_stored_in_the_external_table,
    only_one_of_eight_concurrent_versioned_table_writes_succeeds,
    record_that_violates_a_table_constraint_is_rejected,
    record_rules_and_permissions_apply_to_table_writes,
    csv_rows_are_imported_into_external_tables,
);

async fn records_of_a_writable_type_are_stored_in_the_external_table(shop: Shop) {
    shop.define_writable_types().await;
    let extra = json!({ "tags": ["new", { "n": 1 }] });
    let first = shop
        .save(
            "Part",
            json!({ "sku": "A-1", "price": 12.5, "active": true, "made": "2026-01-31T10:00:00+01:00", "extra": extra }),
        )
        .await;
    assert_eq!((&first["id"], &first["version"]), (&json!("1"), &json!(1)), "the database assigns the id");
    assert_eq!((&first["stock"], &first["price"], &first["active"]), (&json!(5), &json!(12.5), &json!(true)));
    assert_eq!((&first["extra"], first.get("rev")), (&extra, None));
    let at =
        shop.gateway("count", "Part", json!({ "query": "made:2026-01-31T09:00:00Z && version:#1" })).await.expect(200);
    assert_eq!(at["count"], 1, "{first}");
    // A record can be saved exactly as it was returned. A null in the record sets the column to null.
    let mut again = first.clone();
    again["price"] = json!(13);
    again["stock"] = Value::Null;
    let second = shop.save("Part", again.clone()).await;
    assert_eq!((&second["version"], &second["price"], &second["stock"]), (&json!(2), &json!(13), &Value::Null));
    assert_eq!((&second["made"], &second["extra"]), (&first["made"], &extra));
    shop.try_save("Part", again).await.problem(409, "version-conflict");
    // A save does not change columns that the type does not declare.
    shop.execute("UPDATE spare_parts SET hidden = 'changed' WHERE id = 1").await;
    shop.save("Part", json!({ "id": "1", "sku": "A-1" })).await;
    let all = json!({ "name": "All", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "spare_parts" } });
    shop.server.post("types", all).await.expect(201);
    let row = shop.gateway("find", "All", json!({})).await.expect(200)["rows"][0].clone();
    assert_eq!((&row["hidden"], &row["rev"], &row["price"]), (&json!("changed"), &json!(3), &Value::Null));

    // Tools that write are generated for writable types, but not for read-only types.
    for (tool, input, found) in [
        ("create_part", json!({ "sku": "B-2", "of_order": null }), json!("B-2")),
        ("update_part", json!({ "id": "2", "version": 1, "price": 7 }), json!(7)),
        ("get_part", json!({ "id": "2" }), json!(7)),
    ] {
        let envelope = shop.server.call(tool, input).await;
        assert_eq!(envelope["error"], Value::Null, "{envelope}");
        let field = if tool == "create_part" { "sku" } else { "price" };
        assert_eq!(envelope["output"][field], found, "{envelope}");
    }
    let stale = shop.server.call("update_part", json!({ "id": "2", "version": 1, "price": 8 })).await;
    assert_eq!(stale["error"]["details"]["reason"], "version_conflict");
    shop.server.get("tools/create_all").await.problem(404, "not-found");
    let delete = |version: Value| shop.gateway("delete", "Part", json!({ "id": "2", "version": version }));
    delete(json!(1)).await.problem(409, "version-conflict");
    delete(json!(2)).await.expect(200);
    delete(Value::Null).await.problem(404, "not-found");

    // The column `name` is the primary key and therefore the id. A record can contain it as `id`, as `name` or as both.
    let red = shop.save("Tag", json!({ "name": "a b", "colour": "red" })).await;
    assert_eq!(red, json!({ "id": "a b", "name": "a b", "colour": "red", "hits": null }));
    assert_eq!(shop.save("Tag", json!({ "id": "a b", "name": "a b", "hits": 3 })).await["colour"], Value::Null);
    let created = shop.save("Tag", json!({ "colour": "blue" })).await;
    assert_eq!((created["id"].as_str().unwrap().len(), &created["name"]), (24, &created["id"]), "{created}");
    let updated = shop.server.call("update_tag", json!({ "id": "a b", "colour": "green" })).await;
    assert_eq!((&updated["output"]["colour"], &updated["output"]["hits"]), (&json!("green"), &json!(3)), "{updated}");
    shop.gateway("delete", "Tag", json!({ "id": "a b", "version": 1 })).await.problem(422, "invalid-query");
    shop.gateway("deleteMany", "Tag", json!({})).await.problem(400, "invalid-request");
    let removed = shop.gateway("deleteMany", "Tag", json!({ "query": "colour:green || hits:>#100" })).await.expect(200);
    assert_eq!(
        (&removed["deletedCount"], &shop.gateway("count", "Tag", json!({})).await.expect(200)["count"]),
        (&json!(1), &json!(1))
    );
}

async fn only_one_of_eight_concurrent_versioned_table_writes_succeeds(shop: Shop) {
    shop.define_writable_types().await;
    shop.save("Part", json!({ "sku": "A-1" })).await;
    let answers = futures::future::join_all(
        (0..8).map(|n| shop.try_save("Part", json!({ "id": "1", "version": 1, "sku": "A-1", "stock": n }))),
    )
    .await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
    // Concurrent writes without a version all succeed, both for an existing record and for a new one.
    let answers = futures::future::join_all(
        (0..8).map(|n| shop.try_save("Part", json!({ "id": "1", "sku": "A-1", "stock": n }))),
    )
    .await;
    assert!(answers.iter().all(|answer| answer.status.as_u16() == 200));
    assert_eq!(shop.gateway("find", "Part", json!({})).await.expect(200)["rows"][0]["version"], 10);
    let answers =
        futures::future::join_all((0..8).map(|n| shop.try_save("Tag", json!({ "id": "one", "hits": n })))).await;
    assert!(answers.iter().all(|answer| answer.status.as_u16() == 200));
    assert_eq!(shop.gateway("count", "Tag", json!({})).await.expect(200)["count"], 1);
}

async fn record_that_violates_a_table_constraint_is_rejected(shop: Shop) {
    shop.import_all().await;
    shop.define_writable_types().await;
    shop.save("Part", json!({ "sku": "A-1", "of_order": "1" })).await;
    shop.execute("UPDATE spare_parts SET raw = 'x'").await;
    let deep = (0..105).fold(json!(1), |inner, _| json!([inner]));
    for (entity_type, entity, path, message) in [
        ("Part", json!({ "sku": "A-1" }), "/entity", "the database rejected the record"),
        ("Part", json!({ "sku": "B", "of_order": "99" }), "/entity", "the database rejected the record"),
        ("Part", json!({ "sku": "B", "raw": "00ff" }), "/entity/raw", "bytes"),
        ("Part", json!({ "id": "none", "sku": "B" }), "/entity/id", "an integer"),
        ("Part", json!({ "id": "007", "sku": "B" }), "/entity/id", "an integer"),
        ("Part", json!({ "sku": "B", "extra": deep }), "/entity", "levels"),
        ("Part", json!({ "sku": "B", "extra": { "a": "b\u{0}" } }), "/entity", "U+0000"),
        ("Tag", json!({ "name": "x", "colour": "a\u{0}" }), "/entity", "U+0000"),
        ("Part", json!({ "id": "1", "sku": null }), "/entity/sku", ""),
        ("Tag", json!({ "name": "x", "colour": "none" }), "/entity", "the database rejected the record"),
        ("Tag", json!({ "name": "x", "colour": ["red"] }), "/entity/colour", "a single value"),
        ("Tag", json!({ "name": "x", "nope": 1 }), "/entity/nope", "no column"),
        ("Tag", json!({ "id": "y", "name": "x" }), "/entity/name", "must equal the id"),
        ("Tag", json!({ "id": "x\u{0}" }), "/entity/id", "U+0000"),
        ("Tag", json!({ "id": 7 }), "/entity/id", "must be a string"),
    ] {
        let problem = shop.try_save(entity_type, entity).await.problem(422, "invalid-record");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(message), "{problem}");
    }
    // The column `raw` cannot be written. A save that contains the stored value of `raw` succeeds.
    let mut whole = shop.gateway("find", "Part", json!({})).await.expect(200)["rows"][0].clone();
    whole["stock"] = json!(1);
    assert_eq!(shop.save("Part", whole.clone()).await["version"], 2);
    // A save in which `raw` is absent or null keeps the stored value of `raw`.
    for (without, stock) in [(json!({ "raw": null }), 2), (json!({}), 3)] {
        let mut entity = json!({ "id": "1", "sku": "A-1", "of_order": "1", "stock": stock });
        entity.as_object_mut().unwrap().extend(without.as_object().unwrap().clone());
        let raw = &shop.save("Part", entity).await["raw"];
        assert!(raw == &whole["raw"] && raw.is_string(), "{raw}");
    }
    let problem = shop.try_save("Part", json!({ "id": "1", "sku": "A-1", "raw": "79" })).await;
    assert_eq!(problem.problem(422, "invalid-record")["errors"][0]["path"], "/entity/raw");
    let blocked = shop.server.post("types", json!({
        "name": "Kept", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "orders", "writable": true },
    }));
    blocked.await.expect(201);
    let problem = shop.gateway("delete", "Kept", json!({ "id": "1" })).await.problem(422, "invalid-record");
    assert!(problem["detail"].as_str().unwrap().contains("the database rejected the record"), "{problem}");
    assert_eq!(shop.gateway("count", "Part", json!({})).await.expect(200)["count"], 1);
    assert_eq!(shop.gateway("count", "Tag", json!({})).await.expect(200)["count"], 0);
    assert_eq!(shop.gateway("count", "Kept", json!({})).await.expect(200)["count"], 6);

    shop.execute("CREATE VIEW open_orders AS SELECT * FROM orders WHERE status = 'open'").await;
    for (change, path) in [
        (json!({ "versionField": "sku", "writable": true }), "/records/versionField"),
        (json!({ "versionField": "nope", "writable": true }), "/records/versionField"),
        (json!({ "versionField": "id", "writable": true }), "/records/versionField"),
        (json!({ "versionField": "rev" }), "/records/versionField"),
        (json!({ "table": "open_orders", "writable": true }), "/records/writable"),
        (json!({ "writable": "yes" }), "/records"),
        (json!({ "versionField": "count", "columns": { "count": "id" }, "writable": true }), "/records/versionField"),
        (json!({ "versionField": "rev", "columns": { "x": "rev" }, "writable": true }), "/records/columns/x"),
        (json!({ "columns": { "x": "sku", "y": "sku" }, "writable": true }), "/records/columns/y"),
        (json!({ "columns": { "x": "id" }, "writable": true }), "/records/columns/x"),
        (json!({ "versionField": "rev", "writable": true, "required": ["rev"] }), "/jsonSchema/required"),
    ] {
        let mut records = json!({ "kind": "sql", "urlSecretRef": "shop-db", "table": "spare_parts" });
        records.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let required = records.as_object_mut().unwrap().remove("required").unwrap_or(json!([]));
        let fields = ["x", "y"].into_iter().filter(|field| change["columns"].get(field).is_some());
        let properties: serde_json::Map<String, Value> = fields.map(|field| (field.to_owned(), json!({}))).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let problem =
            shop.server.post("types", json!({ "name": "Bad", "records": records, "jsonSchema": schema })).await;
        let problem = problem.problem(422, "invalid-definition");
        assert!(problem["errors"][0]["path"].as_str().unwrap().starts_with(path), "{change}: {problem}");
    }
}

async fn record_rules_and_permissions_apply_to_table_writes(shop: Shop) {
    shop.execute("DELETE FROM orders; UPDATE customers SET secret = 'gold'").await;
    let entity_type = json!({
        "name": "Customer", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "customers", "writable": true },
    });
    shop.server.post("types", entity_type).await.expect(201);
    let north =
        shop.server.with_key(&shop.server.issue_key(json!({ "principal": "northerner", "roles": ["admin"] })).await);
    let try_save = |entity: Value| gateway(&north, "save", "Customer", json!({ "entity": entity }));
    try_save(json!({ "id": "2", "name": "Mine", "region": "north" })).await.problem(403, "forbidden");
    try_save(json!({ "id": "1", "name": "Acme", "region": "south" })).await.problem(403, "forbidden");
    try_save(json!({ "id": "9", "name": "New" })).await.problem(403, "forbidden");
    gateway(&north, "delete", "Customer", json!({ "id": "2" })).await.problem(404, "not-found");
    let saved =
        try_save(json!({ "id": "1", "name": "Acme Ltd", "region": "north", "secret": "lead" })).await.expect(200);
    assert_eq!(saved["entity"], json!({ "id": "1", "name": "Acme Ltd", "region": "north" }));
    let one = shop.gateway("find", "Customer", json!({ "query": "id:1" })).await.expect(200)["rows"][0].clone();
    assert_eq!((&one["name"], &one["secret"]), (&json!("Acme Ltd"), &json!("gold")), "hidden fields are unchanged");
    let removed = gateway(&north, "deleteMany", "Customer", json!({ "all": true })).await.expect(200);
    assert_eq!(removed["deletedCount"], 2, "rows outside the rule are not deleted");
    let member = shop.server.member("someone").await;
    gateway(&member, "save", "Customer", json!({ "entity": { "name": "x" } })).await.problem(403, "forbidden");
    assert_eq!(shop.gateway("count", "Customer", json!({})).await.expect(200)["count"], 1);
}

async fn csv_rows_are_imported_into_external_tables(shop: Shop) {
    shop.define_writable_types().await;
    shop.save("Tag", json!({ "name": "old", "colour": "red", "hits": 1 })).await;
    let text = "name,colour,hits\nold,,2\nnew,blue,\nbad,none,1\nlast,green,4\n";
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Tag");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(text)).await;
    let report: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&report["created"], &report["updated"], &report["failures"]),
        (&json!(2), &json!(1), &json!(1)),
        "{report}"
    );
    assert_eq!(report["failed"][0]["line"], 4, "{report}");
    let rows = shop.gateway("find", "Tag", json!({ "query": "name:old" })).await.expect(200)["rows"].clone();
    assert_eq!(rows[0]["colour"], "red");

    // Values of every JSON type are the same after an export and an import.
    for (sku, extra) in [
        ("object", json!({ "tags": ["a", 1] })),
        ("list", json!([true, null])),
        ("number", json!(12)),
        ("truth", json!(true)),
        ("digits", json!("12")),
        ("text", json!("plain")),
        ("formula", json!("=1+1")),
    ] {
        shop.save("Part", json!({ "sku": sku, "extra": extra })).await;
    }
    let before = shop.gateway("find", "Part", json!({})).await.expect(200)["rows"].clone();
    let csv = shop.server.get("/api/query/export?rootType=Part&columns=id,sku,extra").await.text;
    shop.execute("UPDATE spare_parts SET extra = NULL").await;
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Part");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(csv)).await;
    let report: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
    assert_eq!((&report["updated"], &report["failures"]), (&json!(7), &json!(0)), "{report}");
    let after = shop.gateway("find", "Part", json!({})).await.expect(200)["rows"].clone();
    let extras =
        |rows: &Value| -> Vec<Value> { rows.as_array().unwrap().iter().map(|row| row["extra"].clone()).collect() };
    assert_eq!(extras(&after), extras(&before));
}
