//! The route of the MCP server. The route authenticates each request and passes it to [`Endpoint`].

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use futures::StreamExt;
use serde_json::{Value, json};
use toolwright_mcp::{Endpoint, McpImports};

use crate::extract::{Caller, CallerKey, read_body};
use crate::problem::Problem;
use crate::state::AppState;

/// The path of the protected resource metadata (RFC 9728).
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The MCP server of this process, and the imports from external MCP servers.
pub struct McpServices {
    /// The MCP server, if it is enabled.
    pub server: Option<McpServer>,
    /// The imports of tools from external MCP servers.
    pub imports: McpImports,
}

/// The MCP server and the path of its route.
pub struct McpServer {
    /// The path, with a leading slash.
    pub path: String,
    /// The endpoint that answers the requests.
    pub endpoint: Endpoint,
}

pub(crate) fn routes(server: McpServer) -> Router<AppState> {
    let McpServer { path, endpoint } = server;
    let (resource, own_metadata) = (path.clone(), format!("{METADATA}{path}"));
    let metadata = get(move |headers: HeaderMap| async move { metadata(&headers, &resource) });
    let challenge: Arc<str> = own_metadata.as_str().into();
    let serve = any(move |State(engine): State<AppState>, request: Request| async move {
        serve(engine, endpoint, &challenge, request).await
    });
    Router::new().route(&path, serve).route(METADATA, metadata.clone()).route(&own_metadata, metadata)
}

async fn serve(engine: AppState, endpoint: Endpoint, metadata: &str, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let session = match Caller::from_request_parts(&mut parts, &engine).await {
        Ok(Caller(session)) => Some(session),
        // The endpoint may allow anonymous requests, for test fixtures. A request with an invalid key is rejected even
        // then.
        Err(_) if endpoint.allows_anonymous() && !parts.headers.contains_key(AUTHORIZATION) => None,
        Err(problem) => return unauthorized(problem, &parts, metadata),
    };
    let mut limited = Request::new(body);
    DefaultBodyLimit::max(crate::MAX_BODY_BYTES).apply(&mut limited);
    let body = match read_body(limited, &engine, crate::MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let key = CallerKey::from_request_parts(&mut parts, &engine).await.ok();
    let response = endpoint.handle(session, Request::from_parts(parts, body)).await;
    match key.filter(|_| is_event_stream(response.headers())) {
        Some(CallerKey(key)) => response
            .map(|body| Body::from_stream(Body::new(body).into_data_stream().take_until(Box::pin(key.rejected())))),
        None => response.map(Body::new),
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// Adds a `WWW-Authenticate` header to a 401 response. The header contains the URL of the metadata.
fn unauthorized(problem: Problem, parts: &Parts, metadata: &str) -> Response {
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

/// Returns the OAuth metadata of the MCP server. It lists no authorization server, because the operator issues the API
/// keys.
fn metadata(headers: &HeaderMap, path: &str) -> Json<Value> {
    let resource = origin(headers).map_or_else(|| path.to_owned(), |origin| format!("{origin}{path}"));
    Json(json!({
        "resource": resource,
        "resource_name": "Toolwright",
        "authorization_servers": [],
        "bearer_methods_supported": ["header"],
    }))
}

/// Returns the origin that the client used to address this server.
fn origin(headers: &HeaderMap) -> Option<String> {
    let host: Authority = headers.get(HOST)?.to_str().ok()?.parse().ok()?;
    let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let scheme = if forwarded == Some("https") { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}
