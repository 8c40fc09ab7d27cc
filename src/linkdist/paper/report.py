"""Results to read: one web page and its Markdown twin, ours beside the published numbers.

    results.json  ->  records  ->  a Table a setting  ->  report.html, tables.md

A record is a cell that was run: a data set, a setting, a method and the test accuracy of every run
in percent. A `Table` lays the records of one setting out as the paper does; both twins are drawn
from it, so they cannot disagree. The page stands alone: styles and plots lie inside it, nothing
is fetched, and whatever a colour says, a sign or a word says too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from linkdist.errors import DataError
from linkdist.paper.plot import PLOT_CSS, Lane, legend, strip_plot
from linkdist.paper.published import (
    DATASETS,
    GROUPS,
    METHODS,
    SETTINGS,
    Published,
    group_of,
    is_published_best,
    published,
)

HEADINGS = {
    "inductive": "Semi-supervised, inductive",
    "transductive": "Semi-supervised, transductive",
    "full-supervised": "Full-supervised, transductive",
}
LABELLED = "At most 20 nodes of each class are labelled. "
MEANINGS = {
    "inductive": LABELLED
    + "Validation and test nodes, and all their links, are hidden in training.",
    "transductive": LABELLED + "Training sees the features and links of all nodes.",
    "full-supervised": "60 % of all nodes are labelled. Training sees all features and links.",
}
TOLERANCE = (
    "Within tolerance means no further from the published mean than the published standard "
    "deviation or 1.00 point, whichever is larger"
)
MARKS = {"above": "▲", "within": "", "below": "▼"}


# Records: what was run


@dataclass(frozen=True)
class Record:
    """One cell that was run: its scores in percent, and what it took."""

    dataset: str
    setting: str
    method: str
    scores: tuple[float, ...]
    mean: float
    std: float
    seconds: float
    device: str
    precision: str | None = None

    @property
    def published(self) -> Published | None:
        """What the paper has for this cell."""
        return published(self.dataset, self.setting, self.method)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_amount(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < math.inf


def _is_percent(value: object) -> bool:
    return _is_amount(value) and value <= 100


def _are_percents(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_percent, value))


RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "dataset": (_is_text, "a name"),
    "setting": (SETTINGS.__contains__, f"one of {', '.join(SETTINGS)}"),
    "method": (METHODS.__contains__, f"one of {', '.join(METHODS)}"),
    "scores": (_are_percents, "a list of accuracies from 0 to 100"),
    "mean": (_is_percent, "an accuracy from 0 to 100"),
    "std": (_is_amount, "a number, 0 or more"),
    "seconds": (_is_amount, "a number, 0 or more"),
    "device": (_is_text, "a name"),
}
RUN_AGAIN = "Run the experiments into this folder, again if need be."


def read_records(path: Path) -> list[Record]:
    """Read a run's records, or say all that is wrong with the file.

    Parameters
    ----------
    path : Path
        A `results.json`: a list of objects with the keys of `RULES`; other keys are left alone.

    Raises
    ------
    DataError
        If the file is missing, is not such a list, or holds a cell twice.

    Examples
    --------
    >>> read_records(Path("nowhere/results.json"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    linkdist.errors.DataError: nowhere/results.json cannot be read: No such file or directory...
    """
    items = _read_json(path)
    if not isinstance(items, list) or not items:
        found = f"found {_short(items)}. {RUN_AGAIN}"
        raise DataError(f"{path} must be a list of one record or more; {found}")
    problems = [
        f"\n  record {i}: {problem}"
        for i, item in enumerate(items, 1)
        for problem in (*_problems(item), *_repeats(item, items[: i - 1]))
    ]
    if problems:
        raise DataError(f"{path} is not a list of results:{''.join(problems)}\n{RUN_AGAIN}")
    return [_record(item) for item in items]


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. {RUN_AGAIN}") from error
    except ValueError as error:
        raise DataError(f"{path} must be JSON; found: {error}. {RUN_AGAIN}") from error


def _problems(item: object) -> list[str]:
    if not isinstance(item, dict):
        return [f"must be an object; found {_short(item)}."]
    problems = []
    for key, (holds, rule) in RULES.items():
        if key not in item:
            problems.append(f"{key} is missing; it must be {rule}.")
        elif not holds(item[key]):
            problems.append(f"{key} must be {rule}; found {_short(item[key])}.")
    if not problems and abs(item["mean"] - math.fsum(item["scores"]) / len(item["scores"])) > 0.05:
        problems.append(f"mean must be the mean of scores; found {item['mean']}.")
    return problems


def _repeats(item: object, before: Sequence[object]) -> list[str]:
    cell = _cell(item)
    if None in cell or cell not in map(_cell, before):
        return []
    return [f"{' / '.join(map(str, cell))} must stand once; it stands further up too."]


def _cell(item: object) -> tuple[object, ...]:
    keys = ("dataset", "setting", "method")
    return tuple(item.get(key) for key in keys) if isinstance(item, dict) else (None,)


def _record(item: Mapping[str, Any]) -> Record:
    fields = {key: item[key] for key in RULES} | {"scores": tuple(item["scores"])}
    precision = item.get("precision")
    return Record(**fields, precision=None if precision is None else str(precision))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Tables: records laid out as the paper does


@dataclass(frozen=True)
class Table:
    """One setting's cells, with the columns and rows to show them in."""

    setting: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: Mapping[tuple[str, str], Record]

    def groups(self) -> dict[str, list[str]]:
        """Return the rows under their group's name; groups without a row are left out."""
        rows = {name: [m for m in group if m in self.methods] for name, group in GROUPS.items()}
        return {name: group for name, group in rows.items() if group}

    def column(self, dataset: str) -> list[Record]:
        """Return a data set's records from the top down."""
        cells = (self.cells.get((dataset, method)) for method in self.methods)
        return [record for record in cells if record]

    def is_best(self, record: Record) -> bool:
        """Tell whether no method of the group has a higher printed mean."""
        group = group_of(record.method)
        rivals = [r.mean for r in self.column(record.dataset) if r.method in group]
        return round(record.mean, 2) == round(max(rivals), 2)

    def notes(self) -> list[str]:
        """Say what was not run."""
        empty = [dataset for dataset in self.datasets if not self.column(dataset)]
        why = {"cora-full": "not run: file not available"}
        notes = [f"{dataset}: {why.get(dataset, 'not run')}." for dataset in empty]
        if len(self.cells) < len(self.methods) * (len(self.datasets) - len(empty)):
            notes.append("–: not run.")
        return notes


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
    paper = [dataset for dataset in DATASETS if dataset in names]
    if 2 * len(paper) >= len(DATASETS):
        paper = list(DATASETS)
    datasets = (*paper, *(name for name in names if name not in DATASETS))
    methods = tuple(m for m in METHODS if any(record.method == m for record in records))
    found = []
    for setting in SETTINGS:
        cells = {(r.dataset, r.method): r for r in records if r.setting == setting}
        if cells:
            found.append(Table(setting, datasets, methods, cells))
    return found


class Summary(NamedTuple):
    """How the records stand against the paper."""

    cells: int
    verdicts: dict[str, int]
    worst: Record | None
    seconds: float
    devices: list[str]

    @property
    def compared(self) -> int:
        """How many cells the paper has too."""
        return sum(self.verdicts.values())

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
    verdicts = dict.fromkeys(MARKS, 0)
    deviations = []
    for record in records:
        if cell := record.published:
            verdicts[cell.verdict(record.mean)] += 1
            deviations.append((cell.deviation(record.mean), record))
    lowest = min(deviations, key=lambda pair: pair[0], default=None)
    worst = lowest[1] if lowest and lowest[0] < 0 else None
    seconds = math.fsum(record.seconds for record in records)
    devices = list(dict.fromkeys(record.device for record in records))
    return Summary(len(records), verdicts, worst, seconds, devices)


def _deviation(record: Record) -> str:
    cell = record.published
    return f"{cell.deviation(record.mean):+.2f}".replace("-", "−") if cell else ""


def _verdict(record: Record) -> str:
    return record.published.verdict(record.mean) if record.published else "within"


# Markdown


def render_markdown(records: Sequence[Record]) -> str:
    """Write the tables for a README.

    Parameters
    ----------
    records : sequence of Record
        The cells that were run.

    Returns
    -------
    str
        A heading, a caption, a table and its notes for each setting.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> print(render_markdown([record]).splitlines()[-1])
    | MLP | **56.00** ± 0.00 (56.28) |
    """
    return "\n\n".join(_markdown_table(table) for table in tables(records)) + "\n"


def _markdown_table(table: Table) -> str:
    lines = [
        f"### {HEADINGS[table.setting]}",
        "",
        "Test accuracy in percent: our mean ± standard deviation (published mean). "
        "**Bold**: our best of the group. ▲ ▼: above, below tolerance.",
        "",
        _markdown_row(["method", *map(_markdown_name, table.datasets)]),
        _markdown_row(["---", *["---:"] * len(table.datasets)]),
    ]
    for group, methods in table.groups().items():
        lines.append(_markdown_row([f"*{group}*", *[""] * len(table.datasets)]))
        for method in methods:
            cells = [_markdown_cell(table, d, method) for d in table.datasets]
            lines.append(_markdown_row([method, *cells]))
    if notes := table.notes():
        lines += ["", _markdown_name(" ".join(notes))]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_name(name: str) -> str:
    return " ".join(escape(name, quote=False).replace("|", "\\|").split())


def _markdown_cell(table: Table, dataset: str, method: str) -> str:
    record = table.cells.get((dataset, method))
    if not record:
        return "–"
    bold = "**" if table.is_best(record) else ""
    theirs = f" ({record.published.mean:.2f})" if record.published else ""
    text = f"{bold}{record.mean:.2f}{bold} ± {record.std:.2f}{theirs} {MARKS[_verdict(record)]}"
    return text.rstrip()


# The page


def render_html(records: Sequence[Record], run: Mapping[str, Any] | None = None) -> str:
    """Write the whole page.

    Parameters
    ----------
    records : sequence of Record
        The cells that were run; at least one.
    run : mapping, optional
        How they were made: command, commit, machine and the like.

    Returns
    -------
    str
        An HTML document that needs nothing beside it.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> render_html([record], {"commit": "1f3a"}).startswith("<!doctype html>")
    True
    """
    sections = "".join(_section(table) for table in tables(records))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>LinkDist: the paper’s tables, run again</title><style>{PLOT_CSS}{CSS}</style>"
        f"</head><body><main>{_header(summarise(records))}{sections}</main>"
        f"<footer>{_made(run)}{_footer(records)}</footer></body></html>\n"
    )


def _header(summary: Summary) -> str:
    tiles = [_cells_tile(summary), _met_tile(summary), _worst_tile(summary), _time_tile(summary)]
    items = "".join(
        f"<div><dt>{name}</dt><dd><b>{value}</b> <span>{words}</span></dd></div>"
        for name, value, words in tiles
    )
    return (
        '<header><p class="over">LinkDist</p><h1>The paper’s tables, run again</h1>'
        "<p>Test accuracies of this code beside those that the paper published.</p>"
        f'<dl class="tiles">{items}</dl></header>'
    )


def _cells_tile(summary: Summary) -> tuple[str, str, str]:
    share = {0: "none", summary.cells: "all"}.get(summary.compared, str(summary.compared))
    return "Cells run", str(summary.cells), f"{share} of them in the paper"


def _met_tile(summary: Summary) -> tuple[str, str, str]:
    if not summary.compared:
        return "Within tolerance or above", "–", "nothing published to compare with"
    counts = ", ".join(f"{n} {verdict}" for verdict, n in summary.verdicts.items())
    share = f"{100 * summary.met / summary.compared:.1f} %"
    return "Within tolerance or above", share, f"of {summary.compared} cells: {counts}"


def _worst_tile(summary: Summary) -> tuple[str, str, str]:
    name = "Largest shortfall"
    if not summary.compared:
        return name, "–", "nothing published to compare with"
    if not (record := summary.worst):
        return name, "none", "no mean is under the published one"
    where = f"{record.method} on {escape(record.dataset)}, {record.setting}"
    return name, _deviation(record), f"points: {where}"


def _time_tile(summary: Summary) -> tuple[str, str, str]:
    devices = escape(", ".join(summary.devices))
    return "Time", _duration(summary.seconds), f"summed over cells, on {devices}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.3g} s"


def _section(table: Table) -> str:
    setting = table.setting
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes())
    return (
        f'<section aria-labelledby="{setting}"><h2 id="{setting}">{HEADINGS[setting]}</h2>'
        f"<p>{MEANINGS[setting]} {_standing(table)}</p>"
        f'<div class="scroll" role="region" tabindex="0" aria-label="Table: {HEADINGS[setting]}">'
        f"{_html_table(table)}</div>"
        f'<div class="notes">{notes}</div><h3>Every run</h3>{legend()}{_panels(table)}</section>'
    )


