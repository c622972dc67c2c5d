//! The HTTP client of tools. It applies the egress rules to every request and redirect, pools connections and limits
//! the size of responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ipnet::IpNet;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use toolwright_budget::{LimitExceeded, MAX_BYTES, MAX_NODES, NodeCounter};
use toolwright_types::{ErrorCode, ToolError};
use url::Url;

use super::egress::{DnsResolver, EgressDenied, EgressPolicy, EgressResolver, SystemDnsResolver};
use super::oauth::TokenCache;
use crate::ToolFailure;

const MAX_REDIRECTS: usize = 5;
/// The maximum length of a URL that the HTTP client can send. A longer URL fails before anything is sent.
const MAX_URL_BYTES: usize = 65_534;

/// Makes HTTP requests for tools. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

/// The options of an [`HttpClient`].
pub struct HttpOptions {
    /// The egress rules of the server.
    pub egress: EgressPolicy,
    /// Resolves host names.
    pub resolver: Arc<dyn DnsResolver>,
    /// Trusted certificate authorities, in addition to those of the machine.
    pub roots: Vec<RootCertificate>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { egress: EgressPolicy::default(), resolver: Arc::new(SystemDnsResolver), roots: Vec::new() }
    }
}

/// A certificate authority.
#[derive(Debug, Clone)]
pub struct RootCertificate(reqwest::Certificate);

/// The error of a PEM bundle that contains no certificate.
#[derive(Debug, thiserror::Error)]
#[error("the text contains no PEM certificates")]
pub struct InvalidCertificates;

impl RootCertificate {
    /// Parses the certificates of a PEM bundle.
    pub fn from_pem(bundle: &[u8]) -> Result<Vec<Self>, InvalidCertificates> {
        let roots = reqwest::Certificate::from_pem_bundle(bundle).map_err(|_| InvalidCertificates)?;
        if roots.is_empty() { Err(InvalidCertificates) } else { Ok(roots.into_iter().map(Self).collect()) }
    }
}

struct Inner {
    options: HttpOptions,
    /// One connection pool for each combination of egress rules and client certificate.
    clients: moka::sync::Cache<PoolKey, reqwest::Client>,
    pub tokens: TokenCache,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    egress: EgressPolicy,
    certificate: Option<[u8; 32]>,
    http2: bool,
}

/// The egress rules and the client certificate of a request.
#[derive(Default)]
pub struct NetworkAccess<'a> {
    /// Networks that are allowed in addition to those that the server allows.
    pub allow: &'a [IpNet],
    /// The client certificate and its key, as PEM.
    pub certificate: Option<&'a SecretString>,
}

/// An HTTP request.
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// Headers that are sent to every host, including the targets of redirects.
    pub headers: HeaderMap,
    /// Headers that are sent only to the origin of `url`, such as credentials.
    pub origin_headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

impl HttpRequest {
    /// Creates a GET request.
    pub fn get(url: Url) -> Self {
        let (headers, origin_headers) = (HeaderMap::new(), HeaderMap::new());
        Self { method: Method::GET, url, headers, origin_headers, body: None }
    }

    pub(crate) fn duplicate(&self) -> Self {
        Self {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            origin_headers: self.origin_headers.clone(),
            body: self.body.clone(),
        }
    }
}

/// Headers that delimit a message or control its connection. Only the HTTP client may set them, because a wrong value
/// would corrupt the next message on the pooled connection.
const CONNECTION_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns an error message if a tool must not set this header.
pub(crate) fn forbidden_header(name: &HeaderName) -> Option<String> {
    CONNECTION_HEADERS
        .contains(&name.as_str())
        .then(|| format!("header `{name}` is set by the HTTP client and cannot be overridden"))
}

/// Returns an error message if a tool must not use this method.
pub(crate) fn forbidden_method(method: &Method) -> Option<String> {
    matches!(*method, Method::CONNECT | Method::TRACE).then(|| format!("method `{method}` is not allowed"))
}

/// A response with its whole body.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
}

