//! Defines the workload: agents with scripted models, and workflows, that call the demo's CRM tools.
//!
//! Every call has a tag in its input. The tag consists of the label of the run and a letter, for example `tag:r5:c`. It
//! connects CRM requests, journal entries and envelopes.

use serde_json::{Value, json};
use toolwright_testkit::definitions::{self, BaseUrls, DefinitionKind, SECRETS};

use super::client::Client;
use super::proxy;

/// The timeout of the tool with a verify operation. After a crash, verification starts when this timeout has elapsed.
const NOTE_TIMEOUT_MS: u64 = 2500;

/// An agent or a workflow that users start directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An agent that reads and writes, with several calls in one turn.
    Clerk,
    /// An agent whose writes all require approval.
    Keeper,
    /// An agent some of whose calls are calls to client tools.
    Signer,
    /// An agent two of whose calls start delegates. One of the delegates requires approval for its writes.
    Chief,
    /// A workflow with parallel writes, a list, a step with retries, a signal, a sub-workflow and an agent.
    Fulfil,
    /// A workflow that asks a person and a client before it writes.
    Review,
}

impl Subject {
    pub(crate) const ALL: [Self; 6] =
        [Self::Clerk, Self::Keeper, Self::Signer, Self::Chief, Self::Fulfil, Self::Review];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clerk => "clerk",
            Self::Keeper => "keeper",
            Self::Signer => "signer",
            Self::Chief => "chief",
            Self::Fulfil => "fulfil",
            Self::Review => "review",
        }
    }

    /// Returns the path and the body of the request that starts a run with this label.
    pub(crate) fn start_request(self, label: &str) -> (String, Value) {
        let name = self.name();
        match self {
            Self::Clerk | Self::Keeper | Self::Signer | Self::Chief => {
                (format!("agents/{name}/execute/durable"), json!({ "userMessage": label }))
            }
            Self::Fulfil | Self::Review => {
                (format!("workflows/{name}/execute/durable"), json!({ "input": { "label": label } }))
            }
        }
    }
}

/// Returns the letters of all calls of an agent or a workflow, or an empty string for an unknown one.
pub(crate) fn letters(subject: &str) -> &'static str {
    match subject {
        "clerk" => "abcdefgh",
        "keeper" => "abcd",
        "signer" => "abcdef",
        "chief" => "abc",
        "helper" => "abc",
        "guarded" => "ab",
        "fulfil" => "abcdefgx",
        "dispatch" => "abc",
        "review" => "abcde",
        _ => "",
    }
}

/// Returns the number of child runs that each run of an agent or a workflow starts.
pub(crate) fn children(subject: &str) -> usize {
    if ["chief", "fulfil"].contains(&subject) { 2 } else { 0 }
}

/// The name of the signal that each run of [`Subject::Fulfil`] awaits.
pub(crate) const SIGNAL: &str = "go";

/// Returns whether runs of an agent or a workflow await [`SIGNAL`].
pub(crate) fn awaits_signal(subject: &str) -> bool {
    subject == Subject::Fulfil.name()
}

