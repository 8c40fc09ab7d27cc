"""What the OpenAPI document of a service says about its model and its token."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from linkdist.artifacts.manifest import Header
from linkdist.serve.guard import WITHOUT_TOKEN

Document: TypeAlias = dict[str, Any]

NAME = "nodes.jsonl"
"""The name of the example of a table: JSON lines can hold every kind of value."""

TOKEN = "token"


def add_table_example(document: Document, header: Header) -> None:
    """Add a table with the model's columns, if it reads tables, to the upload of files.

    Parameters
    ----------
    document : dict
        The OpenAPI document.
    header : Header
        The header of the model.
    """
    operation = document["paths"]["/v1/predict/table"]["post"]
    id = header.about.get("id")
    if header.encoders is None or not id:
        return
    row = {encoder.name: encoder.example() for encoder in header.encoders.columns}
    lines = [json.dumps({id: name, **row}, ensure_ascii=False) for name in ("a", "b")]
    content = operation["requestBody"]["content"]["application/octet-stream"]
    content["example"] = "\n".join(lines) + "\n"
    operation["parameters"][0]["example"] = NAME


def add_token(document: Document) -> None:
    """Say that requests need the token, except those of monitoring programs."""
    about = "The token of the service. A browser asks for it as a password."
    scheme = {"type": "http", "scheme": "bearer", "description": about}
    document["components"]["securitySchemes"] = {TOKEN: scheme}
    document["security"] = [{TOKEN: []}]
    for path in WITHOUT_TOKEN:
        document["paths"][path]["get"]["security"] = []
