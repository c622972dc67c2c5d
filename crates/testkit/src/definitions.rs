//! The demo's providers, tools and agent, as a user would write them: one readable JSON file each, in `demo/`.
//!
//! Only the base URLs are filled in here; secrets are named by the files and found in [`SECRETS`].

use serde_json::Value;

/// The token that the demo's CRM accepts. It opens nothing else.
pub const HUBSPOT_TOKEN: &str = "demo-hubspot-token-not-real";

/// The key that the demo's orders API accepts. It opens nothing else.
pub const ORDERS_KEY: &str = "demo-orders-key-not-real";

/// What the demo puts into the secret store.
pub const SECRETS: [Secret; 2] =
    [Secret { name: "hubspot-token", value: HUBSPOT_TOKEN }, Secret { name: "orders-key", value: ORDERS_KEY }];

/// A secret of the demo, by the name that providers use in `secretRef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Name in the secret store.
    pub name: &'static str,
    /// The value, which is known to everybody.
    pub value: &'static str,
}

/// One definition, ready to be posted to the API.
#[derive(Clone, Debug, PartialEq)]
pub struct Demo {
    /// Which resource it is.
    pub kind: Kind,
    /// The body of the request that creates it.
    pub body: Value,
}

/// The kinds of definition in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection to a system.
    Provider,
    /// A tool that uses one.
    Tool,
    /// A piece of a prompt.
    Fragment,
    /// An agent that uses the tools.
    Agent,
}

/// What the demo's agent says where no model is configured: rules, clearly not a model.
pub const ASSISTANT_SCRIPT: &str = include_str!("../scripts/assistant.json");

/// All definitions of the demo, providers first, so that they can be created in this order.
pub fn demo(crm_url: &str, orders_url: &str) -> Vec<Demo> {
    let read = |kind, text| {
        let mut body = parse(text);
        fill(&mut body, crm_url, orders_url);
        Demo { kind, body }
    };
    let providers = PROVIDERS.iter().map(|text| read(Kind::Provider, text));
    let tools = TOOLS.iter().map(|text| read(Kind::Tool, text));
    let fragment = read(Kind::Fragment, include_str!("../demo/fragment-crm-manners.json"));
    let agent = read(Kind::Agent, include_str!("../demo/agent-assistant.json"));
    providers.chain(tools).chain([fragment, agent]).collect()
}

const PROVIDERS: [&str; 2] =
    [include_str!("../demo/provider-hubspot.json"), include_str!("../demo/provider-orders-api.json")];

const TOOLS: [&str; 14] = [
    include_str!("../demo/hubspot-search-deals.json"),
    include_str!("../demo/hubspot-get-deal.json"),
    include_str!("../demo/hubspot-update-deal.json"),
    include_str!("../demo/hubspot-batch-update-deals.json"),
    include_str!("../demo/hubspot-create-deal.json"),
    include_str!("../demo/hubspot-add-note.json"),
    include_str!("../demo/hubspot-find-note.json"),
    include_str!("../demo/hubspot-send-email.json"),
    include_str!("../demo/hubspot-list-companies.json"),
    include_str!("../demo/hubspot-deal-stages.json"),
    include_str!("../demo/orders-list.json"),
    include_str!("../demo/orders-get.json"),
    include_str!("../demo/orders-create.json"),
    include_str!("../demo/orders-cancel.json"),
];

#[expect(clippy::expect_used, reason = "the files are part of the program; every test of the demo reads all of them")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the files in demo/ are JSON")
}

/// Fills in the base URLs after parsing, so that no URL can change the structure of a definition.
fn fill(value: &mut Value, crm_url: &str, orders_url: &str) {
    match value {
        Value::String(text) if text == "{{CRM_URL}}" => crm_url.clone_into(text),
        Value::String(text) if text == "{{ORDERS_URL}}" => orders_url.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, crm_url, orders_url)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, crm_url, orders_url)),
        _ => {}
    }
}
