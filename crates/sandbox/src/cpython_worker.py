"""Runs one job and exits. Implements the frame protocol of `frame.rs` in a process that is already confined.

This script is not a security boundary: the code can reach and change all of it. The server checks each frame.
"""

import _thread
import ast
import builtins
import io
import json
import math
import os
import resource
import select
import sys
import types

FILE = "<code>"
MAX_NESTING = 100
MAX_MESSAGE = 4000
MAX_FRAMES = 10
HEADROOM = 64 << 20

# The processor time of a job beyond its time limit. `confine/linux/limits.rs` explains the value.
CPU_HEADROOM_SECONDS = 2


def move_pipes():
    """Moves the pipes to other descriptors, so that output of C libraries on standard output does not corrupt a frame."""
    pipes = os.dup(0), os.dup(1)
    reader, writer = os.pipe()
    os.close(writer)
    os.dup2(reader, 0)
    os.close(reader)
    os.dup2(2, 1)
    return pipes


FROM_SERVER, TO_SERVER = move_pipes()
PIPE_LOCK = _thread.RLock()


def send(body):
    frame = memoryview(len(body).to_bytes(4, "big") + body)
    while frame:
        frame = frame[os.write(TO_SERVER, frame) :]


def receive():
    return json.loads(read_exactly(int.from_bytes(read_exactly(4), "big")))


def read_exactly(length):
    chunks = []
    while length:
        chunk = os.read(FROM_SERVER, min(length, 1 << 20))
        if not chunk:
            os._exit(0)
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def exit_with_server():
    """Exits when the server closes the pipe, even while the code is blocked."""
    hangup = select.poll()
    hangup.register(FROM_SERVER, 0)
    hangup.poll()
    os._exit(0)


