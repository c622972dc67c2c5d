//! Proposes a provider and its tools for a document.

use serde_json::Value;
use toolwright_types::{ProviderType, RefName, ToolDefinition, ToolProviderConfig};
use url::Url;

use crate::document::OpenApiDocument;
use crate::error::DocumentError;
use crate::filter::{METHODS, OperationFilter};
use crate::names::ToolNames;
use crate::operation::Operation;
use crate::reference::{escape_token, follow};
use crate::{auth, servers};

/// The maximum number of operations in a document.
const MAX_OPERATIONS: usize = 20_000;
/// The maximum number of operations in one import.
const MAX_TOOLS: usize = 5_000;
/// The maximum total size of the tools' schemas, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 << 20;
/// The maximum number of warnings that are listed.
const MAX_WARNINGS: usize = 200;

/// The options of an import.
#[derive(Debug, Clone)]
pub struct OpenApiImportOptions {
    /// The name of the provider.
    pub provider: RefName,
    /// The prefix of tool names. `None` uses the provider's name, an empty string uses no prefix.
    pub prefix: Option<String>,
    /// The base URL of the API. `None` uses the document's first server.
    pub base_url: Option<String>,
    /// The URL of the document, to resolve relative server URLs.
    pub source_url: Option<Url>,
    /// The name of the document, which the tools have as their origin: a URL without credentials, or the name of a file.
    pub document_name: String,
    /// The operations to import.
    pub filter: OperationFilter,
}

/// The provider and the tools for a document.
#[derive(Debug)]
pub struct OpenApiProposal {
    /// The provider that the tools need.
    pub provider: ToolProviderConfig,
    /// What the user must do to complete the provider's authentication.
    pub auth_hint: Option<String>,
    /// The tools, in document order.
    pub tools: Vec<ProposedTool>,
    /// The operations that cannot become tools.
    pub skipped: Vec<SkippedOperation>,
    /// Warnings, each with its operation.
    pub warnings: Vec<String>,
    /// The number of operations in the document, including those that the filter does not select.
    pub operations: usize,
}

/// A proposed tool and its operation.
#[derive(Debug)]
pub struct ProposedTool {
    /// Method and path.
    pub operation: String,
    /// The definition of the tool.
    pub definition: ToolDefinition,
}

/// An operation that cannot become a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedOperation {
    /// Method and path.
    pub operation: String,
    /// The reason.
    pub reason: String,
}

/// Proposes a provider and one tool for each selected operation.
pub fn propose_tools(
    document: &OpenApiDocument,
    options: &OpenApiImportOptions,
) -> Result<OpenApiProposal, DocumentError> {
    let (provider, auth_hint) = provider(document, options)?;
    let mut proposal = OpenApiProposal {
        provider,
        auth_hint,
        tools: Vec::new(),
        skipped: Vec::new(),
        warnings: Vec::new(),
        operations: 0,
    };
    let mut names = ToolNames::new(prefix(options)?);
    let (mut bytes, mut omitted) = (0, 0);
    for operation in operations(document, &mut proposal)? {
        // Names are assigned before the filter applies, so that a tool's name does not depend on the filter.
        let assigned = names.assign(operation.id(), operation.method, operation.path);
        if !options.filter.matches(operation.path, operation.method, operation.id(), operation.tags()) {
            continue;
        }
        if proposal.tools.len() + proposal.skipped.len() >= MAX_TOOLS {
            return Err(DocumentError::at(
                "/paths",
                format!("an import must not have more than {MAX_TOOLS} operations; select some of them by tag or path"),
            ));
        }
        let Some(assigned) = assigned else {
            proposal.skip(&operation, "no valid tool name can be derived from it");
            continue;
        };
        let mut draft = match operation.build_tool(document, assigned.name.clone(), &options.provider) {
            Ok(draft) => draft,
            Err(error) => {
                proposal.skip(&operation, error.to_string());
                continue;
            }
        };
        draft.definition.origin = Some(Box::new(operation.origin(&options.document_name)));
        bytes += draft.bytes;
        if bytes > MAX_SCHEMA_BYTES {
            return Err(DocumentError::at(
                "/paths",
                format!(
                    "the schemas of the tools must not exceed {MAX_SCHEMA_BYTES} bytes; select some operations by tag or path"
                ),
            ));
        }
        let renamed =
            assigned.conflict.map(|taken| format!("the tool is named `{}`, because `{taken}` is taken", assigned.name));
        for warning in renamed.into_iter().chain(draft.warnings) {
            if proposal.warnings.len() < MAX_WARNINGS {
                proposal.warnings.push(format!("{}: {warning}", operation.label()));
            } else {
                omitted += 1;
            }
        }
        proposal.tools.push(ProposedTool { operation: operation.label(), definition: draft.definition });
    }
    if omitted > 0 {
        proposal.warnings.push(format!("and {omitted} more"));
    }
    Ok(proposal)
}

