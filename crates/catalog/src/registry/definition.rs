//! The trait for kinds of definitions, and its implementation for tools and providers.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolwright_authz::{Action, Resource, SecurityUri};
use toolwright_machine::agent::APPROVE_PLAN_TOOL;
use toolwright_tools::builtin::search_tools;
use toolwright_tools::http::CompiledProvider;
use toolwright_tools::{DefinitionIssue, Issues, ToolReference};
use toolwright_types::{
    CompositeConfig, Document, DocumentKind, Operation, ProviderType, RealmScope, RefName, SideEffects, ToolDefinition,
    ToolProviderConfig, ToolStatus, ToolType,
};

use crate::Unavailable;
use crate::access::{Session, execution_target};
use crate::catalog::{Catalog, select_version};
use crate::model_registry::ModelRegistry;
use crate::registry::agentic::check_embedded_agent;
use crate::registry::{Registry, RegistryError, TypeHooks, signature};

/// The built-in tools that only runs call. No definition may have one of these names.
const RUN_ONLY_TOOLS: [&str; 2] = [search_tools::NAME, APPROVE_PLAN_TOOL];

/// The catalog, the models and the realm that the validation of a definition needs.
pub struct ValidationContext<'a> {
    /// The definitions that the definition may refer to.
    pub catalog: &'a Catalog,
    /// The models that an agent may use.
    pub models: &'a ModelRegistry,
    /// The realm of the definition.
    pub realm: &'a RealmScope,
    /// The definitions that are written in the same transaction.
    pub written: WrittenNames,
}

/// The names of tools and agents that are written in one transaction, in lower case.
#[derive(Debug, Clone, Default)]
pub struct WrittenNames {
    /// The tools.
    pub tools: Arc<HashSet<String>>,
    /// The agents.
    pub agents: Arc<HashSet<String>>,
    /// The workflows.
    pub workflows: Arc<HashSet<String>>,
}

impl ValidationContext<'_> {
    /// Whether a tool exists or is written in the same transaction.
    pub(super) async fn tool_exists(&self, name: &str) -> Result<bool, Unavailable> {
        Ok(self.is_written_tool(name) || !self.catalog.versions(self.realm, name).await?.is_empty())
    }

    /// Whether a tool is written in the same transaction.
    pub(super) fn is_written_tool(&self, name: &str) -> bool {
        self.written.tools.contains(&name.to_ascii_lowercase())
    }

    /// Whether an agent, by name or `name@requirement`, is written in the same transaction.
    pub(super) fn is_written_agent(&self, reference: &str) -> bool {
        let name = reference.split_once('@').map_or(reference, |(name, _)| name);
        self.written.agents.contains(&name.to_ascii_lowercase())
    }

    /// Whether a workflow, by name or `name@requirement`, is written in the same transaction.
    pub(super) fn is_written_workflow(&self, reference: &str) -> bool {
        let name = reference.split_once('@').map_or(reference, |(name, _)| name);
        self.written.workflows.contains(&name.to_ascii_lowercase())
    }
}

