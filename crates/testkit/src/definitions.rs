//! The demo's providers, tools, agentic tools and agent. Each definition is a JSON file in `demo/`, as a user would
//! write it.
//!
//! Only the base URLs are inserted by this module. The files refer to secrets by the names in [`SECRETS`].

use serde_json::Value;

/// The token that the demo's CRM accepts. It is valid nowhere else.
pub const HUBSPOT_TOKEN: &str = "demo-hubspot-token-not-real";

/// The key that the demo's orders API accepts. It is valid nowhere else.
pub const ORDERS_KEY: &str = "demo-orders-key-not-real";

/// The key that the APIs of the demo's web accept. It is valid nowhere else.
pub const WEB_KEY: &str = "demo-web-key-not-real";

/// The secrets that the demo stores.
pub const SECRETS: [Secret; 3] = [
    Secret { name: "hubspot-token", value: HUBSPOT_TOKEN },
    Secret { name: "orders-key", value: ORDERS_KEY },
    Secret { name: "web-key", value: WEB_KEY },
];

/// A secret of the demo. Providers refer to the secret by its name, in `secretRef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The name in the secret store.
    pub name: &'static str,
    /// The value. It is public.
    pub value: &'static str,
}

/// One definition of the demo.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoDefinition {
    /// The kind of resource.
    pub kind: DefinitionKind,
    /// The body of the request that creates the definition.
    pub body: Value,
}

/// The kinds of definition in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A connection to a system.
    Provider,
    /// A tool that uses a provider.
    Tool,
    /// A tool with an embedded model, which uses other tools.
    AgenticTool,
    /// A prompt fragment.
    Fragment,
    /// An agent that uses the tools.
    Agent,
}

/// The base URLs of the demo's systems.
#[derive(Clone, Copy, Debug)]
pub struct BaseUrls<'a> {
    /// The CRM.
    pub crm: &'a str,
    /// The orders API.
    pub orders: &'a str,
    /// The web.
    pub web: &'a str,
}

/// The scripts with the replies of the demo's agents and agentic tools. They replace the model if no model is
/// configured. The first rule that matches applies, so the order of the scripts matters.
pub const SCRIPTS: [&str; 3] = [
    include_str!("../scripts/deal-manager.json"),
    include_str!("../scripts/research.json"),
    include_str!("../scripts/assistant.json"),
];

/// Returns all definitions of the demo in the order in which they can be created. A definition comes after the
/// definitions that it refers to.
pub fn demo(urls: BaseUrls<'_>) -> Vec<DemoDefinition> {
    let read = |kind, text| {
        let mut body = parse(text);
        fill_base_urls(&mut body, urls);
        DemoDefinition { kind, body }
    };
    let providers = PROVIDERS.iter().map(|text| read(DefinitionKind::Provider, text));
    let tools = TOOLS.iter().map(|text| read(DefinitionKind::Tool, text));
    let agentic_tools = AGENTIC_TOOLS.iter().map(|text| read(DefinitionKind::AgenticTool, text));
    let fragment = read(DefinitionKind::Fragment, include_str!("../demo/fragment-crm-manners.json"));
    let agent = read(DefinitionKind::Agent, include_str!("../demo/agent-assistant.json"));
    providers.chain(tools).chain(agentic_tools).chain([fragment, agent]).collect()
}

const PROVIDERS: [&str; 3] = [
    include_str!("../demo/provider-hubspot.json"),
    include_str!("../demo/provider-orders-api.json"),
    include_str!("../demo/provider-web.json"),
];

const AGENTIC_TOOLS: [&str; 2] =
    [include_str!("../demo/hubspot-deal-manager.json"), include_str!("../demo/research-assistant.json")];

const TOOLS: [&str; 17] = [
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
    include_str!("../demo/google-search.json"),
    include_str!("../demo/firecrawl-scrape.json"),
    include_str!("../demo/pdf-extract.json"),
];

#[expect(clippy::expect_used, reason = "the files are compiled in, and every demo test parses all of them")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the files in demo/ are JSON")
}

/// Replaces the placeholders for base URLs in the parsed JSON. A URL therefore cannot change the structure of a
/// definition, as it could in the JSON text.
fn fill_base_urls(value: &mut Value, urls: BaseUrls<'_>) {
    match value {
        Value::String(text) if text == "{{CRM_URL}}" => urls.crm.clone_into(text),
        Value::String(text) if text == "{{ORDERS_URL}}" => urls.orders.clone_into(text),
        Value::String(text) if text == "{{WEB_URL}}" => urls.web.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_base_urls(item, urls)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_base_urls(field, urls)),
        _ => {}
    }
}
