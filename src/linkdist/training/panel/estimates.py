"""Estimates of a model's accuracy, and conclusions from them.

Predictions of validation nodes give accuracies with intervals, for new rows and for rows of the
table, beside baselines on the same nodes. A few sentences state the conclusions: whether links
help, and whether a simpler model is better. The linear teachers and label spreading are baselines
too; the largest class and CoLinkDist, the paper's method, are only that.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.model import logits, message_passing
from linkdist.nn.network import ForkedMLP
from linkdist.progress import Progress
from linkdist.training.link_task import Tally, coefficients, loop_on_links
from linkdist.training.panel.ensemble import Predictions, TeacherEnsemble, rows_of
from linkdist.training.panel.likelihood import class_prior

Z = 1.645
"""The quantile of a 90 % interval."""
OURS = ("features", "links")
Hits: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
MODEL = {"features": "this model, from features", "links": "this model, with links"}
WITH_LINKS = ("label spreading", "hop averages", "with links")
"""Parts of the names of baselines that need links at prediction time."""
FOLDED = 0.8
"""Effective sample size per node of a fold: predictions of one network are correlated."""
LARGEST = "largest class"
TICKS = 10
"""How often the training of a baseline reports its progress."""
VISITS = 10
"""How often CoLinkDist visits each node: a short schedule, since it is only a baseline."""
FEW_LABELS = 10
"""Number of labels below which a score is almost meaningless."""


@dataclass(frozen=True)
class Score:
    """An accuracy and its 90 % interval (Wilson's)."""

    name: str
    accuracy: float
    low: float
    high: float
    links: bool
    """Whether links are needed at prediction time."""


@dataclass(frozen=True)
class Estimates:
    """Estimates of a model's accuracy.

    Attributes
    ----------
    labels : int
        Number of validation nodes.
    by : str
        'folds' or 'validation nodes'.
    new_rows, known_rows : list of Score
        Scores of this model for rows that training has not seen, and for rows of the table
        without a label: from features, then with links.
    baselines : list of Score
        Scores of other models on the same new rows, the best first.
    verdict : list of str
        The conclusions, in sentences.
    warnings : list of str
        The limits of the scores, in sentences.
    teachers : mapping of str to float
        The weight of each teacher in the targets of the model.
    rows : {'new rows', 'rows of the table'}
        The kind of rows in `new_rows` and `baselines`: validation nodes that training saw without
        their labels are rows of the table.
    """

    labels: int
    by: str
    new_rows: list[Score]
    known_rows: list[Score]
    baselines: list[Score]
    verdict: list[str]
    warnings: list[str] = field(default_factory=list)
    teachers: Mapping[str, float] = field(default_factory=dict)
    rows: str = "new rows"

    def as_json(self) -> dict[str, Any]:
        """The estimates as JSON, with numbers rounded to six digits."""
        rounded: dict[str, Any] = _rounded(asdict(self))
        return rounded


def _rounded(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def estimate(
    predictions: Mapping[str, Mapping[str, Predictions]],
    mixture: Mapping[str, float],
    warnings: Sequence[str],
    nodes: int,
    rows: str = "new rows",
) -> Estimates | None:
    """Scores, baselines and conclusions; None without validation nodes.

    Parameters
    ----------
    predictions : mapping
        `Panel.predictions`, with baselines under their names.
    mixture : mapping of str to float
        The weights of the teachers.
    warnings : sequence of str
        The result of `limits`.
    nodes : int
        Number of different validation nodes, which determines the intervals.
    rows : {'new rows', 'rows of the table'}, optional
        What the validation nodes represent: rows that training has not seen, or rows that it saw
        without their labels.
    """
    new = predictions.get("new row") or predictions.get("validation")
    known = predictions.get("known row")
    if not new or not nodes:
        return None
    by = "folds" if "new row" in predictions else "validation nodes"
    independent = nodes * FOLDED if by == "folds" else nodes
    ours = [score(MODEL[mode], new[mode], independent, mode == "links") for mode in OURS]
    in_table = []
    if known:
        count = min(independent, len(known["features"].labels))
        in_table = [score(MODEL[mode], known[mode], count, mode == "links") for mode in OURS]
    others = [
        score(name, other, independent, any(part in name for part in WITH_LINKS))
        for name, other in new.items()
        if name not in OURS
    ]
    others.sort(key=lambda other: -other.accuracy)
    hits = {MODEL.get(name, name): hits_of(part) for name, part in new.items()}
    conclusions = verdict(ours, others, hits, rows)
    limitations, teachers = list(warnings), dict(mixture)
    return Estimates(nodes, by, ours, in_table, others, conclusions, limitations, teachers, rows)


def hits_of(predictions: Predictions) -> Hits:
    """Which nodes are predicted correctly, (N,)."""
    hits: Hits = predictions.log_p.argmax(axis=1) == predictions.labels
    return hits


def score(name: str, predictions: Predictions, nodes: float, links: bool) -> Score:
    """The accuracy, with Wilson's interval for a number of nodes."""
    share = float(hits_of(predictions).mean())
    return Score(name, share, *interval(share, nodes), links)


def interval(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share of n nodes; by default for 90 %.

    Examples
    --------
    >>> [round(end, 3) for end in interval(0.9, 10, z=1.96)]
    [0.596, 0.982]
    """
    middle = share + z**2 / (2 * n)
    half = z * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    scale = 1 + z**2 / n
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)


def verdict(
    ours: Sequence[Score], others: Sequence[Score], hits: Mapping[str, Hits], rows: str = "new rows"
) -> list[str]:
    """Whether links help and whether this model is the best choice, in sentences."""
    features, links = ours
    alone, linked = ([o for o in others if o.links == uses_links] for uses_links in (False, True))
    simple = [o for o in alone if o.name != LARGEST and "CoLinkDist" not in o.name]
    sentences = []
    if simple:
        sentences.append(
            f"{_outcome('in training', features, simple[0], hits)}: from features this model is "
            f"right for {_percent(features)} of {rows}, {simple[0].name} for {_percent(simple[0])}."
        )
    sentences.append(
        f"{_outcome('at prediction time', links, features, hits)}: {_percent(links)} with links, "
        f"{_percent(features)} from features."
    )
    pairs = ((features, alone), (links, linked))
    return [*sentences, *(_against(mine, rest[0], hits) for mine, rest in pairs if rest)]


def _outcome(when: str, linked: Score, alone: Score, hits: Mapping[str, Hits]) -> str:
    """Whether links improve the accuracy, from a score that uses them and one that does not."""
    return {
        1: f"Links {when} improve the accuracy",
        0: f"These labels cannot show whether links {when} improve the accuracy",
        -1: f"Links {when} do not improve the accuracy",
    }[compare(hits[linked.name], hits[alone.name])]


def _against(mine: Score, best: Score, hits: Mapping[str, Hits]) -> str:
    """Compare this model with the best baseline of the same mode."""
    mode = mine.name.removeprefix("this model, ").capitalize()
    sign = compare(hits[mine.name], hits[best.name])
    gap = 100 * (best.accuracy - mine.accuracy)
    if sign < 0:
        return (
            f"{mode}, {best.name} is better than this model, by {gap:.1f} points: use it instead."
        )
    if gap > 0:
        return (
            f"{mode}, {best.name} is ahead of this model by {gap:.1f} points, which is "
            "not significant with so few labels."
        )
    if sign > 0:
        return f"{mode}, it beats every baseline; the best of them is {best.name}."
    return f"{mode}, it is level with the best baseline, {best.name}."


def compare(ours: Hits, theirs: Hits) -> int:
    """1 if ours is significantly better, -1 if it is significantly worse, 0 otherwise.

    This is a paired test (McNemar's): only the nodes on which the two differ are relevant.

    Examples
    --------
    >>> compare(np.ones(20, dtype=bool), np.arange(20) % 2 == 0)
    1
    >>> compare(np.array([True, False]), np.array([False, True]))
    0
    """
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    if won == lost:
        return 0
    significant = (abs(won - lost) - 1) / np.sqrt(won + lost) > Z
    return int(np.sign(won - lost)) if significant else 0


def _percent(score: Score) -> str:
    return f"{100 * score.accuracy:.1f} %"


def limits(graph: Graph, train: IntArray) -> list[str]:
    """The limits of a score on these labels, in sentences.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> len(limits(graph, np.array([0, 1])))
    2
    """
    labels = graph.labels[train]
    counts = np.bincount(labels[labels != UNKNOWN], minlength=graph.C)
    sentences = []
    if len(train) < FEW_LABELS:
        sentences.append(
            f"There are only {len(train)} labelled rows: a score from so few labels is not "
            "reliable. Label a few dozen rows."
        )
    absent, single = ([graph.classes[c] for c in np.flatnonzero(counts == k)] for k in (0, 1))
    if absent:
        sentences.append(f"No row is labelled {_some(absent)}: the model cannot predict it.")
    if single:
        sentences.append(
            f"Only one row is labelled {_some(single)}: when it is held out, nothing is known of "
            "its class, so the score counts it as an error."
        )
    return [*sentences, *_link_limits(graph, train)]


def _link_limits(graph: Graph, train: IntArray) -> list[str]:
    pairs = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    if not len(pairs):
        return ["There are no links: the model uses features only."]
    known = np.zeros(graph.n, dtype=bool)
    known[train] = True
    if not known[pairs].any():
        return [
            "No link touches a labelled row: the links cannot transfer labels, and the score is "
            "that of rows without links."
        ]
    joined = sparse.coo_matrix((np.ones(len(pairs)), pairs.T), (graph.n, graph.n))
    _, part = csgraph.connected_components(joined, directed=False)
    linked = np.zeros(graph.n, dtype=bool)
    linked[pairs] = True
    reached = np.isin(part, part[train])
    beyond = int((linked & ~reached).sum())
    if len(np.unique(part[train])) == 1 and beyond > graph.n // 10:
        return [
            f"All labelled rows lie in one component of the graph; {beyond:,} linked rows lie in "
            "others, and the score says nothing about them."
        ]
    return []


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def largest_class(ensemble: TeacherEnsemble) -> Predictions:
    """Predict the most frequent class among the known labels of each replica."""
    C, log_p = ensemble.graph.C, [np.empty((0, ensemble.graph.C))]
    for replica in (ensemble.replicas[r] for r in ensemble.scored):
        prior = class_prior(replica.view.labels[replica.view.train], C)
        log_p.append(np.broadcast_to(prior, (len(replica.validation), C)))
    return Predictions(np.concatenate(log_p), ensemble.labels(ensemble.scored))


def colinkdist(
    ensemble: TeacherEnsemble, progress: Progress | None = None, visits: int = VISITS
) -> dict[str, Predictions]:
    """CoLinkDist on the views of the scored replicas, from features and with links.

    The result is empty if a view has no link at a labelled node: the paper's loss needs one.
    """
    graph, context = ensemble.graph, ensemble.context
    replicas = [ensemble.replicas[r] for r in ensemble.scored]
    views, seeds = [replica.view for replica in replicas], [replica.seed for replica in replicas]
    tallies = [Tally.of(view) for view in views]
    if not views or any(tally.of_ends.sum() == 0 for tally in tallies):
        return {}
    weights = coefficients(tallies, None, context.device)
    network = ForkedMLP(graph.d, graph.C, seeds).to(context.device)
    epochs = visits / graph.degree
    loop = loop_on_links(
        network, context.inputs, views, seeds, weights, "colinkdist", epochs=epochs
    )
    ticks = itertools.count(1)
    loop.run(
        epochs,
        evaluate=lambda: progress(min(next(ticks), TICKS), TICKS) if progress else None,
        evaluations=max(1, round(TICKS / epochs)),
    )
    z, s = logits(network, context.inputs)
    links = context.among([replica.present for replica in replicas])
    modes = {"CoLinkDist": z, "CoLinkDist, with links": message_passing(z, s, links, weights.alpha)}
    labels, nodes = ensemble.labels(ensemble.scored), [replica.validation for replica in replicas]
    return {
        name: Predictions(np.concatenate(rows_of(scores.log_softmax(-1), nodes)), labels)
        for name, scores in modes.items()
    }
