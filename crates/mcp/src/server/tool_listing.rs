//! Lists the tools and agents that a viewer (principal and realm) can call, under names that MCP clients accept. A
//! listing is built once per viewer and catalog generation.

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
use toolwright_catalog::{Session, Unavailable, Viewer};
use toolwright_engine::Engine;
use toolwright_tools::export::{ExportFormat, export, unwrap_arguments};
use toolwright_tools::{CallRequest, CompiledTool};
use toolwright_types::{Surface, ToolType};

use super::list_changes::ListChanges;
use super::{Server, unavailable};

/// The page size. It is large because few clients request further pages.
const PAGE_SIZE: usize = 1000;
/// The maximum length of a cursor, which is a tool name.
const MAX_CURSOR_LEN: usize = 128;

/// The maximum number of tools in all cached listings. They use about 100 MB.
const MAX_CACHED_TOOLS: u64 = 100_000;
/// The expected number of cached listings.
const EXPECTED_LISTINGS: usize = 1_000;

/// The cached listings, by viewer and catalog generation. Concurrent requests for the same listing build it only once.
/// Listings of past generations are not requested any more, so the cache evicts them.
pub(super) struct ToolListingCache(Cache<(Viewer, u64), Arc<ToolListing>, ToolCountWeighter>);

#[derive(Clone)]
struct ToolCountWeighter;

impl Weighter<(Viewer, u64), Arc<ToolListing>> for ToolCountWeighter {
    fn weight(&self, _key: &(Viewer, u64), tool_listing: &Arc<ToolListing>) -> u64 {
        tool_listing.tools.len() as u64 + 1
    }
}

impl Default for ToolListingCache {
    #[expect(clippy::expect_used, reason = "`build` fails only without the two limits, which are set")]
    fn default() -> Self {
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(EXPECTED_LISTINGS).weight_capacity(MAX_CACHED_TOOLS);
        // The cache has one shard. With several shards, each would have only a part of the capacity, and a large
        // listing would not fit.
        let options = options.shards(1).build().expect("both limits are set");
        Self(Cache::with_options(options, ToolCountWeighter, Default::default(), Default::default()))
    }
}

/// All tools and agents that a viewer can call.
pub(super) struct ToolListing {
    /// Sorted by name.
    tools: Vec<Tool>,
    callables: BTreeMap<String, Callable>,
    digest: ListingDigest,
}

/// Hashes of the lists. Two listings are compared by these hashes only.
#[derive(Clone, Copy, Default)]
struct ListingDigest {
    tools: u64,
    /// The hash of the first page of prompts. `None` if the prompts could not be read.
    prompts: Option<u64>,
}

/// The tool or agent that a listed name stands for.
#[derive(Clone)]
pub(super) struct Callable {
    pub tool: Arc<CompiledTool>,
    /// The listed version.
    pub version: VersionReq,
}

impl Callable {
    fn new(tool: Arc<CompiledTool>) -> Self {
        let version = format!("={}", tool.definition.version).parse().unwrap_or(VersionReq::STAR);
        Self { tool, version }
    }

    /// The name of the tool in the realm.
    pub(super) fn name(&self) -> &str {
        self.tool.definition.ref_name.as_str()
    }

    /// Creates a request to call the tool.
    pub(super) fn call_request(&self, arguments: JsonObject) -> CallRequest {
        let input = unwrap_arguments(&self.tool, Value::Object(arguments));
        CallRequest { tool: self.name().to_owned(), version: Some(self.version.clone()), input }
    }

    pub(super) fn is_agent(&self) -> bool {
        self.tool.definition.tool_type == ToolType::Agent
    }
}

impl Server {
    /// Returns the current listing for this session.
    pub(super) async fn tool_listing(&self, session: &Session) -> Result<Arc<ToolListing>, ErrorData> {
        let engine = self.engine();
        // Read the generation before the listing is built, so that a listing is never older than the generation under
        // which it is cached.
        let generation = *engine.registry.catalog().generations().borrow();
        let key = (Viewer::new(&session.principal, &session.realm), generation);
        if let Some(cached) = self.0.listings.0.get(&key) {
            return Ok(cached);
        }
        let listing =
            self.0.listings.0.get_or_insert_async(&key, async { self.build_tool_listing(session).await.map(Arc::new) });
        listing.await.map_err(unavailable)
    }

    async fn build_tool_listing(&self, session: &Session) -> Result<ToolListing, Unavailable> {
        let mut tool_listing = ToolListing::make(self.engine(), session).await?;
        let prompts = self.prompts(session, None).await.ok().map(|(prompts, _)| digest_of(&prompts));
        tool_listing.digest = ListingDigest { tools: digest_of(&tool_listing.tools), prompts };
        Ok(tool_listing)
    }
}

