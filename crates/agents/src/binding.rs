//! Selects the implementations of an agent's tools for one run (late binding).
//!
//! The model sees the definition of a tool, and an implementation executes the calls. The implementation is the tool
//! itself, another version of the tool, or another tool that accepts the same input. The first entry of a run records
//! which implementations it uses.

use std::collections::BTreeMap;

use toolwright_authz::{Action, Resource};
use toolwright_tools::check_accepts;
use toolwright_tools::ports::Authorizer as _;
use toolwright_types::{Principal, RealmScope, Trial};

use super::{Agents, CompiledAgent};
use toolwright_catalog::Unavailable;
use toolwright_catalog::select_version;
use toolwright_catalog::{Denied, Session};
use toolwright_catalog::{Toolset, VersionedRef, is_available_to_agents};

/// The implementation of each tool, by tool name. An implementation is written as `tool` or `tool@requirement`.
pub type Bindings = BTreeMap<String, String>;

/// The library that a run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibrarySelection {
    /// A library in the agent's definition, by name. The library `default` replaces no tool.
    Named(String),
    /// A library that the request contains.
    Inline {
        /// The name of the library in reports.
        name: String,
        /// The implementations.
        tools: Bindings,
    },
}

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// The agent has no library with this name.
    #[error("agent `{agent}` has no library `{name}`; it has {known}")]
    Unknown {
        /// The agent.
        agent: String,
        /// The requested name.
        name: String,
        /// The libraries of the agent.
        known: String,
    },
    /// The implementation cannot replace the tool.
    #[error("{why}")]
    Tool {
        /// The tool.
        tool: String,
        /// The reason.
        why: String,
    },
    /// The principal lacks permission.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl LibrarySelection {
    /// Returns the name of the library in reports.
    pub fn name(&self) -> &str {
        match self {
            LibrarySelection::Named(name) | LibrarySelection::Inline { name, .. } => name,
        }
    }
}

/// The run whose tools are bound: its agent, toolset, realm and principal.
pub(super) struct BindingContext<'a> {
    pub agent: &'a CompiledAgent,
    pub tools: &'a Toolset,
    pub realm: &'a RealmScope,
    pub principal: &'a Principal,
}

impl Agents {
    /// Returns the implementations of the requested library. Fails if one of them cannot replace its tool, or if the
    /// session lacks the permission.
    pub(super) async fn bind(
        &self,
        session: &Session,
        context: &BindingContext<'_>,
        library: &LibrarySelection,
    ) -> Result<Bindings, BindingError> {
        match library {
            LibrarySelection::Named(name) => self.bind_named(context, name).await,
            LibrarySelection::Inline { tools, .. } => {
                let bound = self.bind_tools(context, tools).await?;
                let same = |(tool, implementation): (&String, &String)| {
                    VersionedRef::parse(implementation).is_some_and(|found| found.name.eq_ignore_ascii_case(tool))
                };
                if !bound.iter().all(same) {
                    // Replacing a tool by another tool requires the permission to write the agent. Using another
                    // version of the same tool requires only the permission to run the agent.
                    let name = context.agent.document.meta.ref_name.as_str();
                    self.0.access.require(session, Action::Write, Resource::Agent { name })?;
                }
                Ok(bound)
            }
        }
    }

    /// Returns the implementations of a library in the agent's definition.
    pub(super) async fn bind_named(&self, context: &BindingContext<'_>, name: &str) -> Result<Bindings, BindingError> {
        if name == Trial::DEFAULT_ARM {
            return Ok(Bindings::new());
        }
        let definition = &context.agent.document.body;
        let library = definition.libraries.get(name).ok_or_else(|| {
            let known = definition.libraries.keys().map(|known| format!("`{known}`"));
            let known: Vec<String> = known.chain([format!("`{}`", Trial::DEFAULT_ARM)]).collect();
            BindingError::Unknown {
                agent: definition.ref_name.to_string(),
                name: name.to_owned(),
                known: known.join(", "),
            }
        })?;
        self.bind_tools(context, library).await
    }

    /// Resolves each implementation to an exact version and checks that it can replace its tool.
    async fn bind_tools(&self, context: &BindingContext<'_>, requested: &Bindings) -> Result<Bindings, BindingError> {
        let mut bound = Bindings::new();
        for (tool, implementation) in requested {
            let wrong = |why: String| BindingError::Tool { tool: tool.clone(), why };
            let agent = &context.agent.document.meta.ref_name;
            let member = context.tools.find(tool).filter(|member| !member.delegate);
            let member = member.ok_or_else(|| wrong(format!("agent `{agent}` has no bindable tool `{tool}`")))?;
            let reference = VersionedRef::parse(implementation);
            let reference = reference
                .ok_or_else(|| wrong(format!("`{implementation}` must have the form `name` or `name@^1.2`")))?;
            let versions = self.0.resolver.catalog.versions(context.realm, reference.name).await?;
            let found = select_version(&versions, reference.version_req.as_ref());
            let found = found.ok_or_else(|| wrong(format!("there is no tool `{implementation}`")))?;
            if !is_available_to_agents(found)
                || self.0.access.may_execute(context.principal, context.realm, found).is_err()
            {
                return Err(wrong(format!(
                    "`{implementation}` is not available to agents, or `{}` may not call it",
                    context.principal.name
                )));
            }
            check_accepts(found.input.source(), member.tool.input.source()).map_err(|mismatch| {
                wrong(format!("`{implementation}` does not accept every input of `{tool}`: {mismatch}"))
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
