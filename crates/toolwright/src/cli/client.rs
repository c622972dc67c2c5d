//! The HTTP client for the REST API. It does not depend on the commands.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use reqwest::{Method, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Connection;
use super::failure::{Failure, Refusal};
use super::spinner;

// The paths of the REST API. A constant without a comment is the path of a collection.
pub(super) const TOOLS: &str = "/api/v1/ai/tools";
pub(super) const PROVIDERS: &str = "/api/v1/ai/tool-providers";
pub(super) const AGENTS: &str = "/api/v1/ai/agents";
pub(super) const AGENTIC_TOOLS: &str = "/api/v1/agentic-tools";
pub(super) const FRAGMENTS: &str = "/api/v1/ai/prompt-fragments";
pub(super) const TYPES: &str = "/api/v1/ai/types";
pub(super) const WORKFLOWS: &str = "/api/v1/ai/workflows";
/// The path of workflow runs.
pub(super) const WORKFLOW_INSTANCES: &str = "/api/v1/ai/workflow-instances";
pub(super) const STEP_REGISTRATIONS: &str = "/api/v1/ai/step-registrations";
pub(super) const CONDITION_BINDINGS: &str = "/api/v1/ai/condition-bindings";
pub(super) const TRIGGERS: &str = "/api/v1/ai/triggers";
pub(super) const WEBHOOKS: &str = "/api/v1/ai/webhooks";
pub(super) const EFFECTS: &str = "/api/v1/ai/effects";
/// The path of the routes for records.
pub(super) const QUERY: &str = "/api/query";
pub(super) const RUNS: &str = "/api/v1/ai/runs";
pub(super) const TRIALS: &str = "/api/v1/ai/trials";
/// The path of pending approvals.
pub(super) const APPROVALS: &str = "/api/v1/ai/approvals";
pub(super) const DRIFT: &str = "/api/v1/ai/drift";
/// The path of the event stream of a realm.
pub(super) const EVENTS: &str = "/api/v1/ai/events";
pub(super) const CONVERSATIONS: &str = "/api/v1/ai/conversations";
pub(super) const SECRETS: &str = "/api/v1/ai/secrets";
pub(super) const REALMS: &str = "/api/v1/ai/realms";
pub(super) const PRINCIPALS: &str = "/api/v1/ai/principals";
pub(super) const MODELS: &str = "/api/v1/ai/models";
/// The path of the status of the server.
pub(super) const SERVER: &str = "/api/v1/ai/server";
pub(super) const BLOBS: &str = "/api/v1/ai/blobs";
pub(super) const KEYS: &str = "/api/v1/ai/keys";

/// The timeout of requests that neither call tools nor continue runs.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of requests that wait for a call or a run. Calls and runs have deadlines of their own, so this timeout
/// ends only requests on dead connections.
const CALL_TIMEOUT: Duration = Duration::from_secs(3600);

/// The characters to encode in a path segment, including `/`.
const SEGMENT_ENCODE_SET: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A client for one server with one set of credentials.
#[derive(Clone)]
pub(super) struct ApiClient {
    http: reqwest::Client,
    base_url: String,
    /// Whether a spinner is shown while a request takes long. A stream has its own display, so it turns the spinner off.
    spinner: Arc<AtomicBool>,
}

/// A complete response of the server, with any status.
pub(super) struct ApiResponse {
    /// The URL of the request.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl ApiClient {
    /// Creates a client from the connection options.
    pub(super) fn new(connection: &Connection) -> Result<Self, Failure> {
        let url = parse_url(&connection.url)?;
        let http = build_client(client_builder(connection, &url)?.timeout(REQUEST_TIMEOUT))?;
        let spinner = std::io::stderr().is_terminal() && !connection.json && !connection.yaml;
        Ok(Self { http, base_url: base_url(&url), spinner: Arc::new(AtomicBool::new(spinner)) })
    }

    /// Creates an HTTP client without a timeout, and returns it with the server's URL.
    pub(super) fn for_streams(connection: &Connection) -> Result<(reqwest::Client, String), Failure> {
        let url = parse_url(&connection.url)?;
        Ok((build_client(client_builder(connection, &url)?)?, base_url(&url)))
    }

    /// The server's URL without a trailing slash.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Sends a GET request.
    pub(super) async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<ApiResponse, Failure> {
        self.send_expecting_success(self.request(Method::GET, path).query(query)).await
    }

