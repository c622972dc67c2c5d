//! Late binding: which implementations the tools of an agent have in one run.
//!
//! A tool is described by its definition, which is what the model is shown, and done by an implementation: itself, another
//! version of it, or another tool that takes whatever it takes. What is bound to what is written at a run's beginning.

use std::collections::BTreeMap;

use toolwright_authz::{Action, Resource};
use toolwright_tools::accepts;
use toolwright_tools::ports::Authorizer as _;
use toolwright_types::{Principal, RealmScope, Trial};

use super::toolset::{ToolRef, Toolset, usable};
use super::{Agents, CompiledAgent};
use crate::Unavailable;
use crate::access::{Denied, Session};
use crate::catalog::choose;

/// Implementations by the tools that are bound to them, each as `tool` or `tool@requirement`.
pub type Bindings = BTreeMap<String, String>;

/// Which implementations an agent's tools are to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// One of the agent's own, by name; `default` is none.
    Named(String),
    /// This one.
    Given {
        /// What it is called in reports.
        name: String,
        /// The implementations.
        tools: Bindings,
    },
}

/// A library that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// The agent has none of this name.
    #[error("agent `{agent}` has no library `{name}`; it has {known}")]
    Unknown {
        /// The agent.
        agent: String,
        /// The name.
        name: String,
        /// Those it has.
        known: String,
    },
    /// One of its tools cannot be bound.
    #[error("{why}")]
    Tool {
        /// The tool.
        tool: String,
        /// Why not.
        why: String,
    },
    /// The session may not have the agent do that.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Library {
    /// What it is called in reports.
    pub fn name(&self) -> &str {
        match self {
            Library::Named(name) | Library::Given { name, .. } => name,
        }
    }
}

/// For whom something is bound, and where.
pub(super) struct Binder<'a> {
    pub agent: &'a CompiledAgent,
    pub tools: &'a Toolset,
    pub realm: &'a RealmScope,
    pub principal: &'a Principal,
}

impl Agents {
    /// The implementations that a library means for whoever asks for them.
    pub(super) async fn bind(
        &self,
        session: &Session,
        binder: &Binder<'_>,
        library: &Library,
    ) -> Result<Bindings, BindingError> {
        match library {
            Library::Named(name) => self.bind_own(binder, name).await,
            Library::Given { tools, .. } => {
                let bound = self.bind_tools(binder, tools).await?;
                let same = |(tool, implementation): (&String, &String)| {
                    ToolRef::parse(implementation).is_some_and(|found| found.name.eq_ignore_ascii_case(tool))
                };
                if !bound.iter().all(same) {
                    // What an agent may reach for is its author's to say; which version of it, anybody's who may run it.
                    let name = binder.agent.document.meta.ref_name.as_str();
                    self.0.access.require(session, Action::Write, Resource::Agent { name })?;
                }
                Ok(bound)
            }
        }
    }

    /// The implementations of one of the agent's own libraries.
    pub(super) async fn bind_own(&self, binder: &Binder<'_>, name: &str) -> Result<Bindings, BindingError> {
        if name == Trial::DEFAULT_ARM {
            return Ok(Bindings::new());
        }
        let definition = &binder.agent.document.body;
        let library = definition.libraries.get(name).ok_or_else(|| {
            let known = definition.libraries.keys().map(|known| format!("`{known}`"));
            let known: Vec<String> = known.chain([format!("`{}`", Trial::DEFAULT_ARM)]).collect();
            BindingError::Unknown {
                agent: definition.ref_name.to_string(),
                name: name.to_owned(),
                known: known.join(", "),
            }
        })?;
        self.bind_tools(binder, library).await
    }

    /// Each implementation with the exact version that is meant now, if it can stand in for its tool.
    async fn bind_tools(&self, binder: &Binder<'_>, wanted: &Bindings) -> Result<Bindings, BindingError> {
        let mut bound = Bindings::new();
        for (tool, implementation) in wanted {
            let wrong = |why: String| BindingError::Tool { tool: tool.clone(), why };
            let agent = &binder.agent.document.meta.ref_name;
            let member = binder.tools.find(tool).filter(|member| !member.delegate);
            let member =
                member.ok_or_else(|| wrong(format!("agent `{agent}` has no tool `{tool}` that can be bound")))?;
            let reference = ToolRef::parse(implementation);
            let reference = reference
                .ok_or_else(|| wrong(format!("`{implementation}` is no tool; write `name` or `name@^1.2`")))?;
            let versions = self.0.resolver.catalog.versions(binder.realm, reference.name).await?;
            let found = choose(&versions, reference.wanted.as_ref());
            let found = found.ok_or_else(|| wrong(format!("there is no tool `{implementation}`")))?;
            if !usable(found) || self.0.access.may_execute(binder.principal, binder.realm, found).is_err() {
                return Err(wrong(format!(
                    "`{}` may not call `{implementation}`, or nobody may",
                    binder.principal.name
                )));
            }
            accepts(found.input.source(), member.tool.input.source()).map_err(|mismatch| {
                wrong(format!("`{implementation}` does not take everything that `{tool}` takes: {mismatch}"))
            })?;
            let definition = &found.definition;
            bound.insert(
                member.tool.definition.ref_name.to_string(),
                format!("{}@{}", definition.ref_name, definition.version),
            );
        }
        Ok(bound)
    }
}
