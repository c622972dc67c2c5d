//! Records that stay in a database that was there before: its tables become types, and types become tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};
use tempfile::TempDir;
use toolwright_engine::records::{CompiledType, RecordAction, RecordRule, RecordRules};
use toolwright_engine::{Session, Unavailable};
use toolwright_query::{Field, Query, Scope};

use crate::harness::{Answer, Edition, Home, Server, receipts};

/// A database that somebody made for something else: SQLite beside a server on SQLite, Postgres beside one on Postgres.
struct Shop {
    server: Server,
    place: Place,
}

enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

const TABLES: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, region TEXT, secret TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
    status TEXT NOT NULL CHECK (status IN ('open', 'paid')), total NUMERIC(10, 2), placed_on DATE, notes JSON);
CREATE INDEX orders_by_status ON orders (status);
CREATE TABLE order_lines (order_id INTEGER, line INTEGER, sku TEXT, PRIMARY KEY (order_id, line));
CREATE TABLE \"Odd 'Names'\" (\"Größe\" INTEGER PRIMARY KEY, \"id\" TEXT, \"a\"\"b; DROP TABLE orders; --\" TEXT);
INSERT INTO customers VALUES (1, 'Acme', 'north', 'gold'), (2, 'Bolt', 'south', 'silver'), (3, 'Cube', 'north', NULL);
INSERT INTO orders VALUES
    (1, 1, 'open', 720.50, '2026-01-05', '{\"tags\": [\"new\"]}'), (2, 1, 'open', 1180, '2026-02-01', NULL),
    (3, 1, 'paid', 900, '2026-02-02', NULL), (4, 2, 'open', 650, '2026-02-03', '[1]'), (5, 1, 'open', 99.99, NULL, NULL),
    (6, 1, 'open', 501, '2026-03-01', NULL);
INSERT INTO \"Odd 'Names'\" VALUES (7, 'seven', 'x');
";

impl Shop {
    async fn execute(&self, statement: &str) {
        match &self.place {
            Place::Sqlite(folder) => {
                let url = format!("sqlite:{}?mode=rwc", folder.path().join("shop.db").display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                connection.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
                connection.close().await.unwrap();
            }
            Place::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let statement = format!("SET search_path = public; {statement}");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    fn url(&self) -> String {
        match &self.place {
            Place::Sqlite(_) => "sqlite:shop.db".to_owned(),
            Place::Postgres(url) => url.clone(),
        }
    }

    async fn import(&self, more: Value) -> Answer {
        let mut body = json!({ "secretRef": "shop-db", "tables": ["customers", "orders", "order_lines", "Odd*"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.server.post("types/import/database", body).await
    }

    async fn imported(&self) -> Value {
        self.import(json!({ "apply": true })).await.expect(200)
    }

    async fn ask(&self, route: &str, of: &str, more: Value) -> Answer {
        ask(&self.server, route, of, more).await
    }
}

async fn ask(server: &Server, route: &str, of: &str, more: Value) -> Answer {
    let mut body = json!({ "rootType": of });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post(&format!("/api/query/{route}"), body).await
}

fn ids(found: &Value) -> Vec<&str> {
    found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

/// Whoever is not the administrator has the records of region `north`, without their `secret`.
struct OnlyTheNorth;

impl RecordRules for OnlyTheNorth {
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        of: &'a CompiledType,
        _action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>> {
        let mut rule = RecordRule::default();
        if session.principal.name.as_str() != "admin" && of.name() == "Customer" {
            rule.filters = vec![Query::parse("region:north").unwrap().bind(&Scope::empty()).unwrap()];
            rule.hidden = vec![Field::parse("secret").unwrap()];
        }
        Box::pin(std::future::ready(Ok(rule)))
    }
}

async fn with_shop<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Shop) -> F) {
    let home = Home::new(edition).await;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().to_owned();
    let (server, running) = home
        .start_with(|options| {
            options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()];
            options.sqlite_folder = Some(files);
            options.record_rules = Arc::new(OnlyTheNorth);
        })
        .await;
    let place = match edition {
        Edition::Sqlite => Place::Sqlite(folder),
        Edition::PostgresAndRedis => Place::Postgres(home.database_url()),
    };
    let shop = Shop { server, place };
    shop.execute(TABLES).await;
    shop.server.post("secrets", json!({ "name": "shop-db", "value": shop.url() })).await.expect(201);
    test(shop).await;
    running.stop().await;
    home.remove().await;
}

macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::elsewhere::with_shop($crate::harness::Edition::Sqlite, super::$name).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::elsewhere::with_shop($crate::harness::Edition::PostgresAndRedis, super::$name).await;
            })*
        }
    };
}

mod writes;

