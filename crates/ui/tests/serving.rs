//! Tests how the files are served.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::response::Parts;
use sha2::{Digest, Sha256};
use tower_service::Service;

const SCRIPT: &str = "/assets/app.js";

async fn get(path: &str, headers: &[(&str, &str)]) -> (Parts, Bytes) {
    let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    let response = toolwright_ui::router().call(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts, axum::body::to_bytes(body, usize::MAX).await.unwrap())
}

#[tokio::test]
async fn every_path_without_a_file_returns_the_page() {
    let (root, page) = get("/", &[]).await;
    assert_eq!(root.headers["content-type"], "text/html; charset=utf-8");
    for path in ["/runs", "/runs/run_1/entries/7?compare=run_2", "/tools/hubspot%2Fget-deal"] {
        let (parts, body) = get(path, &[("accept", "text/html,*/*;q=0.8")]).await;
        assert_eq!((parts.status, &body), (StatusCode::OK, &page), "{path}");
    }
}

#[tokio::test]
async fn missing_files_and_requests_for_json_do_not_return_the_page() {
    assert_eq!(get("/assets/missing.js", &[]).await.0.status, StatusCode::NOT_FOUND);
    assert_eq!(get("/runs", &[("accept", "application/json")]).await.0.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn known_file_is_not_sent_again() {
    let (first, _) = get(SCRIPT, &[]).await;
    let tag = first.headers["etag"].to_str().unwrap();
    let (again, body) = get(SCRIPT, &[("if-none-match", &format!("\"other\", W/{tag}"))]).await;
    assert_eq!((again.status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(again.headers["etag"], tag);
    assert_eq!(get(SCRIPT, &[("if-none-match", "\"other\"")]).await.0.status, StatusCode::OK);
}

#[tokio::test]
async fn files_are_compressed_if_the_browser_accepts_brotli() {
    let (plain, script) = get(SCRIPT, &[("accept-encoding", "gzip")]).await;
    assert!(!plain.headers.contains_key("content-encoding"));
    for _ in 0..2 {
        let (parts, compressed) = get(SCRIPT, &[("accept-encoding", "gzip, deflate, br;q=0.9")]).await;
        assert_eq!(parts.headers["content-encoding"], "br");
        let mut decompressed = Vec::new();
        brotli::BrotliDecompress(&mut &*compressed, &mut decompressed).unwrap();
        assert_eq!(decompressed, script);
    }
}

#[tokio::test]
async fn pages_run_only_scripts_of_this_server_and_cannot_be_framed() {
    let (parts, page) = get("/login", &[]).await;
    let policy = parts.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'self'; script-src 'self';"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    let page = String::from_utf8_lossy(&page).into_owned();
    assert!(!page.contains("<script>") && !page.contains("//"), "the page must load only files of this server: {page}");
}

/// Needs no Node: a change of `ui/` without a new build changes the hash.
#[test]
fn committed_build_belongs_to_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
    let mut files = BTreeMap::new();
    for name in ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"] {
        files.insert(name.to_owned(), root.join(name));
    }
    add_files(&root.join("src"), "src", &mut files);
    let mut hasher = Sha256::new();
    for (name, path) in &files {
        let content = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        hasher.update(format!("{name}\0{}\0", data_encoding::HEXLOWER.encode(&Sha256::digest(&content))));
    }
    let actual = data_encoding::HEXLOWER.encode(&hasher.finalize());
    let recorded = include_str!("../dist/sources.sha256").trim();
    assert_eq!(recorded, actual, "crates/ui/dist must be built from ui/; run `make ui`");
}

/// Adds the sources under a folder, except tests and generated types, which are not part of the build.
fn add_files(folder: &Path, prefix: &str, files: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}/{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            add_files(&path, &name, files);
        } else if !name.contains(".test.") && !name.ends_with("schema.d.ts") {
            files.insert(name, path);
        }
    }
}
