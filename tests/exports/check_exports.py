"""Loads exported tools with the packages they are meant for.

    check_exports.py DIR

DIR holds `<format>/<name>.json` and `examples/<name>.json`, as `export_all` writes them. Prints one line per format,
and one per failure. Models are not called; what an API refuses beyond what its package checks is in `check_root`.
"""

import json
import re
import sys
import warnings
from pathlib import Path

from anthropic.types import ToolParam
from google.genai import types as gemini
from jsonschema import Draft202012Validator
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp import types as mcp
from openai.types.chat import ChatCompletionToolParam
from pydantic import TypeAdapter

SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]{0,63}")
WIRE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
COMBINATORS = {"$ref", "allOf", "anyOf", "oneOf", "enum", "not"}
UNIVERSAL_TYPES = {"string", "number", "integer", "boolean", "array", "object"}
UNIVERSAL_KEYWORDS = {"type", "description", "enum", "default", "items", "properties", "required"}


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: check_exports.py DIR", file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    failed = 0
    for name, check in CHECKS.items():
        files = sorted((directory / name).glob("*.json"))
        failures = [failure for file in files for failure in [run(check, file, directory)] if failure]
        names = [tool_name(json.loads(file.read_text())) for file in files]
        failures += [f"two tools are called `{twice}`" for twice in {n for n in names if names.count(n) > 1}]
        if not files:
            failures.append(f"no files in {directory / name}")
        print(f"{name:<10} {len(files) - len(failures):>3} of {len(files)} ok  ({check.__doc__})")
        for failure in failures:
            print(f"  {failure}")
        failed += len(failures)
    return 1 if failed else 0


def run(check, file: Path, directory: Path) -> str | None:
    examples = json.loads((directory / "examples" / file.name).read_text())
    try:
        check(json.loads(file.read_text()), examples)
    except Exception as error:  # noqa: BLE001 - whatever a package raises is a finding
        return f"{file.parent.name}/{file.name}: {type(error).__name__}: {error}"
    return None


def tool_name(exported: dict) -> str:
    return exported.get("function", exported)["name"]


def check_universal(exported: dict, _examples: list) -> None:
    """own rules"""
    expect(exported.keys() == {"name", "description", "parameters"}, f"keys {sorted(exported)}")
    expect(SNAKE_CASE.fullmatch(exported["name"]), f"name `{exported['name']}`")
    expect(0 < len(exported["description"]) <= 2000, "length of the description")
    parameters = exported["parameters"]
    expect(parameters.keys() == {"type", "properties", "required"}, f"keys of parameters {sorted(parameters)}")
    expect(parameters["type"] == "object", "parameters are an object")
    check_universal_schema(parameters, "parameters")
    Draft202012Validator.check_schema(parameters)


def check_universal_schema(schema: dict, path: str) -> None:
    expect(schema.keys() <= UNIVERSAL_KEYWORDS, f"{path}: keywords {sorted(schema.keys() - UNIVERSAL_KEYWORDS)}")
    expect(schema.get("type") in UNIVERSAL_TYPES, f"{path}: type {schema.get('type')}")
    properties = schema.get("properties", {})
    expect(set(schema.get("required", [])) <= properties.keys(), f"{path}: required names a missing property")
    for name, nested in properties.items():
        expect(nested.get("description", "").strip(), f"{path}.{name}: no description")
        check_universal_schema(nested, f"{path}.{name}")
    if schema["type"] == "array":
        check_universal_schema(schema["items"], f"{path}[]")
    for value in schema.get("enum", []) + [schema[key] for key in ("default",) if key in schema]:
        expect(Draft202012Validator({"type": schema["type"]}).is_valid(value), f"{path}: {value!r} is no {schema['type']}")


def check_langchain(exported: dict, examples: list) -> None:
    """langchain_core StructuredTool, invoked"""
    expect(exported.keys() == {"name", "description", "schema"}, f"keys {sorted(exported)}")
    expect(SNAKE_CASE.fullmatch(exported["name"]), f"name `{exported['name']}`")
    schema = exported["schema"]
    expect(schema.keys() <= {"type", "properties", "required", "additionalProperties"}, f"schema {sorted(schema)}")
    expect('"$ref"' not in json.dumps(schema), "a reference is left")
    received = []
    tool = StructuredTool.from_function(
        func=lambda **arguments: received.append(arguments) or "done",
        name=exported["name"],
        description=exported["description"],
        args_schema=schema,
    )
    expect(tool.args == schema["properties"], "the tool has other arguments")
    function = convert_to_openai_tool(tool)["function"]
    expect(function["name"] == exported["name"], "the name does not survive")
    expect(function["parameters"]["properties"].keys() == schema["properties"].keys(), "a property is lost")
    check_json_schema(tool.args_schema, examples)
    for example in examples:
        expect(tool.invoke(example) == "done", "the tool did not run")
    expect(received == examples, f"invoked with {received}")


