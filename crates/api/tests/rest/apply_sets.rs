//! Tests apply sets: the server remembers which set created a definition.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    definition_belongs_to_the_apply_set_that_created_it,
    apply_set_cannot_change_a_definition_of_another_set
);

fn fragment(name: &str, content: &str) -> Value {
    json!({ "refName": name, "content": content })
}

async fn definition_belongs_to_the_apply_set_that_created_it(server: Server) {
    let created = server.post("prompt-fragments?applySet=shop", fragment("a", "1")).await.expect(201);
    assert_eq!(created["applySet"], "shop");
    server.post("prompt-fragments", fragment("b", "1")).await.expect(201);
    server.post("prompt-fragments?applySet=other", fragment("c", "1")).await.expect(201);
    let listed = server.get("prompt-fragments?applySet=shop").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["items"][0]["refName"], "a");
    let queried = server.get("prompt-fragments?query=applySet:other").await.expect(200);
    assert_eq!(queried["items"][0]["refName"], "c", "{queried}");

    // A client may send a view back. The server ignores the apply set in it. A write without an apply set keeps the
    // stored one.
    let mut view = server.get("prompt-fragments/a").await.expect(200);
    view["applySet"] = json!("other");
    assert_eq!(server.put("prompt-fragments/a", view).await.expect(200)["applySet"], "shop");
    let versions = server.get("prompt-fragments/a/versions").await.expect(200);
    assert_eq!(versions["items"][1]["applySet"], "shop", "{versions}");
    server.post("prompt-fragments?applySet=no%20name", fragment("d", "1")).await.problem(400, "invalid-request");
}

async fn apply_set_cannot_change_a_definition_of_another_set(server: Server) {
    server.post("prompt-fragments?applySet=shop", fragment("a", "1")).await.expect(201);
    server.post("prompt-fragments", fragment("b", "1")).await.expect(201);
    let refused = server.put("prompt-fragments/a?applySet=other", fragment("a", "2")).await;
    let problem = refused.problem(409, "other-apply-set");
    assert!(problem["detail"].as_str().unwrap().contains("apply set `shop`"), "{problem}");
    assert_eq!(server.get("prompt-fragments/a").await.expect(200)["content"], "1");
    assert_eq!(server.put("prompt-fragments/a?applySet=shop", fragment("a", "2")).await.expect(200)["content"], "2");
    // An apply set can change a definition that no set created. The definition then still belongs to no set.
    let changed = server.put("prompt-fragments/b?applySet=shop", fragment("b", "2")).await.expect(200);
    assert_eq!((&changed["content"], &changed["applySet"]), (&json!("2"), &Value::Null));
}