impl OpenApiProposal {
    fn skip(&mut self, operation: &Operation<'_>, reason: impl Into<String>) {
        self.skipped.push(SkippedOperation { operation: operation.label(), reason: reason.into() });
    }
}

/// Returns all operations in document order, and counts them in the proposal.
fn operations<'d>(
    document: &'d OpenApiDocument,
    proposal: &mut OpenApiProposal,
) -> Result<Vec<Operation<'d>>, DocumentError> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut found = Vec::new();
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| path.starts_with('/')) {
        let item = match follow(&document.root, item) {
            Ok(item) => item,
            Err(error) => {
                let operation = format!("/paths/{}", escape_token(path));
                proposal.skipped.push(SkippedOperation { operation, reason: error.to_string() });
                continue;
            }
        };
        for (method, value) in item.as_object().into_iter().flatten() {
            if let (Some(method), true) = (METHODS.iter().find(|known| *known == method), value.is_object()) {
                found.push(Operation { path, method, item, value });
            }
        }
        if found.len() > MAX_OPERATIONS {
            return Err(DocumentError::at(
                "/paths",
                format!("a document must not have more than {MAX_OPERATIONS} operations; import a smaller document"),
            ));
        }
    }
    proposal.operations = found.len();
    Ok(found)
}

fn provider(
    document: &OpenApiDocument,
    options: &OpenApiImportOptions,
) -> Result<(ToolProviderConfig, Option<String>), DocumentError> {
    let base_url = match &options.base_url {
        Some(url) => url.clone(),
        None => servers::base_url(&document.root, options.source_url.as_ref())?,
    };
    let secret = options.provider.as_str().replace('/', "-");
    let auth = auth::propose_auth(document, &secret);
    let mut provider = ToolProviderConfig::new(options.provider.clone(), ProviderType::Rest);
    provider.description = document.description();
    provider.base_url = Some(base_url);
    provider.auth = auth.config;
    // Without an `Accept` header, many APIs do not respond with JSON.
    provider.default_headers.insert("Accept".into(), "application/json, */*;q=0.8".into());
    Ok((provider, auth.hint))
}

/// The validated prefix of tool names; `None` for no prefix.
fn prefix(options: &OpenApiImportOptions) -> Result<Option<String>, DocumentError> {
    let prefix = match &options.prefix {
        Some(prefix) if prefix.is_empty() => return Ok(None),
        Some(prefix) => prefix.clone(),
        None => options.provider.as_str().replace('/', "-"),
    };
    let valid = prefix.len() <= 64 && !prefix.contains('/') && format!("{prefix}/x").parse::<RefName>().is_ok();
    if valid {
        return Ok(Some(prefix));
    }
    Err(DocumentError::at(
        "",
        format!("`prefix` must have at most 64 letters, digits, `_`, `.` and `-`, got `{prefix}`"),
    ))
}
