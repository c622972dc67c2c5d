//! HTTP under the egress rules: pooled connections, bounded bodies, redirects checked one by one.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ipnet::IpNet;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, LOCATION};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use toolwright_types::{ErrorCode, ToolError};
use url::Url;

use super::egress::{Egress, GuardedResolver, Lookup, Refused, SystemLookup};
use super::oauth::Tokens;
use crate::ToolFailure;

/// More than this is not read from an answer.
const LARGEST_BODY: usize = 64 << 20;
const MOST_REDIRECTS: usize = 5;

/// Makes HTTP requests for tools. Cheap to clone; connections are shared by all clones.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

/// What a client is made of.
pub struct HttpOptions {
    /// The rules of the whole server.
    pub egress: Egress,
    /// What resolves names.
    pub lookup: Arc<dyn Lookup>,
    /// Certificate authorities that are trusted beside the machine's own.
    pub roots: Vec<Root>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { egress: Egress::default(), lookup: Arc::new(SystemLookup), roots: Vec::new() }
    }
}

/// A certificate authority.
#[derive(Debug, Clone)]
pub struct Root(reqwest::Certificate);

/// A text that holds no certificate authorities.
#[derive(Debug, thiserror::Error)]
#[error("the text holds no certificates in PEM")]
pub struct InvalidRoots;

impl Root {
    /// The authorities of a PEM bundle.
    pub fn from_pem(bundle: &[u8]) -> Result<Vec<Self>, InvalidRoots> {
        let roots = reqwest::Certificate::from_pem_bundle(bundle).map_err(|_| InvalidRoots)?;
        if roots.is_empty() { Err(InvalidRoots) } else { Ok(roots.into_iter().map(Self).collect()) }
    }
}

struct Inner {
    options: HttpOptions,
    /// One pool of connections for each set of rules and client certificate.
    clients: moka::sync::Cache<PoolKey, reqwest::Client>,
    pub tokens: Tokens,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    egress: Egress,
    certificate: Option<[u8; 32]>,
    http2: bool,
}

/// Under which rules and as whom a request is made.
#[derive(Default)]
pub struct Access<'a> {
    /// Networks allowed on top of the server's.
    pub allow: &'a [IpNet],
    /// A client certificate and its key, as PEM.
    pub certificate: Option<&'a SecretString>,
}

/// A request to be made.
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// The headers that go to any host.
    pub headers: HeaderMap,
    /// The headers that go to this origin only, credentials above all.
    pub origin_headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

impl HttpRequest {
    /// A request for what is at a URL.
    pub fn get(url: Url) -> Self {
        let (headers, origin_headers) = (HeaderMap::new(), HeaderMap::new());
        Self { method: Method::GET, url, headers, origin_headers, body: None }
    }

    pub(super) fn duplicate(&self) -> Self {
        Self {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            origin_headers: self.origin_headers.clone(),
            body: self.body.clone(),
        }
    }
}

/// Headers that say how a message is framed, or concern one connection only. They are the client's to set: a wrong one
/// would leave the connection, which others use after, in the middle of a message.
const FRAMING: [&str; 11] = [
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

/// What is wrong with sending this header, if anything.
pub(crate) fn refused_header(name: &HeaderName) -> Option<String> {
    FRAMING.contains(&name.as_str()).then(|| format!("header `{name}` is set by the connection itself"))
}

/// What is wrong with sending this method, if anything.
pub(crate) fn refused_method(method: &Method) -> Option<String> {
    matches!(*method, Method::CONNECT | Method::TRACE).then(|| format!("method `{method}` is not for tools"))
}

/// An answer, read to its end.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
}

impl HttpClient {
    /// A client under these rules.
    pub fn new(egress: Egress) -> Self {
        Self::with_options(HttpOptions { egress, ..HttpOptions::default() })
    }

    /// A client that resolves names through `lookup`.
    pub fn with_lookup(egress: Egress, lookup: Arc<dyn Lookup>) -> Self {
        Self::with_options(HttpOptions { egress, lookup, ..HttpOptions::default() })
    }

