//! Records that are written into tables that were there before.

use serde_json::{Value, json};

use super::{Place, Shop, ask};
use crate::harness::Answer;

on_both!(
    records_of_a_writable_type_live_in_their_table,
    of_eight_writers_with_a_version_one_wins,
    what_the_table_does_not_take_is_refused_and_nothing_is_written,
    rules_and_permissions_hold_for_writes,
    what_a_trigger_ignores_is_refused_once,
    an_id_is_that_of_one_row,
    the_last_version_is_the_last,
    what_the_database_fills_in_need_not_be_sent,
    what_others_wrote_is_shown_and_in_nobodys_way,
    uuids_are_the_same_in_capitals,
    tables_of_rows_are_imported_into_tables,
);

/// A table that has everything, beside those that are there already.
const KEPT: &str = "
CREATE TABLE spare_parts (
    id INTEGER PRIMARY KEY, sku TEXT UNIQUE NOT NULL, price NUMERIC(10, 2), stock INTEGER DEFAULT 5, active BOOLEAN, made TIMESTAMP,
    extra JSON, raw BLOB, of_order INTEGER REFERENCES orders (id), hidden TEXT DEFAULT 'kept', rev INTEGER NOT NULL);
CREATE TABLE shop_tags (name TEXT PRIMARY KEY, colour TEXT CHECK (colour <> 'none'), hits INTEGER);
";

impl Shop {
    /// Types over these tables, the first with a version.
    async fn writable(&self) {
        let tables = match self.place {
            Place::Sqlite(_) => KEPT.to_owned(),
            Place::Postgres(_) => KEPT.replace("BLOB", "BYTEA").replace("id INTEGER PRIMARY", "id SERIAL PRIMARY"),
        };
        self.execute(&tables).await;
        let part = json!({
            "name": "Part",
            "jsonSchema": { "type": "object", "additionalProperties": false, "required": ["sku"], "properties": {
                "sku": { "type": "string" }, "price": { "type": ["number", "null"] }, "stock": { "type": ["integer", "null"] },
                "active": { "type": ["boolean", "null"] }, "made": { "type": ["string", "null"] }, "extra": {},
                "raw": { "type": ["string", "null"] }, "of_order": { "type": ["string", "null"] },
            } },
            "relations": [{ "name": "order", "type": "Order", "field": "of_order" }],
            "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "spare_parts", "writable": true, "versionField": "rev" },
        });
        let tag = json!({
            "name": "Tag",
            "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "shop_tags", "idField": "name", "writable": true },
        });
        for of in [part, tag] {
            let created = self.server.post("types", of).await.expect(201);
            assert!(!created["warnings"].to_string().contains("reached"), "{created}");
        }
    }

    async fn save(&self, of: &str, entity: Value) -> Answer {
        self.ask("save", of, json!({ "entity": entity })).await
    }

    async fn saved(&self, of: &str, entity: Value) -> Value {
        self.save(of, entity).await.expect(200)["entity"].clone()
    }
}

