"""`linkdist drift`: whether a table is like those that a model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from linkdist.cli.console import Bars, note, print_table
from linkdist.cli.engine import load_engine
from linkdist.cli.options import JsonFile, ModelDir, MoreLinks, Quiet, check_json, write_json
from linkdist.errors import OptionError

if TYPE_CHECKING:
    from linkdist.inference.drift_report import Change, Drift, DriftReport

ALARM = 3
"""The exit code if something has changed; 2 is a mistake, such as a missing column."""


def drift(
    model: ModelDir,
    nodes: Annotated[
        Path, Argument(metavar="TABLE", help="The table to compare, with the model's columns.")
    ],
    edges: MoreLinks = None,
    threshold: Annotated[
        float,
        Option(
            help="The population stability index (PSI) above which a change is an alarm. It must "
            "also be too large to be chance."
        ),
    ] = 0.2,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="An HTML file to which charts are written.")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Compare a table with the training of a model, and raise an alarm if it has changed.

    The exit code is 3 if there is an alarm and 0 if there is none. Columns are compared by their
    distribution, missing and unseen values, words, and agreement with related columns; predictions
    by classes and confidence. Labels are compared if the table has them.
    """
    from linkdist._files import replace_text
    from linkdist.inference.drift_table import Reference, drift

    check_json(json_file)
    if out is not None and (out.is_dir() or not out.resolve().parent.is_dir()):
        raise OptionError(f"--out must be a file in an existing folder; found {out}.")
    reference = Reference.of_engine(load_engine(model))
    with Bars(quiet) as bars:
        report = drift(reference, nodes, edges, threshold=threshold, callback=bars)
    if out is not None:
        replace_text(out, _page(model.resolve().name, nodes.name, report))
    write_json(json_file, report.as_json())
    if not quiet:
        print_table(f"{nodes.name}, compared with {model.name}", list(map(_row, report.columns)))
        for sentence in report.notes:
            note(sentence)
    note(str(report))
    if report.alarms:
        raise Exit(ALARM)


def _page(model: str, table: str, report: DriftReport) -> str:
    try:
        from linkdist.inference.drift_page import render_drift
    except ModuleNotFoundError as error:
        raise OptionError(
            f"--out needs {error.name}, which is not installed: pip install {error.name}."
        ) from error
    return render_drift(model, table, report)


def _row(one: Drift) -> dict[str, str]:
    return {
        "column": one.name,
        "kind": one.kind,
        "PSI": f"{one.psi:.2f}",
        "missing": _shares(one.missing),
        "unseen": "" if one.unseen is None else _shares(one.unseen),
        "agreement": "" if one.agreement is None else _numbers(one.agreement),
        "alarm": "; ".join(one.alarms),
    }


def _shares(change: Change) -> str:
    before, now = (f"{100 * share:.0f}" for share in (change.before, change.now))
    return f"{now} %" if before == now else f"{before} -> {now} %"


def _numbers(change: Change) -> str:
    return f"{change.before:.2f} -> {change.now:.2f}"
