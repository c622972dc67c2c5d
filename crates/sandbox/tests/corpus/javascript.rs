//! JavaScript code that tries to escape from the interpreter or to exhaust its resources.

use std::borrow::Cow;

use toolwright_sandbox::{Language, Limit};

use super::{Attempt, Expected, Expected::*};

pub(crate) fn attempts() -> Vec<Attempt> {
    vec![
        // Access to the host.
        of(
            "process through a constructor",
            "(()=>{}).constructor.constructor('return process')()",
            Exception("process is not defined"),
        ),
        of("process by name", "typeof globalThis.process", Value(r#""undefined""#)),
        of("global object through Function", "Function('return this')() === globalThis", Value("true")),
        of("require", "require('fs')", Exception("require is not defined")),
        of("the network", "fetch('http://127.0.0.1')", Exception("fetch is not defined")),
        of("XMLHttpRequest", "new XMLHttpRequest()", Exception("XMLHttpRequest is not defined")),
        of("sockets", "new WebSocket('ws://127.0.0.1')", Exception("WebSocket is not defined")),
        of(
            "the modules of QuickJS",
            "[typeof std, typeof os, typeof bjson]",
            Value(r#"["undefined","undefined","undefined"]"#),
        ),
        of("module through import()", "await import('std')", Exception("")),
        of("file through import()", "await import('/etc/passwd')", Exception("")),
        of("module through import", "import * as std from 'std'", Rejected("SyntaxError")),
        of("WebAssembly", "typeof WebAssembly", Value(r#""undefined""#)),
        of("workers", "new Worker('x.js')", Exception("Worker is not defined")),
        of(
            "script functions of QuickJS",
            "typeof __loadScript + typeof scriptArgs + typeof evalScript",
            Value(r#""undefinedundefinedundefined""#),
        ),
        of("shared memory", "typeof SharedArrayBuffer", Value(r#""undefined""#)),
        of("Atomics.wait", "Atomics.wait(new Int32Array(8), 0, 0)", Exception("Atomics is not defined")),
        of("timers", "setTimeout(() => {}, 0)", Exception("setTimeout is not defined")),
        of("the current time", "Date.now()", Exception("the sandbox has no clock")),
        of("the current time as a Date", "new Date()", Exception("the sandbox has no clock")),
        of("the current time as text", "Date()", Exception("the sandbox has no clock")),
        of(
            "the current time through a prototype",
            "new (Object.getPrototypeOf(new Date(0)).constructor)()",
            Exception("the sandbox has no clock"),
        ),
        of(
            "the current time through a subclass",
            "class D extends Date {}\nnew D()",
            Exception("the sandbox has no clock"),
        ),
        of("high-resolution time", "typeof performance", Value(r#""undefined""#)),
        of("eval", "eval('1 + 1')", Value("2")),
        of("dynamic code that fails to parse", "new Function('(')", Exception("SyntaxError")),
        // Changes that must not affect the next job.
        of("a polluted prototype", "Object.prototype.polluted = 1; Array.prototype.push = null; 1", Value("1")),
        of(
            "prototypes in the next job",
            "[typeof ({}).polluted, typeof [].push]",
            Value(r#"["undefined","function"]"#),
        ),
        of("a broken global object", "delete globalThis.JSON; globalThis.inputs = null; 1", Value("1")),
        of("global object in the next job", "[typeof JSON, inputs.secret]", Value(r#"["object","s3cr3t"]"#)),
        of(
            "replaced Object.prototype.toString",
            "Object.prototype.toString = () => { throw 1 }; result = {a: 1}",
            Value(r#"{"a":1}"#),
        ),
        of("toJSON on Object.prototype", "Object.prototype.toJSON = () => 'mine'; result = {a: 1}", Value(r#""mine""#)),
        // Time.
        of("infinite loop", "while (true) {}", Limit(Limit::Time)),
        of(
            "infinite loop that catches everything",
            "while (true) { try { while (true) {} } catch {} }",
            Limit(Limit::Time),
        ),
        of("infinite loop in finally", "try { while (true) {} } finally { while (true) {} }", Limit(Limit::Time)),
        of("expensive regex", "/^(a+)+$/.test('a'.repeat(40) + 'b')", Limit(Limit::Time)),
        of("expensive regex with backreferences", r"/(a*)*\1b/.test('a'.repeat(60))", Limit(Limit::Time)),
        of("a sort with a slow comparison", "[2, 1].sort(() => { while (true) {} })", Limit(Limit::Time)),
        of("infinite promise chain", "const go = () => Promise.resolve().then(go); go()", Limit(Limit::Time)),
        of("infinite async loop", "(async () => { while (true) await 0 })()", Limit(Limit::Time)),
        of("infinite generator", "for (const x of (function* () { while (true) yield 1 })());", Limit(Limit::Time)),
        of(
            "infinite iterator",
            "Array.from({[Symbol.iterator]: () => ({next: () => ({done: false})})}).length",
            Limit(Limit::Memory),
        ),
        of("infinite getter", "result = {get a() { while (true) {} }}", Limit(Limit::Time)),
        of("infinite toJSON", "result = {toJSON() { while (true) {} }}", Limit(Limit::Time)),
        of("exception with an infinite toString", "throw {toString() { while (true) {} }}", Limit(Limit::Time)),
        of(
            "exception with an infinite message getter",
            "const e = new Error(); Object.defineProperty(e, 'message', {get() { while (true) {} }}); throw e",
            Limit(Limit::Time),
        ),
        of(
            "infinite getter for result",
            "Object.defineProperty(globalThis, 'result', {get() { while (true) {} }})",
            Limit(Limit::Time),
        ),
        of("search in a huge sparse object", "[].indexOf.call({length: 2 ** 53 - 1}, 1)", Limit(Limit::Time)),
        of("a promise that never settles", "new Promise(() => {})", Exception("can never settle")),
        of("await a promise that never settles", "await new Promise(() => {})", Exception("can never settle")),
        // Memory.
        of("a huge string", "'x'.repeat(2 ** 29)", Limit(Limit::Memory)),
        of("a string that doubles", "let s = 'x'; while (true) s += s", Exception("")),
        of(
            "an array that grows",
            "const a = []; while (true) a.push('x'.repeat(1000) + a.length)",
            Limit(Limit::Memory),
        ),
        of("an array that is filled", "new Array(2 ** 30).fill(0)", Limit(Limit::Memory)),
        of("a typed array", "new Uint8Array(2 ** 30)", Limit(Limit::Memory)),
        of("a buffer", "new ArrayBuffer(2 ** 31)", Exception("invalid array buffer length")),
        of("a map that grows", "const m = new Map(); for (let i = 0; ; i++) m.set(i, {i})", Limit(Limit::Memory)),
        of("closures that pile up", "let f = () => 0; while (true) { const g = f; f = () => g }", Limit(Limit::Memory)),
        of(
            "memory errors caught in a loop",
            "const a = []; while (true) { try { a.push(new Uint8Array(1 << 20)) } catch { } }",
            Limit(Limit::Time),
        ),
        of("a huge number", "2n ** 2n ** 40n", Exception("")),
        of("joined strings", "Array(2 ** 20).join('x'.repeat(1000))", Limit(Limit::Memory)),
        of("joined holes of a huge array", "Array(2 ** 32 - 1).join('')", Limit(Limit::Time)).needs_process(),
        // Recursion and nesting.
        of("recursion", "const f = () => f() + 1; f()", Limit(Limit::Depth)),
        of("mutual recursion", "const f = () => g() + 1, g = () => f() + 1; f()", Limit(Limit::Depth)),
        of("recursive toString", "const o = {toString() { return `${this}` }}; `${o}`", Limit(Limit::Depth)),
        of("recursive getter", "const o = {get a() { return this.a }}; result = o", Limit(Limit::Depth)),
        of(
            "toJSON that returns another object with toJSON",
            "class A { toJSON() { return new A() } }; result = new A()",
            Exception("nested at most 100"),
        ),
        of("recursive Proxy", "const p = new Proxy({}, {get: (t, k, r) => r[k]}); p.x", Limit(Limit::Depth)),
        of("recursive comparison", "const s = () => [2, 1].sort(s); s()", Limit(Limit::Depth)),
        of("deeply nested regex", "new RegExp('('.repeat(100000) + ')'.repeat(100000))", Exception("")),
        of("deeply nested brackets", format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)), Limit(Limit::Depth)),
        of("deeply nested JSON", "JSON.parse('['.repeat(200000))", Limit(Limit::Depth)),
        of(
            "deeply nested result",
            "let x = []; for (let i = 0; i < 150; i++) x = [x]; result = x",
            Exception("nested at most 100"),
        ),
        of(
            "very deeply nested result",
            "let x = []; for (let i = 0; i < 100000; i++) x = [x]; result = x",
            Exception("nested at most 100"),
        ),
        of("cyclic result", "const x = {}; x.x = x; result = x", Exception("must not contain itself")),
        of(
            "a result of shared lists",
            "let x = [0]; for (let i = 0; i < 40; i++) x = [x, x]; result = x",
            Limit(Limit::Output),
        ),
        of("a result with holes", "result = new Array(4294967295)", Limit(Limit::Output)),
        of(
            "result with recursive getters",
            "const p = {get a() { return p }, get b() { return p }}; result = p",
            Exception("nested at most 100"),
        ),
        // Output.
        of("infinite printing", "while (true) print('x'.repeat(1000))", Limit(Limit::Output)),
        of(
            "infinite printing that catches everything",
            "while (true) { try { console.log('x'.repeat(1000)) } catch { } }",
            Limit(Limit::Output),
        ),
        of("a large result", "result = 'x'.repeat(100000)", Limit(Limit::Output)),
        of("a long exception", "throw new Error('x'.repeat(1000000))", Exception("Error: xxx")),
        of("a Proxy as the result", "result = new Proxy([], {})", Exception("a Proxy cannot be converted to JSON")),
        of(
            "revoked Proxy as the result",
            "const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); result = proxy",
            Exception("a Proxy cannot be converted to JSON"),
        ),
        // Host calls.
        of("infinite host calls", "while (true) echo({})", Limit(Limit::HostCalls)),
        of(
            "infinite host calls that catch everything",
            "while (true) { try { echo({}) } catch { } }",
            Limit(Limit::HostCalls),
        ),
        of("ungranted function", "deleteEverything()", Exception("is not defined")),
        of("arguments whose getter calls the host", "echo({get a() { return echo({}) }})", Value(r#"{"a":{}}"#)),
        of("cyclic arguments", "const a = {}; a.a = a; echo(a)", Exception("must not contain itself")),
        of("large arguments", "echo({a: 'x'.repeat(100000)})", Limit(Limit::Output)),
    ]
}

fn of(name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    super::attempt(Language::JavaScript, name, code, expected)
}
