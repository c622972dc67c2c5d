//! GRPC tools against a real server.

use base64::Engine;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::{Handle, LOOPBACK};

use crate::harness::{Server, with};

crate::on_sqlite!(
    a_method_is_called_with_json_and_answers_with_json,
    a_stream_is_collected,
    every_status_is_one_of_the_nine_codes,
    a_call_that_takes_too_long_ends,
    credentials_and_headers_go_along,
    a_server_that_does_not_describe_itself_needs_a_description,
    servers_of_some_age_are_asked_in_their_way,
    what_is_no_call_is_told_before_anything_is_sent,
    private_servers_are_out_of_reach,
    a_server_that_is_gone_is_a_network_error,
    a_control_plane_is_reached_as_its_provider_says,
    a_server_becomes_tools,
    an_import_that_cannot_be_says_why_and_writes_nothing,
    an_import_without_a_method_that_fits_is_none
);

const SERVICE: &str = "toolwright.fixture.v1.Inventory";

async fn provider(server: &Server, base_url: &str, more: Value) {
    let body =
        json!({ "refName": "stock", "providerType": "GRPC", "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", with(body, more)).await.expect(201);
}

async fn tool(server: &Server, method: &str, more: Value) {
    let body = json!({ "refName": method, "toolType": "GRPC", "providerRef": "stock", "description": method,
        "invocation": { "path": format!("{SERVICE}/{method}") } });
    server.post("tools", with(body, more)).await.expect(201);
}

pub async fn inventory(server: &Server, methods: &[&str]) -> Handle<Inventory> {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    provider(server, &system.base_url(), json!({})).await;
    for method in methods {
        tool(server, method, json!({})).await;
    }
    system
}

async fn a_method_is_called_with_json_and_answers_with_json(server: Server) {
    let system = inventory(&server, &["GetItem", "PutItem"]).await;
    let found = server.call("GetItem", json!({ "id": 7 })).await;
    assert_eq!(found["error"], Value::Null, "{found}");
    let item = &found["output"];
    assert_eq!((&item["id"], &item["name"], &item["color"]), (&json!("7"), &json!("item 7"), &json!("COLOR_RED")));
    assert_eq!((&item["madeAt"], &item["prices"]["EUR"]), (&json!("2026-01-02T03:04:05Z"), &json!(9.5)));
    let whole = json!({ "id": "9007199254740993", "name": "ä", "color": "COLOR_BLUE", "tags": [], "prices": {},
        "partOf": { "id": "1", "name": "", "color": "COLOR_UNSPECIFIED", "tags": [], "prices": {}, "photo": "" },
        "photo": "/+8=", "shoe": "43" });
    let put = server.call("PutItem", whole.clone()).await;
    assert_eq!(put["output"], whole, "{put}");
    assert_eq!(server.call("GetItem", json!({ "id": "9007199254740993" })).await["output"], whole);
    system.shutdown().await;
}

async fn a_stream_is_collected(server: Server) {
    let system = inventory(&server, &["ListItems"]).await;
    let listed = server.call("ListItems", json!({ "id": 3 })).await;
    let names: Vec<&Value> = listed["output"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(json!(names), json!(["item 1", "item 2", "item 3"]));
    assert_eq!(server.call("ListItems", json!({})).await["output"], json!([]));
    let broken = server.call("ListItems", json!({ "id": 101 })).await;
    assert_eq!(broken["error"]["details"]["grpc_status"], "NOT_FOUND", "a stream that breaks off is no answer");
    system.shutdown().await;
}

async fn every_status_is_one_of_the_nine_codes(server: Server) {
    let system = inventory(&server, &["Fail"]).await;
    for (code, name, expected) in [
        (1, "CANCELLED", "UNKNOWN"),
        (2, "UNKNOWN", "PROVIDER_ERROR"),
        (3, "INVALID_ARGUMENT", "PROVIDER_ERROR"),
        (4, "DEADLINE_EXCEEDED", "TIMEOUT"),
        (5, "NOT_FOUND", "PROVIDER_ERROR"),
        (6, "ALREADY_EXISTS", "PROVIDER_ERROR"),
        (7, "PERMISSION_DENIED", "AUTH_REQUIRED"),
        (8, "RESOURCE_EXHAUSTED", "RATE_LIMIT"),
        (9, "FAILED_PRECONDITION", "PROVIDER_ERROR"),
        (10, "ABORTED", "PROVIDER_ERROR"),
        (11, "OUT_OF_RANGE", "PROVIDER_ERROR"),
        (12, "UNIMPLEMENTED", "PROVIDER_ERROR"),
        (13, "INTERNAL", "PROVIDER_ERROR"),
        (14, "UNAVAILABLE", "NETWORK_ERROR"),
        (15, "DATA_LOSS", "PROVIDER_ERROR"),
        (16, "UNAUTHENTICATED", "AUTH_REQUIRED"),
    ] {
        let failed = server.call("Fail", json!({ "code": code, "message": "because" })).await;
        let error = &failed["error"];
        assert_eq!((&error["code"], &error["details"]["grpc_status"]), (&json!(expected), &json!(name)), "{failed}");
        assert_eq!(error["message"], "because");
    }
    system.shutdown().await;
}

async fn a_call_that_takes_too_long_ends(server: Server) {
    let system = inventory(&server, &[]).await;
    tool(&server, "Wait", json!({ "timeoutMs": 300 })).await;
    assert_eq!(server.call("Wait", json!({ "millis": 60_000 })).await["error"]["code"], "TIMEOUT");
    assert_eq!(server.call("Wait", json!({ "millis": 1 })).await["error"], Value::Null);
    system.shutdown().await;
}

async fn credentials_and_headers_go_along(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    server.post("secrets", json!({ "name": "token", "value": "grpc-secret-value" })).await.expect(201);
    let auth =
        json!({ "auth": { "authType": "bearer", "secretRef": "token" }, "defaultHeaders": { "x-team": "blue" } });
    provider(&server, &system.base_url(), auth).await;
    let path = json!({ "invocation": { "path": format!("{SERVICE}/Metadata"), "headers": { "x-of": "${param.of}" }, "bodyTemplate": {} } });
    tool(&server, "Metadata", with(path, json!({ "sideEffects": "writes" }))).await;
    let seen = server.call("Metadata", json!({ "of": "me" })).await;
    let seen = &seen["output"];
    assert_eq!((&seen["x-team"], &seen["x-of"]), (&json!("blue"), &json!("me")), "{seen}");
    assert_eq!(seen["authorization"], "Bearer [redacted]");
    assert!(seen["idempotency-key"].is_string() && seen["grpc-timeout"].is_string(), "{seen}");
    system.shutdown().await;
}

async fn a_server_that_does_not_describe_itself_needs_a_description(server: Server) {
    let system = Inventory::builder().mute().start(LOOPBACK).await.unwrap();
    provider(&server, &system.base_url(), json!({})).await;
    tool(&server, "GetItem", json!({})).await;
    let unknown = server.call("GetItem", json!({ "id": 1 })).await;
    assert_eq!(unknown["error"]["details"]["grpc_status"], "UNIMPLEMENTED", "{unknown}");
    let wrong = server.patch("tool-providers/stock", json!({ "descriptorSet": "AAAA" })).await;
    assert_eq!(wrong.problem(422, "invalid-definition")["errors"][0]["path"], "/descriptorSet");
    let described = base64::engine::general_purpose::STANDARD.encode(Inventory::descriptors().unwrap());
    server.patch("tool-providers/stock", json!({ "descriptorSet": described })).await.expect(200);
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["output"]["name"], "item 1");
    system.shutdown().await;
}

async fn servers_of_some_age_are_asked_in_their_way(server: Server) {
    let system = Inventory::builder().older().start(LOOPBACK).await.unwrap();
    provider(&server, &system.base_url(), json!({})).await;
    tool(&server, "GetItem", json!({})).await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["output"]["name"], "item 1");
    system.shutdown().await;
}

