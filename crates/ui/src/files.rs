//! The embedded files and their compressed variants.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use rust_embed::{EmbeddedFile, RustEmbed};

/// Files below this size are not compressed.
const MIN_COMPRESSED_BYTES: usize = 1024;

#[derive(RustEmbed)]
#[folder = "dist"]
struct Dist;

/// A file of the build.
pub(crate) struct File {
    path: String,
    embedded: EmbeddedFile,
}

/// The content of a file, as it is sent.
pub(crate) enum Encoded {
    Plain(Cow<'static, [u8]>),
    Brotli(Bytes),
}

impl File {
    pub(crate) fn find(path: &str) -> Option<Self> {
        Dist::get(path).map(|embedded| Self { path: path.to_owned(), embedded })
    }

    /// The ETag: the first half of the SHA-256 of the content.
    pub(crate) fn etag(&self) -> String {
        let hash = self.embedded.metadata.sha256_hash();
        let hex = hash.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        format!("\"{hex}\"")
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next().unwrap_or_default() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "json" => "application/json",
            "woff2" => "font/woff2",
            _ => "application/octet-stream",
        }
    }

    /// Returns the content, compressed if the client accepts it.
    pub(crate) async fn encode(self, brotli: bool) -> Encoded {
        if !brotli || self.embedded.data.len() < MIN_COMPRESSED_BYTES {
            return Encoded::Plain(self.embedded.data);
        }
        let tag = self.etag();
        if let Some(known) = compressed().get(&tag) {
            return Encoded::Brotli(known.clone());
        }
        let data = Arc::new(self.embedded.data);
        let source = Arc::clone(&data);
        match tokio::task::spawn_blocking(move || compress(&source)).await {
            Ok(Some(bytes)) => {
                compressed().insert(tag, bytes.clone());
                Encoded::Brotli(bytes)
            }
            Ok(None) | Err(_) => Encoded::Plain(Arc::unwrap_or_clone(data)),
        }
    }
}

/// The compressed files by ETag. Their number is limited by the number of embedded files.
fn compressed() -> MutexGuard<'static, HashMap<String, Bytes>> {
    static COMPRESSED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);
    COMPRESSED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compress(source: &[u8]) -> Option<Bytes> {
    let params = brotli::enc::BrotliEncoderParams { quality: 6, ..Default::default() };
    let mut output = Vec::with_capacity(source.len() / 3);
    match brotli::BrotliCompress(&mut &*source, &mut output, &params) {
        Ok(_) => Some(Bytes::from(output)),
        Err(error) => {
            tracing::warn!(%error, "could not compress a file of the web UI");
            None
        }
    }
}
