//! What a viewer is offered: tools and agents under the names that MCP clients take, rendered once for each edition of
//! the catalog.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use rmcp::ErrorData;
use rmcp::model::{JsonObject, Tool};
use semver::VersionReq;
use serde::Serialize;
use serde_json::Value;
use toolwright_engine::{Engine, Session, Unavailable, Viewer};
use toolwright_tools::builtin::search_tools;
use toolwright_tools::export::{Format, export, unwrap_arguments};
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{Source, Surface, ToolType};

use super::news::Changed;
use super::{Server, unavailable};

/// How many tools are on a page. Few clients turn pages.
const PAGE: usize = 1000;
/// The longest name that a cursor can hold.
const LONGEST_CURSOR: usize = 128;

/// How many tools all offers that are kept have together: about a hundred megabytes.
const MOST_TOOLS: u64 = 100_000;
/// About how many offers that may be.
const MOST_OFFERS: usize = 1_000;

/// Offers, by viewer and edition. However many sessions ask for one at once, it is made once.
/// An edition that has passed is never asked for again, and gives way to later ones.
pub(super) struct Offers(Cache<(Viewer, u64), Arc<Offer>, ByTools>);

#[derive(Clone)]
struct ByTools;

impl Weighter<(Viewer, u64), Arc<Offer>> for ByTools {
    fn weight(&self, _key: &(Viewer, u64), offer: &Arc<Offer>) -> u64 {
        offer.tools.len() as u64 + 1
    }
}

impl Default for Offers {
    #[expect(clippy::expect_used, reason = "options need both limits, and have them")]
    fn default() -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(MOST_OFFERS).weight_capacity(MOST_TOOLS);
        // In one piece: each piece of a cache has its share of the room, and a large offer would fit into none.
        let options = options.shards(1).build().expect("both limits");
        Self(Cache::with_options(options, ByTools, Default::default(), Default::default()))
    }
}

/// Everything that a viewer can call.
pub(super) struct Offer {
    /// In the order of their names.
    tools: Vec<Tool>,
    callables: BTreeMap<String, Callable>,
    looks: Looks,
}

/// A mark of what is shown: to compare two offers is to compare numbers, however many sessions do it.
#[derive(Clone, Copy, Default)]
struct Looks {
    tools: u64,
    /// Of the first prompts, unless they could not be read.
    prompts: Option<u64>,
}

/// What is behind a name.
#[derive(Clone)]
pub(super) struct Callable {
    pub tool: Arc<CompiledTool>,
    /// The version that was shown.
    pub version: VersionReq,
}

impl Callable {
    fn of(tool: Arc<CompiledTool>) -> Self {
        let version = format!("={}", tool.definition.version).parse().unwrap_or(VersionReq::STAR);
        Self { tool, version }
    }

    /// The name by which the engine knows it.
    pub fn name(&self) -> &str {
        self.tool.definition.ref_name.as_str()
    }

    /// A call of it.
    pub fn called_with(&self, arguments: JsonObject) -> CallRequest {
        let input = unwrap_arguments(&self.tool, Value::Object(arguments));
        CallRequest { tool: self.name().to_owned(), version: Some(self.version.clone()), input }
    }

    /// Whether it is an agent.
    pub fn is_agent(&self) -> bool {
        self.tool.definition.tool_type == ToolType::Agent
    }
}

impl Server {
    /// What this session is offered now.
    pub(super) async fn offer(&self, session: &Session) -> Result<Arc<Offer>, ErrorData> {
        let engine = self.engine();
        // Before anything is read: an offer is at least as new as the edition it is kept for.
        let edition = *engine.registry.catalog().editions().borrow();
        let key = (Viewer::of(&session.principal, &session.realm), edition);
        if let Some(known) = self.0.offers.0.get(&key) {
            return Ok(known);
        }
        let made = self.0.offers.0.get_or_insert_async(&key, async { self.make_offer(session).await.map(Arc::new) });
        made.await.map_err(unavailable)
    }

    async fn make_offer(&self, session: &Session) -> Result<Offer, Unavailable> {
        let mut offer = Offer::make(self.engine(), session).await?;
        let prompts = self.prompts(session, None).await.ok().map(|(prompts, _)| look_of(&prompts));
        offer.looks = Looks { tools: look_of(&offer.tools), prompts };
        Ok(offer)
    }
}

