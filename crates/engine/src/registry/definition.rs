//! What the kinds of definitions have in common.

use std::future::Future;

use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_authz::{Action, Resource, SecurityUri};
use toolwright_tools::http::CompiledProvider;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{
    Document, DocumentKind, Operation, RealmScope, RefName, SideEffects, Status, ToolDefinition, ToolProviderConfig,
    ToolType,
};

use crate::Unavailable;
use crate::access::execution_target;
use crate::catalog::Catalog;
use crate::llm::ModelShop;
use crate::records::{SqlTables, Upkeep};

/// What a definition is held against when it is written.
pub struct Surroundings<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) models: &'a ModelShop,
    pub(crate) realm: &'a RealmScope,
}

/// A kind of definition.
pub trait Definition: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Where it is stored.
    const KIND: DocumentKind;
    /// What people call it.
    const NOUN: &'static str;

    /// Its name.
    fn ref_name(&self) -> &RefName;

    /// What permissions speak of.
    fn resource(&self) -> Resource<'_>;

    /// Its version, for kinds that have them.
    fn version(&self) -> Option<&Version> {
        None
    }

    /// Whether this version is offered.
    fn is_active(&self) -> bool {
        true
    }

    /// Drops what was not written but shown: a definition that was read and sent back says no more than before.
    fn forget_echo(&mut self, _current: &Self) {}

    /// Writes down what the author left to the server to find out.
    fn settle(&mut self, _catalog: &Catalog) {}

    /// What its author must be permitted beside writing it.
    fn also_needs(&self) -> Option<(Action, Resource<'_>)> {
        None
    }

    /// Brings up to date what follows from it, after it was written. Gives what its author should know.
    fn written(
        _document: &Document<Self>,
        _upkeep: &Upkeep,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<Vec<String>, Unavailable>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Removes what followed from it, after it was removed.
    fn removed(
        _document: &Document<Self>,
        _upkeep: &Upkeep,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<(), Unavailable>> + Send {
        async { Ok(()) }
    }

    /// What is wrong with it in the light of systems that it speaks of, or what its author should know. One that does not
    /// answer now may do so later: that is nothing wrong.
    fn look_around(
        &self,
        _tables: &SqlTables,
        _realm: &RealmScope,
    ) -> impl Future<Output = Result<Vec<String>, Issues>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Everything that is wrong with it, or what its author should know.
    fn check(
        &self,
        around: &Surroundings<'_>,
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

    fn is_active(&self) -> bool {
        self.status == Status::Active
    }

    fn settle(&mut self, catalog: &Catalog) {
        if catalog.writes_silently(self) {
            self.side_effects = Some(SideEffects::Writes);
        }
    }

    fn forget_echo(&mut self, current: &Self) {
        // Else a tool whose method changes from GET to POST would stay harmless by its own word.
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

    async fn check(&self, around: &Surroundings<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let Surroundings { catalog, realm, .. } = *around;
        let mut warnings = match catalog.compile(realm, Document::unsaved(self.ref_name.clone(), self.clone())).await? {
            Ok(tool) => tool.warnings().to_vec(),
            Err(issues) => return Ok(Err(issues)),
        };
        if let Some(issue) = self.security_uri.as_deref().and_then(wrong_uri) {
            return Ok(Err(Issues(vec![issue])));
        }
        if catalog.builtin().any(|tool| tool.definition.ref_name.key() == self.ref_name.key()) {
            warnings.push(format!("takes the place of the built-in tool `{}`", self.ref_name));
        }
        if matches!(self.tool_type, ToolType::QuantumApi | ToolType::QuantumQuery) {
            warnings.extend(works_on_records(self, around).await?);
        }
        let fallbacks = self.error_handling.values().filter_map(|semantics| semantics.fallback_tool_ref.as_deref());
        let others = [self.verify_tool_ref.as_deref(), self.compensate_tool_ref.as_deref()];
        for name in fallbacks.chain(others.into_iter().flatten()) {
            if catalog.versions(realm, name).await?.is_empty() {
                warnings.push(format!("no tool `{name}` exists yet"));
            }
        }
        Ok(Ok(warnings))
    }
}

/// What a tool that works on records lacks: both are bound late.
async fn works_on_records(tool: &ToolDefinition, around: &Surroundings<'_>) -> Result<Vec<String>, Unavailable> {
    let mut warnings = Vec::new();
    if let Some(method) = tool.invocation.method.as_deref().filter(|method| Operation::parse(method).is_none()) {
        let known = Operation::ALL.map(Operation::as_str).join(", ");
        warnings.push(format!("`{method}` is no operation on records; there are {known}"));
    }
    let of = tool.invocation.path.as_deref().unwrap_or_default();
    if around.catalog.entity_type(around.realm, of).await?.is_none() {
        warnings.push(format!("no type `{of}` exists yet"));
    }
    Ok(warnings)
}

/// A URI that could never be granted would lock everyone out.
pub(crate) fn wrong_uri(text: &str) -> Option<DefinitionIssue> {
    let uri: Result<SecurityUri, _> = text.parse();
    let named = |uri: SecurityUri| match execution_target(&uri) {
        Some(Resource::Tool { category, name }) => category != Some("*") && name != "*",
        Some(Resource::Agent { name }) => name != "*",
        _ => false,
    };
    let usable = uri.is_ok_and(named);
    let message = format!(
        "`{text}` is no URI of the form `ai://tools/category/name/execute` or `ai://agents/name/execute` (`*` is for grants)"
    );
    (!usable).then(|| DefinitionIssue { path: "/securityUri".to_owned(), message })
}

impl Definition for ToolProviderConfig {
    const KIND: DocumentKind = DocumentKind::Provider;
    const NOUN: &'static str = "provider";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Provider { name: self.ref_name.as_str() }
    }

    /// Whoever writes a command runs it on the server's machine.
    fn also_needs(&self) -> Option<(Action, Resource<'_>)> {
        (self.command.is_some() || self.is_command()).then_some((Action::Write, Resource::Commands))
    }

    async fn check(&self, _around: &Surroundings<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let compiled = CompiledProvider::compile(Document::unsaved(self.ref_name.clone(), self.clone()));
        let descriptors = self.descriptor_set.as_deref().map(toolwright_grpc::pool).transpose();
        Ok(compiled.and_then(|_| match descriptors {
            Ok(_) => Ok(Vec::new()),
            Err(error) => {
                Err(Issues(vec![DefinitionIssue { path: "/descriptorSet".into(), message: error.to_string() }]))
            }
        }))
    }
}
