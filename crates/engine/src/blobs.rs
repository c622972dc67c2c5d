//! Payloads too large for an envelope, kept by their content.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use futures::future::BoxFuture;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt, path};
use sha2::{Digest, Sha256};
use toolwright_tools::ports::{self, Payload};
use toolwright_types::{Attachment, RealmScope};

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
                url: format!("/api/v1/ai/blobs/{id}"),
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