async fn records_of_a_writable_type_live_in_their_table(shop: Shop) {
    shop.writable().await;
    let extra = json!({ "tags": ["new", { "n": 1 }] });
    let first = shop
        .saved(
            "Part",
            json!({ "sku": "A-1", "price": 12.5, "active": true, "made": "2026-01-31T10:00:00+01:00", "extra": extra }),
        )
        .await;
    assert_eq!((&first["id"], &first["version"]), (&json!("1"), &json!(1)), "the database gives the id");
    assert_eq!((&first["stock"], &first["price"], &first["active"]), (&json!(5), &json!(12.5), &json!(true)));
    assert_eq!((&first["extra"], first.get("rev")), (&extra, None));
    let at = shop.ask("count", "Part", json!({ "query": "made:2026-01-31T09:00:00Z && version:#1" })).await.expect(200);
    assert_eq!(at["count"], 1, "{first}");
    // What was read can be sent back, and changes what it says.
    let mut again = first.clone();
    again["price"] = json!(13);
    again["stock"] = Value::Null;
    let second = shop.saved("Part", again.clone()).await;
    assert_eq!((&second["version"], &second["price"], &second["stock"]), (&json!(2), &json!(13), &Value::Null));
    assert_eq!((&second["made"], &second["extra"]), (&first["made"], &extra));
    shop.save("Part", again).await.problem(409, "version-conflict");
    // Columns that the type does not show are left alone.
    shop.execute("UPDATE spare_parts SET hidden = 'changed' WHERE id = 1").await;
    shop.saved("Part", json!({ "id": "1", "sku": "A-1" })).await;
    let all = json!({ "name": "All", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "spare_parts" } });
    shop.server.post("types", all).await.expect(201);
    let row = shop.ask("find", "All", json!({})).await.expect(200)["rows"][0].clone();
    assert_eq!((&row["hidden"], &row["rev"], &row["price"]), (&json!("changed"), &json!(3), &Value::Null));

    // Tools are there for all that can be done, and only for what can be written.
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
    let delete = |version: Value| shop.ask("delete", "Part", json!({ "id": "2", "version": version }));
    delete(json!(1)).await.problem(409, "version-conflict");
    delete(json!(2)).await.expect(200);
    delete(Value::Null).await.problem(404, "not-found");

    // A key of one's own is the id, whichever of the two is sent.
    let red = shop.saved("Tag", json!({ "name": "a b", "colour": "red" })).await;
    assert_eq!(red, json!({ "id": "a b", "name": "a b", "colour": "red", "hits": null }));
    assert_eq!(shop.saved("Tag", json!({ "id": "a b", "name": "a b", "hits": 3 })).await["colour"], Value::Null);
    let made = shop.saved("Tag", json!({ "colour": "blue" })).await;
    assert_eq!((made["id"].as_str().unwrap().len(), &made["name"]), (24, &made["id"]), "{made}");
    let updated = shop.server.call("update_tag", json!({ "id": "a b", "colour": "green" })).await;
    assert_eq!((&updated["output"]["colour"], &updated["output"]["hits"]), (&json!("green"), &json!(3)), "{updated}");
    shop.ask("delete", "Tag", json!({ "id": "a b", "version": 1 })).await.problem(422, "invalid-query");
    shop.ask("deleteMany", "Tag", json!({})).await.problem(400, "invalid-request");
    let removed = shop.ask("deleteMany", "Tag", json!({ "query": "colour:green || hits:>#100" })).await.expect(200);
    assert_eq!(
        (&removed["deletedCount"], &shop.ask("count", "Tag", json!({})).await.expect(200)["count"]),
        (&json!(1), &json!(1))
    );
}

async fn of_eight_writers_with_a_version_one_wins(shop: Shop) {
    shop.writable().await;
    shop.saved("Part", json!({ "sku": "A-1" })).await;
    let answers = futures::future::join_all(
        (0..8).map(|n| shop.save("Part", json!({ "id": "1", "version": 1, "sku": "A-1", "stock": n }))),
    )
    .await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
    // Without one all of them do, one after the other; and of those that make the same record, too.
    let answers =
        futures::future::join_all((0..8).map(|n| shop.save("Part", json!({ "id": "1", "sku": "A-1", "stock": n }))))
            .await;
    assert!(answers.iter().all(|answer| answer.status.as_u16() == 200));
    assert_eq!(shop.ask("find", "Part", json!({})).await.expect(200)["rows"][0]["version"], 10);
    let answers = futures::future::join_all((0..8).map(|n| shop.save("Tag", json!({ "id": "one", "hits": n })))).await;
    assert!(answers.iter().all(|answer| answer.status.as_u16() == 200));
    assert_eq!(shop.ask("count", "Tag", json!({})).await.expect(200)["count"], 1);
}

