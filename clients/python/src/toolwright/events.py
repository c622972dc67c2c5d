"""The events of a stream. Programs and type checkers distinguish them by `type`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Union

from .models import ApprovalView, ChildRunView, ClientActionView, RunStatus, ToolCallEntry, Usage

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class _Event(TypedDict):
    runId: str
    """The id of the run."""

    iteration: int
    """The number of model calls so far."""


class Thinking(_Event):
    """A model call starts, or the model produces a piece of its reasoning."""

    type: Literal["THINKING"]
    content: str | None


class TextDelta(_Event):
    """The model produces a piece of text."""

    type: Literal["TEXT_DELTA"]
    content: str


class TextReset(_Event):
    """Discard the pieces of this iteration: the model starts again, or the stream was resumed and repeats them."""

    type: Literal["TEXT_RESET"]


class UsageEvent(_Event):
    """A reply is complete."""

    type: Literal["USAGE"]
    usage: Usage
    costUsd: NotRequired[float]


class ToolCallStart(_Event):
    """A call starts."""

    type: Literal["TOOL_CALL_START"]
    content: str
    toolInvocation: ToolCallEntry


class ToolCallEnd(_Event):
    """A call ended or was denied."""

    type: Literal["TOOL_CALL_END"]
    content: str
    toolInvocation: ToolCallEntry


class ApprovalRequired(_Event):
    """A call needs an approval."""

    type: Literal["APPROVAL_REQUIRED"]
    approval: ApprovalView


class ClientAction(_Event):
    """A call waits for the client."""

    type: Literal["CLIENT_ACTION"]
    clientAction: ClientActionView


class ChildWaiting(_Event):
    """A child run waits for an approval or a client, for the first time or again after a decision."""

    type: Literal["CHILD_WAITING"]
    content: str
    childRun: ChildRunView


class Done(_Event):
    """The run ended, with any status but `ERROR`."""

    type: Literal["DONE"]
    content: str
    status: RunStatus
    reason: NotRequired[str]


class RunError(_Event):
    """The run ended with `ERROR`."""

    type: Literal["ERROR"]
    content: str | None
    status: RunStatus
    reason: NotRequired[str]


StreamEvent = Union[
    Thinking,
    TextDelta,
    TextReset,
    UsageEvent,
    ToolCallStart,
    ToolCallEnd,
    ApprovalRequired,
    ClientAction,
    ChildWaiting,
    Done,
    RunError,
]
"""An event of the stream of a run."""

STATE_EVENTS = ("TOOL_CALL_END", "APPROVAL_REQUIRED", "CLIENT_ACTION", "CHILD_WAITING", "DONE", "ERROR")
"""The types of the events after which a run can have ended or wait."""
