"""The synchronous client against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import KEY
from toolwright import Client, ClientToolError, ToolwrightError, approve, deny, edit, operations, output_of
from toolwright.models import ApprovalView, DecisionBody


def test_tool_call_returns_the_envelope(client: Client) -> None:
    envelope = client.tools.call("hubspot/get-deal", {"dealId": "101"})
    assert envelope["name"] == "hubspot/get-deal"
    assert output_of(envelope)["properties"]["company"] == "Acme Corp"


def test_failed_call_returns_an_envelope_and_output_of_raises(client: Client) -> None:
    envelope = client.tools.call("hubspot/get-deal", {"deal": "101"})
    with pytest.raises(ToolwrightError) as caught:
        output_of(envelope)
    error = caught.value
    assert (error.code, error.reason) == ("VALIDATION_ERROR", "input_schema")
    assert error.errors and error.remedy.startswith("change the input")


def test_rejected_request_raises_with_code_detail_and_remedy(client: Client) -> None:
    with pytest.raises(ToolwrightError) as caught:
        client.tools.call("no-such-tool")
    error = caught.value
    assert (error.code, error.status) == ("not-found", 404)
    assert "no-such-tool" in error.detail
    assert error.remedy.endswith("/errors/not-found")


def test_wrong_key_is_rejected(url: str) -> None:
    with Client(url, "not-a-valid-key-0000") as client, pytest.raises(ToolwrightError) as caught:
        client.send(operations.whoami())
    assert (caught.value.code, caught.value.status) == ("unauthenticated", 401)


def test_missing_key_is_an_error_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLWRIGHT_API_KEY", raising=False)
    with pytest.raises(ToolwrightError) as caught:
        Client()
    assert caught.value.code == "no-api-key"


def test_settings_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWRIGHT_URL", url)
    monkeypatch.setenv("TOOLWRIGHT_API_KEY", KEY)
    with Client() as client:
        assert client.send(operations.whoami())["principal"] == "admin"


def test_realm_is_sent_with_each_request(url: str) -> None:
    with Client(url, KEY, realm="no-such-realm") as client, pytest.raises(ToolwrightError) as caught:
        client.send(operations.whoami())
    assert caught.value.status in (403, 404)


def test_unreachable_server_is_a_connection_error() -> None:
    with Client("http://127.0.0.1:1", KEY) as client, pytest.raises(ToolwrightError) as caught:
        client.send(operations.whoami())
    assert caught.value.code == "connection"


def test_iteration_reads_all_pages(client: Client) -> None:
    first = client.send(operations.list_tools(limit="2"))
    assert len(first.items) == 2 and first.next_cursor is not None
    in_small_pages = [tool["refName"] for tool in client.tools.list(limit=2)]
    in_large_pages = [tool["refName"] for tool in client.tools.list(limit=100)]
    assert in_small_pages == in_large_pages and "hubspot/get-deal" in in_small_pages
    by_body = client.iterate(operations.query_tools({"limit": 2}))
    assert [tool["refName"] for tool in by_body] == in_large_pages
    assert {tool["toolType"] for tool in client.tools.list(toolType="FUNCTION")} == {"FUNCTION"}


def test_run_completes_without_questions(client: Client) -> None:
    run = client.agents.run("assistant", "Which deals are in negotiation?")
    run.raise_for_status()
    assert "deals are in negotiation" in run.text
    assert client.runs.get(run.id).text == run.text
    assert run.id in [each["id"] for each in client.runs.list(agentRef="assistant")]


def test_unknown_agent_is_not_found(client: Client) -> None:
    with pytest.raises(ToolwrightError) as caught:
        client.agents.run("no-such-agent", "hello")
    assert caught.value.code == "not-found"


def test_waiting_run_is_approved(client: Client) -> None:
    run = client.agents.run("assistant", "Create a deal.")
    assert run.status == "AWAITING_APPROVAL"
    with pytest.raises(ToolwrightError) as caught:
        run.raise_for_status()
    assert caught.value.code == "AWAITING_APPROVAL"
    listed = [approval.view["callId"] for approval in client.approvals.list(run.id)]
    assert listed == [approval.view["callId"] for approval in run.approvals]
    for approval in run.approvals:
        run = approval.approve()
    assert run.status == "COMPLETED" and run.text.startswith("Done: deal ")


def test_waiting_run_is_denied(client: Client) -> None:
    run = client.agents.run("assistant", "Create a deal.")
    run = run.approvals[0].deny("not this week")
    assert run.status == "COMPLETED" and "That did not work" in run.text


def test_waiting_run_is_edited(client: Client) -> None:
    run = client.agents.run("assistant", "Create a deal.")
    run = run.approvals[0].edit({"properties": {"dealname": "Edited", "amount": 7}})
    assert run.status == "COMPLETED"
    [envelope] = run.response["outputs"]["tools_by_id"].values()
    assert envelope["input"]["properties"]["dealname"] == "Edited"


@pytest.mark.parametrize(
    ("decision", "executed"), [(approve(), True), (deny("no"), False), (edit({"properties": {"dealname": "E"}}), True)]
)
def test_callback_decides_on_a_waiting_call(client: Client, decision: DecisionBody, executed: bool) -> None:
    asked: list[str] = []

    def decide(approval: ApprovalView) -> DecisionBody:
        asked.append(approval["toolRef"])
        return decision

    run = client.agents.run("assistant", "Create a deal.", on_approval=decide)
    assert run.status == "COMPLETED" and asked == ["hubspot/create-deal"]
    assert (run.response["toolCalls"][0].get("status") == "SUCCESS") is executed


def test_callback_without_a_decision_leaves_the_run_waiting(client: Client) -> None:
    run = client.agents.run("assistant", "Create a deal.", on_approval=lambda approval: None)
    assert run.status == "AWAITING_APPROVAL"
    assert run.cancel().status == "CANCELLED"
    assert run.refresh().status == "CANCELLED"


def test_decision_on_an_ended_run_is_an_error(client: Client) -> None:
    run = client.agents.run("assistant", "Create a deal.")
    run.cancel()
    with pytest.raises(ToolwrightError) as caught:
        run.approvals[0].approve()
    assert (caught.value.code, caught.value.status) == ("run-ended", 409)


def test_client_tool_of_an_agent_is_performed(client: Client) -> None:
    payloads: list[Any] = []

    def open_file(payload: Any) -> Any:
        payloads.append(payload)
        return {"lines": 12}

    run = client.agents.run("editor", "open", tools={"open_file": open_file})
    assert run.status == "COMPLETED" and run.text == "The file has 12 lines."
    assert payloads == [{"open": "notes.md"}]


def test_client_tool_reports_its_failure_to_the_run(client: Client) -> None:
    def open_file(payload: Any) -> Any:
        raise ClientToolError("no editor is open")

    run = client.agents.run("editor", "open", tools={"open_file": open_file})
    assert run.text == "It failed: no editor is open"


def test_other_exception_of_a_client_tool_reaches_the_caller(client: Client) -> None:
    def open_file(payload: Any) -> Any:
        raise KeyError("path")

    with pytest.raises(KeyError):
        client.agents.run("editor", "open", tools={"open_file": open_file})
    waiting = next(run for run in client.runs.list(agentRef="editor", status="AWAITING_CLIENT"))
    assert client.runs.cancel(waiting["id"]).status == "CANCELLED"


def test_client_tool_without_a_function_leaves_the_run_waiting(client: Client) -> None:
    run = client.agents.run("editor", "open", tools={"another_tool": lambda payload: None})
    assert run.status == "AWAITING_CLIENT" and run.client_actions[0]["toolRef"] == "open_file"
    assert run.answer(tools={"open_file": lambda payload: {"lines": 1}}).text == "The file has 1 lines."


def test_approval_and_client_tool_of_one_reply_are_answered(client: Client) -> None:
    run = client.agents.run(
        "editor",
        "open and create",
        tools={"open_file": lambda payload: {"lines": 3}},
        on_approval=lambda approval: approve(),
    )
    assert (run.status, run.text) == ("COMPLETED", "Both are done.")


def test_direct_call_of_a_client_tool_is_performed(client: Client) -> None:
    handlers = {"open_file": lambda payload: {"opened": payload["open"]}}
    envelope = client.tools.call("open_file", {"path": "a.md"}, tools=handlers)
    assert output_of(envelope) == {"opened": "a.md"}
    with pytest.raises(ToolwrightError) as caught:
        client.tools.call("open_file", {"path": "a.md"})
    assert caught.value.code == "awaiting-client" and caught.value.run_id is not None
    assert client.runs.cancel(caught.value.run_id).status == "CANCELLED"


def test_conversation_continues(client: Client) -> None:
    first = client.agents.run("assistant", "Which deals are in negotiation?")
    second = client.agents.run("assistant", "And my order?", conversation_id=first.conversation_id)
    assert second.conversation_id == first.conversation_id
    assert "two orders" in second.text


def test_durable_run_started_in_the_background_can_be_watched(client: Client) -> None:
    accepted = client.agents.start("assistant", "Which deals are in negotiation?")
    events = list(client.runs.events(accepted["runId"]))
    assert events[-1]["type"] == "DONE"
    assert client.runs.get(accepted["runId"]).status == "COMPLETED"


def test_text_responses_are_returned_as_text(client: Client) -> None:
    gram = client.send(operations.get_agent("editor", format="gram"))
    assert isinstance(gram, str) and "editor" in gram
    assert client.send(operations.explain_error("not-found")).startswith("# not-found")
