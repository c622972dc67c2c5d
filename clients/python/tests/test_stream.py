"""Streams against a real server, also through a proxy that cuts connections."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Iterable

import pytest

from conftest import KEY, CuttingProxy, serve
from toolwright import Client, StreamEvent, ToolwrightError, approve
from toolwright.operation import StreamOperation
from toolwright.stream import StreamReader

QUESTION = "Which deals are in negotiation?"


def texts(events: Iterable[StreamEvent]) -> list[str]:
    """Returns the text of each iteration, as a consumer that obeys `TEXT_RESET` shows it."""
    found: dict[int, str] = {}
    for event in events:
        if event["type"] == "TEXT_DELTA":
            found[event["iteration"]] = found.get(event["iteration"], "") + event["content"]
        elif event["type"] == "TEXT_RESET":
            found[event["iteration"]] = ""
    return list(found.values())


def steps(events: Iterable[StreamEvent]) -> list[str]:
    """Returns the events that are not pieces of text. The calls of one reply end in any order."""
    found = [event["type"] for event in events if event["type"] not in ("TEXT_DELTA", "TEXT_RESET")]
    return sorted(found)


def test_stream_shows_text_calls_and_the_end(client: Client) -> None:
    events = list(client.agents.stream("assistant", QUESTION))
    assert {"THINKING", "TEXT_DELTA", "USAGE", "TOOL_CALL_START", "TOOL_CALL_END"} <= {each["type"] for each in events}
    last = events[-1]
    assert last["type"] == "DONE" and last["status"] == "COMPLETED"
    assert texts(events)[-1] == last["content"]


def test_stream_keeps_unusual_line_separators(client: Client) -> None:
    events = list(client.agents.stream("editor", "hello"))
    assert texts(events) == ["one\u2028line"]


def test_rejected_stream_raises(client: Client) -> None:
    with pytest.raises(ToolwrightError) as caught:
        list(client.agents.stream("no-such-agent", QUESTION))
    assert caught.value.code == "not-found"


def test_stream_answers_approvals_and_client_tools(client: Client) -> None:
    events = list(
        client.agents.stream(
            "editor",
            "open and create",
            tools={"open_file": lambda payload: {"lines": 3}},
            on_approval=lambda approval: approve(),
        )
    )
    assert {"APPROVAL_REQUIRED", "CLIENT_ACTION"} <= {each["type"] for each in events}
    last = events[-1]
    assert last["type"] == "DONE" and last["content"] == "Both are done."


MARKERS = {
    "in the text": [b'{"type":"USAGE"'],
    "in an entry": [b'{"type":"TOOL_CALL_END"'],
    "before the end": [b'{"type":"DONE"'],
    "several times": [b'{"type":"USAGE"', b'{"type":"TOOL_CALL_START"', b'{"type":"TOOL_CALL_END"', b'{"type":"DONE"'],
}


@pytest.mark.parametrize("markers", MARKERS.values(), ids=MARKERS.keys())
def test_cut_stream_resumes_without_losing_or_repeating_events(
    client: Client, url: str, markers: list[bytes]
) -> None:
    whole = list(client.agents.stream("assistant", QUESTION))
    proxy = CuttingProxy(url, markers)
    with Client(proxy.url, KEY) as cut:
        events = list(cut.agents.stream("assistant", QUESTION))
    proxy.close()
    assert len(proxy.requests) == len(markers) + 1
    assert all(b"/events" in request.split(b"\r\n")[0] for request in proxy.requests[1:])
    assert all(b"last-event-id:" in request.lower() for request in proxy.requests[1:])
    assert steps(events) == steps(whole)
    assert texts(events) == texts(whole)


def test_cut_stream_performs_a_client_tool_once(url: str) -> None:
    performed: list[str] = []

    def open_file(payload: dict[str, str]) -> dict[str, int]:
        performed.append(payload["open"])
        return {"lines": 3}

    proxy = CuttingProxy(url, [b'{"type":"TOOL_CALL_END"'])
    with Client(proxy.url, KEY) as cut:
        events = list(cut.agents.stream("editor", "open", tools={"open_file": open_file}))
    proxy.close()
    assert performed == ["notes.md"]
    assert texts(events)[-1] == "The file has 3 lines."


def test_stream_continues_after_a_restart_of_the_server(tmp_path: Path) -> None:
    types: list[str] = []
    with ExitStack() as server:
        proxy = CuttingProxy(server.enter_context(serve(tmp_path)), [])
        with Client(proxy.url, KEY) as client:
            for event in client.agents.stream("assistant", "Create a deal."):
                types.append(event["type"])
                if event["type"] == "APPROVAL_REQUIRED":
                    server.close()
                    proxy.forward_to(server.enter_context(serve(tmp_path)))
                    [approval] = client.approvals.list(event["runId"])
                    assert approval.deny("not after a restart").status == "COMPLETED"
        proxy.close()
    assert types.count("APPROVAL_REQUIRED") == 1 and types[-1] == "DONE"


def test_stream_that_cannot_resume_raises_and_names_the_run(client: Client, url: str) -> None:
    proxy = CuttingProxy(url, [b'{"type":"TOOL_CALL_START"'], stops=True)
    with Client(proxy.url, KEY, reconnects=1) as cut, pytest.raises(ToolwrightError) as caught:
        list(cut.agents.stream("assistant", QUESTION))
    assert caught.value.code == "connection" and caught.value.run_id is not None
    assert list(client.runs.events(caught.value.run_id))[-1]["type"] == "DONE"


def test_stream_cut_before_its_first_event_is_not_started_again(url: str) -> None:
    proxy = CuttingProxy(url, [b"HTTP/1.1"])
    with Client(proxy.url, KEY) as cut, pytest.raises(ToolwrightError) as caught:
        list(cut.agents.stream("assistant", QUESTION))
    proxy.close()
    assert caught.value.code == "connection" and len(proxy.requests) == 1


def test_events_resume_after_a_journal_entry(client: Client) -> None:
    run = client.agents.run("assistant", QUESTION)
    whole = list(client.runs.events(run.id))
    rest = list(client.runs.events(run.id, after=2))
    assert 0 < len(rest) < len(whole) and rest == whole[-len(rest) :]


def test_reader_takes_events_in_pieces_of_any_size() -> None:
    text = 'event: TEXT_DELTA\r\ndata: {"type":"TEXT_DELTA","content":"ä","iteration":1,"runId":"run_1"}\r\n\r\n: alive\n\n'
    reader = StreamReader(StreamOperation("GET", "/"), attempts=1)
    events = [event for byte in text.encode() for event in reader.feed(bytes([byte]))]
    assert texts(events) == ["ä"]
