"""Reads a stream of server-sent events and decides how to resume it. Does no IO."""

from __future__ import annotations

import json
from typing import Any, Iterator, cast

from .errors import ToolwrightError
from .events import StreamEvent, TextReset
from .operation import StreamOperation
from .operations import watch_run

FIRST_DELAY = 0.1
"""How long a client waits before it reconnects for the second time, in seconds. The delay doubles each time."""

LONGEST_DELAY = 5.0


class StreamReader:
    """The state of one stream, across its connections."""

    def __init__(self, operation: StreamOperation, attempts: int, run_id: str | None = None) -> None:
        self.operation = operation
        """The request that opens the next connection."""
        self.ended = False
        """Whether the event of the run's end was received."""
        self.run_id = run_id
        self._attempts = attempts
        self._failures = 0
        self._buffer = b""
        self._data: list[str] = []
        self._id: str | None = None
        after = operation.query.get("after")
        self._last_id: str | None = None if after is None else str(after)
        self._iteration = 0
        # Whether the consumer has pieces of a reply that the server sends again if the stream is resumed. A journal
        # entry contains a reply only when it is complete.
        self._has_pieces = False
        self._reply_complete = False
        # Events since the last id. The server sends them again if the stream is resumed, because only the last event
        # of a journal entry has an id.
        self._since_id: set[str] = set()
        self._repeated: set[str] = set()

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """Takes bytes of the response and returns the events that they complete."""
        self._buffer += data
        # Only a line feed ends a line here: JSON may contain other characters that `str.splitlines` splits at.
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8"))
            if event is not None:
                yield event

    def lost(self, cause: ToolwrightError) -> float:
        """Prepares the next connection and returns the delay before it. Raises the cause if it cannot resume."""
        if self.run_id is None or self._failures >= self._attempts:
            raise cause
        delay = 0.0 if self._failures == 0 else min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (self._failures - 1))
        self._failures += 1
        self._buffer, self._data, self._id = b"", [], None
        self._repeated = set(self._since_id)
        self.operation = watch_run(self.run_id, last_event_id=self._last_id)
        return delay

    def resumed(self) -> Iterator[StreamEvent]:
        """Returns the event that tells the consumer to discard the pieces that the new connection repeats."""
        if self._has_pieces and self.run_id is not None:
            self._has_pieces = False
            yield TextReset(type="TEXT_RESET", runId=self.run_id, iteration=self._iteration)

    def _line(self, line: str) -> StreamEvent | None:
        if line == "":
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _dispatch(self) -> StreamEvent | None:
        text, identifier = "\n".join(self._data), self._id
        self._data, self._id = [], None
        if not text:
            return None
        event: dict[str, Any] = json.loads(text)
        self._failures = 0
        self.run_id, self._iteration = event["runId"], event["iteration"]
        self.ended = event["type"] in ("DONE", "ERROR")
        repeated = self._note(event, identifier)
        return None if repeated else cast(StreamEvent, event)

    def _note(self, event: dict[str, Any], identifier: str | None) -> bool:
        """Records the event for a later resumption, and returns whether an earlier connection delivered it."""
        if event["type"] == "TEXT_DELTA" or (event["type"] == "THINKING" and event.get("content") is not None):
            self._has_pieces, self._reply_complete = True, False
            return False
        if event["type"] == "TEXT_RESET":
            self._has_pieces = False
            return False
        if event["type"] == "USAGE":
            self._reply_complete = True
        calls = (event.get(field) for field in ("toolInvocation", "approval", "clientAction", "childRun"))
        key = f"{event['type']} {next((call['callId'] for call in calls if call), None)}"
        if identifier is None:
            self._since_id.add(key)
            return key in self._repeated
        self._last_id = identifier
        self._has_pieces = self._has_pieces and not self._reply_complete
        self._since_id, self._repeated = set(), set()
        return False