    /// A client made to measure.
    pub fn with_options(options: HttpOptions) -> Self {
        // The second caller finds the provider installed, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clients = moka::sync::Cache::builder().max_capacity(256).time_to_idle(Duration::from_secs(600)).build();
        Self(Arc::new(Inner { options, clients, tokens: Tokens::default() }))
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    /// Makes a request and follows redirects, each of which must pass the rules anew.
    pub async fn send(&self, request: HttpRequest, access: &Access<'_>) -> Result<HttpResponse, ToolFailure> {
        let headers = request.headers.keys().chain(request.origin_headers.keys());
        if let Some(problem) = refused_method(&request.method).or_else(|| headers.into_iter().find_map(refused_header))
        {
            return Err(ToolFailure::invalid(problem).reason("request"));
        }
        let egress = self.0.options.egress.and(access.allow);
        let origin = request.url.origin();
        let mut hop = request;
        let mut last = None;
        for _ in 0..=MOST_REDIRECTS {
            check_target(&egress, &hop.url)?;
            // A certificate is a credential like any other: for the origin that was asked for.
            let client = self.pool(&egress, access.certificate.filter(|_| hop.url.origin() == origin))?;
            let mut headers = hop.headers.clone();
            headers.extend(hop.origin_headers.clone());
            let mut builder = client.request(hop.method.clone(), hop.url.clone()).headers(headers);
            if let Some(body) = hop.body.clone() {
                builder = builder.body(body);
            }
            let response = builder.send().await.map_err(|error| failure(&error))?;
            let status = response.status().as_u16();
            last = Some(status);
            let answered = |mut failure: ToolFailure| {
                failure.http_status = Some(status);
                failure
            };
            match redirect(&response, &hop).map_err(answered)? {
                Some(next) => hop = next,
                None => {
                    return read(response).await.map_err(|failure| match failure.error.code {
                        // What came was no good; what did not come is the network's matter.
                        ErrorCode::ProviderError => answered(failure),
                        _ => failure,
                    });
                }
            }
        }
        let mut failure = provider("redirects", format!("more than {MOST_REDIRECTS} redirects"));
        failure.http_status = last;
        Err(failure)
    }

    /// A plain client under the server's rules that follows no redirects. Its user checks addresses that are written
    /// as numbers by [`Egress::check_literal`]: they never reach a resolver.
    pub fn plain(&self) -> Result<reqwest::Client, ToolFailure> {
        self.pool(&self.0.options.egress, None)
    }

    /// A plain client for one address under the server's rules and those of `access`, which follows no redirects. The
    /// address itself has been checked.
    pub fn guarded(&self, url: &Url, access: &Access<'_>) -> Result<reqwest::Client, ToolFailure> {
        let egress = self.0.options.egress.and(access.allow);
        check_target(&egress, url)?;
        self.pool(&egress, access.certificate)
    }

    /// The same without rules, for addresses that the operator has set.
    pub fn unguarded(&self) -> Result<reqwest::Client, ToolFailure> {
        self.pool(&Egress::everything(), None)
    }

    /// A client for a protocol over HTTP/2, under the same rules as every request: for this address, and for no redirects.
    pub fn http2(&self, url: &Url, access: &Access<'_>) -> Result<reqwest::Client, ToolFailure> {
        let egress = self.0.options.egress.and(access.allow);
        check_target(&egress, url)?;
        self.pooled(&egress, access.certificate, true)
    }

    /// The rules of the whole server.
    pub fn egress(&self) -> &Egress {
        &self.0.options.egress
    }

    fn pool(&self, egress: &Egress, certificate: Option<&SecretString>) -> Result<reqwest::Client, ToolFailure> {
        self.pooled(egress, certificate, false)
    }

    fn pooled(
        &self,
        egress: &Egress,
        certificate: Option<&SecretString>,
        http2: bool,
    ) -> Result<reqwest::Client, ToolFailure> {
        let certified = certificate.map(|pem| digest(pem.expose_secret()));
        let key = PoolKey { egress: egress.clone(), certificate: certified, http2 };
        let build = || build(egress, &self.0.options, certificate, http2);
        self.0.clients.try_get_with(key, build).map_err(|error: Arc<ToolFailure>| (*error).clone())
    }
}

fn digest(text: &str) -> [u8; 32] {
    toolwright_types::json::digest(&serde_json::Value::from(text))
}

fn build(
    egress: &Egress,
    options: &HttpOptions,
    certificate: Option<&SecretString>,
    http2: bool,
) -> Result<reqwest::Client, ToolFailure> {
    let resolver = GuardedResolver { lookup: Arc::clone(&options.lookup), egress: egress.clone() };
    let mut builder = reqwest::Client::builder()
        .dns_resolver(Arc::new(resolver))
        .tls_certs_merge(options.roots.iter().map(|root| root.0.clone()))
        // A proxy would resolve names for us, beyond the rules.
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
    builder.build().map_err(|error| ToolFailure::fatal(ErrorCode::Unknown, format!("no HTTP client: {error}")))
}

fn check_target(egress: &Egress, url: &Url) -> Result<(), ToolFailure> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(egress_denied(format!("`{}` is not http or https", url.scheme())));
    }
    egress.check_literal(url).map_err(|refused| egress_denied(refused.to_string()))
}

