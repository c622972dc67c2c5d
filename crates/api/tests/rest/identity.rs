//! Tests authentication and authorization: keys, roles, realms and secrets.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    request_without_a_valid_key_is_rejected_as_unauthenticated,
    members_may_execute_tools_but_not_define_them,
    tool_list_without_read_permission_is_empty_and_has_no_cursor,
    definitions_are_invisible_to_other_realms,
    secret_values_are_never_returned,
    number_of_secrets_of_a_principal_is_limited
);

async fn request_without_a_valid_key_is_rejected_as_unauthenticated(server: Server) {
    for key in ["", "wrong", "an-admin-key-for-test", "tw_x"] {
        let refused = server.with_key(key).get("tools").await;
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
        refused.problem(401, "unauthenticated");
    }
    let basic = server.with_key("").request(reqwest::Method::GET, "tools").header("authorization", "Basic eDp5");
    server.send(basic).await.problem(401, "unauthenticated");
    for open in ["/healthz", "/readyz", "/openapi.json", "/errors/duplicate"] {
        assert_eq!(server.with_key("").get(open).await.status.as_u16(), 200, "{open}");
    }
    assert_eq!(
        server.get("whoami").await.expect(200),
        json!({ "principal": "admin", "realm": "default", "roles": ["admin"] })
    );
}

async fn members_may_execute_tools_but_not_define_them(server: Server) {
    let issued = server.post("keys", json!({ "label": "ci", "principal": "ci@example.com" })).await.expect(201);
    let member = server.with_key(issued["key"].as_str().unwrap());
    assert_eq!(member.get("whoami").await.expect(200)["roles"], json!(["member"]));
    server
        .post("tools", json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } }))
        .await
        .expect(201);
    let envelope = member.call("t", json!({ "a": 1 })).await;
    assert_eq!(envelope["output"], json!({ "a": 1 }));
    assert_eq!(envelope["metadata"]["principal"], "ci@example.com");
    assert_eq!(envelope["metadata"]["policy_id"], "members-read-and-execute-in-their-realm");
    member.get("tools/t").await.expect(200);
    for refused in [
        member.post("tools", json!({ "refName": "u", "toolType": "FUNCTION" })).await,
        member.put("tools/t", json!({ "toolType": "FUNCTION" })).await,
        member.delete("tools/t").await,
        member.post("keys", json!({})).await,
        member.get("keys").await,
        member.post("realms", json!({ "name": "mine" })).await,
        member.post("secrets", json!({ "name": "s", "scope": "realm", "value": "12345678" })).await,
    ] {
        let problem = refused.problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("no policy allows it"), "{problem}");
    }
    member.post("secrets", json!({ "name": "s", "scope": "user", "value": "12345678" })).await.expect(201);
    // A principal can have two keys, but creating a key cannot change the principal's roles.
    server.post("keys", json!({ "principal": "ci@example.com" })).await.expect(201);
    server.post("keys", json!({ "principal": "ci@example.com", "roles": ["admin"] })).await.problem(409, "duplicate");
    server.delete(&format!("keys/{}", issued["id"].as_str().unwrap())).await.expect(204);
    member.get("tools").await.problem(401, "unauthenticated");
    server.delete("keys/key_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.problem(404, "not-found");
    let listed = server.get("keys").await;
    assert!(!listed.text.contains(issued["key"].as_str().unwrap()));
    assert!(!listed.text.contains("an-admin-key"), "the bootstrap key is not listed");
    assert_eq!(listed.expect(200)["items"].as_array().unwrap().len(), 2);
}

