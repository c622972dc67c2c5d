//! The REST surface: routes, wire views, problems, authentication and the OpenAPI document.
//!
//! Handlers translate; they decide nothing. What a request means is in `engine`, what it may do is Cedar's, and SQL is
//! not here.

mod collection;
mod errors;
mod extract;
mod lists;
mod openapi;
mod problem;
mod routes;
mod run_views;
mod stream;
mod views;

use std::any::Any;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use toolwright_engine::Engine;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::trace::TraceLayer;

pub use problem::{Code, Problem};
pub use routes::mcp::{Mcp, McpServer};

/// The largest body a request may have.
pub const LARGEST_BODY: usize = 8 << 20;

/// The largest body of a request that carries a document: one of 64 MiB, and what JSON adds to a text.
pub const LARGEST_DOCUMENT: usize = 80 << 20;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

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
        .layer((
            SetRequestIdLayer::new(REQUEST_ID, RandomId),
            TraceLayer::new_for_http().make_span_with(span).on_request(()).on_response(log_response),
            PropagateRequestIdLayer::new(REQUEST_ID),
            CatchPanicLayer::custom(panicked),
            DefaultBodyLimit::max(LARGEST_BODY),
            Extension(mcp.imports),
        ))
        .with_state(Arc::new(engine))
}

/// Gives each request a UUID. Not a secret, so the kernel need not be asked for each.
#[derive(Clone, Copy)]
struct RandomId;

impl MakeRequestId for RandomId {
    fn make_request_id<B>(&mut self, _request: &axum::http::Request<B>) -> Option<RequestId> {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        HeaderValue::from_str(id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())).ok().map(RequestId::new)
    }
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

/// A defect that panics costs one request, not the server.
fn panicked(_payload: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked");
    Problem::new(Code::Internal, "this is a defect of the server; its log has the cause").into_response()
}

fn span(request: &Request) -> tracing::Span {
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    tracing::info_span!(
        "request",
        id,
        method = %request.method(),
        path = request.uri().path(),
        principal = tracing::field::Empty,
        realm = tracing::field::Empty,
    )
}

fn log_response<B>(response: &axum::http::Response<B>, latency: std::time::Duration, _span: &tracing::Span) {
    tracing::info!(status = response.status().as_u16(), micros = latency.as_micros(), "answered");
}