impl ToolListing {
    async fn make(engine: &Engine, session: &Session) -> Result<Self, Unavailable> {
        let tools = engine.calls.offered(session, Surface::McpTool).await?;
        // Client tools are left out, because MCP clients cannot execute them. Tool search is left out, because it needs
        // a run.
        let tools =
            tools.into_iter().filter(|tool| tool.definition.is_tool_fully_executed_on_server && !tool.is_run_only());
        let agents = engine.agents.exposed_as_tools(session, Surface::McpTool).await?;
        let mut rendered = BTreeMap::new();
        let mut callables = BTreeMap::new();
        for tool in tools.chain(agents) {
            let Some(shown) = render(&tool) else { continue };
            let name = shown.name.to_string();
            // Tools take precedence over agents of the same name.
            if callables.contains_key(&name) {
                tracing::warn!(name, "agent has the name of a tool and is not listed over MCP");
                continue;
            }
            callables.insert(name.clone(), Callable::new(tool));
            rendered.insert(name, shown);
        }
        Ok(Self { tools: rendered.into_values().collect(), callables, digest: ListingDigest::default() })
    }

    /// Finds a tool or agent by its listed name.
    pub(super) fn find(&self, name: &str) -> Option<&Callable> {
        self.callables.get(name)
    }

    /// Returns the page after `cursor`, and the next cursor.
    pub(super) fn page(&self, cursor: Option<&str>) -> Result<(Vec<Tool>, Option<String>), ErrorData> {
        if cursor.is_some_and(|name| name.is_empty() || name.len() > MAX_CURSOR_LEN) {
            return Err(ErrorData::invalid_params("`cursor` must be a cursor that this server returned", None));
        }
        // The cursor is a name and not an offset, so that no tool is missed when tools are added or removed between two
        // pages.
        let from = cursor.map_or(0, |last| self.tools.partition_point(|tool| &*tool.name <= last));
        let page: Vec<Tool> = self.tools.iter().skip(from).take(PAGE_SIZE).cloned().collect();
        let more = self.tools.len() > from.saturating_add(PAGE_SIZE);
        let next = page.last().filter(|_| more).map(|tool| tool.name.to_string());
        Ok((page, next))
    }

    /// Returns which lists differ from those of `before`. A list that could not be read counts as unchanged.
    pub(super) fn changes_since(&self, before: &ToolListing) -> ListChanges {
        let (new, old) = (self.digest, before.digest);
        let prompts = new.prompts.zip(old.prompts).is_some_and(|(new, old)| new != old);
        ListChanges { tools: new.tools != old.tools, prompts }
    }
}

fn digest_of(shown: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(shown).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn render(tool: &CompiledTool) -> Option<Tool> {
    let rendered = serde_json::from_value(export(tool, ExportFormat::Mcp));
    rendered
        .inspect_err(
            |error| tracing::error!(tool = %tool.definition.ref_name, %error, "tool cannot be rendered for MCP"),
        )
        .ok()
}

#[cfg(test)]
mod tests {
    use toolwright_types::{OrgId, Principal, PrincipalId, RealmId, RealmScope, Role};

    use super::*;

    fn tool_listing(numbers: impl Iterator<Item = usize>) -> ToolListing {
        let tools = numbers.map(|n| Tool::new(format!("tool_{n:05}"), "", JsonObject::new()));
        ToolListing { tools: tools.collect(), callables: BTreeMap::new(), digest: ListingDigest::default() }
    }

    #[test]
    fn paging_returns_every_tool_exactly_once() {
        for count in [0, 1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE, 2 * PAGE_SIZE + 7] {
            let tool_listing = tool_listing(0..count);
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let (page, next) = tool_listing.page(cursor.as_deref()).unwrap();
                seen.extend(page);
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, tool_listing.tools, "{count}");
        }
    }

    #[test]
    fn next_page_starts_at_the_next_tool_even_if_earlier_tools_were_removed() {
        let (_, next) = tool_listing(0..2 * PAGE_SIZE).page(None).unwrap();
        // Two tools of the first page were removed, one of them the last tool of the page.
        let later = tool_listing((0..2 * PAGE_SIZE).filter(|n| *n != 3 && *n != PAGE_SIZE - 1));
        let (page, _) = later.page(next.as_deref()).unwrap();
        assert_eq!(page.first().unwrap().name, format!("tool_{PAGE_SIZE:05}"));
    }

    #[test]
    fn large_listing_is_cached_and_past_generations_are_evicted() {
        let (org, realm) = (OrgId::from_bits(1), RealmId::from_bits(2));
        let (id, name, roles) = (PrincipalId::from_bits(3), "ada".parse().unwrap(), vec![Role::Member]);
        let principal = Principal { id, org, name, home: realm, roles };
        let viewer = Viewer::new(&principal, &RealmScope { org, realm, name: "default".parse().unwrap() });
        let (listings, large) = (ToolListingCache::default(), Arc::new(tool_listing(0..40_000)));
        for generation in 0..20 {
            let key = (viewer.clone(), generation);
            listings.0.insert(key.clone(), Arc::clone(&large));
            assert!(listings.0.get(&key).is_some(), "generation {generation}");
        }
        assert!(listings.0.weight() <= MAX_CACHED_TOOLS, "{}", listings.0.weight());
    }
}
