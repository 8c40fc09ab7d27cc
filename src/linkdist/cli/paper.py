"""`linkdist datasets`, `reproduce` and `report`: the named data sets and the paper's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from linkdist.cli.console import Bars, note, print_table, spread
from linkdist.cli.options import DataDir, Device, JsonFile, check_json, split_names, write_json
from linkdist.paper.published import METHODS

if TYPE_CHECKING:
    from linkdist.data.raw_files import DatasetInfo
    from linkdist.paper.protocol import Entry


def datasets(data: DataDir = None, json_file: JsonFile = None) -> None:
    """List the named data sets, their sizes and the locations of their raw files."""
    from linkdist.data.datasets import DATASETS

    rows = [_describe(info, data) for info in DATASETS.values()]
    print_table("Named data sets", rows)
    write_json(json_file, rows)


def _describe(info: DatasetInfo, data: Path | None) -> dict[str, Any]:
    from linkdist.data.datasets import find_raw

    absent = f"not downloaded; {len(info.files)} file(s) are downloaded on first use"
    return {
        "name": info.name,
        "nodes": info.n,
        "features": info.d,
        "classes": info.C,
        "edges": info.e,
        "degree": round(info.e / info.n, 2),
        "raw files": str(find_raw(info.name, data) or absent) if info.files else "embedded",
    }


def reproduce(
    out: Annotated[Path, Option(metavar="DIR", help="The folder for the results.")],
    datasets: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help="The data sets. By default, they are the paper's data sets whose files are "
            "available.",
        ),
    ] = None,
    settings: Annotated[
        str, Option(metavar="NAME,...", help="The settings of the paper.")
    ] = "inductive,transductive,full-supervised",
    methods: Annotated[
        str, Option(metavar="NAME,...", help="The methods of the paper.")
    ] = ",".join(METHODS),
    runs: Annotated[
        int, Option(help="Number of runs for each table cell. Every run has its own seed.")
    ] = 10,
    seed: Annotated[int, Option(help="Random seed of the first run.")] = 0,
    device: Device = "auto",
    data: DataDir = None,
    json_file: JsonFile = None,
) -> None:
    """Reproduce the paper's tables, or some of their cells.

    If an interrupted reproduction is started again, it continues with the cells that are not done.
    """
    from linkdist.paper.report import write_report
    from linkdist.paper.run import Plan
    from linkdist.paper.run import reproduce as reproduce_plan

    check_json(json_file, out)
    names = None if datasets is None else split_names(datasets)
    plan = Plan(out, names, split_names(settings), split_names(methods), runs, seed, device, data)
    with Bars() as bars:
        records = reproduce_plan(plan, bars)
    for title, rows in _overview(records).items():
        print_table(title, rows)
    write_json(json_file, records)
    note(f"Report: {write_report(out)[0]}")


def _overview(records: list[Entry]) -> dict[str, list[dict[str, str]]]:
    """Return one table for each setting, with a row per method and a column per data set."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    published = " (published)" if any(record["published_mean"] for record in records) else ""
    for record in records:
        rows = tables.setdefault(f"{record['setting']}: test accuracy{published}", {})
        row = rows.setdefault(record["method"], {"": record["method"]})
        known = record["published_mean"]
        row[record["dataset"]] = spread(record["scores"]) + (f" ({known:.2f})" if known else "")
    return {title: list(rows.values()) for title, rows in tables.items()}


def report(
    directory: Annotated[
        Path, Argument(metavar="DIR", help="The folder that 'linkdist reproduce' wrote.")
    ],
) -> None:
    """Write DIR/report.html, a page that works without a network, and DIR/tables.md."""
    from linkdist.paper.report import write_report

    for path in write_report(directory):
        note(str(path))
