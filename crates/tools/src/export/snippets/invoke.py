import json
import os
import urllib.error
import urllib.request


class ToolError(Exception):
    """A failed call. The text says why."""


def invoke(tool, params, surface="tool"):
    """Calls a tool of the server at TOOLWRIGHT_URL and returns its result."""
    status, body = request("/api/v1/tools/invoke", {"tool": tool, "params": params, "surface": surface})
    if status == 202:
        raise ToolError(f"The call of {tool} waits for a person or a client: run {body['runId']}")
    if not body["success"]:
        raise ToolError(f"{body['error']['code']}: {body['error']['message']}")
    return body["data"]


def request(path, body=None):
    """Sends a request with the key TOOLWRIGHT_API_KEY, in the realm TOOLWRIGHT_REALM if it is set."""
    url = os.environ.get("TOOLWRIGHT_URL", "http://127.0.0.1:7411").rstrip("/") + path
    headers = {"Authorization": f"Bearer {os.environ.get('TOOLWRIGHT_API_KEY', '')}", "Content-Type": "application/json"}
    if os.environ.get("TOOLWRIGHT_REALM"):
        headers["X-Realm"] = os.environ["TOOLWRIGHT_REALM"]
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            text = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            pass  # A proxy can answer without JSON.
        raise ToolError(f"HTTP {error.code}: {text}") from None
    except urllib.error.URLError as error:
        raise ToolError(f"{url} does not answer: {error.reason}") from None
