//! Response bodies that are large, encoded, not JSON, or not of the declared content type.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};

use super::failures::reject;

/// The maximum size of a body: 1 GiB. It exceeds the limits of all tested clients, and a client without a limit can
/// still read it in a test.
const MAX_BYTES: usize = 1 << 30;
static FILLER: [u8; 64 * 1024] = [b'x'; 64 * 1024];

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";

const PAGE: &str = "<!doctype html><html lang=\"en\"><head><title>Fixture</title></head>\
    <body><h1>Hello</h1><p>Not JSON.</p></body></html>";
const TABLE: &str = "sku,quantity\r\nKB-200,3\r\n\"cable, short\",12\r\n";
const PIXEL: &[u8] = include_bytes!("pixel.png");
const DOCUMENT: &str = "%PDF-1.1\n\
    1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
    2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
    3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>endobj\n\
    trailer<</Root 1 0 R>>\n%%EOF\n";

// Gzip and Brotli can contain uncompressed data, so the JSON text is readable here between a header and a trailer.
const GZIPPED: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x1d\x00\xe2\xff\
    {\"ok\":true,\"encoding\":\"gzip\"}\x35\x97\x62\x27\x1d\0\0\0";
const BROTLIED: &[u8] = b"\xa0\x01\x10{\"ok\":true,\"encoding\":\"br\"}\x03";

pub(super) async fn huge(Path(bytes): Path<usize>) -> Response {
    if !(2..=MAX_BYTES).contains(&bytes) {
        return reject("`bytes` must be between 2 and 1073741824");
    }
    let filler = stream::unfold(bytes - 2, |remaining| async move {
        let size = remaining.min(FILLER.len());
        let chunk = Bytes::from_static(&FILLER).slice(..size);
        (size > 0).then_some((chunk, remaining - size))
    });
    let quote = || stream::iter([Bytes::from_static(b"\"")]);
    let chunks = quote().chain(filler).chain(quote());
    let body = Body::from_stream(chunks.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

pub(super) async fn binary(Path(kind): Path<String>) -> Response {
    match kind.as_str() {
        "png" => ([(CONTENT_TYPE, "image/png")], PIXEL).into_response(),
        "pdf" => ([(CONTENT_TYPE, "application/pdf")], DOCUMENT).into_response(),
        "csv" => ([(CONTENT_TYPE, CSV)], TABLE).into_response(),
        "html" => html().await,
        "long-type" => {
            let content_type = format!("application/x-report; name=\"{}\"", "n".repeat(220));
            ([(CONTENT_TYPE, content_type)], DOCUMENT).into_response()
        }
        _ => reject("`kind` must be `png`, `pdf`, `csv`, `html` or `long-type`"),
    }
}

pub(super) async fn html() -> Response {
    ([(CONTENT_TYPE, HTML)], PAGE).into_response()
}

pub(super) async fn text() -> &'static str {
    "plain text, not JSON"
}

pub(super) async fn gzip() -> Response {
    ([(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "gzip")], GZIPPED).into_response()
}

pub(super) async fn brotli() -> Response {
    ([(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "br")], BROTLIED).into_response()
}

pub(super) async fn invalid_json() -> Response {
    ([(CONTENT_TYPE, JSON)], r#"{"ok": true, "items": [1, 2"#).into_response()
}
