"""The replicas of a panel: their views, and the validation nodes of each.

A replica sees a view and learns from its labels. Its validation nodes are labelled nodes that are
not in its view, or whose labels it does not know. They are

- the validation nodes of its split, if there are any;
- otherwise, with few labels, a fold of the training labels. Each label is held out twice: once from
  a replica that does not see its node at all ('new row'), and once from a replica that sees the
  node without its label ('known row'). The last replicas, which are kept, learn from all labels and
  have no validation nodes;
- otherwise a tenth of the training labels: half of these nodes are hidden and are validation nodes,
  the other half stay in the view without their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.data.splits import HELD_OUT, Split, View, held_out, observe

FOLDS = 5
"""Number of folds."""
FEWEST = 4
"""Minimum number of labels for folds."""
FEW = 1000
"""Maximum number of labels for folds; with more, a share of them is held out."""


@dataclass(frozen=True)
class Replica:
    """A network in training.

    Attributes
    ----------
    view : View
        What it sees.
    validation : (k,) int array
        Labelled nodes whose labels it does not know.
    present : (n',) int array
        The nodes that are visible when the validation nodes are predicted.
    seed : int
        Random seed of its weights and sampling.
    taught_by : int
        The place, in the list of replicas, of the one whose teachers it shares.
    calibrated_by : tuple of int
        The places of the replicas whose validation nodes calibrate and weight its teachers.
    kind : {'kept', 'new row', 'known row'}
        Whether it is kept; otherwise what its validation nodes represent.
    known : (l,) int array
        Labelled nodes that its view has without their labels, for scores only.
    """

    view: View
    validation: IntArray
    present: IntArray
    seed: int
    taught_by: int
    calibrated_by: tuple[int, ...]
    kind: str
    known: IntArray = field(default_factory=lambda: np.array([], dtype=np.int64))


def validation_replicas(
    graph: Graph, splits: Sequence[Split], setting: str, seeds: Sequence[int]
) -> list[Replica]:
    """One replica for each split, with the validation nodes of the split.

    Examples
    --------
    >>> graph = Graph.build([[1.0], [2.0], [3.0]], [(0, 1), (1, 2)], [0, 1, 0])
    >>> split = Split(np.array([0, 1]), np.array([2]), np.array([], dtype=int))
    >>> validation_replicas(graph, [split], "inductive", [0])[0].present
    array([0, 1, 2])
    """
    found = []
    for place, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        view = observe(graph, split, setting)
        present = np.union1d(view.nodes, split.validation)
        found.append(Replica(view, split.validation, present, seed, place, (place,), "kept"))
    return found


def fold_replicas(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], folds: bool = True
) -> list[Replica]:
    """Replicas for each fold of the training labels, then one for each seed with all labels.

    Examples
    --------
    >>> graph = Graph.build(np.eye(6), [(0, 1), (2, 3)], [0, 1, 0, 1, 0, -1])
    >>> split = Split(np.arange(5), np.array([], dtype=int), np.array([], dtype=int))
    >>> [replica.kind for replica in fold_replicas(graph, split, "transductive", [0])]
    ['new row', 'new row', 'new row', 'new row', 'new row', 'known row', 'known row', 'known row', \
'known row', 'known row', 'kept']
    """
    whole = observe(graph, split, setting)
    parts = stratified(graph.labels[split.train], FOLDS, seeds[0])
    count = int(parts.max(initial=-1)) + 1 if folds and len(split.train) >= FEWEST else 0
    everyone = tuple(range(count))
    hidden, known = [], []
    for k in everyone:
        validation = split.train[parts == k]
        others = tuple(j for j in everyone if j != k)
        labels = whole.labels.copy()
        labels[validation] = UNKNOWN
        view, seed = replace(whole, labels=labels), seeds[0] + k
        known.append(Replica(view, validation, whole.nodes, seed, k, others, "known row"))
        hidden.append(replace(known[-1], view=_without(view, validation), kind="new row"))
    none = np.array([], dtype=np.int64)
    kept = [Replica(whole, none, whole.nodes, seed, 0, everyone, "kept") for seed in seeds]
    found = [*hidden, *known, *kept]
    first = len(found) - len(kept)
    return [replace(r, taught_by=first) if r.kind == "kept" else r for r in found]


def held_out_replicas(
    graph: Graph, split: Split, setting: str, seeds: Sequence[int], share: float = HELD_OUT
) -> list[Replica]:
    """One replica for each seed, with a share of the training labels as validation labels.

    Examples
    --------
    >>> graph = Graph.build(np.ones((40, 1)), [(0, 1)], np.arange(40) % 2)
    >>> split = Split(np.arange(40), np.array([], dtype=int), np.array([], dtype=int))
    >>> replica = held_out_replicas(graph, split, "transductive", [0])[0]
    >>> len(replica.view.train), len(replica.validation), len(replica.known)
    (36, 2, 2)
    >>> len(replica.view.nodes)
    38
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
    """The fold of each label: stratified by class, with folds of similar size.

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
    """A view without some nodes and their links."""
    there = np.zeros(len(view.labels), dtype=bool)
    there[view.nodes] = True
    there[hidden] = False
    edges = view.edges[there[view.edges].all(axis=1)]
    return replace(view, nodes=np.flatnonzero(there), edges=edges)
