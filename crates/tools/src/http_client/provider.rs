//! Compiled providers: URL, headers and authentication are checked once.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolwright_expr::JsonPath;
use toolwright_types::json::hex_digest;
use toolwright_types::{
    AuthType, CommandArgument, Document, ProviderType, RefName, ReferenceSource, ToolProviderConfig,
};
use url::Url;

use super::client::forbidden_header;
use super::credentials;
use crate::Issues;

/// The maximum number of reference data types of a provider.
const MAX_REFERENCE_TYPES: usize = 20;
/// The maximum number of stored fields of a reference data item.
const MAX_REFERENCE_FIELDS: usize = 20;

/// A compiled provider.
#[derive(Debug)]
pub struct CompiledProvider {
    /// The content hash of the configuration.
    pub content_hash: String,
    /// The configuration.
    pub config: ToolProviderConfig,
    pub(super) base: Option<Url>,
    pub(super) headers: HeaderMap,
}

impl CompiledProvider {
    /// Compiles a provider, or returns all problems of its configuration.
    pub fn compile(document: Document<ToolProviderConfig>) -> Result<Self, Issues> {
        let Document { meta, body: config } = document;
        let mut issues = Issues::default();
        let base = config.base_url.as_deref().and_then(|text| base_url(text, &mut issues));
        let headers = headers(&config, &mut issues);
        check_auth(&config, &mut issues);
        check_references(&config.reference_data, &mut issues);
        if config.provider_type == ProviderType::Mcp {
            check_mcp(&config, &mut issues);
        }
        if config.name.as_deref().is_some_and(|name| !(1..=128).contains(&name.chars().count())) {
            issues.add("/name", "must have 1 to 128 characters");
        }
        if config.timeout_ms.is_some_and(|ms| ms == 0 || ms > 3_600_000) {
            issues.add("/timeoutMs", "must be between 1 and 3600000");
        }
        if config.max_retries.is_some_and(|count| count > 20) {
            issues.add("/maxRetries", "must be at most 20");
        }
        if issues.0.is_empty() {
            Ok(Self { content_hash: meta.content_hash, config, base, headers })
        } else {
            Err(issues)
        }
    }
}

impl CompiledProvider {
    /// Returns the base URL if it is an HTTP URL.
    pub fn base_url(&self) -> Option<&Url> {
        self.base.as_ref()
    }

    /// Returns the headers of every request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns a hash of the settings that decide what a call does. The name, the description and the settings of
    /// imports are left out, because they have no influence on a call. The reference data is left out too, because each
    /// call records the ids that it uses.
    pub(crate) fn call_fingerprint(&self) -> String {
        let mut config = self.config.clone();
        (config.name, config.description, config.tool_prefix) = (None, None, None);
        config.reference_data.clear();
        (config.auto_discover_tools, config.last_discovery_sync) = (false, None);
        hex_digest(&serde_json::to_value(&config).unwrap_or_default())
    }
}

/// Checks that an MCP server has a command or a URL, and that its environment contains no credentials.
fn check_mcp(config: &ToolProviderConfig, issues: &mut Issues) {
    if config.is_command() {
        if config.command.as_deref().is_none_or(|command| command.trim().is_empty()) {
            issues.add("/command", "is required for an MCP server over `stdio`");
        }
    } else if config.base_url.is_none() {
        issues.add("/baseUrl", "is required for an MCP server, unless it has a `command` for `stdio`");
    }
    let arguments = config.args.iter().map(|argument| match argument {
        CommandArgument::Text(text) => text,
        CommandArgument::Secret(argument) => &argument.prefix,
    });
    if config.command.iter().chain(arguments).chain(config.env.values()).any(|text| text.contains('\0')) {
        issues.add("/command", "the command, its arguments and its environment must not contain U+0000");
    }
    check_arguments(&config.args, issues);
    for (name, value) in &config.env {
        if !is_variable_name(name) {
            issues.add(
                format!("/env/{name}"),
                "must be the name of a variable: letters, digits and `_`, not starting with a digit",
            );
        } else if credentials::in_literal_header(name, value).is_some() {
            let problem = "holds a credential; store it with `toolwright secrets set` and name it in `envSecretRefs`";
            issues.add(format!("/env/{name}"), problem);
        }
    }
    for (name, secret) in &config.env_secret_refs {
        if !is_variable_name(name) {
            issues.add(
                format!("/envSecretRefs/{name}"),
                "must be the name of a variable: letters, digits and `_`, not starting with a digit",
            );
        } else if let Err(error) = secret.parse::<RefName>() {
            issues.add(format!("/envSecretRefs/{name}"), error.to_string());
        }
    }
    if let Some(prefix) = &config.tool_prefix
        && format!("{prefix}x").parse::<RefName>().is_err()
    {
        issues.add("/toolPrefix", format!("`{prefix}` must be a valid start of a tool name"));
    }
}

