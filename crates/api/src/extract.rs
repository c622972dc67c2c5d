//! Extractors for the session, body, path, query and revision of a request. An extractor that fails returns a problem
//! document.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, IF_MATCH};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolwright_catalog::Session;
use toolwright_catalog::identity::KeyWatch;
use toolwright_catalog::registry::WriteOrigin;
use toolwright_types::{CorrelationId, DefinitionSource, RefName, closest_name, field_names};

use crate::browser;
use crate::problem::{Code, Problem};
use crate::request_log::SessionSlot;
use crate::state::AppState;

/// The maximum time to receive a body. Without this limit, a slow client could keep its connection open forever.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The session of the principal that sent the request, in the requested realm.
pub(crate) struct Caller(pub Session);

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        let credential = credential(parts)?;
        let realm = match parts.headers.get("x-realm") {
            Some(name) => {
                Some(name.to_str().map_err(|_| Problem::invalid("X-Realm", "must be the name of a realm, in ASCII"))?)
            }
            None => None,
        };
        let mut session = match credential {
            Credential::Key(key) => engine.identity.authenticate(key, realm).await?,
            Credential::Cookie(cookie) => engine.identity.authenticate_browser(cookie, realm).await?,
        };
        session.correlation = parts.extensions.get::<CorrelationId>().cloned();
        if let Some(slot) = parts.extensions.get::<SessionSlot>() {
            slot.set(&session);
        }
        Ok(Self(session))
    }
}

/// The API key or browser session of the request, for responses that must end when it is revoked.
pub(crate) struct CallerKey(pub KeyWatch);

impl FromRequestParts<AppState> for CallerKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        Ok(Self(match credential(parts)? {
            Credential::Key(key) => engine.identity.watch_key(key),
            Credential::Cookie(cookie) => engine.identity.watch_browser(cookie),
        }))
    }
}

/// What a request authenticates itself with.
enum Credential<'p> {
    Key(&'p str),
    Cookie(&'p str),
}

/// Returns the API key of the `Authorization` header, or else the cookie of a browser that is logged in. A browser sends
/// its cookie also with requests that other pages cause, so such a request must prove that it comes from the UI.
fn credential(parts: &Parts) -> Result<Credential<'_>, Problem> {
    if !parts.headers.contains_key(AUTHORIZATION)
        && let Some(cookie) = browser::session_cookie(parts)
    {
        browser::check_origin(&parts.method, &parts.headers)?;
        return Ok(Credential::Cookie(cookie));
    }
    bearer_key(&parts.headers).map(Credential::Key)
}

/// Returns the API key in the `Authorization` header.
fn bearer_key(headers: &HeaderMap) -> Result<&str, Problem> {
    let parsed = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
    let key = parsed.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
    let missing = "an API key is required; send it as `Authorization: Bearer KEY`";
    key.ok_or_else(|| Problem::new(Code::Unauthenticated, missing))
}

/// A JSON body. Syntax errors and invalid fields have different codes, and errors name the field.
pub(crate) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &AppState) -> Result<Self, Problem> {
        parse_json(&read_body(request, engine, crate::MAX_BODY_BYTES).await?).map(Self)
    }
}

/// A JSON body that may be absent. An absent body is an empty object.
pub(crate) struct OptionalJsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &AppState) -> Result<Self, Problem> {
        let body = read_body(request, engine, crate::MAX_BODY_BYTES).await?;
        parse_json(if body.is_empty() { b"{}" } else { &body }).map(Self)
    }
}

/// A JSON body that may contain a whole document. Its size limit is [`crate::MAX_DOCUMENT_BYTES`], which the route must
/// also allow.
pub(crate) struct LargeJsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for LargeJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &AppState) -> Result<Self, Problem> {
        parse_json(&read_body(request, engine, crate::MAX_DOCUMENT_BYTES).await?).map(Self)
    }
}

/// Rejects a write with the parameter `version`. Writes do not use this parameter, so the write would change another
/// version than the client expects.
pub(crate) fn refuse_version_parameter(query: Option<&str>) -> Result<(), Problem> {
    let mut names = query.unwrap_or_default().split('&').filter_map(|pair| pair.split('=').next());
    match names.any(|name| name == "version") {
        true => Err(Problem::invalid(
            "version",
            "is not a parameter of a write; name the version in the body. A delete removes all versions",
        )),
        false => Ok(()),
    }
}

/// The parameters of a write of a definition.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteParams {
    apply_set: Option<RefName>,
    version: Option<String>,
}

impl WriteParams {
    /// Returns the origin of a definition that a client writes. Refuses the parameter `version`.
    pub(crate) fn origin(self) -> Result<WriteOrigin, Problem> {
        refuse_version_parameter(self.version.map(|_| "version"))?;
        let apply_set = self.apply_set.map(|name| name.to_string());
        Ok(WriteOrigin { source: DefinitionSource::Manual, apply_set })
    }
}

