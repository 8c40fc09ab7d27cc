"""A score that one can believe, and what it is worth.

Out-of-fold or validation predictions give accuracies with intervals, for new rows and for rows
that are in the table, beside baselines on the same nodes. A few sentences say what follows from
them: whether links pay, and whether something simpler is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.training.panel.baselines import LARGEST
from linkdist.training.panel.faculty import Judgement

Z = 1.645
"""Of a 90 % interval."""
OURS = ("features", "links")
MODEL = {"features": "this model, from features", "links": "this model, with links"}
WITH_LINKS = ("label spreading", "hop averages", "with links")
"""Words in the names of baselines that need links at prediction time."""
FOLDED = 0.8
"""What a judge of folds counts for in an interval: those of one fold share a network's errors."""
FEW_LABELS = 10
"""Below so many labels a score says next to nothing."""


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
    """What is known of a model's accuracy.

    Attributes
    ----------
    judges : int
        How many labelled nodes it rests on.
    by : str
        'folds' or 'validation nodes'.
    new_rows, known_rows : list of Score
        Of this model, for rows that training has not seen, and for rows of the table without a
        label: from features, then with links.
    baselines : list of Score
        Of others, on the same new rows, the best first.
    verdict : list of str
        What follows, in sentences.
    warnings : list of str
        What the scores cannot tell.
    teachers : mapping of str to float
        Each teacher's share in what the model learnt.
    rows : {'new rows', 'rows of the table'}
        What `new_rows` and `baselines` are measured on; validation nodes that training saw without
        their labels are rows of the table.
    """

    judges: int
    by: str
    new_rows: list[Score]
    known_rows: list[Score]
    baselines: list[Score]
    verdict: list[str]
    warnings: list[str] = field(default_factory=list)
    teachers: Mapping[str, float] = field(default_factory=dict)
    rows: str = "new rows"

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON, numbers to six digits."""
        rounded: dict[str, Any] = _rounded(asdict(self))
        return rounded


def _rounded(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def estimate(
    judged: Mapping[str, Mapping[str, Judgement]],
    mixture: Mapping[str, float],
    warnings: Sequence[str],
    judges: int,
    rows: str = "new rows",
) -> Estimates | None:
    """Put scores, baselines and sentences together; None where nobody judged.

    Parameters
    ----------
    judged : mapping
        As `Panel.judged`, with baselines under their names.
    mixture : mapping of str to float
        The teachers' shares.
    warnings : sequence of str
        As `limits` gives them.
    judges : int
        How many different nodes judged; the intervals rest on them.
    rows : {'new rows', 'rows of the table'}, optional
        What the judges stand for: rows that training has not seen, or rows that it saw without
        their labels.
    """
    new = judged.get("new row") or judged.get("validation")
    if not new or not judges:
        return None
    by = "folds" if "new row" in judged else "validation nodes"
    independent = judges * FOLDED if by == "folds" else judges
    ours = [score(MODEL[mode], new[mode], independent, mode == "links") for mode in OURS]
    known = judged.get("known row", {})
    count = min(independent, len(known["features"].labels)) if known else 0
    in_table = [score(MODEL[m], known[m], count, m == "links") for m in OURS] if known else []
    others = [
        score(name, heard, independent, any(word in name for word in WITH_LINKS))
        for name, heard in new.items()
        if name not in OURS
    ]
    others.sort(key=lambda other: -other.accuracy)
    hits = {MODEL.get(name, name): hits_of(heard) for name, heard in new.items()}
    sentences = verdict(ours, others, hits, rows)
    known_too = (list(warnings), dict(mixture), rows)
    return Estimates(judges, by, ours, in_table, others, sentences, *known_too)


def hits_of(heard: Judgement) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which judges were predicted right, (N,)."""
    right: np.ndarray[Any, np.dtype[np.bool_]] = heard.log_p.argmax(axis=1) == heard.labels
    return right


def score(name: str, heard: Judgement, judges: float, links: bool) -> Score:
    """An accuracy, and Wilson's interval for so many judges."""
    share = float(hits_of(heard).mean())
    return Score(name, share, *interval(share, judges), links)


