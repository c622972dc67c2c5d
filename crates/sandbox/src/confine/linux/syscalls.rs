//! Lists of system calls, by purpose. Calls that do not exist on every architecture are compiled conditionally.

use nix::libc::*;

/// Calls that every worker needs: memory, threads, time, and I/O on open pipes.
#[rustfmt::skip]
pub(super) const BASE: &[i64] = &[
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_close, SYS_fstat, SYS_lseek, SYS_fcntl, SYS_ppoll,
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_membarrier, SYS_getrandom,
    SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_sched_yield, SYS_sched_getaffinity, SYS_getcpu,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_getpid, SYS_gettid,
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_restart_syscall,
    SYS_exit, SYS_exit_group,
    #[cfg(target_arch = "x86_64")] SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")] SYS_poll,
    #[cfg(target_arch = "x86_64")] SYS_time,
];

/// Further calls that CPython and its standard library need. Landlock controls file access. So this list omits file
/// calls that Landlock does not control. The omitted calls change the owners, permissions, times or attributes of
/// files, or bypass Landlock's path rules.
#[rustfmt::skip]
pub(super) const PYTHON: &[i64] = &[
    SYS_execve,
    SYS_openat, SYS_pread64, SYS_pwrite64, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat,
    SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_symlinkat,
    SYS_ftruncate, SYS_fsync, SYS_fdatasync, SYS_flock, SYS_fstatfs, SYS_statfs, SYS_umask, SYS_sendfile, SYS_copy_file_range,
    SYS_fadvise64, SYS_msync, SYS_dup, SYS_dup3, SYS_pipe2,
    SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2,
    SYS_sendto, SYS_recvfrom, SYS_getsockname, SYS_getsockopt, SYS_shutdown,
    SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_setitimer, SYS_getitimer,
    SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getgroups, SYS_getresuid, SYS_getresgid,
    SYS_uname, SYS_sysinfo, SYS_times, SYS_getrusage, SYS_wait4,
    #[cfg(target_arch = "x86_64")] SYS_open,
    #[cfg(target_arch = "x86_64")] SYS_stat,
    #[cfg(target_arch = "x86_64")] SYS_lstat,
    #[cfg(target_arch = "x86_64")] SYS_access,
    #[cfg(target_arch = "x86_64")] SYS_readlink,
    #[cfg(target_arch = "x86_64")] SYS_mkdir,
    #[cfg(target_arch = "x86_64")] SYS_rmdir,
    #[cfg(target_arch = "x86_64")] SYS_unlink,
    #[cfg(target_arch = "x86_64")] SYS_rename,
    #[cfg(target_arch = "x86_64")] SYS_symlink,
    #[cfg(target_arch = "x86_64")] SYS_dup2,
    #[cfg(target_arch = "x86_64")] SYS_pipe,
    #[cfg(target_arch = "x86_64")] SYS_select,
    #[cfg(target_arch = "x86_64")] SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")] SYS_alarm,
    #[cfg(target_arch = "x86_64")] SYS_pause,
    #[cfg(target_arch = "x86_64")] SYS_getpgrp,
];

/// Calls that the libraries of an embedded interpreter make but do not depend on. They fail with `EPERM`. `seccomp` is
/// on this list, because no further filter may be installed.
#[rustfmt::skip]
pub(super) const DENIED_WITH_EPERM: &[i64] = &[
    SYS_openat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getcwd, SYS_ioctl, SYS_uname,
    SYS_sysinfo, SYS_socket, SYS_prctl, SYS_seccomp,
    #[cfg(target_arch = "x86_64")] SYS_open,
    #[cfg(target_arch = "x86_64")] SYS_stat,
    #[cfg(target_arch = "x86_64")] SYS_lstat,
    #[cfg(target_arch = "x86_64")] SYS_access,
    #[cfg(target_arch = "x86_64")] SYS_readlink,
];

/// Calls that fail with `ENOSYS`. A filter cannot check the flags of `clone3`, because they are passed by pointer.
/// Without `clone3` the C library uses `clone`. Without `memfd_create` the WASM runtime does not keep the memory of
/// modules in a file.
pub(super) const DENIED_WITH_ENOSYS: &[i64] = &[SYS_clone3, SYS_memfd_create];

/// The allowed `ioctl` requests: terminal attributes and size, the number of readable bytes, and the non-blocking and
/// close-on-exec flags.
pub(super) const IOCTL_REQUESTS: [Ioctl; 6] = [TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX];

/// The allowed `prctl` options: names of threads and of memory mappings.
pub(super) const PRCTL_OPTIONS: &[u64] = &[PR_SET_NAME as u64, PR_GET_NAME as u64, PR_SET_VMA as u64];
