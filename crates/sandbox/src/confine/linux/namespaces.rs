//! Namespaces: a separate user, network, root directory and host name.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getgid, getuid, pivot_root, sethostname};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};

/// The directory in which code may create files. It is in memory and disappears with the process.
pub(super) const SCRATCH_DIR: &str = "/tmp";

/// The capacity of the scratch directory.
pub(super) const SCRATCH_BYTES: u64 = 32 << 20;

/// The mount point on which the new root is built. This directory exists on every machine. The new root contains none
/// of its files.
const NEW_ROOT: &str = "/proc";

const NOBODY: u32 = 65534;

/// The namespaces that were entered.
#[derive(Default)]
pub(super) struct EnteredNamespaces {
    pub(super) user: bool,
    pub(super) network: bool,
    pub(super) root: bool,
}

/// Enters the namespaces that the kernel allows. The result states which namespaces were entered.
pub(super) fn enter(readable: &[PathBuf], scratch: bool) -> EnteredNamespaces {
    let (uid, gid) = (getuid(), getgid());
    let namespaces =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    let user = unshare(namespaces | CloneFlags::CLONE_NEWUSER).is_ok();
    // In a container, root may be allowed to create these namespaces but no user namespace.
    if !user && unshare(namespaces).is_err() {
        return EnteredNamespaces::default();
    }
    let user = user && map_to_nobody(uid.as_raw(), gid.as_raw()).is_ok();
    let _ = sethostname("sandbox");
    EnteredNamespaces { user, network: true, root: pivot_to_new_root(readable, scratch).is_ok() }
}

/// Drops all capabilities, which root and the creator of a user namespace have.
pub(super) fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

fn map_to_nobody(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{NOBODY} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {gid} 1"))
}

fn pivot_to_new_root(readable: &[PathBuf], scratch: bool) -> io::Result<()> {
    let root = Path::new(NEW_ROOT);
    let base_flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_with(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    mount_with(Some(Path::new("tmpfs")), root, Some("tmpfs"), base_flags, Some("mode=0755,size=256k,nr_inodes=1024"))?;
    let mut mounted: Vec<&Path> = Vec::new();
    for path in readable {
        if !mounted.iter().any(|parent| path.starts_with(parent)) && mount_read_only(path, root)? {
            mounted.push(path);
        }
    }
    if scratch {
        let target = join_below(root, Path::new(SCRATCH_DIR));
        fs::create_dir(&target)?;
        let options = format!("mode=0700,size={SCRATCH_BYTES},nr_inodes=4096");
        mount_with(Some(Path::new("tmpfs")), &target, Some("tmpfs"), base_flags | MsFlags::MS_NOEXEC, Some(&options))?;
    }
    std::env::set_current_dir(root)?;
    // `pivot_root` mounts the old root on top of the new one. Then `umount2` detaches the old root.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")?;
    mount_with(
        None,
        Path::new("/"),
        None,
        base_flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY,
        None,
    )
}

/// Mounts a path into the new root, read-only. A symlink is recreated instead. Returns false if this machine does not
/// have the path.
fn mount_read_only(path: &Path, root: &Path) -> io::Result<bool> {
    let Ok(kind) = path.symlink_metadata() else { return Ok(false) };
    let target = join_below(root, path);
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
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY | locked_flags(&target)?;
    mount_with(None, &target, None, flags | MsFlags::MS_REMOUNT | MsFlags::MS_BIND, None)?;
    Ok(true)
}

/// Returns the flags that a remount must keep, because a user namespace cannot remove restrictions of a mount. The kernel
/// keeps `relatime` by itself.
fn locked_flags(path: &Path) -> io::Result<MsFlags> {
    let flags = statvfs(path)?.flags();
    let pairs = [
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
    ];
    Ok(pairs.into_iter().filter(|(present, _)| flags.contains(*present)).map(|(_, mount_flag)| mount_flag).collect())
}

fn join_below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
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
