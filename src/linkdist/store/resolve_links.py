"""Links between ids become links between rows, one bucket at a time.

The hashes of a bucket of `linkdist.store.link_runs` are looked up in the sorted hashes of its two
parts. Duplicates are merged, and their weights are added up. The links between different parts come
first, then those within a part: by then it is known which nodes have no link, and each of these
gets a self-loop of the first relation, with the average weight of all links.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linkdist.errors import OptionError
from linkdist.store.format import bucket_file, buckets, rows_in
from linkdist.store.journal import Journal
from linkdist.store.keys import Keys, LinkCode, sort_unique
from linkdist.store.link_counts import Counts, count_rows, keep_first, new_counts
from linkdist.store.link_runs import BucketRecords, read_bucket
from linkdist.store.link_source import LinkPlan
from linkdist.store.partition import Done, work_file

COMMIT_LINKS = 1 << 20
"""Number of links after which the journal is written."""

CHUNK = 1 << 20
"""Number of links that are looked up at once."""

Weights = npt.NDArray[np.float32]


def code_of(plan: LinkPlan) -> LinkCode:
    """How the links of a plan become numbers."""
    return LinkCode(len(plan.relations) * (1 + plan.directed), plan.directed)


def resolve(
    journal: Journal, P: int, sizes: list[int], plan: LinkPlan, strict: bool, progress: Done
) -> LinkPlan:
    """Write the buckets.

    Parameters
    ----------
    journal : Journal
        Its `links` has the counts of links and rows; see `linkdist.store.link_counts`.
    P, sizes : int and list of int
        Number of parts, and number of nodes of each.
    plan : LinkPlan
        What the links are.
    strict : bool
        Whether to keep the first rows of duplicates and self-loops as well.
    progress : callable
        Receives the number of buckets that are written.

    Returns
    -------
    LinkPlan
        The plan without the relations that have no links.
    """
    state = journal.state
    _check_rows(sizes, plan)
    if "links" not in state:
        state["links"] = _new_links(plan, range(len(plan.relations)))
    _resolve(journal, P, sizes, plan, strict, progress)
    used = np.flatnonzero(state["links"]["kept"]).tolist()
    if len(plan.rows) == 1 and 0 < len(used) < len(state["links"]["used"]):
        # The heads of the other relations depend on it, so all links are written again.
        journal.commit(links=_new_links(plan, used))
        _resolve(journal, P, sizes, plan, strict, progress)
    return _used_plan(plan, state["links"])


def _new_links(plan: LinkPlan, used: Any) -> Counts:  # noqa: ANN401
    """Counts of links, all 0; `used` are the relations that have links."""
    counts = new_counts(plan, ["unknown"])
    left_out = [name for r, name in enumerate(plan.relations) if r not in used]
    zeros = {name: [0] * len(used) for name in ("kept", "duplicates", "loops")}
    return {
        "done": 0, "used": list(used), "left_out": left_out, "isolated": 0, **zeros, **counts,
        "weight": 0.0, "range": None,
    }  # fmt: skip


def _used_plan(plan: LinkPlan, links: Counts) -> LinkPlan:
    names = tuple(plan.relations[r] for r in links["used"])
    return LinkPlan(plan.rows, names, plan.directed, plan.weighted)


def _check_rows(sizes: list[int], plan: LinkPlan) -> None:
    most = code_of(plan).rows
    if max(sizes) > most:
        rule = f"a part can have {most} nodes"
        raise OptionError(f"{rule}; the largest of {len(sizes)} has {max(sizes)}. Give more parts.")


def _resolve(
    journal: Journal, P: int, sizes: list[int], plan: LinkPlan, strict: bool, progress: Done
) -> None:
    links: Counts = journal.state["links"]
    merger, index = _Merger(plan, links, strict), HashIndex(journal.folder)
    writer, pending = BucketWriter(journal, sizes, merger.code), 0
    order = sorted(buckets(P), key=lambda pair: pair[0] == pair[1])
    for done, (a, b) in enumerate(order[links["done"] :], start=links["done"] + 1):
        bucket = read_bucket(journal, P, plan, a, b)
        i, j = index.find(a, bucket.ends[:, 0]), index.find(b, bucket.ends[:, 1])
        found = merger.merge(bucket, i, j, within=a == b)
        pending += len(i)
        del bucket, i, j
        links["isolated"] += writer.write(a, b, *found)
        if pending >= COMMIT_LINKS or done == len(order):
            links["done"] = done
            journal.commit()
            pending = 0
        progress(done)
    if plan.weighted:
        _fill_weights(journal, P, mean_weight(links))


def mean_weight(links: Counts) -> float:
    """The average weight of the links that are counted in a journal.

    Examples
    --------
    >>> mean_weight({"weight": 6.0, "kept": [1, 2]})
    2.0
    """
    return float(links["weight"] / max(sum(links["kept"]), 1))


def _fill_weights(journal: Journal, P: int, weight: float) -> None:
    """Give the self-loops of nodes without links their weight, which is NaN until all are known."""
    for part in range(P):
        weights = np.load(journal.folder / bucket_file(part, part, "weights.npy"))
        unknown = np.isnan(weights)
        if unknown.any():
            weights[unknown] = weight
            journal.save(bucket_file(part, part, "weights.npy"), weights)


class Merged(NamedTuple):
    """Different links of a bucket, sorted, and their weights if they have any."""

    keys: Keys
    weights: Weights | None


class _Merger:
    """Merges the duplicate links of a bucket and counts links and rows."""

    def __init__(self, plan: LinkPlan, links: Counts, strict: bool) -> None:
        self.plan, self.links, self.strict = plan, links, strict
        self.code = code_of(_used_plan(plan, links))
        ways = 1 + plan.directed
        # Heads of relations without links are never looked up.
        self._heads = np.zeros(len(plan.relations) * ways, dtype=np.uint8)
        for new, old in enumerate(links["used"]):
            self._heads[old * ways : old * ways + ways] = new * ways + np.arange(ways)

    def merge(
        self,
        bucket: BucketRecords,
        i: npt.NDArray[np.int64],
        j: npt.NDArray[np.int64],
        within: bool,
    ) -> Merged:
        """Merge the links between the rows i and j, which are -1 where a node is unknown."""
        known = (i >= 0) & (j >= 0)
        count_rows(self.links, "unknown", bucket.rows[~known], self.plan)
        heads = self._heads[bucket.heads[known]] if self.code.heads > 1 else None
        keys = self.code.pack(i[known], j[known], heads, within)
        before = self._count(keys)
        weights = None
        if bucket.weights is None and not self.strict:
            keys = sort_unique(keys)
        else:
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            first = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
            if self.strict:
                self._keep_examples(keys, bucket.rows[known][order], first, within)
            if bucket.weights is not None:
                weights = self._add_up(bucket.weights[known][order], first)
            keys = keys[first]
        after = self._count(keys)
        self._add("kept", after)
        self._add("duplicates", before - after)
        if within:
            self._add("loops", self._count(keys[self.code.is_loop(keys)]))
        return Merged(keys, weights)

    def _count(self, keys: Keys) -> npt.NDArray[np.int64]:
        """The number of links of each relation."""
        R = len(self.links["used"])
        if R == 1:
            return np.array([len(keys)])
        return np.bincount(self.code.relations(keys).astype(np.int64), minlength=R)

    def _add(self, name: str, counts: npt.NDArray[np.int64]) -> None:
        self.links[name] = (np.array(self.links[name]) + counts).tolist()

    def _add_up(self, weights: Weights, first: npt.NDArray[np.bool_]) -> Weights:
        """The sums of the weights of duplicates, in the order of the rows as `Links.merged`."""
        if not len(weights):
            return weights
        sums = np.bincount(np.cumsum(first) - 1, weights).astype(np.float32)
        low, high = self.links["range"] or (np.inf, 0.0)
        self.links["range"] = [min(low, float(sums.min())), max(high, float(sums.max()))]
        self.links["weight"] += float(sums.sum(dtype=np.float64))
        return sums

    def _keep_examples(
        self, keys: Keys, rows: Keys, first: npt.NDArray[np.bool_], within: bool
    ) -> None:
        """Keep the first rows of duplicate links and of self-loops."""
        keep_first(self.links, "duplicates", rows[~first], self.plan)
        if within:
            keep_first(self.links, "loops", rows[first & self.code.is_loop(keys)], self.plan)


def count_links(folder: Path, P: int) -> list[int]:
    """The number of links of each bucket, from the lengths of the files."""
    return [rows_in(folder / bucket_file(a, b), 8) for a, b in buckets(P)]


class BucketWriter:
    """Writes the buckets, those within a part last, with a self-loop at each node without links.

    Which nodes have links is on disk, one byte per node. Marking a node twice changes nothing, so
    an interrupted build may repeat it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.journal import open_journal
    >>> with TemporaryDirectory() as folder, open_journal(f"{folder}/store", {}) as journal:
    ...     keys = LinkCode().pack(np.array([0]), np.array([2]), None, within=True)
    ...     isolated = BucketWriter(journal, [3]).write(0, 0, keys)
    ...     isolated, np.load(journal.folder / "links/0000-0000.npy").tolist()
    (1, [[0, 2], [1, 1]])
    """

    def __init__(
        self, journal: Journal, sizes: npt.ArrayLike, code: LinkCode | None = None
    ) -> None:
        self._journal, self._sizes = journal, np.asarray(sizes).tolist()
        self._code = code or LinkCode()

    def write(self, a: int, b: int, keys: Keys, weights: Weights | None = None) -> int:
        """Write sorted links between two parts; the number of nodes that got a self-loop.

        The weight of such a self-loop is NaN.
        """
        isolated = np.empty(0, np.int64)
        (pairs, heads), journal = self._code.unpack(keys), self._journal
        if len(pairs):
            self._mark(a, pairs[:, 0])
            self._mark(b, pairs[:, 1])
        if a == b:
            isolated = np.flatnonzero(self._flags(a) == 0)
        if len(isolated):
            keys, weights = self._with_loops(keys, weights, isolated)
            pairs, heads = self._code.unpack(keys)
        journal.save(bucket_file(a, b), pairs)
        if heads is not None:
            journal.save(bucket_file(a, b, "heads.npy"), heads)
        else:  # from before the relations without links were left out
            (journal.folder / bucket_file(a, b, "heads.npy")).unlink(missing_ok=True)
        if weights is not None:
            journal.save(bucket_file(a, b, "weights.npy"), weights)
        return len(isolated)

    def _with_loops(
        self, keys: Keys, weights: Weights | None, nodes: npt.NDArray[np.int64]
    ) -> Merged:
        loops = self._code.pack(nodes, nodes, np.zeros_like(nodes), within=True)
        keys = np.concatenate([keys, loops])
        if weights is None:
            return Merged(sort_unique(keys), None)
        order = np.argsort(keys)
        weights = np.concatenate([weights, np.full(len(loops), np.nan, np.float32)])
        return Merged(keys[order], weights[order])

    def _mark(self, part: int, rows: npt.NDArray[np.uint32]) -> None:
        flags = self._flags(part)
        flags[rows] = 1
        # Not a memory map: on a full disk that kills the process instead of raising an error.
        with self._journal.replace(work_file(part, "linked")) as file:
            file.write(flags.data)

    def _flags(self, part: int) -> npt.NDArray[np.uint8]:
        if self._journal.has(name := work_file(part, "linked")):
            return np.fromfile(self._journal.folder / name, np.uint8)
        return np.zeros(self._sizes[part], np.uint8)


class HashIndex:
    """Finds the rows of hashes in parts; holds the hashes of two parts at a time.

    Hashes are uniform, so their highest bits tell where a hash is among the sorted ones: a table of
    these positions leaves a step or two to do, where a binary search does twenty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._load = lru_cache(2)(self._read)

    def find(self, part: int, keys: Keys) -> npt.NDArray[np.int64]:
        """The rows of hashes in a part, -1 for those that are not there."""
        known, order, starts = self._load(part)
        rows = np.full(len(keys), -1, dtype=np.int64)
        for start in range(0, len(keys) if len(known) else 0, CHUNK):
            chunk = keys[start : start + CHUNK]
            place = _place(known, starts, chunk)
            found = known[place] == chunk
            rows[start : start + CHUNK][found] = order[place[found]]
        return rows

    def _read(self, part: int) -> list[npt.NDArray[Any]]:
        names = (work_file(part, f"{name}.npy") for name in ("keys", "order"))
        known, order = (np.load(self._folder / name) for name in names)
        bits = max(1, len(known).bit_length())
        cells = np.bincount((known >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
        return [known, order, (np.cumsum(cells) - cells).astype(np.uint32)]


def _place(known: Keys, starts: npt.NDArray[np.uint32], keys: Keys) -> npt.NDArray[np.uint32]:
    """The position of the first of the sorted hashes that is not smaller, or the last position."""
    last, bits = len(known) - 1, len(starts).bit_length() - 1
    place: npt.NDArray[np.uint32] = starts[keys >> np.uint64(64 - bits)]
    np.minimum(place, last, out=place)
    behind = np.flatnonzero(known[place] < keys)
    while len(behind):
        place[behind] += 1
        behind = behind[place[behind] <= last]
        behind = behind[known[place[behind]] < keys[behind]]
    np.minimum(place, last, out=place)
    return place
