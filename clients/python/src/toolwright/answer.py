"""Answers what a run and its child runs wait for: approvals and client tools. Does no IO.

The functions are generators. They yield what a client does next, an operation, a function of the user or a run to
follow, and receive its result. The synchronous and the asynchronous client run the same generators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generator, Mapping, TypeVar, Union, cast

from .core import WAITING, run_response, waiting_remedy
from .errors import ToolwrightError
from .events import StreamEvent
from .models import (
    AgentResponseView,
    ApprovalView,
    ClientActionView,
    DecisionBody,
    RunStatus,
    RunView,
    ToolEnvelope,
    ToolResultBody,
)
from .operation import Operation
from .operations import decide_approval, execute_tool, get_run, return_tool_results

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


@dataclass(frozen=True)
class Follow:
    """A run that the client has to follow. The result is the state of the run as soon as the condition is true of it."""

    run_id: str
    condition: Callable[[AgentResponseView], bool]


_Call = tuple[str, str]
"""The id of a run, and the id of a call of this run."""

Step = Union[Operation[Any], Invoke, Follow]
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


class Answers:
    """The functions of a user. Each approval and each call of a client tool is passed to them once."""

    def __init__(self, tools: Handlers | None, on_approval: OnApproval | None) -> None:
        if tools is not None and not isinstance(tools, Mapping):
            raise TypeError(
                f"`tools` must be a dict, got {_type_of(tools)}; pass a function for each tool: {{'open_file': open_file}}"
            )
        for name, function in (tools or {}).items():
            if not callable(function):
                raise TypeError(
                    f"`tools` must have a function for `{name}`, got {_type_of(function)}; "
                    "pass a function that takes the payload and returns the output"
                )
        if on_approval in (approve, deny, edit) or not (on_approval is None or callable(on_approval)):
            raise TypeError(
                f"`on_approval` must be a function of the approval, got {on_approval!r}; "
                "pass a function that returns the decision, such as `lambda approval: approve()`"
            )
        self._tools: Handlers = tools or {}
        self._on_approval = on_approval
        self._seen: set[_Call] = set()
        self._answered: set[_Call] = set()

    def call(self, ref: str, input: Any, version: str | None) -> Steps[ToolEnvelope]:
        """Calls a tool and answers what the call waits for. Returns the envelope of the call."""
        result = yield execute_tool(ref, {"input": input, "version": version})
        if "clientActions" not in result:
            return cast(ToolEnvelope, result)
        run = run_response((yield get_run(result["runId"])))
        run = yield from self.answer(run)
        if run["status"] in WAITING:
            is_client_tool = run["status"] == "AWAITING_CLIENT"
            raise ToolwrightError(
                "awaiting-client" if is_client_tool else "awaiting-approval",
                f"the call of `{ref}` waits for {'a client tool' if is_client_tool else 'an approval'}",
                waiting_remedy(run, "`tools.call`"),
                run_id=run["runId"],
            )
        # The run has one call.
        return next(iter(run["outputs"]["tools_by_id"].values()))

    def answer(self, response: AgentResponseView, root: str | None = None) -> Steps[AgentResponseView]:
        """Answers what a run and its child runs wait for, until the run ends or no function answers what is left. `root`
        is the run at the top, if it is another run.
        """
        while self._tools or self._on_approval:
            tree = yield from _suspended_tree(response, self._answered, root)
            answered = yield from self._answer_each(tree)
            if answered is None:
                return tree.first_run()
            response = answered
        return response

    def answer_event(self, event: StreamEvent) -> Steps[None]:
        """Answers what an event of a stream requests. The stream shows how the run continues."""
        if event["type"] == "APPROVAL_REQUIRED":
            yield from self._decide(event["runId"], event["approval"], wait=False)
        elif event["type"] == "CLIENT_ACTION":
            yield from self._return_results(event["runId"], [event["clientAction"]], wait=False)
        elif event["type"] == "CHILD_WAITING" and (self._tools or self._on_approval):
            # Not every later wait of the child run, or of a run below it, is an event of this stream. So the child run
            # is followed until it ends or no function answers what is left.
            child = yield get_run(event["childRun"]["runId"])
            yield from self.answer(run_response(child), root=event["runId"])

    def _answer_each(self, tree: _Tree) -> Steps[AgentResponseView | None]:
        """Answers what each of the runs waits for. Returns the new state of the first run, or `None` if no function
        answered anything.
        """
        first = tree.runs[0]["runId"]
        answered = False
        latest: Any = None
        # The child runs come first, because they continue while the client waits for the response of the first run.
        for run in [*tree.runs[1:], tree.runs[0]]:
            id, is_first = run["runId"], run["runId"] == first
            steps = [self._return_results(id, run["clientActions"], wait=is_first)]
            steps += [self._decide(id, approval, wait=is_first) for approval in tree.approvals_of(run)]
            for step in steps:
                response = yield from step
                if response is not None:
                    answered, latest = True, response if is_first else None
        if not answered:
            return None
        return run_response(latest or (yield get_run(first)))

    def _decide(self, run_id: str, approval: ApprovalView, *, wait: bool) -> Steps[Any]:
        """Sends the decision of the user. Returns the response, or `None` if the user leaves the call waiting."""
        if self._on_approval is None or not self._is_new(run_id, approval["callId"]):
            return None
        decision = yield Invoke(self._on_approval, approval)
        if decision is None:
            return None
        if not isinstance(decision, Mapping) or "decision" not in decision:
            raise TypeError(
                f"`on_approval` must return `approve()`, `deny()`, `edit(input)` or `None`, got {decision!r}; "
                f"the call of `{approval['toolRef']}` still waits"
            )
        self._answered.add((run_id, approval["callId"]))
        return (yield decide_approval(run_id, approval["callId"], cast(DecisionBody, decision), wait=wait))

    def _return_results(self, run_id: str, actions: list[ClientActionView], *, wait: bool) -> Steps[Any]:
        """Performs the actions that have a function. Returns the response, or `None` if none has a function."""
        results: list[ToolResultBody] = []
        for action in actions:
            function = self._tools.get(action["toolRef"])
            if function is None or not self._is_new(run_id, action["callId"]):
                continue
            try:
                output = yield Invoke(function, action["preparedPayload"])
                results.append({"callId": action["callId"], "output": output})
            except ClientToolError as error:
                results.append({"callId": action["callId"], "error": str(error)})
        if not results:
            return None
        self._answered.update((run_id, result["callId"]) for result in results)
        return (yield return_tool_results(run_id, {"results": results}, wait=wait))

    def _is_new(self, run_id: str, call_id: str) -> bool:
        is_new = (run_id, call_id) not in self._seen
        self._seen.add((run_id, call_id))
        return is_new


def decide(approval: ApprovalView, run_id: str, decision: DecisionBody) -> Steps[AgentResponseView]:
    """Sends a decision. Returns the run `run_id` as soon as it has ended, or it and its child runs wait again."""
    call = (approval["runId"], approval["callId"])
    is_own = approval["runId"] == run_id
    response = yield decide_approval(*call, decision, wait=is_own)
    if not is_own:
        response = yield get_run(run_id)
    return (yield from _suspended_tree(run_response(response), {call})).first_run()


@dataclass(frozen=True)
class _Tree:
    """A run, and the child runs below it that wait."""

    runs: list[AgentResponseView]
    """The run comes first, and each other run comes after its parent."""

    root: str | None
    """The run at the top, if it is not the first run."""

    def first_run(self) -> AgentResponseView:
        """Returns the first run with the approvals of all runs, and with the status that follows from them. The server's
        response can lack a new approval of a child run for a moment, or still contain a decided one.
        """
        first = self.runs[0]
        approvals = [approval for run in self.runs for approval in self.approvals_of(run)]
        waiting: RunStatus = "AWAITING_APPROVAL" if approvals else "AWAITING_CLIENT"
        return {**first, "approvals": approvals, "status": waiting if first["status"] in WAITING else first["status"]}

    def approvals_of(self, run: AgentResponseView) -> list[ApprovalView]:
        """Returns the approvals of a run, without those of its child runs."""
        first = self.runs[0]
        own = [approval for approval in run["approvals"] if approval["runId"] == run["runId"]]
        if run is first and self.root is None:
            return own
        # The server names the runs above only in the responses of these runs.
        listed = {approval["callId"]: approval for approval in first["approvals"] if approval["runId"] == run["runId"]}
        above = {"parentRunId": cast(RunView, run).get("parentRunId"), "rootRunId": self.root or first["runId"]}
        return [cast(ApprovalView, {**approval, **above, **listed.get(approval["callId"], {})}) for approval in own]

    def next_change(self, answered: set[_Call]) -> Follow | None:
        """Returns the run to follow until it changes, or `None` if no run of the tree is active."""
        for run in self.runs:
            if run["status"] == "RUNNING":
                return Follow(run["runId"], lambda state: state["status"] != "RUNNING")
            # If an answer ends a run, the server shows the run as it was before until the end is stored.
            stale = _waiting_calls(run) & answered
            if stale:
                return Follow(run["runId"], lambda state: not _waiting_calls(state) & stale)
        for run in self.runs[1:]:
            if run["status"] not in WAITING:
                # The child run has ended, and its parent run continues as soon as it is informed.
                id = run["runId"]
                parent = next(each for each in self.runs if id in _waiting_children(each))
                return Follow(parent["runId"], lambda state: id not in _waiting_children(state))
        return None


def _suspended_tree(first: AgentResponseView, answered: set[_Call], root: str | None = None) -> Steps[_Tree]:
    """Follows a run until it has ended, or it and its child runs wait for calls that are not answered yet."""
    while True:
        runs = [first]
        for run in runs:
            for id in _waiting_children(run):
                runs.append(run_response((yield get_run(id))))
        tree = _Tree(runs, root)
        follow = tree.next_change(answered)
        if follow is None:
            return tree
        state = yield follow
        first = run_response(state if follow.run_id == first["runId"] else (yield get_run(first["runId"])))


def _waiting_calls(run: AgentResponseView) -> set[_Call]:
    """Returns the calls of a run that wait, without those of its child runs."""
    id = run["runId"]
    approvals = {(id, approval["callId"]) for approval in run["approvals"] if approval["runId"] == id}
    return approvals | {(id, action["callId"]) for action in run["clientActions"]}


def _waiting_children(run: AgentResponseView) -> list[str]:
    return [child["runId"] for child in run.get("waitingChildRuns", [])]


def _type_of(value: object) -> str:
    return type(value).__name__
