//! Tests writes to tables with triggers, defaults, ids that are not unique, very large versions, or values that violate
//! the schema.

use serde_json::{Value, json};

use super::{Shop, ShopDatabase};

on_both_shops!(
    write_that_a_trigger_suppresses_is_rejected_and_rolled_back,
    id_column_of_a_writable_type_must_be_unique,
    write_to_a_row_with_the_largest_version_is_rejected,
    columns_with_database_defaults_are_optional_in_new_records,
    row_with_invalid_values_can_be_read_and_updated,
    uppercase_uuid_identifies_the_same_row,
);

async fn write_that_a_trigger_suppresses_is_rejected_and_rolled_back(shop: Shop) {
    shop.define_writable_types().await;
    shop.save("Part", json!({ "sku": "A-1" })).await;
    shop.save("Tag", json!({ "name": "a", "colour": "red" })).await;
    let triggers = match shop.database {
        // The trigger inserts a row into `tries`. The rollback must remove this row too.
        ShopDatabase::Sqlite(_) => {
            let one = |table: &str, doing: &str| {
                format!(
                    "CREATE TRIGGER {table}_{doing} BEFORE {doing} ON {table} BEGIN \
                     INSERT INTO tries VALUES (NULL); SELECT RAISE(IGNORE); END;"
                )
            };
            ["spare_parts", "shop_tags"]
                .into_iter()
                .flat_map(|table| ["INSERT", "UPDATE", "DELETE"].map(|doing| one(table, doing)))
                .collect::<String>()
        }
        ShopDatabase::Postgres(_) => {
            let on = |table: &str| {
                format!(
                    "CREATE TRIGGER ignored BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION tried();"
                )
            };
            let body = "BEGIN INSERT INTO tries DEFAULT VALUES; RETURN NULL; END";
            format!(
                "CREATE FUNCTION tried() RETURNS trigger LANGUAGE plpgsql AS $${body}$$; {} {}",
                on("spare_parts"),
                on("shop_tags")
            )
        }
    };
    let id = if matches!(shop.database, ShopDatabase::Sqlite(_)) { "INTEGER" } else { "SERIAL" };
    shop.execute(&format!("CREATE TABLE tries (id {id} PRIMARY KEY); {triggers}")).await;
    for (entity_type, entity) in [
        ("Part", json!({ "sku": "B-2" })),
        ("Part", json!({ "id": "77", "sku": "B-2" })),
        ("Part", json!({ "id": "1", "sku": "A-1", "stock": 9 })),
        ("Part", json!({ "id": "1", "version": 1, "sku": "A-1", "stock": 9 })),
        ("Tag", json!({ "colour": "blue" })),
        ("Tag", json!({ "name": "a", "colour": "blue" })),
    ] {
        let problem = shop.try_save(entity_type, entity).await.problem(422, "invalid-record");
        assert!(problem["detail"].as_str().unwrap().contains("did not store the row"), "{problem}");
    }
    for (entity_type, id, version) in [("Part", "1", json!(1)), ("Part", "1", Value::Null), ("Tag", "a", Value::Null)] {
        let answer = shop.gateway("delete", entity_type, json!({ "id": id, "version": version })).await;
        let problem = answer.problem(422, "invalid-record");
        assert!(problem["detail"].as_str().unwrap().contains("kept the row"), "{problem}");
    }
    shop.gateway("delete", "Part", json!({ "id": "1", "version": 7 })).await.problem(409, "version-conflict");
    let text = "name,colour\nb,blue\n";
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Tag");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(text)).await;
    assert!(answer.text.contains("did not store the row"), "{}", answer.text);
    let tries = json!({ "name": "Try", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "tries" } });
    shop.server.post("types", tries).await.expect(201);
    assert_eq!(shop.gateway("count", "Try", json!({})).await.expect(200)["count"], 0);
    assert_eq!(shop.gateway("count", "Part", json!({})).await.expect(200)["count"], 1);
}

