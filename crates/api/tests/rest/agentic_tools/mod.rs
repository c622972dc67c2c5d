//! Agentic tools: definitions, invocations in both modes, limits, prompts, executions and approvals.

mod agentic_mode;
mod approvals;
mod costs;
mod definitions;
mod deterministic_mode;
mod executions;
mod limits;
mod model_providers;
mod plans;
mod prompts;
mod untrusted_data;

use serde_json::{Value, json};
use toolwright_testkit::definitions::{BaseUrls, DefinitionKind, SECRETS, demo};
use toolwright_testkit::{Crm, LOOPBACK, crm};

use crate::harness::{Server, merge};

const PATH: &str = "/api/v1/agentic-tools";

/// The configuration of an embedded model that replies by these rules.
pub(crate) fn embedded_model(rules: Value) -> Value {
    json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } })
}

/// The rules of a model that writes this plan and then this final text.
pub(crate) fn plan_then(steps: Value, text: &str) -> Value {
    json!([
        { "when": { "user": "The plan was executed" }, "reply": { "text": text } },
        { "reply": { "text": json!({ "reasoning": "the reason", "steps": steps }).to_string() } },
    ])
}

/// An agentic tool in the deterministic mode.
pub(crate) fn deterministic(slug: &str, tools: &[&str], rules: Value) -> Value {
    let sequence: Vec<Value> =
        tools.iter().enumerate().map(|(at, tool)| json!({ "step": at + 1, "actionSlug": tool })).collect();
    json!({ "name": slug, "slug": slug, "description": "Does things.", "executionMode": "deterministic", "embeddedLLMConfig": embedded_model(rules),
        "toolAllocation": { "mode": "deterministic", "sequence": sequence } })
}

/// An agentic tool in the agentic mode.
pub(crate) fn agentic(slug: &str, tools: &[&str], rules: Value) -> Value {
    let available: Vec<Value> = tools.iter().map(|tool| json!({ "actionSlug": tool })).collect();
    json!({ "name": slug, "slug": slug, "description": "Does things.", "executionMode": "agentic", "embeddedLLMConfig": embedded_model(rules),
        "toolAllocation": { "availableTools": available } })
}

impl Server {
    pub(crate) async fn define_agentic_tool(&self, tool: Value, more: Value) -> Value {
        self.post(PATH, merge(tool, more)).await.expect(201)
    }

    /// Invokes an agentic tool with a task and returns the response, whose status must be 200.
    pub(crate) async fn invoke(&self, tool: &str, task: &str) -> Value {
        let body = json!({ "tool": tool, "params": { "task": task } });
        self.post(&format!("{PATH}/invoke"), body).await.expect(200)
    }

    pub(crate) async fn execution(&self, tool: &str, invocation: &Value) -> Value {
        let id = invocation["meta"]["executionId"].as_str().unwrap();
        self.get(&format!("{PATH}/{tool}/executions/{id}")).await.expect(200)
    }

    /// Defines the provider and the tools of a CRM.
    pub(crate) async fn define_crm(&self, crm: &crm::Handle) {
        for demo in demo(BaseUrls { crm: &crm.base_url(), orders: "http://127.0.0.1:9", web: "http://127.0.0.1:9" }) {
            let is_crm = |body: &Value| {
                let name = body["refName"].as_str().unwrap_or_default();
                name == "hubspot" || name.starts_with("hubspot/")
            };
            match demo.kind {
                DefinitionKind::Provider if is_crm(&demo.body) => {
                    self.post("tool-providers", demo.body).await.expect(201);
                }
                // Results of reads are not cached, so that tests see each change.
                DefinitionKind::Tool if is_crm(&demo.body) => {
                    self.post("tools", merge(demo.body, json!({ "cache": "none" }))).await.expect(201);
                }
                _ => {}
            }
        }
        for secret in SECRETS {
            self.post("secrets", json!({ "name": secret.name, "value": secret.value })).await.expect(201);
        }
    }
}

/// Starts a CRM with the default deals.
pub(crate) async fn start_crm() -> crm::Handle {
    Crm::builder().start(LOOPBACK).await.unwrap()
}

/// The purposes of the calls to the embedded model.
pub(crate) fn purposes(execution: &Value) -> Vec<&str> {
    execution["llmCalls"].as_array().unwrap().iter().map(|call| call["purpose"].as_str().unwrap()).collect()
}

/// Returns one word for each step of an invocation's trace: the purpose of a model call, or the name of a tool.
pub(crate) fn trace(invocation: &Value) -> Vec<&str> {
    let steps = invocation["meta"]["trace"]["steps"].as_array().unwrap();
    steps.iter().map(|step| step.get("purpose").or_else(|| step.get("action")).unwrap().as_str().unwrap()).collect()
}
