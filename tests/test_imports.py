"""What importing the package brings. The order of its parts is a contract in pyproject.toml."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import linkdist

SOURCE = Path(linkdist.__file__).parent


def test_a_folder_of_modules_imports_nothing():
    dispatch = SOURCE / "kernels"  # its __init__ chooses between the implementations
    folders = [
        path for path in SOURCE.rglob("__init__.py") if path.parent not in (SOURCE, dispatch)
    ]
    assert folders
    for path in folders:
        statements = ast.parse(path.read_text("utf-8")).body
        assert [type(each) for each in statements] == [ast.Expr], path  # its docstring


def test_importing_the_package_brings_no_command_line():
    code = (
        "import sys, linkdist\n"
        "heavy = ('typer', 'linkdist.cli', 'linkdist.paper')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    asked = [sys.executable, "-c", code]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "[]"