async fn definitions_are_invisible_to_other_realms(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.post("realms", json!({ "name": "Other" })).await.problem(409, "duplicate");
    let other = server.in_realm("other");
    let here = server
        .post(
            "tools",
            json!({ "refName": "t", "toolType": "FUNCTION", "description": "here", "invocation": { "path": "echo" } }),
        )
        .await
        .expect(201);
    other.get("tools/t").await.problem(404, "not-found");
    other.get(&format!("tools/{}", here["id"].as_str().unwrap())).await.problem(404, "not-found");
    other.post("tools/t/execute", json!({ "input": {} })).await.problem(404, "not-found");
    other
        .post(
            "tools",
            json!({ "refName": "t", "toolType": "FUNCTION", "description": "there", "invocation": { "path": "echo" } }),
        )
        .await
        .expect(201);
    assert_eq!(server.get("tools/t").await.expect(200)["description"], "here");
    assert_eq!(other.get("tools/t").await.expect(200)["description"], "there");
    other.delete("tools/t").await.expect(204);
    server.get("tools/t").await.expect(200);
    server.in_realm("nowhere").get("tools").await.problem(403, "forbidden");
    let issued = server.post("keys", json!({ "principal": "other-service", "realm": "other" })).await.expect(201);
    let member = server.with_key(issued["key"].as_str().unwrap());
    assert_eq!(member.get("whoami").await.expect(200)["realm"], "other");
    member.in_realm("default").get("tools").await.problem(403, "forbidden");
    member.get("tools/t").await.problem(404, "not-found");
}

async fn secret_values_are_never_returned(server: Server) {
    let put = server.post("secrets", json!({ "name": "token", "value": "hunter2-hunter2" })).await;
    assert!(!put.text.contains("hunter2"));
    assert_eq!(put.expect(201)["scope"], "realm");
    assert_eq!(
        server.post("secrets", json!({ "name": "token", "value": "hunter3-hunter3" })).await.expect(201)["revision"],
        2
    );
    server.post("secrets", json!({ "name": "token", "scope": "user", "value": "mine-mine-mine" })).await.expect(201);
    let listed = server.get("secrets").await;
    assert!(!listed.text.contains("hunter") && !listed.text.contains("mine-"));
    assert_eq!(listed.expect(200)["items"].as_array().unwrap().len(), 2);
    server.delete("secrets/token?scope=user").await.expect(204);
    server.delete("secrets/token?scope=user").await.problem(404, "not-found");
    server.delete("secrets/token").await.expect(204);
}

async fn tool_list_without_read_permission_is_empty_and_has_no_cursor(server: Server) {
    for name in ["a", "b", "c"] {
        let tool = json!({ "refName": name, "toolType": "FUNCTION", "invocation": { "path": "echo" } });
        server.post("tools", tool).await.expect(201);
    }
    let page = server.get("tools?limit=2").await.expect(200);
    assert_eq!((page["items"].as_array().unwrap().len(), page["nextCursor"].is_string()), (2, true));
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("tools?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((rest["items"][0]["refName"].as_str(), &rest["nextCursor"]), (Some("c"), &Value::Null));
    let issued = server.post("keys", json!({ "principal": "guest", "roles": [] })).await.expect(201);
    let unprivileged = server.with_key(issued["key"].as_str().unwrap());
    let page = unprivileged.get("tools?limit=1").await.expect(200);
    assert_eq!(
        (&page["items"], &page["nextCursor"]),
        (&json!([]), &Value::Null),
        "a cursor would reveal the name of a hidden item"
    );
}

async fn number_of_secrets_of_a_principal_is_limited(server: Server) {
    let guest = server.with_key(&server.issue_key(json!({ "principal": "guest", "roles": [] })).await);
    let put = async |server: &Server, name: &str, scope: &str| {
        server.post("secrets", json!({ "name": name, "scope": scope, "value": "12345678" })).await
    };
    for number in 0..100 {
        put(&guest, &format!("s{number}"), "user").await.expect(201);
    }
    let problem = put(&guest, "s100", "user").await.problem(409, "limit-reached");
    assert!(problem["detail"].as_str().unwrap().contains("at most 100 secrets"), "{problem}");
    assert_eq!(put(&guest, "s0", "user").await.expect(201)["revision"], 2, "a new value is not a new secret");
    put(&server, "s100", "user").await.expect(201);
    put(&server, "s100", "realm").await.expect(201);
    guest.delete("secrets/s0?scope=user").await.expect(204);
    put(&guest, "s100", "user").await.expect(201);
}
