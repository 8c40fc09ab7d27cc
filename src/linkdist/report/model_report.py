"""A model's report: what its training showed, as one web page that stands alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from linkdist.data.graph import UNKNOWN, IntArray
from linkdist.report.charts import (
    CHART_CSS,
    DRAWN,
    MODES,
    SHOWN,
    accuracy_curve,
    between,
    groups_of,
    heat_map,
    map_legend,
    map_of,
    reliability_diagram,
    score_chart,
)
from linkdist.report.html import document, scrolling, tiles
from linkdist.report.metrics import (
    Agreement,
    ClassScores,
    Findings,
    HeldOut,
    Unsure,
    row_shares,
)
from linkdist.report.svg import percent, plain, short
from linkdist.training.panel.estimates import Estimates, Score, interval

NAMES = {"linkdist": "LinkDist", "colinkdist": "CoLinkDist", "selflinkdist": "SelfLinkDist"}

WIDE, HEAT = 'class="wide"', 'class="heat" tabindex="0"'
"""Figures whose words grow on a narrow page, and those that scroll on it."""

FEW_NODES, FEW_LINKS = 50, 100
"""Below these a share is told with a warning."""

FEW_LOOKS = 3
"""Below so many looks there is no curve to see."""

NOTHING_HELD_OUT = (
    "No nodes were held out, so this page has no accuracy, no curve, no scores by class, no "
    "confusion and no calibration: on nodes that a model was trained on they would mean little. "
    "Train with <code>--held-out 0.1</code> to have them."
)

ONLY_ESTIMATED = (
    "No nodes were held out from the model itself, so this page has no curve, no scores by class, "
    "no confusion and no calibration: on nodes that a model was trained on they would mean "
    "little. Train with <code>--held-out 0.1</code> to have them."
)


def render(name: str, findings: Findings, about: Mapping[str, Any]) -> str:
    """Write a model's report.

    Parameters
    ----------
    name : str
        Of the model.
    findings : Findings
        As `linkdist.report.metrics.find` gives them.
    about : mapping
        What training was; known are 'label', 'method', 'epochs', 'seconds' and 'date'.

    Returns
    -------
    str
        An HTML document that needs nothing beside it.

    Examples
    --------
    >>> from linkdist.report.metrics import HiddenMap, agreement, least_sure
    >>> p, labels, links = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.array([[0, 1]])
    >>> joins = agreement(links, labels, C=2)
    >>> places = HiddenMap("PCA", p, ["x", "y"], labels, labels >= 0)
    >>> unsure = least_sure(p, labels, ["x", "y"])
    >>> found = Findings(("a", "b"), 2, np.array([1, 1]), 1, None, joins, joins, places, unsure)
    >>> render("papers", found, {})[:15]
    '<!doctype html>'
    """
    found = _shown_as_text(findings)
    held = found.held_out
    parts = [
        _header(plain(name), found, about),
        _estimated(found.estimates) if found.estimates else "",
        _judged(found, held, about) if held else _not_judged(found),
        _map(found),
        _links(found),
        _unsure(found),
    ]
    return document(
        f"{plain(name)}: training report", CHART_CSS + CSS, "".join(parts), _foot(about)
    )


def _shown_as_text(found: Findings) -> Findings:
    """The same with names that can be shown on one line."""
    return replace(
        found,
        classes=tuple(map(plain, found.classes)),
        map=found.map._replace(ids=[plain(id) for id in found.map.ids]),
        unsure=[node._replace(id=plain(node.id)) for node in found.unsure],
        estimates=_scores_as_text(found.estimates) if found.estimates else None,
    )


def _scores_as_text(known: Estimates) -> Estimates:
    def named(scores: Sequence[Score]) -> list[Score]:
        return [replace(score, name=plain(score.name)) for score in scores]

    return replace(
        known,
        new_rows=named(known.new_rows),
        known_rows=named(known.known_rows),
        baselines=named(known.baselines),
        verdict=[plain(said) for said in known.verdict],
        warnings=[plain(said) for said in known.warnings],
    )


def _section(uid: str, title: str, lead: str, body: str) -> str:
    head = f'<h2 id="{uid}">{title}</h2><p>{lead}</p>'
    return f'<section aria-labelledby="{uid}">{head}{body}</section>'


def _figure(drawn: str, read: str, kind: str) -> str:
    """A drawing, and beside it how to read it."""
    return (
        f'<div class="with-note"><figure {kind}>{drawn}</figure>'
        f'<p class="read"><b>How to read it</b> {read}</p></div>'
    )


def _pair(drawn: Mapping[str, str], read: str, kind: str = "", row: str = "pair") -> str:
    """A drawing a mode, side by side, and below them how to read them."""
    figures = "".join(
        f"<figure {kind}><figcaption>{_capital(MODES[mode])}</figcaption>{part}</figure>"
        for mode, part in drawn.items()
    )
    return f'<div class="{row}">{figures}</div><p class="read"><b>How to read it</b> {read}</p>'


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


# The head -----------------------------------------------------------------------------------------


def _header(name: str, found: Findings, about: Mapping[str, Any]) -> str:
    label = f"“{escape(plain(about['label']))}”" if about.get("label") else "class"
    what = f"Tells a node’s {label}, one of {len(found.classes)}. What training showed{_on(found)}."
    return (
        '<header><p class="over">LinkDist training report</p>'
        f"<h1>{escape(name)}</h1><p>{what}</p>{tiles(_tiles(found, about))}</header>"
    )


def _on(found: Findings) -> str:
    """Which nodes judge the model, in words."""
    if found.estimates:
        return f", judged on {_count(found.estimates.judges, 'labelled node')}"
    if found.held_out:
        return f", judged on {_count(found.held_out.nodes, 'node')} held out from it"
    return ""


def _tiles(found: Findings, about: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if found.estimates:
        for score in found.estimates.new_rows:
            words = MODES["links" if score.links else "features"]
            ends = f"for {found.estimates.rows}; 90\xa0% interval {between(score)}"
            yield f"Accuracy {words}", percent(score.accuracy), ends
    elif found.held_out:
        for mode, words in MODES.items():
            share = found.held_out.modes[mode].accuracy
            low, high = interval(share, found.held_out.nodes, z=1.96)
            ends = f"95\xa0% interval {100 * low:.0f} to {percent(high, 0)}"
            yield f"Accuracy {words}", percent(share), ends
    links, whose = _told_links(found)
    if links.links:
        chance = percent(links.chance, 0)
        yield (
            "Links between equals",
            percent(links.share, 0),
            f"of {whose} classes; chance: {chance}",
        )
    known = int(found.known.sum())
    words = (
        f"{known:,} labelled, {len(found.classes)} classes, {found.predicted_links.links:,} links"
    )
    yield "Nodes", f"{found.nodes:,}", words
    if about.get("seconds") is not None:
        method = escape(plain(NAMES.get(about.get("method", ""), about.get("method", ""))))
        replicas = "" if found.replicas == 1 else f", {found.replicas} replicas"
        yield (
            "Trained in",
            _seconds(about["seconds"]),
            f"{method}, {about.get('epochs')} epochs{replicas}",
        )


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.3g} s"


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


# What can be believed of its accuracy -------------------------------------------------------------


def _estimated(known: Estimates) -> str:
    body = (
        f"{_figure(score_chart(known), _how_to_read(known), WIDE)}"
        f"<details><summary>The same as a table</summary>{_score_table(known)}</details>"
        f"{_warnings(known.warnings)}<p>{_measured(known)}</p>{_teachers(known.teachers)}"
    )
    lead = "</p><p>".join(map(escape, known.verdict))
    return _section("estimates", "How good is it?", lead, body)


def _how_to_read(known: Estimates) -> str:
    read = (
        "A dot is the share of rows predicted right, the bar around it the 90\xa0% interval. "
        "The dotted line is this model from features: a baseline whose dot lies to the right of it "
        "did better."
    )
    if known.known_rows:
        read += (
            " New rows were not there in training; rows of the table were, without their labels."
        )
    if len(known.baselines) > DRAWN:
        count = len(known.baselines)
        read += f" The best {DRAWN} of {count} baselines are drawn; the table has all."
    return read


def _score_table(known: Estimates) -> str:
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("Who", "Accuracy", "90\xa0% interval", "Needs links")
    )
    groups = "".join(
        f'<tbody><tr><th class="of" scope="rowgroup" colspan="4">{title}</th></tr>'
        f"{''.join(map(_score_row, scores))}</tbody>"
        for title, scores in groups_of(known).items()
    )
    table = f'<table class="estimates"><thead><tr>{heads}</tr></thead>{groups}</table>'
    return scrolling("Table: accuracy of this model and of baselines", table)


def _score_row(score: Score) -> str:
    return (
        f'<tr><th scope="row">{_name(score.name)}</th><td>{percent(score.accuracy)}</td>'
        f"<td>{between(score)}</td><td>{'yes' if score.links else 'no'}</td></tr>"
    )


def _warnings(said: Sequence[str]) -> str:
    if not said:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in said)
    return f'<div class="none"><h3>What these scores cannot tell</h3><ul>{items}</ul></div>'


def _measured(known: Estimates) -> str:
    if known.by == "folds":
        return (
            f"Every one of the {_count(known.judges, 'label')} was predicted by networks that had "
            "not seen it; for new rows the row itself and its links were hidden, too."
        )
    # Validation nodes weigh the teachers and stop training; folds leave that to other folds.
    return (
        f"{_count(known.judges, 'labelled node')} were held out: no network was trained on their "
        "labels. They chose among the teachers, though, so new rows may fare a little worse."
    )


def _teachers(shares: Mapping[str, float]) -> str:
    if not shares:
        return ""
    order = sorted(shares.items(), key=lambda teacher: -teacher[1])
    rows = "".join(
        f'<tr><th scope="row">{_name(plain(name))}</th>'
        f'<td class="bar" style="--bar: {100 * share:.1f}%">{percent(share)}</td></tr>'
        for name, share in order
    )
    table = (
        '<table class="teachers"><thead><tr><th scope="col">Teacher</th>'
        f'<th scope="col">Share</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return f"<h3>What the model learnt from</h3>{scrolling('Table: teachers', table)}"


# What held-out nodes show -------------------------------------------------------------------------


def _judged(found: Findings, held: HeldOut, about: Mapping[str, Any]) -> str:
    # A panel looks at its weights once in a cycle, and the chart above has its accuracy already.
    flat = found.estimates and len(held.curves["features"]) < FEW_LOOKS
    return "".join(
        [
            "" if flat else _curve(held, about),
            _scores(found, held),
            _confusion(found, held),
            _reliability(held),
        ]
    )


def _not_judged(found: Findings) -> str:
    why = ONLY_ESTIMATED if found.estimates else NOTHING_HELD_OUT
    return f'<section><p class="none">{why}</p></section>'


def _curve(held: HeldOut, about: Mapping[str, Any]) -> str:
    looks, replicas = held.curves["features"].shape
    unit = "epoch" if about.get("epochs") in (None, looks) else "look"
    kept = sorted(set((held.chosen + 1).tolist()))
    when = f"{unit} {kept[0]:,}" if len(kept) == 1 else f"{unit}s {kept[0]:,} to {kept[-1]:,}"
    lead = (
        f"The weights of {when} of {looks:,} were kept, where prediction from features did best. "
        "The held-out nodes made this choice themselves, so new nodes may fare a little worse."
    )
    if held.nodes < FEW_NODES:
        lead += f" With {_count(held.nodes, 'node')} it is a rough choice: hold out more of them."
    read = (
        f"A line is the share of held-out nodes that is told right after each {unit}; the dot is "
        "what was kept. A line that still rises at its end asks for more epochs."
    )
    if unit == "look":
        read += " A look is one scoring of the weights; there are several to an epoch."
    if replicas > 1:
        read += f" Thin lines are the {replicas} replicas, bold ones their mean."
    return _section(
        "accuracy", f"Accuracy by {unit}", lead, _figure(accuracy_curve(held, unit), read, WIDE)
    )


def _scores(found: Findings, held: HeldOut) -> str:
    by_mode = {mode: judged.scores for mode, judged in held.modes.items()}
    support = by_mode["features"].support
    rows = "".join(
        f'<tr><th scope="row">{_name(name)}</th><td>{support[c]:,}</td>'
        f"{''.join(_score_cells(scores, c) for scores in by_mode.values())}</tr>"
        for c, name in enumerate(found.classes)
    )
    means = "".join(
        f"<td>{percent(scores.precision.mean())}</td><td>{percent(scores.recall.mean())}</td>"
        f"<td>{percent(scores.f1.mean())}</td>"
        for scores in by_mode.values()
    )
    modes = "".join(f'<th scope="colgroup" colspan="3">{_capital(w)}</th>' for w in MODES.values())
    each = '<th scope="col">Precision</th><th scope="col">Recall</th><th scope="col">F1</th>'
    table = (
        '<table class="scores"><caption><span>A class’s nodes are those held out'
        f"{' by each replica, added up' * _repeated(found)}.</span></caption>"
        '<thead><tr><th scope="col" rowspan="2">Class</th><th scope="col" rowspan="2">Nodes</th>'
        f"{modes}</tr><tr>{each * len(MODES)}</tr></thead><tbody>{rows}</tbody>"
        f'<tfoot><tr><th scope="row">Mean</th><td>{support.sum():,}</td>{means}</tr>'
        "</tfoot></table>"
    )
    read = (
        '<p class="read"><b>How to read it</b> Precision: of the nodes taken for the class, the '
        "share that is of it. Recall: of the nodes of the class, the share that was found. F1, "
        "drawn as a bar, is high where both are.</p>"
    )
    body = f"{scrolling('Table: scores of each class', table)}{read}"
    return _section("classes", "Scores of each class", _extremes(found.classes, by_mode), body)


def _repeated(found: Findings) -> bool:
    """Whether a node may have been held out by several replicas; a label lies in one fold."""
    folds = found.estimates is not None and found.estimates.by == "folds"
    return found.replicas > 1 and not folds


def _extremes(classes: Sequence[str], by_mode: Mapping[str, ClassScores]) -> str:
    scores = by_mode["features"]
    there = np.flatnonzero(scores.support)
    order = there[np.argsort(scores.f1[there], kind="stable")].tolist()
    best, worst = order[-1], order[0]
    if scores.f1[best] == scores.f1[worst]:
        return f"From features every class has an F1 of {percent(scores.f1[best])}."
    return (
        f"From features the model knows {_name(classes[best])} best, with an F1 of "
        f"{percent(scores.f1[best])}, and {_name(classes[worst])} least, with "
        f"{percent(scores.f1[worst])}."
    )


def _score_cells(scores: ClassScores, c: int) -> str:
    def cell(value: float, there: int, more: str = "") -> str:
        return f"<td{more}>{percent(value) if there else '–'}</td>"

    support, predicted = int(scores.support[c]), int(scores.predicted[c])
    bar = f' class="bar" style="--bar: {100 * scores.f1[c]:.1f}%"'
    return (
        cell(scores.precision[c], predicted)
        + cell(scores.recall[c], support)
        + cell(scores.f1[c], support + predicted, bar)
    )


def _confusion(found: Findings, held: HeldOut) -> str:
    own = _own(found.known)
    names = _row_names(found.classes, own)
    drawn = {}
    for mode, judged in held.modes.items():
        counts = _folded(judged.confusion, own)
        words = [[f"{n:,}" if n else "" for n in row] for row in counts.tolist()]
        told = (f"confusion-{mode}", f"Confusion {MODES[mode]}", _mistakes(judged.confusion, found))
        drawn[mode] = heat_map(
            names, row_shares(counts), words, ("is", "taken for"), told, two_tones=True
        )
    read = (
        "A row is what held-out nodes are, a column what they were taken for. Blue squares are "
        "right, orange ones mistakes; the stronger, the larger the share of the row."
    )
    lead = f"From features: {_lower(_mistakes(held.modes['features'].confusion, found))}"
    row = "pair" if len(names) <= 12 else "stack"
    return _section(
        "confusion", "What is taken for what", escape(lead), _pair(drawn, read, HEAT, row)
    )


def _mistakes(confusion: IntArray, found: Findings) -> str:
    """The commonest mistakes, as plain text."""
    wrong = confusion - np.diag(confusion.diagonal())
    if not wrong.any():
        return "No node was mistaken."
    order = np.argsort(-wrong, axis=None, kind="stable")[:3].tolist()
    pairs = [divmod(at, len(found.classes)) for at in order if wrong.flat[at]]
    told = [
        f"{short(found.classes[i], 40)} for {short(found.classes[j], 40)} ({wrong[i, j]:,})"
        for i, j in pairs
    ]
    often = ", most often " if np.count_nonzero(wrong) > len(pairs) else ": "
    return f"{wrong.sum():,} of {confusion.sum():,} nodes were mistaken{often}{', '.join(told)}."


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _reliability(held: HeldOut) -> str:
    drawn, told = {}, []
    for mode, judged in held.modes.items():
        found = judged.reliability
        drawn[mode] = reliability_diagram(found, mode)
        sure = float((found.confidence * found.counts).sum() / found.counts.sum())
        told.append(
            f"{_capital(MODES[mode])} it is {percent(sure)} sure on average and right in "
            f"{percent(judged.accuracy)} of cases; its confidence is off by "
            f"{100 * found.error:.1f} points (expected calibration error)."
        )
    if held.nodes < FEW_NODES:
        told.append(f"With {_count(held.nodes, 'node')} this is rough.")
    read = (
        "A dot is the nodes of one tenth of confidence, as large as they are many; the bars below "
        "count them. On the dashed line confidence is what it claims to be; below it (orange) the "
        "model is too sure, above it (blue) too modest."
    )
    return _section(
        "calibration", "How far to trust its confidence", " ".join(told), _pair(drawn, read)
    )


# What all nodes and links show --------------------------------------------------------------------


def _map(found: Findings) -> str:
    own = _own(found.known)
    drawn = map_of(found.map, found.classes, own)
    legend = map_legend(found.classes, own, len(found.classes) - len(own))
    shown = len(found.map.ids)
    which = f"{shown:,} of {found.nodes:,} nodes" if shown < found.nodes else "All nodes"
    lead = f"{which}, laid out by {found.map.method} so that what the network finds alike is near."
    read = (
        "Clusters of one mark are classes that the network tells apart; where marks mix, it "
        "hesitates. Distances between clusters and the directions mean nothing. Point at a mark "
        "for its id."
    )
    body = f"{_figure(drawn, read, WIDE)}{legend}"
    return _section("map", "A map of the hidden layer", lead, body)


def _links(found: Findings) -> str:
    links, whose = _told_links(found)
    if not links.links:
        return _section("links", "What links join", "The graph has no links between nodes.", "")
    own = _own(found.known)
    names = _row_names(found.classes, own)
    shares = row_shares(_folded(links.counts, own))
    words = [[f"{100 * share:.0f}" if share >= 0.005 else "" for share in row] for row in shares]
    told = (
        "agreement",
        f"Classes that links join, {whose} classes",
        f"{percent(links.share)} of {links.links:,} links join equal classes.",
    )
    drawn = heat_map(names, shares, words, ("node", "its neighbours"), told, two_tones=False)
    read = (
        "A row is all neighbours of a class’s nodes, in percent by their own class. A strong "
        "diagonal means that like is linked to like."
    )
    return _section("links", "Whether links help", _help(found), _figure(drawn, read, HEAT))


def _told_links(found: Findings) -> tuple[Agreement, str]:
    """The agreement of known classes or, where no link joins any, of predicted ones."""
    if found.known_links.links:
        return found.known_links, "known"
    return found.predicted_links, "predicted"


def _help(found: Findings) -> str:
    links, whose = _told_links(found)
    share, chance = percent(links.share, 0), percent(links.chance, 0)
    lift = (links.share - links.chance) / max(1 - links.chance, 1e-9)
    if lift >= 0.4:
        means = "far more than chance: a node’s neighbours say much about it, and links can help"
    elif lift >= 0.1:
        means = "more than chance: a node’s neighbours say a little about it, and links may help"
    elif lift > -0.1:
        means = "about chance: a node’s neighbours say little about it, and links will hardly help"
    else:
        means = (
            "less than chance: links join unlike classes. The neighbour head learns which, so "
            "they may help all the same"
        )
    told = [
        f"{share} of the links between nodes of {whose} class join equal ones, where chance would "
        f"give {chance}. That is {means}."
    ]
    if whose == "known":
        if links.links < FEW_LINKS:
            told.append(f"Only {_count(links.links, 'link')} could be counted, so this is rough.")
        told.append(_predicted(links.share, found.predicted_links.share))
    if found.held_out:
        told.append(_gain(found.held_out))
    return " ".join(told)


def _predicted(known: float, predicted: float) -> str:
    told = f"By the classes predicted from features it is {percent(predicted, 0)} of all links"
    far = known - predicted > 0.15
    return f"{told}{', so far below the known that many of them may be wrong' * far}."


def _gain(held: HeldOut) -> str:
    """What links did for the held-out nodes."""
    points = 100 * (held.modes["links"].accuracy - held.modes["features"].accuracy)
    if abs(points) < 0.05:
        return "Here, on the held-out nodes, links make no difference."
    verb = "add" if points > 0 else "cost"
    return f"Here, on the held-out nodes, links {verb} {abs(points):.1f} points of accuracy."


def _unsure(found: Findings) -> str:
    if not found.unsure:
        return ""
    rows = "".join(_unsure_row(node, found.classes) for node in found.unsure)
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("Label", "First", "", "Second", "", "")
    )
    table = (
        '<table class="unsure"><caption><span>From features, the mean of all replicas; the '
        "narrowest margin first.</span></caption>"
        f'<thead><tr><th scope="col">Node</th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
    read = (
        '<p class="read"><b>How to read it</b> The bar shows the first class’s probability in blue '
        "and the second’s in orange. A label from someone who knows such nodes teaches the model "
        "the most.</p>"
    )
    lead = f"{_count(len(found.unsure), 'node')} between two classes that are nearly as probable."
    return _section(
        "unsure",
        "Nodes it is least sure of",
        lead,
        f"{scrolling('Table: least sure nodes', table)}{read}",
    )


def _unsure_row(node: Unsure, classes: Sequence[str]) -> str:
    label = "–" if node.label == UNKNOWN else _name(classes[node.label])
    (first, p), (second, q) = node.first, node.second
    bar = f'<td><i class="two" style="--p: {100 * p:.1f}%; --q: {100 * (p + q):.1f}%"></i></td>'
    return (
        f'<tr><th scope="row">{_name(node.id)}</th><td class="word">{label}</td>'
        f'<td class="word">{_name(classes[first])}</td><td>{percent(p)}</td>'
        f'<td class="word">{_name(classes[second])}</td><td>{percent(q)}</td>{bar}</tr>'
    )


def _name(name: str) -> str:
    """A name of bearable length, whole where one points at it."""
    if len(name) <= 40:
        return escape(name)
    return f'<span title="{escape(name)}">{escape(short(name, 40))}</span>'


# Many classes -------------------------------------------------------------------------------------


def _own(known: IntArray) -> list[int]:
    """The classes that are shown by themselves: all, or those with the most labels."""
    if len(known) <= SHOWN:
        return list(range(len(known)))
    return sorted(np.argsort(-known, kind="stable")[:SHOWN].tolist())


def _row_names(classes: Sequence[str], own: Sequence[int]) -> list[str]:
    return [classes[c] for c in own] + ["other"] * (len(own) < len(classes))


def _folded(counts: IntArray, own: Sequence[int]) -> IntArray:
    """A matrix (C, C) with the classes that are not shown added up in a last row and column."""
    place = np.full(len(counts), len(own))
    place[list(own)] = np.arange(len(own))
    K = len(own) + (len(own) < len(counts))
    folded = np.zeros((K, K), dtype=counts.dtype)
    np.add.at(folded, (place[:, None], place[None, :]), counts)
    return folded


def _foot(about: Mapping[str, Any]) -> str:
    date = f" on {escape(str(about['date']))}" if about.get("date") else ""
    return (
        f"<p>Written{date} by <code>linkdist train</code>. Nothing on this page was fetched from "
        "elsewhere. The model’s README.md says how to use it.</p>"
    )


CSS = """
main, footer { max-width: 68rem }
figure { margin: 0; max-width: 640px; break-inside: avoid }
figcaption { font-weight: 600; font-size: .9rem; margin-bottom: .4rem }
.with-note > .read { margin: 0 }
.with-note { display: grid; grid-template-columns: minmax(0, 40rem) minmax(12rem, 1fr);
  gap: 1rem 2rem; margin-top: 1.4rem; align-items: start }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 1.5rem 2rem; margin-top: 1.4rem }
