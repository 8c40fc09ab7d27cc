"""The site's hook for links that lead out of docs/ into the repository.

In the repository a page links `../results/README.md`; a site has nothing above its first page. So
what the pages link, and what the linked pages link in turn, comes along into the site at the path
that it has in the repository: Markdown as pages, all else as files. A linked folder becomes its
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the repository's files that the pages lead to."""
    root = Path(config.config_file_path).parent
    pages = [Path(file.abs_src_path) for file in files.documentation_pages()]
    wanted = list(pages)
    while wanted:
        for target in _linked(wanted.pop()):
            path = target.relative_to(root).as_posix()
            if target.is_file() and not path.startswith("docs/") and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(target)))
                wanted += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let each link lead to where its target is in the site."""
    root = Path(config.config_file_path).parent
    folder = Path(page.file.abs_src_path).parent

    def moved(link: re.Match[str]) -> str:
        text, name, anchor = link.groups()
        target = (folder / name).resolve()
        if target.is_dir():
            place = target.relative_to(root).as_posix()
            return f"{text} ({'' if text == place else f'`{place}` '}in the repository)"
        if not name.startswith("../"):
            return link[0]
        up = "../" * page.file.src_uri.count("/")
        place = target.relative_to(root).as_posix().removeprefix("docs/")
        return f"[{text}]({up}{place}{anchor or ''})"

    return LINK.sub(moved, markdown)


def _linked(page: Path) -> Iterator[Path]:
    for _, name, _ in LINK.findall(page.read_text("utf-8")):
        yield (page.parent / name).resolve()
