//! The attempted attacks and their expected outcomes.

use toolwright_sandbox::Limit;

/// An attempted attack.
pub(crate) struct Attempt {
    pub name: &'static str,
    pub code: &'static str,
    pub expect: Expect,
}

/// The expected outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Expect {
    /// The code returns this value, as JSON.
    Returns(&'static str),
    /// The code raises one of these exceptions.
    Raises(&'static [&'static str]),
    /// The job fails with a message that contains this text: the interpreter exited, or the server rejected its
    /// message.
    Fails(&'static str),
    /// The code exceeds one of these limits.
    Exceeds(&'static [Limit]),
    /// The code fails. How it fails depends on the version of Python.
    AnyFailure,
}

/// The code before each attempt. `syscall` returns the return value of the system call, and `errno`.
pub(crate) const PREAMBLE: &str = "
import ctypes, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    returned = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return [returned, ctypes.get_errno()]
# A name that no other program uses. Without namespaces, the scratch directory is that of the machine.
scratch = f'/tmp/toolwright-{time.monotonic_ns()}'
def frame(body):
    return len(body).to_bytes(4, 'big') + body
def to_server(data):
    for fd in range(3, 12):
        try:
            os.write(fd, data)
        except OSError:
            pass
";

/// The file does not exist or is not accessible, depending on which mechanism applies first.
const NO_FILE: Expect = Expect::Raises(&["FileNotFoundError", "PermissionError"]);
const NO_WRITE: Expect = Expect::Raises(&["FileNotFoundError", "PermissionError", "OSError"]);
const NOT_PERMITTED: Expect = Expect::Raises(&["PermissionError"]);
/// The system call returns -1 and sets `errno` to `EPERM`.
const REFUSED: Expect = Expect::Returns("[-1, 1]");
const TIME: Expect = Expect::Exceeds(&[Limit::Time]);
const MEMORY: Expect = Expect::Exceeds(&[Limit::Memory]);
const OUTPUT: Expect = Expect::Exceeds(&[Limit::Output]);

const fn attempt(name: &'static str, code: &'static str, expect: Expect) -> Attempt {
    Attempt { name, code, expect }
}

/// Returns all attempts.
pub(crate) fn attempts() -> impl Iterator<Item = Attempt> {
    let groups = [files(), network(), processes(), kernel(), memory(), time(), output(), protocol(), termination()];
    groups.into_iter().flatten()
}

#[rustfmt::skip]
fn files() -> Vec<Attempt> {
    vec![
        attempt("read /etc/passwd", "open('/etc/passwd').read()", NO_FILE),
        attempt("read /etc/shadow", "open('/etc/shadow').read()", NO_FILE),
        attempt("read a home directory", "open(os.path.expanduser('/root/.bashrc')).read()", NO_FILE),
        attempt("read own memory", "open('/proc/self/mem', 'rb').read(1)", NO_FILE),
        attempt("read the environment of others", "open('/proc/1/environ').read()", NO_FILE),
        attempt("read the environment of the server", "open(f'/proc/{os.getppid()}/environ').read()", NO_FILE),
        attempt("read the memory of the server", "open(f'/proc/{os.getppid()}/mem', 'rb')", NO_FILE),
        attempt("list processes", "os.listdir('/proc')", NO_FILE),
        attempt("list the root", "os.listdir('/')", NO_FILE),
        attempt("list homes", "os.listdir('/root')", NO_FILE),
        attempt("open the server's descriptors", "for fd in range(64): open(f'/proc/{os.getppid()}/fd/{fd}', 'rb')", NO_FILE),
        attempt("read physical memory", "open('/dev/mem', 'rb')", NO_FILE),
        attempt("traverse out of an absolute path", "open('/usr/lib/../../etc/passwd')", NO_FILE),
        attempt("traverse out of the working directory", "open('../../../../etc/passwd')", NO_FILE),
        attempt("write a library", "open('/usr/lib/evil.so', 'w')", NO_WRITE),
        attempt("write to the standard library", "open(os.__file__, 'a')", NO_WRITE),
        attempt("create a directory in the standard library", "os.mkdir(os.path.dirname(os.__file__) + '/evil')", NO_WRITE),
        attempt("write at the root", "open('/evil', 'w')", NO_WRITE),
        attempt("write shared memory", "open('/dev/shm/x', 'w')", NO_FILE),
        attempt("remove a library file", "os.unlink(os.__file__)", NO_WRITE),
        attempt("move a library file", "os.rename(os.__file__, scratch)", NO_WRITE),
        attempt("follow a symlink out", "os.symlink('/etc/passwd', scratch)\nopen(scratch).read()", NO_FILE),
        attempt("hard-link a file in", "os.link('/etc/passwd', scratch)", NO_FILE),
        attempt("change permissions", "os.chmod(sys.executable, 0o777)", NOT_PERMITTED),
        attempt("change owners", "os.chown(sys.executable, 0, 0)", NOT_PERMITTED),
        attempt("change times", "os.utime(sys.executable, (0, 0))", NOT_PERMITTED),
        attempt("change extended attributes", "os.setxattr(sys.executable, 'user.x', b'')", NOT_PERMITTED),
        attempt("truncate by path", "os.truncate(os.__file__, 0)", NOT_PERMITTED),
        attempt("make a device", "os.mknod(scratch, 0o60600, os.makedev(8, 0))", NOT_PERMITTED),
        attempt("change the root", "os.chroot('/tmp')", NOT_PERMITTED),
        attempt("fill the scratch directory with one file", "f = open(scratch, 'wb', 0)\nwhile True: f.write(b'x' * (1 << 20))", NO_WRITE),
        attempt("fill the scratch directory with directories", "while True: os.mkdir(f'/tmp/{time.monotonic_ns()}')", NO_WRITE),
        attempt("fill the scratch directory with many files", "n = 0\nwhile True:\n  n += 1\n  open(f'{scratch}-{n}', 'wb').write(b'x' * (8 << 20))", NO_WRITE),
        attempt("read the environment variables", "dict(os.environ)", Expect::Returns("{}")),
    ]
}

#[rustfmt::skip]
fn network() -> Vec<Attempt> {
    vec![
        attempt("tcp", "socket.socket()", NOT_PERMITTED),
        attempt("tcp over IPv6", "socket.socket(socket.AF_INET6)", NOT_PERMITTED),
        attempt("udp", "socket.socket(type=socket.SOCK_DGRAM)", NOT_PERMITTED),
        attempt("unix socket", "socket.socket(socket.AF_UNIX)", NOT_PERMITTED),
        attempt("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", NOT_PERMITTED),
        attempt("raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", NOT_PERMITTED),
        attempt("packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", NOT_PERMITTED),
        attempt("vsock", "socket.socket(socket.AF_VSOCK)", NOT_PERMITTED),
        attempt("kernel crypto socket", "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)", NOT_PERMITTED),
        attempt("datagram socket pair", "socket.socketpair(type=socket.SOCK_DGRAM)", NOT_PERMITTED),
        attempt("socket pair of another family", "socket.socketpair(socket.AF_INET)", NOT_PERMITTED),
        attempt("pass a file descriptor", "a, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [1])", NOT_PERMITTED),
        attempt("resolve a name", "socket.getaddrinfo('example.com', 80)", Expect::Raises(&["gaierror", "PermissionError", "OSError"])),
        attempt("http", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/')", Expect::Raises(&["URLError"])),
        attempt("listen", "import http.server as h\nh.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)", NOT_PERMITTED),
        attempt("asyncio", "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', 1))", NOT_PERMITTED),
    ]
}

#[rustfmt::skip]
fn processes() -> Vec<Attempt> {
    vec![
        attempt("run a command", "import subprocess\nsubprocess.run(['/bin/ls'])", NO_FILE),
        attempt("run its own executable", "import subprocess\nsubprocess.run([sys.executable, '-c', ''])", NOT_PERMITTED),
        attempt("run a shell", "os.system('true') == 0", Expect::Returns("false")),
        attempt("spawn", "os.posix_spawn(sys.executable, [sys.executable], {})", NOT_PERMITTED),
        attempt("fork", "os.fork()", NOT_PERMITTED),
        attempt("a fork bomb", "while True: os.fork()", NOT_PERMITTED),
        attempt("a fork bomb that catches errors", "while True:\n  try: os.fork()\n  except OSError: pass", TIME),
        attempt("a pseudo terminal", "import pty\npty.fork()", Expect::Raises(&["PermissionError", "OSError", "FileNotFoundError"])),
        attempt("multiprocessing", "import multiprocessing as m\np = m.get_context('fork').Process(target=print)\np.start()", NOT_PERMITTED),
        attempt("exec a shell", "os.execv('/bin/sh', ['sh', '-c', 'id'])", NO_FILE),
        attempt("exec a new Python", "os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', '1'])", Expect::Fails("the interpreter exited")),
        attempt("a program in a memfd", "os.memfd_create('x')", Expect::Raises(&["OSError"])),
        attempt("exec a program in the scratch directory", "import shutil\nshutil.copyfile(sys.executable, scratch)\nos.execv(scratch, ['x'])", NO_WRITE),
        attempt("a thread bomb", "import threading\ne = threading.Event()\nwhile True: threading.Thread(target=e.wait, daemon=True).start()", Expect::AnyFailure),
        attempt("kill the server", "os.kill(os.getppid(), signal.SIGKILL)", NOT_PERMITTED),
        attempt("probe the server", "os.kill(os.getppid(), 0)", NOT_PERMITTED),
        attempt("kill all processes", "os.kill(-1, signal.SIGKILL)", NOT_PERMITTED),
        attempt("kill its process group", "os.killpg(0, signal.SIGTERM)", NOT_PERMITTED),
        attempt("kill itself with SIGKILL", "os.kill(os.getpid(), signal.SIGKILL)", NOT_PERMITTED),
        attempt("start a new session", "os.setsid()", NOT_PERMITTED),
        attempt("join another process group", "os.setpgid(0, os.getppid())", NOT_PERMITTED),
        attempt("open a pidfd of the server", "os.pidfd_open(os.getppid())", NOT_PERMITTED),
        attempt("change the limits of the server", "import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1))", NOT_PERMITTED),
        attempt("raise its own limits", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", Expect::Raises(&["ValueError"])),
        attempt("raise its priority", "os.nice(-5)", NOT_PERMITTED),
        attempt("real-time scheduling", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", NOT_PERMITTED),
        attempt("set its CPU affinity", "os.sched_setaffinity(0, {0})", NOT_PERMITTED),
        attempt("become root", "os.setuid(0)", NOT_PERMITTED),
        attempt("set the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)", NOT_PERMITTED),
        attempt("set the host name", "socket.sethostname('evil')", NOT_PERMITTED),
    ]
}

/// These attacks make system calls by number, because Python has no functions for them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
fn kernel() -> Vec<Attempt> {
    vec![
        attempt("vfork", "syscall(58)", REFUSED),
        attempt("clone without a thread", "syscall(56, 17, 0, 0, 0, 0)", REFUSED),
        attempt("clone3", "syscall(435, 0, 0)", Expect::Returns("[-1, 38]")),
        attempt("ptrace", "syscall(101, 0, 0, 0, 0)", REFUSED),
        attempt("process_vm_readv", "syscall(310, os.getppid(), 0, 0, 0, 0, 0)", REFUSED),
        attempt("process_vm_writev", "syscall(311, os.getppid(), 0, 0, 0, 0, 0)", REFUSED),
        attempt("mount", "syscall(165, 0, 0, 0, 0, 0)", REFUSED),
        attempt("umount", "syscall(166, 0, 0)", REFUSED),
        attempt("open_tree", "syscall(428, 0, 0, 0)", REFUSED),
        attempt("fsopen", "syscall(430, 0, 0)", REFUSED),
        attempt("pivot_root", "syscall(155, 0, 0)", REFUSED),
        attempt("unshare", "syscall(272, 0x10000000)", REFUSED),
        attempt("setns", "syscall(308, 0, 0)", REFUSED),
        attempt("bpf", "syscall(321, 0, 0, 0)", REFUSED),
        attempt("perf_event_open", "syscall(298, 0, 0, 0, 0, 0)", REFUSED),
        attempt("io_uring_setup", "syscall(425, 1, 0)", REFUSED),
        attempt("userfaultfd", "syscall(323, 0)", REFUSED),
        attempt("add_key", "syscall(248, 0, 0, 0, 0, 0)", REFUSED),
        attempt("request_key", "syscall(249, 0, 0, 0, 0)", REFUSED),
        attempt("keyctl", "syscall(250, 0, 0)", REFUSED),
        attempt("kexec_load", "syscall(246, 0, 0, 0, 0)", REFUSED),
        attempt("init_module", "syscall(175, 0, 0, 0)", REFUSED),
        attempt("reboot", "syscall(169, 0xfee1dead, 672274793, 0x1234567)", REFUSED),
        attempt("swapon", "syscall(167, 0, 0)", REFUSED),
        attempt("acct", "syscall(163, 0)", REFUSED),
        attempt("iopl", "syscall(172, 3)", REFUSED),
        attempt("modify_ldt", "syscall(154, 0, 0, 0)", REFUSED),
        attempt("personality", "syscall(135, 0x0040000)", REFUSED),
        attempt("open_by_handle_at", "syscall(304, 0, 0, 0)", REFUSED),
        attempt("pidfd_getfd", "syscall(438, 0, 0, 0)", REFUSED),
        attempt("kcmp", "syscall(312, 0, 0, 0, 0, 0)", REFUSED),
        attempt("shmget", "syscall(29, 0, 1 << 30, 0o1600)", REFUSED),
        attempt("mq_open", "syscall(240, 0, 0, 0, 0)", REFUSED),
        attempt("fanotify_init", "syscall(300, 0, 0)", REFUSED),
        attempt("syslog", "syscall(103, 3, 0, 0)", REFUSED),
        attempt("prctl other than names", "syscall(157, 4, 1, 0, 0, 0)", REFUSED),
        attempt("seccomp", "syscall(317, 1, 0, 0)", REFUSED),
        attempt("socket with an x32 syscall number", "syscall(0x40000000 + 41, 2, 1, 0)", REFUSED),
        attempt("ioctl TIOCSTI", "syscall(16, 2, 0x5412, 0)", REFUSED),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn kernel() -> Vec<Attempt> {
    vec![]
}

#[rustfmt::skip]
fn memory() -> Vec<Attempt> {
    vec![
        attempt("a large buffer", "bytearray(1 << 30)", MEMORY),
        attempt("a large string", "'x' * (1 << 34)", MEMORY),
        attempt("a list that doubles", "x = [1]\nwhile True: x = x + x", MEMORY),
        attempt("many small objects", "x = []\nwhile True: x.append({})", MEMORY),
        attempt("many small objects, errors caught", "x = []\nwhile True:\n  try: x.append({})\n  except MemoryError: pass", Expect::AnyFailure),
        // This is not an attack: the documentation states that it is possible.
        attempt("writable and executable memory", "import mmap\nlen(mmap.mmap(-1, 4096, prot=7))", Expect::Returns("4096")),
        attempt("a large mapping", "import mmap\nmmap.mmap(-1, 1 << 30)", Expect::Raises(&["OSError"])),
        attempt("recursion", "def f(): f()\nf()", Expect::Exceeds(&[Limit::Depth])),
        attempt("recursion with its limit raised", "sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", Expect::AnyFailure),
        attempt("a huge integer", "1 << (1 << 34)", MEMORY),
        attempt("sorting an infinite iterator", "sorted(iter(int, 1))", MEMORY),
        attempt("deeply nested code", "eval('(' * 5000 + ')' * 5000)", Expect::Raises(&["SyntaxError", "MemoryError"])),
        attempt("a decompression bomb", "import zlib\nx = zlib.compress(bytes(1 << 20) * 30)\nx = [zlib.decompress(x) for _ in range(100)]", MEMORY),
        attempt("many file descriptors", "x = [os.pipe() for _ in range(100_000)]", Expect::Raises(&["OSError"])),
        attempt("duplicates of a descriptor", "n = 0\ntry:\n  while True: n = max(n, os.dup(0))\nexcept OSError as error: result = [n, error.errno]", Expect::Returns("[63, 24]")),
        attempt("raise the limit on descriptors", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))", Expect::Raises(&["ValueError"])),
    ]
}

#[rustfmt::skip]
fn time() -> Vec<Attempt> {
    vec![
        attempt("an infinite loop", "while True: pass", TIME),
        attempt("an infinite loop that catches everything", "while True:\n  try:\n    while True: pass\n  except BaseException: pass", TIME),
        attempt("catastrophic backtracking", "import re\nre.match('(a+)+$', 'a' * 50 + 'b')", TIME),
        attempt("a huge power", "x = 7 ** (10 ** 8)", TIME),
        attempt("an infinite sum", "import itertools\nsum(itertools.count())", TIME),
        attempt("signals ignored", "for s in (signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGINT): signal.signal(s, signal.SIG_IGN)\nwhile True: pass", TIME),
        attempt("all signals blocked", "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass", TIME),
        attempt("sleep", "time.sleep(3600)", TIME),
        attempt("a deadlock", "import threading\nx = threading.Lock()\nx.acquire()\nx.acquire()", TIME),
        attempt("threads that release the GIL", "import hashlib, threading\nfor _ in range(4): threading.Thread(target=lambda: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)).start()\ntime.sleep(3600)", TIME),
        attempt("raise the limit on processor time", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))", Expect::Raises(&["ValueError"])),
        attempt("remove the limit on processor time", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (-1, -1))", Expect::Raises(&["ValueError"])),
        attempt("burn processor time in a child process", "if os.fork() == 0:\n  while True: pass", NOT_PERMITTED),
        attempt("blocking in C", "libc.pause()", TIME),
        attempt("stop itself", "os.kill(os.getpid(), signal.SIGSTOP)", TIME),
        attempt("an infinite loop in the last expression", "class X:\n  def __eq__(self, other):\n    while True: pass\nX() == 1", TIME),
    ]
}

#[rustfmt::skip]
fn output() -> Vec<Attempt> {
    vec![
        attempt("print forever", "while True: print('x' * 1000)", OUTPUT),
        attempt("print a large string", "print('x' * (1 << 20))", OUTPUT),
        attempt("print to standard error forever", "while True: print('x' * 1000, file=sys.stderr)", OUTPUT),
        attempt("print forever and catch everything", "while True:\n  try: print('x' * 1000)\n  except BaseException: pass", OUTPUT),
        attempt("a large result", "'x' * (1 << 20)", OUTPUT),
        attempt("a result of many elements", "[0] * (1 << 17)", OUTPUT),
        attempt("large arguments", "lookup(x='x' * (1 << 20))", OUTPUT),
        attempt("arguments just above the limit", "lookup(x='x' * (65 << 10))", OUTPUT),
        attempt("a forged message above the limit", "to_server(frame(b'{\"finished\":{\"Err\":{\"kind\":\"unavailable\",\"reason\":\"' + b'x' * 100_000 + b'\"}}}'))\ntime.sleep(3600)", OUTPUT),
        attempt("too many calls", "while True: lookup()", Expect::Exceeds(&[Limit::HostCalls])),
        attempt("write to descriptor 1", "x = [os.write(1, b'x' * 1000) for _ in range(10_000)]", Expect::Returns("null")),
        attempt("write to descriptor 2", "x = [os.write(2, b'x' * 1000) for _ in range(10_000)]", Expect::Returns("null")),
        attempt("read standard input", "len(os.read(0, 1))", Expect::Returns("0")),
        attempt("print a lone surrogate", "print('\\ud800')", Expect::Returns("null")),
    ]
}

#[rustfmt::skip]
fn protocol() -> Vec<Attempt> {
    const INTERFERED: Expect = Expect::Fails("interfered with the interpreter");
    const NOT_GRANTED: Expect = Expect::Fails("not granted");
    vec![
        attempt("a malformed frame", "to_server(frame(b'noise'))", INTERFERED),
        attempt("a second ready frame", "to_server(frame(b'{\"ready\":{\"user\":true,\"network\":true,\"root\":true,\"landlock\":7,\"seccomp\":true}}'))\ntime.sleep(3600)", INTERFERED),
        attempt("a frame length above the limit", "to_server(b'\\xff\\xff\\xff\\xff')\ntime.sleep(3600)", OUTPUT),
        attempt("an incomplete frame", "to_server(b'\\0\\0\\1\\0')\ntime.sleep(3600)", TIME),
        attempt("a forged result", "to_server(frame(b'{\"finished\":{\"Ok\":{\"result\":1,\"stdout\":\"\"}}}'))\ntime.sleep(3600)", Expect::Returns("1")),
        attempt("a forged result above the limit", "to_server(frame(b'{\"finished\":{\"Ok\":{\"result\":\"' + b'x' * 100_000 + b'\",\"stdout\":\"\"}}}'))\ntime.sleep(3600)", OUTPUT),
        attempt("a forged call", "to_server(frame(b'{\"call\":{\"function\":\"secret\",\"arguments\":{}}}'))\ntime.sleep(3600)", NOT_GRANTED),
        attempt("a function through the worker script", "f = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals['host_function']('secret')()", NOT_GRANTED),
        attempt("a function through the garbage collector", "import gc\nx = [o for o in gc.get_objects() if getattr(o, '__name__', '') == 'host_function']\nx[0]('secret')()", NOT_GRANTED),
        attempt("a function renamed", "lookup.__closure__[0].cell_contents = 'secret'\nlookup()", NOT_GRANTED),
        attempt("a deeply nested frame", "to_server(frame(b'[' * 1000))\ntime.sleep(3600)", INTERFERED),
        attempt("the worker script as a module", "import cpython_worker", Expect::Raises(&["ModuleNotFoundError"])),
        attempt("close the pipes", "os.closerange(0, 64)\ntime.sleep(3600)", Expect::Fails("the interpreter exited")),
    ]
}

#[rustfmt::skip]
fn termination() -> Vec<Attempt> {
    const ENDED: Expect = Expect::Fails("the interpreter exited");
    vec![
        attempt("a null pointer dereference", "ctypes.string_at(0)", ENDED),
        attempt("os._exit", "os._exit(0)", ENDED),
        attempt("abort", "os.abort()", ENDED),
        attempt("SIGTERM", "os.kill(os.getpid(), signal.SIGTERM)", ENDED),
        attempt("sys.exit", "sys.exit(3)", Expect::Raises(&["SystemExit"])),
        attempt("KeyboardInterrupt", "raise KeyboardInterrupt", Expect::Raises(&["KeyboardInterrupt"])),
        attempt("BaseException", "raise BaseException('x')", Expect::Raises(&["BaseException"])),
        attempt("an exception whose __str__ fails", "class E(Exception):\n  def __str__(self): raise SystemExit\nraise E", Expect::Raises(&["E"])),
        attempt("an exception with a long message", "raise ValueError('x' * 10**6)", Expect::Raises(&["ValueError"])),
        attempt("an atexit handler", "import atexit\natexit.register(lambda: to_server(b'noise'))\n1", Expect::Returns("1")),
        attempt("a thread that keeps running", "import threading\ndef f():\n  while True: pass\nthreading.Thread(target=f).start()\n1", Expect::Returns("1")),
        attempt("a destructor that never returns", "class X:\n  def __del__(self):\n    while True: pass\nx = X()\n1", Expect::Returns("1")),
    ]
}
