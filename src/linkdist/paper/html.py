"""The web page: what the records say at a glance, then a table and every run, a setting at a time.

The page stands alone: styles and plots lie inside it and nothing is fetched. Whatever a colour
says, a sign or a word says too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from linkdist.paper.charts import PLOT_CSS, Lane, strip_plots
from linkdist.paper.published import is_published_best, published
from linkdist.paper.records import Record, Run
from linkdist.paper.tables import (
    FAR,
    HEADINGS,
    MARKS,
    TWO_FORMS,
    Grid,
    Score,
    Summary,
    Table,
    form_tables,
    summarise,
    tables,
)
from linkdist.report.html import document, scrolling, tiles

LABELLED = "At most 20 nodes of each class are labelled. "
MEANINGS = {
    "inductive": LABELLED
    + "Validation and test nodes, and all their links, are hidden in training.",
    "transductive": LABELLED + "Training sees the features and links of all nodes.",
    "full-supervised": "60 % of all nodes are labelled. Training sees all features and links.",
}
NO_NUMBERS = "The paper has no numbers for these data sets."
CAPTION = (
    "Test accuracy in percent, mean ± standard deviation: ours; under it, smaller, the paper’s; "
    "then ours less the paper’s. Bold: best of the group."
)
TOLERANCE = (
    "Within tolerance means no further from the published mean than the published standard "
    "deviation or 1.00 point, whichever is larger; ▲ marks a mean above that, ▼ one below it. "
    "Bold among the paper’s numbers is the paper’s own."
)


def render_html(records: Sequence[Record], run: Run) -> str:
    """Write the whole page.

    Parameters
    ----------
    records : sequence of Record
        The cells that were run; at least one.
    run : Run
        How they were made, and why others were not.

    Returns
    -------
    str
        An HTML document that needs nothing beside it.

    Examples
    --------
    >>> record = Record("cora", "inductive", "MLP", (56.0,), 56.0, 0.0, 1.0, "cpu")
    >>> render_html([record], Run({"commit": "1f3a"})).startswith("<!doctype html>")
    True
    """
    sections = "".join(_section(table, run) for table in tables(records))
    return document(
        "LinkDist: the paper’s tables, run again",
        PLOT_CSS + CSS,
        f"{_header(summarise(records))}{sections}{_forms(records)}",
        f"{_made(run)}{_footer(records)}",
    )


def _header(summary: Summary) -> str:
    return (
        '<header><p class="over">LinkDist</p><h1>The paper’s tables, run again</h1>'
        "<p>Test accuracies of this code beside those that the paper published.</p>"
        f"{tiles(_tiles(summary))}</header>"
    )


def _tiles(summary: Summary) -> Iterator[tuple[str, str, str]]:
    compared = summary.compared
    yield "Cells run", str(summary.cells), f"{compared or 'none'} of them in the paper"
    if compared:
        counts = ", ".join(f"{n} {verdict}" for verdict, n in summary.verdicts.items())
        share = f"{100 * summary.met / compared:.1f} %"
        yield "Within tolerance or above", share, f"of {compared} cells: {counts}"
        yield "Largest shortfall", *_worst(summary.worst)
        words = f"of {summary.linkdist} cells are over {FAR:.2f} points under the published mean"
        yield "LinkDist methods far below", str(summary.far), words
    words = f"of training, each counted once, on {escape(', '.join(summary.devices))}"
    yield "Time", _duration(summary.seconds), words


def _worst(record: Record | None) -> tuple[str, str]:
    if not record:
        return "none", "no mean is under the published one"
    where = f"{record.method} on {escape(record.dataset)}, {record.setting}"
    return _deviation(record), f"points: {where}"


def _deviation(record: Record) -> str:
    return f"{record.deviation:+.2f}".replace("-", "−")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.3g} s"


def _section(table: Table, run: Run) -> str:
    setting, summary = table.setting, summarise(list(table.cells.values()))
    standing = f"{summary.met} of {summary.compared} cells are within tolerance or above."
    lanes = {
        dataset: [Lane(r.method, r.scores, r.mean, r.published) for r in table.column(dataset)]
        for dataset in table.datasets
    }
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes(run))
    return (
        f'<section aria-labelledby="{setting}"><h2 id="{setting}">{HEADINGS[setting]}</h2>'
        f"<p>{MEANINGS[setting]} {standing if summary.compared else NO_NUMBERS}</p>"
        f"{_grid(table, 'Method', CAPTION, table.by_group(_cell))}"
        f'<div class="notes">{notes}</div><h3>Every run</h3>{strip_plots(lanes, setting)}</section>'
    )


def _grid(table: Table, corner: str, caption: str, grid: Grid) -> str:
    heads = "".join(f'<th scope="col">{escape(dataset)}</th>' for dataset in table.datasets)
    bodies = "".join(_group(name, rows, len(table.datasets)) for name, rows in grid.items())
    return scrolling(
        f"Table: {HEADINGS[table.setting]}",
        f"<table><caption><span>{caption}</span></caption>"
        f'<thead><tr><th scope="col">{corner}</th>{heads}</tr></thead>{bodies}</table>',
    )


def _group(name: str, rows: Mapping[str, Sequence[str]], width: int) -> str:
    lines = "".join(
        f'<tr><th scope="row">{row}</th>{"".join(cells)}</tr>' for row, cells in rows.items()
    )
    head = f'<th scope="rowgroup" colspan="{width + 1}"><span>{name}</span></th>'
    return f'<tbody><tr class="group">{head}</tr>{lines}</tbody>'


def _cell(table: Table, dataset: str, method: str) -> str:
    record = table.cells.get((dataset, method))
    ours = _number(table.score(record) if record else None)
    theirs = _published(dataset, table.setting, method)
    if not record or not record.verdict:
        return f"<td>{ours}{theirs}</td>"
    off = f"{MARKS.get(record.verdict, '')} {_deviation(record)}".lstrip()
    return f'<td class="{record.verdict}">{ours}{theirs}<span class="off">{off}</span></td>'


def _form_cell(score: Score | None) -> str:
    return f"<td>{_number(score)}</td>"


def _published(dataset: str, setting: str, method: str) -> str:
    if not (cell := published(dataset, setting, method)):
        return ""
    return _number(Score(*cell, is_published_best(dataset, setting, method)), "theirs")


def _number(score: Score | None, whose: str = "ours") -> str:
    if not score:
        return f'<span class="{whose}">–</span>'
    mean = f"<b>{score.mean:.2f}</b>" if score.best else f"{score.mean:.2f}"
    return f'<span class="{whose}">{mean} <small>± {score.std:.2f}</small></span>'


def _forms(records: Sequence[Record]) -> str:
    caption = "Test accuracy in percent, mean ± standard deviation. Bold: the better form."
    parts = "".join(
        f"<h3>{HEADINGS[table.setting]}</h3>"
        f"{_grid(table, 'Form', caption, table.by_form(_form_cell))}"
        for table in form_tables(records)
    )
    if not parts:
        return ""
    head = '<h2 id="forms">Two forms of message passing</h2>'
    return f'<section aria-labelledby="forms">{head}<p>{TWO_FORMS}</p>{parts}</section>'


def _made(run: Run) -> str:
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in run.made.items()
    )
    return f'<h2>How this was made</h2><dl class="made">{items}</dl>' if items else ""


def _footer(records: Sequence[Record]) -> str:
    precisions = sorted({record.precision for record in records if record.precision})
    precision = f" Precision: {escape(', '.join(precisions))}." if precisions else ""
    return f"<p>{TOLERANCE}{precision}</p>"


CSS = """
tbody + tbody { border-top: 2px solid var(--line) }
.group th { color: var(--muted); font-size: .85rem; padding-block: .8rem .3rem }
.group span { position: sticky; left: 1rem; font-style: italic }
td span { display: block; line-height: 1.4 }
td small { font-size: .8em; color: var(--muted) }
td b { font-weight: 700 }
.theirs, .off { font-size: .78rem; color: var(--muted) }
.above { --tone: var(--above) }
.below { --tone: var(--below) }
.above, .below { background: color-mix(in srgb, var(--tone) 13%, transparent) }
.above .off, .below .off { color: var(--tone); font-weight: 600 }
.notes { margin-top: .7rem; color: var(--muted); font-size: .85rem }
.notes p { margin: 0 }
footer h2 { color: var(--ink); font-size: 1.25rem }
.made { margin: 0 0 1.5rem }
.made div { display: grid; grid-template-columns: 8rem 1fr; gap: 1rem; padding: .3rem 0;
  border-top: 1px solid var(--line) }
.made dd { color: var(--ink); overflow-wrap: anywhere }
@media (max-width: 40rem) { .made div { grid-template-columns: 1fr; gap: 0 } }
@media print { @page { size: A4 landscape; margin: 12mm } html { font-size: 62% }
  section { break-before: page; margin-top: 0 } .made { break-inside: avoid }
  .panels { grid-template-columns: repeat(4, 1fr) } }
"""
