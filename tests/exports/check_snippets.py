"""Runs the code of exports against a server, as it is printed, and compares what it returns with direct calls.

    check_snippets.py BINARY NODE_MODULES

BINARY is `toolwright`; NODE_MODULES has the packages of package.json. Prints one line per check.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException

KEY = "check-snippets-0123456789"
TIMEOUT = 120
MCP_CLIENT = Path(__file__).with_name("mcp_client.mjs")

# An agentic tool whose model is the script of the demo.
AGENTIC_TOOL = {
    "refName": "deal-analyst",
    "description": "Answers questions about deals.",
    "toolType": "AGENTIC",
    "agentic": {
        "executionMode": "agentic",
        "embeddedLLMConfig": {"provider": "scripted", "model": "demo-script"},
        "toolAllocation": {
            "availableTools": [{"actionSlug": "hubspot/search-deals"}, {"actionSlug": "hubspot/deal-stages"}]
        },
    },
}

# Each tool by name, with its route of exports, its exported name and an input.
TOOLS = {
    "hubspot/get-deal": ("ai-tools", "hubspot_get_deal", {"dealId": "101"}),
    "deal-analyst": ("agentic-tools", "deal_analyst", {"task": "Which deals are in negotiation?"}),
    "research-assistant": ("agentic-tools", "research_assistant", {"task": "Find competitor pricing"}),
}


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: check_snippets.py BINARY NODE_MODULES", file=sys.stderr)
        return 2
    binary, modules = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="toolwright-snippets.") as name:
        folder = Path(name)
        (folder / "node_modules").symlink_to(modules)
        shutil.copy(MCP_CLIENT, folder)
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        server, url = start_server(binary, folder)
        os.environ.update(TOOLWRIGHT_URL=url, TOOLWRIGHT_API_KEY=KEY, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        try:
            return check_all(Checks(folder))
        finally:
            server.terminate()
            server.wait(TIMEOUT)


def start_server(binary: str, folder: Path) -> tuple[subprocess.Popen, str]:
    # The environment of the caller, such as the key of a model provider, must not change the results.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TOOLWRIGHT_ADMIN_KEY": KEY}
    command = [binary, "serve", "--demo", "--bind", "127.0.0.1:0", "--data", str(folder / "data")]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    line = server.stdout.readline().strip()
    if not line.startswith("listening on "):
        raise SystemExit(f"the server did not start:\n{(folder / 'log').read_text()}")
    return server, line.removeprefix("listening on ")


def check_all(checks: "Checks") -> int:
    request("POST", "ai/tools", AGENTIC_TOOL)
    request("POST", "ai/tool-providers/hubspot/sync", {})
    for tool in TOOLS:
        checks.run(checks.check_programs, tool)
        checks.run(checks.check_langchain_python, tool)
        checks.run(checks.check_mcp_server, tool)
    checks.run(checks.check_all_tools)
    checks.run(checks.check_failure)
    checks.run(checks.check_types)
    print(f"{checks.passed} checks passed, {checks.failed} failed")
    return 1 if checks.failed else 0


class Checks:
    def __init__(self, folder: Path):
        self.folder, self.passed, self.failed = folder, 0, 0

    def run(self, check, *arguments) -> None:
        title = " ".join([check.__doc__, *arguments])
        try:
            check(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a package raises is a finding
            self.failed += 1
            print(f"failed  {title}: {type(error).__name__}: {error}")
        else:
            self.passed += 1
            print(f"ok      {title}")

    def check_programs(self, tool: str) -> None:
        """TypeScript and Python programs of"""
        _, name, arguments = TOOLS[tool]
        expected = output_of(tool)
        for format in ["universal", "langchain", "openai", "anthropic", "gemini"]:
            exported = export_of(tool, format)
            expect(tool_name(exported["tool"]) == name, f"{format}: {exported['tool']}")
            for language, command in [("typescript", ["npx", "tsx"]), ("python", [sys.executable])]:
                file = self.write(f"{name}_{format}", language, exported["codeSnippets"][language])
                printed = self.execute([*command, file, name, json.dumps(arguments)])
                expect(json.loads(printed) == expected, f"{format} in {language} printed {printed}")
                ended = subprocess.run([*command, file], **self.options())
                names_tools = ended.returncode != 0 and name in ended.stderr and "IndexError" not in ended.stderr
                expect(names_tools, f"{format} in {language} without arguments printed {ended.stderr}")

    def check_langchain_python(self, tool: str) -> None:
        """StructuredTool of langchain-core of"""
        _, name, arguments = TOOLS[tool]
        exported = export_of(tool, "langchain")
        module = self.load(self.write(f"{name}_module", "python", exported["codeSnippets"]["python"]))
        [structured] = module.tools
        expect(isinstance(structured, StructuredTool), "not a StructuredTool")
        expect(structured.description == exported["tool"]["description"], structured.description)
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = structured.invoke(call)
        expect(isinstance(message, ToolMessage) and json.loads(message.content) == output_of(tool), f"{message}")

    def check_mcp_server(self, tool: str) -> None:
        """MCP servers, with the client of the MCP SDK, of"""
        _, name, arguments = TOOLS[tool]
        exported = export_of(tool, "mcp")
        home = self.folder / f"{name}_server"
        home.mkdir()
        (home / "node_modules").symlink_to((self.folder / "node_modules").resolve())
        for file, field in [("server.ts", "typescript"), ("server.py", "python"), ("package.json", "packageJson")]:
            (home / file).write_text(exported["serverFile"][field])
        config = exported["serverFile"]["claudeDesktopConfig"].replace("/path/to/the/server", str(home))
        [(server_name, entry)] = json.loads(config)["mcpServers"].items()
        expect(server_name == exported["server"]["name"], server_name)
        python = {"command": sys.executable, "args": [str(home / "server.py")]}
        for command in [{"command": entry["command"], "args": entry["args"]}, python]:
            seen = self.talk_to(command, name, arguments)
            expect(seen["server"]["name"] == server_name, f"{seen['server']}")
            expect(without_nulls(seen["tools"]) == exported["server"]["tools"], f"{seen['tools']}")
            expect(seen["result"]["structuredContent"] == output_of(tool), f"{seen['result']}")
            expect(not seen["result"].get("isError") and seen["failed"]["isError"], f"{seen}")
            listed = [resource["uri"] for resource in exported["server"]["resources"]]
            expect([resource["uri"] for resource in seen["resources"]] == listed, f"{seen['resources']}")
            expect(listed == (["toolwright://hubspot/deal_stages"] if tool == "hubspot/get-deal" else []), f"{listed}")
            for resource in seen["resources"]:
                names = [item["name"] for item in resource["content"]]
                expect("Negotiation" in names, f"{resource}")

    def check_all_tools(self) -> None:
        """export of all tools"""
        files = {}
        for format in ["universal", "langchain", "openai", "anthropic", "gemini"]:
            exported = request("GET", f"tools/export/{format}")
            names = [tool_name(tool) for tool in exported["tools"]]
            expect(len(names) == len(set(names)) and set(names) >= {"hubspot_get_deal", "deal_analyst"}, f"{names}")
            files[format] = exported["codeSnippets"]
        _, name, arguments = TOOLS["hubspot/get-deal"]
        for language, command in [("typescript", ["npx", "tsx"]), ("python", [sys.executable])]:
            file = self.write("all", language, files["langchain"][language])
            printed = self.execute([*command, file, name, json.dumps(arguments)])
            expect(json.loads(printed) == output_of("hubspot/get-deal"), printed)
        exported = request("GET", "tools/export/mcp")
        file = self.write("all_server", "typescript", exported["serverFile"]["typescript"])
        seen = self.talk_to({"command": "npx", "args": ["tsx", file]}, name, arguments)
        expect(seen["tools"] == exported["server"]["tools"], "the SDK reads other tools")
        expect(seen["result"]["structuredContent"] == output_of("hubspot/get-deal"), f"{seen['result']}")

    def check_failure(self) -> None:
        """failed calls"""
        name = "hubspot_get_deal"
        snippets = export_of("hubspot/get-deal", "openai")["codeSnippets"]
        for language, command in [("typescript", ["npx", "tsx"]), ("python", [sys.executable])]:
            file = self.write("failing", language, snippets[language])
            failed = subprocess.run([*command, file, name, '{"dealId": "none"}'], **self.options())
            expect(failed.returncode != 0 and "VALIDATION_ERROR" in failed.stderr, failed.stderr)
        module = self.load(self.write("failing_module", "python", export_of("hubspot/get-deal", "langchain")["codeSnippets"]["python"]))
        try:
            module.tools[0].invoke({"dealId": "999999"})
        except ToolException as error:
            expect("There is no deal with this id" in str(error), f"{error}")
        else:
            raise AssertionError("the call of an unknown deal did not fail")

    def check_types(self) -> None:
        """types of the TypeScript files, checked strictly"""
        files = [str(file) for file in self.folder.rglob("*.ts") if "node_modules" not in file.parts]
        options = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "node"]
        self.execute(["npx", "tsc", *options, *files])

    def write(self, stem: str, language: str, code: str) -> str:
        file = self.folder / f"{stem}.{'ts' if language == 'typescript' else 'py'}"
        file.write_text(code)
        return str(file)

    def load(self, file: str):
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def talk_to(self, server: dict, tool: str, arguments: dict) -> dict:
        command = ["node", str(self.folder / MCP_CLIENT.name), json.dumps({**server, "tool": tool, "arguments": arguments})]
        return json.loads(self.execute(command))

    def execute(self, command: list[str]) -> str:
        ended = subprocess.run(command, **self.options())
        if ended.returncode != 0:
            raise AssertionError(f"{command[:3]} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout.strip()

    def options(self) -> dict:
        return {"cwd": self.folder, "capture_output": True, "text": True, "timeout": TIMEOUT}


def export_of(tool: str, format: str) -> dict:
    exported = request("GET", f"{TOOLS[tool][0]}/{urllib.parse.quote(tool, safe='')}/tools/{format}")
    expect(exported["format"]["name"] == format, f"{exported['format']}")
    return exported


def output_of(tool: str):
    envelope = request("POST", f"ai/tools/{urllib.parse.quote(tool, safe='')}/execute", {"input": TOOLS[tool][2]})
    expect(envelope["error"] is None, f"{envelope}")
    return envelope["output"]


def request(method: str, path: str, body: dict | None = None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    call = urllib.request.Request(f"{os.environ['TOOLWRIGHT_URL']}/api/v1/{path}", data, headers, method=method)
    with urllib.request.urlopen(call, timeout=TIMEOUT) as response:
        return json.load(response)


def tool_name(exported: dict) -> str:
    return exported.get("function", exported)["name"]


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def expect(holds, message: str) -> None:
    if not holds:
        raise AssertionError(message)


if __name__ == "__main__":
    sys.exit(main())
