"""The parts that both clients share: settings, requests, responses and the state of runs. Does no IO."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, cast

import httpx

from .errors import ToolwrightError, connection_error, problem
from .models import AgentExecuteBody, AgentResponseView
from .operation import Operation, Page, Request

DEFAULT_URL = "http://127.0.0.1:7411"

STREAM_SILENCE = 60.0
"""The number of seconds without data after which a stream counts as lost. The server sends a comment every 15 s."""

WAITING = ("AWAITING_APPROVAL", "AWAITING_CLIENT")
"""The statuses of a run that waits."""


@dataclass(frozen=True)
class Settings:
    """The address of a server, the key, and limits."""

    url: str
    headers: Mapping[str, str]
    timeout: float
    reconnects: int

    @staticmethod
    def of(url: str | None, api_key: str | None, realm: str | None, timeout: float, reconnects: int) -> Settings:
        """Completes the arguments with `TOOLWRIGHT_URL`, `TOOLWRIGHT_API_KEY` and `TOOLWRIGHT_REALM`."""
        key = api_key or os.environ.get("TOOLWRIGHT_API_KEY")
        if not key:
            raise ToolwrightError("no-api-key", "the API key is required", "set TOOLWRIGHT_API_KEY or pass `api_key`")
        headers = {"Authorization": f"Bearer {key}"}
        named_realm = realm or os.environ.get("TOOLWRIGHT_REALM")
        if named_realm:
            headers["X-Realm"] = named_realm
        address = url or os.environ.get("TOOLWRIGHT_URL") or DEFAULT_URL
        return Settings(address.rstrip("/"), headers, timeout, reconnects)

    def timeouts(self) -> httpx.Timeout:
        return httpx.Timeout(self.timeout, connect=10.0)

    def stream_timeouts(self) -> httpx.Timeout:
        return httpx.Timeout(STREAM_SILENCE, connect=10.0)

    def arguments(self, request: Request) -> dict[str, Any]:
        """Returns the arguments of httpx for a request."""
        headers = {**self.headers, **request.header_values()}
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": self.url + request.path,
            "params": request.query_values(),
            "headers": headers,
        }
        if request.body is not None:
            is_json = request.content_type == "application/json"
            arguments["json" if is_json else "content"] = request.body
            headers["Content-Type"] = request.content_type
        return arguments

    def decode(self, operation: Operation[Any], response: httpx.Response) -> Any:
        """Returns the body of a response as the type of its operation, or raises the error that it contains."""
        if not response.is_success:
            raise problem(response.status_code, response.content, self.url)
        if operation.form == "bytes":
            return response.content
        if not response.content:
            return None
        if not response.headers.get("content-type", "").startswith("application/json"):
            return response.text
        body = response.json()
        return Page(body["items"], body.get("nextCursor")) if operation.form == "page" else body

    def lost(self, cause: Exception, run_id: str | None = None) -> ToolwrightError:
        return connection_error(cause, self.url, run_id)


def message_body(
    message: str, conversation_id: str | None, context: Mapping[str, Any] | None, version: str | None
) -> AgentExecuteBody:
    """Returns the body of a request that runs an agent."""
    return {
        "userMessage": message,
        "conversationId": conversation_id,
        "context": None if context is None else dict(context),
        "version": version,
    }


class RunState:
    """The state and the results of a run. It sends no requests."""

    def __init__(self, response: AgentResponseView) -> None:
        self.response = response
        """The whole response of the server."""

    @property
    def id(self) -> str:
        return self.response["runId"]

    @property
    def status(self) -> str:
        return self.response["status"]

    @property
    def text(self) -> str:
        """The answer, or the model's last text if there is no answer yet."""
        return self.response["responseText"]

    @property
    def data(self) -> Any:
        """The answer as data, if the agent answers with data; otherwise `None`."""
        return self.response.get("outputContext")

    @property
    def conversation_id(self) -> str | None:
        return self.response.get("conversationId")

    @property
    def waiting(self) -> bool:
        """Whether the run waits for an approval or a client."""
        return self.status in WAITING

    def raise_for_status(self) -> None:
        """Raises a `ToolwrightError` unless the run is `COMPLETED`."""
        if self.status == "COMPLETED":
            return
        waits = self.waiting
        remedy = waiting_remedy(self.response, "`run` or `answer`") if waits else f"read the journal of {self.id}"
        raise ToolwrightError(
            self.status,
            self.response.get("message") or f"the run has the status {self.status}",
            remedy,
            reason=self.response.get("reason"),
            run_id=self.id,
        )


def waiting_remedy(run: AgentResponseView, methods: str) -> str:
    """Returns what the caller of a run that waits can do. `methods` accept functions that answer the run."""
    remedies: list[str] = []
    if run["approvals"]:
        calls = _names(approval["toolRef"] for approval in run["approvals"])
        remedies.append(f"decide on the calls of {calls}: pass `on_approval` to {methods}, or use `approvals`")
    if run["clientActions"]:
        calls = _names(action["toolRef"] for action in run["clientActions"])
        remedies.append(f"pass a function for {calls} in `tools` to {methods}")
    # A run learns the new status of a child run with a short delay.
    children = run.get("waitingChildRuns", [])
    clients = [child for child in children if child["status"] == "AWAITING_CLIENT" or not remedies]
    if clients:
        names = _names(child["agentRef"] for child in clients)
        remedies.append(f"pass functions for the client tools of {names} in `tools` to {methods}")
    return "; ".join(remedies)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def run_response(value: Any) -> AgentResponseView:
    """Returns the response to a command as the state of a run. The command must be sent without `wait=false`."""
    return cast(AgentResponseView, value)