async fn what_the_table_does_not_take_is_refused_and_nothing_is_written(shop: Shop) {
    shop.imported().await;
    shop.writable().await;
    shop.saved("Part", json!({ "sku": "A-1", "of_order": "1" })).await;
    shop.execute("UPDATE spare_parts SET raw = 'x'").await;
    let deep = (0..105).fold(json!(1), |inner, _| json!([inner]));
    for (of, entity, path, part) in [
        ("Part", json!({ "sku": "A-1" }), "/entity", "the database refuses it"),
        ("Part", json!({ "sku": "B", "of_order": "99" }), "/entity", "the database refuses it"),
        ("Part", json!({ "sku": "B", "raw": "00ff" }), "/entity/raw", "bytes"),
        ("Part", json!({ "id": "none", "sku": "B" }), "/entity/id", "a whole number"),
        ("Part", json!({ "id": "007", "sku": "B" }), "/entity/id", "a whole number"),
        ("Part", json!({ "sku": "B", "extra": deep }), "/entity", "levels"),
        ("Part", json!({ "sku": "B", "extra": { "a": "b\u{0}" } }), "/entity", "U+0000"),
        ("Tag", json!({ "name": "x", "colour": "a\u{0}" }), "/entity", "U+0000"),
        ("Part", json!({ "id": "1", "sku": null }), "/entity/sku", ""),
        ("Tag", json!({ "name": "x", "colour": "none" }), "/entity", "the database refuses it"),
        ("Tag", json!({ "name": "x", "colour": ["red"] }), "/entity/colour", "one value"),
        ("Tag", json!({ "name": "x", "nope": 1 }), "/entity/nope", "no column"),
        ("Tag", json!({ "id": "y", "name": "x" }), "/entity/name", "the same as the id"),
        ("Tag", json!({ "id": "x\u{0}" }), "/entity/id", "U+0000"),
        ("Tag", json!({ "id": 7 }), "/entity/id", "an id is a text"),
    ] {
        let problem = shop.save(of, entity).await.problem(422, "invalid-record");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(part), "{problem}");
    }
    // What is shown and cannot be written is no obstacle to the rest.
    let mut whole = shop.ask("find", "Part", json!({})).await.expect(200)["rows"][0].clone();
    whole["stock"] = json!(1);
    assert_eq!(shop.saved("Part", whole.clone()).await["version"], 2);
    // And leaving it out does not take it away.
    for (without, stock) in [(json!({ "raw": null }), 2), (json!({}), 3)] {
        let mut entity = json!({ "id": "1", "sku": "A-1", "of_order": "1", "stock": stock });
        entity.as_object_mut().unwrap().extend(without.as_object().unwrap().clone());
        let raw = &shop.saved("Part", entity).await["raw"];
        assert!(raw == &whole["raw"] && raw.is_string(), "{raw}");
    }
    let problem = shop.save("Part", json!({ "id": "1", "sku": "A-1", "raw": "79" })).await;
    assert_eq!(problem.problem(422, "invalid-record")["errors"][0]["path"], "/entity/raw");
    let blocked = shop.server.post("types", json!({
        "name": "Kept", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "orders", "writable": true },
    }));
    blocked.await.expect(201);
    let problem = shop.ask("delete", "Kept", json!({ "id": "1" })).await.problem(422, "invalid-record");
    assert!(problem["detail"].as_str().unwrap().contains("the database refuses it"), "{problem}");
    assert_eq!(shop.ask("count", "Part", json!({})).await.expect(200)["count"], 1);
    assert_eq!(shop.ask("count", "Tag", json!({})).await.expect(200)["count"], 0);
    assert_eq!(shop.ask("count", "Kept", json!({})).await.expect(200)["count"], 6);

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

