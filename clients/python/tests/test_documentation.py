"""Runs the quick start of the README, the blocks of docs/clients.md and the example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import KEY

CLIENT = Path(__file__).resolve().parents[1]


def run(code: str, url: str) -> str:
    environment = {**os.environ, "TOOLWRIGHT_URL": url, "TOOLWRIGHT_API_KEY": KEY, "PYTHONPATH": str(CLIENT / "src")}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_quick_start_of_the_readme_runs(url: str) -> None:
    readme = (CLIENT / "README.md").read_text(encoding="utf-8")
    output = run(readme.split("```python\n")[1].split("```")[0], url)
    for expected in ("Acme Corp", "VALIDATION_ERROR", "COMPLETED Done: deal", "deals are in negotiation"):
        assert expected in output


def test_blocks_of_the_documentation_run(url: str) -> None:
    page = (CLIENT.parents[1] / "docs" / "clients.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    output = run("\n".join([*blocks, "print(run.status, run.text, names)"]), url)
    for expected in ("VALIDATION_ERROR", "COMPLETED The file has 8 lines.", "hubspot/get-deal"):
        assert expected in output


def test_example_runs(url: str) -> None:
    example = CLIENT.parents[1] / "examples" / "call_tools.py"
    output = run(example.read_text(encoding="utf-8"), url)
    assert "hubspot/get-deal" in output and "POLICY_DENIED" not in output and "Order ord-1001" in output
