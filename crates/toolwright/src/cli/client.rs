//! Requests to the server and their answers. Knows nothing of commands.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, IF_MATCH};
use reqwest::{Method, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Connection;
use super::failure::{Failure, Problem};

/// Where tools are.
pub const TOOLS: &str = "/api/v1/ai/tools";
/// Where providers are.
pub const PROVIDERS: &str = "/api/v1/ai/tool-providers";
/// Where agents are.
pub const AGENTS: &str = "/api/v1/ai/agents";
/// Where prompt fragments are.
pub const FRAGMENTS: &str = "/api/v1/ai/prompt-fragments";
/// Where types of records are.
pub const TYPES: &str = "/api/v1/ai/types";
/// Where records are.
pub const QUERY: &str = "/api/query";
/// Where runs are.
pub const RUNS: &str = "/api/v1/ai/runs";
/// Where trials are.
pub const TRIALS: &str = "/api/v1/ai/trials";
/// Where calls are that wait for a decision.
pub const APPROVALS: &str = "/api/v1/ai/approvals";
/// Findings of drift.
pub const DRIFT: &str = "/api/v1/ai/drift";
/// Where conversations are.
pub const CONVERSATIONS: &str = "/api/v1/ai/conversations";
/// Where secrets are.
pub const SECRETS: &str = "/api/v1/ai/secrets";
/// Where keys are.
pub const KEYS: &str = "/api/v1/ai/keys";

/// How long an answer about definitions, secrets and keys may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call ends by the tool's own deadline and a run by the agent's; this only catches a connection that died silently.
const CALL_PATIENCE: Duration = Duration::from_secs(3600);

/// What stays as it is in a path segment; `/` does not.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A connection to one server, as one caller.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// An answer of the server, whatever its status.
pub struct Answer {
    /// Where it came from.
    pub url: String,
    /// The status.
    pub status: u16,
    /// The `Date` header.
    pub date: Option<String>,
    /// The body, as it came.
    pub text: String,
}

impl Client {
    /// A client for the connection that the command line describes.
    pub fn new(connection: &Connection) -> Result<Self, Failure> {
        let url = parse_url(&connection.url)?;
        let http = build(builder(connection, &url)?.timeout(PATIENCE))?;
        Ok(Self { http, base: base(&url) })
    }

    /// The same for what may take as long as it likes, and the server's address.
    pub fn for_streams(connection: &Connection) -> Result<(reqwest::Client, String), Failure> {
        let url = parse_url(&connection.url)?;
        Ok((build(builder(connection, &url)?)?, base(&url)))
    }

    /// The server's address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Reads.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, Failure> {
        self.success(self.request(Method::GET, path).query(query)).await
    }

    /// Reads, whatever the status of the answer.
    pub async fn probe(&self, path: &str) -> Result<Answer, Failure> {
        self.answer(self.request(Method::GET, path)).await
    }

    /// Creates.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.success(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a text of this kind, and reads the answer while it is written.
    pub async fn send_text(
        &self,
        path: &str,
        query: &[(&str, String)],
        kind: &'static str,
        text: Vec<u8>,
    ) -> Result<Response, Failure> {
        self.stream(self.request(Method::POST, path).query(query).header(CONTENT_TYPE, kind).body(text)).await
    }

    /// Calls a tool or lets a run go on, which may take long.
    pub async fn call(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.success(self.request(Method::POST, path).json(body).timeout(CALL_PATIENCE)).await
    }

    /// Replaces, only what is at this revision if one is given.
    pub async fn put(&self, path: &str, body: &Value, revision: Option<i64>) -> Result<Answer, Failure> {
        let mut request = self.request(Method::PUT, path).json(body);
        if let Some(revision) = revision {
            request = request.header(IF_MATCH, format!("\"{revision}\""));
        }
        self.success(request).await
    }

    /// Changes some fields.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.success(self.request(Method::PATCH, path).json(body)).await
    }

    /// Posts, and reads the answer while it is written.
    pub async fn post_stream(&self, path: &str, body: &Value) -> Result<Response, Failure> {
        self.stream(self.request(Method::POST, path).json(body)).await
    }

    /// Reads what happens from after an event on, while it happens.
    pub async fn get_stream(&self, path: &str, last_event: &str) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path);
        if !last_event.is_empty() {
            request = request.header("last-event-id", last_event);
        }
        self.stream(request).await
    }

    /// Removes.
    pub async fn delete(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, Failure> {
        self.success(self.request(Method::DELETE, path).query(query)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    async fn stream(&self, request: RequestBuilder) -> Result<Response, Failure> {
        // It may stay open for as long as somebody thinks about an approval.
        let response = request.timeout(Duration::MAX).send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        Err(Failure::Refused(Box::new(Problem::read(status, text, &self.base))))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Unreachable { url: self.base.clone(), cause: innermost(error) }
    }

    async fn success(&self, request: RequestBuilder) -> Result<Answer, Failure> {
        let answer = self.answer(request).await?;
        match answer.status {
            200..=299 => Ok(answer),
            status => Err(Failure::Refused(Box::new(Problem::read(status, answer.text, &self.base)))),
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Answer, Failure> {
        let failed = |error: reqwest::Error| self.unreachable(&error);
        let response = request.send().await.map_err(failed)?;
        let (url, status) = (response.url().to_string(), response.status().as_u16());
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        let text = response.text().await.map_err(failed)?;
        Ok(Answer { url, status, date, text })
    }
}

/// The address of something by its name, which becomes one segment of the path.
pub fn path(collection: &str, name: &str) -> String {
    format!("{collection}/{}", segment(name))
}

/// A name for a path. `.` and `..` would be taken for directions by every URL parser, however they are written.
pub fn parse_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a name is not empty".into()),
        "." | ".." => Err(format!("`{text}` is no name")),
        _ => Ok(text.to_owned()),
    }
}

impl Answer {
    /// The body as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let unexpected =
            |error: serde_json::Error| Failure::Unexpected { url: self.url.clone(), cause: error.to_string() };
        serde_json::from_str(&self.text).map_err(unexpected)
    }
}

fn builder(connection: &Connection, url: &Url) -> Result<reqwest::ClientBuilder, Failure> {
    // The default provider may have been installed by someone else; one is as good as the other.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .default_headers(headers(connection.api_key.as_ref(), connection.realm.as_deref())?)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("toolwright/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // Without TLS no certificate of the system is needed, and a container may have none.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    Ok(builder)
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Failure> {
    builder.build().map_err(|error| Failure::Usage(format!("no HTTP client: {}", innermost(&error))))
}

fn base(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

fn parse_url(text: &str) -> Result<Url, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("the server's URL `{text}` {why}"));
    let url = Url::parse(text).map_err(|error| wrong(&format!("cannot be used: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("does not begin with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must end with the path"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated: it holds a password.
        return Err(Failure::Usage(
            "the server's URL must hold no credentials; the key goes into TOOLWRIGHT_API_KEY".into(),
        ));
    }
    Ok(url)
}

fn headers(key: Option<&SecretString>, realm: Option<&str>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key.filter(|key| !key.expose_secret().is_empty()) {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
            .map_err(|_| Failure::Usage("the API key has characters that no key has".into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(realm) = realm.filter(|realm| !realm.is_empty()) {
        let value =
            HeaderValue::from_str(realm).map_err(|_| Failure::Usage(format!("`{realm}` is no realm's name")))?;
        headers.insert("x-realm", value);
    }
    Ok(headers)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// The cause of a failed request is at the bottom of its chain; what is above only repeats the URL.
pub fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_one_segment() {
        assert_eq!(path(TOOLS, "hubspot/get-deal"), "/api/v1/ai/tools/hubspot%2Fget-deal");
        assert_eq!(path(TOOLS, "a b?c#d%e"), "/api/v1/ai/tools/a%20b%3Fc%23d%25e");
        assert!(parse_name("..").is_err() && parse_name("").is_err());
    }

    #[test]
    fn urls_that_cannot_work_are_refused() {
        for text in ["localhost:7411", "ftp://host", "http://host/?a=b", "nonsense"] {
            assert!(parse_url(text).is_err(), "{text}");
        }
        let error = parse_url("http://user:hunter2@host").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(parse_url("https://host/behind/a/proxy/").is_ok());
    }

    #[test]
    fn loopback_is_recognised() {
        let loopback = |text: &str| is_loopback(&Url::parse(text).unwrap());
        assert!(loopback("http://127.0.0.1:7411") && loopback("http://[::1]:7411") && loopback("http://localhost"));
        assert!(!loopback("http://10.0.0.1") && !loopback("http://localhost.example"));
    }
}
