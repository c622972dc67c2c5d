//! Payloads too large for an envelope, kept by their content.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::{BASE32_NOPAD, BASE64, HEXLOWER};
use futures::future::BoxFuture;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt, path};
use sha2::{Digest, Sha256};
use toolwright_tools::ports::{self, Payload};
use toolwright_types::{Attachment, Image, Message, RealmScope};

use crate::Unavailable;

/// Keeps payloads, each within its realm. Cheap to clone.
#[derive(Clone)]
pub struct BlobStore(Arc<dyn ObjectStore>);

/// A payload that was kept.
#[derive(Debug)]
pub struct Blob {
    /// Its media type.
    pub content_type: String,
    /// Its bytes.
    pub bytes: Bytes,
}

impl BlobStore {
    /// Blobs in a folder, which is made when missing.
    pub fn in_folder(folder: &Path) -> Result<Self, Unavailable> {
        let what = "the blob folder cannot be used";
        std::fs::create_dir_all(folder).map_err(|error| Unavailable::new(what)(Box::new(error)))?;
        let files =
            LocalFileSystem::new_with_prefix(folder).map_err(|error| Unavailable::new(what)(Box::new(error)))?;
        Ok(Self(Arc::new(files)))
    }

    /// The blob `id` of a realm.
    pub async fn get(&self, realm: &RealmScope, id: &str) -> Result<Option<Blob>, Unavailable> {
        let Some(content_type) = content_type_of(id) else {
            return Ok(None);
        };
        let unavailable = |error| Unavailable::new("blob storage did not answer")(Box::new(error));
        match self.0.get(&location(realm, id)).await {
            Ok(found) => Ok(Some(Blob { content_type, bytes: found.bytes().await.map_err(unavailable)? })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }
}

/// The most that pictures may take in one question to a model, in bytes.
const SHOWN_BYTES: usize = 15_000_000;
/// Where blobs are fetched.
const ROUTE: &str = "/api/v1/ai/blobs/";

impl BlobStore {
    /// The pictures that these messages name, the latest first and as many as one question takes. One that cannot be
    /// read is left out: the text of its result is there, and a run does not end for a picture.
    pub(crate) async fn images(&self, realm: &RealmScope, messages: &[Message]) -> BTreeMap<String, Image> {
        let named = messages.iter().rev().flat_map(|message| match message {
            Message::Tool { images, .. } => images.as_slice(),
            _ => &[],
        });
        let mut images = BTreeMap::new();
        let mut left = SHOWN_BYTES;
        for Attachment { url, .. } in named {
            let Some(id) = url.strip_prefix(ROUTE).filter(|_| !images.contains_key(url)) else { continue };
            let blob = match self.get(realm, id).await {
                Ok(Some(blob)) => blob,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        url,
                        "a picture is not shown to the model"
                    );
                    continue;
                }
            };
            let Some(rest) = left.checked_sub(blob.bytes.len()) else { break };
            left = rest;
            let image = Image { content_type: blob.content_type, base64: BASE64.encode(&blob.bytes) };
            images.insert(url.clone(), image);
        }
        images
    }
}

impl ports::Blobs for BlobStore {
    fn put<'a>(
        &'a self,
        realm: &'a RealmScope,
        payload: Payload,
    ) -> BoxFuture<'a, Result<Attachment, ports::Unavailable>> {
        Box::pin(async move {
            let id = id_of(&payload);
            let bytes = payload.bytes.len();
            let stored = self.0.put(&location(realm, &id), payload.bytes.into()).await;
            stored.map_err(|error| ports::Unavailable { port: "blob storage", source: Box::new(error) })?;
            Ok(Attachment {
                kind: payload.kind,
                url: format!("{ROUTE}{id}"),
                content_type: Some(payload.content_type),
                bytes: u64::try_from(bytes).ok(),
            })
        })
    }
}

/// The content's hash and its media type in one name, so that a blob is one object and says what it is.
fn id_of(payload: &Payload) -> String {
    let hash = HEXLOWER.encode(&Sha256::digest(&payload.bytes));
    format!("{hash}-{}", BASE32_NOPAD.encode(payload.content_type.as_bytes()).to_ascii_lowercase())
}

fn content_type_of(id: &str) -> Option<String> {
    let (hash, kind) = id.split_once('-')?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let decoded = BASE32_NOPAD.decode(kind.to_ascii_uppercase().as_bytes()).ok()?;
    String::from_utf8(decoded).ok().filter(|_| is_hash)
}

fn location(realm: &RealmScope, id: &str) -> path::Path {
    path::Path::from(format!("{}/{id}", realm.realm))
}
