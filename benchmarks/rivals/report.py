"""Write the tables and plots of `run.py`'s records.

README.md has the results by class of information, summary.json all numbers, summary.md the table of
the project's README, learning-curve.md and .svg the accuracy by the number of labels.
Usage: python benchmarks/rivals/report.py FOLDER
"""

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rivals.advice import advice
from rivals.comparison import best_rival, compared
from rivals.curves import learning_curve_table
from rivals.names import (
    CLASSES,
    FOR_CLASSES,
    LINKED,
    MEASURES,
    NOTES,
    OURS,
    TITLES,
    labels_in_words,
)
from rivals.protocol import LABELS, SETS, label_counts
from rivals.records import read_records

MARKS = {"better": " ▼", "level": "", "worse": " ▲"}
VERDICTS = ("better", "level", "worse")


def report(folder):
    """Write all files of a folder with records."""
    about, records = read_records(folder)
    rows = compared(records)
    summary = summary_table(rows)
    parts = (_head(about, records), _missing(records, about), ["## Summary", "", *summary],
             _totals(rows), advice(rows), _tables(rows, records))  # fmt: skip
    page = "\n".join(line for part in parts for line in part)
    (folder / "README.md").write_text(page + "\n")
    (folder / "summary.md").write_text("\n".join(summary) + "\n")
    found = [{**_rounded(asdict(row)), "verdict": row.verdict} for row in rows.values()]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in found)
    (folder / "summary.json").write_text(f"[\n{lines}\n]\n")
    (folder / "learning-curve.md").write_text("\n".join(learning_curve_table(rows, about)) + "\n")
    return rows, about


def _missing(records, about):
    """Which methods were not measured on which graphs, with all numbers of labels and seeds."""
    seeds = {seed for first in about for seed in first["seeds"]}
    counts = Counter()
    for record in records:
        counts[record["method"], record["set"]] += len(record["by_seed"])
    lines = []
    for method in (method for methods in CLASSES.values() for method in methods):
        away = [
            f"{name} ({counts[method, name]} of {len(seeds) * len(label_counts(name))} trainings)"
            for name in SETS
            if counts[method, name] < len(seeds) * len(label_counts(name))
            and not (name == "counties" and method in FOR_CLASSES)
        ]
        if away:
            lines.append(f"- {method}: {', '.join(away)}")
    if not lines:
        return []
    head = "What was not measured with all seeds, and so counts nowhere:"
    return [head, "", *lines, ""]


def _rounded(row):
    return {key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}


def _head(about, records):
    """What was measured, where and how."""
    commits = ", ".join(sorted({first["commit"] for first in about}))
    gpus = {first["machine"]["gpu"] for first in about if first["device"] == "cuda"}
    cpu = about[0]["machine"]["cpu"].split(",")[0]
    seeds = sorted({seed for first in about for seed in first["seeds"]})
    where = f"{', '.join(sorted(gpus)) or 'no GPU'} and {cpu}"
    return [
        "# SelfLinkDist and what you would use instead",
        "",
        f"`python benchmarks/rivals/run.py` at {commits}, on {where}; seeds {seeds[0]} to "
        f"{seeds[-1]}, which no choice has seen. {len({r['set'] for r in records})} graphs.",
        "",
        "A fifth of the nodes of each graph are test nodes, hidden in training: features, labels "
        "and links. Labels are drawn from the others. Every fifth of them belongs to a validation "
        "node, the same for every method; methods are fitted on the rest, choose their setting and "
        "their epoch or number of trees on the validation nodes, and are not fitted again. A rival "
        "has three settings ([settings.py](../../benchmarks/rivals/settings.py)); SelfLinkDist and "
        "CoLinkDist have their defaults. Test nodes are predicted once. The rules are in "
        "[protocol.py](../../benchmarks/rivals/protocol.py).",
        "",
        "Scores are accuracy in percent, ROC AUC times 100 for two classes, and R² times 100 for "
        "counties: means over the seeds. Methods are compared with SelfLinkDist seed by seed, by "
        "Wilcoxon's signed-rank test at 5 % with Holm's correction over the rivals of a graph and "
        "number of labels. Methods with different information are never ranked together. "
        "Self-training, CoLinkDist and Correct & Smooth are for classes, so counties has none of "
        "them. The linear model is logistic regression, and ridge regression on counties. LightGBM "
        "on averages reads at most 128 columns of a truncated SVD and their averages over one and "
        "two hops; label spreading labels at most 3,000 nodes; self-training reads at most 5,000 "
        "rows without a label.",
        "",
        "What training and predictions cost is in [cost.md](cost.md), the accuracy by the number "
        "of labels in [learning-curve.md](learning-curve.md).",
        "",
        "![Differences to SelfLinkDist](differences.svg)",
        "",
    ]


