//! Who may do what: keys, roles, realms.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_editions!(
    nobody_gets_in_without_a_key,
    members_call_and_administrators_define,
    lists_tell_nothing_to_whom_nothing_is_shown,
    realms_never_see_each_other,
    secrets_go_in_and_never_come_out
);

async fn nobody_gets_in_without_a_key(server: Server) {
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

async fn members_call_and_administrators_define(server: Server) {
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
    // The same principal gets a second key, but not silently other roles.
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

async fn realms_never_see_each_other(server: Server) {
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

async fn secrets_go_in_and_never_come_out(server: Server) {
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

async fn lists_tell_nothing_to_whom_nothing_is_shown(server: Server) {
    for name in ["a", "b", "c"] {
        let tool = json!({ "refName": name, "toolType": "FUNCTION", "invocation": { "path": "echo" } });
        server.post("tools", tool).await.expect(201);
    }
    let page = server.get("tools?limit=2").await.expect(200);
    assert_eq!((page["items"].as_array().unwrap().len(), page["nextCursor"].is_string()), (2, true));
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("tools?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((rest["items"][0]["refName"].as_str(), &rest["nextCursor"]), (Some("c"), &Value::Null));
    let issued = server.post("keys", json!({ "principal": "nobody", "roles": [] })).await.expect(201);
    let nobody = server.with_key(issued["key"].as_str().unwrap());
    let page = nobody.get("tools?limit=1").await.expect(200);
    assert_eq!((&page["items"], &page["nextCursor"]), (&json!([]), &Value::Null), "a cursor names what it comes after");
}
