"""The labelled rows of a store that teachers learn from, and the replicas of the panel.

Teachers and validation need labelled rows in memory. There may be more labels than fit, so at most
`rows_for` of them are drawn at random; the labels of all other nodes are still known to label
spreading and to the students. The drawn rows, the neighbours of validation nodes and some links of
the whole graph form a small `Graph`, the sample. Its replicas are those of a graph in memory
(`training.panel.replicas`), so that folds, validation nodes and estimates mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import Graph, IntArray, known_labels
from linkdist.data.splits import HELD_OUT, Split
from linkdist.distributed.panel.workshop import Hidden
from linkdist.distributed.survey import MAX_LINKS, Survey, number, part_rows, survey_with
from linkdist.progress import Callback
from linkdist.store.reader import Store
from linkdist.training.panel.ensemble import Replica
from linkdist.training.panel.fitting import FEW_NUMBERS, Units, replicas_for

MOST_VALIDATION = 4000
"""The largest number of labels that are held out: each needs its neighbours in the sample."""
FEWEST_ROWS, MOST_ROWS = FEW_NUMBERS + 1, 100_000
"""The least and the largest number of labelled rows that are drawn, if there are as many."""
FIT_COPIES = 24
"""Copies of a row's outputs while the linear teachers are fitted, for all their penalties."""
FEWEST_LINKS, EVALUATION_COPIES = 2000, 8
"""The least number of links of validation nodes, and copies of outputs when they are evaluated."""


@dataclass(frozen=True)
class Sample:
    """The sample of a store, and the replicas that are trained.

    Attributes
    ----------
    survey : Survey
        The result of one pass over the links.
    graph : Graph
        The sample of the survey, with standardised numbers for a regression.
    labelled : (k,) int array
        The nodes of the sample that were drawn as labelled rows.
    replicas : sequence of Replica
        The replicas, on the sample.
    views : sequence of int
        For each replica, the index of the view whose teachers it has.
    units : Units
        The units of the numbers of a regression.
    """

    survey: Survey
    graph: Graph
    labelled: IntArray
    replicas: Sequence[Replica]
    views: Sequence[int]
    units: Units

    @property
    def splits(self) -> list[Split]:
        """The split of each kept replica: all drawn labels, none of them for validation."""
        kept = sum(replica.kind == "kept" for replica in self.replicas)
        return [_split(self.labelled)] * kept

    @property
    def taught(self) -> list[Replica]:
        """One replica for each view."""
        return [self.replicas[self.views.index(t)] for t in range(max(self.views) + 1)]

    def hidden(self, replica: Replica) -> Hidden:
        """The rows of the store that a replica does not see."""
        return self.rows(np.setdiff1d(self.labelled, replica.view.nodes))

    def withheld(self, replica: Replica) -> Hidden:
        """The rows of the store whose labels a replica does not know."""
        return self.rows(np.setdiff1d(self.labelled, replica.view.train))

    def numbers(self, nodes: IntArray) -> IntArray:
        """The numbers in the store of some nodes of the sample."""
        return self.survey.nodes[nodes]

    def rows(self, nodes: IntArray) -> Hidden:
        """The rows of the store of some nodes of the sample, by part."""
        return dict(part_rows(self.numbers(nodes)))