def encode(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def finish(body):
    """Sends the last frame and exits at once. No `atexit`, `finally` or other thread of the code runs afterwards."""
    with PIPE_LOCK:
        send(body)
        os._exit(0)


def limit_exceeded(limit):
    return encode({"finished": {"Err": {"kind": "limit", "limit": limit}}})


# These messages are encoded in advance, because no memory may be left when they are sent.
MEMORY_EXCEEDED = limit_exceeded("memory")
OUTPUT_EXCEEDED = limit_exceeded("output")
DEPTH_EXCEEDED = limit_exceeded("depth")


class CapturedOutput(io.RawIOBase):
    """Captures the printed text and ends the job when it exceeds the limit."""

    def __init__(self, max_bytes):
        self.max_bytes = max_bytes
        self.text = bytearray()

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        if len(self.text) + len(data) > self.max_bytes:
            finish(OUTPUT_EXCEEDED)
        self.text += data
        return len(data)

    def __str__(self):
        return self.text.decode(errors="replace")


class ToolError(RuntimeError):
    """Raised if a host function fails. A `RuntimeError`, because the embedded Python has no separate type for this error."""


class NotJson(Exception):
    """A value that cannot be converted to JSON."""


def to_json(value, path="", levels=MAX_NESTING):
    """Returns the value in a form that is valid JSON. Raises `NotJson` with the path of the part that is not."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotJson(f"{path or 'it'} is a string with a lone surrogate") from None
        return value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64 and not is_exact_float(value):
            raise NotJson(f"{path or 'it'} is an integer that JSON parsers would round; use str()")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{path or 'it'} is {value}, which JSON cannot represent")
        return value
    if not isinstance(value, (list, tuple, dict)):
        raise NotJson(f"{path or 'it'} is of type {type(value).__name__}, which JSON cannot represent; use dict, list, str, int, float, bool or None")
    if not levels:
        raise NotJson(f"it is nested more than {MAX_NESTING} levels deep")
    if not isinstance(value, dict):
        return [to_json(item, f"{path}/{index}", levels - 1) for index, item in enumerate(value)]
    for key in value:
        if not isinstance(key, str):
            raise NotJson(f"{path or 'it'} has the key {key!r:.80}; JSON keys must be strings")
    return {to_json(key, path): to_json(item, f"{path}/{key:.80}", levels - 1) for key, item in value.items()}


def is_exact_float(number):
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def host_function(name):
    """Returns a function that calls a function of the host."""

    def function(*positional, **named):
        if len(positional) > 1 or (positional and not isinstance(positional[0], dict)):
            raise TypeError(f"{name}() takes named arguments or one dict")
        arguments = {**(positional[0] if positional else {}), **named}
        try:
            body = encode({"call": {"function": name, "arguments": to_json(arguments)}})
        except NotJson as error:
            raise TypeError(f"the arguments of {name}() cannot be converted to JSON: {error}") from None
        with PIPE_LOCK:
            send(body)
            answer = receive()["answer"]
        if "Err" in answer:
            raise ToolError(answer["Err"])
        return answer["Ok"]

    function.__name__ = function.__qualname__ = name
    return function


def apply_limits(limits):
    memory = limits["memory"] + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    used = resource.getrusage(resource.RUSAGE_SELF)
    time = limits["time"]["secs"] + limits["time"]["nanos"] / 1e9
    seconds = math.ceil(used.ru_utime + used.ru_stime + time) + CPU_HEADROOM_SECONDS
    # The kernel sends SIGXCPU at the first limit, and SIGKILL at the second if the code ignores SIGXCPU.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.setrecursionlimit(max(limits["depth"], 50) + 20)


def new_main_module(job):
    """Replaces the module `__main__` and returns its scope, which holds inputs and host functions."""
    module = types.ModuleType("__main__")
    scope = module.__dict__
    scope.update(__builtins__=builtins, ToolError=ToolError, inputs=job["inputs"])
    scope.update((name, host_function(name)) for name in job["functions"])
    fields = job["inputs"] if isinstance(job["inputs"], dict) else {}
    # A field named `result` must not become the result, and no field may replace another name.
    taken = {"result", *scope}
    scope.update((name, value) for name, value in fields.items() if name.isidentifier() and name not in taken)
    sys.modules["__main__"] = module
    return scope


def compile_code(source):
    """Compiles the code. Returns its last expression separately."""
    tree = compile(source, FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), FILE, "eval", dont_inherit=True)
    return compile(tree, FILE, "exec", dont_inherit=True), last


def run(program, last, scope):
    exec(program, scope)
    value = eval(last, scope) if last else None
    return scope.get("result", value)


def code_lines(error):
    """Returns the lines of the code in a traceback, outermost first."""
    lines, trace = [], error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == FILE:
            lines.append((trace.tb_lineno, trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    return lines


def describe(error):
    """Returns message and line of an exception. Its class may belong to the code, so its methods may fail."""
    name, text = "Exception", ""
    try:
        name = str(type(error).__name__)
        text = str(error)
    except BaseException:
        text = "(the message cannot be read)"
    message = (f"{name}: {text}" if text else name)[:MAX_MESSAGE]
    lines = code_lines(error)
    if len(lines) > 1:
        message += "".join(f"\n  line {line}, in {function}" for line, function in lines[-MAX_FRAMES:])
    return message.encode(errors="replace").decode(), lines[-1][0] if lines else None


def failure_frame(kind, message, line, **more):
    return encode({"finished": {"Err": {"kind": kind, "message": message, "line": line, **more}}})


def result_frame(value, printed, max_bytes):
    try:
        result = encode(to_json(value))
    except NotJson as error:
        return failure_frame("exception", f"the result cannot be converted to JSON: {error}", None, stdout=str(printed))
    if len(result) > max_bytes:
        return OUTPUT_EXCEEDED
    return b'{"finished":{"Ok":{"result":' + result + b',"stdout":' + encode(str(printed)) + b"}}}"


def main():
    _thread.stack_size(1 << 18)
    _thread.start_new_thread(exit_with_server, ())
    _thread.stack_size(0)
    send(sys.argv[1].encode())
    job = receive()["run"]
    max_bytes = job["limits"]["output"]
    printed = CapturedOutput(max_bytes)
    sys.stdout = sys.stderr = io.TextIOWrapper(printed, "utf-8", "backslashreplace", write_through=True)
    sys.argv = [""]
    # Hides the environment from the code. It contains only settings for the C library and the locale that Python chose.
    os.environ.clear()
    scope = new_main_module(job)
    try:
        apply_limits(job["limits"])
        program, last = compile_code(job["code"])
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        finish(failure_frame("code", f"{type(error).__name__}: {getattr(error, 'msg', None) or error}", line))
    except MemoryError:
        finish(MEMORY_EXCEEDED)
    except RecursionError:
        finish(DEPTH_EXCEEDED)
    try:
        finish(result_frame(run(program, last, scope), printed, max_bytes))
    except MemoryError:
        finish(MEMORY_EXCEEDED)
    except RecursionError:
        finish(DEPTH_EXCEEDED)
    except BaseException as error:
        message, line = describe(error)
        finish(failure_frame("exception", message, line, stdout=str(printed)))


main()
