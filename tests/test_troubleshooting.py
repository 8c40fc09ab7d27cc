"""The messages that docs/troubleshooting.md explains are those of the program.

Oracle: the string literals of the source, with names and numbers left out.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def literals():
    """The constant parts of every string of the package, joined at what is filled in."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                ]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def explained():
    """The messages in the first column of the tables."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    return re.findall(r"^\| \*\*(.+?)\*\* \|", page, flags=re.M)


def test_every_message_is_one_of_the_program():
    program = "\n".join(literals())
    parts = {message: message.split("…") for message in explained()}
    assert len(parts) > 25
    missing = {m: [p for p in found if p.strip() not in program] for m, found in parts.items()}
    assert {message: found for message, found in missing.items() if found} == {}
