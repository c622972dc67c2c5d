//! A provider made ready: its URL, headers and authentication checked once.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toolwright_expr::JsonPath;
use toolwright_types::{AuthType, Document, ProviderType, RefName, ReferenceSource, ToolProviderConfig};
use url::Url;

use super::client::refused_header;
use super::credentials;
use crate::Issues;

/// How many types of reference data a provider has.
const MOST_SOURCES: usize = 20;
/// How many fields of an item are kept.
const MOST_FIELDS: usize = 20;

/// A provider whose tools can be called.
#[derive(Debug)]
pub struct CompiledProvider {
    /// The hash of exactly this configuration.
    pub content_hash: String,
    /// The configuration.
    pub config: ToolProviderConfig,
    pub(super) base: Option<Url>,
    pub(super) headers: HeaderMap,
}

impl CompiledProvider {
    /// Checks a configuration, or says everything that is wrong with it.
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
            issues.add("/name", "a name has 1 to 128 characters");
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
    /// The URL, if it is one of HTTP.
    pub fn base(&self) -> Option<&Url> {
        self.base.as_ref()
    }

    /// The headers of every request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// An MCP server is a command or a URL, and a command's environment holds no credentials.
fn check_mcp(config: &ToolProviderConfig, issues: &mut Issues) {
    if config.is_command() {
        if config.command.as_deref().is_none_or(|command| command.trim().is_empty()) {
            issues.add("/command", "an MCP server over `stdio` needs the `command` that starts it");
        }
    } else if config.base_url.is_none() {
        issues.add("/baseUrl", "an MCP server needs a `baseUrl`, or a `command` for `stdio`");
    }
    let texts = config.command.iter().chain(&config.args).chain(config.env.values());
    if texts.into_iter().any(|text| text.contains('\0')) {
        issues.add("/command", "a command, its arguments and its environment cannot hold U+0000");
    }
    for (name, value) in &config.env {
        if !is_variable(name) {
            issues.add(format!("/env/{name}"), "is no name of a variable");
        } else if credentials::in_literal_header(name, value).is_some() {
            let problem = "holds a credential; store it with `toolwright secrets set` and name it in `envSecretRefs`";
            issues.add(format!("/env/{name}"), problem);
        }
    }
    for (name, secret) in &config.env_secret_refs {
        if !is_variable(name) {
            issues.add(format!("/envSecretRefs/{name}"), "is no name of a variable");
        } else if let Err(error) = secret.parse::<RefName>() {
            issues.add(format!("/envSecretRefs/{name}"), error.to_string());
        }
    }
    if let Some(prefix) = &config.tool_prefix
        && format!("{prefix}x").parse::<RefName>().is_err()
    {
        issues.add("/toolPrefix", format!("`{prefix}` cannot begin the name of a tool"));
    }
}

fn is_variable(name: &str) -> bool {
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
        // MCP over stdio and gRPC have addresses of other kinds; they are checked where they are used.
        Ok(_) => None,
        Err(error) => {
            issues.add("/baseUrl", format!("`{text}` is no URL: {error}"));
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
            (Ok(name), _) if refused_header(&name).is_some() => {
                issues.add(path, refused_header(&name).unwrap_or_default());
            }
            (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
            _ => issues.add(path, "is no valid header"),
        }
    }
    headers
}

fn check_auth(config: &ToolProviderConfig, issues: &mut Issues) {
    let auth = &config.auth;
    let mut needs = |field: &str, present: bool| {
        if !present {
            issues.add(format!("/auth/{field}"), format!("authType `{}` needs `{field}`", name(auth.auth_type)));
        }
    };
    match auth.auth_type {
        AuthType::None => {}
        AuthType::Bearer | AuthType::ApiKey => needs("secretRef", auth.secret_ref.is_some()),
        AuthType::OAuth2 => {
            needs("secretRef", auth.secret_ref.is_some());
            // An MCP server says itself where to log in, and as whom.
            let says_itself = config.provider_type == ProviderType::Mcp && auth.is_login();
            needs("clientId", says_itself || auth.client_id.is_some());
            needs("tokenEndpoint", says_itself || auth.token_endpoint.is_some());
        }
        AuthType::Mtls => needs("certRef", auth.cert_ref.is_some()),
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
        issues.add("/auth/tokenEndpoint", format!("is no URL: {error}"));
    }
    if auth.header_name.as_deref().is_some_and(|name| name.parse::<HeaderName>().is_err()) {
        issues.add("/auth/headerName", "is no header name");
    }
}

/// Each type once, under a name that a prompt can use, from a place that can be read.
fn check_references(sources: &[ReferenceSource], issues: &mut Issues) {
    if sources.len() > MOST_SOURCES {
        issues.add("/referenceData", format!("has at most {MOST_SOURCES} types"));
    }
    let mut known = std::collections::HashSet::new();
    for (at, source) in sources.iter().enumerate() {
        let mut wrong = |field: &str, message: String| issues.add(format!("/referenceData/{at}/{field}"), message);
        let name = source.data_type.as_str();
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !plain || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > 64 {
            wrong("dataType", "is a name of up to 64 letters, digits, `_` and `-`, beginning with a letter".into());
        }
        if !known.insert(name) {
            wrong("dataType", format!("`{name}` is there twice"));
        }
        if source.tool_ref.is_empty() {
            wrong("toolRef", "names the tool that lists the items".into());
        }
        if let Some(Err(error)) = source.extraction_path.as_deref().map(JsonPath::parse) {
            wrong("extractionPath", error.to_string());
        }
        if source.ttl_seconds.is_some_and(|seconds| !(60..=31_536_000).contains(&seconds)) {
            wrong("ttlSeconds", "is between 60 and 31536000".into());
        }
        if source.metadata_fields.len() + source.lookup_fields.len() > MOST_FIELDS {
            wrong("metadataFields", format!("and lookupFields are at most {MOST_FIELDS} together"));
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
