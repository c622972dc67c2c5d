//! The REST API: routes, wire views, problem documents, authentication and the OpenAPI document.
//!
//! Handlers only translate between HTTP and the engine. Business rules are in the `engine` crates, permissions in Cedar
//! policies. There is no SQL here.

mod approval_views;
mod browser;
mod call_filter;
mod collection;
mod conversation_views;
mod errors;
mod extract;
mod inspection_views;
mod list_params;
mod openapi;
mod personal_data;
mod problem;
mod reference;
mod request_log;
mod revisions;
mod routes;
mod run_views;
mod state;
mod stream;
mod stream_views;
mod tool_views;
mod views;
pub mod wire;
mod workflow_views;

use std::sync::LazyLock;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use toolwright_engine::Engine;
use tower_service::Service as _;

pub use problem::{Code, Problem};
pub use routes::mcp::{McpServer, McpServices};

/// The largest request body, in bytes.
pub const MAX_BODY_BYTES: usize = 8 << 20;

/// The largest request body of a route that takes a document: 64 MiB for the document, and 16 MiB for the escape
/// characters of a document that is sent as a JSON string.
pub const MAX_DOCUMENT_BYTES: usize = 80 << 20;

/// Returns the router of the whole server, without the web UI.
pub fn router(engine: Engine, mcp: McpServices) -> Router {
    router_with_pages(engine, mcp, Router::new().fallback(no_route))
}

/// Returns the router of the whole server. `pages` serves the GET requests that no route matches and whose path does not
/// belong to the API.
pub fn router_with_pages(engine: Engine, mcp: McpServices, pages: Router) -> Router {
    let (api, document) = openapi::router().split_for_parts();
    let document = openapi::text(&document);
    let api = match mcp.server {
        Some(server) => api.merge(routes::mcp::routes(server)),
        None => api,
    };
    api.route("/openapi.json", axum::routing::get(|| async move { json_text(document) }))
        .route("/docs", axum::routing::get(|| async { (reference::HEADERS, reference_page()) }))
        .merge(routes::session::routes())
        .fallback(move |request: Request| unmatched(pages.clone(), request))
        .method_not_allowed_fallback(wrong_method)
        // The three layers are added as one layer. Each added layer costs an allocation and a clone of the inner
        // service per request.
        .layer((request_log::LogLayer, DefaultBodyLimit::max(MAX_BODY_BYTES), Extension(mcp.imports)))
        .with_state(state::AppState::new(engine))
}

/// Returns the OpenAPI document, which is committed as `openapi.json` and served under the same name.
pub fn openapi_json() -> String {
    openapi::text(&openapi::router().split_for_parts().1)
}

/// Returns the API reference, which is served at `/docs`. It is rendered when it is first requested, because most
/// servers never show it.
pub fn reference_page() -> &'static str {
    static PAGE: LazyLock<String> =
        LazyLock::new(|| reference::page(&serde_json::from_str(&openapi_json()).unwrap_or_default()));
    &PAGE
}

fn json_text(text: String) -> Response {
    ([(axum::http::header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Responds to a request that no route matches.
async fn unmatched(mut pages: Router, request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && !is_api_path(request.uri().path()) {
        return pages.call(request).await.into_response();
    }
    no_route(request.uri().clone()).await.into_response()
}

/// Whether a path can only be a route, so that an unknown path is an error and not a page.
fn is_api_path(path: &str) -> bool {
    const SEGMENTS: [&str; 11] = [
        "api",
        "docs",
        "errors",
        "healthz",
        "hooks",
        "mcp",
        "metrics",
        "openapi.json",
        "readyz",
        "system",
        ".well-known",
    ];
    path.split('/').nth(1).is_some_and(|segment| SEGMENTS.contains(&segment))
}

async fn no_route(uri: Uri) -> Problem {
    Problem::new(Code::RouteNotFound, format!("route `{}` does not exist; /docs lists all routes", uri.path()))
}

async fn wrong_method(request: Request) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!("method `{}` is not supported on `{}`", request.method(), request.uri().path()),
    )
}