async fn id_column_of_a_writable_type_must_be_unique(shop: Shop) {
    shop.execute(
        "CREATE TABLE visits (place TEXT, other TEXT, pair TEXT, code TEXT UNIQUE, few TEXT, UNIQUE (other, pair));
         CREATE UNIQUE INDEX visits_few ON visits (few) WHERE place = 'x';
         CREATE UNIQUE INDEX visits_lower ON visits (lower(pair));
         INSERT INTO visits VALUES ('a', '1', '1', 'c1', 's'), ('a', '2', '2', 'c2', 's');",
    )
    .await;
    let visit = |name: &str, id: &str, define_writable_types: bool| {
        let records = json!({ "kind": "sql", "urlSecretRef": "shop-db", "table": "visits", "idField": id, "writable": define_writable_types });
        shop.server.post("types", json!({ "name": name, "records": records }))
    };
    for id in ["place", "other", "pair", "few"] {
        let problem = visit("Visit", id, true).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/records/idField", "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("unique"), "{problem}");
    }
    visit("Seen", "place", false).await.expect(201);
    visit("Visit", "code", true).await.expect(201);
    assert_eq!(shop.save("Visit", json!({ "code": "c1", "place": "b" })).await["place"], "b");
    // The server checks uniqueness when the type is saved. If the constraint is dropped later, a write that matches
    // several rows must fail.
    let without = match shop.database {
        ShopDatabase::Sqlite(_) => {
            "CREATE TABLE copies AS SELECT * FROM visits; DROP TABLE visits; ALTER TABLE copies RENAME TO visits;"
        }
        ShopDatabase::Postgres(_) => "ALTER TABLE visits DROP CONSTRAINT visits_code_key;",
    };
    shop.execute(&format!("{without} UPDATE visits SET code = 'c'")).await;
    let problem = shop.try_save("Visit", json!({ "code": "c", "place": "z" })).await.problem(422, "invalid-record");
    assert!(problem["detail"].as_str().unwrap().contains("several rows"), "{problem}");
    shop.gateway("delete", "Visit", json!({ "id": "c" })).await.problem(422, "invalid-record");
    assert_eq!(shop.gateway("count", "Visit", json!({ "query": "place:z" })).await.expect(200)["count"], 0);
    assert_eq!(shop.gateway("count", "Visit", json!({})).await.expect(200)["count"], 2);
    assert_eq!(shop.gateway("deleteMany", "Visit", json!({ "query": "code:c" })).await.expect(200)["deletedCount"], 2);
}

async fn write_to_a_row_with_the_largest_version_is_rejected(shop: Shop) {
    shop.define_writable_types().await;
    shop.save("Part", json!({ "sku": "A-1" })).await;
    let wide = if matches!(shop.database, ShopDatabase::Postgres(_)) {
        "ALTER TABLE spare_parts ALTER rev TYPE BIGINT;"
    } else {
        ""
    };
    shop.execute(&format!("{wide} UPDATE spare_parts SET rev = {}", i64::MAX)).await;
    let problem = shop.try_save("Part", json!({ "id": "1", "sku": "B-2" })).await.problem(422, "invalid-record");
    assert_eq!(problem["errors"][0]["path"], "/entity/version", "{problem}");
    assert_eq!(shop.gateway("find", "Part", json!({})).await.expect(200)["rows"][0]["sku"], "A-1");
}

async fn columns_with_database_defaults_are_optional_in_new_records(shop: Shop) {
    let moment = "CURRENT_TIMESTAMP";
    shop.execute(&format!(
        "CREATE TABLE gadgets (code TEXT PRIMARY KEY, label TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'new',
             made TIMESTAMP NOT NULL DEFAULT {moment}, twice INTEGER GENERATED ALWAYS AS (2 * 21) STORED NOT NULL);
         CREATE TABLE counters (id INT PRIMARY KEY, label TEXT NOT NULL);"
    ))
    .await;
    shop.import(json!({ "tables": ["gadgets", "counters"], "apply": true })).await.expect(200);
    for (name, key) in [("Gadget", "code"), ("Counter", "id")] {
        let mut entity_type = shop.server.get(&format!("types/{name}")).await.expect(200);
        assert_eq!(entity_type["jsonSchema"]["required"], json!(["label"]), "{entity_type}");
        assert_eq!(entity_type["records"]["idField"].as_str().unwrap_or("id"), key);
        entity_type["records"]["writable"] = json!(true);
        shop.server.put(&format!("types/{name}"), entity_type).await.expect(200);
    }
    for (tool, input, id) in [
        ("create_gadget", json!({ "id": "g1", "label": "x" }), Some("g1")),
        ("create_gadget", json!({ "code": "g2", "label": "x" }), Some("g2")),
        ("create_gadget", json!({ "label": "x" }), None),
        ("create_counter", json!({ "id": "7", "label": "x" }), Some("7")),
    ] {
        let created = shop.server.call(tool, input).await;
        assert_eq!(created["error"], Value::Null, "{created}");
        let found = &created["output"]["id"];
        assert!(id.is_none_or(|id| found == id), "{created}");
        assert!(
            tool != "create_gadget" || (created["output"]["state"] == "new" && created["output"]["twice"] == 42),
            "{created}"
        );
    }
    for input in [json!({ "label": "x" }), json!({ "id": "x7", "label": "x" }), json!({ "id": "07", "label": "x" })] {
        let refused = shop.server.call("create_counter", input).await;
        assert_eq!(refused["error"]["details"]["reason"], "invalid_record", "{refused}");
    }
    assert_eq!(shop.gateway("count", "Counter", json!({})).await.expect(200)["count"], 1);
}