/// Parses a JSON body.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Every body must be an object. Without this check, serde would also accept a list that contains the fields in
    // order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(Problem::new(Code::InvalidRequest, "the body must be a JSON object, got a list"));
    }
    toolwright_budget::check(bytes).map_err(|limit| Problem::new(Code::PayloadTooLarge, limit.to_string()))?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner();
        if inner.is_data() {
            Problem::invalid(&toolwright_catalog::registry::json_pointer(error.path()), inner.to_string())
        } else {
            Problem::new(Code::InvalidJson, inner.to_string())
        }
    })?;
    reader.end().map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    Ok(parsed)
}

/// The raw bytes of a body.
pub(crate) struct RawBody(pub Bytes);

impl FromRequest<AppState> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &AppState) -> Result<Self, Problem> {
        read_body(request, engine, crate::MAX_BODY_BYTES).await.map(Self)
    }
}

/// Reads a whole body.
pub(crate) async fn read_body(request: Request, engine: &AppState, max_bytes: usize) -> Result<Bytes, Problem> {
    let reading = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, engine));
    let timed_out = |_| {
        Problem::new(Code::InvalidRequest, format!("the body must arrive within {} seconds", BODY_TIMEOUT.as_secs()))
    };
    reading.await.map_err(timed_out)?.map_err(|rejection| body_problem(&rejection, max_bytes))
}

fn body_problem(rejection: &BytesRejection, max_bytes: usize) -> Problem {
    if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        Problem::new(Code::PayloadTooLarge, format!("the body must have at most {max_bytes} bytes"))
    } else {
        Problem::new(Code::InvalidRequest, "the body could not be read")
    }
}

/// The query parameters. If `T` is a struct, all other parameters are rejected.
pub(crate) struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        let known = field_names::<T>();
        if !known.is_empty() {
            check_param_names(&param_names(parts), known)?;
        }
        let Query(parameters) = Query::<T>::from_request_parts(parts, engine)
            .await
            .map_err(|error| Problem::new(Code::InvalidRequest, error.body_text()))?;
        Ok(Self(parameters))
    }
}

/// Rejects all query parameters, for lists without parameters.
pub(crate) struct NoQueryParams;

impl FromRequestParts<AppState> for NoQueryParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _engine: &AppState) -> Result<Self, Problem> {
        check_param_names(&param_names(parts), &[]).map(|()| Self)
    }
}

/// Returns the names of the query parameters. A query that cannot be parsed is rejected when its values are read.
fn param_names(parts: &Parts) -> Vec<String> {
    let parsed = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    parsed.map(|Query(params)| params.into_iter().map(|(name, _)| name).collect()).unwrap_or_default()
}

fn check_param_names(names: &[String], known: &[&str]) -> Result<(), Problem> {
    match unknown_name(names, known) {
        Some((name, rule)) => Err(Problem::invalid(name, rule)),
        None => Ok(()),
    }
}

/// Returns the first name that is not known, and a message that suggests the most similar known name and lists all of
/// them.
pub(crate) fn unknown_name<'n>(names: &'n [String], known: &[&str]) -> Option<(&'n str, String)> {
    let unknown = names.iter().find(|name| !known.contains(&name.as_str()))?;
    let hint = match closest_name(unknown, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => ".".to_owned(),
    };
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let list = if known.is_empty() { "none".to_owned() } else { quoted.join(", ") };
    Some((unknown, format!("is unknown{hint} Valid names: {list}")))
}

/// The name or id in the path.
pub(crate) struct PathName(pub String);

impl FromRequestParts<AppState> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, engine).await.map_err(invalid_path)?;
        Ok(Self(name))
    }
}

/// The name or id in the path, and the segment after it.
pub(crate) struct PathPair(pub String, pub String);

impl FromRequestParts<AppState> for PathPair {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, engine).await;
        let Path((name, second)) = path.map_err(invalid_path)?;
        Ok(Self(name, second))
    }
}

/// The name or id in the path, and two variable segments after it.
pub(crate) struct PathTriple(pub String, pub String, pub String);

impl FromRequestParts<AppState> for PathTriple {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &AppState) -> Result<Self, Problem> {
        let path = Path::<(String, String, String)>::from_request_parts(parts, engine).await;
        let Path((name, second, third)) = path.map_err(invalid_path)?;
        Ok(Self(name, second, third))
    }
}

fn invalid_path(_: PathRejection) -> Problem {
    Problem::new(Code::InvalidRequest, "the path must be valid UTF-8")
}

/// The revision in `If-Match`, if any.
pub(crate) struct IfMatch(pub Option<i64>);

impl FromRequestParts<AppState> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _engine: &AppState) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(IF_MATCH) else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let revision = text.trim_start_matches("W/").trim_matches('"').parse();
        let revision = revision
            .map_err(|_| Problem::invalid("If-Match", "must be an ETag that this server returned, such as `\"3\"`"))?;
        Ok(Self(Some(revision)))
    }
}