async fn what_a_trigger_ignores_is_refused_once(shop: Shop) {
    shop.writable().await;
    shop.saved("Part", json!({ "sku": "A-1" })).await;
    shop.saved("Tag", json!({ "name": "a", "colour": "red" })).await;
    let triggers = match shop.place {
        // What is written elsewhere by the trigger must not stay either.
        Place::Sqlite(_) => {
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
        Place::Postgres(_) => {
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
    let id = if matches!(shop.place, Place::Sqlite(_)) { "INTEGER" } else { "SERIAL" };
    shop.execute(&format!("CREATE TABLE tries (id {id} PRIMARY KEY); {triggers}")).await;
    for (of, entity) in [
        ("Part", json!({ "sku": "B-2" })),
        ("Part", json!({ "id": "77", "sku": "B-2" })),
        ("Part", json!({ "id": "1", "sku": "A-1", "stock": 9 })),
        ("Part", json!({ "id": "1", "version": 1, "sku": "A-1", "stock": 9 })),
        ("Tag", json!({ "colour": "blue" })),
        ("Tag", json!({ "name": "a", "colour": "blue" })),
    ] {
        let problem = shop.save(of, entity).await.problem(422, "invalid-record");
        assert!(problem["detail"].as_str().unwrap().contains("did not take the row"), "{problem}");
    }
    for (of, id, version) in [("Part", "1", json!(1)), ("Part", "1", Value::Null), ("Tag", "a", Value::Null)] {
        let answer = shop.ask("delete", of, json!({ "id": id, "version": version })).await;
        let problem = answer.problem(422, "invalid-record");
        assert!(problem["detail"].as_str().unwrap().contains("kept the row"), "{problem}");
    }
    shop.ask("delete", "Part", json!({ "id": "1", "version": 7 })).await.problem(409, "version-conflict");
    let text = "name,colour\nb,blue\n";
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Tag");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(text)).await;
    assert!(answer.text.contains("did not take the row"), "{}", answer.text);
    let tries = json!({ "name": "Try", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "tries" } });
    shop.server.post("types", tries).await.expect(201);
    assert_eq!(shop.ask("count", "Try", json!({})).await.expect(200)["count"], 0);
    assert_eq!(shop.ask("count", "Part", json!({})).await.expect(200)["count"], 1);
}

async fn an_id_is_that_of_one_row(shop: Shop) {
    shop.execute(
        "CREATE TABLE visits (place TEXT, other TEXT, pair TEXT, code TEXT UNIQUE, few TEXT, UNIQUE (other, pair));
         CREATE UNIQUE INDEX visits_few ON visits (few) WHERE place = 'x';
         CREATE UNIQUE INDEX visits_lower ON visits (lower(pair));
         INSERT INTO visits VALUES ('a', '1', '1', 'c1', 's'), ('a', '2', '2', 'c2', 's');",
    )
    .await;
    let visit = |name: &str, id: &str, writable: bool| {
        let records =
            json!({ "kind": "sql", "urlSecretRef": "shop-db", "table": "visits", "idField": id, "writable": writable });
        shop.server.post("types", json!({ "name": name, "records": records }))
    };
    for id in ["place", "other", "pair", "few"] {
        let problem = visit("Visit", id, true).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], "/records/idField", "{problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("unique"), "{problem}");
    }
    visit("Seen", "place", false).await.expect(201);
    visit("Visit", "code", true).await.expect(201);
    assert_eq!(shop.saved("Visit", json!({ "code": "c1", "place": "b" })).await["place"], "b");
    // An index that goes is noticed later; until then nothing is changed that was not meant.
    let without = match shop.place {
        Place::Sqlite(_) => {
            "CREATE TABLE copies AS SELECT * FROM visits; DROP TABLE visits; ALTER TABLE copies RENAME TO visits;"
        }
        Place::Postgres(_) => "ALTER TABLE visits DROP CONSTRAINT visits_code_key;",
    };
    shop.execute(&format!("{without} UPDATE visits SET code = 'c'")).await;
    let problem = shop.save("Visit", json!({ "code": "c", "place": "z" })).await.problem(422, "invalid-record");
    assert!(problem["detail"].as_str().unwrap().contains("several rows"), "{problem}");
    shop.ask("delete", "Visit", json!({ "id": "c" })).await.problem(422, "invalid-record");
    assert_eq!(shop.ask("count", "Visit", json!({ "query": "place:z" })).await.expect(200)["count"], 0);
    assert_eq!(shop.ask("count", "Visit", json!({})).await.expect(200)["count"], 2);
    assert_eq!(shop.ask("deleteMany", "Visit", json!({ "query": "code:c" })).await.expect(200)["deletedCount"], 2);
}

async fn the_last_version_is_the_last(shop: Shop) {
    shop.writable().await;
    shop.saved("Part", json!({ "sku": "A-1" })).await;
    let wide =
        if matches!(shop.place, Place::Postgres(_)) { "ALTER TABLE spare_parts ALTER rev TYPE BIGINT;" } else { "" };
    shop.execute(&format!("{wide} UPDATE spare_parts SET rev = {}", i64::MAX)).await;
    let problem = shop.save("Part", json!({ "id": "1", "sku": "B-2" })).await.problem(422, "invalid-record");
    assert_eq!(problem["errors"][0]["path"], "/entity/version", "{problem}");
    assert_eq!(shop.ask("find", "Part", json!({})).await.expect(200)["rows"][0]["sku"], "A-1");
}

async fn what_the_database_fills_in_need_not_be_sent(shop: Shop) {
    let moment = "CURRENT_TIMESTAMP";
    shop.execute(&format!(
        "CREATE TABLE gadgets (code TEXT PRIMARY KEY, label TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'new',
             made TIMESTAMP NOT NULL DEFAULT {moment}, twice INTEGER GENERATED ALWAYS AS (2 * 21) STORED NOT NULL);
         CREATE TABLE counters (id INT PRIMARY KEY, label TEXT NOT NULL);"
    ))
    .await;
    shop.import(json!({ "tables": ["gadgets", "counters"], "apply": true })).await.expect(200);
    for (name, key) in [("Gadget", "code"), ("Counter", "id")] {
        let mut of = shop.server.get(&format!("types/{name}")).await.expect(200);
        assert_eq!(of["jsonSchema"]["required"], json!(["label"]), "{of}");
        assert_eq!(of["records"]["idField"].as_str().unwrap_or("id"), key);
        of["records"]["writable"] = json!(true);
        shop.server.put(&format!("types/{name}"), of).await.expect(200);
    }
    for (tool, input, id) in [
        ("create_gadget", json!({ "id": "g1", "label": "x" }), Some("g1")),
        ("create_gadget", json!({ "code": "g2", "label": "x" }), Some("g2")),
        ("create_gadget", json!({ "label": "x" }), None),
        ("create_counter", json!({ "id": "7", "label": "x" }), Some("7")),
    ] {
        let made = shop.server.call(tool, input).await;
        assert_eq!(made["error"], Value::Null, "{made}");
        let found = &made["output"]["id"];
        assert!(id.is_none_or(|id| found == id), "{made}");
        assert!(
            tool != "create_gadget" || (made["output"]["state"] == "new" && made["output"]["twice"] == 42),
            "{made}"
        );
    }
    for input in [json!({ "label": "x" }), json!({ "id": "x7", "label": "x" }), json!({ "id": "07", "label": "x" })] {
        let refused = shop.server.call("create_counter", input).await;
        assert_eq!(refused["error"]["details"]["reason"], "invalid_record", "{refused}");
    }
    assert_eq!(shop.ask("count", "Counter", json!({})).await.expect(200)["count"], 1);
}