def summary_table(rows):
    """How often SelfLinkDist is better, level and worse than the best rival of each class."""
    lines = [
        "| labels | " + " | ".join(title.lower() for title in TITLES.values()) + " |",
        "|" + " --- |" * (len(TITLES) + 1),
    ]
    for labels in LABELS:
        cells = []
        for number in TITLES:
            best = [best_rival(rows, name, labels, number) for name in SETS]
            verdicts = [row.verdict for row in best if row is not None]
            cells.append(" / ".join(str(verdicts.count(word)) for word in VERDICTS))
        lines.append(f"| {labels_in_words(labels)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _totals(rows):
    """How often SelfLinkDist is better, level and worse than each rival."""
    lines = [
        "Numbers of graphs on which SelfLinkDist is better / level / worse than the rival with the "
        "highest mean test score on that graph, of the graphs on which all rivals of the column "
        "were measured. That rival is known only afterwards, which favours it. In the "
        "first two columns SelfLinkDist knows more than the rivals, because it uses links in "
        "training. Each rival by itself:",
        "",
        "| rival | knows | " + " | ".join(map(labels_in_words, LABELS)) + " |",
        "|" + " --- |" * (len(LABELS) + 2),
    ]
    for number, methods in CLASSES.items():
        for method in methods:
            if method in (OURS, LINKED):
                continue
            cells = []
            for labels in LABELS:
                found = [rows[name, labels, method].verdict for name in SETS
                         if (name, labels, method) in rows]  # fmt: skip
                cells.append(" / ".join(str(found.count(word)) for word in VERDICTS))
            lines.append(f"| {method} | {TITLES[number].lower()} | {' | '.join(cells)} |")
    return [*lines, ""]


def _tables(rows, records):
    """One section for each number of labels, with a table for each class of information."""
    measures = {record["set"]: MEASURES[record["measure"]] for record in records}
    lines = [
        "## All scores",
        "",
        "▲ marks a rival that is better than SelfLinkDist, ▼ one that is worse; the others are "
        "level. The highest mean of a class of information is bold. After ± is the standard "
        "deviation over the seeds.",
        "",
    ]
    for labels in LABELS:
        for number, title in TITLES.items():
            table = _table(rows, measures, labels, number)
            if table:
                heading = f"### {title}: {labels_in_words(labels)}"
                note = [NOTES[number], ""] if NOTES[number] else []
                lines += [heading, "", *note, *table, ""]
    return lines


def _table(rows, measures, labels, number):
    """The methods of a class; SelfLinkDist is last, and not ranked, where it knows more."""
    inside = CLASSES[number]
    methods = inside if number > 2 else (*inside, OURS)
    lines = []
    for name in SETS:
        found = {m: rows.get((name, labels, m)) for m in methods}
        if any(found[m] for m in inside):
            best = max(round(found[m].mean, 1) for m in inside if found[m])
            cells = [_cell(found[m], best if m in inside else None) for m in methods]
            lines.append(f"| {name}, {measures[name]} | {' | '.join(cells)} |")
    if not lines:
        return []
    heads = [m if m in inside else f"beside it: {m}" for m in methods]
    return [f"| | {' | '.join(heads)} |", "|" + " --- |" * (len(heads) + 1), *lines]


def _cell(row, best):
    if row is None:
        return "–"
    mean = f"{row.mean:.1f}"
    mark = MARKS[row.verdict] if row.method not in (OURS, LINKED) else ""
    bold = f"**{mean}**" if round(row.mean, 1) == best else mean
    return f"{bold} ± {row.deviation:.1f}{mark}"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    found, first_lines = report(target)
    from rivals.curves import draw_differences, draw_learning_curve

    draw_differences(found, target / "differences.svg")
    draw_learning_curve(found, first_lines, target / "learning-curve.svg")
