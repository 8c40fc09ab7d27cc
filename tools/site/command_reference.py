"""The command-line reference of the site, from the program itself."""

from __future__ import annotations

import re
import subprocess
import sys

PLACE = "<!-- commands -->"


def commands() -> str:
    """Every command with its arguments and options, as Typer describes them."""
    ask = [sys.executable, "-m", "typer", "linkdist.cli.main", "utils", "docs"]
    ask += ["--name", "linkdist"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    _, sections = re.split(r"^(?=## )", said, maxsplit=1, flags=re.M)
    always = r"^\* `--help`: .*\n"
    return re.sub(r"\*\*Options\*\*:\n\n(?!\*)", "", re.sub(always, "", sections, flags=re.M))
