//! Attempts in Python.

use std::borrow::Cow;

use toolwright_sandbox::{Language, Limit};

use super::{Attempt, Expected, Expected::*};

pub fn attempts() -> Vec<Attempt> {
    vec![
        // Walks over attributes.
        of("the classes of all objects", "().__class__.__base__.__subclasses__()", Exception("AttributeError")),
        of("the order of bases", "''.__class__.__mro__[1]", Exception("AttributeError")),
        of("the globals of a function", "def f(): pass\nf.__globals__", Exception("AttributeError")),
        of("the code of a function", "def f(): pass\nf.__code__", Exception("AttributeError")),
        of("the closure of a function", "def f(): pass\nf.__closure__", Exception("AttributeError")),
        of("the built-ins by name", "__builtins__", Exception("NameError")),
        of("the built-ins of a function", "print.__self__", Exception("AttributeError")),
        of("an attribute by a made-up name", "getattr((), '__cl' + 'ass__').__base__", Exception("AttributeError")),
        of("attributes in a format", "'{0.__class__.__base__}'.format(1)", Exception("")),
        of("attributes in an f-string", "x = 1\nf'{x.__class__.__base__}'", Exception("AttributeError")),
        of(
            "a decorator that looks at its function",
            "def d(f): return f.__globals__\n@d\ndef g(): pass",
            Exception(""),
        ),
        of("a class made at run time", "type('X', (object,), {})", Exception("TypeError")),
        of("subclasses of a type", "type(1).__subclasses__()", Exception("AttributeError")),
        of("the loader of a module", "import json\njson.__loader__", Exception("AttributeError")),
        of(
            "the frames of an exception",
            "try:\n    1/0\nexcept Exception as e:\n    e.__traceback__.tb_frame",
            Exception(""),
        ),
        of("the frame of a generator", "(x for x in [1]).gi_frame", Exception("AttributeError")),
        // Code at run time.
        of("eval", "eval('1')", Exception("NameError")),
        of("exec", "exec('x = 1')", Exception("NameError")),
        of("compile", "compile('1', '', 'eval')", Exception("NameError")),
        of("import by a function", "__import__('os')", Exception("NameError")),
        of("input", "input()", Exception("NameError")),
        of("breakpoint", "breakpoint()", Exception("NameError")),
        of("globals", "globals()", Exception("NameError")),
        of("locals", "locals()", Exception("NameError")),
        of("vars", "vars()", Exception("NameError")),
        of("dir", "dir()", Exception("NameError")),
        // Modules.
        of("processes", "import subprocess", Exception("ModuleNotFoundError")),
        of("sockets", "import socket", Exception("ModuleNotFoundError")),
        of("foreign functions", "import ctypes", Exception("ModuleNotFoundError")),
        of("the import system", "import importlib", Exception("ModuleNotFoundError")),
        of("the built-ins as a module", "import builtins", Exception("ModuleNotFoundError")),
        of("the network", "import urllib.request", Exception("ModuleNotFoundError")),
        of("pickles", "import pickle", Exception("ModuleNotFoundError")),
        of("threads", "import threading", Exception("ModuleNotFoundError")),
        of("a command by os", "import os\nos.system('id')", Exception("AttributeError")),
        of("the environment", "import os\nos.environ['PATH']", Exception("there is no environment")),
        of("one variable of the environment", "import os\nos.getenv('PATH')", Exception("there is no environment")),
        of("the loaded modules", "import sys\nsys.modules", Exception("AttributeError")),
        of("the frames of the interpreter", "import sys\nsys._getframe()", Exception("AttributeError")),
        // Files and time.
        of("a file", "open('/etc/passwd').read()", Exception("there are no files")),
        of("a file that is written", "open('/tmp/x', 'w').write('x')", Exception("there are no files")),
        of("a path", "from pathlib import Path\nPath('/etc/passwd').read_text()", Exception("there are no files")),
        of("a directory", "from pathlib import Path\nlist(Path('/').iterdir())", Exception("there are no files")),
        of("whether a file exists", "from pathlib import Path\nPath('/etc').exists()", Exception("there are no files")),
        of("the time", "from datetime import datetime\ndatetime.now()", Exception("there is no clock")),
        // Time.
        of("a loop without end", "while True:\n    pass", Limit(Limit::Time)),
        of(
            "a loop that catches everything",
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
        of("an expensive pattern", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", Value("null")),
        of(
            "an expensive pattern with references",
            "import re\nre.match(r'(a*)*\\1b', 'a' * 60)",
            Exception("backtracking"),
        ),
        of(
            "an undefined name again and again",
            "while True:\n    try:\n        nope\n    except NameError:\n        pass",
            Limit(Limit::Time),
        ),
        of(
            "refused files again and again",
            "while True:\n    try:\n        open('x')\n    except Exception:\n        pass",
            Limit(Limit::Time),
        ),
        of("a huge number as text", "len(str(10 ** 10000000))", Limit(Limit::Time)).outside(),
        // Memory.
        of("a huge string", "'x' * 10**10", Limit(Limit::Memory)),
        of("a huge list", "[0] * 10**10", Limit(Limit::Memory)),
        of("a huge power", "10 ** 10 ** 10", Limit(Limit::Memory)),
        of("a huge shift", "1 << 10**10", Limit(Limit::Memory)),
        of("padding", "'x'.ljust(10**10)", Limit(Limit::Memory)),
        of("a huge replacement", "('a' * 10**6).replace('a', 'b' * 10**6)", Limit(Limit::Memory)),
        of("a list that doubles", "x = [0]\nwhile True:\n    x = x + x", Limit(Limit::Memory)),
        of("a list that grows", "x = []\nwhile True:\n    x.append('y' * 1000)", Limit(Limit::Memory)).outside(),
        of("a dict that grows", "d = {}\ni = 0\nwhile True:\n    d[i] = str(i)\n    i += 1", Limit(Limit::Memory))
            .outside(),
        of(
            "closures that pile up",
            "f = lambda: 0\nfs = []\nwhile True:\n    fs.append(lambda g=f: g)",
            Limit(Limit::Memory),
        )
        .outside(),
        of(
            "a result of shared lists",
            "x = [0]\nfor _ in range(40):\n    x = [x, x]\nresult = x",
            Limit(Limit::Memory),
        )
        .outside(),
        // Calls within calls.
        of("recursion", "def f(n): return f(n + 1)\nf(0)", Limit(Limit::Depth)),
        of("two that call each other", "def f(): return g()\ndef g(): return f()\nf()", Limit(Limit::Depth)),
        of("a lambda that calls itself", "f = lambda: f()\nf()", Limit(Limit::Depth)),
        of(
            "a text form that asks for itself",
            "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
            Limit(Limit::Depth),
        ),
        of(
            "an equality that asks for itself",
            "class A:\n    def __eq__(self, other): return self == other\nA() == A()",
            Limit(Limit::Depth),
        ),
        of("a list in itself as text", "x = []\nx.append(x)\nresult = str(x)", Value(r#""[[[...]]]""#)),
        of("deep brackets", deep("(", "1", ")", 5000), Unreadable("nested")),
        of("deep lists", deep("[", "", "]", 5000), Unreadable("nested")),
        of("deep negation", format!("{}1", "-".repeat(50_000)), Unreadable("nested")),
        of("a deep result", "x = []\nfor _ in range(150):\n    x = [x]\nresult = x", Exception("nested at most 100")),
        of(
            "a very deep result",
            "x = []\nfor _ in range(100000):\n    x = [x]\nresult = x",
            Exception("nested at most 100"),
        ),
        of("a result in itself", "x = []\nx.append(x)\nresult = x", Exception("does not contain itself")),
        // Output.
        of("printing without end", "while True:\n    print('x' * 1000)", Limit(Limit::Output)),
        of(
            "printing without end, catching everything",
            "while True:\n    try:\n        print('x' * 1000)\n    except BaseException:\n        break",
            Limit(Limit::Output),
        ),
        of("a large result", "result = 'x' * 100000", Limit(Limit::Output)),
        of("a long exception", "raise ValueError('x' * 1000000)", Exception("ValueError: xxx")),
        // Calls of the host.
        of("calls without end", "while True:\n    echo(a=1)", Limit(Limit::HostCalls)),
        of(
            "calls without end, caught",
            "while True:\n    try:\n        echo(a=1)\n    except BaseException:\n        pass",
            Limit(Limit::HostCalls),
        ),
        of("a function that was not granted", "delete_everything()", Exception("NameError")),
        of("large arguments", "echo(a='x' * 100000)", Limit(Limit::Output)),
    ]
}

fn of(name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    super::attempt(Language::Python, name, code, expected)
}

fn deep(open: &str, middle: &str, close: &str, levels: usize) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}