async fn what_others_wrote_is_shown_and_in_nobodys_way(shop: Shop) {
    let (row, note) = match shop.place {
        Place::Sqlite(_) => ("1, 'some day', 9e999, CAST(x'ff61' AS TEXT)", "\u{fffd}a"),
        Place::Postgres(_) => ("1, '0044-03-15 BC', 'NaN', 'a'", "a"),
    };
    shop.execute(&format!(
        "CREATE TABLE oddities (id INTEGER PRIMARY KEY, day DATE, amount DOUBLE PRECISION, note TEXT, other TEXT);
         INSERT INTO oddities VALUES ({row}, 'o'), (2, '2026-01-01', 1, 'b', 'o');"
    ))
    .await;
    shop.import(json!({ "tables": ["oddities"], "apply": true })).await.expect(200);
    let mut of = shop.server.get("types/Oddity").await.expect(200);
    // Of a day and a number the schema says so.
    of["jsonSchema"]["properties"]["day"] =
        json!({ "type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" });
    of["records"]["writable"] = json!(true);
    shop.server.put("types/Oddity", of).await.expect(200);
    let rows = shop.ask("find", "Oddity", json!({})).await.expect(200)["rows"].clone();
    assert_eq!((&rows[0]["note"], &rows[1]["note"]), (&json!(note), &json!("b")), "{rows}");
    assert!(rows[0]["amount"].is_string(), "{rows}");
    let updated = shop.server.call("update_oddity", json!({ "id": "1", "other": "new" })).await;
    assert_eq!((&updated["error"], &updated["output"]["other"]), (&Value::Null, &json!("new")), "{updated}");
    let mut whole = rows[0].clone();
    whole["other"] = json!("newer");
    let saved = shop.saved("Oddity", whole.clone()).await;
    assert_eq!((&saved["other"], &saved["amount"], &saved["day"]), (&json!("newer"), &whole["amount"], &whole["day"]));
    // What is changed has to fit, and so has what is new.
    whole["day"] = json!("another day");
    let problem = shop.save("Oddity", whole.clone()).await.problem(422, "invalid-record");
    let paths: Vec<&Value> = problem["errors"].as_array().unwrap().iter().map(|error| &error["path"]).collect();
    assert_eq!(paths, ["/entity/day"], "{problem}");
    whole["id"] = json!("3");
    let problem = shop.save("Oddity", whole).await.problem(422, "invalid-record");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2, "{problem}");
}

