//! Imports the operations of OpenAPI documents as tools.

use serde_json::Value;
use toolwright_openapi::{OpenApiDocument, OpenApiImportOptions, OpenApiProposal, OperationFilter};
use toolwright_types::{DefinitionSource, RefName, ToolOrigin, ToolProviderConfig};
use url::Url;

use super::fetch::fetch_text;
use super::{ImportError, ImportReport, Imports, Proposal, ProposedTool, compile_provider, conflict, run_blocking};
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;

/// A request to import the operations of an OpenAPI document as tools.
#[derive(Debug)]
pub struct OpenApiImport {
    /// The document.
    pub document: DocumentSource,
    /// The name of the document. `None` means its URL without credentials, or a name that is derived from the provider.
    pub source: Option<String>,
    /// The provider, which is created if it does not exist. `None` derives the name from the title of the API.
    pub provider: Option<RefName>,
    /// The prefix of tool names. `None` means the provider's name. An empty text means no prefix.
    pub prefix: Option<String>,
    /// The base URL of the API. Default: the base URL of the existing provider, or of the document if there is no
    /// provider.
    pub base_url: Option<String>,
    /// The operations to import.
    pub filter: OperationFilter,
    /// Whether tools of an earlier import are replaced.
    pub update: bool,
    /// Whether the import only reports what it would do.
    pub dry_run: bool,
}

/// The source of an API document.
#[derive(Debug)]
pub enum DocumentSource {
    /// The text of the document, in JSON or YAML.
    Text(String),
    /// The parsed document.
    Value(Value),
    /// The URL of the document.
    Url(Url),
}

impl Imports {
    /// Imports the operations of an OpenAPI document as tools.
    pub async fn openapi(&self, session: &Session, import: OpenApiImport) -> Result<ImportReport, ImportError> {
        let _permit = self.acquire_permit().await?;
        let (update, dry_run) = (import.update, import.dry_run);
        let proposal = self.propose_openapi(session, import).await?;
        self.apply(session, proposal, update, dry_run).await
    }

    /// Parses the document and proposes tools. This work runs on blocking threads.
    async fn propose_openapi(&self, session: &Session, import: OpenApiImport) -> Result<Proposal, ImportError> {
        let OpenApiImport { document, source, provider: name, prefix, base_url, filter, .. } = import;
        let mut existing = match &name {
            Some(name) => self.registry.find::<ToolProviderConfig>(session, name).await?,
            None => None,
        };
        let source_url = if let DocumentSource::Url(url) = &document { Some(url.clone()) } else { None };
        let document = match document {
            DocumentSource::Value(value) => run_blocking(move || OpenApiDocument::from_value(value)).await??,
            DocumentSource::Text(text) => run_blocking(move || OpenApiDocument::parse(&text)).await??,
            DocumentSource::Url(url) => {
                let provider = name.as_ref().map_or("import", RefName::as_str);
                let allowed = self.registry.may_import_tools(session, None, provider);
                allowed.map_err(RegistryError::from)?;
                let allow = existing.as_ref().map(|provider| provider.body.egress_allow.as_slice()).unwrap_or_default();
                let text = fetch_text(&self.http, url, allow).await.map_err(ImportError::Fetch)?;
                run_blocking(move || OpenApiDocument::parse(&text)).await??
            }
        };
        let name = match name {
            Some(name) => name,
            None => {
                let name = document.suggested_name().ok_or(ImportError::NoProviderName)?;
                existing = self.registry.find::<ToolProviderConfig>(session, &name).await?;
                name
            }
        };
        let known_url = existing.as_ref().and_then(|provider| provider.body.base_url.clone());
        let base_url = base_url.or(known_url);
        let document_name = source
            .or_else(|| ToolOrigin::document_name(source_url.as_ref()?.as_str()))
            .unwrap_or_else(|| format!("{}.json", name.as_str().replace('/', "-")));
        let options = OpenApiImportOptions { provider: name, prefix, base_url, source_url, document_name, filter };
        let OpenApiProposal { provider, tools, skipped, auth_hint, mut warnings, .. } =
            run_blocking(move || toolwright_openapi::propose_tools(&document, &options)).await??;
        match &existing {
            Some(existing) => warnings.extend(conflict::provider_warning(existing, &provider)),
            None => drop(warnings.splice(..0, auth_hint)),
        }
        let tools = tools.into_iter();
        Ok(Proposal {
            source: DefinitionSource::OpenapiImported,
            tools: tools.map(|tool| ProposedTool { operation: tool.operation, definition: tool.definition }).collect(),
            provider: compile_provider(existing.as_ref(), &provider)?,
            existing,
            skipped,
            warnings,
        })
    }
}
