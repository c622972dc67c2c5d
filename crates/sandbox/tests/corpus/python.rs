//! Python code that tries to escape from the embedded interpreter or to exhaust its resources.

use std::borrow::Cow;

use toolwright_sandbox::{Language, Limit};

use super::{Attempt, Expected, Expected::*};

pub(crate) fn attempts() -> Vec<Attempt> {
    vec![
        // Attribute traversal.
        of("subclasses of object", "().__class__.__base__.__subclasses__()", Exception("AttributeError")),
        of("method resolution order", "''.__class__.__mro__[1]", Exception("AttributeError")),
        of("globals of a function", "def f(): pass\nf.__globals__", Exception("AttributeError")),
        of("code object of a function", "def f(): pass\nf.__code__", Exception("AttributeError")),
        of("closure of a function", "def f(): pass\nf.__closure__", Exception("AttributeError")),
        of("__builtins__", "__builtins__", Exception("NameError")),
        of("module of a built-in function", "print.__self__", Exception("AttributeError")),
        of("getattr with a computed name", "getattr((), '__cl' + 'ass__').__base__", Exception("AttributeError")),
        of("attributes in a format string", "'{0.__class__.__base__}'.format(1)", Exception("")),
        of("attributes in an f-string", "x = 1\nf'{x.__class__.__base__}'", Exception("AttributeError")),
        of(
            "a decorator that looks at its function",
            "def d(f): return f.__globals__\n@d\ndef g(): pass",
            Exception(""),
        ),
        of("class created with type()", "type('X', (object,), {})", Exception("TypeError")),
        of("subclasses of a type", "type(1).__subclasses__()", Exception("AttributeError")),
        of("loader of a module", "import json\njson.__loader__", Exception("AttributeError")),
        of(
            "frame of a traceback",
            "try:\n    1/0\nexcept Exception as e:\n    e.__traceback__.tb_frame",
            Exception(""),
        ),
        of("frame of a generator", "(x for x in [1]).gi_frame", Exception("AttributeError")),
        // Dynamic code.
        of("eval", "eval('1')", Exception("NameError")),
        of("exec", "exec('x = 1')", Exception("NameError")),
        of("compile", "compile('1', '', 'eval')", Exception("NameError")),
        of("__import__", "__import__('os')", Exception("NameError")),
        of("input", "input()", Exception("NameError")),
        of("breakpoint", "breakpoint()", Exception("NameError")),
        of("globals", "globals()", Exception("NameError")),
        of("locals", "locals()", Exception("NameError")),
        of("vars", "vars()", Exception("NameError")),
        of("dir", "dir()", Exception("NameError")),
        // Modules.
        of("processes", "import subprocess", Exception("ModuleNotFoundError")),
        of("sockets", "import socket", Exception("ModuleNotFoundError")),
        of("ctypes", "import ctypes", Exception("ModuleNotFoundError")),
        of("the import system", "import importlib", Exception("ModuleNotFoundError")),
        of("the built-ins as a module", "import builtins", Exception("ModuleNotFoundError")),
        of("the network", "import urllib.request", Exception("ModuleNotFoundError")),
        of("pickle", "import pickle", Exception("ModuleNotFoundError")),
        of("threads", "import threading", Exception("ModuleNotFoundError")),
        of("os.system", "import os\nos.system('id')", Exception("AttributeError")),
        of("the environment", "import os\nos.environ['PATH']", Exception("the sandbox has no environment")),
        of(
            "a single environment variable",
            "import os\nos.getenv('PATH')",
            Exception("the sandbox has no environment"),
        ),
        of("the loaded modules", "import sys\nsys.modules", Exception("AttributeError")),
        of("sys._getframe", "import sys\nsys._getframe()", Exception("AttributeError")),
        // Files and the clock.
        of("read a file", "open('/etc/passwd').read()", Exception("the sandbox has no files")),
        of("write a file", "open('/tmp/x', 'w').write('x')", Exception("the sandbox has no files")),
        of(
            "read a file with pathlib",
            "from pathlib import Path\nPath('/etc/passwd').read_text()",
            Exception("the sandbox has no files"),
        ),
        of(
            "list a directory",
            "from pathlib import Path\nlist(Path('/').iterdir())",
            Exception("the sandbox has no files"),
        ),
        of(
            "check whether a file exists",
            "from pathlib import Path\nPath('/etc').exists()",
            Exception("the sandbox has no files"),
        ),
        of("the current time", "from datetime import datetime\ndatetime.now()", Exception("the sandbox has no clock")),
        // Time.
        of("infinite loop", "while True:\n    pass", Limit(Limit::Time)),
        of(
            "infinite loop that catches everything",
            "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
            Limit(Limit::Time),
        ),
        of("nested comprehensions", "[x for a in range(10**6) for b in range(10**6) for x in ()]", Limit(Limit::Time)),
        of("a long range", "for x in range(10**12):\n    pass", Limit(Limit::Time)),
        of(
            "a sort with a slow key",
            "def k(x):\n    while True:\n        pass\nsorted([2, 1], key=k)",
            Limit(Limit::Time),
        ),
        of("expensive regex", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", Value("null")),
        of(
            "expensive regex with backreferences",
            "import re\nre.match(r'(a*)*\\1b', 'a' * 60)",
            Exception("backtracking"),
        ),
        of(
            "undefined names in a loop",
            "while True:\n    try:\n        nope\n    except NameError:\n        pass",
            Limit(Limit::Time),
        ),
        of(
            "denied file access in a loop",
            "while True:\n    try:\n        open('x')\n    except Exception:\n        pass",
            Limit(Limit::Time),
        ),
        of("huge integer to string", "len(str(10 ** 10000000))", Limit(Limit::Time)).needs_process(),
        // Memory.
        of("a huge string", "'x' * 10**10", Limit(Limit::Memory)),
        of("a huge list", "[0] * 10**10", Limit(Limit::Memory)),
        of("a huge power", "10 ** 10 ** 10", Limit(Limit::Memory)),
        of("a huge shift", "1 << 10**10", Limit(Limit::Memory)),
        of("padding", "'x'.ljust(10**10)", Limit(Limit::Memory)),
        of("a huge replacement", "('a' * 10**6).replace('a', 'b' * 10**6)", Limit(Limit::Memory)),
        of("a list that doubles", "x = [0]\nwhile True:\n    x = x + x", Limit(Limit::Memory)),
        of("a list that grows", "x = []\nwhile True:\n    x.append('y' * 1000)", Limit(Limit::Memory)).needs_process(),
        of("a dict that grows", "d = {}\ni = 0\nwhile True:\n    d[i] = str(i)\n    i += 1", Limit(Limit::Memory))
            .needs_process(),
        of(
            "closures that pile up",
            "f = lambda: 0\nfs = []\nwhile True:\n    fs.append(lambda g=f: g)",
            Limit(Limit::Memory),
        )
        .needs_process(),
        of(
            "a result of shared lists",
            "x = [0]\nfor _ in range(40):\n    x = [x, x]\nresult = x",
            Limit(Limit::Memory),
        )
        .needs_process(),
        // Recursion and nesting.
        of("recursion", "def f(n): return f(n + 1)\nf(0)", Limit(Limit::Depth)),
        of("mutual recursion", "def f(): return g()\ndef g(): return f()\nf()", Limit(Limit::Depth)),
        of("a lambda that calls itself", "f = lambda: f()\nf()", Limit(Limit::Depth)),
        of("recursive __repr__", "class A:\n    def __repr__(self): return repr(self)\nrepr(A())", Limit(Limit::Depth)),
        of(
            "recursive __eq__",
            "class A:\n    def __eq__(self, other): return self == other\nA() == A()",
            Limit(Limit::Depth),
        ),
        of("str() of a cyclic list", "x = []\nx.append(x)\nresult = str(x)", Value(r#""[[[...]]]""#)),
        of("deeply nested brackets", nested("(", "1", ")", 5000), Rejected("nested")),
        of("deeply nested lists", nested("[", "", "]", 5000), Rejected("nested")),
        of("deeply nested negation", format!("{}1", "-".repeat(50_000)), Rejected("nested")),
        of(
            "deeply nested result",
            "x = []\nfor _ in range(150):\n    x = [x]\nresult = x",
            Exception("nested at most 100"),
        ),
        of(
            "very deeply nested result",
            "x = []\nfor _ in range(100000):\n    x = [x]\nresult = x",
            Exception("nested at most 100"),
        ),
        of("cyclic result", "x = []\nx.append(x)\nresult = x", Exception("must not contain itself")),
        // Output.
        of("infinite printing", "while True:\n    print('x' * 1000)", Limit(Limit::Output)),
        of(
            "infinite printing that catches everything",
            "while True:\n    try:\n        print('x' * 1000)\n    except BaseException:\n        break",
            Limit(Limit::Output),
        ),
        of("a large result", "result = 'x' * 100000", Limit(Limit::Output)),
        of("a long exception", "raise ValueError('x' * 1000000)", Exception("ValueError: xxx")),
        // Host calls.
        of("infinite host calls", "while True:\n    echo(a=1)", Limit(Limit::HostCalls)),
        of(
            "infinite host calls that catch everything",
            "while True:\n    try:\n        echo(a=1)\n    except BaseException:\n        pass",
            Limit(Limit::HostCalls),
        ),
        of("ungranted function", "delete_everything()", Exception("NameError")),
        of("large arguments", "echo(a='x' * 100000)", Limit(Limit::Output)),
    ]
}

fn of(name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    super::attempt(Language::Python, name, code, expected)
}

fn nested(open: &str, middle: &str, close: &str, levels: usize) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}
