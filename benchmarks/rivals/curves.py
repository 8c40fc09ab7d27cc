"""The accuracy by the number of labels, and differences to SelfLinkDist, as tables and plots."""

from rivals.names import CLASSES, LINKED, OURS, TITLES, class_of
from rivals.protocol import LABELS, SETS

CURVES = ("cora", "pubmed", "amazon-computers", "coauthor-physics", "blogcatalog", "actor",
          "tolokers", "twitch-DE")  # fmt: skip
COLOURS = {OURS: "#b2182b", LINKED: "#2166ac", 1: "#999999", 2: "#7b3294", 3: "#e08214",
           4: "#35978f"}  # fmt: skip
LIMIT = 15
"""Larger differences are drawn at the edge."""


def curves_of(rows, about, name):
    """The means of ours and of the best rival of each class, by the number of labels.

    The rival of a class is the one with the highest mean over all numbers of labels. The result
    maps methods to pairs of a number of labels and a mean, in ascending order.
    """
    found = {method: _means(rows, name, method) for method in (OURS, LINKED)}
    for methods in CLASSES.values():
        rivals = {m: _means(rows, name, m) for m in methods if m not in found}
        complete = {m: means for m, means in rivals.items() if means}
        if complete:
            best = max(complete, key=lambda m: sum(complete[m].values()) / len(complete[m]))
            found[best] = complete[best]
    counts = label_numbers(about, name)
    return {
        method: sorted((counts[labels], mean) for labels, mean in means.items())
        for method, means in found.items()
        if means
    }


def _means(rows, name, method):
    return {labels: rows[key].mean for labels in LABELS if (key := (name, labels, method)) in rows}


def label_numbers(about, name):
    """The number of labels, validation nodes included, of each draw of a graph."""
    return {
        first["labels"]: first["nodes"][0] + first["nodes"][1]
        for first in about
        if first["set"] == name
    }


def learning_curve_table(rows, about):
    """A table for each graph: methods by the number of labels."""
    lines = [
        "# Accuracy by the number of labels",
        "",
        "From the records of this folder: means of SelfLinkDist and of the best rival of each "
        "class of information on test nodes, in percent; ROC AUC times 100 on tolokers and "
        "twitch-DE. The number of labels includes validation nodes.",
        "",
        "![Accuracy by the number of labels](learning-curve.svg)",
        "",
    ]
    for name in CURVES:
        curves = curves_of(rows, about, name)
        numbers = sorted({number for points in curves.values() for number, _ in points})
        if not numbers:
            continue
        lines += [
            f"## {name}",
            "",
            f"| labels | {' | '.join(f'{number:,}' for number in numbers)} |",
            "|" + " --- |" * (len(numbers) + 1),
        ]
        for method, points in curves.items():
            means = dict(points)
            cells = [f"{means[number]:.1f}" if number in means else "–" for number in numbers]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def _figure(*shape, **sizes):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "rivals", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot

    return pyplot.subplots(*shape, layout="constrained", **sizes)


def draw_learning_curve(rows, about, path):
    """One panel for each graph of `CURVES`."""
    figure, axes = _figure(2, 4, figsize=(11, 5))
    for name, axis in zip(CURVES, axes.flat, strict=True):
        for method, points in curves_of(rows, about, name).items():
            ours = method in (OURS, LINKED)
            colour = COLOURS[method if ours else class_of(method)]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, label=method, markersize=3,
                      linewidth=2 if ours else 1)  # fmt: skip
        axis.set(title=name, xscale="log")
        if axis.lines:
            axis.legend(fontsize=6, frameon=False)
    figure.supxlabel("number of labels")
    figure.supylabel("accuracy in percent, or ROC AUC times 100")
    figure.savefig(path, metadata={"Date": None})


def draw_differences(rows, path):
    """For each rival, the difference to SelfLinkDist in every cell, coloured by the verdict."""
    figure, axes = _figure(1, 4, figsize=(12, 3.2))
    colours = {"better": "#2166ac", "level": "#bbbbbb", "worse": "#b2182b"}
    for axis, (number, methods) in zip(axes, CLASSES.items(), strict=True):
        rivals = [method for method in methods if method not in (OURS, LINKED)]
        for place, method in enumerate(rivals):
            mine = [rows[key] for name in SETS for labels in LABELS
                    if (key := (name, labels, method)) in rows]  # fmt: skip
            lead = [max(-LIMIT, min(LIMIT, -row.difference)) for row in mine]
            shift = [place + 0.12 * (LABELS.index(row.labels) - 2) for row in mine]
            axis.scatter(lead, shift, s=7, color=[colours[row.verdict] for row in mine])
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set(title=TITLES[number], yticks=range(len(rivals)), xlim=(-LIMIT - 1, LIMIT + 1))
        axis.set_yticklabels(rivals)
        axis.set_ylim(len(rivals) - 0.5, -0.5)
    figure.supxlabel("points above SelfLinkDist; red: the rival is better, blue: it is worse")
    figure.savefig(path, metadata={"Date": None})
