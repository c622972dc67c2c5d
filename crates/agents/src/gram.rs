//! Builds agents from gram patterns, by compiling or by interpreting them.
//!
//! In both cases the result is a [`CompiledAgent`]. Compiling happens once and rejects unknown properties. Interpreting
//! happens at the start of each run and ignores unknown properties. Both reject a known property with an invalid value,
//! because ignoring an invalid limit would remove the limit.

use std::sync::Arc;

use serde_json::json;
use toolwright_gram::{AgentSpecView, DefinitionIndex, Pattern, is_agent};
use toolwright_notation::{AgentBundle, DefinitionError};
use toolwright_types::json::hex_digest;
use toolwright_types::{DefinitionSource, Document, RealmScope};

use super::Agents;
use super::error::{PatternError, StartError};
use toolwright_catalog::registry::{Definition, ValidationContext, WrittenNames};
use toolwright_catalog::{CompiledAgent, Session, inline_tool_document};

/// The source of a run's agent.
#[derive(Clone, Copy)]
pub enum AgentSource<'a> {
    /// A stored definition of the realm, by name or id.
    Named(&'a str),
    /// A pattern that is interpreted when the run starts.
    Interpreted(&'a AgentPattern),
    /// An agent that is already compiled.
    Compiled(&'a Arc<CompiledAgent>),
}

impl<'a> From<&'a str> for AgentSource<'a> {
    fn from(name: &'a str) -> Self {
        AgentSource::Named(name)
    }
}

/// How a pattern is converted to an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutionModel {
    /// Interprets the pattern and ignores unknown properties.
    Interpret,
    /// Compiles the pattern and rejects unknown properties.
    Compile,
    /// Compiles the pattern. If that fails, interprets the pattern.
    #[default]
    Hybrid,
}

/// A pattern that defines an agent. It includes those tools of the same gram text that the agent refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentPattern(Pattern);

impl AgentPattern {
    /// Parses a text that defines exactly one agent. The text may define the agent's tools inside or outside of the
    /// agent.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let text = toolwright_gram::parse(text)?;
        let agents: Vec<&Pattern> = text.members().iter().filter(|member| is_agent(member)).collect();
        match agents.as_slice() {
            [agent] => Ok(Self(DefinitionIndex::from_patterns([&text]).inline(agent))),
            _ => Err(PatternError::NotOneAgent(agents.len())),
        }
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.0
    }

    fn to_bundle(&self, model: ExecutionModel) -> Result<AgentBundle, PatternError> {
        let no_definitions = DefinitionIndex::default();
        let interpret = || {
            let view = AgentSpecView::new(&self.0, &no_definitions);
            let view = view.map_err(|problems| problems.into_iter().map(DefinitionError::from).collect::<Vec<_>>())?;
            AgentBundle::interpret(&view, &no_definitions)
        };
        let read = match model {
            ExecutionModel::Interpret => interpret(),
            ExecutionModel::Compile => AgentBundle::compile(&self.0, &no_definitions),
            ExecutionModel::Hybrid => AgentBundle::compile(&self.0, &no_definitions).or_else(|_| interpret()),
        };
        read.map_err(PatternError::Problems)
    }
}

impl Agents {
    /// Converts a pattern to an agent that can be used for many runs. If unknown properties are ignored, each run
    /// reports a warning about them.
    pub async fn compile(
        &self,
        session: &Session,
        agent: &AgentPattern,
        model: ExecutionModel,
    ) -> Result<Arc<CompiledAgent>, PatternError> {
        self.compile_bundle(&session.realm, agent.to_bundle(model)?).await.map(Arc::new)
    }

    /// Finds or builds the agent of a new run.
    pub(super) async fn resolve_agent(
        &self,
        session: &Session,
        source: AgentSource<'_>,
    ) -> Result<Arc<CompiledAgent>, StartError> {
        match source {
            AgentSource::Named(name) => self.find(session, name).await,
            AgentSource::Interpreted(agent) => Ok(self.compile(session, agent, ExecutionModel::Interpret).await?),
            AgentSource::Compiled(agent) => Ok(Arc::clone(agent)),
        }
    }

    async fn compile_bundle(&self, realm: &RealmScope, agent: AgentBundle) -> Result<CompiledAgent, PatternError> {
        let AgentBundle { definition, tools, ignored_properties } = agent;
        let (catalog, models) = (&self.0.resolver.catalog, &self.0.models);
        let context = ValidationContext { catalog, models, realm, written: WrittenNames::default() };
        definition.check(&context).await?.map_err(PatternError::Invalid)?;
        let catalog = &self.0.resolver.catalog;
        let mut carried = Vec::with_capacity(tools.len());
        let mut notes: Vec<String> = ignored_properties
            .into_iter()
            .map(|property| format!("{property} was ignored: unknown property"))
            .collect();
        for mut tool in tools {
            tool.infer_omitted_fields(catalog);
            let invalid = |issues| PatternError::InvalidTool { tool: tool.ref_name.to_string(), issues };
            let compiled = catalog.compile(realm, inline_tool_document(tool.clone())).await?;
            let compiled = compiled.map_err(invalid)?;
            notes.extend(compiled.warnings().iter().map(|warning| format!("tool `{}`: {warning}", tool.ref_name)));
            if let Some(description) = catalog.conflicting_description(&tool) {
                let note = format!("tool `{}`: its function has another description: {description:?}", tool.ref_name);
                notes.push(note);
            }
            carried.push(Arc::new(compiled));
        }
        let body = serde_json::to_value(&definition).unwrap_or_default();
        let mut document = Document::unsaved(definition.ref_name.clone(), definition);
        document.meta.content_hash = hex_digest(&body);
        // Toolsets are cached by agent id. Agents with different tools must have different ids, so the id includes the
        // hashes of the tools.
        let hashes: Vec<&str> = carried.iter().map(|tool| tool.content_hash.as_str()).collect();
        document.meta.id = format!("gram/{}", hex_digest(&json!([body, hashes])));
        document.meta.source = DefinitionSource::Gram;
        let (agent, _) = catalog.compile_agent(realm, document).await?.map_err(PatternError::Invalid)?;
        Ok(CompiledAgent { inline_tools: carried, warnings: notes, ..agent })
    }
}
