//! Applies the definitions of a gram text: all of them are written in one transaction, or none.

use std::collections::HashSet;

use toolwright_notation::{LocatedDefinition, ParsedDefinition};
use toolwright_store::ListQuery;
use toolwright_types::{AgentDefinition, DefinitionSource, Document, DocumentKind, RefName, ToolDefinition};

use super::{Batch, Definition, Registry, RegistryError, WrittenNames};
use crate::Unavailable;
use crate::access::Session;
use crate::toolset::selects;

/// The number of agents per page when the agents that use a tool are searched.
const PAGE_SIZE: u32 = 1000;

/// The maximum number of agent names in the error for a tool that is in use.
const MAX_NAMED_AGENTS: usize = 10;

/// How definitions are applied.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyOptions {
    /// Whether the definitions are only checked and compared, and not written.
    pub dry_run: bool,
    /// Whether tools may be changed even if agents outside of the text use them.
    pub overwrite: bool,
}

/// The result of applying a definition. In a dry run, the result that an actual application would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The definition is new.
    Created,
    /// The definition changed or has a new version.
    Updated,
    /// The stored definition is the same.
    Unchanged,
}

/// An applied definition.
#[derive(Debug)]
pub struct AppliedDefinition {
    /// The kind of definition, such as `tool`.
    pub kind: &'static str,
    /// The name.
    pub ref_name: RefName,
    /// The version.
    pub version: String,
    /// The result.
    pub outcome: ApplyOutcome,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

/// An invalid definition in a gram text.
#[derive(Debug)]
pub struct InvalidElement {
    /// The path from the document to the pattern, one index per level.
    pub path: Vec<usize>,
    /// The violated rule.
    pub message: String,
}

/// A tool that a text would change although agents outside of the text use it.
#[derive(Debug)]
pub struct ToolInUse {
    /// The name of the tool.
    pub tool: RefName,
    /// The names of agents that use the tool: at most ten, and only agents that the session may read.
    pub agents: Vec<String>,
    /// The number of agents that use the tool and are not in `agents`.
    pub others: usize,
}

/// Why a text could not be applied. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Some definitions are not valid.
    #[error("{} of the text cannot be applied; nothing was written", count(.0.len()))]
    Invalid(Vec<InvalidElement>),
    /// Some tools are used by agents that the text does not contain.
    #[error("{}; nothing was written. Set `overwrite` (`--overwrite`) to change {}, or choose other names", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "), if .0.len() == 1 { "it" } else { "them" })]
    InUse(Vec<ToolInUse>),
    /// The definitions could not be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl std::fmt::Display for ToolInUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut users: Vec<String> = self.agents.iter().map(|agent| format!("agent `{agent}`")).collect();
        if self.others > 0 {
            users.push(format!("{} more", self.others));
        }
        write!(f, "tool `{}` would change, and it is used by {}", self.tool, users.join(", "))
    }
}

fn count(definitions: usize) -> String {
    if definitions == 1 { "a definition".to_owned() } else { format!("{definitions} definitions") }
}

/// The definitions of a text that have been checked so far.
struct Plan<'a> {
    session: &'a Session,
    /// The names of the tools and agents in the text.
    names: WrittenNames,
    batch: Batch,
    applied: Vec<AppliedDefinition>,
    invalid: Vec<InvalidElement>,
    /// The tools that would change, in their stored and in their new form.
    changed_tools: Vec<(ToolDefinition, ToolDefinition)>,
}

impl Registry {
    /// Writes the definitions that differ from the stored ones. The source of a written definition becomes gram.
    pub async fn apply(
        &self,
        session: &Session,
        definitions: Vec<LocatedDefinition>,
        options: ApplyOptions,
    ) -> Result<Vec<AppliedDefinition>, ApplyError> {
        let mut plan = Plan::new(session, &definitions);
        for LocatedDefinition { path, definition, .. } in definitions {
            match definition {
                ParsedDefinition::Tool(tool) => {
                    let current = self.plan(&mut plan, path, &*tool).await?;
                    plan.changed_tools.extend(current.map(|current| (current, *tool)));
                }
                ParsedDefinition::Agent(agent) => drop(self.plan(&mut plan, path, &*agent).await?),
            }
        }
        if !plan.invalid.is_empty() {
            return Err(ApplyError::Invalid(plan.invalid));
        }
        if !options.overwrite {
            let in_use = self.tools_in_use(&plan).await?;
            if !in_use.is_empty() {
                return Err(ApplyError::InUse(in_use));
            }
        }
        if !options.dry_run && !plan.batch.is_empty() {
            self.write_all(session, plan.batch).await?;
        }
        Ok(plan.applied)
    }

