//! Encrypts and decrypts secrets with the seal key (authenticated encryption). The caller supplies the associated data
//! as text; this module does not access the database.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::TryRng as _;
use rand::rngs::SysRng;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;

/// The 256-bit key that encrypts secrets. If the key is lost, the sealed secrets are lost, so back it up separately
/// from the database.
pub struct SealKey {
    cipher: Aes256Gcm,
    id: String,
    /// The signing key. It is derived from the seal key, so that signatures reveal nothing about the seal key.
    signing: Zeroizing<[u8; KEY_BYTES]>,
}

/// The reason why the seal key cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    /// The file cannot be read.
    #[error("read seal key `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file cannot be created.
    #[error("create seal key `{}`", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Users other than the file's owner have access to the file.
    #[error("seal key `{path}` must be accessible by its owner only, got mode {mode:03o}; run `chmod 600 {path}`", path = path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// The key does not have 32 bytes.
    #[error("seal key must have 32 bytes, got {0}")]
    Length(usize),
    /// The key is not base64.
    #[error("seal key must be base64; create one with `openssl rand -base64 32`")]
    NotBase64,
    /// The operating system provides no random bytes.
    #[error("read random bytes")]
    Random(#[source] rand::rngs::SysError),
}

impl SealKey {
    /// Reads the key from a file of 32 bytes that only the file's owner can access. Creates the file with a random key
    /// if it does not exist.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SealKeyError> {
        let path = path.as_ref();
        match File::open(path) {
            Ok(file) => read_key(path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_key(path),
            Err(source) => Err(SealKeyError::Read { path: path.to_owned(), source }),
        }
    }

    /// Parses a key in base64, for example from an environment variable.
    pub fn from_base64(text: &str) -> Result<Self, SealKeyError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| SealKeyError::NotBase64)?);
        Self::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, SealKeyError> {
        let cipher = Aes256Gcm::new_from_slice(bytes).map_err(|_| SealKeyError::Length(bytes.len()))?;
        let digest = Sha256::new().chain_update("toolwright seal key").chain_update(bytes).finalize();
        let id = data_encoding::HEXLOWER.encode(digest.get(..8).unwrap_or_default());
        let signing = Sha256::new().chain_update("toolwright signing key").chain_update(bytes).finalize();
        Ok(Self { cipher, id, signing: Zeroizing::new(signing.into()) })
    }

    /// Returns the key that signs data which clients send back unchanged, such as tokens. All servers with the same
    /// seal key derive the same signing key.
    pub fn signing_key(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        self.signing.clone()
    }

    /// Returns an id of the key that does not reveal the key.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts a value. The result consists of nonce, ciphertext and authentication tag. Decryption requires the same
    /// associated data.
    pub(crate) fn seal(&self, value: &SecretString, associated_data: &str) -> Result<Vec<u8>, SealFailed> {
        // The nonce has 96 random bits. A repeated nonce is very unlikely before about 2^32 writes with one key.
        let mut nonce = [0; NONCE_BYTES];
        SysRng.try_fill_bytes(&mut nonce).map_err(|_| SealFailed)?;
        let payload = Payload { msg: value.expose_secret().as_bytes(), aad: associated_data.as_bytes() };
        let ciphertext = self.cipher.encrypt(&nonce.into(), payload).map_err(|_| SealFailed)?;
        Ok([nonce.as_slice(), &ciphertext].concat())
    }

    pub(crate) fn open(&self, sealed: &[u8], associated_data: &str) -> Result<SecretString, SealFailed> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(SealFailed)?;
        let payload = Payload { msg: ciphertext, aad: associated_data.as_bytes() };
        let plain = Zeroizing::new(self.cipher.decrypt(&(*nonce).into(), payload).map_err(|_| SealFailed)?);
        std::str::from_utf8(&plain).map(SecretString::from).map_err(|_| SealFailed)
    }
}

/// Encryption or decryption failed. The cipher reports no reason, because a reason could help an attacker.
#[derive(Debug)]
pub(crate) struct SealFailed;

/// Shows the id of the key, never the key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn read_key(path: &Path, file: File) -> Result<SealKey, SealKeyError> {
    let failed = |source| SealKeyError::Read { path: path.to_owned(), source };
    check_permissions(path, &file.metadata().map_err(failed)?)?;
    // Read at most one byte more than the length of a key. This is enough to detect a file that is too long.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    SealKey::from_bytes(&bytes)
}

fn create_key(path: &Path) -> Result<SealKey, SealKeyError> {
    let failed = |source| SealKeyError::Create { path: path.to_owned(), source };
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    SysRng.try_fill_bytes(bytes.as_mut_slice()).map_err(SealKeyError::Random)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    // Sync the file and its directory to disk. If a power failure deleted the key, all secrets sealed with it would be
    // lost.
    file.write_all(bytes.as_slice()).and_then(|()| file.sync_all()).map_err(failed)?;
    #[cfg(unix)]
    File::open(parent_dir(path)).and_then(|folder| folder.sync_all()).map_err(failed)?;
    SealKey::from_bytes(bytes.as_slice())
}

#[cfg(unix)]
fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn check_permissions(path: &Path, metadata: &std::fs::Metadata) -> Result<(), SealKeyError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(SealKeyError::TooOpen { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_permissions(_: &Path, _: &std::fs::Metadata) -> Result<(), SealKeyError> {
    Ok(())
}
