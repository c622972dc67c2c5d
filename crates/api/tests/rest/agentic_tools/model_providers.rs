//! Agentic tools with the wire formats of OpenAI, Anthropic and Google, against a third-party mock of these providers.

use serde_json::{Value, json};

use super::{agentic, deterministic, purposes, start_crm, trace};
use crate::harness::{Server, required_env, with_model_mock};

const PROVIDERS: [(&str, &str, &str); 3] =
    [("openai", "gpt-4o", "/v1"), ("anthropic", "claude-sonnet-4-20250514", ""), ("google", "gemini-2.5-pro", "")];

/// The configuration of an embedded model that the mock serves.
fn mocked_model(provider: &str, model: &str, suffix: &str) -> Value {
    let base = format!("{}{suffix}", required_env("TOOLWRIGHT_TEST_AIMOCK_URL"));
    json!({ "provider": provider, "model": model, "baseUrl": base, "apiKeySecretRef": "model-key" })
}

async fn stage_of(server: &Server, deal: &str) -> Value {
    server.call("hubspot%2Fget-deal", json!({ "dealId": deal })).await["output"]["properties"]["dealstage"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_model_provider_plans_and_formats_a_deterministic_tool() {
    with_model_mock(|server| async move {
        let crm = start_crm().await;
        server.define_crm(&crm).await;
        for (provider, model, suffix) in PROVIDERS {
            let reset = json!({ "dealId": "101", "properties": { "dealstage": "qualifiedtobuy" } });
            assert!(server.call("hubspot%2Fupdate-deal", reset).await["error"].is_null());
            let tool = deterministic(provider, &["hubspot/search-deals", "hubspot/update-deal"], json!([]));
            let more = json!({ "embeddedLLMConfig": mocked_model(provider, model, suffix) });
            server.define_agentic_tool(tool, more).await;
            let done = server.invoke(provider, "Update all Acme Corp deals to Negotiation").await;
            assert_eq!((&done["success"], &done["data"]["deals_affected"]), (&json!(true), &json!(5)), "{done}");
            assert_eq!(stage_of(&server, "101").await, "negotiation", "{provider}");
            let execution = server.execution(provider, &done).await;
            assert_eq!(purposes(&execution), ["planning", "result_review"], "{provider}");
            let first = &execution["llmCalls"][0];
            assert_eq!((&first["tokensInput"], &first["tokensOutput"]), (&json!(800), &json!(434)), "{provider}");
            if provider == "openai" {
                // 800 input tokens of gpt-4o at 0.005 dollars and 434 output tokens at 0.015 dollars per 1,000 tokens.
                assert_eq!(first["cost"], json!(0.01051), "{execution}");
            }
        }
        crm.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agentic_tool_calls_its_tools_with_the_models_of_every_provider() {
    with_model_mock(|server| async move {
        server.define_echo("google/search", json!({})).await;
        server.define_echo("firecrawl/scrape", json!({})).await;
        for (provider, model, suffix) in PROVIDERS {
            let tool = agentic(provider, &["google/search", "firecrawl/scrape"], json!([]));
            let config = json!({ "embeddedLLMConfig": mocked_model(provider, model, suffix) });
            server.define_agentic_tool(tool, config).await;
            let done = server.invoke(provider, "Find competitor pricing").await;
            let expected = ["planning", "google/search", "firecrawl/scrape", "result_review"];
            assert_eq!(trace(&done), expected, "{provider}: {done}");
            assert!(done["data"]["summary"].as_str().unwrap().contains("Source: http"), "{done}");
        }
    })
    .await;
}
