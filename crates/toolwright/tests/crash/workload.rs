//! Defines the workload: agents with scripted models that call the demo's CRM tools.
//!
//! Every call has a tag in its input. The tag consists of the label of the run and a letter, for example `tag:r5:c`. It
//! connects CRM requests, journal entries and envelopes.

use serde_json::{Value, json};
use toolwright_testkit::definitions::{self, BaseUrls, DefinitionKind, SECRETS};

use super::client::Client;
use super::proxy;

/// The timeout of the tool with a verify operation. After a crash, verification starts when this timeout has elapsed.
const NOTE_TIMEOUT_MS: u64 = 2500;

/// An agent that users start directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    /// Reads and writes, with several calls in one turn.
    Clerk,
    /// Every write requires approval.
    Keeper,
    /// Some calls are calls to client tools.
    Signer,
    /// Two calls start delegates. One of the delegates requires approval for its writes.
    Chief,
}

impl Agent {
    pub(crate) const ALL: [Self; 4] = [Self::Clerk, Self::Keeper, Self::Signer, Self::Chief];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clerk => "clerk",
            Self::Keeper => "keeper",
            Self::Signer => "signer",
            Self::Chief => "chief",
        }
    }
}

/// Returns the letters of all calls in the script of an agent, or an empty string for an unknown agent.
pub(crate) fn letters(agent: &str) -> &'static str {
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

/// Returns the number of child runs that each run of an agent starts.
pub(crate) fn children(agent: &str) -> usize {
    if agent == "chief" { 2 } else { 0 }
}

/// Returns whether the users deny the call with this tag. The answer depends only on the tag.
pub(crate) fn is_denied(tag: &str) -> bool {
    tag.ends_with("5:c")
}

/// Creates the definitions and secrets of the workload, with the CRM at `crm`.
pub(crate) async fn define(client: &Client, crm: &str) {
    for secret in SECRETS {
        client.create("secrets", json!({ "name": secret.name, "value": secret.value, "scope": "realm" })).await;
    }
    for demo in definitions::demo(BaseUrls { crm, orders: crm, web: crm }) {
        let mut body = demo.body;
        match demo.kind {
            DefinitionKind::Provider => client.create("tool-providers", body).await,
            DefinitionKind::Tool if body["providerRef"] == "hubspot" => {
                // Without a cache, every read reaches the CRM, so the proxy sees repeated reads.
                body["cache"] = json!("none");
                if body["refName"] == "hubspot/add-note" {
                    body["timeoutMs"] = json!(NOTE_TIMEOUT_MS);
                }
                client.create("tools", body).await;
            }
            DefinitionKind::Tool | DefinitionKind::AgenticTool | DefinitionKind::Fragment | DefinitionKind::Agent => {}
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

/// Returns the output that the users return for a call to the client tool.
pub(crate) fn signature(payload: &Value) -> Value {
    json!({ "signed": proxy::find_tag(&payload.to_string()) })
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

/// Returns an agent that makes the calls of each turn in `turns`, regardless of their results, and then answers.
fn agent(name: &str, turns: &[&[Value]], extra: Value) -> Value {
    let rules = turns.iter().enumerate().map(|(turn, calls)| {
        json!({ "when": { "turn": turn }, "reply": { "text": format!("Turn {turn} of {{{{user}}}}."), "toolCalls": calls } })
    });
    let script = json!({ "rules": rules.collect::<Vec<_>>(), "otherwise": { "text": "Done: {{user}}." } });
    let mut body = json!({
        "refName": name,
        "toolRefs": ["hubspot/search-deals", "hubspot/update-deal", "hubspot/add-note", "hubspot/send-email", "desk/sign"],
        "llmConfig": { "provider": "scripted", "model": "rules", "extraParams": { "script": script } },
        // The timeout is long, because the test machine may be busy.
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