def _standing(table: Table) -> str:
    records = [record for dataset in table.datasets for record in table.column(dataset)]
    summary = summarise(records)
    if not summary.compared:
        return "The paper has no numbers for these data sets."
    text = f"{summary.met} of {summary.compared} cells are within tolerance of the paper or above"
    below = [
        f"{record.method} on {escape(record.dataset)} ({_deviation(record)})"
        for record in records
        if _verdict(record) == "below"
    ]
    # A long list is easier to find in the table, where ▼ marks each.
    if not below or len(below) > 6:
        return f"{text}."
    return f"{text}. Below: {', '.join(below)}."


def _html_table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(dataset)}</th>' for dataset in table.datasets)
    bodies = "".join(_html_group(table, *group) for group in table.groups().items())
    return (
        "<table><caption><span>Test accuracy in percent, mean ± standard deviation: ours; "
        "under it, smaller, the paper’s; then ours less the paper’s. Bold: best of the group."
        "</span></caption>"
        f'<thead><tr><th scope="col">Method</th>{heads}</tr></thead>{bodies}</table>'
    )


def _html_group(table: Table, group: str, methods: Sequence[str]) -> str:
    span = len(table.datasets) + 1
    rows = "".join(
        f'<tr><th scope="row">{method}</th>'
        f"{''.join(_html_cell(table, dataset, method) for dataset in table.datasets)}</tr>"
        for method in methods
    )
    head = f'<tr class="group"><th scope="rowgroup" colspan="{span}"><span>{group}</span></th></tr>'
    return f"<tbody>{head}{rows}</tbody>"


