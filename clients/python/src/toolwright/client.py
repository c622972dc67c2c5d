"""The synchronous client."""

from __future__ import annotations

import inspect
import time
from contextlib import closing
from types import TracebackType
from typing import Any, Generator, Iterator, Mapping, TypeVar

import httpx

from . import operations
from .answer import Answers, Follow, Handlers, Invoke, OnApproval, Step, Steps, approve, decide, deny, edit
from .core import RunState, Settings, message_body, run_response
from .errors import problem
from .events import STATE_EVENTS, StreamEvent
from .models import (
    AcceptedView,
    AgentResponseView,
    AgentView,
    ApprovalView,
    ClientActionView,
    DecisionBody,
    RunSummaryView,
    ToolEnvelope,
    ToolView,
)
from .operation import Operation, Page, StreamOperation
from .stream import StreamReader

T = TypeVar("T")


class Client:
    """Calls the tools and agents of a server.

    The defaults of `url`, `api_key` and `realm` are the variables `TOOLWRIGHT_URL`, `TOOLWRIGHT_API_KEY` and
    `TOOLWRIGHT_REALM`. Without a realm, requests use the realm of the key. `timeout` is the time limit of each request
    in seconds, including the run of an agent. A stream fails after `reconnects` failed connections in a row.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        realm: str | None = None,
        timeout: float = 300.0,
        reconnects: int = 10,
        http: httpx.Client | None = None,
    ) -> None:
        self._settings = Settings.of(url, api_key, realm, timeout, reconnects)
        self._http = http or httpx.Client(timeout=self._settings.timeouts())
        self.tools = Tools(self)
        self.agents = Agents(self)
        self.runs = Runs(self)
        self.approvals = Approvals(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def send(self, operation: Operation[T]) -> T:
        """Sends any operation of `toolwright.operations` and returns its typed response."""
        try:
            response = self._http.request(**self._settings.arguments(operation))
        except httpx.TransportError as error:
            raise self._settings.lost(error) from error
        result: T = self._settings.decode(operation, response)
        return result

    def iterate(self, operation: Operation[Page[T]]) -> Iterator[T]:
        """Returns the items of all pages of an operation that lists items. A page is requested when it is needed."""
        while True:
            page = self.send(operation)
            yield from page.items
            if page.next_cursor is None:
                return
            operation = operation.at_cursor(page.next_cursor)

    def stream(self, operation: StreamOperation) -> Iterator[StreamEvent]:
        """Returns the events of a stream until the run ends. A lost connection is resumed."""
        return self._events(StreamReader(operation, self._settings.reconnects))

    def _events(self, reader: StreamReader) -> Generator[StreamEvent, None, None]:
        while not reader.ended:
            try:
                yield from self._connection(reader)
                cause = self._settings.lost(EOFError("the stream ended before the run"), reader.run_id)
            except httpx.TransportError as error:
                cause = self._settings.lost(error, reader.run_id)
            if not reader.ended:
                time.sleep(reader.lost(cause))

    def _connection(self, reader: StreamReader) -> Iterator[StreamEvent]:
        arguments = self._settings.arguments(reader.operation)
        with self._http.stream(**arguments, timeout=self._settings.stream_timeouts()) as response:
            if response.status_code >= 500 and reader.run_id is not None:
                return
            if not response.is_success:
                raise problem(response.status_code, response.read(), self._settings.url)
            yield from reader.resumed()
            for data in response.iter_bytes():
                yield from reader.feed(data)
                if reader.ended:
                    return

    def perform(self, steps: Steps[T]) -> T:
        """Runs a generator of `toolwright.answer`."""
        try:
            step = next(steps)
            while True:
                try:
                    result = self._result_of(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value

    def _result_of(self, step: Step) -> Any:
        if isinstance(step, Invoke):
            return self._invoke(step)
        return self._follow(step) if isinstance(step, Follow) else self.send(step)

    def _follow(self, step: Follow) -> AgentResponseView:
        """Reads the state of a run, and again after each of its events that can change the state of a waiting run, until
        the condition is true.
        """
        # The position is read first, so that no event between the position and the state is missed.
        position = (self.send(operations.get_run_state(step.run_id, limit=1)))["at"]
        state = self._state(step.run_id)
        if step.condition(state):
            return state
        operation = operations.watch_run(step.run_id, after=position)
        reader = StreamReader(operation, self._settings.reconnects, step.run_id)
        with closing(self._events(reader)) as events:
            for event in events:
                if event["type"] in STATE_EVENTS:
                    state = self._state(step.run_id)
                    if step.condition(state):
                        break
        return state

    def _state(self, run_id: str) -> AgentResponseView:
        return run_response(self.send(operations.get_run(run_id)))

    @staticmethod
    def _invoke(step: Invoke) -> Any:
        result = step.function(step.argument)
        if inspect.isawaitable(result):
            raise TypeError("the function is a coroutine function; use `AsyncClient`")
        return result


class Run(RunState):
    """A run of an agent, as it was when the server responded."""

    def __init__(self, client: Client, response: AgentResponseView) -> None:
        super().__init__(response)
        self._client = client

    @property
    def approvals(self) -> list[Approval]:
        """The calls of this run and of its child runs that wait for an approval."""
        return [Approval(self._client, each, self.id) for each in self.response["approvals"]]

    @property
    def client_actions(self) -> list[ClientActionView]:
        """The calls of this run that wait for the client. `answer` performs them, also those of child runs."""
        return self.response["clientActions"]

    def answer(self, *, tools: Handlers | None = None, on_approval: OnApproval | None = None) -> Run:
        """Answers what the run and its child runs wait for. Returns this run when it has ended, or when no function
        answers what is left.
        """
        return Run(self._client, self._client.perform(Answers(tools, on_approval).answer(self.response)))

    def cancel(self) -> Run:
        """Ends the run."""
        return self._client.runs.cancel(self.id)

    def refresh(self) -> Run:
        """Reads the run again."""
        return self._client.runs.get(self.id)


class Approval:
    """A call that waits for an approval. Its methods return the run whose `approvals` contain the call, also if a child
    run made the call; for approvals of `approvals.list` they return the run that made it. They return when that run has
    ended, or it and its child runs wait again.
    """

    def __init__(self, client: Client, view: ApprovalView, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self.view = view
        """The call: `toolRef`, `input`, `triggers` and so on."""

    def approve(self) -> Run:
        """Approves the call, so that it is executed."""
        return self._decide(approve())

    def deny(self, reason: str | None = None) -> Run:
        """Denies the call. It is not executed, and the model sees the reason."""
        return self._decide(deny(reason))

    def edit(self, input: Any) -> Run:
        """Approves the call with this input. The model is informed that the input was changed."""
        return self._decide(edit(input))

    def _decide(self, decision: DecisionBody) -> Run:
        return Run(self._client, self._client.perform(decide(self.view, self._run_id, decision)))


class Tools:
    """The tools of the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(
        self,
        ref: str,
        input: Any = None,
        *,
        version: str | None = None,
        tools: Handlers | None = None,
        on_approval: OnApproval | None = None,
    ) -> ToolEnvelope:
        """Calls a tool and returns the envelope, even if the call failed. `output_of` returns the output of an
        envelope. `tools` has functions that perform client tools. `on_approval` decides on calls of agentic and
        composite tools.
        """
        return self._client.perform(Answers(tools, on_approval).call(ref, input, version))

    def list(self, query: str | None = None, **filters: str | int | bool) -> Iterator[ToolView]:
        """Returns all tools. `query` is in the query language; other parameters filter by fields of a definition."""
        return self._client.iterate(operations.list_tools(query=query).with_query(**filters))


