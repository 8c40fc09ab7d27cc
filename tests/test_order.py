"""Oracle: the order of modules as it is written down, against every import in the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import linkdist

SOURCE = Path(linkdist.__file__).parent

ORDER = [
    *("errors", "files", "graph"),
    *("problems", "columns", "encoders", "tables", "link_tables", "readers", "predictions"),
    *("pickles", "datasets", "splits"),
    *(
        "kept",
        "backends",
        "threads",
        "activation",
        "losses",
        "loops",
        "terms",
        "kernels",
        "loss_kernel",
    ),
    *("blocks", "bags", "inputs", "network", "folding", "single"),
    *(
        "coefficients",
        "objective",
        "draws",
        "orders",
        "adam",
        "averaging",
        "training",
        "checkpoints",
    ),
    *("neighbours", "inference", "scoring", "teaching", "stages"),
    *("panel.mixing", "panel.logistic", "panel.teachers", "panel.replicas", "panel.faculty"),
    *("panel.calibration", "panel.learning", "panel.baselines", "panel.estimates"),
    *("panel.fitting", "fitting"),
    *("links", "memory", "updating"),
    *("classifier", "drawing", "card", "directories", "header", "storage", "export"),
    *("findings", "pages", "charts", "report", "workflow"),
    *("scale.manifest", "scale.arrays", "scale.planning", "scale.store", "scale.journal"),
    *("scale.placing", "scale.pairs", "scale.synth"),
    *("scale.parting", "scale.resolving", "scale.building", "scale.checking"),
    *("scale.rounds", "scale.crews", "scale.feeding", "scale.survey", "scale.training"),
    "scale.learning",
    *("scale.cluster", "scale.predicting", "scale.distributing"),
    *("paper.published", "paper.plot", "paper.baselines", "paper.protocol"),
    *("paper.records", "paper.tables", "paper.page", "paper.report", "paper.run"),
    *("serve.refused", "serve.settings", "serve.engine", "serve.rows", "serve.encoding"),
    *(
        "serve.metrics",
        "serve.batching",
        "serve.current",
        "serve.files",
        "serve.described",
        "serve.documents",
    ),
    *("serve.guard", "serve.bodies", "serve.streams", "serve.app", "serve.command"),
    *("arguments", "console", "scale.commands", "cli", "entry"),
]
"""A module imports only from modules above it; a new one gets its place here."""

ROOT_READERS = ("paper.run",)
"""Those that may import the package itself, for its version."""


def modules():
    """Every module's file, by its name below the package."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in SOURCE.rglob("*.py")
    }


def imported(text: str, name: str, known: set[str]) -> set[str]:
    """What a module's text imports from the package, wherever in it; '' is the package itself."""
    package = ["linkdist", *name.split(".")[:-1]]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            inner = {f"{whole}.{alias.name}" for alias in node.names}
            submodules = {path for path in inner if path.removeprefix("linkdist.") in known}
            found |= submodules | ({whole} if inner - submodules else set())
    ours = {path for path in found if path.split(".")[0] == "linkdist"}
    return {path.removeprefix("linkdist").removeprefix(".") for path in ours}


def own_modules():
    """The modules that hold code: not the packages' own files."""
    return {name for name in modules() if not name.rpartition(".")[2].startswith("__")}


def packages():
    return {name.rpartition(".")[0] for name in modules() if name.endswith(".__init__")}


def imports_of(name):
    return imported(modules()[name].read_text("utf-8"), name, own_modules() | packages())


def test_every_module_has_its_place():
    assert sorted(ORDER) == sorted(own_modules())


@pytest.mark.parametrize("name", ORDER)
def test_a_module_imports_only_from_above(name):
    allowed = set(ORDER[: ORDER.index(name)]) | ({""} if name in ROOT_READERS else set())
    assert imports_of(name) <= allowed


def test_the_package_offers_no_command_line():
    outside = {path for path in imports_of("__init__") if path.split(".")[0] == "paper"}
    assert not outside
    assert not imports_of("__init__") & {"cli", "console"}


def test_a_folder_of_modules_imports_nothing():
    for package in packages():
        assert imports_of(f"{package}.__init__") == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import linkdist", {""}),
        ("import linkdist.cli as c, json", {"cli"}),
        ("from linkdist import __version__", {""}),
        ("from linkdist import datasets as d, load", {"datasets", ""}),
        ("from linkdist.errors import DataError", {"errors"}),
        ("def f():\n    from linkdist.cli import main", {"cli"}),
        ("if TYPE_CHECKING:\n    from linkdist.paper import run", {"paper.run"}),
        ("from . import plot", {"paper.plot"}),
        ("from .plot import Lane", {"paper.plot"}),
        ("from ..graph import Graph", {"graph"}),
        ("from .. import cli", {"cli"}),
        ("import linkdistance\nfrom json import loads", set()),
    ],
)
def test_imports_are_found_in_every_form(text, found):
    assert imported(text, "paper.tables", set(ORDER)) == found


def test_importing_the_package_brings_no_command_line():
    code = (
        "import sys, linkdist\n"
        "heavy = ('typer', 'linkdist.cli', 'linkdist.console', 'linkdist.paper')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    asked = [sys.executable, "-c", code]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "[]"
