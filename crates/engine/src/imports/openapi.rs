//! Documents that describe HTTP APIs.

use serde_json::Value;
use toolwright_openapi::{Document as Description, Filter, Options, Plan};
use toolwright_types::{RefName, Source, ToolProviderConfig};
use url::Url;

use super::{ImportError, ImportReport, Imports, Proposal, Proposed, aside, compiled, decide, fetch};
use crate::access::Session;

/// What to import, and how.
#[derive(Debug)]
pub struct OpenApiImport {
    /// The document.
    pub origin: Origin,
    /// The provider, which is made when there is none of this name; named after the API when absent.
    pub provider: Option<RefName>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    pub prefix: Option<String>,
    /// Where the API lives; what the document says when absent.
    pub base_url: Option<String>,
    /// Which operations.
    pub only: Filter,
    /// Whether tools that were imported before are replaced.
    pub update: bool,
    /// Whether everything is done but the writing.
    pub dry_run: bool,
}

/// Where a document is.
#[derive(Debug)]
pub enum Origin {
    /// Here, as JSON or YAML.
    Text(String),
    /// Here, and read already.
    Value(Value),
    /// At this address.
    Url(Url),
}

impl Imports {
    /// Imports the operations of an OpenAPI document as tools.
    pub async fn openapi(&self, session: &Session, import: OpenApiImport) -> Result<ImportReport, ImportError> {
        let _turn = self.turn().await?;
        let (update, dry_run) = (import.update, import.dry_run);
        let proposal = self.read_openapi(session, import).await?;
        self.bring_in(session, proposal, update, dry_run).await
    }

    /// Reads and plans beside the threads that serve everyone.
    async fn read_openapi(&self, session: &Session, import: OpenApiImport) -> Result<Proposal, ImportError> {
        let OpenApiImport { origin, provider: name, prefix, base_url, only, .. } = import;
        let mut existing = match &name {
            Some(name) => self.registry.find::<ToolProviderConfig>(session, name).await?,
            None => None,
        };
        let came_from = if let Origin::Url(url) = &origin { Some(url.clone()) } else { None };
        let description = match origin {
            Origin::Value(value) => aside(move || Description::from_value(value)).await??,
            Origin::Text(text) => aside(move || Description::parse(&text)).await??,
            Origin::Url(url) => {
                let allow = existing.as_ref().map(|provider| provider.body.egress_allow.as_slice()).unwrap_or_default();
                let text = fetch::text(&self.http, url, allow).await.map_err(ImportError::Fetch)?;
                aside(move || Description::parse(&text)).await??
            }
        };
        let name = match name {
            Some(name) => name,
            None => {
                let name = description.suggested_name().ok_or(ImportError::Nameless)?;
                existing = self.registry.find::<ToolProviderConfig>(session, &name).await?;
                name
            }
        };
        let known_url = existing.as_ref().and_then(|provider| provider.body.base_url.clone());
        let options = Options { provider: name, prefix, base_url: base_url.or(known_url), came_from, only };
        let Plan { provider, tools, skipped, todo, mut warnings, .. } =
            aside(move || toolwright_openapi::plan(&description, &options)).await??;
        match &existing {
            Some(existing) => warnings.extend(decide::kept(existing, &provider)),
            None => drop(warnings.splice(..0, todo)),
        }
        let tools = tools.into_iter();
        Ok(Proposal {
            source: Source::OpenapiImported,
            tools: tools.map(|tool| Proposed { operation: tool.operation, definition: tool.definition }).collect(),
            provider: compiled(existing.as_ref(), &provider)?,
            existing,
            skipped,
            warnings,
        })
    }
}
