"""Count the lines of code of each folder of the package, without blanks, comments and docstrings.

Usage: python tools/count_lines.py [FOLDER]
"""

import ast
import sys
from collections import Counter
from pathlib import Path


def lines_of_code(source: str) -> int:
    """Count the lines of a module.

    Examples
    --------
    >>> lines_of_code("# why" + chr(10) + "x = 1")
    1
    """
    strings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            strings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, source.splitlines()), start=1)
    return sum(bool(line) and not line.startswith("#") and i not in strings for i, line in lines)


def main() -> None:
    """Print a line for each folder, and the total."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src/linkdist")
    counts: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        counts[path.relative_to(root).parts[0]] += lines_of_code(path.read_text())
    for name, count in counts.items():
        print(f"{count:6d}  {name}")
    print(f"{sum(counts.values()):6d}  total")


if __name__ == "__main__":
    main()
