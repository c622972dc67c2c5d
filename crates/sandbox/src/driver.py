"""Runs one job and ends. Speaks the frames of `frame.rs`; the process is confined before this is read.

Nothing here is a wall: code can reach all of it, and whatever it does with that it does to itself. The server checks each frame.
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


def take_pipes():
    """Moves the pipes to the server out of the way, so that `print` from a C library does not land in a frame."""
    pipes = os.dup(0), os.dup(1)
    end, start = os.pipe()
    os.close(start)
    os.dup2(end, 0)
    os.close(end)
    os.dup2(2, 1)
    return pipes


FROM_SERVER, TO_SERVER = take_pipes()
SPEAKING = _thread.RLock()


def send(body):
    frame = memoryview(len(body).to_bytes(4, "big") + body)
    while frame:
        frame = frame[os.write(TO_SERVER, frame) :]


def receive():
    return json.loads(exactly(int.from_bytes(exactly(4), "big")))


def exactly(length):
    parts = []
    while length:
        part = os.read(FROM_SERVER, min(length, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def follow():
    """Ends with the server, also while the code waits for something else."""
    end = select.poll()
    end.register(FROM_SERVER, 0)
    end.poll()
    os._exit(0)


def encode(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def finish(body):
    """Ends the process, without a last word of the code: no `atexit`, no `finally`, no other threads."""
    with SPEAKING:
        send(body)
        os._exit(0)


def beyond(limit):
    return encode({"finished": {"Err": {"kind": "limit", "limit": limit}}})


# Encoded ahead, because there may be no memory left to do it.
BEYOND_MEMORY = beyond("memory")
BEYOND_OUTPUT = beyond("output")
BEYOND_DEPTH = beyond("depth")


class Printed(io.RawIOBase):
    """What the code prints, up to its limit."""

    def __init__(self, most):
        self.most = most
        self.text = bytearray()

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        if len(self.text) + len(data) > self.most:
            finish(BEYOND_OUTPUT)
        self.text += data
        return len(data)

    def __str__(self):
        return self.text.decode(errors="replace")


class ToolError(RuntimeError):
    """A function of the host failed. The embedded Python has no name for it but `RuntimeError`."""


class NotJson(Exception):
    """A value cannot leave the sandbox."""


def checked(value, place="", levels=MAX_NESTING):
    """A value that is JSON as it stands, or an exception that says which part of it is not."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotJson(f"{place or 'it'} is text with half a character (a lone surrogate)") from None
        return value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64 and not exact(value):
            raise NotJson(f"{place or 'it'} is an integer that JSON readers would round; use str()")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{place or 'it'} is {value}, which JSON does not have")
        return value
    if not isinstance(value, (list, tuple, dict)):
        raise NotJson(f"{place or 'it'} is of type {type(value).__name__}, which is not JSON; use dict, list, str, int, float, bool or None")
    if not levels:
        raise NotJson(f"it is nested more than {MAX_NESTING} deep")
    if not isinstance(value, dict):
        return [checked(item, f"{place}/{index}", levels - 1) for index, item in enumerate(value)]
    for key in value:
        if not isinstance(key, str):
            raise NotJson(f"{place or 'it'} has the key {key!r:.80}, and keys in JSON are strings")
    return {checked(key, place): checked(item, f"{place}/{key:.80}", levels - 1) for key, item in value.items()}


def exact(number):
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def granted(name):
    """A function of the host, as the code sees it."""

    def function(*positional, **named):
        if len(positional) > 1 or (positional and not isinstance(positional[0], dict)):
            raise TypeError(f"{name}() takes named arguments, or one dict")
        arguments = {**(positional[0] if positional else {}), **named}
        try:
            body = encode({"call": {"function": name, "arguments": checked(arguments)}})
        except NotJson as error:
            raise TypeError(f"{name}() cannot be called with this: {error}") from None
        with SPEAKING:
            send(body)
            answer = receive()["answer"]
        if "Err" in answer:
            raise ToolError(answer["Err"])
        return answer["Ok"]

    function.__name__ = function.__qualname__ = name
    return function


def limit(limits):
    memory = limits["memory"] + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + limits["time"]["secs"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.setrecursionlimit(max(limits["depth"], 50) + 20)


def fresh_module(job):
    module = types.ModuleType("__main__")
    scope = module.__dict__
    scope.update(__builtins__=builtins, ToolError=ToolError, inputs=job["inputs"])
    scope.update((name, granted(name)) for name in job["functions"])
    fields = job["inputs"] if isinstance(job["inputs"], dict) else {}
    # What was not asked for as a result is none, and no field takes the place of something else.
    taken = {"result", *scope}
    scope.update((name, value) for name, value in fields.items() if name.isidentifier() and name not in taken)
    sys.modules["__main__"] = module
    return scope


def read(source):
    """The code, and its last expression apart."""
    tree = compile(source, FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), FILE, "eval", dont_inherit=True)
    return compile(tree, FILE, "exec", dont_inherit=True), last


def run(program, last, scope):
    exec(program, scope)
    value = eval(last, scope) if last else None
    return scope.get("result", value)


def where(error):
    """The lines of the code that an exception came through, outermost first."""
    lines, trace = [], error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == FILE:
            lines.append((trace.tb_lineno, trace.tb_frame.f_code.co_name))
        trace = trace.tb_next
    return lines


def told(error):
    """An exception as the code's author wants to read it. Its parts may be the code's own, and fail."""
    name, text = "Exception", ""
    try:
        name = str(type(error).__name__)
        text = str(error)
    except BaseException:
        text = "(it has no readable message)"
    message = (f"{name}: {text}" if text else name)[:MAX_MESSAGE]
    lines = where(error)
    if len(lines) > 1:
        message += "".join(f"\n  line {line}, in {function}" for line, function in lines[-MAX_FRAMES:])
    return message.encode(errors="replace").decode(), lines[-1][0] if lines else None


def failed(kind, message, line, **more):
    return encode({"finished": {"Err": {"kind": kind, "message": message, "line": line, **more}}})


def finished(value, printed, most):
    try:
        result = encode(checked(value))
    except NotJson as error:
        return failed("exception", f"The result cannot be returned: {error}", None, stdout=str(printed))
    if len(result) > most:
        return BEYOND_OUTPUT
    return b'{"finished":{"Ok":{"result":' + result + b',"stdout":' + encode(str(printed)) + b"}}}"


def main():
    _thread.stack_size(1 << 18)
    _thread.start_new_thread(follow, ())
    _thread.stack_size(0)
    send(sys.argv[1].encode())
    job = receive()["run"]
    most = job["limits"]["output"]
    printed = Printed(most)
    sys.stdout = sys.stderr = io.TextIOWrapper(printed, "utf-8", "backslashreplace", write_through=True)
    sys.argv = [""]
    # What is in there is for the C library, and Python's own choice of a locale.
    os.environ.clear()
    scope = fresh_module(job)
    try:
        limit(job["limits"])
        program, last = read(job["code"])
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        finish(failed("code", f"{type(error).__name__}: {getattr(error, 'msg', None) or error}", line))
    except MemoryError:
        finish(BEYOND_MEMORY)
    except RecursionError:
        finish(BEYOND_DEPTH)
    try:
        finish(finished(run(program, last, scope), printed, most))
    except MemoryError:
        finish(BEYOND_MEMORY)
    except RecursionError:
        finish(BEYOND_DEPTH)
    except BaseException as error:
        message, line = told(error)
        finish(failed("exception", message, line, stdout=str(printed)))


main()
