"""Write the web page of a model as a folder that needs no service.

The folder contains the page of `linkdist serve`, the model as an ONNX file with columns, and ONNX
Runtime for browsers::

    index.html, page.css, favicon.svg    the page
    page.js                              its modules in one script
    model.js                             the description of the model, and the ONNX file
    runtime.js                           ONNX Runtime

A browser reads neither modules nor data from files on disk. Therefore the modules are joined, and
binary files are compressed text in scripts: index.html opens with a double click. Its security
policy forbids every connection, so no row can leave the machine.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from linkdist._files import replace_bytes
from linkdist.artifacts.manifest import REPORT
from linkdist.artifacts.model_dir import load_model
from linkdist.artifacts.onnx import column_description, onnx_file
from linkdist.artifacts.onnx_graph.columns import obstacles
from linkdist.errors import OptionError
from linkdist.serve.answers import model_info
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import Settings
from linkdist.static_page.runtime import GLUE, SCRIPT, WASM, find_runtime

INDEX, START = "index.html", "page.js"

POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline' file:; img-src 'self' data: blob: file:; "
    "script-src 'self' 'wasm-unsafe-eval' blob: file:; connect-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""The security policy of the page: nothing can be sent or fetched."""

PROMISE = "The model runs in this browser. No row leaves this machine."

IMPORT = re.compile(r'^import \{(.*?)\} from "\./([\w.]+)";$', re.M | re.S)
EXPORT = re.compile(r"^export ((?:async )?function\*?|const|class) (\w+)", re.M)


def write_page(model: Path, folder: Path, runtime: Path | None = None) -> list[Path]:
    """Write the page of a model.

    Parameters
    ----------
    model : Path
        The model directory.
    folder : Path
        The folder to write; it is created if it does not exist.
    runtime : Path, optional
        The unpacked npm package onnxruntime-web; by default it is fetched with npm.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    OptionError
        If a column cannot be an input of an ONNX file, or ONNX Runtime is missing.
    """
    saved = load_model(model)
    if reasons := obstacles(saved.encoders):
        raise OptionError(f"a page needs a model whose columns are inputs: {'; '.join(reasons)}.")
    assert saved.encoders is not None
    parts = find_runtime(runtime)
    content, _ = onnx_file(saved, columns=True)
    served = ServedModel(model)
    report = served.extras.get(REPORT)
    described = {
        "info": _info(served),
        "columns": [column_description(column) for column in saved.encoders.columns],
        "names": served.columns.names,
        "addresses": {"report": REPORT} if report else {},
        "onnx": _packed(content),
    }
    binary = {"glue": _packed(parts[GLUE]), "wasm": _packed(parts[WASM])}
    sources = _sources()
    written = {
        INDEX: _index(sources[INDEX]),
        START: _join(sources, START),
        "page.css": sources["page.css"],
        "favicon.svg": sources["favicon.svg"],
        "model.js": f"const linkdist = {_json(described)};\n",
        "runtime.js": f"{parts[SCRIPT].decode()}\nObject.assign(linkdist, {_json(binary)});\n",
        **({REPORT: report.decode()} if report else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        replace_bytes(folder / name, text.encode())
    return [folder / name for name in written]


def _info(served: ServedModel) -> dict[str, Any]:
    """The description of the model as the service gives it, without what needs a service."""
    info = model_info(served, Settings(str(served.directory)), None)
    return {**info, "has_curve": False}


def _sources() -> dict[str, str]:
    """The files of the page; those for a page without a service replace others."""
    folders = (files("linkdist.serve") / "page", files("linkdist.static_page") / "scripts")
    return {file.name: file.read_text("utf-8") for folder in folders for file in folder.iterdir()}


def _index(html: str) -> str:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    # After model.js, which has what the others need; 'defer' keeps their order.
    names = ("model.js", "runtime.js", START)
    scripts = "\n  ".join(f'<script defer src="{name}"></script>' for name in names)
    html = html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n  {policy}')
    html = html.replace(f'<script type="module" src="{START}"></script>', scripts)
    links = '<p class="links" id="links"></p>'
    return html.replace(links, f'<p class="hint">{PROMISE}</p>\n      {links}')


def _join(sources: Mapping[str, str], start: str) -> str:
    """Join a module and all that it imports, in one script without imports.

    Every module becomes a function that returns what it exports, after those that it imports.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        text = sources[name]
        for _, imported in IMPORT.findall(text):
            add(imported)
        exported = ", ".join(found for _, found in EXPORT.findall(text))
        text = IMPORT.sub(lambda found: f'const {{{found[1]}}} = modules["{found[2]}"];', text)
        text = EXPORT.sub(r"\1 \2", text)
        done[name] = f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n'

    add(start)
    return "const modules = {};\n" + "".join(done.values())


def _packed(content: bytes) -> str:
    """A binary file as text; the same content gives the same text."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
