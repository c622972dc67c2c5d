//! Tests the agentic tools of the demo. A script replaces their models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

mod support;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use support::runs::api;
use support::{ADMIN_KEY, Server};
use toolwright_tools::http::{EgressPolicy, HttpClient};

/// Calls an agentic tool with a task. Returns its envelope.
async fn execute(server: &Server, tool: &str, task: &str) -> Value {
    let body = json!({ "input": { "task": task } });
    let (status, envelope) = api(server, Method::POST, &format!("tools/{tool}/execute"), Some(body)).await;
    assert_eq!(status, 200, "{envelope}");
    envelope
}

/// Calls an agentic tool that must succeed. Returns its output.
async fn output(server: &Server, tool: &str, task: &str) -> Value {
    let mut envelope = execute(server, tool, task).await;
    assert_eq!((&envelope["error"], &envelope["metadata"]["warnings"]), (&Value::Null, &Value::Null), "{envelope}");
    envelope["output"].take()
}

/// Reads a route of a demo system, such as `/audit`. The route must need no API key.
async fn inspect(server: &Server, provider: &str, path: &str) -> Value {
    let (_, definition) = api(server, Method::GET, &format!("tool-providers/{provider}"), None).await;
    let url = format!("{}{path}", definition["baseUrl"].as_str().unwrap());
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    client.get(url).send().await.unwrap().json().await.unwrap()
}

/// The ids of the deals that were written, and the operations that wrote them.
fn written(audit: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let field =
        |name: &'static str| audit["log"].as_array().unwrap().iter().map(move |entry| entry[name].as_str().unwrap());
    (field("id").collect(), field("operation").collect())
}

