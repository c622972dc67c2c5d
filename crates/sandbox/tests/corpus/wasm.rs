//! WASM modules, as text, that try to escape from the sandbox or to exhaust its resources.

use std::borrow::Cow;

use toolwright_sandbox::{Language, Limit};

use super::{Attempt, Expected, Expected::*};

pub(crate) fn attempts() -> Vec<Attempt> {
    vec![
        // Time.
        start("infinite loop", "", "(loop (br 0))", Limit(Limit::Time)),
        of(
            "infinite start function",
            "(module (func $s (loop (br 0))) (start $s) (func (export \"_start\")))",
            Limit(Limit::Time),
        ),
        start(
            "infinite writes",
            FD_WRITE,
            "(loop (drop (call $w (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))) (br 0))",
            Limit(Limit::Time),
        ),
        start(
            "infinite sched_yield",
            "(import \"wasi_snapshot_preview1\" \"sched_yield\" (func $y (result i32)))",
            "(loop (drop (call $y)) (br 0))",
            Limit(Limit::Time),
        ),
        start(
            "infinite memory.fill",
            "",
            "(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br 0))",
            Limit(Limit::Time),
        ),
        // Memory.
        start(
            "grow to the maximum memory",
            "",
            "(if (i32.eq (memory.grow (i32.const 65535)) (i32.const -1)) (then (unreachable)))",
            Limit(Limit::Memory),
        ),
        start(
            "grow memory page by page",
            "",
            "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (unreachable)",
            Limit(Limit::Memory),
        ),
        start("ignore a denied memory.grow", "", "(drop (memory.grow (i32.const 65535)))", Value("null")),
        of(
            "large initial memory",
            "(module (memory (export \"memory\") 65536) (func (export \"_start\")))",
            Limit(Limit::Memory),
        ),
        of(
            "two memories",
            "(module (memory (export \"memory\") 1) (memory 1) (func (export \"_start\")))",
            Exception(""),
        ),
        start(
            "grow a table",
            "(table $t 1 funcref)",
            "(if (i32.eq (table.grow $t (ref.null func) (i32.const 1000000000)) (i32.const -1)) (then (unreachable)))",
            Limit(Limit::Memory),
        ),
        of("large initial table", "(module (table 10000000 funcref) (func (export \"_start\")))", Limit(Limit::Memory)),
        of(
            "many tables",
            format!("(module {} (func (export \"_start\")))", "(table 1 funcref)".repeat(50)),
            Exception(""),
        ),
        of(
            "shared memory",
            "(module (memory (export \"memory\") 1 1 shared) (func (export \"_start\")))",
            Rejected(""),
        ),
        // Recursion.
        start("recursion", "(func $f (call $f) (nop))", "(call $f)", Limit(Limit::Depth)),
        start(
            "recursion through a table",
            "(table funcref (elem $f)) (func $f (call_indirect (i32.const 0)) (nop))",
            "(call $f)",
            Limit(Limit::Depth),
        ),
        // Pointers.
        start(
            "out-of-bounds load",
            "",
            "(drop (i32.load (i32.const 65536)))",
            Exception("out of bounds memory access"),
        ),
        start(
            "load with a large offset",
            "",
            "(drop (i32.load offset=4294967295 (i32.const -1)))",
            Exception("out of bounds memory access"),
        ),
        start(
            "request out of bounds",
            CALL,
            "(drop (call $c (i32.const 65530) (i32.const 100)))",
            Exception("out of bounds"),
        ),
        start(
            "request that wraps around",
            CALL,
            "(drop (call $c (i32.const -1) (i32.const -1)))",
            Exception("out of bounds"),
        ),
        start(
            "a request of four gigabytes",
            CALL,
            "(drop (call $c (i32.const 0) (i32.const -1)))",
            Exception("out of bounds"),
        ),
        start(
            "answer out of bounds",
            CALL_AND_ANSWER,
            "(drop (call $c (i32.const 0) (i32.const 0))) (call $a (i32.const 65535))",
            Exception("out of bounds"),
        ),
        start(
            "iovecs out of bounds",
            FD_WRITE,
            "(call $exit (call $w (i32.const 1) (i32.const -4) (i32.const 1) (i32.const 0)))",
            Exception("exited with code 21"),
        ),
        start(
            "too many iovecs",
            FD_WRITE,
            "(call $exit (call $w (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 0)))",
            Exception("exited with code 28"),
        ),
        start(
            "byte count out of bounds",
            FD_WRITE,
            "(call $exit (call $w (i32.const 1) (i32.const 0) (i32.const 0) (i32.const -2)))",
            Exception("exited with code 21"),
        ),
        start(
            "random bytes out of bounds",
            RANDOM,
            "(call $exit (call $r (i32.const 65536) (i32.const 1)))",
            Exception("exited with code 21"),
        ),
        start(
            "gigabytes of random bytes",
            RANDOM,
            "(call $exit (call $r (i32.const 0) (i32.const -1)))",
            Exception("exited with code 28"),
        ),
        of(
            "no memory at all",
            "(module (import \"toolwright\" \"call\" (func $c (param i32 i32) (result i32))) (func (export \"_start\") (drop (call $c (i32.const 0) (i32.const 0)))))",
            Exception("out of bounds"),
        ),
        start(
            "a division by zero",
            "",
            "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
            Exception("integer divide by zero"),
        ),
        start(
            "indirect call of another type",
            "(table funcref (elem $g)) (func $g (param i32))",
            "(call_indirect (i32.const 0))",
            Exception("indirect call type mismatch"),
        ),
        // Access to the host.
        of(
            "an import that does not exist",
            "(module (import \"env\" \"system\" (func (param i32) (result i32))) (func (export \"_start\")))",
            Rejected("`env.system` is not available"),
        ),
        of(
            "imported memory",
            "(module (import \"wasi_snapshot_preview1\" \"memory\" (memory 1)) (func (export \"_start\")))",
            Rejected("is not available"),
        ),
        of(
            "WASI preview 2",
            "(module (import \"wasi:filesystem/types@0.2.0\" \"open-at\" (func)) (func (export \"_start\")))",
            Rejected("is not available"),
        ),
        of(
            "known import with another signature",
            "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func (param i64))) (func (export \"_start\")))",
            Exception("incompatible import type"),
        ),
        start(
            "open a file",
            "(import \"wasi_snapshot_preview1\" \"path_open\" (func $o (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))",
            "(call $exit (call $o (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 0)))",
            Exception("exited with code 52"),
        ),
        start(
            "preopened directory",
            "(import \"wasi_snapshot_preview1\" \"fd_prestat_get\" (func $p (param i32 i32) (result i32)))",
            "(call $exit (call $p (i32.const 3) (i32.const 0)))",
            Exception("exited with code 8"),
        ),
        start(
            "accept on a socket",
            "(import \"wasi_snapshot_preview1\" \"sock_accept\" (func $s (param i32 i32 i32) (result i32)))",
            "(call $exit (call $s (i32.const 3) (i32.const 0) (i32.const 0)))",
            Exception("exited with code 52"),
        ),
        start(
            "raise a signal",
            "(import \"wasi_snapshot_preview1\" \"proc_raise\" (func $s (param i32) (result i32)))",
            "(call $exit (call $s (i32.const 9)))",
            Exception("exited with code 52"),
        ),
        start(
            "sleep",
            "(import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $p (param i32 i32 i32 i32) (result i32)))",
            "(call $exit (call $p (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0)))",
            Exception("exited with code 52"),
        ),
        start(
            "a descriptor of the worker",
            FD_WRITE,
            "(call $exit (call $w (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0)))",
            Exception("exited with code 8"),
        ),
        start(
            "the time",
            "(import \"wasi_snapshot_preview1\" \"clock_time_get\" (func $t (param i32 i64 i32) (result i32)))",
            "(drop (call $t (i32.const 0) (i64.const 0) (i32.const 0))) (if (i64.ne (i64.load (i32.const 0)) (i64.const 0)) (then (unreachable)))",
            Value("null"),
        ),
        start(
            "the environment",
            "(import \"wasi_snapshot_preview1\" \"environ_sizes_get\" (func $e (param i32 i32) (result i32)))",
            "(drop (call $e (i32.const 0) (i32.const 4))) (if (i32.load (i32.const 0)) (then (unreachable)))",
            Value("null"),
        ),
        start("exit with success", "", "(call $exit (i32.const 0)) (unreachable)", Value("null")),
        start("ungranted function", &ungranted_call(), "(drop (call $c (i32.const 0) (i32.const 28)))", Value("null")),
        start(
            "infinite host calls",
            &echo_call(),
            "(loop (drop (call $c (i32.const 0) (i32.const 19))) (br 0))",
            Limit(Limit::HostCalls),
        ),
        // Output.
        start(
            "infinite result",
            &iovec_of(1000),
            "(loop (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))) (br 0))",
            Limit(Limit::Output),
        ),
        start(
            "infinite printing",
            &iovec_of(1000),
            "(loop (drop (call $w (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))) (br 0))",
            Limit(Limit::Output),
        ),
        start(
            "a result that is not JSON",
            &iovec_of(3),
            "(drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))",
            Exception("must be JSON"),
        ),
        // Modules.
        of(
            "a module that is too large",
            format!("(module (func (export \"_start\")) {})", "(; ;)".repeat(2 << 20)),
            Rejected("must have at most"),
        ),
        of("module without _start", "(module)", Rejected("`_start`")),
        of("_start with a parameter", "(module (func (export \"_start\") (param i32)))", Exception("")),
        of("module that fails validation", "(module (func (export \"_start\") (i32.add)))", Rejected("")),
        of("text that is not a module", "(modul", Rejected("")),
        of("base64 that is not a module", "aGVsbG8gd29ybGQ=", Rejected("")),
        of("neither text nor base64", "print('hello')", Rejected("must be WebAssembly text")),
        of("deeply nested blocks", blocks(1_000), Value("null")),
        of("blocks that take long to compile", blocks(200_000), Limit(Limit::Time)).needs_process(),
        of(
            "too many locals",
            format!("(module (func (export \"_start\") (local {})))", "i64 ".repeat(60_000)),
            Rejected(""),
        ),
    ]
}