def _html_cell(table: Table, dataset: str, method: str) -> str:
    record = table.cells.get((dataset, method))
    theirs = _html_published(dataset, table.setting, method)
    if not record:
        return f'<td><span class="ours">–</span>{theirs}</td>'
    ours = f'<span class="ours">{_html_mean(record.mean, record.std, table.is_best(record))}</span>'
    if not (cell := record.published):
        return f"<td>{ours}</td>"
    verdict = cell.verdict(record.mean)
    excess = abs(cell.deviation(record.mean)) / cell.tolerance - 1
    tint = round(9 + 13 * min(1, max(0, excess) / 2))
    style = "" if verdict == "within" else f' class="{verdict}" style="--tint:{tint}%"'
    mark = f"{MARKS[verdict]} " if MARKS[verdict] else ""
    deviation = f'<span class="off">{mark}{_deviation(record)}</span>'
    return f"<td{style}>{ours}{theirs}{deviation}</td>"


def _html_mean(mean: float, std: float, best: bool) -> str:
    number = f"<b>{mean:.2f}</b>" if best else f"{mean:.2f}"
    return f"{number} <small>± {std:.2f}</small>"


def _html_published(dataset: str, setting: str, method: str) -> str:
    cell = published(dataset, setting, method)
    if not cell:
        return ""
    best = is_published_best(dataset, setting, method)
    return f'<span class="theirs">{_html_mean(cell.mean, cell.std, best)}</span>'