/// Returns whether the CRM is unavailable for the first request with this tag. The step that makes the call has
/// retries.
pub(crate) fn is_refused_once(tag: &str) -> bool {
    tag.ends_with(":x")
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
                // A refused call ends at once, so that the retries of its step apply.
                body["defaultRetryCount"] = json!(0);
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
    for workflow in workflows() {
        client.create("workflows", workflow).await;
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

/// Returns the workflows, a sub-workflow before the workflow that runs it. The step of a call is named after the letter
/// of the call, and the output has the id that the CRM returned for each write.
fn workflows() -> [Value; 3] {
    // A write whose outcome is unknown, and a denied approval, must not end the instance.
    let continues = json!({ "onError": "continue" });
    [
        workflow(
            "dispatch",
            &[
                step("nap", "quantum.flow.sleep", json!({ "duration": "120ms" }), &[], &json!({})),
                write_step("a", &update(""), &["nap"], &json!({})),
                step("c", "quantum.flow.approval", json!({ "what": step_tag("c") }), &[], &continues),
                write_step("b", &note(""), &["c"], &json!({})),
            ],
            json!({ "a": "${a.id}", "b": "${b.id}" }),
        ),
        workflow(
            "fulfil",
            &[
                write_step("a", &update(""), &[], &json!({})),
                write_step("b", &note(""), &[], &json!({})),
                write_step("c", &email(""), &[], &continues),
                write_list("each", &note(""), "def", &["a"]),
                write_step(
                    "x",
                    &update(""),
                    &["b"],
                    &json!({ "retry": { "maxAttempts": 3, "delay": "40ms", "backoff": "none" } }),
                ),
                step("go", "quantum.flow.waitForSignal", json!({ "signal": SIGNAL }), &["each"], &json!({})),
                step(
                    "ship",
                    "quantum.workflows.execute",
                    json!({ "workflowRef": "dispatch", "input": { "label": "${input.label}s" } }),
                    &["go", "x"],
                    &json!({}),
                ),
                step(
                    "ask",
                    "quantum.ai.invokeAgent",
                    json!({ "agentRef": "helper", "prompt": "${input.label}h" }),
                    &["b"],
                    &json!({}),
                ),
                write_step("g", &email(""), &["ship", "ask", "c"], &continues),
            ],
            json!({
                "a": "${a.id}", "b": "${b.id}", "c": "${c.id}", "d": "${each[0].id}", "e": "${each[1].id}", "f": "${each[2].id}",
                "x": "${x.id}", "g": "${g.id}", "signal": "${go}", "shipped": "${ship}", "answer": "${ask.response}",
            }),
        ),
        workflow(
            "review",
            &[
                step(
                    "b",
                    "quantum.flow.form",
                    json!({ "what": step_tag("b"), "schema": { "required": ["signed"] } }),
                    &["c"],
                    &json!({}),
                ),
                step("c", "quantum.flow.approval", json!({ "what": step_tag("c") }), &["a"], &continues),
                write_step("a", &read(""), &[], &json!({})),
                write_step("d", &update(""), &["b"], &json!({})),
                write_step("e", &note(""), &["b"], &json!({})),
            ],
            json!({ "d": "${d.id}", "e": "${e.id}", "signed": "${b.signed}" }),
        ),
    ]
}

fn workflow(name: &str, steps: &[Value], output: Value) -> Value {
    json!({ "refName": name, "steps": steps, "output": output })
}

fn step(name: &str, handler: &str, input: Value, depends_on: &[&str], extra: &Value) -> Value {
    let mut step = json!({ "name": name, "handlerRef": handler, "input": input, "dependsOn": depends_on });
    step.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    step
}

/// Returns a step that makes the call of an agent's script, under the letter `letter`.
fn write_step(letter: &str, call: &Value, depends_on: &[&str], extra: &Value) -> Value {
    let tag = call["name"].as_str().unwrap();
    step(letter, tag, with_tag(call, &step_tag(letter)), depends_on, extra)
}

/// Returns a step that makes the call once for each letter.
fn write_list(name: &str, call: &Value, letters: &str, depends_on: &[&str]) -> Value {
    let items: Vec<String> = letters.chars().map(String::from).collect();
    let input = with_tag(call, "tag:${input.label}:${item}");
    let list = json!({ "forEach": { "items": items, "concurrency": 2 } });
    step(name, call["name"].as_str().unwrap(), input, depends_on, &list)
}

fn step_tag(letter: &str) -> String {
    format!("tag:${{input.label}}:{letter}")
}

/// Returns the arguments of the call of an agent's script with another tag.
fn with_tag(call: &Value, other: &str) -> Value {
    let text = call["arguments"].to_string().replace(&tag(""), other);
    serde_json::from_str(&text).unwrap()
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
