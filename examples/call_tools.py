"""Calls tools concurrently, and runs an agent that asks before it changes something.

    pip install ./clients/python
    source toolwright-data/env.sh
    python3 examples/call_tools.py

It needs a server with the demo: `make run`.
"""

import asyncio

from toolwright import AsyncClient, ToolwrightError, approve, deny, output_of
from toolwright.models import ApprovalView, DecisionBody


def decide(approval: ApprovalView) -> DecisionBody:
    """Allows one tool. A program would ask a person here."""
    print(f"{approval['toolRef']} wants to run with {approval['input']}")
    return approve() if approval["toolRef"] == "orders/cancel" else deny("only cancellations are allowed")


async def main() -> None:
    async with AsyncClient() as client:
        print([tool["refName"] async for tool in client.tools.list(query="refName:hubspot*")])

        calls = [client.tools.call("hubspot/get-deal", {"dealId": deal}) for deal in ("101", "102", "999")]
        for envelope in await asyncio.gather(*calls):
            try:
                print(output_of(envelope)["properties"]["dealname"])
            except ToolwrightError as error:
                print(f"{envelope['input']}: {error}")

        run = await client.agents.run("assistant", "Please cancel my order.", on_approval=decide)
        print(run.status, run.text)


asyncio.run(main())