def draw_sample(
    store: Store,
    seeds: Sequence[int],
    share: float | None,
    memory: int,
    callback: Callback,
) -> Sample:
    """Draw labelled rows, make the replicas, and read the links once.

    Parameters
    ----------
    store : Store
        The graph.
    seeds : sequence of int
        One for each replica that is kept.
    share : float, optional
        The share of the labels that are held out; by default folds if there are few labels.
    memory : int
        Bytes that training may hold.
    callback : Callback
        Receives the progress.
    """
    most = rows_for(store, memory)
    drawn, labels = draw_labelled(store, most, seeds[0])
    rows = Graph.build(
        np.zeros((len(drawn), 1), np.float32), np.empty((0, 2), int), labels, store.classes,
        task=store.task,
    )  # fmt: skip
    order = in_table_order(store, len(drawn)) if len(drawn) < most else np.arange(most)
    if share is None and len(drawn) > MOST_VALIDATION / HELD_OUT:
        share = MOST_VALIDATION / len(drawn)
    replicas = _replicas(rows, order, seeds, share)
    aside = [np.r_[replica.validation, replica.known] for replica in replicas]
    held = np.unique(np.concatenate(aside))
    links = links_for(store, memory)
    survey = survey_with(store, drawn[held], seeds[0], callback, also=drawn, most=links)
    labelled = np.searchsorted(survey.nodes, drawn)
    units = Units.of(survey.sample, [_split(labelled)])
    graph = units.standardised(survey.sample)
    again = _replicas(graph, labelled[order], seeds, share)
    for one, other in zip(replicas, again, strict=True):
        # The draws depend on the labels and their order alone.
        assert np.array_equal(labelled[one.validation], other.validation)
    taught = sorted({replica.taught_by for replica in again})
    views = [taught.index(replica.taught_by) for replica in again]
    return Sample(survey, graph, labelled, again, views, units)


def in_table_order(store: Store, drawn: int) -> IntArray:
    """The places of all labelled nodes in the order of the table, if the store has it.

    Folds depend on the order of the labels, so they are those of the same table in memory.

    Parameters
    ----------
    store : Store
        The graph.
    drawn : int
        Number of labelled nodes.
    """
    hashed = store.manifest.label_rows or ()
    rows = np.array([row for part in hashed for row in part], dtype=np.int64)
    later = rows.max(initial=0) + 1 + np.arange(drawn - len(rows))
    return np.argsort(np.r_[rows, later])


def _replicas(
    graph: Graph, labelled: IntArray, seeds: Sequence[int], share: float | None
) -> list[Replica]:
    """The replicas of a panel on a sample; all that are kept have the same teachers."""
    splits = [_split(labelled)] * len(seeds)
    return replicas_for(graph, splits, "transductive", seeds, share)


def _split(labelled: IntArray) -> Split:
    none = np.array([], dtype=np.int64)
    return Split(labelled, none, none)


def rows_for(store: Store, memory: int) -> int:
    """The number of labelled rows that teachers can learn from within a quarter of the memory."""
    outputs = 4 * FIT_COPIES * store.C
    return int(np.clip(memory / 4 / (outputs + _row_bytes(store)), FEWEST_ROWS, MOST_ROWS))


def links_for(store: Store, memory: int) -> int:
    """The number of links of validation nodes whose ends fit into an eighth of the memory."""
    outputs = 4 * EVALUATION_COPIES * store.C
    return int(np.clip(memory / 8 / (outputs + _row_bytes(store)), FEWEST_LINKS, MAX_LINKS))


def _row_bytes(store: Store) -> float:
    """Bytes of the features of a node in memory, in float32, but at least those of 64 numbers."""
    sparse = sum(store.part_bytes) / max(store.n, 1)
    return max(64 * 4, sparse if store.kind == "csr" else 4 * store.d)


def draw_labelled(store: Store, most: int, seed: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """At most some labelled nodes at random: their sorted numbers, and their labels.

    Each node has its own random key, and those with the smallest keys are drawn, so no table of all
    labelled nodes is needed.
    """
    keys, numbers, labels = np.empty(0), np.empty(0, dtype=np.int64), None
    for part in range(store.P):
        y = store.labels(part)
        rows = np.flatnonzero(known_labels(y))
        random = np.random.default_rng([seed, part]).random(len(rows))
        keys, numbers = np.r_[keys, random], np.r_[numbers, number(part, rows)]
        labels = y[rows] if labels is None else np.concatenate([labels, y[rows]])
        if len(keys) > most:
            chosen = np.sort(np.argpartition(keys, most)[:most])
            keys, numbers, labels = keys[chosen], numbers[chosen], labels[chosen]
    assert labels is not None
    return numbers, labels.astype(np.float64 if labels.dtype.kind == "f" else np.int64)
