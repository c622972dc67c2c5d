//! Agents from gram: run as their pattern says, or compiled first.
//!
//! Whatever an agent comes from, a run begins with a [`CompiledAgent`] and goes the same way from there. The models of
//! execution differ in when it is made and in how much they put up with: compiling happens once and refuses properties
//! that nobody knows; interpreting happens when a run begins, from the pattern as it is then, and leaves them out. What
//! is known and wrong is refused by both: a limit that cannot be read must not be a limit that does not hold.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_gram::{AgentView, Definitions, Diagnostics, Pattern, is_agent};
use toolwright_notation::{Agent, Problem};
use toolwright_tools::Issues;
use toolwright_types::json::hex_digest;
use toolwright_types::{Document, RealmScope, Source, ToolDefinition};

use super::{Agents, CompiledAgent, StartError};
use crate::Unavailable;
use crate::access::Session;
use crate::registry::{Definition, Surroundings};

/// Where the agent of a run comes from.
#[derive(Clone, Copy)]
pub enum AgentSource<'a> {
    /// One of the realm's definitions, by name or id.
    Named(&'a str),
    /// A pattern, read when the run begins.
    Interpreted(&'a AgentPattern),
    /// A pattern that was compiled before.
    Compiled(&'a Arc<CompiledAgent>),
}

impl<'a> From<&'a str> for AgentSource<'a> {
    fn from(name: &'a str) -> Self {
        AgentSource::Named(name)
    }
}

/// How a pattern is made to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutionModel {
    /// Read when a run begins.
    Interpret,
    /// Made definitions of once, before the first run.
    Compile,
    /// Compiled, and interpreted if that fails.
    #[default]
    Hybrid,
}

/// An agent as a pattern, with the tools that its text specifies in the places where it refers to them.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentPattern(Pattern);

/// Why a text or pattern is no agent that can be run.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It is not gram.
    #[error("the text is not gram: {0}")]
    Syntax(#[from] Diagnostics),
    /// It has no agent, or several.
    #[error("the text has {0} agents; one can be run")]
    NotOneAgent(usize),
    /// It is no agent, or has properties that nobody knows.
    #[error("the pattern is no agent that can be run: {}", list(.0))]
    Problems(Vec<Problem>),
    /// The platform refuses the definition that the pattern stands for.
    #[error("the agent is not valid: {0}")]
    Invalid(Issues),
    /// The platform refuses one of its tools.
    #[error("tool `{tool}` is not valid: {issues}")]
    InvalidTool {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        issues: Issues,
    },
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl AgentPattern {
    /// The one agent of a text. Tools may be specified inside of it or beside it.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let text = toolwright_gram::parse(text)?;
        let agents: Vec<&Pattern> = text.members().iter().filter(|member| is_agent(member)).collect();
        match agents.as_slice() {
            [agent] => Ok(Self(Definitions::of([&text]).inline(agent))),
            _ => Err(PatternError::NotOneAgent(agents.len())),
        }
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.0
    }

    fn read(&self, model: ExecutionModel) -> Result<Agent, PatternError> {
        let alone = Definitions::default();
        let interpret = || {
            let view = AgentView::new(&self.0, &alone);
            let view = view.map_err(|problems| problems.into_iter().map(Problem::from).collect::<Vec<_>>())?;
            Agent::interpret(&view, &alone)
        };
        let read = match model {
            ExecutionModel::Interpret => interpret(),
            ExecutionModel::Compile => Agent::compile(&self.0, &alone),
            ExecutionModel::Hybrid => Agent::compile(&self.0, &alone).or_else(|_| interpret()),
        };
        read.map_err(PatternError::Problems)
    }
}

impl Agents {
    /// Makes a pattern ready for any number of runs. With [`ExecutionModel::Hybrid`], properties that nobody knows do not
    /// keep it from that; every run says that they were left out.
    pub async fn compile(
        &self,
        session: &Session,
        agent: &AgentPattern,
        model: ExecutionModel,
    ) -> Result<Arc<CompiledAgent>, PatternError> {
        self.made_of(&session.realm, agent.read(model)?).await.map(Arc::new)
    }

    /// The agent of a run that is about to begin.
    pub(super) async fn ready(
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

    async fn made_of(&self, realm: &RealmScope, agent: Agent) -> Result<CompiledAgent, PatternError> {
        let Agent { definition, tools, left_out } = agent;
        let around = Surroundings { catalog: &self.0.resolver.catalog, models: &self.0.models, realm };
        definition.check(&around).await?.map_err(PatternError::Invalid)?;
        let catalog = &self.0.resolver.catalog;
        let mut carried = Vec::with_capacity(tools.len());
        let mut notes: Vec<String> =
            left_out.into_iter().map(|what| format!("{what} was left out: nobody knows it")).collect();
        for mut tool in tools {
            tool.settle(catalog);
            let invalid = |issues| PatternError::InvalidTool { tool: tool.ref_name.to_string(), issues };
            let compiled = catalog.compile(realm, carried_document(tool.clone())).await?;
            let compiled = compiled.map_err(invalid)?;
            notes.extend(compiled.warnings().iter().map(|warning| format!("tool `{}`: {warning}", tool.ref_name)));
            if let Some(said) = catalog.described_differently(&tool) {
                notes.push(format!("tool `{}`: its function describes itself differently: {said:?}", tool.ref_name));
            }
            carried.push(Arc::new(compiled));
        }
        let body = serde_json::to_value(&definition).unwrap_or_default();
        let mut document = Document::unsaved(definition.ref_name.clone(), definition);
        document.meta.content_hash = hex_digest(&body);
        // What the tools of an agent are is remembered by its id: another set of tools is another agent.
        let hashes: Vec<&str> = carried.iter().map(|tool| tool.content_hash.as_str()).collect();
        document.meta.id = format!("gram/{}", hex_digest(&json!([body, hashes])));
        document.meta.source = Source::Gram;
        let (agent, _) = catalog.compile_agent(realm, document).await?.map_err(PatternError::Invalid)?;
        Ok(CompiledAgent { carried, notes, ..agent })
    }
}

/// The document of a tool that an agent brings along; the same for the same definition.
pub(crate) fn carried_document(tool: ToolDefinition) -> Document<ToolDefinition> {
    let body: Value = serde_json::to_value(&tool).unwrap_or_default();
    let mut document = Document::unsaved(tool.ref_name.clone(), tool);
    document.meta.content_hash = hex_digest(&body);
    document.meta.id = format!("gram/{}", document.meta.content_hash);
    document.meta.source = Source::Gram;
    document
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}