def _panels(table: Table) -> str:
    figures = []
    for i, dataset in enumerate(table.datasets):
        lanes = [Lane(r.method, r.scores, r.mean, r.published) for r in table.column(dataset)]
        if lanes:
            panel = strip_plot(dataset, lanes, f"{table.setting}-{i}")
            figures.append(f"<figure><figcaption>{escape(dataset)}</figcaption>{panel}</figure>")
    return f'<div class="panels">{"".join(figures)}</div>'


def _made(run: Mapping[str, Any] | None) -> str:
    if not run:
        return ""
    items = "".join(
        f"<div><dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_plain(value))}</dd></div>"
        for key, value in run.items()
    )
    return f'<h2>How this was made</h2><dl class="made">{items}</dl>'


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _footer(records: Sequence[Record]) -> str:
    precisions = sorted({record.precision for record in records if record.precision})
    precision = f" Precision: {escape(', '.join(precisions))}." if precisions else ""
    return (
        f"<p>{TOLERANCE}; ▲ marks a mean above that, ▼ one below it. Bold among the paper’s "
        f"numbers is the paper’s own.{precision}</p>"
    )


# Files


def write_report(directory: Path) -> tuple[Path, Path]:
    """Write `report.html` and `tables.md` beside a run's results.

    Parameters
    ----------
    directory : Path
        Where `results.json` lies, and perhaps `run.json`, which says how it was made.

    Returns
    -------
    tuple of Path
        The page and the tables.

    Raises
    ------
    DataError
        If either file is not what it must be.

    Examples
    --------
    >>> from dataclasses import asdict
    >>> from tempfile import TemporaryDirectory
    >>> record = Record("digits", "inductive", "MLP", (90.0,), 90.0, 0.0, 1.0, "cpu")
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "results.json").write_text(json.dumps([asdict(record)]))
    ...     [path.name for path in write_report(Path(folder))]
    ['report.html', 'tables.md']
    """
    records = read_records(directory / "results.json")
    run = _read_run(directory / "run.json")
    return (
        _write(directory / "report.html", render_html(records, run)),
        _write(directory / "tables.md", render_markdown(records)),
    )


