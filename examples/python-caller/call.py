"""Calls a tool, runs an agent, decides on its approval and reads the stream of the run. Standard library only."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("TOOLWRIGHT_URL", "http://127.0.0.1:7411")
KEY = os.environ["TOOLWRIGHT_API_KEY"]


class Problem(Exception):
    """A failed request. `code` is stable; the server explains it at /errors/{code}."""

    def __init__(self, body):
        super().__init__(body["detail"])
        self.code = body["code"]


def request(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    call = urllib.request.Request(f"{URL}/api/v1/ai/{path}", data, headers, method=method)
    try:
        return urllib.request.urlopen(call, timeout=60)
    except urllib.error.HTTPError as error:
        raise Problem(json.load(error)) from None


def post(path, body):
    with request("POST", path, body) as response:
        return json.load(response)


def events(run):
    """Yields the events of a run as (type, data)."""
    with request("GET", f"runs/{run}/events") as response:
        for line in response:
            if line.startswith(b"data: "):
                data = json.loads(line.removeprefix(b"data: "))
                yield data["type"], data


def main():
    # 1. Call a tool. A failed call is not a failed request: the envelope has the error.
    tool = urllib.parse.quote("hubspot/get-deal", safe="")
    envelope = post(f"tools/{tool}/execute", {"input": {"dealId": "101"}})
    print("deal:", envelope["output"]["properties"]["dealname"])
    envelope = post(f"tools/{tool}/execute", {"input": {"dealId": 101}})
    print("error code:", envelope["error"]["code"])

    # 2. Run an agent. The response arrives when the run ends or waits.
    agent = urllib.parse.quote("examples/noter", safe="")
    run = post(f"agents/{agent}/execute", {"userMessage": "Call back on Monday."})
    print("status:", run["status"])

    # 3. Decide on each call that waits. The response has the same form as that of `execute`.
    for approval in run["approvals"]:
        print("approve:", approval["toolRef"], json.dumps(approval["input"]))
        run = post(f"runs/{run['runId']}/approvals/{approval['callId']}", {"decision": "approve"})
    print("status:", run["status"], "-", run["responseText"])

    # 4. Read the stream of the run, from its beginning.
    print("events:", " ".join(kind for kind, _ in events(run["runId"]) if not kind.startswith("TEXT")))

    # 5. A failed request has a problem document with a code.
    try:
        post("agents/no-such-agent/execute", {"userMessage": "Hello"})
    except Problem as problem:
        print("problem:", problem.code, "-", problem)


main()