on_both!(
    tables_become_types_that_are_only_read,
    questions_mean_what_they_mean_everywhere,
    an_agent_answers_through_tools_of_an_imported_type,
    what_a_rule_hides_is_hidden_here_too,
    an_import_writes_over_nothing_that_is_not_its_own,
    definitions_are_held_against_the_table,
    a_database_that_cannot_be_asked_hurts_only_its_own_calls,
    a_type_is_reached_in_its_realm_and_by_its_secret_only,
    a_thousand_tables_are_imported,
);

async fn tables_become_types_that_are_only_read(shop: Shop) {
    let shown = shop.import(json!({})).await.expect(200);
    let names = |report: &Value| -> Vec<String> {
        report["imported"].as_array().unwrap().iter().map(|one| one["refName"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&shown), ["OddName", "Customer", "Order"]);
    assert_eq!(shown["skipped"][0]["name"], "order_lines");
    assert_eq!(shown["applied"], false);
    shop.server.get("types/Order").await.problem(404, "not-found");

    assert_eq!(names(&shop.imported().await), ["OddName", "Customer", "Order"]);
    let order = shop.server.get("types/Order").await.expect(200);
    assert_eq!(order["source"], "database-imported");
    assert_eq!(
        order["relations"],
        json!([{ "name": "customer", "type": "Customer", "field": "customer_id", "many": false }])
    );
    let properties = &order["jsonSchema"]["properties"];
    assert_eq!(properties["customer_id"], json!({ "type": "string" }));
    assert_eq!(properties["placed_on"], json!({ "type": ["string", "null"], "format": "date" }));
    if matches!(shop.place, Place::Postgres(_)) {
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
        let problem = shop.ask(route, "Order", more).await.problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("live elsewhere"), "{problem}");
    }
    let odd = shop.ask("find", "OddName", json!({})).await.expect(200)["rows"][0].clone();
    assert_eq!(odd, json!({ "id": "7", "Gr__e": 7, "id_2": "seven", "a_b__DROP_TABLE_orders__--": "x" }));
}

async fn questions_mean_what_they_mean_everywhere(shop: Shop) {
    shop.imported().await;
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
        let found = shop.ask("find", "Order", json!({ "query": query })).await.expect(200);
        assert_eq!(ids(&found), expected, "{query}");
        let count = shop.ask("count", "Order", json!({ "query": query })).await.expect(200);
        assert_eq!(count["count"], expected.len(), "{query}");
    }
    assert_eq!(
        ids(&shop.ask("find", "Customer", json!({ "query": "hasIncomingEdge(customer, 4)" })).await.expect(200)),
        ["2"]
    );
    let expanded = shop.ask("find", "Order", json!({ "query": "id:4 && expand(customer)" })).await.expect(200);
    assert_eq!(
        expanded["rows"][0]["customer"],
        json!({ "id": "2", "name": "Bolt", "region": "south", "secret": "silver" })
    );
    let mut page = json!({ "sort": [{ "field": "total", "dir": "DESC" }], "page": { "limit": 4 } });
    let first = shop.ask("find", "Order", page.clone()).await.expect(200);
    assert_eq!(ids(&first), ["2", "3", "1", "4"]);
    page["page"]["cursor"] = first["nextCursor"].clone();
    assert_eq!(ids(&shop.ask("find", "Order", page).await.expect(200)), ["6", "5"]);
    let problem = shop.ask("find", "Order", json!({ "query": "version:#1" })).await.problem(422, "invalid-query");
    assert!(problem["detail"].as_str().unwrap().contains("no field `version`"), "{problem}");
    let csv = shop.server.get("/api/query/export?rootType=Order&columns=id,total&query=status:paid").await;
    assert_eq!(csv.text, "id,total\n3,900\n");
}

async fn an_agent_answers_through_tools_of_an_imported_type(shop: Shop) {
    shop.imported().await;
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
    let receipts = receipts(&run);
    assert_eq!(receipts[0]["output"]["items"], json!([{ "id": "1" }]), "{run}");
    assert_eq!(receipts[1]["output"], json!({ "count": 3 }), "{run}");
    assert_eq!(receipts[2]["output"]["total"].as_f64(), Some(1180.0), "{run}");
    assert_eq!(run["responseText"], "3 orders; the largest is 2.");
}

