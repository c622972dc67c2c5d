//! Records as CSV: what comes out goes in again, and a bad row keeps no good one out.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Server};
use crate::types::order;

crate::on_both_editions!(
    rows_become_records,
    an_object_in_a_cell_is_the_whole_value,
    a_text_that_ends_within_quotes_is_refused_whole,
    rows_that_are_wrong_are_told_by_line,
    what_is_exported_is_imported_as_it_was,
    tables_that_make_no_sense_are_refused,
    many_rows_come_in_batches,
);

impl Server {
    async fn import(&self, of: &str, text: &str) -> Answer {
        let request = self.request(Method::POST, &format!("/api/query/import?rootType={of}"));
        self.send(request.header("content-type", "text/csv").body(text.to_owned())).await
    }

    async fn export(&self, body: Value) -> String {
        let answer = self.post("/api/query/export", body).await;
        assert_eq!(answer.headers["content-type"], "text/csv; charset=utf-8", "{}", answer.text);
        answer.text
    }

    async fn records(&self, of: &str) -> Vec<Value> {
        let found = self
            .post("/api/query/find", json!({ "rootType": of, "fields": "-auditInfo", "page": { "limit": 1000 } }))
            .await;
        found.expect(200)["rows"].as_array().unwrap().clone()
    }
}

/// The lines of a report.
fn lines(answer: Answer) -> Vec<Value> {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn rows_become_records(server: Server) {
    server.post("types", order()).await.expect(201);
    let text = "\u{feff}id,status,totalAmount,createdDate,lines,note\r\n\
        o1,open,700.5,2024-01-05,\"[{\"\"sku\"\":\"\"A\"\"}]\",\"two\nlines, and a \"\"quote\"\"\"\r\n\
        o2,paid,,,,\r\n,shipped,1,,,no id\r\n";
    let report = lines(server.import("Order", text).await);
    assert_eq!(report, [json!({ "created": 3, "updated": 0, "failed": [], "failures": 0, "done": true })]);
    let records = server.records("Order").await;
    let first = records.iter().find(|record| record["id"] == "o1").unwrap();
    assert_eq!((&first["totalAmount"], &first["lines"][0]["sku"]), (&json!(700.5), &json!("A")));
    assert_eq!(first["note"], "two\nlines, and a \"quote\"");
    let second = records.iter().find(|record| record["id"] == "o2").unwrap();
    assert_eq!(second.get("totalAmount"), None, "an empty cell is no value");
    // Those that are there are changed where the table has something to say.
    let report = lines(server.import("Order", "id,status\no1,paid\no9,open\n").await);
    assert_eq!((&report[0]["created"], &report[0]["updated"]), (&json!(1), &json!(1)));
    let first = server.records("Order").await.into_iter().find(|record| record["id"] == "o1").unwrap();
    assert_eq!(
        (&first["status"], &first["totalAmount"], &first["version"]),
        (&json!("paid"), &json!(700.5), &json!(2))
    );
}

async fn an_object_in_a_cell_is_the_whole_value(server: Server) {
    let schema = json!({ "properties": { "size": { "type": "object" }, "label": { "type": "string" } } });
    server.post("types", json!({ "name": "Box", "jsonSchema": schema })).await.expect(201);
    let step = |text: &'static str| {
        let server = server.clone();
        async move {
            let report = lines(server.import("Box", text).await);
            assert_eq!(report[0]["failures"], 0, "{report:?}");
            server.records("Box").await[0].clone()
        }
    };
    let first = step("id,size,label\nb1,\"{\"\"w\"\":1,\"\"h\"\":2}\",small\n").await;
    assert_eq!(first["size"], json!({ "w": 1, "h": 2 }));
    let second = step("id,size\nb1,\"{\"\"w\"\":3,\"\"d\"\":null}\"\n").await;
    assert_eq!((&second["size"], &second["label"]), (&json!({ "w": 3, "d": null }), &json!("small")));
    let third = step("id,size.h,label\nb1,9,\n").await;
    assert_eq!((&third["size"], &third["label"]), (&json!({ "w": 3, "d": null, "h": 9 }), &json!("small")));
    assert_eq!(step("id,size\nb1,null\n").await.get("size"), None);
}

async fn a_text_that_ends_within_quotes_is_refused_whole(server: Server) {
    server.post("types", order()).await.expect(201);
    let problem =
        server.import("Order", "id,status\no1,open\no2,\"open\no3,open\n").await.problem(422, "invalid-query");
    let error = &problem["errors"][0];
    assert_eq!((&error["path"], &error["line"], &error["column"]), (&json!(""), &json!(3), &json!(4)), "{problem}");
    assert!(error["message"].as_str().unwrap().contains("never closed"), "{problem}");
    assert_eq!(server.records("Order").await, [Value::Null; 0]);
}

