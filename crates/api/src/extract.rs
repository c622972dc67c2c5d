//! What handlers take from a request: a session, a body, a name, a revision. Each refuses with a problem.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{AUTHORIZATION, IF_MATCH};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use toolwright_engine::{Engine, Session};

use crate::logged::Sender;
use crate::problem::{Code, Problem};

/// How long a body may take to arrive; one that never ends must not hold its connection for ever.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The state every handler sees.
pub type App = Arc<Engine>;

/// Whoever sent the request, in the realm it asked for.
pub struct Caller(pub Session);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &App) -> Result<Self, Problem> {
        let missing = || Problem::new(Code::Unauthenticated, "send your API key as `Authorization: Bearer KEY`");
        let value = parts.headers.get(AUTHORIZATION).ok_or_else(missing)?;
        let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(missing)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(missing());
        }
        let realm = match parts.headers.get("x-realm") {
            Some(name) => Some(name.to_str().map_err(|_| Problem::invalid("X-Realm", "is not a realm name"))?),
            None => None,
        };
        let session = engine.identity.login(key.trim(), realm).await?;
        if let Some(sender) = parts.extensions.get::<Sender>() {
            sender.is(&session);
        }
        Ok(Self(session))
    }
}

/// A JSON body. Wrong JSON and wrong fields are told apart, and places are named.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &App) -> Result<Self, Problem> {
        json_body(&bytes(request, engine, crate::LARGEST_BODY).await?).map(Self)
    }
}

/// A JSON body that may hold a whole document. Its route raises the limit of the server.
pub struct LargeBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for LargeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &App) -> Result<Self, Problem> {
        json_body(&bytes(request, engine, crate::LARGEST_DOCUMENT).await?).map(Self)
    }
}

/// A JSON body that is here already.
pub fn json_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Every body is an object; a list would be taken for its fields in order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(Problem::new(Code::InvalidRequest, "the body is a list; send a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner();
        if inner.is_data() {
            Problem::invalid(&toolwright_engine::registry::pointer(error.path()), inner.to_string())
        } else {
            Problem::new(Code::InvalidJson, inner.to_string())
        }
    })?;
    reader.end().map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))?;
    Ok(parsed)
}

/// A body as it is.
pub struct Raw(pub Bytes);

impl FromRequest<App> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &App) -> Result<Self, Problem> {
        bytes(request, engine, crate::LARGEST_BODY).await.map(Self)
    }
}

/// A body, read to its end.
pub async fn bytes(request: Request, engine: &App, most: usize) -> Result<Bytes, Problem> {
    let arriving = tokio::time::timeout(BODY_PATIENCE, Bytes::from_request(request, engine));
    let late = |_| Problem::new(Code::InvalidRequest, "the body did not arrive in time");
    arriving.await.map_err(late)?.map_err(|rejection| unreadable(&rejection, most))
}

fn unreadable(rejection: &BytesRejection, most: usize) -> Problem {
    if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        Problem::new(Code::PayloadTooLarge, format!("a body has at most {most} bytes"))
    } else {
        Problem::new(Code::InvalidRequest, "the body could not be read")
    }
}

/// The parameters behind `?`.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &App) -> Result<Self, Problem> {
        let Query(parameters) = Query::<T>::from_request_parts(parts, engine)
            .await
            .map_err(|error| Problem::new(Code::InvalidRequest, error.body_text()))?;
        Ok(Self(parameters))
    }
}

/// The name or id in the path.
pub struct Named(pub String);

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &App) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, engine).await.map_err(not_utf8)?;
        Ok(Self(name))
    }
}

/// The name or id in the path, and the word after it.
pub struct NamedWith(pub String, pub String);

impl FromRequestParts<App> for NamedWith {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, engine: &App) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, engine).await;
        let Path((name, word)) = path.map_err(not_utf8)?;
        Ok(Self(name, word))
    }
}

fn not_utf8(_: PathRejection) -> Problem {
    Problem::new(Code::InvalidRequest, "the name in the path is not valid UTF-8")
}

/// The revision of `If-Match`, if any.
pub struct Expected(pub Option<i64>);

impl FromRequestParts<App> for Expected {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _engine: &App) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get(IF_MATCH) else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Self(None));
        }
        let revision = text.trim_start_matches("W/").trim_matches('"').parse();
        let revision =
            revision.map_err(|_| Problem::invalid("If-Match", "is not an ETag of this server, such as `\"3\"`"))?;
        Ok(Self(Some(revision)))
    }
}
