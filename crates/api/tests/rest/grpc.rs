//! Tests gRPC tools and gRPC imports against a real gRPC server.

use base64::Engine;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use toolwright_testkit::grpc::Inventory;
use toolwright_testkit::{Handle, LOOPBACK};

use crate::harness::{Server, merge};

crate::on_sqlite!(
    grpc_method_takes_and_returns_json,
    grpc_server_stream_is_returned_as_a_list,
    every_grpc_status_maps_to_an_error_code,
    grpc_call_over_its_timeout_fails,
    credentials_and_headers_are_sent_as_grpc_metadata,
    grpc_server_without_reflection_needs_a_descriptor_set,
    grpc_server_with_only_v1alpha_reflection_is_callable,
    grpc_call_with_invalid_input_or_method_fails_with_a_reason,
    grpc_server_in_a_private_network_is_blocked_by_the_egress_policy,
    call_to_an_unreachable_grpc_server_is_a_network_error,
    tool_of_type_helix_with_a_grpc_provider_is_called_over_grpc,
    grpc_methods_found_by_reflection_are_imported_as_tools,
    invalid_grpc_import_is_rejected_with_its_path_and_writes_nothing,
    grpc_import_without_a_callable_method_is_rejected
);

const SERVICE: &str = "toolwright.fixture.v1.Inventory";

async fn define_provider(server: &Server, base_url: &str, more: Value) {
    let body =
        json!({ "refName": "stock", "providerType": "GRPC", "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"] });
    server.post("tool-providers", merge(body, more)).await.expect(201);
}

async fn define_tool(server: &Server, method: &str, more: Value) {
    let body = json!({ "refName": method, "toolType": "GRPC", "providerRef": "stock", "description": method,
        "invocation": { "path": format!("{SERVICE}/{method}") } });
    server.post("tools", merge(body, more)).await.expect(201);
}

pub(crate) async fn start_inventory(server: &Server, methods: &[&str]) -> Handle<Inventory> {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    define_provider(server, &system.base_url(), json!({})).await;
    for method in methods {
        define_tool(server, method, json!({})).await;
    }
    system
}

