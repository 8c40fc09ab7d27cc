"""Build the documentation as a site: `python tools/site/build.py [FOLDER]`.

Zensical builds it from mkdocs.yml. Zensical runs no hooks, so a copy of docs/ is completed first:

    docs/ -> copy    files of the repository that pages link (repository.py)
                     references from the program (command_reference.py, http_reference.py)
                     tables from result files (result_tables.py)
    copy  -> site    Zensical, which stops at a link that leads nowhere
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves this folder out

import command_reference
import http_reference
import repository
import result_tables

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {
    command_reference.PLACE: command_reference.commands,
    http_reference.PLACE: http_reference.paths,
}
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Starts a page of results: its numbers would be found before what explains them."""


def build(folder: Path) -> None:
    """Build the site into a folder; a site that is there already is replaced."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "search.json").exists():
        raise SystemExit(f"{folder} holds something other than a site. Name another folder.")
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        assemble(project)
        # Zensical refuses to write a site outside the folder of its configuration.
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        ended = subprocess.run(command, cwd=project)
        if ended.returncode:
            raise SystemExit("The site was not built: see above.")
        # The map for search engines is empty where the address of the site is unknown.
        (project / "site" / "sitemap.xml").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(project / "site", folder)


def assemble(project: Path) -> None:
    """Write what Zensical reads: the configuration and the completed copy of docs/."""
    shutil.copy(ROOT / "mkdocs.yml", project)
    for name in ("src", "deploy"):  # the configuration reads docstrings and snippets there
        (project / name).symlink_to(ROOT / name, target_is_directory=True)
    for source, place in repository.files(ROOT).items():
        target = project / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(_page(source, place), encoding="utf-8")
        else:
            shutil.copyfile(source, target)


def _page(source: Path, place: Path) -> str:
    text = result_tables.filled(source.read_text("utf-8"), source, ROOT)
    text = repository.moved(text, source, place, ROOT)
    for mark, write in GENERATED.items():
        if mark in text:
            text = text.replace(mark, write())
    return text if source.is_relative_to(ROOT / "docs") else NOT_SEARCHED + text


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site"))
