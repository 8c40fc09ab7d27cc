"""The replicas of a panel: which labels each learns from, and which nodes validate it.

A replica sees a view and learns from its labels. Its validation nodes are labelled nodes that are
not in its view, or whose labels it does not know. They are

- the validation nodes of its split, if there are any;
- otherwise, with few labels, a fold of the training labels. Each label is held out twice: once from
  a replica that does not see its node at all ('new row'), and once from a replica that sees the
  node without its label ('known row'). The last replicas, which are kept, learn from all labels and
  have no validation nodes;
- otherwise a tenth of the training labels: half of these nodes are hidden and are validation nodes,
  the other half stay in the view without their labels;
- or, if that is asked for, all labels of some graphs, whose nodes are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from linkdist.data.graph import UNKNOWN, Graph, IntArray, without_labels
from linkdist.data.splits import HELD_OUT, Split, View, held_out, observe, strata
from linkdist.errors import OptionError
from linkdist.training.panel.ensemble import Replica

FOLDS = 5
"""Number of folds."""
FEWEST = 4
"""Minimum number of labels for folds."""


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
    replicas = []
    for r, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        view = observe(graph, split, setting)
        present = np.union1d(view.nodes, split.validation)
        replicas.append(Replica(view, split.validation, present, seed, r, (r,), "kept"))
    return replicas


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
    fold_of_label = stratified(strata(graph.labels[split.train]), FOLDS, seeds[0])
    count = int(fold_of_label.max(initial=-1)) + 1 if folds and len(split.train) >= FEWEST else 0
    all_folds = tuple(range(count))
    new_rows, known_rows = [], []
    for k in all_folds:
        validation = np.sort(split.train[fold_of_label == k])
        view = _without_labels(whole, validation)
        others = tuple(j for j in all_folds if j != k)
        known = Replica(view, validation, whole.nodes, seeds[0] + k, k, others, "known row")
        known_rows.append(known)
        new_rows.append(replace(known, view=_without_nodes(view, validation), kind="new row"))
    none = np.array([], dtype=np.int64)
    kept = [Replica(whole, none, whole.nodes, seed, 2 * count, all_folds, "kept") for seed in seeds]
    return [*new_rows, *known_rows, *kept]


def graph_replicas(graph: Graph, split: Split, setting: str, seeds: Sequence[int]) -> list[Replica]:
    """Replicas that each hold out whole graphs, then one for each seed with all labels.

    Each graph with labels is held out once, all of its nodes, so that its labels are predicted as
    those of an unseen graph.

    Examples
    --------
    >>> graph = Graph.build(
    ...     np.eye(6), [(0, 1)], [0, 1, 0, 1, 0, -1], groups=np.array([0, 0, 1, 1, 2, 2])
    ... )
    >>> split = Split(np.arange(5), np.array([], dtype=int), np.array([], dtype=int))
    >>> replicas = graph_replicas(graph, split, "transductive", [0])
    >>> [replica.validation.tolist() for replica in replicas]
    [[4], [2, 3], [0, 1], []]
    >>> replicas[1].view.nodes.tolist()
    [0, 1, 4, 5]
    """
    whole, groups = observe(graph, split, setting), graph.groups
    labelled = np.array([]) if groups is None else np.unique(groups[split.train])
    if groups is None or len(labelled) < 2:
        raise OptionError(
            "holding out graphs needs labels in two graphs or more; found "
            f"{len(labelled)}. Name the column of graphs, or leave the option out."
        )
    counts = np.bincount(groups[split.train])
    fold_of_graph = np.full(int(groups.max()) + 1, UNKNOWN)
    sizes = np.zeros(min(FOLDS, len(labelled)), dtype=np.int64)
    for name in sorted(labelled.tolist(), key=lambda name: -counts[name]):
        fold_of_graph[name] = sizes.argmin()
        sizes[sizes.argmin()] += counts[name]
    all_folds = tuple(range(len(sizes)))
    replicas: list[Replica] = []
    for k in reversed(all_folds):
        hidden = np.flatnonzero(fold_of_graph[groups] == k)
        validation = np.intersect1d(hidden, split.train)
        view = _without_nodes(_without_labels(whole, validation), hidden)
        r = len(replicas)
        others = tuple(j for j in all_folds if j != r)
        seed = seeds[0] + r
        replicas.append(Replica(view, validation, whole.nodes, seed, r, others, "new row"))
    none, count = np.array([], dtype=np.int64), len(replicas)
    kept = [Replica(whole, none, whole.nodes, seed, count, all_folds, "kept") for seed in seeds]
    return [*replicas, *kept]


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
    half = stratified(strata(graph.labels[aside]), 2, seeds[0])
    hidden, known = aside[half == 0], aside[half == 1]
    view = _without_nodes(_without_labels(whole, aside), hidden)
    return [
        Replica(view, hidden, whole.nodes, seed, r, (r,), "kept", known)
        for r, seed in enumerate(seeds)
    ]


def stratified(labels: IntArray, folds: int, seed: int) -> IntArray:
    """The fold of each label: stratified by class, with folds of similar size.

    Examples
    --------
    >>> np.bincount(stratified(np.array([0, 0, 0, 1, 1, 1, 2]), 3, seed=0))
    array([3, 2, 2])
    """
    random = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    order = [label for members in classes for label in random.permutation(members)]
    fold_of_label = np.empty(len(labels), dtype=np.int64)
    fold_of_label[order] = np.arange(len(labels)) % folds
    return fold_of_label


def renumbered(replicas: list[Replica]) -> list[Replica]:
    """Correct the references between replicas after some were omitted."""
    kinds = [replica.kind for replica in replicas]
    if "new row" in kinds:
        kept = kinds.index("kept")
        return [
            replace(replica, taught_by=kept)
            if replica.kind == "kept" and not len(replica.validation)
            else replica
            for replica in replicas
        ]
    if any(len(replica.validation) for replica in replicas):
        return replicas
    return [replace(replica, taught_by=0, calibrated_by=()) for replica in replicas]


def _without_labels(view: View, nodes: IntArray) -> View:
    """A view that does not know the labels of some nodes."""
    return replace(view, labels=without_labels(view.labels, nodes))


def _without_nodes(view: View, hidden: IntArray) -> View:
    """A view without some nodes and their links."""
    visible = np.zeros(len(view.labels), dtype=bool)
    visible[view.nodes] = True
    visible[hidden] = False
    return replace(view, nodes=np.flatnonzero(visible)).with_edges(view.all_edges.between(visible))