async fn grpc_method_takes_and_returns_json(server: Server) {
    let system = start_inventory(&server, &["GetItem", "PutItem"]).await;
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

async fn grpc_server_stream_is_returned_as_a_list(server: Server) {
    let system = start_inventory(&server, &["ListItems"]).await;
    let listed = server.call("ListItems", json!({ "id": 3 })).await;
    let names: Vec<&Value> = listed["output"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(json!(names), json!(["item 1", "item 2", "item 3"]));
    assert_eq!(server.call("ListItems", json!({})).await["output"], json!([]));
    let broken = server.call("ListItems", json!({ "id": 101 })).await;
    assert_eq!(broken["error"]["details"]["grpc_status"], "NOT_FOUND", "an interrupted stream is an error");
    system.shutdown().await;
}

async fn every_grpc_status_maps_to_an_error_code(server: Server) {
    let system = start_inventory(&server, &["Fail"]).await;
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

async fn grpc_call_over_its_timeout_fails(server: Server) {
    let system = start_inventory(&server, &[]).await;
    define_tool(&server, "Wait", json!({ "timeoutMs": 300 })).await;
    assert_eq!(server.call("Wait", json!({ "millis": 60_000 })).await["error"]["code"], "TIMEOUT");
    assert_eq!(server.call("Wait", json!({ "millis": 1 })).await["error"], Value::Null);
    system.shutdown().await;
}

async fn credentials_and_headers_are_sent_as_grpc_metadata(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    server.post("secrets", json!({ "name": "token", "value": "grpc-secret-value" })).await.expect(201);
    let auth =
        json!({ "auth": { "authType": "bearer", "secretRef": "token" }, "defaultHeaders": { "x-team": "blue" } });
    define_provider(&server, &system.base_url(), auth).await;
    let path = json!({ "invocation": { "path": format!("{SERVICE}/Metadata"), "headers": { "x-of": "${param.of}" }, "bodyTemplate": {} } });
    define_tool(&server, "Metadata", merge(path, json!({ "sideEffects": "writes" }))).await;
    let seen = server.call("Metadata", json!({ "of": "me" })).await;
    let seen = &seen["output"];
    assert_eq!((&seen["x-team"], &seen["x-of"]), (&json!("blue"), &json!("me")), "{seen}");
    assert_eq!(seen["authorization"], "Bearer [redacted]");
    assert!(seen["idempotency-key"].is_string() && seen["grpc-timeout"].is_string(), "{seen}");
    system.shutdown().await;
}

async fn grpc_server_without_reflection_needs_a_descriptor_set(server: Server) {
    let system = Inventory::builder().without_reflection().start(LOOPBACK).await.unwrap();
    define_provider(&server, &system.base_url(), json!({})).await;
    define_tool(&server, "GetItem", json!({})).await;
    let unknown = server.call("GetItem", json!({ "id": 1 })).await;
    assert_eq!(unknown["error"]["details"]["grpc_status"], "UNIMPLEMENTED", "{unknown}");
    let invalid = server.patch("tool-providers/stock", json!({ "descriptorSet": "AAAA" })).await;
    assert_eq!(invalid.problem(422, "invalid-definition")["errors"][0]["path"], "/descriptorSet");
    let described = base64::engine::general_purpose::STANDARD.encode(Inventory::descriptors().unwrap());
    server.patch("tool-providers/stock", json!({ "descriptorSet": described })).await.expect(200);
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["output"]["name"], "item 1");
    system.shutdown().await;
}

async fn grpc_server_with_only_v1alpha_reflection_is_callable(server: Server) {
    let system = Inventory::builder().v1alpha_only().start(LOOPBACK).await.unwrap();
    define_provider(&server, &system.base_url(), json!({})).await;
    define_tool(&server, "GetItem", json!({})).await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["output"]["name"], "item 1");
    system.shutdown().await;
}

async fn grpc_call_with_invalid_input_or_method_fails_with_a_reason(server: Server) {
    let system = start_inventory(&server, &["GetItem", "Upload"]).await;
    for (input, code, message) in [
        (json!({ "id": "many" }), "VALIDATION_ERROR", "must be a `toolwright.fixture.v1.GetItemRequest`"),
        (json!({ "number": 1 }), "VALIDATION_ERROR", "number"),
    ] {
        let refused = server.call("GetItem", input).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(message), "{refused}");
    }
    let stream = server.call("Upload", json!({})).await;
    assert!(stream["error"]["message"].as_str().unwrap().contains("client streaming is not supported"), "{stream}");
    for (name, path, message) in [
        ("gone", format!("{SERVICE}/Gone"), "it has `GetItem`"),
        ("lost", "other.Service/Get".to_owned(), "other.Service"),
        ("odd", "nothing".to_owned(), "package.Service/Method"),
    ] {
        define_tool(&server, name, json!({ "invocation": { "path": path } })).await;
        let refused = server.call(name, json!({})).await;
        assert!(refused["error"]["message"].as_str().unwrap().contains(message), "{refused}");
    }
    let method = json!({ "refName": "m", "toolType": "GRPC", "providerRef": "stock", "invocation": { "method": "POST", "path": "a.B/C" } });
    server.post("tools", method).await.problem(422, "invalid-definition");
    system.shutdown().await;
}

async fn grpc_server_in_a_private_network_is_blocked_by_the_egress_policy(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    define_provider(&server, &system.base_url(), json!({ "egressAllow": [] })).await;
    define_tool(&server, "GetItem", json!({})).await;
    let refused = server.call("GetItem", json!({ "id": 1 })).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["details"]["reason"]),
        (&json!("POLICY_DENIED"), &json!("egress"))
    );
    system.shutdown().await;
}