/// Checks that the arguments of a command contain no credentials, and that they name secrets correctly.
fn check_arguments(arguments: &[CommandArgument], issues: &mut Issues) {
    let mut previous = None;
    for (index, argument) in arguments.iter().enumerate() {
        match argument {
            CommandArgument::Text(text) if credentials::is_argument(previous, text) => {
                let problem = "holds a credential; store it with `toolwright secrets set`, and name it in `envSecretRefs` or \
                               replace the argument by `{\"secretRef\": \"name\"}`";
                issues.add(format!("/args/{index}"), problem);
            }
            CommandArgument::Text(_) => {}
            CommandArgument::Secret(argument) => {
                if let Err(error) = argument.secret_ref.parse::<RefName>() {
                    issues.add(format!("/args/{index}/secretRef"), error.to_string());
                }
            }
        }
        previous = argument.text();
    }
}

fn is_variable_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit())
}

fn base_url(text: &str, issues: &mut Issues) -> Option<Url> {
    if let Some(problem) = credentials::in_url(text) {
        issues.add("/baseUrl", problem);
        return None;
    }
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Some(url),
        // gRPC and MCP over stdio use other kinds of addresses, which their backends check.
        Ok(_) => None,
        Err(error) => {
            issues.add("/baseUrl", format!("`{text}` is not a URL: {error}"));
            None
        }
    }
}

fn headers(config: &ToolProviderConfig, issues: &mut Issues) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.default_headers {
        let path = format!("/defaultHeaders/{name}");
        if let Some(problem) = credentials::in_literal_header(name, value) {
            issues.add(path, problem);
            continue;
        }
        match (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            (Ok(name), _) if forbidden_header(&name).is_some() => {
                issues.add(path, forbidden_header(&name).unwrap_or_default());
            }
            (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
            _ => issues.add(path, "must be a valid header"),
        }
    }
    headers
}

fn check_auth(config: &ToolProviderConfig, issues: &mut Issues) {
    let auth = &config.auth;
    let mut needs = |field: &str, present: bool| {
        if !present {
            issues.add(format!("/auth/{field}"), format!("authType `{}` requires `{field}`", name(auth.auth_type)));
        }
    };
    match auth.auth_type {
        AuthType::None => {}
        AuthType::Bearer | AuthType::ApiKey => needs("secretRef", auth.secret_ref.is_some()),
        AuthType::OAuth2 => {
            needs("secretRef", auth.secret_ref.is_some());
            // A login to an MCP server discovers the token endpoint, so it needs no `tokenEndpoint`.
            let self_describing = config.provider_type == ProviderType::Mcp && auth.is_login();
            needs("tokenEndpoint", self_describing || auth.token_endpoint.is_some());
        }
        AuthType::Mtls => needs("secretRef", auth.certificate_ref().is_some()),
    }
    for (field, reference) in [("secretRef", &auth.secret_ref), ("certRef", &auth.cert_ref)] {
        if let Some(Err(error)) = reference.as_deref().map(str::parse::<RefName>) {
            issues.add(format!("/auth/{field}"), error.to_string());
        }
    }
    if let Some(problem) = auth.token_endpoint.as_deref().and_then(credentials::in_url) {
        issues.add("/auth/tokenEndpoint", problem);
    }
    if let Some(Err(error)) = auth.token_endpoint.as_deref().map(Url::parse) {
        issues.add("/auth/tokenEndpoint", format!("must be a URL: {error}"));
    }
    if auth.header_name.as_deref().is_some_and(|name| name.parse::<HeaderName>().is_err()) {
        issues.add("/auth/headerName", "must be a valid header name");
    }
}

/// Checks the reference data types: valid unique names, a tool that lists the items, and limits.
fn check_references(sources: &[ReferenceSource], issues: &mut Issues) {
    if sources.len() > MAX_REFERENCE_TYPES {
        issues.add("/referenceData", format!("must have at most {MAX_REFERENCE_TYPES} types, got {}", sources.len()));
    }
    let mut known = std::collections::HashSet::new();
    for (index, source) in sources.iter().enumerate() {
        let mut add_issue =
            |field: &str, message: String| issues.add(format!("/referenceData/{index}/{field}"), message);
        let name = source.data_type.as_str();
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !plain || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > 64 {
            add_issue("dataType", "must have up to 64 letters, digits, `_` and `-`, and start with a letter".into());
        }
        if !known.insert(name) {
            add_issue("dataType", format!("`{name}` must be unique"));
        }
        if source.tool_ref.is_empty() {
            add_issue("toolRef", "is required: the tool that lists the items".into());
        }
        if let Some(Err(error)) = source.extraction_path.as_deref().map(JsonPath::parse) {
            add_issue("extractionPath", error.to_string());
        }
        if source.ttl_seconds.is_some_and(|seconds| !(60..=31_536_000).contains(&seconds)) {
            add_issue("ttlSeconds", "must be between 60 and 31536000".into());
        }
        if source.metadata_fields.len() + source.lookup_fields.len() > MAX_REFERENCE_FIELDS {
            add_issue(
                "metadataFields",
                format!("and lookupFields must have at most {MAX_REFERENCE_FIELDS} fields together"),
            );
        }
    }
}

fn name(auth: AuthType) -> &'static str {
    match auth {
        AuthType::None => "none",
        AuthType::Bearer => "bearer",
        AuthType::ApiKey => "api_key",
        AuthType::OAuth2 => "oauth2",
        AuthType::Mtls => "mtls",
    }
}