async fn rows_that_are_wrong_are_told_by_line(server: Server) {
    server.post("types", order()).await.expect(201);
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
    let report = lines(server.import("Order", text).await);
    let failed = report[0]["failed"].as_array().unwrap();
    let told: Vec<(u64, &str)> =
        failed.iter().map(|row| (row["line"].as_u64().unwrap(), row["message"].as_str().unwrap())).collect();
    for (line, part) in [
        (3, "/status"),
        (4, "`totalAmount`: `much` is no number"),
        (5, "`lines`: `{` is not JSON"),
        (6, "has 2 cells"),
        (7, "also that of line 2"),
        (8, "an id has 1 to 128 letters"),
        (9, "U+0000"),
        (10, "no record `o7`"),
    ] {
        assert!(told.iter().any(|(at, message)| *at == line && message.contains(part)), "{line} {part}: {told:#?}");
    }
    assert_eq!((&report[0]["created"], &report[0]["failures"]), (&json!(2), &json!(8)));
    let ids: Vec<Value> = server.records("Order").await.iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids, ["o1", "o8"]);
}

async fn what_is_exported_is_imported_as_it_was(server: Server) {
    server.post("types", order()).await.expect(201);
    let notes = ["=1+1", "-5", "'=x", "a,b\n\"c\"", "plain", "@x", "ä🦀"];
    for (n, note) in notes.iter().enumerate() {
        let entity = json!({ "id": format!("o{n}"), "status": "open", "totalAmount": 1.5 * n as f64, "note": note, "lines": [{ "sku": note, "quantity": n }] });
        server.post("/api/query/save", json!({ "rootType": "Order", "entity": entity })).await.expect(200);
    }
    let before = server.records("Order").await;
    let text = server.export(json!({ "rootType": "Order" })).await;
    assert!(text.starts_with("id,status,customerId,totalAmount,createdDate,lines,note\n"), "{text}");
    assert!(text.contains(",'=1+1\n"), "no cell is a formula: {text}");
    let all = json!({ "rootType": "Order", "all": true });
    assert_eq!(server.post("/api/query/deleteMany", all).await.expect(200)["deletedCount"], 7);
    assert_eq!(lines(server.import("Order", &text).await)[0]["created"], 7);
    assert_eq!(server.records("Order").await, before);
    let part = server
        .export(json!({ "rootType": "Order", "query": "note:plain", "columns": "note, id, dataDomain.ownerId" }))
        .await;
    assert_eq!(part, "note,id,dataDomain.ownerId\nplain,o4,admin\n");
    let link = server.get("/api/query/export?rootType=Order&query=id:o4&columns=id").await;
    assert_eq!(link.text, "id\no4\n");
    // A type that declares no fields shows what its records have.
    server.post("types", json!({ "name": "Loose" })).await.expect(201);
    server
        .post("/api/query/save", json!({ "rootType": "Loose", "entity": { "id": "x", "b": 1, "a": { "c": true } } }))
        .await
        .expect(200);
    assert_eq!(server.export(json!({ "rootType": "Loose" })).await, "id,a,b\nx,\"{\"\"c\"\":true}\",1\n");
}

async fn tables_that_make_no_sense_are_refused(server: Server) {
    server.post("types", order()).await.expect(201);
    for text in [
        "",
        "nothing\n1\n",
        "id,id\na,b\n",
        "id,a'; DROP TABLE\n",
        "\"id\u{0}\"\n",
        "id,,status\n",
        "lines.sku.deep\n1\n",
    ] {
        let problem = server.import("Order", text).await.problem(422, "invalid-query");
        assert_eq!(problem["errors"][0]["path"], "/columns", "{text}: {problem}");
    }
    server.import("Nothing", "id\n").await.problem(404, "not-found");
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
    member.import("Order", "id,status\na,open\n").await.problem(403, "forbidden");
    assert_eq!(server.records("Order").await, [Value::Null; 0]);
}

async fn many_rows_come_in_batches(server: Server) {
    server.post("types", order()).await.expect(201);
    let rows: String = (0..1200).map(|n| format!("r{n:04},{}\n", if n == 700 { "lost" } else { "open" })).collect();
    let report = lines(server.import("Order", &format!("id,status\n{rows}")).await);
    let created: Vec<u64> = report.iter().map(|line| line["created"].as_u64().unwrap()).collect();
    assert_eq!(created, [500, 999, 1199]);
    assert_eq!(report[1]["failed"][0]["line"], 702);
    assert_eq!(
        (&report[2]["failed"], &report[2]["failures"], &report[2]["done"]),
        (&json!([]), &json!(1), &json!(true))
    );
    let text = server.export(json!({ "rootType": "Order", "columns": "id", "sort": "-id" })).await;
    let ids: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!((ids.len(), ids[0], ids[1198]), (1199, "r1199", "r0000"));
}
