"""Where a rival is better than SelfLinkDist and when to take it, in sentences from the records."""

from rivals.names import CLASSES, LINKED, OURS, TITLES, labels_in_words
from rivals.protocol import LABELS, SETS


def advice(rows):
    """The section of the page: a paragraph for each rival that is better anywhere."""
    lines = [
        "## Where a rival is better, and when to take it",
        "",
        "A cell is a graph with a number of labels; the differences are in points.",
        "",
    ]
    others = []
    for number, methods in CLASSES.items():
        for method in methods:
            if method in (OURS, LINKED):
                continue
            mine = {key[:2]: row for key, row in rows.items() if key[2] == method}
            better = {cell: row for cell, row in mine.items() if row.verdict == "worse"}
            if better:
                lines += [_paragraph(method, number, mine, better), ""]
            elif mine:
                others.append(method)
    if others:
        lines += [f"Significantly better in no cell: {'; '.join(others)}.", ""]
    return lines


def _paragraph(method, number, mine, better):
    """How often and where a rival is better, and the rule that follows."""
    ours = "SelfLinkDist with links" if number == 4 else "SelfLinkDist from features"
    worse = sum(row.verdict == "better" for row in mine.values())
    text = (
        f"**{method}** ({TITLES[number].lower()}) is better than {ours} in {len(better)} of "
        f"{len(mine)} cells and worse in {worse}. It is better on {_places(better)}."
    )
    return f"{text} {_rule(method, mine)}"


def _places(better):
    """Graphs with the numbers of labels, and by how many points."""
    places = []
    for name in SETS:
        found = [(labels, -better[name, labels].difference)
                 for labels in LABELS if (name, labels) in better]  # fmt: skip
        if found:
            parts = ", ".join(f"{labels_in_words(labels)} +{by:.1f}" for labels, by in found)
            places.append(f"{name} ({parts})")
    return "; ".join(places)


def _rule(method, mine):
    """With which numbers of labels, or on which graphs, it is better more often than worse."""
    counts = [labels for labels in LABELS if _balance(mine, 1, labels) > 0]
    graphs = [name for name in SETS if _balance(mine, 0, name) > 0]
    if counts:
        words = " or ".join(map(labels_in_words, counts))
        return (
            f"Take it with {words} labelled: there it is better on more graphs than it is worse. "
            "On your own data, compare both on validation rows."
        )
    if graphs:
        return (
            f"It is better more often than worse on {', '.join(graphs)}, which is too little for a "
            "rule. On your own data, compare both on validation rows."
        )
    return "It is better more often than worse with no number of labels and on no graph."


def _balance(mine, place, value):
    """Cells in which the rival is better, minus those in which it is worse."""
    verdicts = [row.verdict for cell, row in mine.items() if cell[place] == value]
    return verdicts.count("worse") - verdicts.count("better")
