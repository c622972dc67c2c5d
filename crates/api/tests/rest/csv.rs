//! Tests the CSV import and export of records.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Response, Server};
use crate::types::order_type;

crate::on_both_databases!(
    csv_import_creates_and_updates_records,
    object_in_a_csv_cell_replaces_the_whole_value,
    csv_file_with_an_unclosed_quote_is_rejected,
    invalid_csv_rows_are_reported_with_their_line,
    exported_csv_can_be_imported_without_changing_records,
    csv_file_with_invalid_columns_is_rejected,
    csv_import_reports_progress_after_every_batch_of_500_rows,
);

impl Server {
    async fn import_csv(&self, entity_type: &str, text: &str) -> Response {
        let request = self.request(Method::POST, &format!("/api/query/import?rootType={entity_type}"));
        self.send(request.header("content-type", "text/csv").body(text.to_owned())).await
    }

    async fn export_csv(&self, body: Value) -> String {
        let answer = self.post("/api/query/export", body).await;
        assert_eq!(answer.headers["content-type"], "text/csv; charset=utf-8", "{}", answer.text);
        answer.text
    }

    async fn records(&self, entity_type: &str) -> Vec<Value> {
        let found = self
            .post(
                "/api/query/find",
                json!({ "rootType": entity_type, "fields": "-auditInfo", "page": { "limit": 1000 } }),
            )
            .await;
        found.expect(200)["rows"].as_array().unwrap().clone()
    }
}

/// Parses each line of an import response as JSON.
fn report_lines(answer: Response) -> Vec<Value> {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn csv_import_creates_and_updates_records(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let text = "\u{feff}id,status,totalAmount,createdDate,lines,note\r\n\
        o1,open,700.5,2024-01-05,\"[{\"\"sku\"\":\"\"A\"\"}]\",\"two\nlines, and a \"\"quote\"\"\"\r\n\
        o2,paid,,,,\r\n,shipped,1,,,no id\r\n";
    let report = report_lines(server.import_csv("Order", text).await);
    assert_eq!(report, [json!({ "created": 3, "updated": 0, "failed": [], "failures": 0, "done": true })]);
    let records = server.records("Order").await;
    let first = records.iter().find(|record| record["id"] == "o1").unwrap();
    assert_eq!((&first["totalAmount"], &first["lines"][0]["sku"]), (&json!(700.5), &json!("A")));
    assert_eq!(first["note"], "two\nlines, and a \"quote\"");
    let second = records.iter().find(|record| record["id"] == "o2").unwrap();
    assert_eq!(second.get("totalAmount"), None, "an empty cell sets no value");
    // In existing records, the import changes only the fields that have a column in the file.
    let report = report_lines(server.import_csv("Order", "id,status\no1,paid\no9,open\n").await);
    assert_eq!((&report[0]["created"], &report[0]["updated"]), (&json!(1), &json!(1)));
    let first = server.records("Order").await.into_iter().find(|record| record["id"] == "o1").unwrap();
    assert_eq!(
        (&first["status"], &first["totalAmount"], &first["version"]),
        (&json!("paid"), &json!(700.5), &json!(2))
    );
}

async fn object_in_a_csv_cell_replaces_the_whole_value(server: Server) {
    let schema = json!({ "properties": { "size": { "type": "object" }, "label": { "type": "string" } } });
    server.post("types", json!({ "name": "Box", "jsonSchema": schema })).await.expect(201);
    let import_box = |text: &'static str| {
        let server = server.clone();
        async move {
            let report = report_lines(server.import_csv("Box", text).await);
            assert_eq!(report[0]["failures"], 0, "{report:?}");
            server.records("Box").await[0].clone()
        }
    };
    let first = import_box("id,size,label\nb1,\"{\"\"w\"\":1,\"\"h\"\":2}\",small\n").await;
    assert_eq!(first["size"], json!({ "w": 1, "h": 2 }));
    let second = import_box("id,size\nb1,\"{\"\"w\"\":3,\"\"d\"\":null}\"\n").await;
    assert_eq!((&second["size"], &second["label"]), (&json!({ "w": 3, "d": null }), &json!("small")));
    let third = import_box("id,size.h,label\nb1,9,\n").await;
    assert_eq!((&third["size"], &third["label"]), (&json!({ "w": 3, "d": null, "h": 9 }), &json!("small")));
    assert_eq!(import_box("id,size\nb1,null\n").await.get("size"), None);
}

async fn csv_file_with_an_unclosed_quote_is_rejected(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let problem =
        server.import_csv("Order", "id,status\no1,open\no2,\"open\no3,open\n").await.problem(422, "invalid-query");
    let error = &problem["errors"][0];
    assert_eq!((&error["path"], &error["line"], &error["column"]), (&json!(""), &json!(3), &json!(4)), "{problem}");
    assert!(error["message"].as_str().unwrap().contains("never closed"), "{problem}");
    assert_eq!(server.records("Order").await, [Value::Null; 0]);
}

