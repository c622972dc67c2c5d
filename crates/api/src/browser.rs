//! Requests of the web UI: the cookie of a browser that is logged in, and the proof that a request comes from the UI.

use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri};

use crate::problem::{Code, Problem};

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "toolwright_session";

/// The header that the UI sends with every request. Another page can send it only after a preflight request, which this
/// server does not answer.
const UI_HEADER: HeaderName = HeaderName::from_static("x-toolwright-ui");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns the cookie of a browser that is logged in. Only routes of the REST API accept it.
pub(crate) fn session_cookie(parts: &Parts) -> Option<&str> {
    if !parts.uri.path().starts_with("/api/") {
        return None;
    }
    let headers = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = headers.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Refuses a request that changes something, unless the UI of this server sent it.
pub(crate) fn check_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    if !headers.contains_key(UI_HEADER) {
        return Err(refused("the header `X-Toolwright-UI` is required with a cookie; other clients send an API key"));
    }
    if is_same_origin(headers) { Ok(()) } else { Err(refused("the request must come from a page of this server")) }
}

/// Whether the browser says that a page of this server sent the request. `Sec-Fetch-Site` has priority, because a page
/// cannot set it and a proxy does not change it. Browsers omit it on insecure origins, and there `Origin` must match
/// `Host`.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site == "same-origin";
    }
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok()?.parse::<Uri>().ok());
    match (origin.as_ref().and_then(Uri::authority), host(headers)) {
        (Some(origin), Some(host)) => origin.as_str().eq_ignore_ascii_case(host.as_str()),
        _ => false,
    }
}

/// Whether the browser reached this server on a loopback address, where it has no TLS.
pub(crate) fn is_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = host(headers) else { return false };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_address = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}

fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(HOST)?.to_str().ok()?.parse().ok()
}

fn refused(detail: &str) -> Problem {
    Problem::new(Code::Forbidden, detail)
}
