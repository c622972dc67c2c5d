//! The MCP server: who is asking is found out here, as everywhere; what is answered is not.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::{Value, json};
use toolwright_mcp::{Endpoint, Imports};

use crate::extract::{App, Caller, bytes};
use crate::problem::Problem;

/// Where clients find out how to get in (RFC 9728).
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// Both sides of MCP.
pub struct Mcp {
    /// The server, if there is one.
    pub server: Option<McpServer>,
    /// What brings in tools of other servers.
    pub imports: Imports,
}

/// An MCP server and where it is.
pub struct McpServer {
    /// The path; begins with a slash.
    pub path: String,
    /// The server.
    pub endpoint: Endpoint,
}

/// The routes of an MCP server.
pub fn routes(server: McpServer) -> Router<App> {
    let McpServer { path, endpoint } = server;
    let (resource, own_metadata) = (path.clone(), format!("{METADATA}{path}"));
    let metadata = get(move |headers: HeaderMap| async move { metadata(&headers, &resource) });
    let challenge: Arc<str> = own_metadata.as_str().into();
    let serve = any(move |State(engine): State<App>, request: Request| async move {
        serve(engine, endpoint, &challenge, request).await
    });
    Router::new().route(&path, serve).route(METADATA, metadata.clone()).route(&own_metadata, metadata)
}

async fn serve(engine: App, endpoint: Endpoint, metadata: &str, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let session = match Caller::from_request_parts(&mut parts, &engine).await {
        Ok(Caller(session)) => Some(session),
        // Fixtures are for anybody. A key that is wrong is still wrong.
        Err(_) if endpoint.is_open() && !parts.headers.contains_key(AUTHORIZATION) => None,
        Err(problem) => return challenged(problem, &parts, metadata),
    };
    let mut arriving = Request::new(body);
    DefaultBodyLimit::max(crate::LARGEST_BODY).apply(&mut arriving);
    let body = match bytes(arriving, &engine, crate::LARGEST_BODY).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let answer = endpoint.answer(session, Request::from_parts(parts, body)).await;
    answer.map(Body::new)
}

/// Says where a client that was not let in learns how to get in.
fn challenged(problem: Problem, parts: &Parts, metadata: &str) -> Response {
    let mut response = problem.into_response();
    if response.status() == axum::http::StatusCode::UNAUTHORIZED {
        let challenge = match origin(&parts.headers) {
            Some(origin) => format!("Bearer resource_metadata=\"{origin}{metadata}\""),
            None => "Bearer".to_owned(),
        };
        if let Ok(challenge) = HeaderValue::from_str(&challenge) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
    }
    response
}

/// Keys are handed out by the operator, so no authorization server is named.
fn metadata(headers: &HeaderMap, path: &str) -> Json<Value> {
    let resource = origin(headers).map_or_else(|| path.to_owned(), |origin| format!("{origin}{path}"));
    Json(json!({
        "resource": resource,
        "resource_name": "Toolwright",
        "authorization_servers": [],
        "bearer_methods_supported": ["header"],
    }))
}

/// The origin under which the client knows this server.
fn origin(headers: &HeaderMap) -> Option<String> {
    let host: Authority = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
    let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let scheme = if forwarded == Some("https") { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}
