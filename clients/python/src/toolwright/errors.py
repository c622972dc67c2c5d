"""The only exception of this package."""

from __future__ import annotations

import json
from typing import Any, Mapping

from .models import FieldError, ToolEnvelope

_REMEDIES: Mapping[str, str] = {
    "VALIDATION_ERROR": "change the input; `errors` lists the invalid fields",
    "TIMEOUT": "call again later, or raise `timeoutMs` of the tool",
    "RATE_LIMIT": "call again later",
    "POLICY_DENIED": "read `reason`; an administrator or the owner of the tool can allow the call",
    "AUTH_REQUIRED": "store or renew the secret of the tool's provider",
    "PROVIDER_ERROR": "read the message of the external system",
    "NETWORK_ERROR": "check the address of the tool's provider, then call again",
    "SANDBOX_ERROR": "fix the code of the tool",
    "UNKNOWN": "check whether the call took effect before you repeat it",
}
"""What a caller can do about each error code of an envelope."""


class ToolwrightError(Exception):
    """A request, a call or a run failed. `code` is stable; branch on it."""

    def __init__(
        self,
        code: str,
        detail: str,
        remedy: str,
        *,
        status: int | None = None,
        reason: str | None = None,
        errors: list[FieldError] | None = None,
        retry_after: float | None = None,
        run_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail} ({remedy})")
        self.code = code
        """The code of the problem document, the error code of the envelope, the status of the run, or a code of this
        package: `connection`, `no-api-key`, `awaiting-client`, `awaiting-approval`, `invalid-response`."""
        self.detail = detail
        """What happened."""
        self.remedy = remedy
        """What the caller can do."""
        self.status = status
        """The HTTP status, if a request was rejected."""
        self.reason = reason
        """A more specific code, if the call or the run has one."""
        self.errors = errors or []
        """The invalid fields."""
        self.retry_after = retry_after
        """How long to wait before a retry, in seconds."""
        self.run_id = run_id
        """The run, if there is one."""


def problem(status: int, body: bytes, base_url: str) -> ToolwrightError:
    """Returns the error of a rejected request."""
    try:
        document = json.loads(body)
        return ToolwrightError(
            document["code"],
            document["detail"],
            f"see {base_url}{document['type']}",
            status=status,
            errors=document.get("errors"),
        )
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace")
        return ToolwrightError(
            "invalid-response",
            f"status {status} without a problem document: {text}",
            "check that the address is that of a Toolwright server",
            status=status,
        )


def connection_error(cause: Exception, base_url: str, run_id: str | None = None) -> ToolwrightError:
    """Returns the error of a request without a response."""
    return ToolwrightError(
        "connection",
        f"no response from {base_url}: {cause or type(cause).__name__}",
        "check the address, and that the server is running",
        run_id=run_id,
    )


def output_of(envelope: ToolEnvelope) -> Any:
    """Returns the output of a call, or raises a `ToolwrightError` if the call failed."""
    error = envelope.get("error")
    if error is None:
        return envelope.get("output")
    raw = error.get("details")
    details: dict[str, Any] = raw if isinstance(raw, dict) else {}
    after = error.get("retry_after_s")
    remedy = _REMEDIES[error["code"]] if after is None else f"call again after {after} s"
    raise ToolwrightError(
        error["code"],
        error["message"],
        remedy,
        reason=details.get("reason"),
        errors=details.get("errors"),
        retry_after=after,
    )
