//! Handlers of the web's APIs and pages.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Error;
use super::site::{self, Content};
use super::{Web, html, pdf, search as index};

/// The maximum number of redirects that the scraper and the extractor follow.
const MAX_REDIRECTS: usize = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchWire {
    q: String,
    page: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UrlWire {
    url: String,
}

pub(super) async fn search(
    State(web): State<Arc<Web>>,
    query: Result<Query<SearchWire>, QueryRejection>,
) -> Result<Json<Value>, Error> {
    let Query(SearchWire { q, page }) = query?;
    web.record("search", &q);
    let words = index::words(&q);
    let page = page.unwrap_or(1);
    if words.is_empty() {
        return Err(Error::EmptyQuery);
    }
    let skipped = page.checked_sub(1).ok_or(Error::InvalidPage)?.saturating_mul(index::PAGE_SIZE);
    let found = index::find(&words);
    let results: Vec<Value> = found
        .iter()
        .skip(skipped)
        .take(index::PAGE_SIZE)
        .map(|page| json!({"title": page.title, "url": page.url, "snippet": page.snippet}))
        .collect();
    let next = (skipped.saturating_add(index::PAGE_SIZE) < found.len()).then(|| page.saturating_add(1));
    Ok(Json(json!({"query": q, "page": page, "total": found.len(), "results": results, "nextPage": next})))
}

pub(super) async fn scrape(
    State(web): State<Arc<Web>>,
    body: Result<Json<UrlWire>, JsonRejection>,
) -> Result<Json<Value>, Error> {
    let Json(UrlWire { url }) = body?;
    web.record("scrape", &url);
    let (url, content) = follow(&url)?;
    match content {
        Content::Html(text) => {
            let html::Document { title, description, markdown, links } = html::read(text);
            Ok(Json(json!({
                "url": url, "title": title, "description": description, "markdown": markdown, "links": links,
            })))
        }
        _ => Err(Error::IsPdf(url)),
    }
}

pub(super) async fn extract(
    State(web): State<Arc<Web>>,
    body: Result<Json<UrlWire>, JsonRejection>,
) -> Result<Json<Value>, Error> {
    let Json(UrlWire { url }) = body?;
    web.record("extract", &url);
    let (url, content) = follow(&url)?;
    match content {
        Content::Pdf(bytes) => {
            let pdf::Document { pages, text } = pdf::read(bytes);
            Ok(Json(json!({"url": url, "pages": pages, "text": text})))
        }
        _ => Err(Error::NotPdf(url)),
    }
}

/// Returns a page for a browser. Links to other pages of this web are rewritten, so that the browser can follow them.
pub(super) async fn page(State(web): State<Arc<Web>>, Path(address): Path<String>) -> Result<Response, Error> {
    let url = format!("https://{address}");
    web.record("sites.get", &url);
    let (_, content) = site::find(&url)?;
    Ok(match content {
        Content::Html(text) => Html(text.replace("href=\"https://", "href=\"/sites/")).into_response(),
        Content::Pdf(bytes) => ([(CONTENT_TYPE, "application/pdf")], bytes).into_response(),
        Content::Redirect(target) => {
            let location = target.replacen("https://", "/sites/", 1);
            (StatusCode::MOVED_PERMANENTLY, [(LOCATION, location)]).into_response()
        }
        Content::Broken(status) => status.into_response(),
    })
}

pub(super) async fn requests(State(web): State<Arc<Web>>) -> Json<Value> {
    Json(json!(web.lock().requests))
}

/// Follows redirects from an address. Returns the final address and the content there.
fn follow(url: &str) -> Result<(String, Content), Error> {
    let (mut url, mut content) = site::find(url)?;
    for _ in 0..MAX_REDIRECTS {
        match content {
            Content::Redirect(target) => (url, content) = site::find(target)?,
            Content::Broken(status) => return Err(Error::PageFailed { url, status }),
            Content::Html(_) | Content::Pdf(_) => return Ok((url, content)),
        }
    }
    Err(Error::PageFailed { url, status: StatusCode::LOOP_DETECTED })
}
