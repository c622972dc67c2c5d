//! The web UI: serves the build of `ui/`, which is embedded in the binary.
//!
//! Every file has an ETag and a Brotli variant. A path without a file returns the page of the application, which shows
//! the screen of the path. The Content-Security-Policy allows only files of this server, and no inline scripts. This
//! crate knows nothing about the API: the UI uses the same routes as any other client.

mod files;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use files::{Encoded, File};

/// What the pages may load: only files of this server. Styles that scripts set on elements are allowed, because lists
/// and popovers are positioned with them.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// The page of the application.
const PAGE: &str = "index.html";

/// Returns a router that serves the files of the UI, and its page for every other path.
pub fn router() -> Router {
    Router::new().fallback(serve)
}

async fn serve(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let file = match File::find(path) {
        Some(file) => file,
        // A missing file of the build is an error. The page in its place would be run as a script.
        None if path.starts_with("assets/") || !accepts_page(request.headers()) => {
            return (StatusCode::NOT_FOUND, "this file or page does not exist\n").into_response();
        }
        None => match File::find(PAGE) {
            Some(page) => page,
            None => return (StatusCode::NOT_FOUND, "this binary was built without the web UI\n").into_response(),
        },
    };
    respond(file, request.headers()).await
}

async fn respond(file: File, headers: &HeaderMap) -> Response {
    let tag = file.etag();
    if headers.get(IF_NONE_MATCH).is_some_and(|sent| has_tag(sent, &tag)) {
        return with_headers(Body::empty().into_response(), StatusCode::NOT_MODIFIED, &tag);
    }
    let content_type = file.content_type();
    let mut response = match file.encode(accepts_brotli(headers)).await {
        Encoded::Plain(bytes) => Body::from(bytes.into_owned()).into_response(),
        Encoded::Brotli(bytes) => {
            let mut response = Body::from(bytes).into_response();
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
            response
        }
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    with_headers(response, StatusCode::OK, &tag)
}

fn with_headers(mut response: Response, status: StatusCode, tag: &str) -> Response {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        // The names of the files do not change between releases, so browsers must ask whether a file has changed.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (VARY, "accept-encoding"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn has_tag(sent: &HeaderValue, tag: &str) -> bool {
    let Ok(sent) = sent.to_str() else { return false };
    sent.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

fn accepts_brotli(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings.any(|text| text.split(',').any(|coding| coding.split(';').next().is_some_and(|name| name.trim() == "br")))
}

/// Whether the client can show a page. A program that asks for JSON at a wrong path must get an error.
fn accepts_page(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return true };
    ["text/html", "text/*", "*/*"].iter().any(|kind| accept.contains(kind))
}