async fn uuids_are_the_same_in_capitals(shop: Shop) {
    if matches!(shop.place, Place::Sqlite(_)) {
        // It has no such type: a text is what it is.
        return;
    }
    shop.execute("CREATE TABLE things (id UUID PRIMARY KEY, label TEXT, hits INTEGER)").await;
    let of = json!({ "name": "Thing", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "things", "writable": true } });
    shop.server.post("types", of).await.expect(201);
    let (capitals, plain) = ("0190E0A2-7C3B-4D5E-8F90-ABCDEF012345", "0190e0a2-7c3b-4d5e-8f90-abcdef012345");
    assert_eq!(shop.saved("Thing", json!({ "id": capitals, "label": "a" })).await["id"], plain);
    for (id, label) in [(capitals, "b"), (plain, "c"), (capitals, "c")] {
        let saved = shop.saved("Thing", json!({ "id": id, "label": label })).await;
        assert_eq!((&saved["id"], &saved["label"]), (&json!(plain), &json!(label)));
    }
    assert_eq!(shop.server.call("get_thing", json!({ "id": capitals })).await["output"]["label"], "c");
    let text = format!("id,hits\n{capitals},3\n");
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Thing");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(text)).await;
    assert!(answer.text.contains("\"updated\":1"), "{}", answer.text);
    shop.save("Thing", json!({ "id": "x7" })).await.problem(422, "invalid-record");
    shop.ask("delete", "Thing", json!({ "id": capitals })).await.expect(200);
    assert_eq!(shop.ask("count", "Thing", json!({})).await.expect(200)["count"], 0);
}

async fn rules_and_permissions_hold_for_writes(shop: Shop) {
    shop.execute("DELETE FROM orders; UPDATE customers SET secret = 'gold'").await;
    let of = json!({
        "name": "Customer", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "customers", "writable": true },
    });
    shop.server.post("types", of).await.expect(201);
    let north =
        shop.server.with_key(&shop.server.issue(json!({ "principal": "northerner", "roles": ["admin"] })).await);
    let save = |entity: Value| ask(&north, "save", "Customer", json!({ "entity": entity }));
    save(json!({ "id": "2", "name": "Mine", "region": "north" })).await.problem(403, "forbidden");
    save(json!({ "id": "1", "name": "Acme", "region": "south" })).await.problem(403, "forbidden");
    save(json!({ "id": "9", "name": "New" })).await.problem(403, "forbidden");
    ask(&north, "delete", "Customer", json!({ "id": "2" })).await.problem(404, "not-found");
    let saved = save(json!({ "id": "1", "name": "Acme Ltd", "region": "north", "secret": "lead" })).await.expect(200);
    assert_eq!(saved["entity"], json!({ "id": "1", "name": "Acme Ltd", "region": "north" }));
    let one = shop.ask("find", "Customer", json!({ "query": "id:1" })).await.expect(200)["rows"][0].clone();
    assert_eq!((&one["name"], &one["secret"]), (&json!("Acme Ltd"), &json!("gold")), "what is hidden is left as it is");
    let removed = ask(&north, "deleteMany", "Customer", json!({ "all": true })).await.expect(200);
    assert_eq!(removed["deletedCount"], 2, "those of the south are not there for them");
    let member = shop.server.member("someone").await;
    ask(&member, "save", "Customer", json!({ "entity": { "name": "x" } })).await.problem(403, "forbidden");
    assert_eq!(shop.ask("count", "Customer", json!({})).await.expect(200)["count"], 1);
}

async fn tables_of_rows_are_imported_into_tables(shop: Shop) {
    shop.writable().await;
    shop.saved("Tag", json!({ "name": "old", "colour": "red", "hits": 1 })).await;
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
    let rows = shop.ask("find", "Tag", json!({ "query": "name:old" })).await.expect(200)["rows"].clone();
    assert_eq!(rows[0]["colour"], "red");

    // What was exported is imported as it was, whatever the schema says of it.
    for (sku, extra) in [
        ("object", json!({ "tags": ["a", 1] })),
        ("list", json!([true, null])),
        ("number", json!(12)),
        ("truth", json!(true)),
        ("digits", json!("12")),
        ("text", json!("plain")),
        ("formula", json!("=1+1")),
    ] {
        shop.saved("Part", json!({ "sku": sku, "extra": extra })).await;
    }
    let before = shop.ask("find", "Part", json!({})).await.expect(200)["rows"].clone();
    let csv = shop.server.get("/api/query/export?rootType=Part&columns=id,sku,extra").await.text;
    shop.execute("UPDATE spare_parts SET extra = NULL").await;
    let request = shop.server.request(reqwest::Method::POST, "/api/query/import?rootType=Part");
    let answer = shop.server.send(request.header("content-type", "text/csv").body(csv)).await;
    let report: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
    assert_eq!((&report["updated"], &report["failures"]), (&json!(7), &json!(0)), "{report}");
    let after = shop.ask("find", "Part", json!({})).await.expect(200)["rows"].clone();
    let extras =
        |rows: &Value| -> Vec<Value> { rows.as_array().unwrap().iter().map(|row| row["extra"].clone()).collect() };
    assert_eq!(extras(&after), extras(&before));
}