async fn invalid_csv_rows_are_reported_with_their_line(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let text = "id,status,totalAmount,lines,note,version\n\
        o1,open,1,,,\n\
        o2,lost,1,,,\n\
        o3,open,much,,,\n\
        o4,open,1,{,,\n\
        o5,open\n\
        o1,paid,1,,,\n\
        \"'; DROP TABLE records; --\",open,1,,,\n\
        o6,open,1,,a\0b,\n\
        o7,open,1,,,7\n\
        o8,open,1,,=1+1,\n";
    let report = report_lines(server.import_csv("Order", text).await);
    let failed = report[0]["failed"].as_array().unwrap();
    let messages: Vec<(u64, &str)> =
        failed.iter().map(|row| (row["line"].as_u64().unwrap(), row["message"].as_str().unwrap())).collect();
    for (line, expected) in [
        (3, "/status"),
        (4, "`totalAmount` must be a number, got `much`"),
        (5, "`lines` must be JSON, got `{`"),
        (6, "got 2"),
        (7, "already used on line 2"),
        (8, "between 1 and 128 letters"),
        (9, "U+0000"),
        (10, "no record `o7`"),
    ] {
        assert!(
            messages.iter().any(|(at, message)| *at == line && message.contains(expected)),
            "{line} {expected}: {messages:#?}"
        );
    }
    assert_eq!((&report[0]["created"], &report[0]["failures"]), (&json!(2), &json!(8)));
    let ids: Vec<Value> = server.records("Order").await.iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids, ["o1", "o8"]);
}

async fn exported_csv_can_be_imported_without_changing_records(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let notes = ["=1+1", "-5", "'=x", "a,b\n\"c\"", "plain", "@x", "ä🦀"];
    for (n, note) in notes.iter().enumerate() {
        let entity = json!({ "id": format!("o{n}"), "status": "open", "totalAmount": 1.5 * n as f64, "note": note, "lines": [{ "sku": note, "quantity": n }] });
        server.post("/api/query/save", json!({ "rootType": "Order", "entity": entity })).await.expect(200);
    }
    let before = server.records("Order").await;
    let text = server.export_csv(json!({ "rootType": "Order" })).await;
    assert!(text.starts_with("id,status,customerId,totalAmount,createdDate,lines,note\n"), "{text}");
    assert!(text.contains(",'=1+1\n"), "formulas are escaped: {text}");
    let all = json!({ "rootType": "Order", "all": true });
    assert_eq!(server.post("/api/query/deleteMany", all).await.expect(200)["deletedCount"], 7);
    assert_eq!(report_lines(server.import_csv("Order", &text).await)[0]["created"], 7);
    assert_eq!(server.records("Order").await, before);
    let selected = server
        .export_csv(json!({ "rootType": "Order", "query": "note:plain", "columns": "note, id, dataDomain.ownerId" }))
        .await;
    assert_eq!(selected, "note,id,dataDomain.ownerId\nplain,o4,admin\n");
    let link = server.get("/api/query/export?rootType=Order&query=id:o4&columns=id").await;
    assert_eq!(link.text, "id\no4\n");
    // If a type declares no fields, the export contains the fields that its records have.
    server.post("types", json!({ "name": "Loose" })).await.expect(201);
    server
        .post("/api/query/save", json!({ "rootType": "Loose", "entity": { "id": "x", "b": 1, "a": { "c": true } } }))
        .await
        .expect(200);
    assert_eq!(server.export_csv(json!({ "rootType": "Loose" })).await, "id,a,b\nx,\"{\"\"c\"\":true}\",1\n");
}

async fn csv_file_with_invalid_columns_is_rejected(server: Server) {
    server.post("types", order_type()).await.expect(201);
    for text in [
        "",
        "nothing\n1\n",
        "id,id\na,b\n",
        "id,a'; DROP TABLE\n",
        "\"id\u{0}\"\n",
        "id,,status\n",
        "lines.sku.deep\n1\n",
    ] {
        let problem = server.import_csv("Order", text).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], "/columns", "{text}: {problem}");
    }
    server.import_csv("Nothing", "id\n").await.problem(404, "not-found");
    let request = server.request(Method::POST, "/api/query/import?rootType=Order").body(vec![0xff, 0xfe, b'\n']);
    server.send(request).await.problem(422, "invalid-query");
    server.post("/api/query/import", json!({})).await.problem(400, "invalid-request");
    for body in [
        json!({ "rootType": "Order", "query": "(" }),
        json!({ "rootType": "Order", "columns": "nothing" }),
        json!({ "rootType": "Order", "sort": "nothing" }),
    ] {
        server.post("/api/query/export", body).await.problem(422, "invalid-query");
    }
    let member = server.member("someone").await;
    member.import_csv("Order", "id,status\na,open\n").await.problem(403, "forbidden");
    assert_eq!(server.records("Order").await, [Value::Null; 0]);
}

async fn csv_import_reports_progress_after_every_batch_of_500_rows(server: Server) {
    server.post("types", order_type()).await.expect(201);
    let rows: String = (0..1200).map(|n| format!("r{n:04},{}\n", if n == 700 { "lost" } else { "open" })).collect();
    let report = report_lines(server.import_csv("Order", &format!("id,status\n{rows}")).await);
    let created: Vec<u64> = report.iter().map(|line| line["created"].as_u64().unwrap()).collect();
    assert_eq!(created, [500, 999, 1199]);
    assert_eq!(report[1]["failed"][0]["line"], 702);
    assert_eq!(
        (&report[2]["failed"], &report[2]["failures"], &report[2]["done"]),
        (&json!([]), &json!(1), &json!(true))
    );
    let text = server.export_csv(json!({ "rootType": "Order", "columns": "id", "sort": "-id" })).await;
    let ids: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!((ids.len(), ids[0], ids[1198]), (1199, "r1199", "r0000"));
}
