"""The program's way in: `serve` does not wait for what the other commands import."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["serve"]:
        from linkdist.cli.serve import main as run

        sys.argv[:2] = ["linkdist serve"]
    else:
        from linkdist.cli.main import main as run
    run()
