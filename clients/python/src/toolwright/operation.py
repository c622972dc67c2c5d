"""A request as a value. Both clients send the same values, so an operation is written once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Mapping, TypeVar
from urllib.parse import quote

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None
    """The cursor of the next page; `None` on the last page."""


@dataclass(frozen=True)
class Request:
    """The parts of an HTTP request that depend on the operation."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"

    def query_values(self) -> dict[str, str]:
        """Returns the query parameters that are set, as text."""
        values = {name: value for name, value in self.query.items() if value is not None}
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}

    def header_values(self) -> dict[str, str]:
        """Returns the headers that are set."""
        return {name: value for name, value in self.headers.items() if value is not None}


@dataclass(frozen=True)
class Operation(Request, Generic[T]):
    """A request whose response has the type `T`."""

    form: Literal["json", "page", "bytes"] = "json"

    def with_query(self, **values: str | int | bool | None) -> Operation[T]:
        """Adds query parameters, such as a filter by a field of the listed definitions."""
        return replace(self, query={**self.query, **values})

    def at_cursor(self, cursor: str) -> Operation[T]:
        """Returns the operation for the page at this cursor. Lists by POST have the cursor in the body."""
        if self.method == "POST":
            return replace(self, body={**(self.body or {}), "cursor": cursor})
        return self.with_query(cursor=cursor)


@dataclass(frozen=True)
class StreamOperation(Request):
    """A request whose response is a stream of the events of a run."""


def path(template: str, *values: str) -> str:
    """Inserts values into the parameters of a path. The `/` of a name such as `hubspot/get-deal` is encoded."""
    parts = template.replace("}", "{").split("{")
    # The parts at odd positions are the names of the parameters.
    for position, value in zip(range(1, len(parts), 2), values, strict=True):
        parts[position] = quote(value, safe="")
    return "".join(parts)