def interval(share: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's interval of a share of n nodes; of 90 % by default.

    Examples
    --------
    >>> [round(end, 3) for end in interval(0.9, 10, z=1.96)]
    [0.596, 0.982]
    """
    middle = share + z**2 / (2 * n)
    half = z * float(np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)))
    by = 1 + z**2 / n
    return max((middle - half) / by, 0.0), min((middle + half) / by, 1.0)


def verdict(
    ours: Sequence[Score],
    others: Sequence[Score],
    hits: Mapping[str, np.ndarray[Any, Any]],
    rows: str = "new rows",
) -> list[str]:
    """Whether links pay and whether the model is the best choice, in sentences."""
    features, links = ours
    said = []
    plain = [other for other in others if not other.links and "CoLinkDist" not in other.name]
    rivals = [other for other in plain if other.name != LARGEST]
    if rivals:
        best = rivals[0]
        how = compare(hits[features.name], hits[best.name])
        words = {
            1: "Links pay in training",
            0: "These labels cannot show whether links pay in training",
            -1: "Links do not pay in training",
        }[how]
        said.append(
            f"{words}: from features this model is right for {_percent(features)} of {rows}, "
            f"{best.name} for {_percent(best)}."
        )
    how = compare(hits[links.name], hits[features.name])
    words = {
        1: "Links pay at prediction time, too",
        0: "Links at prediction time make no difference that these labels can show",
        -1: "Links do not pay at prediction time",
    }[how]
    said.append(f"{words}: {_percent(links)} with links, {_percent(features)} from features.")
    for mine, rest in (
        (features, [other for other in others if not other.links]),
        (links, [other for other in others if other.links]),
    ):
        said += _against(mine, rest, hits)
    return said


def _against(
    mine: Score, rest: Sequence[Score], hits: Mapping[str, np.ndarray[Any, Any]]
) -> list[str]:
    if not rest:
        return []
    how = mine.name.removeprefix("this model, ").capitalize()
    best = rest[0]
    sign = compare(hits[mine.name], hits[best.name])
    gap = 100 * (best.accuracy - mine.accuracy)
    if sign < 0:
        return [
            f"{how}, {best.name} is better than this model, by {gap:.1f} points: use it instead."
        ]
    if gap > 0:
        return [
            f"{how}, {best.name} is ahead of this model by {gap:.1f} points, which so few labels "
            "cannot tell from chance."
        ]
    if sign > 0:
        return [f"{how}, it beats every baseline; the best of them is {best.name}."]
    return [f"{how}, it is level with the best baseline, {best.name}."]


def compare(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> int:
    """1 where ours is right more often than chance would have it, -1 where less, 0 between.

    A paired test: only nodes on which the two differ count.

    Examples
    --------
    >>> compare(np.ones(20, dtype=bool), np.arange(20) % 2 == 0)
    1
    >>> compare(np.array([True, False]), np.array([False, True]))
    0
    """
    apart = ours.astype(float) - theirs.astype(float)
    won, lost = int((apart > 0).sum()), int((apart < 0).sum())
    if won == lost:
        return 0
    far = (abs(won - lost) - 1) / np.sqrt(won + lost) > Z
    return int(np.sign(won - lost)) if far else 0


def _percent(score: Score) -> str:
    return f"{100 * score.accuracy:.1f} %"


def limits(graph: Graph, train: IntArray) -> list[str]:
    """What a score on these labels cannot tell, in sentences.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> len(limits(graph, np.array([0, 1])))
    2
    """
    labels = graph.labels[train]
    counts = np.bincount(labels[labels != UNKNOWN], minlength=graph.C)
    said = []
    if len(train) < FEW_LABELS:
        said.append(
            f"There are only {len(train)} labelled rows: a score that rests on so few says next to "
            "nothing. "
            "Label some dozens of rows."
        )
    absent, single = ([graph.classes[c] for c in np.flatnonzero(counts == k)] for k in (0, 1))
    if absent:
        said.append(f"No row is labelled {_some(absent)}: the model cannot predict it.")
    if single:
        said.append(
            f"One row alone is labelled {_some(single)}: where it is held out nothing is known of "
            "its class, so that the score counts it as an error."
        )
    return [*said, *_link_limits(graph, train)]


def _link_limits(graph: Graph, train: IntArray) -> list[str]:
    pairs = graph.links[graph.links[:, 0] != graph.links[:, 1]]
    if not len(pairs):
        return ["There are no links: this is a classifier of rows, and no link can help it."]
    known = np.zeros(graph.n, dtype=bool)
    known[train] = True
    if not known[pairs].any():
        return [
            "No link touches a labelled row: the links cannot carry labels, and the score is of "
            "rows without links."
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