impl HttpClient {
    /// Creates a client with these egress rules.
    pub fn new(egress: EgressPolicy) -> Self {
        Self::with_options(HttpOptions { egress, ..HttpOptions::default() })
    }

    /// Creates a client with these options.
    pub fn with_options(options: HttpOptions) -> Self {
        // An error means that a crypto provider is already installed. In that case, the installed provider is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clients = moka::sync::Cache::builder().max_capacity(256).time_to_idle(Duration::from_secs(600)).build();
        Self(Arc::new(Inner { options, clients, tokens: TokenCache::default() }))
    }

    pub(super) fn tokens(&self) -> &TokenCache {
        &self.0.tokens
    }

    /// Sends a request and follows redirects. Each redirect must pass the egress rules.
    pub async fn send(&self, request: HttpRequest, access: &NetworkAccess<'_>) -> Result<HttpResponse, ToolFailure> {
        let headers = request.headers.keys().chain(request.origin_headers.keys());
        if let Some(problem) =
            forbidden_method(&request.method).or_else(|| headers.into_iter().find_map(forbidden_header))
        {
            return Err(ToolFailure::invalid(problem).reason("request"));
        }
        if request.url.as_str().len() > MAX_URL_BYTES {
            let message =
                format!("the URL must have at most {MAX_URL_BYTES} bytes, got {}", request.url.as_str().len());
            return Err(ToolFailure::invalid(message).reason("request"));
        }
        let egress = self.0.options.egress.with_networks(access.allow);
        let origin = request.url.origin();
        let mut hop = request;
        let mut last = None;
        for _ in 0..=MAX_REDIRECTS {
            check_target(&egress, &hop.url)?;
            // A certificate is a credential, so it is sent to the original origin only.
            let client = self.client_for(&egress, access.certificate.filter(|_| hop.url.origin() == origin))?;
            let mut headers = hop.headers.clone();
            headers.extend(hop.origin_headers.clone());
            let mut builder = client.request(hop.method.clone(), hop.url.clone()).headers(headers);
            if let Some(body) = hop.body.clone() {
                builder = builder.body(body);
            }
            let response = builder.send().await.map_err(|error| transport_failure(&error))?;
            let status = response.status().as_u16();
            last = Some(status);
            let with_status = |mut failure: ToolFailure| {
                failure.http_status = Some(status);
                failure
            };
            match redirect(&response, &hop).map_err(with_status)? {
                Some(next) => hop = next,
                None => {
                    return read_response(response).await.map_err(|failure| match failure.error.code {
                        // Only the failure for an invalid response gets the HTTP status. If the connection was lost,
                        // the response is incomplete, and its status is not reported.
                        ErrorCode::ProviderError => with_status(failure),
                        _ => failure,
                    });
                }
            }
        }
        let mut failure = provider_error("redirects", format!("more than {MAX_REDIRECTS} redirects"));
        failure.http_status = last;
        Err(failure)
    }

    /// Returns a `reqwest` client that applies the server's egress rules and follows no redirects. The rules are
    /// checked when a host name is resolved. If the host of a URL is an IP address, the caller must check it with
    /// [`EgressPolicy::check_literal`].
    pub fn raw_client(&self) -> Result<reqwest::Client, ToolFailure> {
        self.client_for(&self.0.options.egress, None)
    }

    /// Returns a `reqwest` client for one URL. It applies the egress rules of the server and of `access`, and follows
    /// no redirects. The URL itself is checked before the client is returned.
    pub fn raw_client_for(&self, url: &Url, access: &NetworkAccess<'_>) -> Result<reqwest::Client, ToolFailure> {
        let egress = self.0.options.egress.with_networks(access.allow);
        check_target(&egress, url)?;
        self.client_for(&egress, access.certificate)
    }

    /// Returns a `reqwest` client without egress rules, for URLs that the operator configured.
    pub fn unrestricted_client(&self) -> Result<reqwest::Client, ToolFailure> {
        self.client_for(&EgressPolicy::unrestricted(), None)
    }

