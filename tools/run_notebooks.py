"""Run the notebooks of examples/ and store what their cells print.

A notebook needs no Jupyter to run: its cells are executed in one namespace, in a copy of the
repository's examples, and lines that start with '!' are commands. Outputs are plain text.
Usage: python tools/run_notebooks.py [NOTEBOOK...]
"""

import ast
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(notebook):
    """The code cells of a notebook that was read from JSON."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored(cell):
    """The text that a cell shows: what it printed, then its value."""
    texts = [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    return "".join("".join(text) for text in texts)


def run_cell(source, namespace):
    """What a cell prints and the text of its value, '' where it has none."""
    from tests.pages import shell

    lines = [
        f"print(_shell({line[1:]!r}), end='')" if line.startswith("!") else line
        for line in source.replace("\\\n", " ").splitlines()
    ]
    body = ast.parse("\n".join(lines)).body
    last = body.pop().value if lines[-1][:1] != "!" and isinstance(body[-1], ast.Expr) else None
    namespace["_shell"] = lambda line: shell(line, Path.cwd())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), namespace)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last), "<cell>", "eval"), namespace)
    return printed.getvalue(), "" if value is None else repr(value)


@contextlib.contextmanager
def examples_folder(folder):
    """Work in a folder that contains a copy of examples/."""
    before = Path.cwd()
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    os.chdir(folder / "examples")
    try:
        yield folder / "examples"
    finally:
        os.chdir(before)


def refresh(path):
    """Run a notebook and store its outputs."""
    notebook, namespace = json.loads(path.read_text()), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, examples_folder(Path(folder)):
        for count, cell in enumerate(code_cells(notebook), start=1):
            printed, value = run_cell("".join(cell["source"]), namespace)
            cell["execution_count"], cell["outputs"] = count, []
            if printed:
                stream = {"output_type": "stream", "name": "stdout"}
                cell["outputs"].append({**stream, "text": printed.splitlines(keepends=True)})
            if value:
                result = {"output_type": "execute_result", "execution_count": count}
                data = {"text/plain": value.splitlines(keepends=True)}
                cell["outputs"].append({**result, "data": data, "metadata": {}})
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    os.environ["COLUMNS"] = "120"
    for name in sys.argv[1:] or NOTEBOOKS:
        refresh(Path(name).resolve())
