"""Estimates of how good a model is, and conclusions from them.

Predictions of validation nodes give scores with intervals, for new rows and for rows of the table,
beside baselines on the same nodes. A few sentences state the conclusions: whether links help, and
whether a simpler model is better. The linear teachers and label spreading are baselines too; the
largest class or the mean, and CoLinkDist, the paper's method, are only that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from linkdist.data.graph import Graph, IntArray
from linkdist.training.measures import Measure, measure_for
from linkdist.training.panel.ensemble import Predictions
from linkdist.training.panel.families import Classes, Family

OURS = ("features", "links")
MODEL = {"features": "this model, from features", "links": "this model, with links"}
WITH_LINKS = ("label spreading", "hop averages", "with links")
"""Parts of the names of baselines that need links at prediction time."""
FOLDED = 0.8
"""Effective sample size per node of a fold: predictions of one network are correlated."""
LARGEST = "largest class"
SIMPLEST = {"classification": LARGEST, "multilabel": "shares of the labels", "regression": "mean"}
"""The name of the baseline that uses neither features nor links."""
FEW_LABELS = 10
"""Number of labels below which a score is almost meaningless."""
WITHOUT = "links without "
"""Start of the name of predictions with the links of all relations but one."""


@dataclass(frozen=True)
class Score:
    """A score and its 90 % interval."""

    name: str
    value: float
    low: float
    high: float
    links: bool
    """Whether links are needed at prediction time."""


@dataclass(frozen=True)
class RelationWorth:
    """What a relation is worth in prediction with links.

    Attributes
    ----------
    name : str
        The relation, with its direction if links are directed.
    alpha : float
        α, the weight of its neighbours' predictions, averaged over the networks.
    without : float
        The score with links if the model did not use this relation.
    """

    name: str
    alpha: float
    without: float


@dataclass(frozen=True)
class Estimates:
    """Estimates of how good a model is.

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
    rows : {'new rows', 'rows of the table', 'rows of other graphs'}
        The kind of rows in `new_rows` and `baselines`: validation nodes that training saw without
        their labels are rows of the table.
    measure : str
        What the scores are; see `linkdist.training.measures`.
    relations : list of RelationWorth
        What each relation is worth, if there are several.
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
    measure: str = "accuracy"
    relations: list[RelationWorth] = field(default_factory=list)

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
    *,
    measure: Measure | None = None,
    family: Family | None = None,
    alpha: Mapping[str, float] | None = None,
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
    rows : {'new rows', 'rows of the table', 'rows of other graphs'}, optional
        What the validation nodes represent: rows that training has not seen, or rows that it saw
        without their labels.
    measure : Measure, optional
        How predictions are scored; by default by their accuracy.
    family : Family, optional
        Turns scores into probabilities or numbers; by default those of classes.
    alpha : mapping of str to float, optional
        α of each of several relations.
    """
    new = predictions.get("new row") or predictions.get("validation")
    known = predictions.get("known row")
    if not new or not nodes:
        return None
    measure, family = measure or measure_for("classification"), family or Classes()
    by = "folds" if "new row" in predictions else "validation nodes"
    independent = nodes * FOLDED if by == "folds" else nodes
    values = {name: family.mean(part.scores) for name, part in new.items()}
    labels = new["features"].labels

    def scored(name: str, shown: str, links: bool) -> Score:
        interval = measure.interval(values[name], labels, independent)
        return Score(shown, measure.value(values[name], labels), *interval, links)

    ours = [scored(mode, MODEL[mode], mode == "links") for mode in OURS]
    in_table = []
    if known:
        count = min(independent, len(known["features"].labels))
        for mode in OURS:
            found, truth = family.mean(known[mode].scores), known[mode].labels
            interval = measure.interval(found, truth, count)
            value = measure.value(found, truth)
            in_table.append(Score(MODEL[mode], value, *interval, mode == "links"))
    others = [
        scored(name, name, any(part in name for part in WITH_LINKS))
        for name in new
        if name not in OURS and not name.startswith(WITHOUT)
    ]
    sign = 1 if measure.higher_is_better else -1
    others.sort(key=lambda other: -sign * other.value)
    shown = {MODEL.get(name, name): part for name, part in values.items()}
    worth = [
        RelationWorth(name, weight, measure.value(values[WITHOUT + name], labels))
        for name, weight in (alpha or {}).items()
        if WITHOUT + name in values
    ]
    conclusions = Verdict(measure, shown, labels, rows).sentences(ours, others)
    return Estimates(
        nodes, by, ours, in_table, others, conclusions, list(warnings), dict(mixture), rows,
        measure.name, worth,
    )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Conclusions in sentences.

    Attributes
    ----------
    measure : Measure
        How predictions are compared.
    values : mapping of str to (N, C) array
        The predictions of each model.
    labels : (N, ...) array
        The true labels.
    rows : str
        What the rows are.
    """

    measure: Measure
    values: Mapping[str, Any]
    labels: Any
    rows: str = "new rows"

    def sentences(self, ours: Sequence[Score], others: Sequence[Score]) -> list[str]:
        """Whether links help and whether this model is the best choice."""
        features, links = ours
        alone, linked = ([o for o in others if o.links == used] for used in (False, True))
        only = (*SIMPLEST.values(),)
        simple = [o for o in alone if o.name not in only and "CoLinkDist" not in o.name]
        found = []
        if simple:
            outcome = self._outcome("in training", features, simple[0])
            if self.measure.name == "accuracy":
                reached = f"this model is right for {self._text(features)} of {self.rows}"
            else:
                reached = f"this model reaches {self._text(features)} for {self.rows}"
            other = f"{simple[0].name} for" if self.measure.name == "accuracy" else simple[0].name
            found.append(f"{outcome}: from features {reached}, {other} {self._text(simple[0])}.")
        found.append(
            f"{self._outcome('at prediction time', links, features)}: {self._text(links)} with "
            f"links, {self._text(features)} from features."
        )
        pairs = ((features, alone), (links, linked))
        return [*found, *(self._against(mine, rest[0]) for mine, rest in pairs if rest)]

    def _compare(self, ours: Score, theirs: Score) -> int:
        values = self.values[ours.name], self.values[theirs.name]
        return self.measure.compare(*values, self.labels)

    def _text(self, score: Score) -> str:
        return self.measure.text(score.value)

    def _outcome(self, when: str, linked: Score, alone: Score) -> str:
        """Whether links improve the score, from a score that uses them and one that does not."""
        what = self.measure.title
        return {
            1: f"Links {when} improve the {what}",
            0: f"These labels cannot show whether links {when} improve the {what}",
            -1: f"Links {when} do not improve the {what}",
        }[self._compare(linked, alone)]

    def _against(self, mine: Score, best: Score) -> str:
        """Compare this model with the best baseline of the same mode."""
        mode = mine.name.removeprefix("this model, ").capitalize()
        sign = self._compare(mine, best)
        gap = (best.value - mine.value) * (1 if self.measure.higher_is_better else -1)
        points = self.measure.points(gap)
        if sign < 0:
            return f"{mode}, {best.name} is better than this model, by {points}: use it instead."
        if gap > 0:
            return (
                f"{mode}, {best.name} is ahead of this model by {points}, which is "
                "not significant with so few labels."
            )
        if sign > 0:
            return f"{mode}, it beats every baseline; the best of them is {best.name}."
        return f"{mode}, it is level with the best baseline, {best.name}."


