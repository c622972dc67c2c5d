//! Summarises the conversation turns that no longer fit into the agent's memory. Each summary is created by a separate
//! run.

use std::fmt::Write as _;
use std::sync::Arc;

use toolwright_store::Turn;
use toolwright_types::{AgentDefinition, Document, MemoryConfig, RunId, RunStatus};

use super::spec::RunOrigin;
use super::{Agents, CompiledAgent};
use toolwright_catalog::Session;

const INSTRUCTIONS: &str = "You summarise conversations. Keep what later turns may need: facts, names, numbers, ids, \
decisions, open questions. Leave out courtesies. Answer with the summary alone.";

impl Agents {
    /// Summarises `turns` and the previous summary `before`. The error is the reason why no summary was created.
    pub(super) async fn summarise(
        &self,
        agent: &CompiledAgent,
        origin: &RunOrigin,
        before: Option<&str>,
        turns: &[Turn],
    ) -> Result<String, String> {
        let summariser = self.summariser(agent, origin).await?;
        let summary_origin = RunOrigin {
            run: RunId::from_bits(summary_run_id(origin.run)),
            realm: Arc::clone(&origin.realm),
            home: Arc::clone(&origin.home),
            owner: origin.owner.clone(),
            principal: Arc::clone(&origin.principal),
            parent: None,
            conversation: None,
            session: origin.session.clone(),
            hops: origin.hops,
            correlation: origin.correlation.clone(),
        };
        let draft =
            self.draft_run(&summariser, summary_origin, serde_json::Map::new(), transcript(before, turns)).await;
        let handle = self.launch(draft.map_err(|error| error.to_string())?, Vec::new()).await;
        let settled = self.0.runs.settled(&handle.map_err(|error| error.to_string())?).await;
        let snapshot = settled.ok_or("the summary's run was lost")?;
        let outputs = snapshot.run.outputs();
        match snapshot.run.status() {
            RunStatus::Completed if !outputs.response.trim().is_empty() => Ok(outputs.response),
            status => Err(format!("run `{}` ended {status}", snapshot.run.id())),
        }
    }

    /// Returns the summary agent that the definition names, otherwise an agent without tools that uses the same model.
    async fn summariser(&self, agent: &CompiledAgent, origin: &RunOrigin) -> Result<Arc<CompiledAgent>, String> {
        let definition = &agent.document.body;
        if let Some(name) = &definition.memory_config.summary_agent_ref {
            let found = self.0.resolver.catalog.agent(&origin.realm, name).await.map_err(|error| error.to_string())?;
            let agent = found.ok_or_else(|| format!("there is no agent `{name}`"))?;
            let acting = Session::new(Arc::clone(&origin.principal), Arc::clone(&origin.realm));
            self.check_may_run(&acting, &agent).map_err(|error| error.to_string())?;
            return Ok(agent);
        }
        let mut own = AgentDefinition::new(definition.ref_name.clone());
        own.llm_config = definition.llm_config.clone();
        own.fallback_model.clone_from(&definition.fallback_model);
        own.system_prompt = Some(INSTRUCTIONS.to_owned());
        own.memory_config = MemoryConfig { persist_conversation: Some(false), ..MemoryConfig::default() };
        let document = Document { meta: agent.document.meta.clone(), body: own };
        CompiledAgent::compile(document, &[]).map(Arc::new).map_err(|issues| issues.to_string())
    }
}

fn transcript(before: Option<&str>, turns: &[Turn]) -> String {
    let mut text = String::new();
    if let Some(before) = before {
        let _ = writeln!(text, "Summary of the earlier conversation:\n{before}\n");
    }
    text.push_str("Summarise this conversation:\n");
    for turn in turns {
        let _ = writeln!(text, "\n[{}] {}", turn.role, turn.content);
    }
    text
}

/// Derives the id of the summary run from the id of the run that needs the summary.
fn summary_run_id(run: RunId) -> u128 {
    let digest = toolwright_types::json::digest(&serde_json::json!([run.to_string(), "summary"]));
    digest.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}