    /// Returns an HTTP/2 client for one URL. It applies the egress rules of the server and of `access`, and follows no
    /// redirects.
    pub fn http2_client(&self, url: &Url, access: &NetworkAccess<'_>) -> Result<reqwest::Client, ToolFailure> {
        let egress = self.0.options.egress.with_networks(access.allow);
        check_target(&egress, url)?;
        self.pooled_client(&egress, access.certificate, true)
    }

    /// Returns the egress rules of the server.
    pub fn egress(&self) -> &EgressPolicy {
        &self.0.options.egress
    }

    fn client_for(
        &self,
        egress: &EgressPolicy,
        certificate: Option<&SecretString>,
    ) -> Result<reqwest::Client, ToolFailure> {
        self.pooled_client(egress, certificate, false)
    }

    fn pooled_client(
        &self,
        egress: &EgressPolicy,
        certificate: Option<&SecretString>,
        http2: bool,
    ) -> Result<reqwest::Client, ToolFailure> {
        let certificate_digest = certificate.map(|pem| digest(pem.expose_secret()));
        let key = PoolKey { egress: egress.clone(), certificate: certificate_digest, http2 };
        let build = || build_client(egress, &self.0.options, certificate, http2);
        self.0.clients.try_get_with(key, build).map_err(|error: Arc<ToolFailure>| (*error).clone())
    }
}

fn digest(text: &str) -> [u8; 32] {
    toolwright_types::json::digest(&serde_json::Value::from(text))
}

fn build_client(
    egress: &EgressPolicy,
    options: &HttpOptions,
    certificate: Option<&SecretString>,
    http2: bool,
) -> Result<reqwest::Client, ToolFailure> {
    let resolver = EgressResolver { resolver: Arc::clone(&options.resolver), egress: egress.clone() };
    let mut builder = reqwest::Client::builder()
        .dns_resolver(Arc::new(resolver))
        .tls_certs_merge(options.roots.iter().map(|root| root.0.clone()))
        // A proxy would resolve host names itself and so bypass the egress rules.
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_nodelay(true)
        .user_agent(concat!("toolwright/", env!("CARGO_PKG_VERSION")));
    if http2 {
        builder = builder.http2_prior_knowledge();
    }
    if let Some(pem) = certificate {
        let identity = reqwest::Identity::from_pem(pem.expose_secret().as_bytes()).map_err(|_| {
            ToolFailure::fatal(
                ErrorCode::AuthRequired,
                "the client certificate is not PEM with a certificate and its private key",
            )
            .reason("client_certificate")
        })?;
        builder = builder.identity(identity);
    }
    builder
        .build()
        .map_err(|error| ToolFailure::fatal(ErrorCode::Unknown, format!("cannot create an HTTP client: {error}")))
}

fn check_target(egress: &EgressPolicy, url: &Url) -> Result<(), ToolFailure> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(egress_denied(format!("scheme must be http or https, got `{}`", url.scheme())));
    }
    egress.check_literal(url).map_err(|refused| egress_denied(refused.to_string()))
}

/// Returns the request that a redirect asks for, or `None` if the response is not a redirect.
fn redirect(response: &reqwest::Response, hop: &HttpRequest) -> Result<Option<HttpRequest>, ToolFailure> {
    let status = response.status();
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = response.headers().get(LOCATION).filter(|_| redirects) else {
        return Ok(None);
    };
    let url = location
        .to_str()
        .ok()
        .and_then(|text| hop.url.join(text).ok())
        .ok_or_else(|| provider_error("redirects", "the location of a redirect is not a valid URL".into()))?;
    let same_origin = url.origin() == hop.url.origin();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
        || matches!(hop.method, Method::GET | Method::HEAD);
    if keeps_method && !same_origin && hop.body.is_some() {
        return Err(provider_error("redirects", "a redirect would send the body to another host".into()));
    }
    let mut headers = hop.headers.clone();
    if !same_origin {
        headers.remove(AUTHORIZATION);
        headers.remove(COOKIE);
    }
    if !keeps_method {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
    }
    Ok(Some(HttpRequest {
        method: if keeps_method { hop.method.clone() } else { Method::GET },
        url,
        headers,
        origin_headers: if same_origin { hop.origin_headers.clone() } else { HeaderMap::new() },
        body: if keeps_method { hop.body.clone() } else { None },
    }))
}

