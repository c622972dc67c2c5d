//! Reserves disk space for the start of a server.
//!
//! SQLite needs disk space to open a database, even if the server then only reads. The reserve is a file in the data
//! folder. A server deletes the file before it opens the database, and writes the file again afterwards. So a server
//! can start on a full disk and serve reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The size of the reserve. It is several times what is needed for SQLite's shared-memory file and for the rows that a
/// server writes when it starts.
const RESERVE_BYTES: usize = 256 * 1024;
const CHUNK_BYTES: usize = 4096;

/// The file that reserves disk space.
pub(crate) struct DiskReserve(PathBuf);

impl DiskReserve {
    /// Deletes the file, so that the server can use its space.
    pub(crate) fn release(data: &Path) -> Self {
        let path = data.join("reserve");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "the reserved disk space cannot be released");
            }
            _ => {}
        }
        Self(path)
    }

    /// Writes the file again. If the disk does not have enough free space, the file is smaller.
    pub(crate) fn restore(&self) {
        if let Err(error) = self.fill() {
            tracing::warn!(%error, path = %self.0.display(), "the disk has no space left to reserve; writes will fail");
        }
    }

    fn fill(&self) -> io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.0)?;
        // The file is written in chunks, so that it uses the free space even if there is too little for the whole file.
        (0..RESERVE_BYTES / CHUNK_BYTES).try_for_each(|_| file.write_all(&[0; CHUNK_BYTES]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_reserve_takes_no_space_between_release_and_restore() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("reserve");
        for _ in 0..2 {
            let reserve = DiskReserve::release(folder.path());
            assert!(!file.exists());
            reserve.restore();
            assert_eq!(fs::metadata(&file).unwrap().len(), u64::try_from(RESERVE_BYTES).unwrap());
        }
    }
}
