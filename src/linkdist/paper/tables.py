"""Records laid out as the paper does, and how they stand against it.

    records  ->  a Table a setting  ->  a Grid of cells  ->  Markdown here, HTML in `html`

Both twins are drawn from the same tables, so they cannot disagree. The best of a group is bold,
as in the paper; what is compared is what is printed, two decimals. A second grid sets the two
forms of message passing under each other, the better one bold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean, stdev
from typing import NamedTuple, TypeAlias

from linkdist.data.datasets import PAPER_DATASETS
from linkdist.data.splits import SETTINGS
from linkdist.paper.published import GROUPS, METHODS, TRAININGS, group_of
from linkdist.paper.records import Record, Run

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
"""The summary counts the LinkDist cells that are further below the paper than this."""

Grid: TypeAlias = dict[str, dict[str, list[str]]]
"""Groups of rows by name; a row is a name and a cell a data set."""


class Score(NamedTuple):
    """A mean and a standard deviation, and whether they are printed bold."""

    mean: float
    std: float
    best: bool


@dataclass(frozen=True)
class Table:
    """One setting's cells, with the columns and rows to show them in."""

    setting: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], Record]

    def column(self, dataset: str) -> list[Record]:
        """Return a data set's records from the top down."""
        cells = (self.cells.get((dataset, method)) for method in self.methods)
        return [record for record in cells if record]

    def score(self, record: Record) -> Score:
        """Return a cell's score; it is best if no method of the group has a higher mean."""
        group = group_of(record.method)
        rivals = [r.mean for r in self.column(record.dataset) if r.method in group]
        return Score(record.mean, record.std, round(record.mean, 2) == round(max(rivals), 2))

    def notes(self, run: Run) -> list[str]:
        """Say what was not run, and why."""
        why = {"cora-full": "file not available", **run.not_run}
        empty = [dataset for dataset in self.datasets if not self.column(dataset)]
        notes = [f"{d}: not run: {why[d]}" if d in why else f"{d}: not run" for d in empty]
        if len(self.cells) < len(self.methods) * (len(self.datasets) - len(empty)):
            notes.append("–: not run")
        return [f"{note.rstrip('.')}." for note in notes]

    def by_group(self, draw: Callable[[Table, str, str], str]) -> Grid:
        """Draw the methods under their groups, each cell from its table, data set and method."""
        rows = {m: [draw(self, dataset, m) for dataset in self.datasets] for m in self.methods}
        grid = {name: {m: rows[m] for m in group if m in rows} for name, group in GROUPS.items()}
        return {name: group for name, group in grid.items() if group}

    def by_form(self, draw: Callable[[Score | None], str]) -> Grid:
        """Draw the two forms of message passing under their methods."""
        grid: Grid = {}
        for method in self.methods:
            cells = [form_scores(self.cells.get((dataset, method))) for dataset in self.datasets]
            grid[method] = {form: [draw(cell[form]) for cell in cells] for form in FORMS}
        return grid


def tables(records: Sequence[Record]) -> list[Table]:
    """Lay records out, a table a setting, in the paper's order.

    Once half of the paper's data sets are there, the page is about the paper and shows the columns
    of all, so that what is missing can be seen. Data sets that the paper lacks come last.

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
    """Lay out the records that were scored in both forms of message passing."""
    return tables([record for record in records if record.sum_of_logits])


def form_scores(record: Record | None) -> dict[str, Score | None]:
    """Return a record's score in each form; the better one is best."""
    if not record or not (sums := record.sum_of_logits):
        return dict.fromkeys(FORMS)
    both = (record.mean, record.std), (fmean(sums), stdev(sums) if len(sums) > 1 else 0.0)
    best = max(round(mean, 2) for mean, _ in both)
    scores = (Score(mean, std, round(mean, 2) == best) for mean, std in both)
    return dict(zip(FORMS, scores, strict=True))


class Summary(NamedTuple):
    """How records stand against the paper, in numbers of cells, and what it took."""

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
        """How many cells are within tolerance or above."""
        return self.compared - self.verdicts["below"]


def summarise(records: Sequence[Record]) -> Summary:
    """Count the cells above, within and below tolerance, and find the largest shortfall.

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
    # Each cell that a training fills says how long the training took.
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


def render_markdown(records: Sequence[Record], run: Run) -> str:
    """Write the tables for a README.

    Parameters
    ----------
    records : sequence of Record
        The cells that were run.
    run : Run
        Says why others were not.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> print(render_markdown([record], Run()).splitlines()[-1])
    | MLP | **56.00** ± 0.00 (56.28) |
    """
    parts = []
    for table in tables(records):
        parts += [f"### {HEADINGS[table.setting]}", CAPTION]
        parts += [_grid("method", table, table.by_group(_cell)), _plain(" ".join(table.notes(run)))]
    if forms := form_tables(records):
        parts += ["### Two forms of message passing", f"{TWO_FORMS} **Bold**: the better form."]
    for table in forms:
        parts += [f"#### {HEADINGS[table.setting]}", _grid("form", table, table.by_form(_number))]
    return "\n\n".join(filter(None, parts)) + "\n"


def _grid(corner: str, table: Table, grid: Grid) -> str:
    width = len(table.datasets)
    lines = [_row([corner, *map(_plain, table.datasets)]), _row(["---", *["---:"] * width])]
    for group, rows in grid.items():
        lines.append(_row([f"*{group}*", *[""] * width]))
        lines += [_row([name, *cells]) for name, cells in rows.items()]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return " ".join(escape(text, quote=False).replace("|", "\\|").split())


def _cell(table: Table, dataset: str, method: str) -> str:
    record = table.cells.get((dataset, method))
    if not record:
        return "–"
    theirs = f"({record.published.mean:.2f})" if record.published else ""
    mark = MARKS.get(record.verdict or "", "")
    return " ".join(filter(None, (_number(table.score(record)), theirs, mark)))


def _number(score: Score | None) -> str:
    if not score:
        return "–"
    bold = "**" if score.best else ""
    return f"{bold}{score.mean:.2f}{bold} ± {score.std:.2f}"
