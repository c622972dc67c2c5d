"""A client for Toolwright: calls tools, runs agents, streams their events, decides approvals, performs client tools."""

from . import models, operations
from .aio import AsyncApproval, AsyncClient, AsyncRun
from .answer import ClientToolError, Handlers, OnApproval, approve, deny, edit
from .client import Approval, Client, Run
from .errors import ToolwrightError, output_of
from .events import StreamEvent
from .operation import Operation, Page, StreamOperation

__all__ = [
    "Approval",
    "AsyncApproval",
    "AsyncClient",
    "AsyncRun",
    "Client",
    "ClientToolError",
    "Handlers",
    "OnApproval",
    "Operation",
    "Page",
    "Run",
    "StreamEvent",
    "StreamOperation",
    "ToolwrightError",
    "approve",
    "deny",
    "edit",
    "models",
    "operations",
    "output_of",
]
