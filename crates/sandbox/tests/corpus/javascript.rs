//! Attempts in JavaScript.

use std::borrow::Cow;

use toolwright_sandbox::{Language, Limit};

use super::{Attempt, Expected, Expected::*};

pub fn attempts() -> Vec<Attempt> {
    vec![
        // Ways to a host.
        of(
            "a process by a constructor",
            "(()=>{}).constructor.constructor('return process')()",
            Exception("process is not defined"),
        ),
        of("a process by its name", "typeof globalThis.process", Value(r#""undefined""#)),
        of("the global object by a function", "Function('return this')() === globalThis", Value("true")),
        of("require", "require('fs')", Exception("require is not defined")),
        of("the network", "fetch('http://127.0.0.1')", Exception("fetch is not defined")),
        of("the network, the old way", "new XMLHttpRequest()", Exception("XMLHttpRequest is not defined")),
        of("sockets", "new WebSocket('ws://127.0.0.1')", Exception("WebSocket is not defined")),
        of(
            "the modules of QuickJS",
            "[typeof std, typeof os, typeof bjson]",
            Value(r#"["undefined","undefined","undefined"]"#),
        ),
        of("a module by import()", "await import('std')", Exception("")),
        of("a file by import()", "await import('/etc/passwd')", Exception("")),
        of("a module by import", "import * as std from 'std'", Unreadable("SyntaxError")),
        of("WebAssembly", "typeof WebAssembly", Value(r#""undefined""#)),
        of("workers", "new Worker('x.js')", Exception("Worker is not defined")),
        of(
            "scripts of QuickJS",
            "typeof __loadScript + typeof scriptArgs + typeof evalScript",
            Value(r#""undefinedundefinedundefined""#),
        ),
        of("shared memory", "typeof SharedArrayBuffer", Value(r#""undefined""#)),
        of("waiting on memory", "Atomics.wait(new Int32Array(8), 0, 0)", Exception("Atomics is not defined")),
        of("timers", "setTimeout(() => {}, 0)", Exception("setTimeout is not defined")),
        of("the time", "Date.now()", Exception("there is no clock")),
        of("the time as a date", "new Date()", Exception("there is no clock")),
        of("the time as text", "Date()", Exception("there is no clock")),
        of(
            "the time by a prototype",
            "new (Object.getPrototypeOf(new Date(0)).constructor)()",
            Exception("there is no clock"),
        ),
        of("the time by a subclass", "class D extends Date {}\nnew D()", Exception("there is no clock")),
        of("the time in fine steps", "typeof performance", Value(r#""undefined""#)),
        of("code at run time", "eval('1 + 1')", Value("2")),
        of("code at run time that fails to parse", "new Function('(')", Exception("SyntaxError")),
        // Damage that the next job would see.
        of("a polluted prototype", "Object.prototype.polluted = 1; Array.prototype.push = null; 1", Value("1")),
        of("the next job's prototype", "[typeof ({}).polluted, typeof [].push]", Value(r#"["undefined","function"]"#)),
        of("a broken global object", "delete globalThis.JSON; globalThis.inputs = null; 1", Value("1")),
        of("the next job's global object", "[typeof JSON, inputs.secret]", Value(r#"["object","s3cr3t"]"#)),
        of("a broken way out", "Object.prototype.toString = () => { throw 1 }; result = {a: 1}", Value(r#"{"a":1}"#)),
        of(
            "a field that every object has",
            "Object.prototype.toJSON = () => 'mine'; result = {a: 1}",
            Value(r#""mine""#),
        ),
        // Time.
        of("a loop without end", "while (true) {}", Limit(Limit::Time)),
        of("a loop that catches everything", "while (true) { try { while (true) {} } catch {} }", Limit(Limit::Time)),
        of("a loop that ends with another", "try { while (true) {} } finally { while (true) {} }", Limit(Limit::Time)),
        of("an expensive pattern", "/^(a+)+$/.test('a'.repeat(40) + 'b')", Limit(Limit::Time)),
        of("an expensive pattern with references", r"/(a*)*\1b/.test('a'.repeat(60))", Limit(Limit::Time)),
        of("a sort with a slow comparison", "[2, 1].sort(() => { while (true) {} })", Limit(Limit::Time)),
        of("promises without end", "const go = () => Promise.resolve().then(go); go()", Limit(Limit::Time)),
        of("an async loop without end", "(async () => { while (true) await 0 })()", Limit(Limit::Time)),
        of(
            "a generator without end",
            "for (const x of (function* () { while (true) yield 1 })());",
            Limit(Limit::Time),
        ),
        of(
            "an iterator without end",
            "Array.from({[Symbol.iterator]: () => ({next: () => ({done: false})})}).length",
            Limit(Limit::Memory),
        ),
        of("a getter without end", "result = {get a() { while (true) {} }}", Limit(Limit::Time)),
        of("toJSON without end", "result = {toJSON() { while (true) {} }}", Limit(Limit::Time)),
        of("an exception that never shows", "throw {toString() { while (true) {} }}", Limit(Limit::Time)),
        of(
            "a message that never shows",
            "const e = new Error(); Object.defineProperty(e, 'message', {get() { while (true) {} }}); throw e",
            Limit(Limit::Time),
        ),
        of(
            "a result that is asked for without end",
            "Object.defineProperty(globalThis, 'result', {get() { while (true) {} }})",
            Limit(Limit::Time),
        ),
        of("a search in nothing", "[].indexOf.call({length: 2 ** 53 - 1}, 1)", Limit(Limit::Time)),
        of("a promise that never settles", "new Promise(() => {})", Exception("nothing will ever settle")),
        of("waiting for nothing", "await new Promise(() => {})", Exception("nothing will ever settle")),
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
            "memory, caught",
            "const a = []; while (true) { try { a.push(new Uint8Array(1 << 20)) } catch { } }",
            Limit(Limit::Time),
        ),
        of("a huge number", "2n ** 2n ** 40n", Exception("")),
        of("joined strings", "Array(2 ** 20).join('x'.repeat(1000))", Limit(Limit::Memory)),
        of("joined holes", "Array(2 ** 32 - 1).join('')", Limit(Limit::Time)).outside(),
        // Calls within calls.
        of("recursion", "const f = () => f() + 1; f()", Limit(Limit::Depth)),
        of("two that call each other", "const f = () => g() + 1, g = () => f() + 1; f()", Limit(Limit::Depth)),
        of(
            "a text form that asks for itself",
            "const o = {toString() { return `${this}` }}; `${o}`",
            Limit(Limit::Depth),
        ),
        of("a getter that asks for itself", "const o = {get a() { return this.a }}; result = o", Limit(Limit::Depth)),
        of(
            "toJSON that gives another",
            "class A { toJSON() { return new A() } }; result = new A()",
            Exception("nested at most 100"),
        ),
        of(
            "a Proxy that asks for itself",
            "const p = new Proxy({}, {get: (t, k, r) => r[k]}); p.x",
            Limit(Limit::Depth),
        ),
        of("a comparison within a comparison", "const s = () => [2, 1].sort(s); s()", Limit(Limit::Depth)),
        of("a pattern in brackets", "new RegExp('('.repeat(100000) + ')'.repeat(100000))", Exception("")),
        of("deep brackets", format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)), Limit(Limit::Depth)),
        of("deep JSON", "JSON.parse('['.repeat(200000))", Limit(Limit::Depth)),
        of(
            "a deep result",
            "let x = []; for (let i = 0; i < 150; i++) x = [x]; result = x",
            Exception("nested at most 100"),
        ),
        of(
            "a very deep result",
            "let x = []; for (let i = 0; i < 100000; i++) x = [x]; result = x",
            Exception("nested at most 100"),
        ),
        of("a result in itself", "const x = {}; x.x = x; result = x", Exception("does not contain itself")),
        of(
            "a result of shared lists",
            "let x = [0]; for (let i = 0; i < 40; i++) x = [x, x]; result = x",
            Limit(Limit::Output),
        ),
        of("a result with holes", "result = new Array(4294967295)", Limit(Limit::Output)),
        of(
            "a result that makes more of itself",
            "const p = {get a() { return p }, get b() { return p }}; result = p",
            Exception("nested at most 100"),
        ),
        // Output.
        of("printing without end", "while (true) print('x'.repeat(1000))", Limit(Limit::Output)),
        of(
            "printing without end, caught",
            "while (true) { try { console.log('x'.repeat(1000)) } catch { } }",
            Limit(Limit::Output),
        ),
        of("a large result", "result = 'x'.repeat(100000)", Limit(Limit::Output)),
        of("a long exception", "throw new Error('x'.repeat(1000000))", Exception("Error: xxx")),
        of("a Proxy as the result", "result = new Proxy([], {})", Exception("a Proxy cannot be JSON")),
        of(
            "a Proxy that was revoked",
            "const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); result = proxy",
            Exception("a Proxy cannot be JSON"),
        ),
        // Calls of the host.
        of("calls without end", "while (true) echo({})", Limit(Limit::HostCalls)),
        of("calls without end, caught", "while (true) { try { echo({}) } catch { } }", Limit(Limit::HostCalls)),
        of("a function that was not granted", "deleteEverything()", Exception("is not defined")),
        of("arguments that call again", "echo({get a() { return echo({}) }})", Value(r#"{"a":{}}"#)),
        of("arguments without end", "const a = {}; a.a = a; echo(a)", Exception("does not contain itself")),
        of("large arguments", "echo({a: 'x'.repeat(100000)})", Limit(Limit::Output)),
    ]
}

fn of(name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    super::attempt(Language::JavaScript, name, code, expected)
}
