//! `toolwright backup` and `toolwright restore`: copy the data folder of a server that uses SQLite.
//!
//! Both commands work on files and need no server. A backup can be made while the server runs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::cli::pluralize;
use crate::serve::create_private_dir;

const DATABASE: &str = "toolwright.db";
const SEAL_KEY: &str = "seal.key";
const BLOBS: &str = "blobs";

/// Arguments of `backup`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    /// Folder to create for the backup
    target: PathBuf,
    /// Data directory of the server
    #[arg(long, value_name = "DIR", env = "TOOLWRIGHT_DATA", default_value = "./toolwright-data")]
    data: PathBuf,
    /// Also copy the seal key, which opens the secrets; without this option, keep a copy of it elsewhere
    #[arg(long)]
    with_seal_key: bool,
}

/// Arguments of `restore`.
#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    /// Folder of the backup
    backup: PathBuf,
    /// Data directory to create
    #[arg(long, value_name = "DIR", env = "TOOLWRIGHT_DATA", default_value = "./toolwright-data")]
    data: PathBuf,
    /// File with the seal key, if the backup has none
    #[arg(long, value_name = "FILE")]
    seal_key: Option<PathBuf>,
}

/// Writes a backup of the data folder.
pub(crate) async fn back_up(args: BackupArgs) -> anyhow::Result<()> {
    let database = args.data.join(DATABASE);
    ensure!(
        database.is_file(),
        "`{}` does not exist; name the data directory with --data, or use pg_dump if the server uses Postgres",
        database.display()
    );
    let draft = Draft::new(&args.target)?;
    toolwright_store::copy_sqlite(&database, &draft.path.join(DATABASE)).await?;
    // The blobs are copied after the database, because a server writes a blob before the journal entry that names it.
    // So the backup has every blob that its database names.
    let blobs = copy_folder(&args.data.join(BLOBS), &draft.path.join(BLOBS))?;
    if args.with_seal_key {
        copy_file(&args.data.join(SEAL_KEY), &draft.path.join(SEAL_KEY))?;
    }
    toolwright_store::check_sqlite(&draft.path.join(DATABASE)).await?;
    let target = draft.publish()?;
    let key = if args.with_seal_key { "" } else { "; the seal key is not in it: keep a copy elsewhere" };
    report(&format!("backup `{}` has the database and {}{key}", target.display(), pluralize(blobs, "blob")))
}

/// Creates a data folder from a backup.
pub(crate) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let database = args.backup.join(DATABASE);
    ensure!(database.is_file(), "`{}` is not a backup: it has no {DATABASE}", args.backup.display());
    toolwright_store::check_sqlite(&database).await?;
    let seal_key = args.seal_key.or_else(|| Some(args.backup.join(SEAL_KEY)).filter(|path| path.is_file()));
    let draft = Draft::new(&args.data)?;
    toolwright_store::copy_sqlite(&database, &draft.path.join(DATABASE)).await?;
    let blobs = copy_folder(&args.backup.join(BLOBS), &draft.path.join(BLOBS))?;
    if let Some(path) = &seal_key {
        copy_file(path, &draft.path.join(SEAL_KEY))?;
    }
    let target = draft.publish()?;
    let key = match seal_key {
        Some(_) => "",
        None => "; it has no seal key: set TOOLWRIGHT_SEAL_KEY or copy seal.key into it before you start the server",
    };
    report(&format!("data folder `{}` has the database and {}{key}", target.display(), pluralize(blobs, "blob")))
}

/// A folder that gets its final name when it is complete. If the value is dropped before that, the folder is removed.
struct Draft {
    path: PathBuf,
    target: PathBuf,
}

impl Draft {
    fn new(target: &Path) -> anyhow::Result<Self> {
        ensure!(!target.exists(), "`{}` exists; name a folder that does not exist yet", target.display());
        let mut name = target.as_os_str().to_owned();
        name.push(".unfinished");
        let path = PathBuf::from(name);
        create_private_dir(&path).with_context(|| format!("create `{}`", path.display()))?;
        Ok(Self { path, target: target.to_owned() })
    }

    fn publish(self) -> anyhow::Result<PathBuf> {
        let target = self.target.clone();
        fs::rename(&self.path, &target).with_context(|| format!("create `{}`", target.display()))?;
        Ok(target)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Copies a folder and returns the number of files. A folder that does not exist counts as empty.
fn copy_folder(source: &Path, target: &Path) -> anyhow::Result<u64> {
    create_private_dir(target).with_context(|| format!("create `{}`", target.display()))?;
    let entries = match fs::read_dir(source) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error).with_context(|| format!("read `{}`", source.display())),
    };
    let mut count = 0;
    for entry in entries {
        let entry = entry.with_context(|| format!("read `{}`", source.display()))?;
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            count += copy_folder(&from, &to)?;
        } else if kind.is_file() {
            count += u64::from(copy_file_if_present(&from, &to)?);
        } else {
            bail!("`{}` is neither a file nor a folder", from.display());
        }
    }
    Ok(count)
}

fn copy_file(source: &Path, target: &Path) -> anyhow::Result<()> {
    ensure!(copy_file_if_present(source, target)?, "`{}` does not exist", source.display());
    Ok(())
}

/// Copies a file. Only the owner can read the copy. Returns false if the source does not exist, for example because the
/// server has deleted it since the folder was listed.
fn copy_file_if_present(source: &Path, target: &Path) -> anyhow::Result<bool> {
    let mut from = match fs::File::open(source) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(|| format!("read `{}`", source.display())),
    };
    let context = || format!("write `{}`", target.display());
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target).with_context(context)?;
    io::copy(&mut from, &mut to).with_context(context)?;
    to.sync_all().with_context(context)?;
    Ok(true)
}

fn report(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("print the result")
}
