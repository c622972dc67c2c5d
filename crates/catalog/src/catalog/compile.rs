//! Compiles definitions with the current provider, prompt fragments and library.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use toolwright_store::DocumentRef;
use toolwright_tools::http::CompiledProvider;
use toolwright_tools::{CompiledTool, DefinitionIssue, Issues};
use toolwright_types::{
    AgentDefinition, CompositeConfig, Document, DocumentKind, JsonSchema, PromptFragment, RealmScope, ToolDefinition,
    ToolProviderConfig, TypeDefinition, referenced_types, set_type_schema,
};

use super::Catalog;
use crate::agent::CompiledAgent;
use crate::entity_type::CompiledType;
use crate::{BoxError, Unavailable};

impl Catalog {
    /// Compiles an agent with the current prompt fragments. Also returns the names of missing fragments.
    pub async fn compile_agent(
        &self,
        realm: &RealmScope,
        document: Document<AgentDefinition>,
    ) -> Result<Result<(CompiledAgent, Vec<String>), Issues>, Unavailable> {
        let (mut fragments, mut missing) = (Vec::new(), Vec::new());
        for name in &document.body.system_prompt_refs {
            match self.fragment(realm, name).await? {
                Some(fragment) => fragments.push(fragment),
                None => missing.push(name.clone()),
            }
        }
        let schema = document.body.response_schema.clone().unwrap_or_default();
        let compiled = Box::pin(compile_sized(&[&schema], move || CompiledAgent::compile(document, &fragments))).await;
        Ok(compiled.map(|agent| (agent, missing)))
    }

    async fn fragment(&self, realm: &RealmScope, name: &str) -> Result<Option<PromptFragment>, Unavailable> {
        let reference = DocumentRef::parse(DocumentKind::Fragment, name);
        let found = self.0.store.definitions(realm).get(DocumentKind::Fragment, &reference).await?;
        let parsed = found.map(|document| serde_json::from_value(document.body)).transpose();
        parsed.map_err(|error| Unavailable::new("a stored prompt fragment is not valid in this release", error))
    }

    /// Compiles a tool that has no provider, such as an agent that is called as a tool.
    pub fn compile_without_provider(&self, document: Document<ToolDefinition>) -> Result<CompiledTool, Issues> {
        CompiledTool::compile(document, None, &self.0.library)
    }

    /// Compiles a tool with this provider and the current library.
    pub fn compile_with_provider(
        &self,
        document: Document<ToolDefinition>,
        provider: Arc<CompiledProvider>,
    ) -> Result<CompiledTool, Issues> {
        CompiledTool::compile(document, Some(provider), &self.0.library)
    }

    /// Compiles a tool with a provider that need not be stored.
    pub fn compile_with_unsaved_provider(
        &self,
        document: Document<ToolDefinition>,
        provider: ToolProviderConfig,
    ) -> Result<CompiledTool, Issues> {
        let provider = CompiledProvider::compile(Document::unsaved(provider.ref_name.clone(), provider))?;
        self.compile_with_provider(document, Arc::new(provider))
    }

    /// Compiles a tool with its stored provider and the current library.
    pub async fn compile(
        &self,
        realm: &RealmScope,
        mut document: Document<ToolDefinition>,
    ) -> Result<Result<CompiledTool, Issues>, Unavailable> {
        let provider = match document.body.provider_ref.as_deref() {
            Some(name) => self.provider(realm, name).await?,
            None => None,
        };
        // The future is boxed, because it is large and few tools refer to entity types.
        let missing = Box::pin(self.set_type_schemas(realm, &mut document.body)).await?;
        let (input, output) = (document.body.effective_input_schema(), document.body.effective_output_schema());
        let library = Arc::clone(&self.0.library);
        let compile = move || CompiledTool::compile(document, provider, &library);
        let compiled = Box::pin(compile_sized(&[&input, &output], compile)).await;
        Ok(compiled.map(|mut tool| {
            let warning =
                |name: String| format!("no entity type `{name}` exists yet, so no value of its parameters is accepted");
            tool.add_warnings(missing.into_iter().map(warning));
            tool
        }))
    }

