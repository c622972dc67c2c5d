//! Tests entity types whose records are rows of an external SQL database: import, queries, writes and tools.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};
use tempfile::TempDir;
use toolwright_catalog::CompiledType;
use toolwright_catalog::{Session, Unavailable};
use toolwright_query::{BindContext, Field, Query};
use toolwright_records::{RecordAction, RecordRule, RecordRules};

use crate::harness::{Deployment, Response, Server, Storage};

/// A server and an external shop database. Both use SQLite, or both use Postgres.
struct Shop {
    server: Server,
    database: ShopDatabase,
}

enum ShopDatabase {
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

/// Additional tables for the write tests. They have columns of many SQL types.
const WRITABLE_TABLES: &str = "
CREATE TABLE spare_parts (
    id INTEGER PRIMARY KEY, sku TEXT UNIQUE NOT NULL, price NUMERIC(10, 2), stock INTEGER DEFAULT 5, active BOOLEAN, made TIMESTAMP,
    extra JSON, raw BLOB, of_order INTEGER REFERENCES orders (id), hidden TEXT DEFAULT 'kept', rev INTEGER NOT NULL);
CREATE TABLE shop_tags (name TEXT PRIMARY KEY, colour TEXT CHECK (colour <> 'none'), hits INTEGER);
";

impl Shop {
    async fn execute(&self, statement: &str) {
        match &self.database {
            ShopDatabase::Sqlite(folder) => {
                let url = format!("sqlite:{}?mode=rwc", folder.path().join("shop.db").display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                connection.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
                connection.close().await.unwrap();
            }
            ShopDatabase::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let statement = format!("SET search_path = public; {statement}");
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    fn url(&self) -> String {
        match &self.database {
            ShopDatabase::Sqlite(_) => "sqlite:shop.db".to_owned(),
            ShopDatabase::Postgres(url) => url.clone(),
        }
    }

    async fn import(&self, more: Value) -> Response {
        let mut body = json!({ "secretRef": "shop-db", "tables": ["customers", "orders", "order_lines", "Odd*"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.server.post("types/import/database", body).await
    }

    async fn import_all(&self) -> Value {
        self.import(json!({ "apply": true })).await.expect(200)
    }

    async fn gateway(&self, route: &str, entity_type: &str, more: Value) -> Response {
        gateway(&self.server, route, entity_type, more).await
    }

    /// Creates [`WRITABLE_TABLES`] and the writable types `Part` and `Tag` for them. `Part` has a version column, `Tag`
    /// has none.
    async fn define_writable_types(&self) {
        let tables = match self.database {
            ShopDatabase::Sqlite(_) => WRITABLE_TABLES.to_owned(),
            ShopDatabase::Postgres(_) => {
                WRITABLE_TABLES.replace("BLOB", "BYTEA").replace("id INTEGER PRIMARY", "id SERIAL PRIMARY")
            }
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
        for entity_type in [part, tag] {
            let created = self.server.post("types", entity_type).await.expect(201);
            assert!(!created["warnings"].to_string().contains("reached"), "{created}");
        }
    }

    async fn try_save(&self, entity_type: &str, entity: Value) -> Response {
        self.gateway("save", entity_type, json!({ "entity": entity })).await
    }

    async fn save(&self, entity_type: &str, entity: Value) -> Value {
        self.try_save(entity_type, entity).await.expect(200)["entity"].clone()
    }
}

async fn gateway(server: &Server, route: &str, entity_type: &str, more: Value) -> Response {
    let mut body = json!({ "rootType": entity_type });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post(&format!("/api/query/{route}"), body).await
}

fn ids(found: &Value) -> Vec<&str> {
    found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

/// Rules for everyone except the administrator: only customers with the region `north` are visible, and their field
/// `secret` is hidden.
struct NorthOnlyRules;

impl RecordRules for NorthOnlyRules {
    fn rule<'a>(
        &'a self,
        session: &'a Session,
        entity_type: &'a CompiledType,
        _action: RecordAction,
    ) -> BoxFuture<'a, Result<RecordRule, Unavailable>> {
        let mut rule = RecordRule::default();
        if session.principal.name.as_str() != "admin" && entity_type.name() == "Customer" {
            rule.filters = vec![Query::parse("region:north").unwrap().bind(&BindContext::empty()).unwrap()];
            rule.hidden = vec![Field::parse("secret").unwrap()];
        }
        Box::pin(std::future::ready(Ok(rule)))
    }
}

async fn with_shop<F: Future<Output = ()>>(storage: Storage, test: impl FnOnce(Shop) -> F) {
    let deployment = Deployment::new(storage).await;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().to_owned();
    let (server, running) = deployment
        .start_with(|options| {
            options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()];
            options.sqlite_folder = Some(files);
            options.record_rules = Arc::new(NorthOnlyRules);
        })
        .await;
    let database = match storage {
        Storage::Sqlite => ShopDatabase::Sqlite(folder),
        Storage::PostgresAndRedis => ShopDatabase::Postgres(deployment.database_url()),
    };
    let shop = Shop { server, database };
    shop.execute(TABLES).await;
    shop.server.post("secrets", json!({ "name": "shop-db", "value": shop.url() })).await.expect(201);
    test(shop).await;
    running.stop().await;
    deployment.remove().await;
}

macro_rules! on_both_shops {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::sql_records::with_shop($crate::harness::Storage::Sqlite, super::$name).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::sql_records::with_shop($crate::harness::Storage::PostgresAndRedis, super::$name).await;
            })*
        }
    };
}

mod reads;
mod unusual_tables;
mod writes;
