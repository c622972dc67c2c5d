"""Answers what a run waits for: approvals and client tools. Does no IO.

The functions are generators. They yield what a client does next, an operation or a function of the user, and receive
its result. The synchronous and the asynchronous client run the same generators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generator, Mapping, TypeVar, Union, cast

from .errors import ToolwrightError
from .events import StreamEvent
from .models import (
    AgentResponseView,
    ApprovalView,
    AwaitingClientView,
    ClientActionView,
    DecisionBody,
    ToolEnvelope,
    ToolResultBody,
)
from .operation import Operation
from .operations import decide_approval, execute_tool, return_tool_results

T = TypeVar("T")

Handlers = Mapping[str, Callable[[Any], Any]]
"""Functions that perform client tools, by the name of the tool. A function takes the prepared payload and returns the
output. `AsyncClient` also accepts coroutine functions.
"""

OnApproval = Callable[[ApprovalView], Any]
"""A function that decides on a call: it returns `approve()`, `deny()` or `edit()`, or `None` to leave the call waiting.
`AsyncClient` also accepts a coroutine function.
"""


class ClientToolError(Exception):
    """A function that performs a client tool can raise this: the call fails with its message, and the run continues."""


@dataclass(frozen=True)
class Invoke:
    """A function of the user that the client has to call."""

    function: Callable[[Any], Any]
    argument: Any


Step = Union[Operation[Any], Invoke]
Steps = Generator[Step, Any, T]


def approve() -> DecisionBody:
    """Returns the decision to execute the call."""
    return {"decision": "approve"}


def deny(reason: str | None = None) -> DecisionBody:
    """Returns the decision not to execute the call. The model sees the reason."""
    return {"decision": "deny", "reason": reason}


def edit(input: Any) -> DecisionBody:
    """Returns the decision to execute the call with this input. The model is informed that the input was changed."""
    return {"decision": "edit", "input": input}


def call_tool(ref: str, input: Any, version: str | None, tools: Handlers | None) -> Steps[ToolEnvelope]:
    """Calls a tool. If it is a client tool, performs it and returns its result."""
    result = yield execute_tool(ref, {"input": input, "version": version})
    if "clientActions" not in result:
        return cast(ToolEnvelope, result)
    waiting = cast(AwaitingClientView, result)
    action = waiting["clientActions"][0]
    results = yield from _perform([action], tools or {})
    if not results:
        raise ToolwrightError(
            "awaiting-client",
            f"`{ref}` is a client tool, and no function performs it",
            f"pass a function for `{action['toolRef']}` in `tools`",
            run_id=waiting["runId"],
        )
    response = yield return_tool_results(waiting["runId"], {"results": results})
    return cast(AgentResponseView, response)["outputs"]["tools_by_id"][action["callId"]]


def answer(
    response: AgentResponseView, tools: Handlers | None, on_approval: OnApproval | None
) -> Steps[AgentResponseView]:
    """Answers approvals and client tools until the run ends, or waits for something that no function answers."""
    undecided: set[str] = set()
    while True:
        results = yield from _perform(response["clientActions"], tools or {})
        if results:
            response = yield return_tool_results(response["runId"], {"results": results})
            continue
        approval = next((each for each in response["approvals"] if each["callId"] not in undecided), None)
        if approval is None or on_approval is None:
            return response
        decision = yield Invoke(on_approval, approval)
        if decision is None:
            undecided.add(approval["callId"])
        else:
            response = yield decide_approval(approval["runId"], approval["callId"], decision)


def answer_event(event: StreamEvent, tools: Handlers | None, on_approval: OnApproval | None) -> Steps[None]:
    """Answers what an event of a stream asks for. The stream shows how the run continues."""
    if event["type"] == "APPROVAL_REQUIRED" and on_approval is not None:
        decision = yield Invoke(on_approval, event["approval"])
        if decision is not None:
            yield decide_approval(event["runId"], event["approval"]["callId"], decision, wait=False)
    elif event["type"] == "CLIENT_ACTION":
        results = yield from _perform([event["clientAction"]], tools or {})
        if results:
            yield return_tool_results(event["runId"], {"results": results}, wait=False)


def _perform(actions: list[ClientActionView], tools: Handlers) -> Steps[list[ToolResultBody]]:
    results: list[ToolResultBody] = []
    for action in actions:
        function = tools.get(action["toolRef"])
        if function is None:
            continue
        try:
            output = yield Invoke(function, action["preparedPayload"])
            results.append({"callId": action["callId"], "output": output})
        except ClientToolError as error:
            results.append({"callId": action["callId"], "error": str(error)})
    return results
