"""The asynchronous client against a real server. It shares its core with the synchronous one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conftest import KEY, CuttingProxy
from toolwright import AsyncClient, ToolwrightError, approve, operations, output_of
from toolwright.models import ApprovalView, DecisionBody


def test_calls_run_concurrently_and_errors_are_raised_and_all_pages_are_read(url: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(url, KEY) as client:
            envelopes = await asyncio.gather(
                *[client.tools.call("hubspot/get-deal", {"dealId": deal}) for deal in ("101", "102")]
            )
            assert [output_of(envelope)["id"] for envelope in envelopes] == ["101", "102"]
            with pytest.raises(ToolwrightError) as caught:
                await client.tools.call("no-such-tool")
            assert caught.value.code == "not-found"
            names = [tool["refName"] async for tool in client.tools.list(limit=2)]
            page = await client.send(operations.list_tools(limit="100"))
            assert names == [tool["refName"] for tool in page.items]

    asyncio.run(scenario())


def test_coroutine_functions_answer_approvals_and_client_tools(url: str) -> None:
    async def open_file(payload: Any) -> Any:
        return {"lines": 3}

    async def decide(approval: ApprovalView) -> DecisionBody:
        return approve()

    async def scenario() -> None:
        async with AsyncClient(url, KEY) as client:
            run = await client.agents.run(
                "editor", "open and create", tools={"open_file": open_file}, on_approval=decide
            )
            assert (run.status, run.text) == ("COMPLETED", "Both are done.")
            waiting = await client.agents.run("assistant", "Create a deal.")
            listed = [approval.view["callId"] async for approval in client.approvals.list(waiting.id)]
            assert listed == [approval.view["callId"] for approval in waiting.approvals]
            denied = await waiting.approvals[0].deny("no")
            assert denied.status == "COMPLETED"

    asyncio.run(scenario())


def test_cut_stream_resumes(url: str) -> None:
    async def scenario() -> None:
        proxy = CuttingProxy(url, [b'{"type":"USAGE"', b'{"type":"TOOL_CALL_END"'])
        async with AsyncClient(proxy.url, KEY) as client:
            stream = client.agents.stream(
                "editor",
                "open and create",
                tools={"open_file": lambda payload: {"lines": 3}},
                on_approval=lambda approval: approve(),
            )
            events = [event async for event in stream]
        proxy.close()
        assert events[-1]["type"] == "DONE" and events[-1]["content"] == "Both are done."
        assert [event["type"] for event in events].count("CLIENT_ACTION") == 1
        assert "TEXT_RESET" in [event["type"] for event in events]

    asyncio.run(scenario())