class Agents:
    """The agents of the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(
        self,
        ref: str,
        message: str,
        *,
        conversation_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        version: str | None = None,
        tools: Handlers | None = None,
        on_approval: OnApproval | None = None,
    ) -> Run:
        """Runs an agent and returns when the run ends or waits. With `tools` and `on_approval` the client answers
        client tools and approvals, also of delegates, and the run continues.
        """
        answers = Answers(tools, on_approval)
        body = message_body(message, conversation_id, context, version)
        response = self._client.send(operations.execute_agent(ref, body))
        return Run(self._client, self._client.perform(answers.answer(response)))

    def stream(
        self,
        ref: str,
        message: str,
        *,
        conversation_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        version: str | None = None,
        tools: Handlers | None = None,
        on_approval: OnApproval | None = None,
    ) -> Iterator[StreamEvent]:
        """Runs an agent and returns its events until the run ends. With `tools` and `on_approval` the client answers
        client tools and approvals, also of delegates, after it has returned their events.
        """
        answers = Answers(tools, on_approval)
        body = message_body(message, conversation_id, context, version)
        for event in self._client.stream(operations.stream_agent(ref, body)):
            yield event
            self._client.perform(answers.answer_event(event))

    def start(
        self,
        ref: str,
        message: str,
        *,
        conversation_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        version: str | None = None,
    ) -> AcceptedView:
        """Starts a durable run in the background. `runs.events` and `runs.get` show it."""
        return self._client.send(
            operations.start_agent(ref, message_body(message, conversation_id, context, version))
        )

    def list(self, query: str | None = None, **filters: str | int | bool) -> Iterator[AgentView]:
        """Returns all agents. `query` is in the query language; other parameters filter by fields of a definition."""
        return self._client.iterate(operations.list_agents(query=query).with_query(**filters))


class Runs:
    """Runs of agents and tools."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, id: str) -> Run:
        """Returns the status and results of a run."""
        return Run(self._client, run_response(self._client.send(operations.get_run(id))))

    def cancel(self, id: str) -> Run:
        """Ends a run."""
        return Run(self._client, self._client.send(operations.cancel_run(id)))

    def events(self, id: str, *, after: int | None = None) -> Iterator[StreamEvent]:
        """Returns the events of a run, from the beginning or after a journal entry, until the run ends."""
        return self._client.stream(operations.watch_run(id, after=after))

    def list(self, query: str | None = None, **filters: str | int | bool) -> Iterator[RunSummaryView]:
        """Returns all runs, latest first. The parameters are filters: `status`, `agentRef`, `toolRef` and others."""
        return self._client.iterate(operations.list_runs(query=query).with_query(**filters))


class Approvals:
    """Calls that wait for an approval."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, run_id: str | None = None) -> Iterator[Approval]:
        """Returns the calls that wait for an approval, oldest first: of all runs, or of one run."""
        for view in self._client.iterate(operations.list_approvals(run_id=run_id)):
            yield Approval(self._client, view, view["runId"])
