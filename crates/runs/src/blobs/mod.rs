//! Stores payloads that are too large for an envelope. The id of a blob is derived from its content and its media type.

mod bucket;
mod location;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::{BASE32_NOPAD, BASE64, HEXLOWER};
use futures::future::BoxFuture;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStoreExt, path};
use sha2::{Digest, Sha256};
use toolwright_tools::ports::{self, Payload};
use toolwright_types::{Attachment, Image, Message, RealmScope};

use toolwright_catalog::Unavailable;

use bucket::Bucket;
pub use location::{BlobLocation, InvalidLocation};

/// Stores payloads, separately for each realm. Cheap to clone.
#[derive(Clone)]
pub struct BlobStore(Arc<Storage>);

/// The storage behind a [`BlobStore`].
enum Storage {
    Folder(LocalFileSystem),
    Bucket(Bucket),
}

/// A stored payload.
#[derive(Debug)]
pub struct Blob {
    /// The media type of the payload.
    pub content_type: String,
    /// The content of the payload.
    pub bytes: Bytes,
}

impl BlobStore {
    /// Opens the store at this location. A folder is created if it is missing. A bucket is not contacted; see
    /// [`BlobStore::check`]. `variable` returns the value of an environment variable.
    pub fn open(location: BlobLocation, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Unavailable> {
        let storage = match location {
            BlobLocation::Folder(folder) => open_folder(&folder)
                .map(Storage::Folder)
                .map_err(|error| Unavailable::new("the blob folder cannot be used", error))?,
            BlobLocation::Bucket { bucket, prefix } => Bucket::new(&bucket, prefix, variable)
                .map(Storage::Bucket)
                .map_err(|error| Unavailable::new("the configuration of the blob bucket is not valid", error))?,
        };
        Ok(Self(Arc::new(storage)))
    }

    /// Checks that the storage answers. A folder needs no check.
    pub async fn check(&self) -> Result<(), Unavailable> {
        match &*self.0 {
            Storage::Folder(_) => Ok(()),
            Storage::Bucket(bucket) => bucket.check().await.map_err(|error| Unavailable::new(NO_ANSWER, error)),
        }
    }

    /// Returns the blob with this id in a realm, or `None` if the realm has no such blob.
    pub async fn get(&self, realm: &RealmScope, id: &str) -> Result<Option<Blob>, Unavailable> {
        let Some(content_type) = content_type_of(id) else {
            return Ok(None);
        };
        let location = location_of(realm, id);
        let found = match &*self.0 {
            Storage::Folder(folder) => read_file(folder, &location).await,
            Storage::Bucket(bucket) => bucket.get(&location).await,
        };
        match found {
            Ok(bytes) => Ok(Some(Blob { content_type, bytes })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Unavailable::new(NO_ANSWER, error)),
        }
    }
}

fn open_folder(folder: &Path) -> Result<LocalFileSystem, Box<dyn std::error::Error + Send + Sync>> {
    create_private_folder(folder)?;
    Ok(LocalFileSystem::new_with_prefix(folder)?)
}

/// Creates a folder that only its owner can access.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// The maximum length of a media type. A file name consists of a hash and the encoded media type, and must not exceed
/// 255 bytes.
const MAX_CONTENT_TYPE_BYTES: usize = 100;
/// The maximum size of all images in one model request, in bytes.
const SHOWN_BYTES: usize = 15_000_000;
/// The error message for a failure of the storage.
const NO_ANSWER: &str = "blob storage did not answer";
/// The URL path of blobs.
const ROUTE: &str = "/api/v1/ai/blobs/";

impl BlobStore {
    /// Loads the images that these messages refer to, by URL. Starts with the latest message and stops at the size
    /// limit of one request. An image that cannot be read is omitted, because the model can continue with the text of
    /// the tool result.
    pub async fn images(&self, realm: &RealmScope, messages: &[Message]) -> BTreeMap<String, Image> {
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

async fn read_file(folder: &LocalFileSystem, location: &path::Path) -> object_store::Result<Bytes> {
    folder.get(location).await?.bytes().await
}

/// Writes a file that only its owner can access. Until the mode of the file is set, the mode of its folder protects it.
async fn write_private_file(
    files: &LocalFileSystem,
    location: &path::Path,
    bytes: Bytes,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let file = files.path_to_filesystem(location)?;
    if let Some(folder) = file.parent() {
        create_private_folder(folder)?;
    }
    files.put(location, bytes.into()).await?;
    Ok(fs::set_permissions(&file, Permissions::from_mode(0o600))?)
}

impl ports::BlobStorage for BlobStore {
    fn put<'a>(
        &'a self,
        realm: &'a RealmScope,
        mut payload: Payload,
    ) -> BoxFuture<'a, Result<Attachment, ports::PortError>> {
        Box::pin(async move {
            payload.content_type = short_content_type(payload.content_type);
            let id = id_of(&payload);
            let bytes = payload.bytes.len();
            let location = location_of(realm, &id);
            let stored = match &*self.0 {
                Storage::Folder(files) => write_private_file(files, &location, payload.bytes).await,
                Storage::Bucket(bucket) => bucket.put(&location, payload.bytes).await.map_err(Into::into),
            };
            stored.map_err(|source| ports::PortError { port: "blob storage", source })?;
            Ok(Attachment {
                kind: payload.kind,
                url: format!("{ROUTE}{id}"),
                content_type: Some(payload.content_type),
                bytes: u64::try_from(bytes).ok(),
            })
        })
    }
}

/// Returns a media type that fits into a file name. If the type is too long, its parameters are removed. If it is still
/// too long, it is replaced by `application/octet-stream`. The call that produced the payload has already ended, so the
/// payload is stored even if its media type is unusual.
fn short_content_type(content_type: String) -> String {
    if content_type.len() <= MAX_CONTENT_TYPE_BYTES {
        return content_type;
    }
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.len() <= MAX_CONTENT_TYPE_BYTES { essence.to_owned() } else { "application/octet-stream".to_owned() }
}

/// Returns the id of a payload: the hash of the content, followed by the encoded media type. The id contains the media
/// type, so the storage needs no second object for it.
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

fn location_of(realm: &RealmScope, id: &str) -> path::Path {
    path::Path::from(format!("{}/{id}", realm.realm))
}
