"""Tables and charts of result files in pages of the site.

A page leaves a place, `<!-- result: benchmarks/results/paper.md -->`, and the site shows the file
there, without its title. So a page shows what was measured last, and nobody copies numbers. A chart
comes with a description: `<!-- result: results/curve.svg Accuracy against labels. -->`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

PLACE = re.compile(r"<!-- result: (\S+?)(?: (.+?))? -->")
LINK = re.compile(r"(\[[^\]]*\]\()(?!https?:|#)([^)#\s]+)")
ABSENT = "*This has not been measured yet.*"


def filled(text: str, page: Path, root: Path) -> str:
    """Replace the places of a page by the results that they name."""

    def result(match: re.Match[str]) -> str:
        source, description = root / match[1], match[2]
        if not source.exists():
            return ABSENT
        to = Path(os.path.relpath(source.parent, page.parent)).as_posix()
        if source.suffix != ".md":
            return f"![{description}]({to}/{source.name})"
        body = re.sub(r"\A# .*\n+", "", source.read_text("utf-8")).strip()
        return LINK.sub(rf"\g<1>{to}/\g<2>", body)

    return PLACE.sub(result, text)
