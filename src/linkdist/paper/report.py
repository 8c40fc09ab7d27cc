"""Reports of a reproduction: a web page, and the same tables as Markdown.

    results.json, run.json  ->  records  ->  one Table per setting  ->  report.html, tables.md

Markdown and HTML use the same tables, so they cannot differ. The best method of a group is bold, as
in the paper; numbers are compared as printed, with two decimals. A second grid compares the two
forms of message passing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

from linkdist._files import replace_text
from linkdist.data.datasets import PAPER_DATASETS
from linkdist.data.splits import SETTINGS
from linkdist.paper.charts import Lane, legend, strip_plot
from linkdist.paper.published import (
    GROUPS,
    METHODS,
    TRAININGS,
    Verdict,
    group_of,
    is_published_best,
    published,
)
from linkdist.paper.records import Record, Run, read_records, read_run
from linkdist.report._jinja import render

HEADINGS = {
    "inductive": "Semi-supervised, inductive",
    "transductive": "Semi-supervised, transductive",
    "full-supervised": "Full-supervised, transductive",
}
MARKS = {"above": "▲", "below": "▼"}
FORMS = ("mean of log-probabilities", "sum of logits")
CAPTION = (
    "Test accuracy in percent: our mean ± standard deviation (published mean). "
    "**Bold**: our best of the group. ▲ ▼: above, below tolerance."
)
TWO_FORMS = (
    "The same runs scored twice: with the mean of log-probabilities, which is behind the "
    "published numbers, and with the sum of logits, which is what the paper writes. "
    "–: not scored in both."
)
FAR = 2.0
"""The summary counts the LinkDist results that are more points below the paper than this."""

Grid: TypeAlias = "dict[str, dict[str, list[Cell]]]"
"""Groups of rows by name; a row has a name and a cell for each data set."""


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


# Tables -------------------------------------------------------------------------------------------


class Score(NamedTuple):
    """A mean and a standard deviation, and whether they are printed bold."""

    mean: float
    std: float
    best: bool


class Cell(NamedTuple):
    """A cell of a table: our score, the published one and how they compare."""

    ours: Score | None
    published: Score | None = None
    verdict: Verdict | None = None
    difference: str = ""


@dataclass(frozen=True)
class Table:
    """The results of one setting, with the columns and rows of their table."""

    setting: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], Record]

    def column(self, dataset: str) -> list[Record]:
        """Return the records of a data set from top to bottom."""
        cells = (self.cells.get((dataset, method)) for method in self.methods)
        return [record for record in cells if record]

    def score(self, record: Record) -> Score:
        """Return the score of a record; it is best if no method of its group has a higher mean."""
        group = group_of(record.method)
        rivals = [r.mean for r in self.column(record.dataset) if r.method in group]
        return Score(record.mean, record.std, round(record.mean, 2) == round(max(rivals), 2))

    def notes(self, run: Run) -> list[str]:
        """Return the reasons for missing results."""
        why = {"cora-full": "file not available", **run.not_run}
        empty = [dataset for dataset in self.datasets if not self.column(dataset)]
        notes = [f"{d}: not run: {why[d]}" if d in why else f"{d}: not run" for d in empty]
        if len(self.cells) < len(self.methods) * (len(self.datasets) - len(empty)):
            notes.append("–: not run")
        return [f"{note.rstrip('.')}." for note in notes]

    def cell(self, dataset: str, method: str) -> Cell:
        """Return the cell of a data set and a method."""
        record = self.cells.get((dataset, method))
        theirs = published(dataset, self.setting, method)
        bold = is_published_best(dataset, self.setting, method)
        score = Score(*theirs, bold) if theirs else None
        if not record or record.deviation is None or record.verdict is None:
            return Cell(self.score(record) if record else None, score)
        difference = f"{MARKS.get(record.verdict, '')} {signed(record.deviation)}".lstrip()
        return Cell(self.score(record), score, record.verdict, difference)

    def by_group(self) -> Grid:
        """Return the cells of all methods by group."""
        rows = {m: [self.cell(dataset, m) for dataset in self.datasets] for m in self.methods}
        grid = {name: {m: rows[m] for m in group if m in rows} for name, group in GROUPS.items()}
        return {name: group for name, group in grid.items() if group}

    def by_form(self) -> Grid:
        """Return the cells of the two forms of message passing by method."""
        grid = {}
        for method in self.methods:
            scores = [form_scores(self.cells.get((dataset, method))) for dataset in self.datasets]
            grid[method] = {form: [Cell(score[form]) for score in scores] for form in FORMS}
        return grid


def tables(records: Sequence[Record]) -> list[Table]:
    """Return one table for each setting, in the paper's order.

    If at least half of the paper's data sets have results, the tables have columns for all of them,
    which makes missing results visible. Data sets that are not in the paper come last.

    Parameters
    ----------
    records : sequence of Record
        The results.

    Examples
    --------
    >>> record = Record("digits", "inductive", "MLP", (90.0,), 90.0, 0.0, 1.0, "cpu")
    >>> [(table.setting, table.datasets, table.methods) for table in tables([record])]
    [('inductive', ('digits',), ('MLP',))]
    """
    names = list(dict.fromkeys(record.dataset for record in records))
    paper = [dataset for dataset in PAPER_DATASETS if dataset in names]
    if 2 * len(paper) >= len(PAPER_DATASETS):
        paper = list(PAPER_DATASETS)
    datasets = (*paper, *(name for name in names if name not in PAPER_DATASETS))
    methods = tuple(m for m in METHODS if any(record.method == m for record in records))
    found = []
    for setting in SETTINGS:
        cells = {(r.dataset, r.method): r for r in records if r.setting == setting}
        if cells:
            found.append(Table(setting, datasets, methods, cells))
    return found


def form_tables(records: Sequence[Record]) -> list[Table]:
    """Return the tables of the records that were evaluated with both forms of message passing."""
    return tables([record for record in records if record.sum_of_logits])


def form_scores(record: Record | None) -> dict[str, Score | None]:
    """Return the score of a record for each form of message passing; the better one is best."""
    if not record or not (sums := record.sum_of_logits):
        return dict.fromkeys(FORMS)
    both = (record.mean, record.std), (fmean(sums), stdev(sums) if len(sums) > 1 else 0.0)
    best = max(round(mean, 2) for mean, _ in both)
    scores = (Score(mean, std, round(mean, 2) == best) for mean, std in both)
    return dict(zip(FORMS, scores, strict=True))


class Summary(NamedTuple):
    """Number of results above, within and below tolerance, and the training time."""

    cells: int
    compared: int
    verdicts: dict[str, int]
    linkdist: int
    far: int
    worst: Record | None
    seconds: float
    devices: list[str]

    @property
    def met(self) -> int:
        """Number of results that are within tolerance or above."""
        return self.compared - self.verdicts["below"]


def summarise(records: Sequence[Record]) -> Summary:
    """Count the results above, within and below tolerance, and find the largest shortfall.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> summarise([record]).verdicts
    {'above': 0, 'within': 1, 'below': 0}
    """
    offs = {record: record.deviation for record in records if record.deviation is not None}
    verdicts = [record.verdict for record in offs]
    linkdist = [off for record, off in offs.items() if "LinkDist" in record.method]
    worst = min(offs, key=offs.__getitem__, default=None)
    training = {method: name for name, methods in TRAININGS.items() for method in methods}
    # Methods that come from the same training have the same time.
    times = {(r.dataset, r.setting, training[r.method], r.seconds) for r in records}
    return Summary(
        cells=len(records),
        compared=len(offs),
        verdicts={name: verdicts.count(name) for name in ("above", "within", "below")},
        linkdist=len(linkdist),
        far=sum(off < -FAR for off in linkdist),
        worst=worst if worst and offs[worst] < 0 else None,
        seconds=math.fsum(seconds for *_, seconds in times),
        devices=list(dict.fromkeys(record.device for record in records)),
    )


# Markdown -----------------------------------------------------------------------------------------


def render_markdown(records: Sequence[Record], run: Run) -> str:
    """Return the tables as Markdown.

    Parameters
    ----------
    records : sequence of Record
        The results.
    run : Run
        The reasons for missing results.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> print(render_markdown([record], Run()).splitlines()[-1])
    | MLP | **56.00** ± 0.00 (56.28) |
    """
    parts = []
    for table in tables(records):
        parts += [f"### {HEADINGS[table.setting]}", CAPTION]
        parts += [
            _grid("method", table, table.by_group()),
            _plain(" ".join(table.notes(run))),
        ]
    if forms := form_tables(records):
        parts += ["### Two forms of message passing", f"{TWO_FORMS} **Bold**: the better form."]
    for table in forms:
        parts += [f"#### {HEADINGS[table.setting]}", _grid("form", table, table.by_form())]
    return "\n\n".join(filter(None, parts)) + "\n"


def _grid(corner: str, table: Table, grid: Grid) -> str:
    width = len(table.datasets)
    lines = [_row([corner, *map(_plain, table.datasets)]), _row(["---", *["---:"] * width])]
    for group, rows in grid.items():
        lines.append(_row([f"*{group}*", *[""] * width]))
        lines += [_row([name, *map(_text, cells)]) for name, cells in rows.items()]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return " ".join(escape(text, quote=False).replace("|", "\\|").split())


def _text(cell: Cell) -> str:
    if not cell.ours:
        return "–"
    bold = "**" if cell.ours.best else ""
    ours = f"{bold}{cell.ours.mean:.2f}{bold} ± {cell.ours.std:.2f}"
    theirs = f"({cell.published.mean:.2f})" if cell.published else ""
    return " ".join(filter(None, (ours, theirs, MARKS.get(cell.verdict or ""))))


# The web page -------------------------------------------------------------------------------------


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
    return render(
        "paper.html",
        "linkdist.paper",
        summary=summarise(records),
        signed=signed,
        far=FAR,
        headings=HEADINGS,
        sections=[_section(table, run) for table in tables(records)],
        legend=legend(),
        two_forms=TWO_FORMS,
        forms=[(table, table.by_form()) for table in form_tables(records)],
        run=run,
        precisions=sorted({record.precision for record in records if record.precision}),
    )


def _section(table: Table, run: Run) -> dict[str, Any]:
    panels = {}
    for i, dataset in enumerate(table.datasets):
        lanes = [Lane(r.method, r.scores, r.mean, r.published) for r in table.column(dataset)]
        if lanes:
            panels[dataset] = strip_plot(dataset, lanes, f"{table.setting}-{i}")
    return {
        "table": table,
        "summary": summarise(list(table.cells.values())),
        "groups": table.by_group(),
        "notes": table.notes(run),
        "panels": panels,
    }


def signed(points: float) -> str:
    """Return a difference with its sign.

    Examples
    --------
    >>> signed(1.5), signed(-0.25)
    ('+1.50', '−0.25')
    """
    return f"{points:+.2f}".replace("-", "−")
