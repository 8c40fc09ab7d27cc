"""Who trains on what, and who judges whom.

A replica of the panel sees a view and learns from its labels. Its judges are labelled nodes that
its view does not have, or whose labels it does not know. Where validation nodes are given they
judge. Where they are not and labels are few, folds do: each label is held out once from a replica
that hides its node altogether, as a new row would be, and once from one that knows the node but
not its label. The last replicas, which are kept, learn from all labels and have no judges. Where
labels are many, a tenth of them is held out: half of these nodes are hidden and judge, half stay
without their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import HELD_OUT, Split, View, held_out, observe

FOLDS = 5
"""How many parts the labels are divided into where folds judge."""
FEWEST = 4
"""Labels below which there are no folds."""
FEW = 1000
"""Labels up to which folds judge; with more, a share of them is held out."""


@dataclass(frozen=True)
class Replica:
    """A network in training.

    Attributes
    ----------
    view : View
        What it sees.
    judges : (k,) int array
        Labelled nodes whose labels it does not know.
    present : (n',) int array
        The nodes that are there when the judges are predicted.
    seed : int
        Of its weights and sampling.
    taught_by : int
        The place, in the list of replicas, of the one whose teachers it shares.
    trusts : tuple of int
        The places of the replicas whose judges choose among its teachers.
    kind : {'kept', 'new row', 'known row'}
        Whether it is kept, or what its judges stand for.
    known : (l,) int array
        Labelled nodes that its view has without their labels, and that choose nothing.
    """

    view: View
    judges: IntArray
    present: IntArray
    seed: int
    taught_by: int
    trusts: tuple[int, ...]
    kind: str
    known: IntArray = field(default_factory=lambda: np.array([], dtype=np.int64))


def validated(
    graph: Graph, splits: Sequence[Split], setting: str, seeds: Sequence[int]
) -> list[Replica]:
    """One replica for each split, judged by its own validation nodes.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
    >>> split = Split(np.array([0, 1]), np.array([2]), np.array([], dtype=int))
    >>> validated(graph, [split], "inductive", [0])[0].present
    array([0, 1, 2])
    """
    found = []
    for place, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        view = observe(graph, split, setting)
        present = np.union1d(view.nodes, split.validation)
        found.append(Replica(view, split.validation, present, seed, place, (place,), "kept"))
    return found


def folded(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], judge: bool = True
) -> list[Replica]:
    """Folds of the training labels, then a replica for each seed that learns from all of them.

    Examples
    --------
    >>> graph = Graph.build(np.eye(6), [(0, 1), (2, 3)], [0, 1, 0, 1, 0, -1])
    >>> split = Split(np.arange(5), np.array([], dtype=int), np.array([], dtype=int))
    >>> [replica.kind for replica in folded(graph, split, "transductive", [0])]
    ['new row', 'new row', 'new row', 'new row', 'new row', 'known row', 'known row', 'known row', \
'known row', 'known row', 'kept']
    """
    whole = observe(graph, split, setting)
    parts = stratified(graph.labels[split.train], FOLDS, seeds[0])
    count = int(parts.max(initial=-1)) + 1 if judge and len(split.train) >= FEWEST else 0
    everyone = tuple(range(count))
    hidden, known = [], []
    for k in everyone:
        judges = split.train[parts == k]
        others = tuple(j for j in everyone if j != k)
        labels = whole.labels.copy()
        labels[judges] = UNKNOWN
        told = Replica(
            replace(whole, labels=labels), judges, whole.nodes, seeds[0] + k, k, others, "known row"
        )
        known.append(told)
        hidden.append(replace(told, view=_without(told.view, judges), kind="new row"))
    none = np.array([], dtype=np.int64)
    kept = [Replica(whole, none, whole.nodes, seed, 0, everyone, "kept") for seed in seeds]
    found = [*hidden, *known, *kept]
    first = len(found) - len(kept)
    return [replace(r, taught_by=first) if r.kind == "kept" else r for r in found]


def held(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], share: float = HELD_OUT
) -> list[Replica]:
    """Replicas that are judged by a share of the training labels: half of it hidden altogether.

    Examples
    --------
    >>> graph = Graph.build(np.ones((40, 1)), [(0, 1)], np.arange(40) % 2)
    >>> split = Split(np.arange(40), np.array([], dtype=int), np.array([], dtype=int))
    >>> replica = held(graph, split, "transductive", [0])[0]
    >>> len(replica.view.train), len(replica.judges), len(replica.known), len(replica.view.nodes)
    (36, 2, 2, 38)
    """
    whole = observe(graph, split, setting)
    aside = held_out(whole.labels, share, seeds[0]).validation
    hidden = stratified(graph.labels[aside], 2, seeds[0]) == 0
    labels = whole.labels.copy()
    labels[aside] = UNKNOWN
    view = _without(replace(whole, labels=labels), aside[hidden])
    return [
        Replica(
            view, aside[hidden], whole.nodes, seed, place, (place,), "kept", known=aside[~hidden]
        )
        for place, seed in enumerate(seeds)
    ]


def stratified(labels: IntArray, folds: int, seed: int) -> IntArray:
    """Which of some folds each label is in: classes spread evenly, all folds of like size.

    Examples
    --------
    >>> np.bincount(stratified(np.array([0, 0, 0, 1, 1, 1, 2]), 3, seed=0))
    array([3, 2, 2])
    """
    random, found, place = np.random.default_rng(seed), np.zeros(len(labels), dtype=np.int64), 0
    for c in np.unique(labels):
        mine = random.permutation(np.flatnonzero(labels == c))
        found[mine] = (place + np.arange(len(mine))) % folds
        place += len(mine)
    return found


def _without(view: View, hidden: IntArray) -> View:
    """A view that lacks some nodes and their links."""
    there = np.zeros(len(view.labels), dtype=bool)
    there[view.nodes] = True
    there[hidden] = False
    edges = view.edges[there[view.edges].all(axis=1)]
    return replace(view, nodes=np.flatnonzero(there), edges=edges)