def limits(graph: Graph, train: IntArray) -> list[str]:
    """The limits of a score on these labels, in sentences.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> len(limits(graph, np.array([0, 1])))
    2
    """
    counts = _label_counts(graph, train)
    return [*_label_limits(graph.classes, counts, len(train)), *_link_limits(graph, train)]


def label_limits(classes: Sequence[str], task: str, counts: npt.NDArray[np.int64]) -> list[str]:
    """The limits of a score on some labels, of which each class has a number.

    Examples
    --------
    >>> label_limits(("a", "b"), "classification", np.array([40, 0]))
    ["No row is labelled 'b': the model cannot predict it."]
    """
    total = int(counts.sum())
    if task == "regression":
        counts = counts + FEW_LABELS
    return _label_limits(classes, counts, total)


def _label_limits(
    classes: Sequence[str], counts: npt.NDArray[np.int64], labelled: int
) -> list[str]:
    sentences = []
    if labelled < FEW_LABELS:
        sentences.append(
            f"There are only {labelled} labelled rows: a score from so few labels is not "
            "reliable. Label a few dozen rows."
        )
    absent, single = ([classes[c] for c in np.flatnonzero(counts == k).tolist()] for k in (0, 1))
    if absent:
        sentences.append(f"No row is labelled {_some(absent)}: the model cannot predict it.")
    if single:
        sentences.append(
            f"Only one row is labelled {_some(single)}: when it is held out, nothing is known of "
            "its class, so the score counts it as an error."
        )
    return sentences


def _label_counts(graph: Graph, train: IntArray) -> npt.NDArray[np.int64]:
    """The number of labels of each class; many for numbers, which have no classes."""
    labels = graph.labels[train]
    if graph.task == "regression":
        return np.full(1, len(train) + FEW_LABELS)
    if graph.task == "multilabel":
        return np.asarray(labels.sum(axis=0))
    return np.bincount(labels, minlength=graph.C)


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