    /// Sets the schemas of the entity types that the parameters of a tool refer to. Returns the names of missing types.
    async fn set_type_schemas(
        &self,
        realm: &RealmScope,
        tool: &mut ToolDefinition,
    ) -> Result<Vec<String>, Unavailable> {
        let mut missing = Vec::new();
        let (input, output) = (tool.effective_input_schema(), tool.effective_output_schema());
        let unified = tool.composite.as_deref().filter(|_| !tool.has_input_schema()).map(CompositeConfig::parameters);
        let input_parameters = if unified.is_some() { &unified } else { &tool.input_schema };
        for (parameters, full, mut schema) in [
            (input_parameters, &mut tool.input_json_schema, input),
            (&tool.output_schema, &mut tool.output_json_schema, output),
        ] {
            let names: BTreeSet<&str> = parameters.iter().flat_map(referenced_types).collect();
            if names.is_empty() {
                continue;
            }
            for name in names {
                match self.entity_type(realm, name).await? {
                    Some(found) => set_type_schema(&mut schema, name, found.definition.effective_schema()),
                    None => missing.push(name.to_owned()),
                }
            }
            *full = Some(JsonSchema(schema));
        }
        Ok(missing)
    }

    pub(super) async fn load(
        &self,
        realm: &RealmScope,
        document: Document<Value>,
    ) -> Result<CompiledTool, Unavailable> {
        let invalid = |source: BoxError| Unavailable::new("a stored definition is not valid in this release", source);
        let parsed: Result<Document<ToolDefinition>, _> = document.try_map(serde_json::from_value);
        match parsed {
            Ok(document) => self.compile(realm, document).await?.map_err(|issues| invalid(Box::new(issues))),
            Err(error) => Err(invalid(Box::new(error))),
        }
    }

    /// Whether a provider with this name exists.
    pub(crate) async fn provider_exists(&self, realm: &RealmScope, name: &str) -> Result<bool, Unavailable> {
        let reference = DocumentRef::parse(DocumentKind::Provider, name);
        let found = self.0.store.definitions(realm).get(DocumentKind::Provider, &reference).await?;
        Ok(found.is_some_and(|provider| provider.meta.ref_name.as_str().eq_ignore_ascii_case(name)))
    }

    async fn provider(&self, realm: &RealmScope, name: &str) -> Result<Option<Arc<CompiledProvider>>, Unavailable> {
        let reference = DocumentRef::parse(DocumentKind::Provider, name);
        let Some(document) = self.0.store.definitions(realm).get(DocumentKind::Provider, &reference).await? else {
            return Ok(None);
        };
        let invalid = |source: BoxError| Unavailable::new("a stored provider is not valid in this release", source);
        let parsed: Result<Document<ToolProviderConfig>, _> = document.try_map(serde_json::from_value);
        match parsed {
            Ok(document) => match CompiledProvider::compile(document) {
                Ok(provider) => Ok(Some(Arc::new(provider))),
                Err(issues) => Err(invalid(Box::new(issues))),
            },
            Err(error) => Err(invalid(Box::new(error))),
        }
    }
}

/// Calls `compile`, which compiles a definition with these schemas. If the schemas are large, calls it on a thread for
/// blocking work.
pub(crate) async fn compile_sized<T: Send + 'static>(
    schemas: &[&Value],
    compile: impl FnOnce() -> Result<T, Issues> + Send + 'static,
) -> Result<T, Issues> {
    let compiled = toolwright_budget::run_sized(schemas, compile).await;
    compiled.unwrap_or_else(|stopped| {
        let message = format!("the definition cannot be compiled: {stopped}");
        Err(Issues(vec![DefinitionIssue { path: String::new(), message }]))
    })
}

pub(super) async fn load_type(document: Document<Value>) -> Result<CompiledType, Unavailable> {
    let invalid = |source: BoxError| Unavailable::new("a stored type is not valid in this release", source);
    let parsed: Result<Document<TypeDefinition>, _> = document.try_map(serde_json::from_value);
    let document = parsed.map_err(|error| invalid(Box::new(error)))?;
    let compiled = CompiledType::compile_large(document).await;
    compiled.map(|(found, _)| found).map_err(|issues| invalid(Box::new(issues)))
}