/// The request that a redirect asks for; None when the answer is none.
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
        .ok_or_else(|| provider("redirects", "a redirect leads to no URL".into()))?;
    let same_origin = url.origin() == hop.url.origin();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
        || matches!(hop.method, Method::GET | Method::HEAD);
    if keeps_method && !same_origin && hop.body.is_some() {
        return Err(provider("redirects", "a redirect would send the body to another host".into()));
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

async fn read(mut response: reqwest::Response) -> Result<HttpResponse, ToolFailure> {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
        if body.len() + chunk.len() > LARGEST_BODY {
            return Err(provider("response_too_large", format!("the answer has more than {LARGEST_BODY} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(HttpResponse { status, headers, body: body.freeze() })
}

fn provider(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::ProviderError, message).reason(reason)
}

fn egress_denied(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("egress")
}

/// What it means that one side did not trust the other. It is known by its words: on the way through HTTP/2 nothing else
/// is left of it.
fn not_trusted(cause: &str) -> Option<ToolFailure> {
    if let Some(why) = cause.strip_prefix("invalid peer certificate: ") {
        let message = format!(
            "the server's certificate is not trusted: {why}; an authority of your own is added to those of this machine, or \
             named in SSL_CERT_FILE where the server is started"
        );
        return Some(ToolFailure::fatal(ErrorCode::NetworkError, message).reason("certificate"));
    }
    let alert = cause.split_once("received fatal alert: ").map(|(_, alert)| alert)?;
    // Whatever a server says of certificates is about ours.
    ["Certificate", "UnknownCA", "AccessDenied", "DecryptError"].iter().any(|word| alert.contains(word)).then(|| {
        let message =
            format!("the server wants another client certificate ({alert}); set `auth.certRef` of the provider");
        ToolFailure::fatal(ErrorCode::AuthRequired, message).reason("client_certificate")
    })
}

/// What a request that got no answer means. The URL is left out: it may hold what the log must not.
pub fn failure(error: &reqwest::Error) -> ToolFailure {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    if let Some(refused) = causes.clone().find_map(|cause| cause.downcast_ref::<Refused>()) {
        return egress_denied(refused.to_string());
    }
    if error.is_timeout() && !error.is_connect() {
        return ToolError::new(ErrorCode::Timeout, "the connection timed out").reason("connect").into();
    }
    // reqwest calls every failure while reading a body one of decoding; what failed to decompress is an error of ours to
    // begin with, what failed to arrive is one of the connection.
    let first = std::error::Error::source(error);
    if error.is_decode() && first.is_some_and(|cause| cause.is::<std::io::Error>()) {
        return provider("unreadable_body", "the answer's body cannot be decoded".into());
    }
    let cause = causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string);
    if let Some(failure) = not_trusted(&cause) {
        return failure;
    }
    let reason = if error.is_connect() { "connect" } else { "connection_lost" };
    // HTTP/2 does not always learn why its connection ended before there was a request on it.
    let cause = match cause.as_str() {
        "connection was not ready" | "connection closed" => {
            "the server ended the connection at once, as one does that wants a client \
            certificate and gets none (`auth.certRef` of the provider)"
        }
        cause => cause,
    };
    ToolError::new(ErrorCode::NetworkError, format!("no answer: {cause}")).reason(reason).into()
}
