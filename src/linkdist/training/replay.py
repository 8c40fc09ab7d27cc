"""A bounded sample of the links that a model was trained on, and counts of all of them.

A memory holds

- at most `limit` links, some of them at labelled nodes for sure, since it is these that say what
  the classes are, and the features and labels of their ends;
- the labelled nodes that each replica held out, which choose the epoch of an update, too;
- the counts (`Tally`) of all that was ever seen, from which α, β and the class weights come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray, stacked
from linkdist.data.splits import Split, View
from linkdist.errors import ModelError
from linkdist.training.coefficients import Tally
from linkdist.training.loop import epochs_for

LIMIT = 20_000
"""How many links a memory holds."""
SURE = 0.1
"""Share of them that are sure to be at labelled nodes, as far as there are so many."""
HELD = 2_000
"""How many held-out nodes a replica keeps."""

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Memory:
    """What a model keeps of the graph it was trained on.

    Attributes
    ----------
    graph : Graph
        The sample: some links, the nodes at their ends, the held-out nodes.
    held : (R, n) bool array
        Which nodes of the sample each replica holds out.
    tally : Tally
        Counts of all that was seen.
    schedule : int
        Passes over the links that training anew would take.
    """

    graph: Graph
    held: Mask
    tally: Tally
    schedule: int


def remember(graph: Graph, splits: Sequence[Split], seed: int, limit: int = LIMIT) -> Memory:
    """Keep a sample of a graph's links, and its counts.

    Parameters
    ----------
    graph : Graph
        What training saw.
    splits : sequence of Split
        One a replica; the validation nodes are those held out.
    seed : int
        Of the sample.
    limit : int, optional
        How many links to keep.

    Examples
    --------
    >>> graph = Graph.build(np.eye(4), [(0, 1), (1, 2), (2, 3)], [0, 1, -1, -1])
    >>> split = Split(np.array([0]), np.array([1]), np.array([], dtype=int))
    >>> memory = remember(graph, [split], seed=0, limit=2)
    >>> len(memory.graph.links), memory.tally.nodes
    (2, 4)
    """
    held = np.zeros((len(splits), graph.n), dtype=bool)
    for row, split in zip(held, splits, strict=True):
        # At random: a table may be sorted by class.
        row[np.random.default_rng([seed, 3]).permutation(split.validation)[:HELD]] = True
    links = _picked(graph, graph.links, [seed], limit)
    sample, nodes = _induced(graph, links, held)
    taught = replace(graph, labels=np.where(_by_all(held), UNKNOWN, graph.labels))
    tally = Tally.of(whole_view(taught))
    return Memory(sample, held[:, nodes], tally, epochs_for(graph.degree))


def _by_all(held: Mask) -> Mask:
    """The nodes that no replica learns from."""
    nobody = np.zeros(held.shape[1], dtype=bool)
    return np.logical_and.reduce(held, axis=0) if len(held) else nobody


def whole_view(graph: Graph) -> View:
    """All of a graph, with all its known labels."""
    return View(graph.features, np.arange(graph.n), graph.edges, graph.labels, graph.C)


class Joined(NamedTuple):
    """A memory's sample and what is new, side by side, and who is held out."""

    graph: Graph
    held: Mask


def joined(memory: Memory, new: Graph) -> Joined:
    """Put what is new beside a memory's sample."""
    old = memory.graph
    graph = replace(
        new,
        features=stacked([old.features, new.features]),
        links=np.concatenate([old.links, new.links + old.n]),
        labels=np.concatenate([old.labels, new.labels]),
    )
    return Joined(graph, np.pad(memory.held, ((0, 0), (0, new.n))))


def _picked(graph: Graph, links: IntArray, seed: Sequence[int], limit: int) -> IntArray:
    """At most `limit` of the links: some at labelled nodes, the others at random."""
    if len(links) <= limit:
        return links
    order = np.random.default_rng(seed).permutation(len(links))
    labelled = (graph.labels[links[order]] != UNKNOWN).any(axis=1)
    sure = round(SURE * limit)
    first, rest = order[labelled][:sure], np.delete(order, np.flatnonzero(labelled)[:sure])
    chosen: IntArray = links[np.concatenate([first, rest])[:limit]]
    return chosen


def _induced(graph: Graph, links: IntArray, held: Mask) -> tuple[Graph, IntArray]:
    """The links' own nodes and the held-out ones, renumbered; and which they are."""
    nodes = np.union1d(links, np.flatnonzero(held.any(axis=0)))
    sample = replace(
        graph,
        features=graph.features[nodes],
        links=np.searchsorted(nodes, links),
        labels=graph.labels[nodes],
    )
    return sample, nodes


def resampled(memory: Memory, new: Graph, joined: Joined, seed: int, limit: int) -> Memory:
    """Of old and new links together, each in proportion to how many links it stands for."""
    whole, held = joined
    count, old, fresh = len(memory.graph.links), memory.tally.ends, 2 * len(new.edges)
    places = min(count, round(limit * old / (old + fresh)))
    kept = np.random.default_rng([seed, 1]).permutation(count)[:places]
    added = _picked(whole, whole.links[count:], [seed, 2], limit - places)
    sample, nodes = _induced(whole, np.concatenate([whole.links[kept], added]), held)
    tally = memory.tally + Tally.of(whole_view(new))
    return Memory(sample, held[:, nodes], tally, memory.schedule)


def pack(memory: Memory) -> dict[str, Tensor]:
    """A memory as named tensors.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> sorted(pack(remember(graph, [], seed=0)))
    ['counts', 'features', 'held', 'labels', 'links', 'of_ends', 'of_nodes']
    """
    graph, tally = memory.graph, memory.tally
    arrays = {
        "links": graph.links,
        "labels": graph.labels,
        "held": memory.held.astype(np.uint8),
        "counts": np.array([tally.nodes, tally.ends, memory.schedule]),
        "of_nodes": tally.of_nodes,
        "of_ends": tally.of_ends,
        **feature_arrays(graph.features),
    }
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def feature_arrays(x: FeatureMatrix) -> dict[str, npt.NDArray[Any]]:
    """Features as arrays by name: one, or the parts of a CSR matrix.

    Examples
    --------
    >>> list(feature_arrays(sparse.csr_matrix(np.eye(2))))
    ['data', 'indices', 'indptr', 'shape']
    """
    if isinstance(x, np.ndarray):
        return {"features": x}
    parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr}
    return {**parts, "shape": np.array(x.shape)}


def unpack(tensors: Mapping[str, Tensor], classes: tuple[str, ...]) -> Memory:
    """A memory from what `pack` gave.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> unpack(pack(remember(graph, [], seed=0)), graph.classes).tally.nodes
    3
    """
    try:
        found: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        x = found.get("features")
        if x is None:
            parts = (found["data"], found["indices"], found["indptr"])
            x = sparse.csr_matrix(parts, tuple(found["shape"]))
        nodes, ends, schedule = found["counts"].tolist()
        tally = Tally(nodes, ends, found["of_nodes"], found["of_ends"])
        graph = Graph.build(x, found["links"], found["labels"], classes)
    except (KeyError, ValueError) as error:
        raise ModelError(
            f"the sample of old links is not one ({error}). Copy the model again, or train again."
        ) from error
    held = found["held"].astype(bool)
    if held.ndim != 2 or held.shape[1] != graph.n:
        raise ModelError(f"held-out nodes must be {graph.n}; found shape {held.shape}.")
    return Memory(graph, held, tally, schedule)
