"""`linkdist explain`: what speaks for and against a prediction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from linkdist.cli.console import Bars, note, print_table
from linkdist.cli.engine import load_engine
from linkdist.cli.options import ModelDir, MoreLinks, Quiet
from linkdist.errors import OptionError

if TYPE_CHECKING:
    from linkdist.inference.explain_table import Explained

FEW = 3
"""Number of rows that are printed by default."""

PARTS = 10
"""Number of parts of a row that are printed; a file has all of them."""

BAR = 20
"""Characters of the longest bar."""


def explain(
    model: ModelDir,
    nodes: Annotated[
        Path,
        Argument(metavar="TABLE", help="The table whose rows are explained: Parquet or CSV."),
    ],
    edges: MoreLinks = None,
    id: Annotated[
        list[str] | None,
        Option(help="The id of a row to explain. Repeat the option for several rows."),
    ] = None,
    rows: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Number of rows to explain, the first ones of the table. By default, three rows "
            "are printed, and all rows are written with --out.",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        Option(
            "--class",
            metavar="NAME",
            help="The class or label to explain, instead of the predicted one. Repeat the "
            "option for several.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The .csv, .parquet or .json file to write, with all parts of every row.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Explain predictions: which columns, words, tags and neighbours speak for and against them.

    The contributions of all parts sum to the difference between the prediction and that of a row
    without any values. They are in log-odds, ln(p / (1 - p)), of the predicted class or, for a
    number, in its unit. A word, tag or neighbour contributes what the prediction loses without it.
    """
    _check(out)
    from linkdist.inference.explain_table import explain_table

    if out is None and rows is None and not id:
        rows = FEW
    engine = load_engine(model)
    with Bars(quiet, lambda: "Nothing was written.") as bars:
        each = explain_table(
            engine.heads, engine.columns, engine.header, nodes, edges,
            ids=id, rows=rows, labels=label, callback=bars,
        )  # fmt: skip
        found = list(each)
    if out is None:
        _print(found)
    else:
        _write(found, out)


def _check(out: Path | None) -> None:
    """Report what is wrong before the model is loaded."""
    from linkdist.tables.io import SUFFIXES

    known = (*SUFFIXES, ".json")
    if out is not None and out.suffix.lower() not in known:
        raise OptionError(f"{out}: the suffix must be one of {', '.join(known)}.")


def _print(found: Iterable[Explained]) -> None:
    for id, one in found:
        what = f"{one.label} {one.score:.4g}"
        if one.probability is not None:
            what = f"{one.label}, probability {one.probability:.3f}, log-odds {one.score:.2f}"
        if one.mode == "links":
            what += ", with links"
        rest = one.parts[PARTS:]
        lines = [
            ("base", "without any values", one.base),
            *((part.column, part.value, part.contribution) for part in one.parts[:PARTS]),
            *([("", f"{len(rest)} more", sum(part.contribution for part in rest))] if rest else []),
        ]
        longest = max((abs(part.contribution) for part in one.parts), default=1.0) or 1.0
        print_table(f"{id}: {what}", [_line(*line, longest) for line in lines])


def _line(column: str, value: str, contribution: float, longest: float) -> dict[str, Any]:
    size = min(BAR, round(BAR * abs(contribution) / longest))
    sign = "+" if contribution > 0 else "-"
    bar = "" if column == "base" else sign * size
    return {"column": column, "value": value, "contribution": f"{contribution:+.3f}", "": bar}


def _write(found: list[Explained], out: Path) -> None:
    from dataclasses import asdict

    from linkdist._files import replace_text
    from linkdist.inference.explain_table import parts_table
    from linkdist.tables.predictions import write_table

    if out.suffix.lower() == ".json":
        content = [{"id": id, **asdict(one)} for id, one in found]
        replace_text(out, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    else:
        write_table(parts_table(found), out)
    count = len({one.row for _, one in found})
    note(f"{count} rows explained: {out}")