async fn what_is_no_call_is_told_before_anything_is_sent(server: Server) {
    let system = inventory(&server, &["GetItem", "Upload"]).await;
    for (input, code, part) in [
        (json!({ "id": "many" }), "VALIDATION_ERROR", "is no `toolwright.fixture.v1.GetItemRequest`"),
        (json!({ "number": 1 }), "VALIDATION_ERROR", "number"),
    ] {
        let refused = server.call("GetItem", input).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(part), "{refused}");
    }
    let stream = server.call("Upload", json!({})).await;
    assert!(stream["error"]["message"].as_str().unwrap().contains("a stream of them"), "{stream}");
    for (name, path, part) in [
        ("gone", format!("{SERVICE}/Gone"), "it has `GetItem`"),
        ("lost", "other.Service/Get".to_owned(), "other.Service"),
        ("odd", "nothing".to_owned(), "package.Service/Method"),
    ] {
        tool(&server, name, json!({ "invocation": { "path": path } })).await;
        let refused = server.call(name, json!({})).await;
        assert!(refused["error"]["message"].as_str().unwrap().contains(part), "{refused}");
    }
    let method = json!({ "refName": "m", "toolType": "GRPC", "providerRef": "stock", "invocation": { "method": "POST", "path": "a.B/C" } });
    server.post("tools", method).await.problem(422, "invalid-definition");
    system.shutdown().await;
}

async fn private_servers_are_out_of_reach(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    provider(&server, &system.base_url(), json!({ "egressAllow": [] })).await;
    tool(&server, "GetItem", json!({})).await;
    let refused = server.call("GetItem", json!({ "id": 1 })).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["reason"]),
        (&json!("POLICY_DENIED"), &json!("egress"))
    );
    system.shutdown().await;
}

async fn a_server_that_is_gone_is_a_network_error(server: Server) {
    let system = inventory(&server, &["GetItem"]).await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["error"], Value::Null);
    system.shutdown().await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["error"]["code"], "NETWORK_ERROR");
}