/// The ids of the deals in a stage.
async fn deals_in_stage(server: &Server, stage: &str, limit: u32) -> BTreeSet<String> {
    let filter = json!({ "propertyName": "dealstage", "operator": "EQ", "value": stage });
    let body = json!({ "input": { "filters": [filter], "limit": limit } });
    let (_, envelope) = api(server, Method::POST, "tools/hubspot%2Fsearch-deals/execute", Some(body)).await;
    let deals = envelope["output"]["results"].as_array().unwrap_or_else(|| panic!("{envelope}"));
    deals.iter().map(|deal| deal["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deal_manager_changes_exactly_the_deals_of_the_company() {
    let server = Server::start();
    let before = deals_in_stage(&server, "negotiation", 99).await;
    let result = output(&server, "hubspot-deal-manager", "Update all Acme Corp deals to Negotiation").await;
    let expected = json!({
        "summary": "Updated 5 deals of Acme Corp to Negotiation.",
        "deals_affected": 5,
        "operations_executed": ["hubspot/search-deals", "hubspot/update-deal"],
    });
    assert_eq!(result, expected);
    let audit = inspect(&server, "hubspot", "/audit").await;
    assert_eq!(written(&audit), (["101", "102", "103", "104", "105"].into(), ["deals.update"].into()));
    assert_eq!(audit["writes"], 5);
    // The same search as before shows the change: its results are not cached.
    let after = deals_in_stage(&server, "negotiation", 99).await;
    let added: Vec<&str> = after.difference(&before).map(String::as_str).collect();
    assert_eq!((added, after.len()), (vec!["101", "102", "103", "104", "105"], before.len() + 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn deal_manager_reads_all_pages_and_reports_a_locked_deal() {
    let server = Server::start();
    let result = output(&server, "hubspot-deal-manager", "move the Umbrella Health's deals to closed won").await;
    assert_eq!(
        result["summary"],
        "Updated 24 of 25 deals of Umbrella Health to closed won. 1 could not be changed: The deal is locked. A person must unlock it in the CRM."
    );
    assert_eq!(result["deals_affected"], 24);
    let errors = result["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{result}");
    assert_eq!((&errors[0]["item"]["id"], &errors[0]["tool"]), (&json!("207"), &json!("hubspot/update-deal")));
    assert_eq!(errors[0]["error"]["details"]["http_status"], 423);
    let audit = inspect(&server, "hubspot", "/audit").await;
    assert_eq!(audit["byOperation"]["deals.search"], 3);
    let (deals, _) = written(&audit);
    assert_eq!((deals.len(), deals.contains("207"), &audit["writes"]), (24, false, &json!(24)));
}

#[tokio::test(flavor = "multi_thread")]
async fn deal_manager_changes_nothing_for_questions_and_unknown_tasks() {
    let server = Server::start();
    for (task, expected) in [
        ("Find all TechCo deals", "Found 3 deals of TechCo. Nothing was changed."),
        ("Find deals closing this quarter over $200k", "Found 3 deals over $200k. Nothing was changed."),
        ("Update all Nobody Inc deals to Negotiation", "No deal was found, so nothing was changed."),
        ("Update all Acme Corp deals to Lunch", "Nothing was changed: there is no stage \"Lunch\"."),
        ("Sing a song", "Nothing was changed. I am a script, not a model"),
    ] {
        let result = output(&server, "hubspot-deal-manager", task).await;
        assert!(result["summary"].as_str().unwrap().starts_with(expected), "{task}: {result}");
        assert_eq!(result["deals_affected"], 0, "{task}");
    }
    assert_eq!(inspect(&server, "hubspot", "/audit").await["writes"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_of_the_deal_manager_contains_schemas_and_stages_of_the_crm() {
    let server = Server::start();
    let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
    let url = format!("{}/api/v1/agentic-tools/hubspot-deal-manager/test-prompt", server.url);
    let request = client.post(url).bearer_auth(ADMIN_KEY).json(&json!({ "params": { "task": "Move all Acme deals" } }));
    let preview: Value = request.send().await.unwrap().json().await.unwrap();
    let prompt = preview["systemPrompt"].as_str().unwrap_or_else(|| panic!("{preview}"));
    for expected in
        ["CONTAINS_TOKEN", "- **Decision Maker Bought-In** (ID: `decisionmakerboughtin`)", "Move all Acme deals"]
    {
        assert!(prompt.contains(expected), "{expected}: {prompt}");
    }
    assert!(!prompt.contains("{{"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn research_assistant_cites_its_sources_and_reports_a_page_that_failed() {
    let server = Server::start();
    let result = output(&server, "research-assistant", "Find competitor pricing").await;
    let urls = |field: &str, key: &str| -> Vec<String> {
        result[field].as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    let sources = [
        "https://brambleforge.example/pricing",
        "https://osprey-relay.example/pricing",
        "https://kitebridge.example/pricing",
        "https://marrowstone.example/price-list.pdf",
    ];
    assert_eq!(
        (urls("sources", "url"), urls("findings", "source")),
        (sources.map(String::from).into(), sources.map(String::from).into())
    );
    let prices = result["findings"].to_string();
    for price in ["$79 (Team)", "$0.002 per call", "$12 per user", "Campus license: $9,500 a year"] {
        assert!(prices.contains(price), "{price}: {result}");
    }
    let failed = json!([{
        "url": "https://lanternfold.example/pricing",
        "message": "The page could not be read because its server failed. Use another source.",
    }]);
    assert_eq!(result["errors"], failed);
    let audit = inspect(&server, "web", "/audit").await;
    assert_eq!(audit["byOperation"], json!({ "search": 2, "scrape": 4, "extract": 1 }));

    for (task, expected) in [
        ("Find the price list of Marrowstone", "Edge license: $1,200 a year"),
        ("Why do agents need approvals?", "approvals prevent most of the wrong writes"),
        ("quantum physics", "No page was found."),
        ("What is the pricing of Lanternfold?", "A page was found, but it could not be read."),
    ] {
        let result = output(&server, "research-assistant", task).await;
        assert!(result["summary"].as_str().unwrap().contains(expected), "{task}: {result}");
    }
}

/// The script that replaces the model follows the instructions of the page, as a careless model would.
#[tokio::test(flavor = "multi_thread")]
async fn instructions_in_a_web_page_cannot_call_tools_that_are_not_allocated() {
    let server = Server::start();
    let result = output(&server, "research-assistant", "What do customers say about Pebblewright?").await;
    assert!(result["summary"].as_str().unwrap().ends_with("The server refused that call."), "{result}");
    let message = result["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("hubspot/send-email"), "{message}");
    let requests = inspect(&server, "web", "/requests").await;
    let read = json!({ "operation": "scrape", "subject": "https://pebblewright.example/reviews" });
    assert!(requests.as_array().unwrap().contains(&read), "{requests}");
    let audit = inspect(&server, "hubspot", "/audit").await;
    assert_eq!((&audit["writes"], &audit["byOperation"]["emails.send"]), (&json!(0), &Value::Null));
}

#[test]
fn assistant_hands_a_task_to_the_deal_manager_and_each_write_needs_an_approval() {
    let server = Server::start();
    let task = ["agents", "run", "assistant", "Update all Acme Corp deals to Negotiation"];
    let waiting = server.run(&task).expect_exit(8).out;
    assert!(waiting.contains("… hubspot-deal-manager  run_"), "{waiting}");
    assert_eq!(waiting.matches("? hubspot/update-deal  writes  requires approval").count(), 5, "{waiting}");
    let done = server.run(&[&task[..], &["--yes"]].concat()).expect_exit(0).out;
    assert!(done.contains("Updated 5 deals of Acme Corp to Negotiation."), "{done}");
}
