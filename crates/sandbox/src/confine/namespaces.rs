//! A user, a network, a root directory and a host name of its own.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getgid, getuid, pivot_root, sethostname};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};

/// Where code may keep files while it runs: in memory, and gone with the process.
pub(super) const SCRATCH: &str = "/tmp";

/// How much fits in there.
pub(super) const SCRATCH_BYTES: u64 = 32 << 20;

/// The new root is built over a directory that every machine has and that nothing is taken from.
const STAGE: &str = "/proc";

const NOBODY: u32 = 65534;

/// What was entered.
#[derive(Default)]
pub(super) struct Entered {
    pub(super) user: bool,
    pub(super) network: bool,
    pub(super) root: bool,
}

/// Enters what the kernel lets us enter. Whatever fails here is no error: it is not in the result.
pub(super) fn enter(readable: &[PathBuf], scratch: bool) -> Entered {
    let (uid, gid) = (getuid(), getgid());
    let rooms =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    let user = unshare(rooms | CloneFlags::CLONE_NEWUSER).is_ok();
    // In a container, root may have the privilege but no user namespaces.
    if !user && unshare(rooms).is_err() {
        return Entered::default();
    }
    let user = user && become_nobody(uid.as_raw(), gid.as_raw()).is_ok();
    let _ = sethostname("sandbox");
    Entered { user, network: true, root: move_into_own_root(readable, scratch).is_ok() }
}

/// Gives up what root, or the creator of a user namespace, may do beyond others.
pub(super) fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

fn become_nobody(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{NOBODY} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {gid} 1"))
}

fn move_into_own_root(readable: &[PathBuf], scratch: bool) -> io::Result<()> {
    let stage = Path::new(STAGE);
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_with(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    mount_with(Some(Path::new("tmpfs")), stage, Some("tmpfs"), plain, Some("mode=0755,size=256k,nr_inodes=1024"))?;
    let mut exposed: Vec<&Path> = Vec::new();
    for path in readable {
        if !exposed.iter().any(|above| path.starts_with(above)) && expose(path, stage)? {
            exposed.push(path);
        }
    }
    if scratch {
        let target = below(stage, Path::new(SCRATCH));
        fs::create_dir(&target)?;
        let options = format!("mode=0700,size={SCRATCH_BYTES},nr_inodes=4096");
        mount_with(Some(Path::new("tmpfs")), &target, Some("tmpfs"), plain | MsFlags::MS_NOEXEC, Some(&options))?;
    }
    std::env::set_current_dir(stage)?;
    // The old root comes to lie over the new one, and is taken off it.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")?;
    mount_with(None, Path::new("/"), None, plain | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY, None)
}

/// Shows a path in the new root, to be read only. False if there is none on this machine.
fn expose(path: &Path, stage: &Path) -> io::Result<bool> {
    let Ok(kind) = path.symlink_metadata() else { return Ok(false) };
    let target = below(stage, path);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        symlink(fs::read_link(path)?, &target)?;
        return Ok(true);
    }
    if kind.is_dir() {
        fs::create_dir(&target)?;
    } else {
        fs::File::create(&target)?;
    }
    mount_with(Some(path), &target, None, MsFlags::MS_BIND | MsFlags::MS_REC, None)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY | locked(&target)?;
    mount_with(None, &target, None, flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND, None)?;
    Ok(true)
}

/// What the mount has to keep: a user namespace may not take restrictions off it.
fn locked(path: &Path) -> io::Result<MsFlags> {
    let flags = statvfs(path)?.flags();
    let pairs = [
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(has, _)| flags.contains(*has)).map(|(_, keeps)| keeps).collect())
}

fn below(stage: &Path, path: &Path) -> PathBuf {
    stage.join(path.strip_prefix("/").unwrap_or(path))
}

fn mount_with(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    options: Option<&str>,
) -> io::Result<()> {
    Ok(mount(source, target, kind, flags, options)?)
}