/// A kind of definition, such as tool or agent.
pub trait Definition: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind of the stored document.
    const KIND: DocumentKind;
    /// The name of the kind in messages.
    const NOUN: &'static str;

    /// Returns the name of the definition.
    fn ref_name(&self) -> &RefName;

    /// Returns the resource whose permissions are checked.
    fn resource(&self) -> Resource<'_>;

    /// Returns the version, for kinds that are versioned.
    fn version(&self) -> Option<&Version> {
        None
    }

    /// The life cycle status of this version.
    fn status(&self) -> ToolStatus {
        ToolStatus::Active
    }

    /// Whether this version is active.
    fn is_active(&self) -> bool {
        self.status() == ToolStatus::Active
    }

    /// Removes fields whose values are derived defaults of `current`. Clients send such fields back when they read a
    /// definition and replace it. A default must not become an explicit value.
    fn discard_echoed_defaults(&mut self, _current: &Self) {}

    /// Replaces fields that exist only in requests, such as `signature`, by the stored fields that they represent.
    fn expand_fields(_fields: &mut Map<String, Value>) -> Result<(), Issues> {
        Ok(())
    }

    /// Like [`Definition::expand_fields`], for the fields of a merge patch.
    fn expand_patch(_patch: &mut Map<String, Value>) -> Result<(), Issues> {
        Ok(())
    }

    /// Returns the built-in definition that this definition replaces.
    fn replaced_built_in(&self, _catalog: &Catalog) -> Option<Self> {
        None
    }

    /// Sets fields that the author omitted and the server can infer.
    fn infer_omitted_fields(&mut self, _catalog: &Catalog) {}

    /// Returns the permission that the author needs in addition to writing the definition.
    fn additional_permission(&self) -> Option<(Action, Resource<'_>)> {
        None
    }

    /// Updates dependent data after the definition was saved. Returns warnings for its author.
    fn after_save(
        _document: &Document<Self>,
        _hooks: &dyn TypeHooks,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<Vec<String>, Unavailable>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Returns a warning for the person who deletes the definition. The warning names the definitions that use it, if
    /// the session may read them.
    fn users(
        _document: &Document<Self>,
        _registry: &Registry,
        _session: &Session,
    ) -> impl Future<Output = Result<Option<String>, RegistryError>> + Send {
        async { Ok(None) }
    }

    /// Removes dependent data after the definition was deleted.
    fn after_delete(
        _document: &Document<Self>,
        _hooks: &dyn TypeHooks,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<(), Unavailable>> + Send {
        async { Ok(()) }
    }

    /// Checks the definition against the external systems that it refers to. Returns warnings for its author, or all
    /// issues. A system that does not answer is not an issue, because it may answer later.
    fn check_external(
        &self,
        _hooks: &dyn TypeHooks,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<Vec<String>, Issues>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Checks the definition. Returns warnings for its author, or all issues.
    fn check(
        &self,
        context: &ValidationContext<'_>,
    ) -> impl Future<Output = Result<Result<Vec<String>, Issues>, Unavailable>> + Send;
}

impl Definition for ToolDefinition {
    const KIND: DocumentKind = DocumentKind::Tool;
    const NOUN: &'static str = "tool";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Tool { category: self.category.as_deref(), name: self.ref_name.as_str() }
    }

    fn version(&self) -> Option<&Version> {
        Some(&self.version)
    }

    fn status(&self) -> ToolStatus {
        self.status
    }

    fn expand_fields(fields: &mut Map<String, Value>) -> Result<(), Issues> {
        signature::expand(fields)
    }

    fn expand_patch(patch: &mut Map<String, Value>) -> Result<(), Issues> {
        signature::expand_patch(patch)
    }

    fn replaced_built_in(&self, catalog: &Catalog) -> Option<Self> {
        let mut tools = catalog.builtin_tools();
        tools.find(|tool| tool.definition.ref_name.key() == self.ref_name.key()).map(|tool| tool.definition.clone())
    }

    async fn users(
        document: &Document<Self>,
        registry: &Registry,
        session: &Session,
    ) -> Result<Option<String>, RegistryError> {
        registry.users_of_tool(session, document).await
    }

    fn infer_omitted_fields(&mut self, catalog: &Catalog) {
        if catalog.has_undeclared_writes(self) {
            self.side_effects = Some(SideEffects::Writes);
        }
    }

    fn discard_echoed_defaults(&mut self, current: &Self) {
        // If the derived value were stored, a tool whose method changes from GET to POST would still count as a read.
        let effects = current.effects();
        if current.side_effects.is_none() && self.side_effects == Some(effects) {
            self.side_effects = None;
        }
        if current.has_side_effects.is_none() && self.has_side_effects == Some(effects == SideEffects::Writes) {
            self.has_side_effects = None;
        }
        if current.name.is_none() && self.name.as_deref() == Some(current.display_name()) {
            self.name = None;
        }
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let ValidationContext { catalog, realm, .. } = context;
        if let Some(issue) = reserved_name_issue(&self.ref_name) {
            return Ok(Err(Issues(vec![issue])));
        }
        let mut warnings = match catalog.compile(realm, Document::unsaved(self.ref_name.clone(), self.clone())).await? {
            Ok(tool) => tool.warnings().to_vec(),
            Err(issues) => return Ok(Err(issues)),
        };
        if let Some(issue) = self.security_uri.as_deref().and_then(security_uri_issue) {
            return Ok(Err(Issues(vec![issue])));
        }
        if self.replaced_built_in(catalog).is_some() {
            warnings.push(format!("replaces the built-in tool `{}`", self.ref_name));
        }
        if matches!(self.tool_type, ToolType::QuantumApi | ToolType::QuantumQuery) {
            warnings.extend(record_operation_warnings(self, context).await?);
        }
        if let Some(config) = &self.agentic {
            match check_embedded_agent(self, config, context).await? {
                Ok(found) => warnings.extend(found),
                Err(issues) => return Ok(Err(issues)),
            }
        }
        if let Some(composite) = &self.composite {
            match operation_warnings(composite, context).await? {
                Ok(found) => warnings.extend(found),
                Err(issues) => return Ok(Err(issues)),
            }
        }
        let fallbacks = self.error_handling.values().filter_map(|semantics| semantics.fallback_tool_ref.as_deref());
        let others = [self.verify_tool_ref.as_deref(), self.compensate_tool_ref.as_deref()];
        for name in fallbacks.chain(others.into_iter().flatten()) {
            if !context.tool_exists(name).await? {
                warnings.push(format!("no tool `{name}` exists yet"));
            }
        }
        Ok(Ok(warnings))
    }
}

/// Returns an issue if a tool has the name of a built-in tool that runs use for their own control.
fn reserved_name_issue(name: &RefName) -> Option<DefinitionIssue> {
    let reserved = RUN_ONLY_TOOLS.iter().any(|reserved| name.as_str().eq_ignore_ascii_case(reserved));
    reserved.then(|| DefinitionIssue {
        path: "/refName".into(),
        message: format!("`{name}` is the name of a built-in tool of runs and cannot be replaced; choose another name"),
    })
}

/// Returns warnings about missing tools of a composite tool, or an issue for each operation that is a composite tool.
async fn operation_warnings(
    composite: &CompositeConfig,
    context: &ValidationContext<'_>,
) -> Result<Result<Vec<String>, Issues>, Unavailable> {
    let (mut warnings, mut issues) = (Vec::new(), Vec::new());
    for (path, text) in composite.tools() {
        let Some(reference) = ToolReference::parse(text) else { continue };
        let versions = context.catalog.versions(context.realm, &reference.name).await?;
        if let Some(tool) = select_version(&versions, reference.version.as_ref()) {
            if tool.composite().is_some() {
                let message = format!("must not be a composite tool, got `{text}`");
                issues.push(DefinitionIssue { path: format!("/composite{path}"), message });
            }
        } else if versions.is_empty() && !context.is_written_tool(&reference.name) {
            warnings.push(format!("no tool `{}` exists yet", reference.name));
        } else if !versions.is_empty() {
            warnings.push(format!("tool `{}` has no version that matches `{text}` yet", reference.name));
        }
    }
    Ok(if issues.is_empty() { Ok(warnings) } else { Err(Issues(issues)) })
}

/// Returns warnings for a tool that operates on records. An unknown operation or type is not an error, because both are
/// looked up when the tool is called.
async fn record_operation_warnings(
    tool: &ToolDefinition,
    context: &ValidationContext<'_>,
) -> Result<Vec<String>, Unavailable> {
    let mut warnings = Vec::new();
    if let Some(method) = tool.invocation.method.as_deref().filter(|method| Operation::parse(method).is_none()) {
        let known = Operation::ALL.map(Operation::as_str).join(", ");
        warnings.push(format!("`{method}` is not an operation on records; use one of {known}"));
    }
    let type_name = tool.invocation.path.as_deref().unwrap_or_default();
    if context.catalog.entity_type(context.realm, type_name).await?.is_none() {
        warnings.push(format!("no type `{type_name}` exists yet"));
    }
    Ok(warnings)
}

/// Returns an issue if the security URI of a definition does not name exactly one tool, agent or workflow. No policy could grant
/// such a URI, so every call would be denied.
pub fn security_uri_issue(text: &str) -> Option<DefinitionIssue> {
    let uri: Result<SecurityUri, _> = text.parse();
    let has_target = |uri: SecurityUri| match execution_target(&uri) {
        Some(Resource::Tool { category, name }) => category != Some("*") && name != "*",
        Some(Resource::Agent { name } | Resource::Workflow { name }) => name != "*",
        _ => false,
    };
    let is_valid = uri.is_ok_and(has_target);
    let message = format!(
        "`{text}` must have the form `ai://tools/category/name/execute`, `ai://agents/name/execute` or `ai://workflows/name/execute`; `*` is only for grants"
    );
    (!is_valid).then(|| DefinitionIssue { path: "/securityUri".to_owned(), message })
}

fn unused_provider_warning(provider: &ToolProviderConfig) -> Option<String> {
    let message = "providerType `QUANTUM_INTERNAL` has no effect: the tools of this server need no provider";
    (provider.provider_type == ProviderType::QuantumInternal).then(|| message.to_owned())
}

impl Definition for ToolProviderConfig {
    const KIND: DocumentKind = DocumentKind::Provider;
    const NOUN: &'static str = "provider";

    async fn users(
        document: &Document<Self>,
        registry: &Registry,
        session: &Session,
    ) -> Result<Option<String>, RegistryError> {
        registry.tools_of_provider(session, document).await
    }

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Provider { name: self.ref_name.as_str() }
    }

    /// The author of a provider with a command needs the permission to write commands, because the server executes
    /// them.
    fn additional_permission(&self) -> Option<(Action, Resource<'_>)> {
        (self.command.is_some() || self.is_command()).then_some((Action::Write, Resource::Commands))
    }

    async fn check(&self, _context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let compiled = CompiledProvider::compile(Document::unsaved(self.ref_name.clone(), self.clone()));
        let descriptors = self.descriptor_set.as_deref().map(toolwright_grpc::parse_descriptor_set).transpose();
        Ok(compiled.and_then(|_| match descriptors {
            Ok(_) => Ok(unused_provider_warning(self).into_iter().collect()),
            Err(error) => {
                Err(Issues(vec![DefinitionIssue { path: "/descriptorSet".into(), message: error.to_string() }]))
            }
        }))
    }
}