def _read_run(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    run = _read_json(path)
    if not isinstance(run, dict):
        raise DataError(f"{path} must be an object; found {_short(run)}. Mend or remove it.")
    return run


def _write(path: Path, text: str) -> Path:
    # Aside first: whoever reads the folder meanwhile finds the old file or the new, never half.
    aside = path.with_name(f".{path.name}.part")
    aside.write_text(text, "utf-8")
    return aside.replace(path)


CSS = """
:root { color-scheme: light dark; --page: #fcfbf8; --card: #ffffff; --ink: #20242a;
  --muted: #626871; --line: #e3e0d8; --above: #1f6f94; --below: #b4530a }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --card: #1d2024; --ink: #e7e5e0;
  --muted: #a0a4ab; --line: #33373d; --above: #6bb8e0; --below: #f09a56 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }
main, footer { max-width: 82rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 3rem) }
header { padding-top: clamp(2rem, 6vw, 4.5rem) }
h1, h2 { font-family: "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif;
  font-weight: 600; line-height: 1.15; text-wrap: balance }
h1 { font-size: clamp(2rem, 5vw, 3rem); margin: .2rem 0 .6rem; letter-spacing: -.01em }
h2 { font-size: clamp(1.4rem, 3vw, 1.8rem); margin: 0 0 .5rem }
h3 { font-size: 1rem; margin: 2rem 0 0 }
p { max-width: 46rem; margin: 0 0 .6rem; text-wrap: pretty }
section { margin-top: 4rem }
.over { margin: 0; color: var(--muted); font-size: .85rem; letter-spacing: .08em;
  text-transform: uppercase }
dl, dd { margin: 0 }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr);
  gap: 1px; margin-top: 2rem; background: var(--line); border: 1px solid var(--line);
  border-radius: 10px; overflow: hidden }
.tiles div { background: var(--card); padding: 1rem 1.2rem 1.1rem }
dt { color: var(--muted); font-size: .85rem }
.tiles b { display: block; font-size: 1.75rem; font-weight: 600; line-height: 1.3;
  font-variant-numeric: tabular-nums }
.tiles span { color: var(--muted); font-size: .85rem; line-height: 1.4; display: block }
.scroll { overflow-x: auto; margin-top: 1.2rem; border: 1px solid var(--line);
  border-radius: 10px; background: var(--card) }
.scroll:focus-visible { outline: 2px solid var(--above); outline-offset: 2px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
caption { text-align: left; padding: .8rem 1rem; color: var(--muted); font-size: .85rem }
caption span { display: inline-block; position: sticky; left: 1rem;
  max-width: min(52rem, 100vw - 5rem) }
th, td { padding: .5rem .7rem; text-align: right; white-space: nowrap; vertical-align: top }
thead th { border-block: 1px solid var(--line); font-size: .85rem; font-weight: 600;
  vertical-align: bottom; white-space: normal }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card);
  padding-left: 1rem; font-weight: 500 }
tbody tr + tr { border-top: 1px solid var(--line) }
tbody + tbody { border-top: 2px solid var(--line) }
.group th { color: var(--muted); font-size: .85rem; padding-block: .8rem .3rem }
.group span { position: sticky; left: 1rem; font-style: italic }
td span { display: block; line-height: 1.4 }
td small { font-size: .8em; color: var(--muted) }
td b { font-weight: 700 }
.theirs, .off { font-size: .78rem; color: var(--muted) }
.above, .below { background: color-mix(in srgb, var(--tone) var(--tint), transparent) }
.above { --tone: var(--above) }
.below { --tone: var(--below) }
.above .off, .below .off { color: var(--tone); font-weight: 600 }
.notes { margin-top: .7rem; color: var(--muted); font-size: .85rem }
.notes p { margin: 0 }
footer { margin-top: 4rem; padding-block: 2rem 3rem; color: var(--muted); font-size: .85rem }
footer h2 { color: var(--ink); font-size: 1.25rem }
.made { margin: 0 0 1.5rem }
.made div { display: grid; grid-template-columns: 8rem 1fr; gap: 1rem; padding: .3rem 0;
  border-top: 1px solid var(--line) }
.made dd { color: var(--ink); overflow-wrap: anywhere }
@media (max-width: 52rem) { .tiles { grid-template-columns: 1fr 1fr } }
@media (max-width: 40rem) { .made div { grid-template-columns: 1fr; gap: 0 }
  th, td { padding-inline: .55rem } .tiles b { font-size: 1.4rem } }
@media print { @page { size: A4 landscape; margin: 12mm } :root { color-scheme: light;
  --page: #fff; --card: #fff; --ink: #000; --muted: #444; --line: #ccc; --above: #1f6f94;
  --below: #b4530a } html { font-size: 62% } body { print-color-adjust: exact }
  main, footer { padding-inline: 0; max-width: none }
  .scroll { overflow: visible } th:first-child { position: static }
  section { break-before: page; margin-top: 0 } footer { margin-top: 1rem; padding: 0 }
  .made, table, .legend { break-inside: avoid }
  .panels { grid-template-columns: repeat(4, 1fr) } h2, h3, .legend { break-after: avoid } }
"""
