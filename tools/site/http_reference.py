"""The HTTP reference of the site, from the service's own OpenAPI document.

paths        a section each: what it does, parameters, body, answers
components   the schemas that they name, a table of fields each
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

PLACE = "<!-- http -->"
Node: TypeAlias = Mapping[str, Any]


def paths() -> str:
    """The reference of the service of this package."""
    from linkdist.serve.app import openapi

    return reference(openapi())


def reference(document: Node) -> str:
    """An OpenAPI document as Markdown, its paths and schemas as sections below a page's title."""
    parts = [_operation(*each) for each in _operations(document)]
    schemas = document.get("components", {}).get("schemas", {})
    if schemas:
        parts += ["## Schemas\n", *(_schema(name, schemas[name]) for name in sorted(schemas))]
    return "\n".join(parts)


def _operations(document: Node) -> Iterator[tuple[str, str, Node]]:
    for path, item in document["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            if method in item:
                yield method.upper(), path, item[method]


def _operation(method: str, path: str, operation: Node) -> str:
    lines = [f"## {method} {path}", ""]
    if text := operation.get("summary"):
        lines += [f"{text.rstrip('.')}.", ""]
    if text := operation.get("description"):
        lines += [text.strip(), ""]
    lines += _parameters(operation.get("parameters", []))
    if body := operation.get("requestBody"):
        lines += ["**Body**", "", *_contents(body)]
    answers = [
        (f"`{status}`", _when(answer.get("description", "")), ", ".join(_kinds(answer)))
        for status, answer in operation.get("responses", {}).items()
    ]
    lines += ["**Answers**", "", *_table(("status", "when", "body"), answers)]
    for status, answer in operation.get("responses", {}).items():
        lines += _examples(answer, f"Example of `{status}`:")
    return "\n".join(lines)


def _when(description: str) -> str:
    return "All is well." if description == "Successful Response" else description


def _parameters(parameters: Iterable[Node]) -> list[str]:
    rows = [
        (
            f"`{each['name']}`",
            f"{each['in']}{', required' if each.get('required') else ''}",
            _type(each.get("schema", {})),
            each.get("description", ""),
        )
        for each in parameters
    ]
    head = ("name", "where", "type", "what")
    return ["**Parameters**", "", *_table(head, rows)] if rows else []


def _contents(holder: Node) -> list[str]:
    text = holder.get("description", "")
    lines = [text, ""] if text else []
    lines += [*(f"- {kind}" for kind in _kinds(holder)), ""]
    for content in holder.get("content", {}).values():
        lines += _fields(content.get("schema", {}))
    return [*lines, *_examples(holder, "Example:")]


def _kinds(holder: Node) -> list[str]:
    """What a body may be: its content type and what it holds."""
    found = []
    for kind, content in holder.get("content", {}).items():
        held = _type(content.get("schema", {}))
        found.append(f"`{kind}`: {held}" if held else f"`{kind}`")
    return found


def _examples(holder: Node, title: str) -> list[str]:
    lines = []
    for kind, content in holder.get("content", {}).items():
        named = [each.get("value") for each in content.get("examples", {}).values()]
        schema = content.get("schema", {})
        bare = [part["example"] for part in (content, schema) if "example" in part]
        for example in [*named, *bare, *schema.get("examples", [])]:
            text = example if isinstance(example, str) else _json(example)
            language = "json" if kind.endswith("json") else "text"
            lines += [title, "", f"```{language}", text.rstrip("\n"), "```", ""]
    return lines


def _json(value: object) -> str:
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    fields = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def _schema(name: str, schema: Node) -> str:
    lines = [f"### {name} {{ #{_anchor(name)} }}", ""]
    if text := schema.get("description"):
        lines += [text.strip(), ""]
    return "\n".join([*lines, *(_fields(schema) or [_type(schema), ""])])


def _fields(schema: Node) -> list[str]:
    required = schema.get("required", [])
    rows = [
        (
            f"`{field}`",
            _type(each),
            "yes" if field in required else "",
            each.get("description", ""),
        )
        for field, each in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "required", "what"), rows) if rows else []


def _type(schema: Any) -> str:
    """A schema in a few words, with a link where it has a name."""
    if not isinstance(schema, Mapping):
        return "anything" if schema else "nothing"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{_anchor(name)})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[choice]))
    if "allOf" in schema:
        return " and ".join(_type(each) for each in schema["allOf"])
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{json.dumps(value)}`" for value in allowed)
    kinds = schema.get("type", "")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_plain(kind, schema) for kind in kinds if kind)


def _plain(kind: str, schema: Node) -> str:
    if kind == "array" and "prefixItems" in schema:
        return f"list of {', '.join(_type(each) for each in schema['prefixItems'])}"
    if kind == "array":
        held = _grouped(_type(schema.get("items", {})))
        return f"list of {held}" if held else "list"
    if kind == "object" and "additionalProperties" in schema:
        held = _grouped(_type(schema["additionalProperties"]))
        return f"object of {held}" if held and held != "nothing" else "object"
    if kind == "string" and schema.get("format") == "binary":
        return "a file"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)


def _grouped(text: str) -> str:
    return f"({text})" if " or " in text.replace("true or false", "") else text


def _anchor(name: str) -> str:
    return f"schema-{name.lower()}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(head)
    lines = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(text) for text in row) + " |")
    return [*lines, ""]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