.pair figure { max-width: 27rem }
.stack figure { max-width: 52rem; margin-top: 1.4rem }
.heat:focus-visible { outline: 2px solid var(--above); outline-offset: 2px }
.read { color: var(--muted); font-size: .85rem; line-height: 1.5; max-width: 46rem;
  border-top: 1px solid var(--line); padding-top: .6rem; margin-top: 1rem }
.read b { color: var(--ink); display: block; font-weight: 600 }
.none { border-left: 3px solid var(--below); padding-left: 1rem }
.none h3 { margin: 0 } .none ul { margin: .3rem 0 0; padding-left: 1.1rem; max-width: 46rem }
div.none { margin: 1.6rem 0 }
details { margin: 1rem 0 1.6rem } summary { cursor: pointer; font-size: .9rem }
details .scroll { max-width: 40rem; margin-top: .6rem }
.scroll:has(.teachers) { max-width: 27rem; margin-top: .6rem } .teachers td { width: 9rem }
.of { padding-top: 1rem; color: var(--muted); font-size: .85rem }
.legend { max-width: 60rem; margin-top: 1rem }
.scores thead tr + tr th:first-child { position: static; text-align: right; padding-left: .7rem;
  font-weight: 600 }
.scores thead tr:first-child th[colspan] { border-bottom: 0; text-align: center }
.scores tfoot { border-top: 2px solid var(--line); font-weight: 600 }
td.bar { background: linear-gradient(to right, var(--above) var(--bar), var(--line) 0) no-repeat
  center bottom 4px / calc(100% - 1.4rem) 3px }
.word { text-align: left; max-width: 14rem; overflow: hidden; text-overflow: ellipsis }
.unsure thead th { text-align: left }
.two { display: block; min-width: 7rem; height: .7rem; margin-top: .4rem; border-radius: 2px;
  background: linear-gradient(to right, var(--above) var(--p), var(--below) 0 var(--q),
  var(--line) 0) }
@media (max-width: 40rem) { tbody th, tfoot th { max-width: 9rem; overflow: hidden;
  text-overflow: ellipsis }
  .estimates { font-size: .8rem } .estimates th, .estimates td { padding-inline: .35rem }
  .estimates tbody th, .teachers tbody th { white-space: normal; max-width: none;
  overflow-wrap: anywhere } }
@media (max-width: 56rem) { .with-note > .read { margin: 0 }
.with-note { grid-template-columns: minmax(0, 1fr) } }
@media print { @page { size: A4; margin: 14mm } html { font-size: 72% }
  section { margin-top: 2rem } section, .pair, .with-note, .stack { break-inside: avoid }
  h2 + p { break-after: avoid; break-inside: avoid }
  .with-note { display: block } .heat { overflow: visible } }
"""
