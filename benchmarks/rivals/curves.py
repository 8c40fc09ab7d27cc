"""The accuracy by the number of labels, and differences to SelfLinkDist, as tables and plots."""

from rivals.comparison import best_rival
from rivals.names import CLASSES, LINKED, OURS, TITLES, class_of, labels_in_words
from rivals.protocol import LABELS, SETS

CURVES = ("cora", "pubmed", "amazon-computers", "coauthor-physics", "blogcatalog", "actor",
          "tolokers", "twitch-DE")  # fmt: skip
COLOURS = {OURS: "#b2182b", LINKED: "#2166ac", 1: "#999999", 2: "#7b3294", 3: "#e08214",
           4: "#35978f"}  # fmt: skip
LIMIT = 15
"""Larger differences are drawn at the edge."""


def curves_of(rows, about, name):
    """The means of ours and of the best rival of each class, by the number of labels.

    The rival of a class is the one with the highest mean over all numbers of labels, of those that
    were measured with most of them. The result maps methods to pairs of a number of labels and a
    mean, in ascending order.
    """
    found = {method: _means(rows, name, method) for method in (OURS, LINKED)}
    for methods in CLASSES.values():
        rivals = {m: _means(rows, name, m) for m in methods if m not in found}
        most = max(map(len, rivals.values()))
        complete = {m: means for m, means in rivals.items() if len(means) == most}
        if most:
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
    """One table: a group of rows for each graph, with methods by the draws of labels."""
    heads = " | ".join(map(labels_in_words, LABELS))
    lines = [
        "Means over ten draws of labels, on rows that were hidden in training: accuracy in "
        "percent, and ROC AUC times 100 on tolokers and twitch-DE. In brackets is the number of "
        "labels, validation nodes included. Beside SelfLinkDist is the best rival of each class of "
        "information (1: labelled rows only; 2: unlabelled rows as well; 3: links in training; 4: "
        "links at prediction). Labels of each class are balanced and random rows are not, so a row "
        f"of the table need not ascend.{_incomplete(rows)}",
        "",
        f"| | {heads} |",
        "|" + " --- |" * (len(LABELS) + 1),
    ]
    for name in CURVES:
        curves = curves_of(rows, about, name)
        if not curves:
            continue
        numbers = label_numbers(about, name)
        cells = [f"({numbers[labels]:,})" if labels in numbers else "" for labels in LABELS]
        lines.append(f"| **{name}** | {' | '.join(cells)} |")
        for method, points in curves.items():
            means = dict(points)
            cells = [f"{means[n]:.1f}" if (n := numbers.get(labels)) in means else "–"
                     for labels in LABELS]  # fmt: skip
            words = method if method in (OURS, LINKED) else f"{class_of(method)}: {method}"
            lines.append(f"| {words} | {' | '.join(cells)} |")
    return lines


def _incomplete(rows):
    """A sentence about the graphs on which a rival that could be the best is missing."""
    cells = [(name, labels, n) for name in CURVES for labels in LABELS for n in CLASSES]
    away = {name for name, labels, n in cells if best_rival(rows, name, labels, n) is None}
    names = ", ".join(name for name in CURVES if name in away)
    return f" Not all rivals were measured on {names}." if away else ""


def _figure(*shape, **sizes):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "rivals", "svg.fonttype": "none", "font.size": 8}
    from matplotlib import pyplot

    return pyplot.subplots(*shape, layout="constrained", **sizes)


def draw_learning_curve(rows, about, path):
    """One panel for each graph of `CURVES`; a colour is a class of information."""
    figure, axes = _figure(4, 2, figsize=(7, 9))
    lines = {}
    for name, axis in zip(CURVES, axes.flat, strict=True):
        for method, points in curves_of(rows, about, name).items():
            ours = method in (OURS, LINKED)
            colour = COLOURS[method if ours else class_of(method)]
            words = method if ours else f"best rival, {TITLES[class_of(method)].lower()}"
            (lines[words],) = axis.plot(
                *zip(*points, strict=True), marker="o", color=colour, markersize=3,
                linewidth=2 if ours else 1, linestyle="--" if method == LINKED else "-",
            )  # fmt: skip
        axis.set(title=name, xscale="log")
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=2, frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("number of labels")
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
