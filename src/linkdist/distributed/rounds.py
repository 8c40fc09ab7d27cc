"""The rounds of a training from a store: their order, and where their parts are in memory.

A round trains the links of one bucket, for which its two parts must be in memory. With parts
a, b, c, d the rounds of an epoch are

    aa ad ac ab   bb bd bc   cc cd   dd

so consecutive rounds share a part, and at most one part is read in between: P (P - 1) / 2 + 1 reads
in all. The order of the parts differs from epoch to epoch. A store that fits into memory has one
round per epoch, with all its parts and links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linkdist.nn.inputs import Inputs
from linkdist.store.format import buckets
from linkdist.store.reader import Store
from linkdist.training.link_task import Seen


class Round(NamedTuple):
    """Links that are trained together.

    Attributes
    ----------
    parts : tuple of int
        The parts that must be in memory, in ascending order.
    buckets : tuple of pairs
        The buckets of the links.
    """

    parts: tuple[int, ...]
    buckets: tuple[tuple[int, int], ...]


def rounds_of(P: int, epoch: int) -> list[Round]:
    """The rounds of an epoch, one for each bucket.

    Examples
    --------
    >>> [round.buckets[0] for round in rounds_of(3, epoch=0)]
    [(2, 2), (1, 2), (0, 2), (0, 0), (0, 1), (1, 1)]
    """
    parts = np.random.default_rng(epoch).permutation(P).tolist()
    rounds = []
    for first in range(P):
        for second in (first, *range(P - 1, first, -1)):
            a, b = sorted((parts[first], parts[second]))
            rounds.append(Round((a,) if a == b else (a, b), ((a, b),)))
    return rounds


def whole_round(P: int) -> Round:
    """All parts and all buckets at once.

    Examples
    --------
    >>> whole_round(2)
    Round(parts=(0, 1), buckets=((0, 0), (0, 1), (1, 1)))
    """
    return Round(tuple(range(P)), tuple(buckets(P)))


def slots_of(rounds: Sequence[Round]) -> list[dict[int, int]]:
    """The slot in memory of each part of each round.

    A part keeps its slot while it is needed, and a part that is read during a round gets a free
    one. The slots do not depend on the round at which a training continues.

    Examples
    --------
    >>> slots_of(rounds_of(3, epoch=0))
    [{2: 0}, {1: 1, 2: 0}, {0: 2, 2: 0}, {0: 2}, {0: 2, 1: 1}, {1: 1}]
    """
    pairs = zip(rounds, rounds[1:] or rounds, strict=False)
    holds: list[int | None] = [None] * max(len({*now.parts, *after.parts}) for now, after in pairs)
    slots, busy = [], set[int]()
    for round_ in rounds:
        needed = busy.union(round_.parts)
        for part in sorted(set(round_.parts).difference(holds)):
            holds[next(i for i, held in enumerate(holds) if held not in needed)] = part
        slots.append({part: holds.index(part) for part in round_.parts})
        busy = set(round_.parts)
    return slots


class RoundData(NamedTuple):
    """The training data of a round.

    Attributes
    ----------
    inputs : Inputs
        The features of the parts of the round.
    seen : Seen
        Their links, nodes and labels; the first axis has size one, for all replicas.
    length : int
        Number of edges; `seen` may have room for more.
    fixed : bool
        Whether all rounds have these tensors, with other contents.
    """

    inputs: Inputs
    seen: Seen
    length: int
    fixed: bool


def largest_round(store: Store, rounds: Sequence[Round]) -> int:
    """The number of edges for which a round needs memory at most.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(1000, 5000), parts=1)
    ...     largest_round(store, rounds_of(1, epoch=0)) == 2 * store.m - store.loops
    True
    """
    counts = store.counts
    links = max(sum(int(counts[bucket]) for bucket in round_.buckets) for round_ in set(rounds))
    # The store knows the number of all self-loops, which are one edge, but not of those of a part.
    return min(2 * links, 2 * store.m - store.loops)