async fn what_a_rule_hides_is_hidden_here_too(shop: Shop) {
    shop.imported().await;
    let key = shop.server.issue(json!({ "principal": "northerner", "roles": ["admin"] })).await;
    let north = shop.server.with_key(&key);
    let all = ask(&north, "find", "Customer", json!({})).await.expect(200);
    assert_eq!(
        all["rows"],
        json!([{ "id": "1", "name": "Acme", "region": "north" }, { "id": "3", "name": "Cube", "region": "north" }])
    );
    assert_eq!(ask(&north, "count", "Customer", json!({ "query": "text(gold)" })).await.expect(200)["count"], 0);
    assert_eq!(shop.ask("count", "Customer", json!({ "query": "text(gold)" })).await.expect(200)["count"], 1);
    ask(&north, "find", "Customer", json!({ "query": "secret:gold" })).await.problem(422, "invalid-query");
    let expanded = ask(&north, "find", "Order", json!({ "query": "expand(customer)" })).await.expect(200);
    assert_eq!(expanded["rows"][3]["customer"], Value::Null);
    assert_eq!(expanded["rows"][0]["customer"], json!({ "id": "1", "name": "Acme", "region": "north" }));
    let hidden = north.post("tools/get_customer/execute", json!({ "input": { "id": "2" } })).await.expect(200);
    assert_eq!(hidden["error"]["details"]["reason"], "not_found", "{hidden}");
}

async fn an_import_writes_over_nothing_that_is_not_its_own(shop: Shop) {
    shop.server.post("types", json!({ "name": "Customer", "description": "Mine." })).await.expect(201);
    let report = shop.imported().await;
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(shop.server.get("types/Customer").await.expect(200)["description"], "Mine.");
    let again = shop.imported().await;
    assert_eq!((again["imported"].as_array().unwrap().len(), again["unchanged"].as_array().unwrap().len()), (0, 2));

    shop.execute("ALTER TABLE orders ADD COLUMN channel TEXT").await;
    let skipped = shop.imported().await;
    assert!(skipped["skipped"].to_string().contains("use `update`"), "{skipped}");
    let updated = shop.import(json!({ "apply": true, "update": true })).await.expect(200);
    assert_eq!(updated["updated"], json!([{ "refName": "Order" }]));
    assert_eq!(shop.ask("count", "Order", json!({ "query": "channel:null" })).await.expect(200)["count"], 6);

    // What a person has changed is theirs.
    shop.server.patch("types/Order", json!({ "description": "What was bought." })).await.expect(200);
    let kept = shop.import(json!({ "apply": true, "update": true })).await.expect(200);
    assert!(kept["skipped"].to_string().contains("changed since"), "{kept}");
    // A column that the person leaves out is not shown.
    let mut order = shop.server.get("types/Order").await.expect(200);
    order["jsonSchema"]["properties"].as_object_mut().unwrap().remove("total");
    order["jsonSchema"]["required"] = json!([]);
    shop.server.put("types/Order", order).await.expect(200);
    let found = shop.ask("find", "Order", json!({ "query": "id:1" })).await.expect(200);
    assert_eq!((found["rows"][0].get("total"), &found["rows"][0]["status"]), (None, &json!("open")));
    // A type whose records are elsewhere goes without touching them.
    assert_eq!(shop.server.delete("types/Order").await.status.as_u16(), 204);
}

async fn definitions_are_held_against_the_table(shop: Shop) {
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
    let found = shop.ask("find", "Order", json!({ "query": "state:paid" })).await.expect(200);
    assert_eq!(found["rows"][0]["id"], "3");
    assert_eq!(found["rows"][0].as_object().unwrap().len(), 3, "{found}");
    // Without a schema every column is shown.
    let all =
        json!({ "name": "Everything", "records": { "kind": "sql", "urlSecretRef": "shop-db", "table": "customers" } });
    shop.server.post("types", all).await.expect(201);
    let found = shop.ask("find", "Everything", json!({ "query": "name:Bolt" })).await.expect(200);
    assert_eq!(found["rows"][0], json!({ "id": "2", "name": "Bolt", "region": "south", "secret": "silver" }));
    // And no other can be asked about, or sorted by.
    for (more, path) in [
        (json!({ "query": "nope:1" }), "/query"),
        (json!({ "query": "name:Bolt && !!nope.deeper:~" }), "/query"),
        (json!({ "sort": [{ "field": "nope" }] }), "/sort"),
    ] {
        let problem = shop.ask("find", "Everything", more).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("has no field `nope"), "{problem}");
    }
    for route in ["count", "plan", "deleteMany"] {
        let answer = shop.ask(route, "Everything", json!({ "query": "nope:1" })).await;
        assert!(matches!(answer.status.as_u16(), 403 | 422), "{route}");
    }
}