    /// Sends a GET request and returns the bytes of the body.
    pub(super) async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let response = self.stream(self.request(Method::GET, path)).await?;
        response.bytes().await.map(Vec::from).map_err(|error| self.unreachable(&error))
    }

    /// Sends a GET request and returns the response even if its status is an error.
    pub(super) async fn probe(&self, path: &str) -> Result<ApiResponse, Failure> {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a POST request.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<ApiResponse, Failure> {
        self.send_expecting_success(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a POST request with a body of the given content type and returns the response as a stream.
    pub(super) async fn post_body(
        &self,
        path: &str,
        query: &[(&str, String)],
        content_type: &'static str,
        text: Vec<u8>,
    ) -> Result<Response, Failure> {
        self.stream(self.request(Method::POST, path).query(query).header(CONTENT_TYPE, content_type).body(text)).await
    }

    /// Sends a POST request that calls a tool or continues a run, with a long timeout.
    pub(super) async fn call(&self, path: &str, body: &Value) -> Result<ApiResponse, Failure> {
        self.send_expecting_success(self.request(Method::POST, path).json(body).timeout(CALL_TIMEOUT)).await
    }

    /// Calls a tool with a correlation id.
    pub(super) async fn call_correlated(&self, path: &str, body: &Value, id: &str) -> Result<ApiResponse, Failure> {
        let request = self.request(Method::POST, path).header("x-correlation-id", id).json(body);
        self.send_expecting_success(request.timeout(CALL_TIMEOUT)).await
    }

    /// Sends a PUT request. If `revision` is present, the server rejects the request unless it is the current revision.
    pub(super) async fn put(&self, path: &str, body: &Value, revision: Option<i64>) -> Result<ApiResponse, Failure> {
        let mut request = self.request(Method::PUT, path).json(body);
        if let Some(revision) = revision {
            request = request.header(IF_MATCH, format!("\"{revision}\""));
        }
        self.send_expecting_success(request).await
    }

    /// Sends a PATCH request.
    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<ApiResponse, Failure> {
        self.send_expecting_success(self.request(Method::PATCH, path).json(body)).await
    }

    /// Sends a POST request and returns the response as a stream.
    pub(super) async fn post_stream(&self, path: &str, body: &Value) -> Result<Response, Failure> {
        self.stream(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a POST request with a correlation id and returns the response as a stream.
    pub(super) async fn post_correlated_stream(&self, path: &str, body: &Value, id: &str) -> Result<Response, Failure> {
        self.stream(self.request(Method::POST, path).header("x-correlation-id", id).json(body)).await
    }

    /// Opens an event stream that starts after `last_event_id`.
    pub(super) async fn get_stream(&self, path: &str, last_event_id: &str) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path);
        if !last_event_id.is_empty() {
            request = request.header("last-event-id", last_event_id);
        }
        self.stream(request).await
    }

    /// Sends a DELETE request.
    pub(super) async fn delete(&self, path: &str, query: &[(&str, String)]) -> Result<ApiResponse, Failure> {
        self.send_expecting_success(self.request(Method::DELETE, path).query(query)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url))
    }

    async fn stream(&self, request: RequestBuilder) -> Result<Response, Failure> {
        self.spinner.store(false, Ordering::Relaxed);
        // The request has no timeout, because a run may wait indefinitely for an approval.
        let response = request.timeout(Duration::MAX).send().await.map_err(|error| self.unreachable(&error))?;
        let (status, url) = (response.status().as_u16(), response.url().to_string());
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        Err(self.refused(status, text, &url))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Unreachable { url: self.base_url.clone(), cause: root_cause(error) }
    }

    async fn send_expecting_success(&self, request: RequestBuilder) -> Result<ApiResponse, Failure> {
        let response = self.send(request).await?;
        match response.status {
            200..=299 => Ok(response),
            status => Err(self.refused(status, response.text, &response.url)),
        }
    }

    fn refused(&self, status: u16, text: String, url: &str) -> Failure {
        let requested = url.strip_prefix(&self.base_url).and_then(requested_definition);
        let mut refusal = Refusal::parse(status, text, &self.base_url);
        refusal.requested = requested;
        Failure::Refused(Box::new(refusal))
    }

    async fn send(&self, request: RequestBuilder) -> Result<ApiResponse, Failure> {
        spinner::during(self.spinner.load(Ordering::Relaxed), self.exchange(request)).await
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<ApiResponse, Failure> {
        let failed = |error: reqwest::Error| self.unreachable(&error);
        let response = request.send().await.map_err(failed)?;
        let (url, status) = (response.url().to_string(), response.status().as_u16());
        let headers = response.headers().clone();
        let text = response.text().await.map_err(failed)?;
        Ok(ApiResponse { url, status, headers, text })
    }
}

/// Returns the collection and the name of the definition that a path addresses.
fn requested_definition(path: &str) -> Option<(&'static str, String)> {
    const COLLECTIONS: [&str; 11] = [
        TOOLS,
        AGENTS,
        AGENTIC_TOOLS,
        PROVIDERS,
        FRAGMENTS,
        TYPES,
        WORKFLOWS,
        STEP_REGISTRATIONS,
        CONDITION_BINDINGS,
        TRIGGERS,
        WEBHOOKS,
    ];
    COLLECTIONS.into_iter().find_map(|collection| {
        let rest = path.strip_prefix(collection)?.strip_prefix('/')?;
        let name = rest.split(['/', '?']).next()?;
        Some((collection, percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned()))
    })
}

/// Returns the path of a resource; the name is encoded as one segment.
pub(super) fn path(collection: &str, name: &str) -> String {
    format!("{collection}/{}", encode_segment(name))
}

/// Parses a resource name. `.` and `..` are rejected, because URL parsers resolve them even if they are
/// percent-encoded.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("must not be empty".into()),
        "." | ".." => Err(format!("`{text}` is not a valid name")),
        _ => Ok(text.to_owned()),
    }
}

