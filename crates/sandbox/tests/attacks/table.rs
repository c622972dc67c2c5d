//! The attempts.

use toolwright_sandbox::Limit;

/// Something that code might try.
pub struct Attempt {
    pub name: &'static str,
    pub code: &'static str,
    pub expect: Expect,
}

/// What has to come of it.
#[derive(Debug)]
pub enum Expect {
    /// This value, as JSON.
    Gives(&'static str),
    /// One of these exceptions.
    Raises(&'static [&'static str]),
    /// The end of the interpreter, or of its good name, with this in the message.
    Ends(&'static str),
    /// One of these limits.
    Beyond(&'static [Limit]),
    /// Some failure of the code. Which one is up to the version of Python.
    Fails,
}

/// What every attempt has at hand. `syscall` gives what the kernel returned, and the number of the error.
pub const BEFORE: &str = "
import ctypes, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    returned = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return [returned, ctypes.get_errno()]
def frame(body):
    return len(body).to_bytes(4, 'big') + body
def to_server(data):
    for fd in range(3, 12):
        try:
            os.write(fd, data)
        except OSError:
            pass
";

/// There is no such file, or it is not for this process; which of both is told depends on the wall that stands first.
const NO_FILE: Expect = Expect::Raises(&["FileNotFoundError", "PermissionError"]);
const NO_WRITE: Expect = Expect::Raises(&["FileNotFoundError", "PermissionError", "OSError"]);
const NOT_PERMITTED: Expect = Expect::Raises(&["PermissionError"]);
/// EPERM.
const REFUSED: Expect = Expect::Gives("[-1, 1]");
const TIME: Expect = Expect::Beyond(&[Limit::Time]);
const MEMORY: Expect = Expect::Beyond(&[Limit::Memory]);
const OUTPUT: Expect = Expect::Beyond(&[Limit::Output]);

const fn attempt(name: &'static str, code: &'static str, expect: Expect) -> Attempt {
    Attempt { name, code, expect }
}

/// All of them.
pub fn attempts() -> impl Iterator<Item = Attempt> {
    let groups = [files(), network(), processes(), kernel(), memory(), time(), output(), protocol(), endings()];
    groups.into_iter().flatten()
}

#[rustfmt::skip]
fn files() -> Vec<Attempt> {
    vec![
        attempt("read accounts", "open('/etc/passwd').read()", NO_FILE),
        attempt("read passwords", "open('/etc/shadow').read()", NO_FILE),
        attempt("read a home", "open(os.path.expanduser('/root/.bashrc')).read()", NO_FILE),
        attempt("read own memory", "open('/proc/self/mem', 'rb').read(1)", NO_FILE),
        attempt("read the environment of others", "open('/proc/1/environ').read()", NO_FILE),
        attempt("read the environment of the server", "open(f'/proc/{os.getppid()}/environ').read()", NO_FILE),
        attempt("read the memory of the server", "open(f'/proc/{os.getppid()}/mem', 'rb')", NO_FILE),
        attempt("list processes", "os.listdir('/proc')", NO_FILE),
        attempt("list the root", "os.listdir('/')", NO_FILE),
        attempt("list homes", "os.listdir('/root')", NO_FILE),
        attempt("open what the server has open", "for fd in range(64): open(f'/proc/{os.getppid()}/fd/{fd}', 'rb')", NO_FILE),
        attempt("read the memory of the machine", "open('/dev/mem', 'rb')", NO_FILE),
        attempt("climb out", "open('/usr/lib/../../etc/passwd')", NO_FILE),
        attempt("climb out from where it is", "open('../../../../etc/passwd')", NO_FILE),
        attempt("write a library", "open('/usr/lib/evil.so', 'w')", NO_WRITE),
        attempt("write to the standard library", "open(os.__file__, 'a')", NO_WRITE),
        attempt("write bytecode", "os.mkdir(os.path.dirname(os.__file__) + '/evil')", NO_WRITE),
        attempt("write at the root", "open('/evil', 'w')", NO_WRITE),
        attempt("write shared memory", "open('/dev/shm/x', 'w')", NO_FILE),
        attempt("remove a library", "os.unlink(os.__file__)", NO_WRITE),
        attempt("move a library", "os.rename(os.__file__, '/tmp/os.py')", NO_WRITE),
        attempt("follow a link out", "os.symlink('/etc/passwd', '/tmp/link')\nopen('/tmp/link').read()", NO_FILE),
        attempt("link a file in", "os.link('/etc/passwd', '/tmp/link')", NO_FILE),
        attempt("change permissions", "os.chmod(sys.executable, 0o777)", NOT_PERMITTED),
        attempt("change owners", "os.chown(sys.executable, 0, 0)", NOT_PERMITTED),
        attempt("change times", "os.utime(sys.executable, (0, 0))", NOT_PERMITTED),
        attempt("change attributes", "os.setxattr(sys.executable, 'user.x', b'')", NOT_PERMITTED),
        attempt("truncate by path", "os.truncate(os.__file__, 0)", NOT_PERMITTED),
        attempt("make a device", "os.mknod('/tmp/sda', 0o60600, os.makedev(8, 0))", NOT_PERMITTED),
        attempt("change the root", "os.chroot('/tmp')", NOT_PERMITTED),
        attempt("fill the scratch with a file", "f = open('/tmp/x', 'wb', 0)\nwhile True: f.write(b'x' * (1 << 20))", NO_WRITE),
        attempt("fill the scratch with files", "while True: os.mkdir(f'/tmp/{time.monotonic_ns()}')", NO_WRITE),
        attempt("fill the scratch in parts", "n = 0\nwhile True:\n  n += 1\n  open(f'/tmp/{n}', 'wb').write(b'x' * (8 << 20))", NO_WRITE),
        attempt("read the environment", "dict(os.environ)", Expect::Gives("{}")),
    ]
}

#[rustfmt::skip]
fn network() -> Vec<Attempt> {
    vec![
        attempt("tcp", "socket.socket()", NOT_PERMITTED),
        attempt("tcp over v6", "socket.socket(socket.AF_INET6)", NOT_PERMITTED),
        attempt("udp", "socket.socket(type=socket.SOCK_DGRAM)", NOT_PERMITTED),
        attempt("unix", "socket.socket(socket.AF_UNIX)", NOT_PERMITTED),
        attempt("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", NOT_PERMITTED),
        attempt("raw", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", NOT_PERMITTED),
        attempt("packets", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", NOT_PERMITTED),
        attempt("the hypervisor", "socket.socket(socket.AF_VSOCK)", NOT_PERMITTED),
        attempt("the crypto of the kernel", "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)", NOT_PERMITTED),
        attempt("a pair that can send to others", "socket.socketpair(type=socket.SOCK_DGRAM)", NOT_PERMITTED),
        attempt("a pair of another family", "socket.socketpair(socket.AF_INET)", NOT_PERMITTED),
        attempt("pass a descriptor", "a, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [1])", NOT_PERMITTED),
        attempt("names", "socket.getaddrinfo('example.com', 80)", Expect::Raises(&["gaierror", "PermissionError", "OSError"])),
        attempt("http", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/')", Expect::Raises(&["URLError"])),
        attempt("listen", "import http.server as h\nh.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)", NOT_PERMITTED),
        attempt("asyncio", "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', 1))", NOT_PERMITTED),
    ]
}

#[rustfmt::skip]
fn processes() -> Vec<Attempt> {
    vec![
        attempt("a command", "import subprocess\nsubprocess.run(['/bin/ls'])", NO_FILE),
        attempt("its own program as a command", "import subprocess\nsubprocess.run([sys.executable, '-c', ''])", NOT_PERMITTED),
        attempt("a shell", "os.system('true') == 0", Expect::Gives("false")),
        attempt("spawn", "os.posix_spawn(sys.executable, [sys.executable], {})", NOT_PERMITTED),
        attempt("fork", "os.fork()", NOT_PERMITTED),
        attempt("a fork bomb", "while True: os.fork()", NOT_PERMITTED),
        attempt("a fork bomb that does not give up", "while True:\n  try: os.fork()\n  except OSError: pass", TIME),
        attempt("a pseudo terminal", "import pty\npty.fork()", Expect::Raises(&["PermissionError", "OSError", "FileNotFoundError"])),
        attempt("multiprocessing", "import multiprocessing as m\np = m.get_context('fork').Process(target=print)\np.start()", NOT_PERMITTED),
        attempt("become a shell", "os.execv('/bin/sh', ['sh', '-c', 'id'])", NO_FILE),
        attempt("become a new Python", "os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', '1'])", Expect::Ends("the interpreter ended")),
        attempt("a program from memory", "os.memfd_create('x')", Expect::Raises(&["OSError"])),
        attempt("a program from the scratch", "import shutil\nshutil.copyfile(sys.executable, '/tmp/x')\nos.execv('/tmp/x', ['x'])", NO_WRITE),
        attempt("a thread bomb", "import threading\ne = threading.Event()\nwhile True: threading.Thread(target=e.wait, daemon=True).start()", Expect::Fails),
        attempt("kill the server", "os.kill(os.getppid(), signal.SIGKILL)", NOT_PERMITTED),
        attempt("probe the server", "os.kill(os.getppid(), 0)", NOT_PERMITTED),
        attempt("kill everybody", "os.kill(-1, signal.SIGKILL)", NOT_PERMITTED),
        attempt("kill its group", "os.killpg(0, signal.SIGTERM)", NOT_PERMITTED),
        attempt("look like a victim of the kernel", "os.kill(os.getpid(), signal.SIGKILL)", NOT_PERMITTED),
        attempt("leave its group", "os.setsid()", NOT_PERMITTED),
        attempt("leave its group for another", "os.setpgid(0, os.getppid())", NOT_PERMITTED),
        attempt("a descriptor of the server", "os.pidfd_open(os.getppid())", NOT_PERMITTED),
        attempt("the limits of the server", "import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1))", NOT_PERMITTED),
        attempt("raise its limits", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", Expect::Raises(&["ValueError"])),
        attempt("priority", "os.nice(-5)", NOT_PERMITTED),
        attempt("real-time", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", NOT_PERMITTED),
        attempt("choose a processor", "os.sched_setaffinity(0, {0})", NOT_PERMITTED),
        attempt("become root", "os.setuid(0)", NOT_PERMITTED),
        attempt("set the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)", NOT_PERMITTED),
        attempt("name the machine", "socket.sethostname('evil')", NOT_PERMITTED),
    ]
}

/// By number, because Python has no names for these.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
fn kernel() -> Vec<Attempt> {
    vec![
        attempt("vfork", "syscall(58)", REFUSED),
        attempt("clone without a thread", "syscall(56, 17, 0, 0, 0, 0)", REFUSED),
        attempt("clone3", "syscall(435, 0, 0)", Expect::Gives("[-1, 38]")),
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
        attempt("prctl that is no name", "syscall(157, 4, 1, 0, 0, 0)", REFUSED),
        attempt("another filter", "syscall(317, 1, 0, 0)", REFUSED),
        attempt("a socket by the numbers of x32", "syscall(0x40000000 + 41, 2, 1, 0)", REFUSED),
        attempt("push a terminal", "syscall(16, 2, 0x5412, 0)", REFUSED),
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
        attempt("large text", "'x' * (1 << 34)", MEMORY),
        attempt("a list that doubles", "x = [1]\nwhile True: x = x + x", MEMORY),
        attempt("many small things", "x = []\nwhile True: x.append({})", MEMORY),
        attempt("many small things, kept on", "x = []\nwhile True:\n  try: x.append({})\n  except MemoryError: pass", Expect::Fails),
        attempt("a mapping", "import mmap\nmmap.mmap(-1, 1 << 30)", Expect::Raises(&["OSError"])),
        attempt("recursion", "def f(): f()\nf()", Expect::Beyond(&[Limit::Depth])),
        attempt("recursion with its limit raised", "sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", Expect::Fails),
        attempt("a number", "1 << (1 << 34)", MEMORY),
        attempt("what an infinite iterator sorts to", "sorted(iter(int, 1))", MEMORY),
        attempt("nested code", "eval('(' * 5000 + ')' * 5000)", Expect::Raises(&["SyntaxError", "MemoryError"])),
        attempt("a bomb of compression", "import zlib\nx = zlib.compress(bytes(1 << 20) * 30)\nx = [zlib.decompress(x) for _ in range(100)]", MEMORY),
        attempt("descriptors", "x = [os.pipe() for _ in range(100_000)]", Expect::Raises(&["OSError"])),
    ]
}

#[rustfmt::skip]
fn time() -> Vec<Attempt> {
    vec![
        attempt("a loop", "while True: pass", TIME),
        attempt("a loop that catches all", "while True:\n  try:\n    while True: pass\n  except BaseException: pass", TIME),
        attempt("a regex", "import re\nre.match('(a+)+$', 'a' * 50 + 'b')", TIME),
        attempt("a power", "x = 7 ** (10 ** 8)", TIME),
        attempt("an infinite sum", "import itertools\nsum(itertools.count())", TIME),
        attempt("deaf to signals", "for s in (signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGINT): signal.signal(s, signal.SIG_IGN)\nwhile True: pass", TIME),
        attempt("all signals blocked", "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass", TIME),
        attempt("sleep", "time.sleep(3600)", TIME),
        attempt("a lock", "import threading\nx = threading.Lock()\nx.acquire()\nx.acquire()", TIME),
        attempt("threads without a lock of the interpreter", "import hashlib, threading\nfor _ in range(4): threading.Thread(target=lambda: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)).start()\ntime.sleep(3600)", TIME),
        attempt("a loop in C", "libc.pause()", TIME),
        attempt("stop itself", "os.kill(os.getpid(), signal.SIGSTOP)", TIME),
        attempt("a loop at the end", "class X:\n  def __eq__(self, other):\n    while True: pass\nX() == 1", TIME),
    ]
}

#[rustfmt::skip]
fn output() -> Vec<Attempt> {
    vec![
        attempt("print without end", "while True: print('x' * 1000)", OUTPUT),
        attempt("print much at once", "print('x' * (1 << 20))", OUTPUT),
        attempt("print errors without end", "while True: print('x' * 1000, file=sys.stderr)", OUTPUT),
        attempt("print and catch", "while True:\n  try: print('x' * 1000)\n  except BaseException: pass", OUTPUT),
        attempt("a large result", "'x' * (1 << 20)", OUTPUT),
        attempt("a result of many parts", "[0] * (1 << 17)", OUTPUT),
        attempt("large arguments", "lookup(x='x' * (1 << 20))", OUTPUT),
        attempt("arguments just beyond", "lookup(x='x' * (65 << 10))", OUTPUT),
        attempt("a long message", "to_server(frame(b'{\"finished\":{\"Err\":{\"kind\":\"unavailable\",\"reason\":\"' + b'x' * 100_000 + b'\"}}}'))\ntime.sleep(3600)", OUTPUT),
        attempt("too many calls", "while True: lookup()", Expect::Beyond(&[Limit::HostCalls])),
        attempt("past `print` into the pipe", "x = [os.write(1, b'x' * 1000) for _ in range(10_000)]", Expect::Gives("null")),
        attempt("past `print` into the other pipe", "x = [os.write(2, b'x' * 1000) for _ in range(10_000)]", Expect::Gives("null")),
        attempt("read what nobody writes", "len(os.read(0, 1))", Expect::Gives("0")),
        attempt("half characters", "print('\\ud800')", Expect::Gives("null")),
    ]
}

#[rustfmt::skip]
fn protocol() -> Vec<Attempt> {
    const INTERFERED: Expect = Expect::Ends("interfered with the interpreter");
    const NOT_GRANTED: Expect = Expect::Ends("not granted");
    vec![
        attempt("noise", "to_server(frame(b'noise'))", INTERFERED),
        attempt("another beginning", "to_server(frame(b'{\"ready\":{\"user\":true,\"network\":true,\"root\":true,\"landlock\":7,\"seccomp\":true}}'))\ntime.sleep(3600)", INTERFERED),
        attempt("a length without an end", "to_server(b'\\xff\\xff\\xff\\xff')\ntime.sleep(3600)", OUTPUT),
        attempt("a length and silence", "to_server(b'\\0\\0\\1\\0')\ntime.sleep(3600)", TIME),
        attempt("an end of its own", "to_server(frame(b'{\"finished\":{\"Ok\":{\"result\":1,\"stdout\":\"\"}}}'))\ntime.sleep(3600)", Expect::Gives("1")),
        attempt("a result beyond its limit", "to_server(frame(b'{\"finished\":{\"Ok\":{\"result\":\"' + b'x' * 100_000 + b'\",\"stdout\":\"\"}}}'))\ntime.sleep(3600)", OUTPUT),
        attempt("a call of its own", "to_server(frame(b'{\"call\":{\"function\":\"secret\",\"arguments\":{}}}'))\ntime.sleep(3600)", NOT_GRANTED),
        attempt("a function through the driver", "f = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals['granted']('secret')()", NOT_GRANTED),
        attempt("a function through the collector", "import gc\nx = [o for o in gc.get_objects() if getattr(o, '__name__', '') == 'granted']\nx[0]('secret')()", NOT_GRANTED),
        attempt("a function renamed", "lookup.__closure__[0].cell_contents = 'secret'\nlookup()", NOT_GRANTED),
        attempt("nesting", "to_server(frame(b'[' * 1000))\ntime.sleep(3600)", INTERFERED),
        attempt("the driver as a module", "import driver", Expect::Raises(&["ModuleNotFoundError"])),
        attempt("close the pipes", "os.closerange(0, 64)\ntime.sleep(3600)", Expect::Ends("the interpreter ended")),
    ]
}

#[rustfmt::skip]
fn endings() -> Vec<Attempt> {
    const ENDED: Expect = Expect::Ends("the interpreter ended");
    vec![
        attempt("a null pointer", "ctypes.string_at(0)", ENDED),
        attempt("exit at once", "os._exit(0)", ENDED),
        attempt("abort", "os.abort()", ENDED),
        attempt("a signal", "os.kill(os.getpid(), signal.SIGTERM)", ENDED),
        attempt("exit", "sys.exit(3)", Expect::Raises(&["SystemExit"])),
        attempt("an interrupt", "raise KeyboardInterrupt", Expect::Raises(&["KeyboardInterrupt"])),
        attempt("the base of all exceptions", "raise BaseException('x')", Expect::Raises(&["BaseException"])),
        attempt("an exception that cannot be shown", "class E(Exception):\n  def __str__(self): raise SystemExit\nraise E", Expect::Raises(&["E"])),
        attempt("an exception with much to say", "raise ValueError('x' * 10**6)", Expect::Raises(&["ValueError"])),
        attempt("a last word", "import atexit\natexit.register(lambda: to_server(b'noise'))\n1", Expect::Gives("1")),
        attempt("a thread that goes on", "import threading\ndef f():\n  while True: pass\nthreading.Thread(target=f).start()\n1", Expect::Gives("1")),
        attempt("a destructor that goes on", "class X:\n  def __del__(self):\n    while True: pass\nx = X()\n1", Expect::Gives("1")),
    ]
}