async fn a_database_that_cannot_be_asked_hurts_only_its_own_calls(shop: Shop) {
    shop.imported().await;
    for (name, url, because) in [
        ("private", "postgres://a:s3cr3t@10.0.0.1/x", "not a public address"),
        ("elsewhere", "sqlite:../../etc/passwd", "no such file"),
        ("absolute", "sqlite:///etc/passwd", "no such file"),
        ("wrong", "s3cr3t", "no URL"),
    ] {
        shop.server.post("secrets", json!({ "name": name, "value": url })).await.expect(201);
        let problem = shop.import(json!({ "secretRef": name })).await.problem(422, "cannot-import");
        assert!(problem["detail"].as_str().unwrap().contains(because), "{problem}");
        assert!(!problem.to_string().contains("s3cr3t"), "{problem}");
        let of = json!({ "name": format!("Of-{name}"), "records": { "kind": "sql", "urlSecretRef": name, "table": "orders" } });
        let created = shop.server.post("types", of).await.expect(201);
        assert!(created["warnings"][0].as_str().unwrap().contains(because), "{created}");
        shop.ask("find", &format!("Of-{name}"), json!({})).await.problem(502, "upstream-failed");
    }
    shop.import(json!({ "secretRef": "no-such" })).await.problem(422, "cannot-import");
    // What is there is no database, or lets nobody in.
    let (url, because) = match &shop.place {
        Place::Sqlite(folder) => {
            std::fs::write(folder.path().join("letter.db"), "Dear reader, ".repeat(100)).unwrap();
            ("sqlite:letter.db".to_owned(), "is no SQLite database")
        }
        Place::Postgres(url) => (format!("{url}_that_never_was"), "no database of that name"),
    };
    shop.server.post("secrets", json!({ "name": "letter", "value": url })).await.expect(201);
    let problem = shop.import(json!({ "secretRef": "letter" })).await.problem(422, "cannot-import");
    assert_eq!(problem["errors"][0]["path"], "/secretRef");
    assert!(problem["detail"].as_str().unwrap().contains(because), "{problem}");
    let of = json!({ "name": "Letter", "records": { "kind": "sql", "urlSecretRef": "letter", "table": "orders" } });
    assert!(shop.server.post("types", of).await.expect(201)["warnings"].to_string().contains(because));
    let problem = shop.ask("count", "Letter", json!({})).await.problem(502, "upstream-failed");
    assert!(problem["detail"].as_str().unwrap().contains(because), "{problem}");
    // Nobody listens there.
    shop.server.post("secrets", json!({ "name": "dead", "value": "postgres://a:b@127.0.0.1:1/x" })).await.expect(201);
    let of = json!({ "name": "Dead", "records": { "kind": "sql", "urlSecretRef": "dead", "table": "orders" } });
    let created = shop.server.post("types", of).await.expect(201);
    assert!(created["warnings"][0].as_str().unwrap().contains("does not answer"), "{created}");
    shop.ask("count", "Dead", json!({})).await.problem(503, "unavailable");
    shop.ask("export", "Dead", json!({})).await.problem(503, "unavailable");
    let call = shop.server.post("tools/count_deads/execute", json!({ "input": {} })).await.expect(200);
    assert_eq!(call["error"]["code"], "PROVIDER_ERROR", "{call}");
    assert_eq!(shop.ask("count", "Order", json!({})).await.expect(200)["count"], 6);
    // A table that goes takes only its own type along.
    shop.execute("DROP TABLE orders").await;
    assert!(shop.ask("count", "Order", json!({})).await.status.is_server_error());
    assert_eq!(shop.ask("count", "Customer", json!({})).await.expect(200)["count"], 3);
}

async fn a_type_is_reached_in_its_realm_and_by_its_secret_only(shop: Shop) {
    shop.imported().await;
    shop.server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = shop.server.in_realm("other");
    ask(&other, "count", "Order", json!({})).await.problem(404, "not-found");
    let member = shop.server.member("someone").await;
    assert_eq!(ask(&member, "count", "Order", json!({})).await.expect(200)["count"], 6);
    member.post("types/import/database", json!({ "secretRef": "shop-db" })).await.problem(403, "forbidden");
    // A secret of one's own by the same name leads nobody elsewhere.
    member.post("secrets", json!({ "name": "shop-db", "value": "sqlite:mine.db", "scope": "user" })).await.expect(201);
    assert_eq!(ask(&member, "count", "Order", json!({})).await.expect(200)["count"], 6);
    // A new value of the secret counts from the next question on.
    shop.server.post("secrets", json!({ "name": "shop-db", "value": "sqlite:none.db" })).await;
    shop.ask("count", "Order", json!({})).await.problem(502, "upstream-failed");
}

async fn a_thousand_tables_are_imported(shop: Shop) {
    let all: Vec<String> =
        (0..960).map(|n| format!("CREATE TABLE t{n} (id INTEGER PRIMARY KEY, name TEXT);")).collect();
    shop.execute(&all.concat()).await;
    let shown = shop.import(json!({ "tables": ["t*"] })).await.expect(200);
    assert!(shown["imported"].as_array().unwrap().len() >= 960, "{shown}");
    let more: Vec<String> = (0..60).map(|n| format!("CREATE TABLE u{n} (id INTEGER PRIMARY KEY);")).collect();
    shop.execute(&more.concat()).await;
    let problem = shop.import(json!({ "tables": [] })).await.problem(422, "cannot-import");
    assert!(problem["detail"].as_str().unwrap().contains("more than 1000 types"), "{problem}");
}