async fn row_with_invalid_values_can_be_read_and_updated(shop: Shop) {
    let (row, note) = match shop.database {
        ShopDatabase::Sqlite(_) => ("1, 'some day', 9e999, CAST(x'ff61' AS TEXT)", "\u{fffd}a"),
        ShopDatabase::Postgres(_) => ("1, '0044-03-15 BC', 'NaN', 'a'", "a"),
    };
    shop.execute(&format!(
        "CREATE TABLE oddities (id INTEGER PRIMARY KEY, day DATE, amount DOUBLE PRECISION, note TEXT, other TEXT);
         INSERT INTO oddities VALUES ({row}, 'o'), (2, '2026-01-01', 1, 'b', 'o');"
    ))
    .await;
    shop.import(json!({ "tables": ["oddities"], "apply": true })).await.expect(200);
    let mut entity_type = shop.server.get("types/Oddity").await.expect(200);
    // The stored value of `day` in row 1 violates this pattern.
    entity_type["jsonSchema"]["properties"]["day"] =
        json!({ "type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" });
    entity_type["records"]["writable"] = json!(true);
    shop.server.put("types/Oddity", entity_type).await.expect(200);
    let rows = shop.gateway("find", "Oddity", json!({})).await.expect(200)["rows"].clone();
    assert_eq!((&rows[0]["note"], &rows[1]["note"]), (&json!(note), &json!("b")), "{rows}");
    assert!(rows[0]["amount"].is_string(), "{rows}");
    let updated = shop.server.call("update_oddity", json!({ "id": "1", "other": "new" })).await;
    assert_eq!((&updated["error"], &updated["output"]["other"]), (&Value::Null, &json!("new")), "{updated}");
    let mut whole = rows[0].clone();
    whole["other"] = json!("newer");
    let saved = shop.save("Oddity", whole.clone()).await;
    assert_eq!((&saved["other"], &saved["amount"], &saved["day"]), (&json!("newer"), &whole["amount"], &whole["day"]));
    // Changed values and new records must still match the schema.
    whole["day"] = json!("another day");
    let problem = shop.try_save("Oddity", whole.clone()).await.problem(422, "invalid-record");
    let paths: Vec<&Value> = problem["errors"].as_array().unwrap().iter().map(|error| &error["path"]).collect();
    assert_eq!(paths, ["/entity/day"], "{problem}");
    whole["id"] = json!("3");
    let problem = shop.try_save("Oddity", whole).await.problem(422, "invalid-record");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
}

async fn uppercase_uuid_identifies_the_same_row(shop: Shop) {
    if matches!(shop.database, ShopDatabase::Sqlite(_)) {
        // SQLite has no UUID type and compares ids as text, so the test does not apply.
        return;
    }
    shop.execute("CREATE TABLE things (id UUID PRIMARY KEY, label TEXT, hits INTEGER)").await;
    let entity_type = json!({ "name": "Thing", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "things", "writable": true } });
    shop.server.post("types", entity_type).await.expect(201);
    let (capitals, plain) = ("0190E0A2-7C3B-4D5E-8F90-ABCDEF012345", "0190e0a2-7c3b-4d5e-8f90-abcdef012345");
    assert_eq!(shop.save("Thing", json!({ "id": capitals, "label": "a" })).await["id"], plain);
    for (id, label) in [(capitals, "b"), (plain, "c"), (capitals, "c")] {
        let saved = shop.save("Thing", json!({ "id": id, "label": label })).await;
        assert_eq!((&saved["id"], &saved["label"]), (&json!(plain), &json!(label)));
    }
    assert_eq!(shop.server.call("get_thing", json!({ "id": capitals })).await["output"]["label"], "c");
    let text = format!("id,hits\n{capitals},3\n");
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Thing");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(text)).await;
    assert!(answer.text.contains("\"updated\":1"), "{}", answer.text);
    shop.try_save("Thing", json!({ "id": "x7" })).await.problem(422, "invalid-record");
    shop.gateway("delete", "Thing", json!({ "id": capitals })).await.expect(200);
    assert_eq!(shop.gateway("count", "Thing", json!({})).await.expect(200)["count"], 0);
}