async fn read_response(mut response: reqwest::Response) -> Result<HttpResponse, ToolFailure> {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = BytesMut::new();
    let mut counter = is_json(&headers).then(NodeCounter::default);
    let mut counted = 0;
    while let Some(chunk) = response.chunk().await.map_err(|error| transport_failure(&error))? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(over_limit(LimitExceeded::Bytes));
        }
        body.extend_from_slice(&chunk);
        // A document below this size cannot have too many nodes. The nodes of a larger document are counted while it is
        // decompressed.
        if let Some(counter) = counter.as_mut().filter(|_| body.len() / 2 > MAX_NODES) {
            counter.add(body.get(counted..).unwrap_or_default()).map_err(over_limit)?;
            counted = body.len();
        }
        // Decompressed chunks are ready at once. Without this call, the task would not yield, and its timeout would not
        // be checked.
        tokio::task::coop::consume_budget().await;
    }
    Ok(HttpResponse { status, headers, body: body.freeze() })
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.to_ascii_lowercase().contains("json")
}

/// The failure of a response that exceeds the budget for foreign data.
pub(crate) fn over_limit(limit: LimitExceeded) -> ToolFailure {
    provider_error("response_too_large", limit.to_string())
}

fn provider_error(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::ProviderError, message).reason(reason)
}

fn egress_denied(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("egress")
}

/// Interprets a TLS error in which one side rejected the other's certificate. Only the message is available, because
/// HTTP/2 drops the typed error.
fn trust_failure(cause: &str) -> Option<ToolFailure> {
    if let Some(why) = cause.strip_prefix("invalid peer certificate: ") {
        let message = format!(
            "the server's certificate is not trusted: {why}; add its authority to those of this \
             machine, or name it in SSL_CERT_FILE when you start the server"
        );
        return Some(ToolFailure::fatal(ErrorCode::NetworkError, message).reason("certificate"));
    }
    let alert = cause.split_once("received fatal alert: ").map(|(_, alert)| alert)?;
    // If the server sends an alert about a certificate, it has rejected the client's certificate.
    ["Certificate", "UnknownCA", "AccessDenied", "DecryptError"].iter().any(|word| alert.contains(word)).then(|| {
        let message =
            format!("the server rejected the client certificate ({alert}); set `auth.certRef` of the provider");
        ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("client_certificate")
    })
}

/// Converts the error of a request that got no response or an incomplete one. Leaves out the URL, because it may
/// contain secrets.
pub fn transport_failure(error: &reqwest::Error) -> ToolFailure {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    if let Some(refused) = causes.clone().find_map(|cause| cause.downcast_ref::<EgressDenied>()) {
        return egress_denied(refused.to_string());
    }
    if error.is_timeout() && !error.is_connect() {
        return ToolError::new(ErrorCode::Timeout, "the connection timed out").reason("connect").into();
    }
    // reqwest reports every failure while reading a body as a decode error. If the source of that error is an I/O
    // error, decompression failed. Otherwise the connection was lost.
    let first = std::error::Error::source(error);
    if error.is_decode() && first.is_some_and(|cause| cause.is::<std::io::Error>()) {
        return provider_error("unreadable_body", "the response body cannot be decoded".into());
    }
    let cause = causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string);
    if let Some(failure) = trust_failure(&cause) {
        return failure;
    }
    let reason = if error.is_connect() { "connect" } else { "connection_lost" };
    // HTTP/2 does not always report why a connection ended before its first request. These two messages are therefore
    // replaced with the most likely cause.
    let cause = match cause.as_str() {
        "connection was not ready" | "connection closed" => {
            "the server closed the connection immediately; it may require a client certificate (`auth.certRef` of the \
            provider)"
        }
        cause => cause,
    };
    ToolError::new(ErrorCode::NetworkError, format!("no response: {cause}")).reason(reason).into()
}
