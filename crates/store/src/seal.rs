//! The key that secrets are sealed with, and sealing itself. Knows nothing of rows: what a sealed value is
//! bound to comes from the caller as text.

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

/// A 256-bit key. Lost, the secrets sealed with it are lost; so it is backed up apart from the database.
pub struct SealKey {
    cipher: Aes256Gcm,
    id: String,
    /// Derived, so that what is signed with it says nothing of the key itself.
    signing: Zeroizing<[u8; KEY_BYTES]>,
}

/// Why there is no key to seal with.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    /// The file cannot be read.
    #[error("read seal key `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("create seal key `{}`", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others than the owner may read the file.
    #[error("seal key `{path}` has mode {mode:03o}; only its owner may have access: run `chmod 600 {path}`", path = path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Not 32 bytes.
    #[error("a seal key has 32 bytes, this one has {0}")]
    Length(usize),
    /// Not base64.
    #[error("the seal key is not base64; make one with `openssl rand -base64 32`")]
    NotBase64,
    /// The system has no random numbers to give.
    #[error("draw random bytes")]
    Random(#[source] rand::rngs::SysError),
}

impl SealKey {
    /// The key in a file of 32 bytes that only its owner may read. A missing file is made with a random key.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SealKeyError> {
        let path = path.as_ref();
        match File::open(path) {
            Ok(file) => read_key(path, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_key(path),
            Err(source) => Err(SealKeyError::Read { path: path.to_owned(), source }),
        }
    }

    /// The key written as base64, as in an environment variable.
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

    /// A key for signing what clients carry back and forth; all servers with the same seal key have it.
    pub fn signing_key(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        self.signing.clone()
    }

    /// Tells keys apart without giving anything of them away.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Nonce, ciphertext and tag; opens only with the same `bound_to`.
    pub(crate) fn seal(&self, value: &SecretString, bound_to: &str) -> Result<Vec<u8>, SealFailed> {
        // 96 random bits: a repetition becomes likely only after some 2^32 writes with one key.
        let mut nonce = [0; NONCE_BYTES];
        SysRng.try_fill_bytes(&mut nonce).map_err(|_| SealFailed)?;
        let payload = Payload { msg: value.expose_secret().as_bytes(), aad: bound_to.as_bytes() };
        let ciphertext = self.cipher.encrypt(&nonce.into(), payload).map_err(|_| SealFailed)?;
        Ok([nonce.as_slice(), &ciphertext].concat())
    }

    pub(crate) fn open(&self, sealed: &[u8], bound_to: &str) -> Result<SecretString, SealFailed> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(SealFailed)?;
        let payload = Payload { msg: ciphertext, aad: bound_to.as_bytes() };
        let plain = Zeroizing::new(self.cipher.decrypt(&(*nonce).into(), payload).map_err(|_| SealFailed)?);
        std::str::from_utf8(&plain).map(SecretString::from).map_err(|_| SealFailed)
    }
}

/// Sealing or opening failed; the cipher does not say why, on purpose.
#[derive(Debug)]
pub(crate) struct SealFailed;

/// Shows which key it is, never the key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn read_key(path: &Path, file: File) -> Result<SealKey, SealKeyError> {
    let failed = |source| SealKeyError::Read { path: path.to_owned(), source };
    refuse_if_open_to_others(path, &file.metadata().map_err(failed)?)?;
    // One byte more than a key has is enough to see that a file is no key.
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
    // Secrets sealed with a key that a power cut takes away could never be opened again.
    file.write_all(bytes.as_slice()).and_then(|()| file.sync_all()).map_err(failed)?;
    #[cfg(unix)]
    File::open(folder_of(path)).and_then(|folder| folder.sync_all()).map_err(failed)?;
    SealKey::from_bytes(bytes.as_slice())
}

#[cfg(unix)]
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn refuse_if_open_to_others(path: &Path, metadata: &std::fs::Metadata) -> Result<(), SealKeyError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 { Ok(()) } else { Err(SealKeyError::TooOpen { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn refuse_if_open_to_others(_: &Path, _: &std::fs::Metadata) -> Result<(), SealKeyError> {
    Ok(())
}