const FD_WRITE: &str =
    "(import \"wasi_snapshot_preview1\" \"fd_write\" (func $w (param i32 i32 i32 i32) (result i32)))";
const RANDOM: &str = "(import \"wasi_snapshot_preview1\" \"random_get\" (func $r (param i32 i32) (result i32)))";
const CALL_AND_ANSWER: &str = "(import \"toolwright\" \"call\" (func $c (param i32 i32) (result i32)))\n\
     (import \"toolwright\" \"answer\" (func $a (param i32)))";
const CALL: &str = "(import \"toolwright\" \"call\" (func $c (param i32 i32) (result i32)))";

fn of(name: &'static str, code: impl Into<Cow<'static, str>>, expected: Expected) -> Attempt {
    super::attempt(Language::Wasm, name, code, expected)
}

/// An attempt whose module has one page of memory and runs `body` in `_start`. `declarations` may contain imports.
fn start(name: &'static str, declarations: &str, body: &str, expected: Expected) -> Attempt {
    let (imports, rest): (Vec<_>, Vec<_>) =
        declarations.split_inclusive('\n').partition(|line| line.contains("(import"));
    let exit = "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))";
    let code = format!(
        "(module {exit} {} (memory (export \"memory\") 1) {} (func (export \"_start\") {body}))",
        imports.concat(),
        rest.concat(),
    );
    of(name, code, expected)
}

fn blocks(levels: usize) -> String {
    format!("(module (func (export \"_start\") {}{}))", "(block ".repeat(levels), ")".repeat(levels))
}

fn ungranted_call() -> String {
    format!("{CALL}\n(data (i32.const 0) \"{{\\22function\\22:\\22delete_everyt\\22}}\")")
}

fn echo_call() -> String {
    format!("{CALL}\n(data (i32.const 0) \"{{\\22function\\22:\\22echo\\22}}\")")
}

/// Declares `fd_write` and an iovec at address 0 that points to `length` bytes after it.
fn iovec_of(length: u32) -> String {
    let [a, b, c, d] = length.to_le_bytes();
    format!("{FD_WRITE}\n(data (i32.const 0) \"\\10\\00\\00\\00\\{a:02x}\\{b:02x}\\{c:02x}\\{d:02x}\")")
}
