"""Reports of a reproduction: a web page, and the same tables as Markdown.

results.json, run.json  ->  records  ->  tables  ->  report.html, tables.md
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from linkdist._files import replace_text
from linkdist.paper.charts import Lane, legend, strip_plot
from linkdist.paper.published import Verdict, is_published_best, published
from linkdist.paper.records import Record, Run, read_records, read_run
from linkdist.paper.tables import (
    FAR,
    HEADINGS,
    MARKS,
    TWO_FORMS,
    Score,
    Table,
    form_tables,
    render_markdown,
    summarise,
    tables,
)
from linkdist.report._jinja import duration, render

FEW_LABELS = "At most 20 nodes of each class are labelled. "
DESCRIPTIONS = {
    "inductive": FEW_LABELS
    + "Validation and test nodes and all their links are hidden during training.",
    "transductive": FEW_LABELS + "Training uses the features and links of all nodes.",
    "full-supervised": "60 % of all nodes are labelled. Training uses all features and links.",
}


class Cell(NamedTuple):
    """A cell of a table on the page."""

    ours: Score | None
    published: Score | None = None
    verdict: Verdict | None = None
    difference: str = ""


def write_report(directory: Path) -> tuple[Path, Path]:
    """Write `report.html` and `tables.md` next to the results of a reproduction.

    Parameters
    ----------
    directory : Path
        The folder with `results.json` and, optionally, `run.json`.

    Returns
    -------
    tuple of Path
        The paths of the web page and of the tables.

    Raises
    ------
    DataError
        If one of the two files is invalid.
    OptionError
        If the folder is not writable.

    Examples
    --------
    >>> import json
    >>> from tempfile import TemporaryDirectory
    >>> record = {"dataset": "digits", "setting": "inductive", "method": "MLP", "scores": [90.0],
    ...           "mean": 90.0, "std": 0.0, "seconds": 1.0, "device": "cpu"}
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "results.json").write_text(json.dumps([record]))
    ...     [path.name for path in write_report(Path(folder))]
    ['report.html', 'tables.md']
    """
    records = read_records(directory / "results.json")
    run = read_run(directory / "run.json")
    page, text = directory / "report.html", directory / "tables.md"
    replace_text(page, render_html(records, run))
    replace_text(text, render_markdown(records, run))
    return page, text


def render_html(records: Sequence[Record], run: Run) -> str:
    """Render the web page.

    Parameters
    ----------
    records : sequence of Record
        The results; at least one.
    run : Run
        How they were made, and why some are missing.

    Returns
    -------
    str
        An HTML document without external resources.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> render_html([record], Run({"commit": "1f3a"})).startswith("<!doctype html>")
    True
    """
    summary = summarise(records)
    return render(
        "paper.html",
        "linkdist.paper",
        summary=summary,
        signed=signed,
        far=FAR,
        time=duration(summary.seconds),
        headings=HEADINGS,
        descriptions=DESCRIPTIONS,
        sections=[_section(table, run) for table in tables(records)],
        legend=legend(),
        two_forms=TWO_FORMS,
        forms=[(table, table.by_form(Cell)) for table in form_tables(records)],
        run=run,
        precisions=sorted({record.precision for record in records if record.precision}),
    )


def _section(table: Table, run: Run) -> dict[str, Any]:
    lanes = {
        dataset: [Lane(r.method, r.scores, r.mean, r.published) for r in table.column(dataset)]
        for dataset in table.datasets
    }
    return {
        "table": table,
        "summary": summarise(list(table.cells.values())),
        "groups": table.by_group(_cell),
        "notes": table.notes(run),
        "panels": {
            dataset: strip_plot(dataset, lanes[dataset], f"{table.setting}-{i}")
            for i, dataset in enumerate(lanes)
            if lanes[dataset]
        },
    }


def _cell(table: Table, dataset: str, method: str) -> Cell:
    record = table.cells.get((dataset, method))
    theirs = published(dataset, table.setting, method)
    bold = is_published_best(dataset, table.setting, method)
    score = Score(*theirs, bold) if theirs else None
    if not record or record.deviation is None or record.verdict is None:
        return Cell(table.score(record) if record else None, score)
    difference = f"{MARKS.get(record.verdict, '')} {signed(record.deviation)}".lstrip()
    return Cell(table.score(record), score, record.verdict, difference)


def signed(points: float) -> str:
    """Return a difference with its sign.

    Examples
    --------
    >>> signed(1.5), signed(-0.25)
    ('+1.50', '−0.25')
    """
    return f"{points:+.2f}".replace("-", "−")
