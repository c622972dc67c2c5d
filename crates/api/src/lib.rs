//! The REST surface: routes, wire views, problems, authentication and the OpenAPI document.
//!
//! Handlers translate; they decide nothing. What a request means is in `engine`, what it may do is Cedar's, and SQL is
//! not here.

mod collection;
mod errors;
mod extract;
mod lists;
mod logged;
mod openapi;
mod problem;
mod routes;
mod run_views;
mod stream;
mod views;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use toolwright_engine::Engine;

pub use problem::{Code, Problem};
pub use routes::mcp::{Mcp, McpServer};

/// The largest body a request may have.
pub const LARGEST_BODY: usize = 8 << 20;

/// The largest body of a request that carries a document: one of 64 MiB, and what JSON adds to a text.
pub const LARGEST_DOCUMENT: usize = 80 << 20;

/// Everything the server answers.
pub fn router(engine: Engine, mcp: Mcp) -> Router {
    let (api, document) = openapi::router().split_for_parts();
    let document = openapi::text(&document);
    let api = match mcp.server {
        Some(server) => api.merge(routes::mcp::routes(server)),
        None => api,
    };
    api.route("/openapi.json", axum::routing::get(|| async move { json_text(document) }))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        // Together, because each layer of a router by itself is a box and a copy of the others for each request.
        .layer((logged::LogLayer, DefaultBodyLimit::max(LARGEST_BODY), Extension(mcp.imports)))
        .with_state(Arc::new(engine))
}

/// The OpenAPI document, as it is committed and served.
pub fn openapi_json() -> String {
    openapi::text(&openapi::router().split_for_parts().1)
}

fn json_text(text: String) -> Response {
    ([(axum::http::header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn no_route(uri: Uri) -> Problem {
    Problem::new(
        Code::RouteNotFound,
        format!("there is nothing at `{}`; /openapi.json lists what there is", uri.path()),
    )
}

async fn wrong_method(request: Request) -> Problem {
    Problem::new(Code::MethodNotAllowed, format!("`{}` cannot be used on `{}`", request.method(), request.uri().path()))
}