    /// Checks a definition and compares it with the stored definition. If they differ, adds the definition to the batch
    /// and returns the stored or built-in definition that it replaces.
    async fn plan<T: Definition + Clone + PartialEq>(
        &self,
        plan: &mut Plan<'_>,
        path: Vec<usize>,
        definition: &T,
    ) -> Result<Option<T>, RegistryError> {
        let session = plan.session;
        let mut definition = definition.clone();
        definition.infer_omitted_fields(&self.catalog);
        let name = definition.ref_name().clone();
        let current = self.find::<T>(session, &name).await?;
        self.may_replace(session, current.as_ref(), &definition)?;
        let version = definition.version().map(ToString::to_string).unwrap_or_default();
        let stored = match &current {
            Some(_) => self.stored_with_version::<T>(session, &name, &version).await?,
            None => None,
        };
        let outcome = match (&current, &stored) {
            (_, Some(stored)) if stored.body == definition => ApplyOutcome::Unchanged,
            (Some(_), _) => ApplyOutcome::Updated,
            (None, _) => ApplyOutcome::Created,
        };
        let warnings = match self.check_among(&session.realm, &definition, plan.names.clone()).await {
            Ok(warnings) => warnings,
            Err(RegistryError::Invalid(issues)) => {
                plan.invalid.extend(issues.0.into_iter().map(|issue| InvalidElement {
                    path: path.clone(),
                    message: format!("{} `{name}`: {}: {}", T::NOUN, issue.path, issue.message),
                }));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        plan.applied.push(AppliedDefinition { kind: T::NOUN, ref_name: name, version, outcome, warnings });
        if outcome == ApplyOutcome::Unchanged {
            return Ok(None);
        }
        plan.batch.add(current.as_ref(), Self::prepare_revision(&definition, DefinitionSource::Gram)?);
        Ok(current.map(|document| document.body).or_else(|| definition.replaced_built_in(&self.catalog)))
    }

    /// Returns a version of a definition if it exists.
    pub(super) async fn stored_with_version<T: Definition>(
        &self,
        session: &Session,
        name: &RefName,
        version: &str,
    ) -> Result<Option<Document<T>>, RegistryError> {
        match self.get::<T>(session, name.as_str(), Some(version)).await {
            Ok(found) => Ok(Some(found)),
            Err(RegistryError::NoVersion { .. } | RegistryError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the tools that the plan changes and that agents outside of the text use.
    async fn tools_in_use(&self, plan: &Plan<'_>) -> Result<Vec<ToolInUse>, RegistryError> {
        if plan.changed_tools.is_empty() {
            return Ok(Vec::new());
        }
        let agents: Vec<AgentDefinition> = self.other_agents(plan).await?;
        let in_use = plan.changed_tools.iter().map(|(current, new)| {
            let users: Vec<&AgentDefinition> = agents.iter().filter(|agent| uses(agent, current, new)).collect();
            let readable = users.iter().filter(|agent| self.is_readable(plan.session, **agent));
            let agents: Vec<String> = readable.map(|agent| agent.ref_name.to_string()).take(MAX_NAMED_AGENTS).collect();
            ToolInUse { tool: new.ref_name.clone(), others: users.len() - agents.len(), agents }
        });
        Ok(in_use.filter(|tool| !tool.agents.is_empty() || tool.others > 0).collect())
    }

    /// Returns all agents of the realm that the text does not contain. Agents that the session may not read are
    /// included, because a changed tool affects them too.
    async fn other_agents(&self, plan: &Plan<'_>) -> Result<Vec<AgentDefinition>, RegistryError> {
        let mut query = ListQuery { limit: PAGE_SIZE, ..ListQuery::default() };
        let mut agents = Vec::new();
        loop {
            let page = self.store.definitions(&plan.session.realm).list(DocumentKind::Agent, &query).await;
            let page = page.map_err(|error| Unavailable::new("the agents could not be listed", error))?;
            for document in page.items {
                let agent = self.decode::<AgentDefinition>(document)?.body;
                if !plan.names.agents.contains(&agent.ref_name.key()) {
                    agents.push(agent);
                }
            }
            match page.next {
                None => return Ok(agents),
                next => query.cursor = next,
            }
        }
    }
}

impl<'a> Plan<'a> {
    fn new(session: &'a Session, definitions: &[LocatedDefinition]) -> Self {
        let (mut tools, mut agents) = (HashSet::new(), HashSet::new());
        for LocatedDefinition { definition, .. } in definitions {
            match definition {
                ParsedDefinition::Tool(tool) => tools.insert(tool.ref_name.key()),
                ParsedDefinition::Agent(agent) => agents.insert(agent.ref_name.key()),
            };
        }
        let (batch, applied, invalid, changed_tools) = (Batch::default(), Vec::new(), Vec::new(), Vec::new());
        let names = WrittenNames { tools: tools.into(), agents: agents.into(), ..WrittenNames::default() };
        Self { session, names, batch, applied, invalid, changed_tools }
    }
}

/// Whether an agent uses the tool `current` and would use `new` instead. An agent that requires another version is not
/// affected.
fn uses(agent: &AgentDefinition, current: &ToolDefinition, new: &ToolDefinition) -> bool {
    selects(agent, current, |reference| {
        reference.name.eq_ignore_ascii_case(current.ref_name.as_str())
            && reference.version_req.as_ref().is_none_or(|requirement| requirement.matches(&new.version))
    })
}