def check_mcp(exported: dict, examples: list) -> None:
    """mcp.types.Tool"""
    tool = mcp.Tool.model_validate(exported)
    expect(tool.model_dump(by_alias=True, exclude_none=True, mode="json") == exported, "not everything was read")
    check_wire_name(tool.name)
    expect(tool.annotations.read_only_hint != tool.annotations.destructive_hint, "the hints contradict each other")
    check_root(tool.input_schema)
    check_json_schema(tool.input_schema, examples)
    if tool.output_schema is not None:
        expect(tool.output_schema["type"] == "object", "the output is not an object")
        Draft202012Validator.check_schema(tool.output_schema)


def check_openai(exported: dict, examples: list) -> None:
    """openai ChatCompletionToolParam"""
    tool = TypeAdapter(ChatCompletionToolParam).validate_python(exported)
    expect(tool == exported, "not everything was read")
    check_wire_name(tool["function"]["name"])
    check_root(tool["function"]["parameters"])
    check_json_schema(tool["function"]["parameters"], examples)


def check_anthropic(exported: dict, examples: list) -> None:
    """anthropic ToolParam"""
    tool = TypeAdapter(ToolParam).validate_python(exported)
    expect(json.loads(json.dumps(tool)) == exported, "not everything was read")
    expect(exported.keys() == {"name", "description", "input_schema"}, f"keys {sorted(exported)}")
    check_wire_name(tool["name"])
    check_root(exported["input_schema"])
    check_json_schema(exported["input_schema"], examples)


def check_gemini(exported: dict, _examples: list) -> None:
    """google.genai FunctionDeclaration"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the package only warns of a type it does not know
        declaration = gemini.FunctionDeclaration.model_validate(exported)
    expect(declaration.model_dump(by_alias=True, exclude_none=True, mode="json") == exported, "not everything was read")
    gemini.Tool(function_declarations=[declaration])
    check_wire_name(declaration.name)
    expect(declaration.parameters.type == gemini.Type.OBJECT, "parameters are an object")


def check_wire_name(name: str) -> None:
    expect(WIRE_NAME.fullmatch(name), f"name `{name}`")


def check_root(schema: dict) -> None:
    """OpenAI and Anthropic refuse these at the root, and OpenAI a list without items or a boolean schema."""
    expect(schema.get("type") == "object" and isinstance(schema.get("properties"), dict), "the root is no plain object")
    expect(not COMBINATORS & schema.keys(), f"the root has {sorted(COMBINATORS & schema.keys())}")
    check_nested(schema, "")


def check_nested(schema: dict, path: str) -> None:
    expect(isinstance(schema, dict), f"{path}: {schema!r} is no object")
    kinds = schema.get("type", [])
    if "array" in ([kinds] if isinstance(kinds, str) else kinds):
        expect("items" in schema, f"{path}: a list without items")
    for keyword in ("properties", "$defs", "definitions"):
        for name, nested in schema.get(keyword, {}).items():
            check_nested(nested, f"{path}/{name}")
    for keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
        for at, nested in enumerate(schema.get(keyword, [])):
            check_nested(nested, f"{path}/{keyword}/{at}")
    if "items" in schema:
        check_nested(schema["items"], f"{path}[]")


def check_json_schema(schema: dict, examples: list) -> None:
    """The schema takes the examples of the definition and refuses a call without what it requires."""
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for example in examples:
        validator.validate(example)
    expect(validator.is_valid({}) or schema.get("required"), "nothing is required, but nothing is not enough")
    expect(not (schema.get("required") and validator.is_valid({})), "a call without required arguments passes")


def expect(holds, message: str) -> None:
    if not holds:
        raise AssertionError(message)


CHECKS = {
    "universal": check_universal,
    "langchain": check_langchain,
    "mcp": check_mcp,
    "openai": check_openai,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
}

if __name__ == "__main__":
    sys.exit(main())
