"""The replay buffer: a bounded sample of the links that a model was trained on.

A replay buffer has

- at most `limit` links, a share of them at labelled nodes, and the features and labels of their
  ends;
- the validation nodes of each replica, which also select the weights of an update;
- the counts (`Tally`) of all data so far, which determine α, β and the class weights.
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
from linkdist.training.link_task import Tally, epochs_for

LIMIT = 20_000
"""Number of links in a replay buffer."""
LABELLED = 0.1
"""Share of them that is reserved for links at labelled nodes."""
VALIDATION = 2_000
"""Number of validation nodes in a replay buffer, for each replica."""

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ReplayBuffer:
    """A sample of the data that a model was trained on.

    Attributes
    ----------
    graph : Graph
        The sample: some links, the nodes at their ends, the validation nodes.
    held : (R, n) bool array
        The validation nodes of each replica in the sample.
    tally : Tally
        Counts of all data so far.
    schedule : int
        Number of epochs of a new training.
    """

    graph: Graph
    held: Mask
    tally: Tally
    schedule: int


def make_replay_buffer(
    graph: Graph, splits: Sequence[Split], seed: int, limit: int = LIMIT
) -> ReplayBuffer:
    """Sample the links of a graph, and count all of them.

    Parameters
    ----------
    graph : Graph
        The data of the training.
    splits : sequence of Split
        One for each replica; the buffer includes their validation nodes.
    seed : int
        Random seed of the sample.
    limit : int, optional
        Number of links in the sample.

    Examples
    --------
    >>> graph = Graph.build(np.eye(4), [(0, 1), (1, 2), (2, 3)], [0, 1, -1, -1])
    >>> split = Split(np.array([0]), np.array([1]), np.array([], dtype=int))
    >>> buffer = make_replay_buffer(graph, [split], seed=0, limit=2)
    >>> len(buffer.graph.links), buffer.tally.nodes
    (2, 4)
    """
    held = np.zeros((len(splits), graph.n), dtype=bool)
    for row, split in zip(held, splits, strict=True):
        # A random sample: a table may be sorted by class.
        row[np.random.default_rng([seed, 3]).permutation(split.validation)[:VALIDATION]] = True
    links = _picked(graph, graph.links, [seed], limit)
    sample, nodes = _induced(graph, links, held)
    taught = replace(graph, labels=np.where(_by_all(held), UNKNOWN, graph.labels))
    tally = Tally.of(whole_view(taught))
    return ReplayBuffer(sample, held[:, nodes], tally, epochs_for(graph.degree))


def _by_all(held: Mask) -> Mask:
    """The nodes that are validation nodes of all replicas, which no replica learns from."""
    nobody = np.zeros(held.shape[1], dtype=bool)
    return np.logical_and.reduce(held, axis=0) if len(held) else nobody


def whole_view(graph: Graph) -> View:
    """A view of the whole graph with all known labels."""
    return View(graph.features, np.arange(graph.n), graph.edges, graph.labels, graph.C)


class Joined(NamedTuple):
    """The sample of a replay buffer and new data in one graph, and the validation nodes."""

    graph: Graph
    held: Mask


def joined(buffer: ReplayBuffer, new: Graph) -> Joined:
    """Join the sample of a replay buffer and new data."""
    old = buffer.graph
    graph = replace(
        new,
        features=stacked([old.features, new.features]),
        links=np.concatenate([old.links, new.links + old.n]),
        labels=np.concatenate([old.labels, new.labels]),
    )
    return Joined(graph, np.pad(buffer.held, ((0, 0), (0, new.n))))


def _picked(graph: Graph, links: IntArray, seed: Sequence[int], limit: int) -> IntArray:
    """At most `limit` of the links: a share at labelled nodes, the others at random."""
    if len(links) <= limit:
        return links
    order = np.random.default_rng(seed).permutation(len(links))
    labelled = (graph.labels[links[order]] != UNKNOWN).any(axis=1)
    sure = round(LABELLED * limit)
    first, rest = order[labelled][:sure], np.delete(order, np.flatnonzero(labelled)[:sure])
    chosen: IntArray = links[np.concatenate([first, rest])[:limit]]
    return chosen


def _induced(graph: Graph, links: IntArray, held: Mask) -> tuple[Graph, IntArray]:
    """The graph of some links and the validation nodes, and the old numbers of its nodes."""
    nodes = np.union1d(links, np.flatnonzero(held.any(axis=0)))
    sample = replace(
        graph,
        features=graph.features[nodes],
        links=np.searchsorted(nodes, links),
        labels=graph.labels[nodes],
    )
    return sample, nodes


def resampled(
    buffer: ReplayBuffer, new: Graph, joined: Joined, seed: int, limit: int
) -> ReplayBuffer:
    """Sample old and new links in proportion to the number of links that each represents."""
    whole, held = joined
    count, old, fresh = len(buffer.graph.links), buffer.tally.ends, 2 * len(new.edges)
    places = min(count, round(limit * old / (old + fresh)))
    kept = np.random.default_rng([seed, 1]).permutation(count)[:places]
    added = _picked(whole, whole.links[count:], [seed, 2], limit - places)
    sample, nodes = _induced(whole, np.concatenate([whole.links[kept], added]), held)
    tally = buffer.tally + Tally.of(whole_view(new))
    return ReplayBuffer(sample, held[:, nodes], tally, buffer.schedule)


def pack(buffer: ReplayBuffer) -> dict[str, Tensor]:
    """A replay buffer as named tensors.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> sorted(pack(make_replay_buffer(graph, [], seed=0)))
    ['counts', 'features', 'held', 'labels', 'links', 'of_ends', 'of_nodes']
    """
    graph, tally = buffer.graph, buffer.tally
    arrays = {
        "links": graph.links,
        "labels": graph.labels,
        "held": buffer.held.astype(np.uint8),
        "counts": np.array([tally.nodes, tally.ends, buffer.schedule]),
        "of_nodes": tally.of_nodes,
        "of_ends": tally.of_ends,
        **feature_arrays(graph.features),
    }
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def feature_arrays(x: FeatureMatrix) -> dict[str, npt.NDArray[Any]]:
    """Features as named arrays: one array, or the parts of a CSR matrix.

    Examples
    --------
    >>> list(feature_arrays(sparse.csr_matrix(np.eye(2))))
    ['data', 'indices', 'indptr', 'shape']
    """
    if isinstance(x, np.ndarray):
        return {"features": x}
    parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr}
    return {**parts, "shape": np.array(x.shape)}


def unpack(tensors: Mapping[str, Tensor], classes: tuple[str, ...]) -> ReplayBuffer:
    """A replay buffer from the tensors that `pack` returned.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> unpack(pack(make_replay_buffer(graph, [], seed=0)), graph.classes).tally.nodes
    3
    """
    try:
        found: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        nodes, ends, schedule = found["counts"].tolist()
        tally = Tally(nodes, ends, found["of_nodes"], found["of_ends"])
        graph = Graph.build(_features(found), found["links"], found["labels"], classes)
        held = found["held"].astype(bool)
        if held.ndim != 2 or held.shape[1] != graph.n:
            raise ValueError(f"validation nodes must be {graph.n}; found shape {held.shape}")
    except (KeyError, ValueError) as error:
        raise ModelError(
            f"the replay buffer of the model is not valid ({error}). Copy the model again, or "
            "train again."
        ) from error
    return ReplayBuffer(graph, held, tally, schedule)


def _features(found: Mapping[str, Any]) -> FeatureMatrix:
    if "features" in found:
        return found["features"]
    parts = (found["data"], found["indices"], found["indptr"])
    x = sparse.csr_matrix(parts, tuple(found["shape"]))
    # SciPy does not check every index by default, and compiled loops do not check any.
    x.check_format(full_check=True)
    return x