async fn a_server_becomes_tools(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    let body = json!({ "providerRef": "stock", "baseUrl": system.base_url(), "egressAllow": ["127.0.0.0/8"] });
    let tried = server.post("tools/import/grpc", with(body.clone(), json!({ "dryRun": true }))).await.expect(200);
    assert_eq!(tried["providerCreated"], true);
    server.get("tool-providers/stock").await.expect(404);
    let report = server.post("tools/import/grpc", body.clone()).await.expect(200);
    assert_eq!(report["imported"], tried["imported"]);
    let names: Vec<&str> =
        report["imported"].as_array().unwrap().iter().filter_map(|one| one["refName"].as_str()).collect();
    assert!(names.contains(&"stock/GetItem") && names.contains(&"stock/ListItems"), "{names:?}");
    let tool = server.get("tools/stock%2FGetItem").await.expect(200);
    assert_eq!((&tool["source"], &tool["toolType"]), (&json!("grpc-imported"), &json!("GRPC")));
    assert_eq!(server.call("stock%2FGetItem", json!({ "id": "7" })).await["output"]["name"], "item 7");
    let wrong = server.call("stock%2FGetItem", json!({ "id": [] })).await;
    assert_eq!(wrong["error"]["code"], "VALIDATION_ERROR", "the schema is that of the message: {wrong}");

    let again = server.post("tools/import/grpc", json!({ "providerRef": "stock" })).await.expect(200);
    assert_eq!(
        (again["imported"].as_array().unwrap().len(), again["unchanged"].as_array().unwrap().len()),
        (0, names.len())
    );
    system.shutdown().await;
}

async fn an_import_that_cannot_be_says_why_and_writes_nothing(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    let near = json!({ "providerRef": "stock", "baseUrl": system.base_url(), "egressAllow": ["127.0.0.0/8"] });
    let api = json!({ "refName": "api", "providerType": "REST", "baseUrl": "http://api.example.com" });
    server.post("tool-providers", api).await.expect(201);
    for (body, status, place) in [
        (json!({ "providerRef": "stock" }), 400, "/baseUrl"),
        (json!({ "providerRef": "stock", "baseUrl": "ftp://stock" }), 400, "/baseUrl"),
        (json!({ "providerRef": "stock", "baseUrl": system.base_url() }), 422, "/providerRef"),
        (json!({ "providerRef": "api" }), 400, "/providerRef"),
        (with(near.clone(), json!({ "descriptorSet": "AAAA" })), 422, "/descriptorSet"),
        (with(near.clone(), json!({ "descriptorSet": "no base64!" })), 422, "/descriptorSet"),
        (with(near.clone(), json!({ "services": ["nobody.Knows"] })), 400, "/services"),
        (with(near, json!({ "surprise": 1 })), 400, "/surprise"),
    ] {
        let problem = server.post("tools/import/grpc", body.clone()).await.expect(status);
        assert_eq!(problem["errors"][0]["path"], place, "{body}: {problem}");
    }
    server.get("tool-providers/stock").await.expect(404);
    // Whoever may not make a provider does not get to say which private networks the server looks into.
    let body = json!({ "providerRef": "x", "baseUrl": "http://127.0.0.1:1", "egressAllow": ["127.0.0.0/8"] });
    server.member("someone").await.post("tools/import/grpc", body).await.problem(403, "forbidden");
    system.shutdown().await;
}

async fn a_control_plane_is_reached_as_its_provider_says(server: Server) {
    let system = inventory(&server, &[]).await;
    tool(&server, "GetItem", json!({ "toolType": "HELIX" })).await;
    assert_eq!(server.call("GetItem", json!({ "id": 7 })).await["output"]["name"], "item 7");
    system.shutdown().await;
}

async fn an_import_without_a_method_that_fits_is_none(server: Server) {
    let encode = |bytes: Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
    let whole = Inventory::descriptors().unwrap();
    let only_uploads = {
        let mut files = FileDescriptorSet::decode(whole.as_slice()).unwrap();
        let services = files.file.iter_mut().flat_map(|file| &mut file.service);
        services.for_each(|service| service.method.retain(|method| method.client_streaming()));
        files
    };
    let no_services = {
        let mut files = FileDescriptorSet::decode(whole.as_slice()).unwrap();
        files.file.iter_mut().for_each(|file| file.service.clear());
        files
    };
    for (set, part) in [
        (String::new(), "--include_imports"),
        (encode(no_services.encode_to_vec()), "--include_imports"),
        (encode(only_uploads.encode_to_vec()), "Inventory/Upload`: it wants a stream"),
    ] {
        let body = json!({ "providerRef": "stock", "baseUrl": "http://stock.example.com", "descriptorSet": set });
        let problem = server.post("tools/import/grpc", body).await.problem(422, "cannot-import");
        assert_eq!(problem["errors"][0]["path"], "/descriptorSet", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
        server.get("tool-providers/stock").await.expect(404);
    }
}
