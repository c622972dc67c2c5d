//! What the runs do: agents whose replies are scripted, over the demo's tools for the CRM.
//!
//! Every call has a tag in its input, made of the label of its run and a letter, so that requests at the CRM, entries
//! of journals and receipts can be held against each other.

use serde_json::{Value, json};
use toolwright_testkit::definitions::{self, Kind, SECRETS};

use super::client::Client;
use super::tap;

/// Bounds the call that is asked about after a crash: nobody asks before this is over.
const NOTE_TIMEOUT_MS: u64 = 2500;

/// An agent that runs are started of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Reads and writes, several at once.
    Clerk,
    /// Every write waits for a person.
    Keeper,
    /// Some calls are the client's.
    Signer,
    /// Two calls are runs of other agents, one of which waits for a person.
    Chief,
}

impl Agent {
    pub const ALL: [Self; 4] = [Self::Clerk, Self::Keeper, Self::Signer, Self::Chief];

    pub fn name(self) -> &'static str {
        match self {
            Self::Clerk => "clerk",
            Self::Keeper => "keeper",
            Self::Signer => "signer",
            Self::Chief => "chief",
        }
    }
}

/// The letters of the calls that a run of this agent makes; none for what is no agent of the workload.
pub fn letters(agent: &str) -> &'static str {
    match agent {
        "clerk" => "abcdefgh",
        "keeper" => "abcd",
        "signer" => "abcdef",
        "chief" => "abc",
        "helper" => "abc",
        "guarded" => "ab",
        _ => "",
    }
}

/// How many runs of others a run of this agent starts.
pub fn children(agent: &str) -> usize {
    if agent == "chief" { 2 } else { 0 }
}

/// Whether a person says no to a call. It is the same whenever the person is asked again.
pub fn is_denied(tag: &str) -> bool {
    tag.ends_with("5:c")
}

/// Gives a server everything that the workload needs, with the CRM at `crm`.
pub async fn define(client: &Client, crm: &str) {
    for secret in SECRETS {
        client.create("secrets", json!({ "name": secret.name, "value": secret.value, "scope": "realm" })).await;
    }
    for demo in definitions::demo(crm, crm) {
        let mut body = demo.body;
        match demo.kind {
            Kind::Provider => client.create("tool-providers", body).await,
            Kind::Tool if body["providerRef"] == "hubspot" => {
                // Every read is to reach the CRM, so that a repeated one is seen.
                body["cache"] = json!("none");
                if body["refName"] == "hubspot/add-note" {
                    body["timeoutMs"] = json!(NOTE_TIMEOUT_MS);
                }
                client.create("tools", body).await;
            }
            Kind::Tool | Kind::Fragment | Kind::Agent => {}
        }
    }
    client
        .create(
            "tools",
            json!({
                "refName": "desk/sign", "toolType": "FUNCTION", "isToolFullyExecutedOnServer": false,
                "inputJsonSchema": { "type": "object", "properties": { "what": { "type": "string" } } },
                "invocation": { "bodyTemplate": { "sign": "${param.what}" } },
                "outputJsonSchema": { "type": "object", "required": ["signed"] },
            }),
        )
        .await;
    for agent in agents() {
        client.create("agents", agent).await;
    }
}

/// What the client returns for a call of its own.
pub fn signature(payload: &Value) -> Value {
    json!({ "signed": tap::tag_in(&payload.to_string()) })
}

fn agents() -> [Value; 6] {
    [
        agent("helper", &[&[note("a"), email("b")], &[update("c")]], json!({})),
        agent("guarded", &[&[update("a")], &[email("b")]], json!({ "requiresApproval": true })),
        agent(
            "clerk",
            &[&[read("a"), update("b"), note("c")], &[email("d"), update("e"), read("f")], &[note("g"), email("h")]],
            json!({}),
        ),
        agent("keeper", &[&[read("a"), note("b"), email("c")], &[update("d")]], json!({ "requiresApproval": true })),
        agent("signer", &[&[sign("a"), note("b"), read("c")], &[email("d")], &[sign("e"), update("f")]], json!({})),
        agent(
            "chief",
            &[&[delegate("helper", "h"), update("a")], &[delegate("guarded", "g"), email("b")], &[note("c")]],
            json!({ "delegateAgentRefs": ["helper", "guarded"] }),
        ),
    ]
}

/// An agent that makes these calls, turn by turn, whatever comes of them, and then answers.
fn agent(name: &str, turns: &[&[Value]], extra: Value) -> Value {
    let rules = turns.iter().enumerate().map(|(turn, calls)| {
        json!({ "when": { "turn": turn }, "reply": { "text": format!("Turn {turn} of {{{{user}}}}."), "toolCalls": calls } })
    });
    let script = json!({ "rules": rules.collect::<Vec<_>>(), "otherwise": { "text": "Done: {{user}}." } });
    let mut body = json!({
        "refName": name,
        "toolRefs": ["hubspot/search-deals", "hubspot/update-deal", "hubspot/add-note", "hubspot/send-email", "desk/sign"],
        "llmConfig": { "provider": "scripted", "model": "rules", "extraParams": { "script": script } },
        // The machine may be busy with other things.
        "executionConfig": { "timeoutSeconds": 3600 },
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn tag(letter: &str) -> String {
    format!("tag:{{{{user}}}}:{letter}")
}

fn read(letter: &str) -> Value {
    let filter = json!({ "propertyName": "dealname", "operator": "EQ", "value": tag(letter) });
    json!({ "name": "hubspot/search-deals", "arguments": { "filters": [filter] } })
}

fn update(letter: &str) -> Value {
    let properties = json!({ "dealname": tag(letter) });
    json!({ "name": "hubspot/update-deal", "arguments": { "dealId": "101", "properties": properties } })
}

fn note(letter: &str) -> Value {
    json!({ "name": "hubspot/add-note", "arguments": { "dealId": "102", "text": tag(letter) } })
}

fn email(letter: &str) -> Value {
    let arguments = json!({ "dealId": "103", "to": "buyer@acme.example", "subject": tag(letter) });
    json!({ "name": "hubspot/send-email", "arguments": arguments })
}

fn sign(letter: &str) -> Value {
    json!({ "name": "desk/sign", "arguments": { "what": tag(letter) } })
}

fn delegate(agent: &str, suffix: &str) -> Value {
    json!({ "name": agent, "arguments": { "task": format!("{{{{user}}}}{suffix}") } })
}