impl Offer {
    async fn make(engine: &Engine, session: &Session) -> Result<Self, Unavailable> {
        let tools = engine.calls.offered(session, Surface::McpTool).await?;
        // The last step of the others is a client's, and no MCP client takes it; and there is no run here whose tools could
        // be searched.
        let tools =
            tools.into_iter().filter(|tool| tool.definition.is_tool_fully_executed_on_server && !is_for_runs(tool));
        let agents = engine.agents.offered(session, Surface::McpTool).await?;
        let mut rendered = BTreeMap::new();
        let mut callables = BTreeMap::new();
        for tool in tools.chain(agents) {
            let Some(shown) = render(&tool) else { continue };
            let name = shown.name.to_string();
            // Tools come first: an agent of the same name is not offered.
            if callables.contains_key(&name) {
                tracing::warn!(name, "an agent has the name of a tool and is not offered over MCP");
                continue;
            }
            callables.insert(name.clone(), Callable::of(tool));
            rendered.insert(name, shown);
        }
        Ok(Self { tools: rendered.into_values().collect(), callables, looks: Looks::default() })
    }

    /// What a name stands for.
    pub fn find(&self, name: &str) -> Option<&Callable> {
        self.callables.get(name)
    }

    /// The tools after `cursor`, and where the next page begins.
    pub fn page(&self, cursor: Option<&str>) -> Result<(Vec<Tool>, Option<String>), ErrorData> {
        if cursor.is_some_and(|name| name.is_empty() || name.len() > LONGEST_CURSOR) {
            return Err(ErrorData::invalid_params("`cursor` is none that this server gave", None));
        }
        // A name and not a number: what is added or removed meanwhile makes nobody miss a tool.
        let from = cursor.map_or(0, |last| self.tools.partition_point(|tool| &*tool.name <= last));
        let page: Vec<Tool> = self.tools.iter().skip(from).take(PAGE).cloned().collect();
        let more = self.tools.len() > from.saturating_add(PAGE);
        let next = page.last().filter(|_| more).map(|tool| tool.name.to_string());
        Ok((page, next))
    }

    /// What is news to a client that was shown `before`. What could not be read is none.
    pub fn news_since(&self, before: &Offer) -> Changed {
        let (new, old) = (self.looks, before.looks);
        let prompts = new.prompts.zip(old.prompts).is_some_and(|(new, old)| new != old);
        Changed { tools: new.tools != old.tools, prompts }
    }
}

fn look_of(shown: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(shown).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn is_for_runs(tool: &CompiledTool) -> bool {
    tool.source == Source::BuiltIn && tool.definition.ref_name.as_str() == search_tools::NAME
}

fn render(tool: &CompiledTool) -> Option<Tool> {
    let rendered = serde_json::from_value(export(tool, Format::Mcp));
    rendered
        .inspect_err(|error| tracing::error!(tool = %tool.definition.ref_name, %error, "a tool has no MCP form"))
        .ok()
}

#[cfg(test)]
mod tests {
    use toolwright_types::{OrgId, Principal, PrincipalId, RealmId, RealmScope, Role};

    use super::*;

    fn offer(numbers: impl Iterator<Item = usize>) -> Offer {
        let tools = numbers.map(|n| Tool::new(format!("tool_{n:05}"), "", JsonObject::new()));
        Offer { tools: tools.collect(), callables: BTreeMap::new(), looks: Looks::default() }
    }

    #[test]
    fn pages_have_every_tool_once() {
        for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 7] {
            let offer = offer(0..count);
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let (page, next) = offer.page(cursor.as_deref()).unwrap();
                seen.extend(page);
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, offer.tools, "{count}");
        }
    }

    #[test]
    fn nothing_is_missed_when_tools_go_between_pages() {
        let (_, next) = offer(0..2 * PAGE).page(None).unwrap();
        // The one that the first page ended with is gone, and so is one before it.
        let later = offer((0..2 * PAGE).filter(|n| *n != 3 && *n != PAGE - 1));
        let (page, _) = later.page(next.as_deref()).unwrap();
        assert_eq!(page.first().unwrap().name, format!("tool_{PAGE:05}"));
    }

    #[test]
    fn an_offer_of_very_many_tools_is_kept_and_passed_editions_give_way() {
        let (org, realm) = (OrgId::from_bits(1), RealmId::from_bits(2));
        let (id, name, roles) = (PrincipalId::from_bits(3), "ada".parse().unwrap(), vec![Role::Member]);
        let principal = Principal { id, org, name, home: realm, roles };
        let viewer = Viewer::of(&principal, &RealmScope { org, realm, name: "default".parse().unwrap() });
        let (offers, large) = (Offers::default(), Arc::new(offer(0..40_000)));
        for edition in 0..20 {
            let key = (viewer.clone(), edition);
            offers.0.insert(key.clone(), Arc::clone(&large));
            assert!(offers.0.get(&key).is_some(), "edition {edition}");
        }
        assert!(offers.0.weight() <= MOST_TOOLS, "{}", offers.0.weight());
    }
}