async fn call_to_an_unreachable_grpc_server_is_a_network_error(server: Server) {
    let system = start_inventory(&server, &["GetItem"]).await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["error"], Value::Null);
    system.shutdown().await;
    assert_eq!(server.call("GetItem", json!({ "id": 1 })).await["error"]["code"], "NETWORK_ERROR");
}

async fn grpc_methods_found_by_reflection_are_imported_as_tools(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    let body = json!({ "providerRef": "stock", "baseUrl": system.base_url(), "egressAllow": ["127.0.0.0/8"] });
    let tried = server.post("tools/import/grpc", merge(body.clone(), json!({ "dryRun": true }))).await.expect(200);
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
    let invalid = server.call("stock%2FGetItem", json!({ "id": [] })).await;
    assert_eq!(
        invalid["error"]["code"], "VALIDATION_ERROR",
        "the input schema is derived from the request message: {invalid}"
    );

    let again = server.post("tools/import/grpc", json!({ "providerRef": "stock" })).await.expect(200);
    assert_eq!(
        (again["imported"].as_array().unwrap().len(), again["unchanged"].as_array().unwrap().len()),
        (0, names.len())
    );
    system.shutdown().await;
}

async fn invalid_grpc_import_is_rejected_with_its_path_and_writes_nothing(server: Server) {
    let system = Inventory::builder().start(LOOPBACK).await.unwrap();
    let near = json!({ "providerRef": "stock", "baseUrl": system.base_url(), "egressAllow": ["127.0.0.0/8"] });
    let api = json!({ "refName": "api", "providerType": "REST", "baseUrl": "http://api.example.com" });
    server.post("tool-providers", api).await.expect(201);
    for (body, status, path) in [
        (json!({ "providerRef": "stock" }), 400, "/baseUrl"),
        (json!({ "providerRef": "stock", "baseUrl": "ftp://stock" }), 400, "/baseUrl"),
        (json!({ "providerRef": "stock", "baseUrl": system.base_url() }), 422, "/providerRef"),
        (json!({ "providerRef": "api" }), 400, "/providerRef"),
        (merge(near.clone(), json!({ "descriptorSet": "AAAA" })), 422, "/descriptorSet"),
        (merge(near.clone(), json!({ "descriptorSet": "no base64!" })), 422, "/descriptorSet"),
        (merge(near.clone(), json!({ "services": ["nobody.Knows"] })), 400, "/services"),
        (merge(near, json!({ "surprise": 1 })), 400, "/surprise"),
    ] {
        let problem = server.post("tools/import/grpc", body.clone()).await.expect(status);
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
    }
    server.get("tool-providers/stock").await.expect(404);
    // A principal who may not create providers must not get access to private networks through an import.
    let body = json!({ "providerRef": "x", "baseUrl": "http://127.0.0.1:1", "egressAllow": ["127.0.0.0/8"] });
    server.member("someone").await.post("tools/import/grpc", body).await.problem(403, "forbidden");
    system.shutdown().await;
}

async fn tool_of_type_helix_with_a_grpc_provider_is_called_over_grpc(server: Server) {
    let system = start_inventory(&server, &[]).await;
    define_tool(&server, "GetItem", json!({ "toolType": "HELIX" })).await;
    assert_eq!(server.call("GetItem", json!({ "id": 7 })).await["output"]["name"], "item 7");
    system.shutdown().await;
}

async fn grpc_import_without_a_callable_method_is_rejected(server: Server) {
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
    for (set, message) in [
        (String::new(), "--include_imports"),
        (encode(no_services.encode_to_vec()), "--include_imports"),
        (encode(only_uploads.encode_to_vec()), "Inventory/Upload`: client streaming is not supported"),
    ] {
        let body = json!({ "providerRef": "stock", "baseUrl": "http://stock.example.com", "descriptorSet": set });
        let problem = server.post("tools/import/grpc", body).await.problem(422, "cannot-import");
        assert_eq!(problem["errors"][0]["path"], "/descriptorSet", "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
        server.get("tool-providers/stock").await.expect(404);
    }
}
