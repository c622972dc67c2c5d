//! Agents that can be called like tools from outside of any run.

use std::sync::Arc;

use toolwright_store::{ListError, ListQuery};
use toolwright_tools::CompiledTool;
use toolwright_types::{AgentDefinition, Document, DocumentKind, SideEffects, Surface};

use super::Agents;
use crate::Unavailable;
use crate::access::Session;

/// How many definitions are read at once.
const PAGE: u32 = 1000;

impl Agents {
    /// The agents that a session can call like tools on a surface, each as a tool.
    pub async fn offered(&self, session: &Session, surface: Surface) -> Result<Vec<Arc<CompiledTool>>, Unavailable> {
        let mut offered = Vec::new();
        let mut query = ListQuery { limit: PAGE, ..ListQuery::default() };
        loop {
            let page = self.0.store.in_realm(&session.realm).list(DocumentKind::Agent, &query).await;
            let page = page.map_err(unlisted)?;
            for document in page.items {
                // By its compiled form: one that this release cannot run is not offered.
                if document.body.get("availableAs").is_none_or(|surfaces| surfaces.is_null()) {
                    continue;
                }
                let found = self.0.resolver.catalog.agent(&session.realm, document.meta.ref_name.as_str()).await?;
                let Some(agent) = found else { continue };
                let wanted = agent.document.body.available_as.contains(&surface);
                if wanted && self.may_run(session, &agent).is_ok() {
                    offered.push(Arc::new(self.seen_from_outside(&agent.document)?));
                }
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(offered),
            }
        }
    }

    /// Nobody else's rules bound it here, so it does to the world what its own policy lets it.
    fn seen_from_outside(&self, agent: &Document<AgentDefinition>) -> Result<CompiledTool, Unavailable> {
        let effects = agent.body.policy.side_effects.unwrap_or(SideEffects::Writes);
        self.0.resolver.as_tool(agent, effects)
    }
}

fn unlisted(error: ListError) -> Unavailable {
    Unavailable::new("the agents cannot be listed")(Box::new(error))
}
