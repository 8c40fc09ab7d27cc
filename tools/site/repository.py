"""Files of the repository that pages of the site link.

In the repository a page links `../results/README.md`; a site has nothing above its first page. So
what the pages link, and what the linked pages link in turn, is copied into the site at the path
that it has in the repository: Markdown as pages, everything else as files. A linked folder becomes
its name. The README's place is taken by the front page, which says the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import result_tables

README, FRONT_PAGE = Path("README.md"), Path("index.md")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def files(root: Path) -> dict[Path, Path]:
    """Every file of the site and its place in the site."""
    wanted = [path for path in sorted((root / "docs").rglob("*")) if path.is_file()]
    found = {}
    while wanted:
        source = wanted.pop()
        if source not in found:
            found[source] = _place(source, root)
            wanted += _linked(source, root) if source.suffix == ".md" else []
    return found


def moved(text: str, source: Path, place: Path, root: Path) -> str:
    """Let each link of a page lead to where its target is in the site."""

    def link(match: re.Match[str]) -> str:
        words, name, anchor = match.groups()
        target = (source.parent / name).resolve()
        if target.is_dir():
            path = target.relative_to(root).as_posix()
            return f"{words} ({'' if words == path else f'`{path}` '}in the repository)"
        to = Path(os.path.relpath(_place(target, root), place.parent)).as_posix()
        return f"[{words}]({to}{'' if target == root / README else anchor or ''})"

    return LINK.sub(link, text)


def _place(source: Path, root: Path) -> Path:
    path = source.relative_to(root)
    if path == README:
        return FRONT_PAGE
    return path.relative_to("docs") if path.parts[0] == "docs" else path


def _linked(page: Path, root: Path) -> Iterator[Path]:
    text = result_tables.filled(page.read_text("utf-8"), page, root)
    for _, name, _ in LINK.findall(text):
        target = (page.parent / name).resolve()
        if target.is_file() and target != root / README:
            yield target