impl ApiResponse {
    /// Returns the value of a header, if the header is present and its value is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Deserializes the body.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let unexpected =
            |error: serde_json::Error| Failure::Unexpected { url: self.url.clone(), cause: error.to_string() };
        serde_json::from_str(&self.text).map_err(unexpected)
    }
}

fn client_builder(connection: &Connection, url: &Url) -> Result<reqwest::ClientBuilder, Failure> {
    // This fails if a TLS provider is already installed. The error is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .default_headers(default_headers(connection.api_key.as_ref(), connection.realm.as_deref())?)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("toolwright/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // Plain HTTP needs no system certificates, and containers may not have any.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    Ok(builder)
}

fn build_client(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Failure> {
    builder.build().map_err(|error| Failure::Usage(format!("cannot create an HTTP client: {}", root_cause(&error))))
}

fn base_url(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

fn parse_url(text: &str) -> Result<Url, Failure> {
    let invalid = |why: &str| Failure::Usage(format!("invalid server URL `{text}`: {why}"));
    let url = Url::parse(text).map_err(|error| invalid(&format!("{error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must start with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must not have a query or a fragment"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The message does not repeat the URL, because the URL contains credentials.
        return Err(Failure::Usage(
            "the server URL must not contain credentials; set TOOLWRIGHT_API_KEY instead".into(),
        ));
    }
    Ok(url)
}

fn default_headers(key: Option<&SecretString>, realm: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key.filter(|key| !key.expose_secret().is_empty()) {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| Failure::Usage("the API key contains invalid characters".into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(realm) = realm.filter(|realm| !realm.is_empty()) {
        let value =
            HeaderValue::from_str(realm).map_err(|_| Failure::Usage(format!("`{realm}` is not a valid realm name")))?;
        headers.insert("x-realm", value);
    }
    Ok(headers)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Percent-encodes a name as one path segment.
pub(super) fn encode_segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT_ENCODE_SET).to_string()
}

/// Returns the root cause of a failed request. The outer errors only repeat the URL.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "request timed out".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_name_is_encoded_as_one_path_segment() {
        assert_eq!(path(TOOLS, "hubspot/get-deal"), "/api/v1/ai/tools/hubspot%2Fget-deal");
        assert_eq!(path(TOOLS, "a b?c#d%e"), "/api/v1/ai/tools/a%20b%3Fc%23d%25e");
        assert!(parse_name("..").is_err() && parse_name("").is_err());
    }

    #[test]
    fn unusable_url_is_rejected_and_the_error_hides_its_password() {
        for text in ["localhost:7411", "ftp://host", "http://host/?a=b", "nonsense"] {
            assert!(parse_url(text).is_err(), "{text}");
        }
        let error = parse_url("http://user:hunter2@host").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(parse_url("https://host/behind/a/proxy/").is_ok());
    }

    #[test]
    fn urls_with_loopback_hosts_are_recognized() {
        let loopback = |text: &str| is_loopback(&Url::parse(text).unwrap());
        assert!(loopback("http://127.0.0.1:7411") && loopback("http://[::1]:7411") && loopback("http://localhost"));
        assert!(!loopback("http://10.0.0.1") && !loopback("http://localhost.example"));
    }
}
