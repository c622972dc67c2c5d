"""Approvals and client tools of delegates, against a real server: `chief` delegates to `front`, which delegates to
`editor`.
"""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import Any, Iterator

import pytest

from conftest import KEY, CuttingProxy
from toolwright import AsyncClient, Client, ToolwrightError, approve, deny, output_of
from toolwright.models import ApprovalView, DecisionBody

CASES = {
    "an approval and a client tool": ("open and create", ["From the editor"], ["notes.md"], "Both are done."),
    "one approval after the other": ("two deals", ["First", "Second"], [], "Both are done."),
    "one client tool after the other": ("two files", [], ["first.md", "second.md"], "The file has 2 lines."),
}
"""The task, the names of the deals to approve, the files that the client opens, and the answer of `editor`."""


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Fails a test that waits for an event that does not come."""

    def expire(signum: int, frame: FrameType | None) -> None:
        pytest.fail("the client waits for more than 30 s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


class User:
    """Approves all calls and opens all files, and records them."""

    def __init__(self) -> None:
        self.approvals: list[ApprovalView] = []
        self.opened: list[str] = []
        self.tools = {"open_file": self.open_file}

    def open_file(self, payload: dict[str, str]) -> dict[str, int]:
        self.opened.append(payload["open"])
        return {"lines": len(self.opened)}

    def decide(self, approval: ApprovalView) -> DecisionBody:
        self.approvals.append(approval)
        return approve()

    @property
    def deals(self) -> list[str]:
        return [approval["input"]["properties"]["dealname"] for approval in self.approvals]


@pytest.mark.parametrize(("task", "deals", "files", "answer"), CASES.values(), ids=CASES.keys())
def test_run_answers_its_delegates_and_returns_its_own_answer(
    client: Client, task: str, deals: list[str], files: list[str], answer: str
) -> None:
    user = User()
    run = client.agents.run("chief", task, tools=user.tools, on_approval=user.decide)
    assert (run.status, run.text) == ("COMPLETED", f"The front says: The editor says: {answer}")
    assert (user.deals, user.opened) == (deals, files)
    assert {approval.get("rootRunId") for approval in user.approvals} <= {run.id}
    assert run.response["approvals"] == [] and client.runs.get(run.id).text == run.text


@pytest.mark.parametrize(("task", "deals", "files", "answer"), CASES.values(), ids=CASES.keys())
def test_stream_answers_delegates_until_its_own_end(
    client: Client, task: str, deals: list[str], files: list[str], answer: str
) -> None:
    user = User()
    events = list(client.agents.stream("chief", task, tools=user.tools, on_approval=user.decide))
    last = events[-1]
    assert last["type"] == "DONE" and last["content"] == f"The front says: The editor says: {answer}"
    assert (user.deals, user.opened) == (deals, files)
    assert {approval.get("rootRunId") for approval in user.approvals} <= {last["runId"]}
    waits = [event["childRun"] for event in events if event["type"] == "CHILD_WAITING"]
    assert waits and {child["agentRef"] for child in waits} == {"front"}


def test_delegate_waits_for_its_own_approval_after_its_delegate_has_ended(client: Client) -> None:
    task, answer = "create two deals, then one of the front", "The front says: The front is done too."
    user = User()
    run = client.agents.run("chief", task, on_approval=user.decide)
    assert (run.text, user.deals) == (answer, ["First", "Second", "Front"])
    user = User()
    last = list(client.agents.stream("chief", task, on_approval=user.decide))[-1]
    assert last["type"] == "DONE" and (last["content"], user.deals) == (answer, ["First", "Second", "Front"])


def test_delegates_that_wait_at_once_are_answered(client: Client) -> None:
    user = User()
    run = client.agents.run("front", "both at once", tools=user.tools, on_approval=user.decide)
    assert run.text == "The editor says: Both are done."
    assert sorted(user.deals) == ["First", "From the editor", "Second"] and user.opened == ["notes.md"]
    user = User()
    last = list(client.agents.stream("front", "both at once", tools=user.tools, on_approval=user.decide))[-1]
    assert last["type"] == "DONE" and last["content"] == "The editor says: Both are done."
    assert sorted(user.deals) == ["First", "From the editor", "Second"]


def test_decision_on_a_call_of_a_delegate_returns_the_run_that_lists_it(client: Client) -> None:
    waiting = client.agents.run("chief", "two deals")
    again = waiting.approvals[0].approve()
    assert (again.id, again.status) == (waiting.id, "AWAITING_APPROVAL")
    [second] = again.approvals
    assert second.view["input"]["properties"]["dealname"] == "Second"
    assert second.view.get("rootRunId") == waiting.id
    done = second.deny("one is enough")
    assert (done.id, done.status) == (waiting.id, "COMPLETED")
    assert done.text.startswith("The front says: The editor says: It failed:")
    listed = client.agents.run("chief", "two deals")
    [approval] = client.approvals.list(listed.approvals[0].view["runId"])
    assert approval.approve().id == approval.view["runId"]
    assert listed.cancel().status == "CANCELLED"


def test_call_of_a_delegate_that_no_function_answers_leaves_the_run_waiting(client: Client) -> None:
    asked: list[ApprovalView] = []
    run = client.agents.run("chief", "open and create", on_approval=asked.append)
    assert run.status == "AWAITING_APPROVAL" and run.text != "Both are done."
    assert len(asked) == len(run.approvals) == 1
    user = User()
    half = run.answer(on_approval=user.decide)
    assert (half.id, half.approvals, user.deals) == (run.id, [], ["From the editor"])
    assert half.status == "AWAITING_CLIENT"
    done = half.answer(tools=user.tools)
    assert (done.id, done.text) == (run.id, "The front says: The editor says: Both are done.")


def test_stream_that_is_cut_while_a_delegate_waits_asks_once(url: str) -> None:
    proxy = CuttingProxy(url, [b'{"type":"TOOL_CALL_END"'])
    user = User()
    with Client(proxy.url, KEY) as cut:
        events = list(cut.agents.stream("front", "two deals", on_approval=user.decide))
    proxy.close()
    assert events[-1]["type"] == "DONE" and user.deals == ["First", "Second"]


def test_composite_tool_waits_for_an_approval(client: Client) -> None:
    with pytest.raises(ToolwrightError) as caught:
        client.tools.call("cancel_order", {"orderId": "ord-1002"})
    error = caught.value
    assert error.code == "awaiting-approval" and error.run_id is not None
    assert "`orders/cancel`" in error.remedy and "`on_approval`" in error.remedy
    assert client.runs.cancel(error.run_id).status == "CANCELLED"
    envelope = client.tools.call("cancel_order", {"orderId": "ord-1002"}, on_approval=lambda approval: deny("keep it"))
    with pytest.raises(ToolwrightError) as caught:
        output_of(envelope)
    assert (caught.value.code, caught.value.reason) == ("POLICY_DENIED", "approval_denied")


def test_asynchronous_client_answers_delegates(url: str) -> None:
    async def scenario() -> None:
        user = User()

        async def decide(approval: ApprovalView) -> DecisionBody:
            return user.decide(approval)

        async with AsyncClient(url, KEY) as client:
            for task, deals, files, answer in CASES.values():
                user.approvals, user.opened = [], []
                run = await client.agents.run("chief", task, tools=user.tools, on_approval=decide)
                assert (run.status, run.text) == ("COMPLETED", f"The front says: The editor says: {answer}")
                assert (user.deals, user.opened) == (deals, files)
                user.approvals, user.opened = [], []
                stream = client.agents.stream("chief", task, tools=user.tools, on_approval=decide)
                last = [event async for event in stream][-1]
                assert last["type"] == "DONE" and last["content"] == run.text
                assert (user.deals, user.opened) == (deals, files)
            waiting = await client.agents.run("chief", "two deals")
            again = await waiting.approvals[0].approve()
            assert (again.id, len(again.approvals)) == (waiting.id, 1)
            done = await again.approvals[0].approve()
            assert (done.id, done.text) == (waiting.id, "The front says: The editor says: Both are done.")

    asyncio.run(scenario())


MISUSES: dict[str, tuple[dict[str, Any], str]] = {
    "a decision instead of a function": ({"on_approval": approve()}, "lambda approval: approve()"),
    "a function without a parameter": ({"on_approval": approve}, "lambda approval: approve()"),
    "a list of functions": ({"tools": [len]}, "pass a function for each tool"),
    "a value instead of a function": ({"tools": {"open_file": 3}}, "`tools` must have a function for `open_file`"),
}


@pytest.mark.parametrize(("functions", "expected"), MISUSES.values(), ids=MISUSES.keys())
def test_wrong_functions_are_rejected_before_the_run_starts(
    client: Client, functions: dict[str, Any], expected: str
) -> None:
    before = [run["id"] for run in client.runs.list(agentRef="editor")]
    with pytest.raises(TypeError, match="must") as caught:
        client.agents.run("editor", "open", **functions)
    assert expected in str(caught.value)
    with pytest.raises(TypeError, match="must"):
        next(iter(client.agents.stream("editor", "open", **functions)))
    assert [run["id"] for run in client.runs.list(agentRef="editor")] == before


def test_function_that_returns_no_decision_is_an_error_with_the_remedy(client: Client) -> None:
    with pytest.raises(TypeError, match=r"must return `approve\(\)`.*got True.*still waits"):
        client.agents.run("editor", "two deals", on_approval=lambda approval: True)
    for run in client.runs.list(agentRef="editor", status="AWAITING_APPROVAL"):
        client.runs.cancel(run["id"])


def test_error_of_a_waiting_run_names_the_calls_and_the_functions(client: Client) -> None:
    run = client.agents.run("chief", "open and create")
    with pytest.raises(ToolwrightError) as caught:
        run.raise_for_status()
    assert "`hubspot/create-deal`" in caught.value.remedy and "`on_approval`" in caught.value.remedy
    run = run.approvals[0].approve()
    with pytest.raises(ToolwrightError) as caught:
        run.raise_for_status()
    assert "client tools of `front` in `tools`" in caught.value.remedy
    run.cancel()
