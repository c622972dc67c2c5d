//! Lists the agents that clients can call as tools, for example through MCP.

use std::sync::Arc;

use toolwright_store::{ListError, ListQuery};
use toolwright_tools::CompiledTool;
use toolwright_types::{AgentDefinition, Document, DocumentKind, SideEffects, Surface};

use super::Agents;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// The number of definitions per page.
const PAGE: u32 = 1000;

impl Agents {
    /// Returns the agents that the session may call as tools on a surface.
    pub async fn exposed_as_tools(
        &self,
        session: &Session,
        surface: Surface,
    ) -> Result<Vec<Arc<CompiledTool>>, Unavailable> {
        let mut exposed_as_tools = Vec::new();
        let mut query = ListQuery { limit: PAGE, ..ListQuery::default() };
        loop {
            let page = self.0.store.definitions(&session.realm).list(DocumentKind::Agent, &query).await;
            let page = page.map_err(list_failed)?;
            for document in page.items {
                // Agents without `availableAs` are skipped before they are compiled. So an agent that does not compile
                // only causes an error if it is exposed.
                if document.body.get("availableAs").is_none_or(|surfaces| surfaces.is_null()) {
                    continue;
                }
                let found = self.0.resolver.catalog.agent(&session.realm, document.meta.ref_name.as_str()).await?;
                let Some(agent) = found else { continue };
                let is_exposed = agent.document.body.available_as.contains(&surface);
                if is_exposed && self.check_may_run(session, &agent).is_ok() {
                    exposed_as_tools.push(Arc::new(self.as_exposed_tool(&agent.document)?));
                }
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(exposed_as_tools),
            }
        }
    }

    /// Compiles an agent as a tool for clients. The side effects of the tool are those that the agent's policy permits,
    /// because no parent run restricts them.
    fn as_exposed_tool(&self, agent: &Document<AgentDefinition>) -> Result<CompiledTool, Unavailable> {
        let effects = agent.body.policy.side_effects.unwrap_or(SideEffects::Writes);
        self.0.resolver.as_tool(agent, effects)
    }
}

fn list_failed(error: ListError) -> Unavailable {
    Unavailable::new("the agents cannot be listed", error)
}
