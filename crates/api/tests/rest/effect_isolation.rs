//! Tests that the routes of approvals and effects neither show nor change data of another realm or another owner. The
//! requests are generated from the routes, their parameters and the data of all principals.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::harness::{Server, calls_then};

crate::on_both_databases!(principals_see_and_change_only_their_own_approvals_and_effects);

/// A principal whose runs have a pending approval, a decided approval, a completed write, and a write with an unknown
/// outcome. Every input contains the name of the principal.
struct Person {
    name: &'static str,
    realm: &'static str,
    client: Server,
    waiting: Value,
    decided: Value,
    effects: Vec<Value>,
}

async fn define_tools(server: &Server, base_url: &str) {
    server.define_echo("unput", json!({ "sideEffects": "writes" })).await;
    server.define_echo("put", json!({ "sideEffects": "writes", "compensateToolRef": "unput" })).await;
    server.define_http_tool("lost", base_url, "/reset", json!({ "sideEffects": "writes" })).await;
    server.define_echo("pay", json!({ "sideEffects": "writes", "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "pay", "arguments": { "text": "{{user}}" } }]), "Done.");
    server.define_agent("payer", rules, json!({ "toolRefs": ["pay"] })).await;
    let asks = json!([{ "name": "payer", "arguments": { "task": "{{user}}" } }]);
    server.define_agent("boss", calls_then(asks, "Done."), json!({ "delegateAgentRefs": ["payer"] })).await;
}

impl Person {
    async fn create(realm: &'static str, server: &Server, name: &'static str) -> Self {
        let client = server.member(name).await;
        let text = format!("input-of-{name}");
        let decided = client.run("payer", &text).await;
        client.decide(&decided, 0, json!({ "decision": "approve", "reason": text })).await.expect(200);
        client.call("put", json!({ "text": text })).await;
        client.call("lost", json!({ "text": text })).await;
        let waiting = client.run("boss", &text).await;
        let effects = client.get("effects").await.expect(200)["items"].as_array().unwrap().clone();
        assert_eq!((effects.len(), waiting["approvals"].as_array().unwrap().len()), (3, 1), "{effects:?} {waiting}");
        Self { name, realm, client, waiting, decided, effects }
    }

    /// Returns texts that a response may contain only if the caller may see the data of this person.
    fn marks(&self) -> [String; 3] {
        let run = |value: &Value| value.as_str().unwrap().to_owned();
        [format!("input-of-{}", self.name), run(&self.waiting["runId"]), run(&self.decided["runId"])]
    }

    /// Returns the paths of all list requests, without filters and with filters that name this person's data.
    fn lists(&self) -> Vec<String> {
        let run = self.waiting["approvals"][0]["runId"].as_str().unwrap();
        let (decided, write) = (self.decided["runId"].as_str().unwrap(), self.effects[0]["runId"].as_str().unwrap());
        let mut filters = vec![String::new(), "&toolRef=pay".into(), "&agentRef=payer".into(), "&limit=100".into()];
        filters.push(format!("&principal={}", self.name));
        filters.extend([run, decided, write].map(|run| format!("&runId={run}")));
        let mut lists = Vec::new();
        for filter in &filters {
            for status in ["pending", "decided", "all"] {
                lists.push(format!("approvals?status={status}&compare=true{filter}"));
            }
            for outcome in ["", "done", "unknown"] {
                lists.push(format!("effects?outcome={outcome}{filter}"));
            }
        }
        lists.push(format!("approvals?status=decided&decidedBy={}", self.name));
        lists
    }

    /// Sends all requests that address this person's data directly. Each response must be an error.
    async fn expect_unknown_to(&self, client: &Server) {
        for effect in &self.effects {
            let path = format!("effects/{}", effect["id"].as_str().unwrap());
            client.get(&path).await.problem(404, "not-found");
            client.post(&format!("{path}/resolve"), json!({ "outcome": "done" })).await.problem(404, "not-found");
            for dry_run in [true, false] {
                client.post(&format!("{path}/undo"), json!({ "dryRun": dry_run })).await.problem(404, "not-found");
            }
        }
        let approval = &self.waiting["approvals"][0];
        for run in [&self.waiting["runId"], &approval["runId"], &self.decided["runId"]] {
            client.get(&format!("runs/{}", run.as_str().unwrap())).await.problem(404, "not-found");
            let decision = json!({ "runId": run, "callId": approval["callId"], "decision": "approve" });
            let results = client.post("approvals/decide", json!({ "decisions": [decision] })).await.expect(200);
            assert_eq!(results["results"][0]["problem"]["code"], "not-found", "{results}");
        }
    }
}

async fn principals_see_and_change_only_their_own_approvals_and_effects(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = server.in_realm("other");
    let mut people = Vec::new();
    for (realm, admin, names) in [("default", &server, ["north", "south"]), ("other", &other, ["east", "west"])] {
        define_tools(admin, &faults.base_url()).await;
        for name in names {
            people.push(Person::create(realm, admin, name).await);
        }
    }
    let readers = people.iter().map(|person| (person.realm, Some(person.name), person.client.clone()));
    let admins = [("default", None, server.clone()), ("other", None, other.clone())];
    for (realm, reader, client) in readers.chain(admins) {
        for addressed in &people {
            let visible = addressed.realm == realm && reader.is_none_or(|reader| reader == addressed.name);
            for path in addressed.lists() {
                let response = client.get(&path).await;
                let text = response.text.clone();
                let page = response.expect(200);
                let filtered = path.contains("principal=") || path.contains("decidedBy=") || path.contains("runId=");
                assert!(visible || !filtered || page["items"] == json!([]), "{reader:?} {path}: {text}");
                for person in &people {
                    let may_see = person.realm == realm && reader.is_none_or(|reader| reader == person.name);
                    let leaked = person.marks().into_iter().find(|mark| !may_see && text.contains(mark.as_str()));
                    assert_eq!(leaked, None, "{reader:?} in {realm} reads {path}: {text}");
                }
            }
            if !visible {
                addressed.expect_unknown_to(&client).await;
            }
        }
    }
    // Nothing has changed, and each principal sees its own data.
    for person in &people {
        let found = person.client.get("effects").await.expect(200);
        assert_eq!(found["items"], json!(person.effects), "{}", person.name);
        let approvals = person.client.get("approvals?status=all").await.expect(200);
        let states: Vec<bool> =
            approvals["items"].as_array().unwrap().iter().map(|item| item["decision"].is_null()).collect();
        assert_eq!(states, [true, false], "{approvals}");
        person.client.decide(&person.waiting, 0, json!({ "decision": "approve" })).await.expect(200);
    }
    faults.shutdown().await;
}
