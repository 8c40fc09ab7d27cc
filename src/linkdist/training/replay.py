"""Update a model with new nodes and links, beside a replay buffer of old ones.

Training on links only needs links and the features at their ends. So a model can be updated by
training on the new links together with a sample of the old ones, its `ReplayBuffer`, without
reading every node again. A replay buffer has

- at most `limit` links, a share of them at labelled nodes, and the features and labels of their
  ends;
- the validation nodes of each replica, which also select the weights of an update;
- the counts (`Tally`) of all data so far, which determine α, β and the class weights.

An update takes a fixed share of the steps of a new training, averages the weights, and ends with
the average that has the highest accuracy on the validation nodes of each replica; this may be the
initial state. A SelfLinkDist model is updated by CoLinkDist: its own predictions of new nodes, as
targets, made it worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linkdist.data.csr import checked_csr
from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray, stacked, with_links
from linkdist.data.links import LINKS, Links
from linkdist.data.splits import Split, View
from linkdist.errors import GraphError, ModelError
from linkdist.model import Model
from linkdist.nn.inputs import Inputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.nn.optim import Average
from linkdist.progress import Progress
from linkdist.training.history import Snapshot
from linkdist.training.link_task import VISITS, Tally, coefficients, epochs_for, loop_on_links
from linkdist.training.loop import BATCH

LIMIT = 20_000
"""Number of links in a replay buffer."""
LABELLED = 0.1
"""Share of them that is reserved for links at labelled nodes."""
VALIDATION = 2_000
"""Number of validation nodes in a replay buffer, for each replica."""
SHARE = 0.06
"""Number of steps of an update, as a share of those of a new training."""
RATE = 0.003
"""Adam's learning rate in an update, lower than in training: the weights are good already."""

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
    if graph.task != "classification":  # the buffer then has features and links only
        graph = replace(graph, labels=np.full(graph.n, UNKNOWN), task="classification")
    chosen = _picked(graph, np.arange(len(graph.links)), [seed], limit)
    sample, nodes = _induced(graph, chosen, held)
    # No replica learns from a node that is a validation node of all of them.
    never = held.all(axis=0) if len(held) else np.zeros(graph.n, dtype=bool)
    taught = replace(graph, labels=np.where(never, UNKNOWN, graph.labels))
    tally = Tally.of(_whole_view(taught))
    return ReplayBuffer(sample, held[:, nodes], tally, epochs_for(graph.degree))


def _whole_view(graph: Graph) -> View:
    """A view of the whole graph with all known labels."""
    edges = graph.all_edges
    common = (graph.features, np.arange(graph.n), edges.pairs, graph.labels, graph.C)
    return View(*common, edges.heads, edges.weights, graph.directed)


def _joined(buffer: ReplayBuffer, new: Graph) -> tuple[Graph, Mask]:
    """The sample of a replay buffer and new data in one graph, and the validation nodes."""
    old = buffer.graph
    graph = replace(
        new,
        features=stacked([old.features, new.features]),
        labels=np.concatenate([old.labels, new.labels]),
    )
    graph = with_links(graph, old.all_links.joined(new.all_links, old.n))
    return graph, np.pad(buffer.held, ((0, 0), (0, new.n)))


def _picked(graph: Graph, links: IntArray, seed: Sequence[int], limit: int) -> IntArray:
    """At most `limit` of some links, given by their indices: a share at labelled nodes."""
    if len(links) <= limit:
        return links
    order = np.random.default_rng(seed).permutation(len(links))
    labelled = (graph.labels[graph.links[links[order]]] != UNKNOWN).any(axis=1)
    sure = round(LABELLED * limit)
    first, rest = order[labelled][:sure], np.delete(order, np.flatnonzero(labelled)[:sure])
    chosen: IntArray = links[np.concatenate([first, rest])[:limit]]
    return chosen


def _induced(graph: Graph, chosen: IntArray, held: Mask) -> tuple[Graph, IntArray]:
    """The graph of some links and the validation nodes, and the old numbers of its nodes."""
    links = graph.all_links.take(chosen)
    nodes = np.union1d(links.pairs, np.flatnonzero(held.any(axis=0)))
    sample = replace(graph, features=graph.features[nodes], labels=graph.labels[nodes], groups=None)
    return with_links(sample, replace(links, pairs=np.searchsorted(nodes, links.pairs))), nodes


def _resampled(
    buffer: ReplayBuffer, new: Graph, whole: Graph, held: Mask, seed: int, limit: int
) -> ReplayBuffer:
    """Sample old and new links in proportion to the number of links that each represents."""
    count, old, fresh = len(buffer.graph.links), buffer.tally.ends, 2 * len(new.edges)
    old_links = min(count, round(limit * old / (old + fresh)))
    kept = np.random.default_rng([seed, 1]).permutation(count)[:old_links]
    new_links = np.arange(count, len(whole.links))
    added = _picked(whole, new_links, [seed, 2], limit - old_links)
    sample, nodes = _induced(whole, np.concatenate([kept, added]), held)
    tally = buffer.tally + Tally.of(_whole_view(new))
    return ReplayBuffer(sample, held[:, nodes], tally, buffer.schedule)


def update(
    model: Model,
    buffer: ReplayBuffer,
    graph: Graph,
    *,
    method: str = "colinkdist",
    seed: int = 0,
    epochs: int | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
) -> ReplayBuffer:
    """Train a model further, in place, on new nodes and links and on its replay buffer.

    Parameters
    ----------
    model : Model
        Its weights are updated in place, and its α is replaced.
    buffer : ReplayBuffer
        A sample of the data that the model was trained on.
    graph : Graph
        The new nodes, the links among them, and the known labels. Old nodes at new links are
        included as nodes.
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        The method of the training; SelfLinkDist is updated by CoLinkDist.
    seed : int, optional
        Random seed for the order of links, Dropout and the new replay buffer.
    epochs : int, optional
        Passes over new and old links; by default a small share of the steps of a new training.
    limit : int, optional
        Number of links in the new replay buffer.
    progress : callable, optional
        Called with the number of completed epochs and the total number of epochs.

    Returns
    -------
    ReplayBuffer
        A sample of all data, including the new.
    """
    if model.task != "classification":
        raise ModelError(
            f"a model for {model.task} cannot be updated. Train again on the old and new tables."
        )
    if graph.classes != model.classes:
        raise GraphError(
            f"an update must have the model's classes {', '.join(model.classes)}; "
            f"found {', '.join(graph.classes)}."
        )
    _check_sizes(model, buffer)
    whole, held = _joined(buffer, graph)
    new = _resampled(buffer, graph, whole, held, seed, limit)
    network = model.network
    device, R = network.first.weight.device, len(network.first.weight)
    views = [
        replace(_whole_view(whole), labels=np.where(row, UNKNOWN, whole.labels)) for row in held
    ]
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(R)]
    weights = coefficients([new.tally] * R, None, device)
    inputs, average = make_inputs(whole.features, device), Average(network)
    loss = "colinkdist" if method == "selflinkdist" else method
    loop = loop_on_links(network, inputs, views, seeds, weights, loss, rate=RATE, average=average)
    new_training = buffer.schedule * (new.tally.ends // 2) / BATCH  # steps
    total = epochs if epochs is not None else max(1, round(SHARE * new_training / loop.steps))
    selection = _Selection(average.network, inputs, whole.labels, held)

    def after_epoch(epoch: int) -> None:
        selection.evaluate()
        if progress is not None:
            progress(epoch + 1, total)

    selection.evaluate()
    loop.run(total, after_epoch)
    selection.restore()
    network.load_state_dict(average.network.state_dict())
    if method != "selflinkdist":  # calibration chose its α
        with torch.no_grad():
            K = model.alpha.shape[1]
            model.alpha.copy_(weights.alpha.unsqueeze(1).expand(-1, K) / K)
    return new


def _check_sizes(model: Model, buffer: ReplayBuffer) -> None:
    """Raise an error for the replay buffer of another model, whose arrays have other sizes."""
    R, d, _ = model.network.first.weight.shape
    if (len(buffer.held), buffer.graph.d) != (R, d):
        raise ModelError(
            f"the replay buffer of the model is not valid: it must have {R} replicas and {d} "
            f"features; found {len(buffer.held)} and {buffer.graph.d}. Copy the model again, or "
            "train again."
        )


class _Selection:
    """Keeps the best weights of each replica by its accuracy on its validation nodes.

    Without validation nodes, the last weights stay.
    """

    def __init__(self, network: ForkedMLP, inputs: Inputs, labels: IntArray, held: Mask) -> None:
        self.network, self.inputs = network, inputs
        nodes = np.flatnonzero(held.any(axis=0))
        self.rows = torch.from_numpy(nodes).to(inputs.device).expand(len(held), 1, -1)
        self.truth = torch.from_numpy(labels[nodes]).to(inputs.device)
        self.counts = torch.from_numpy(held[:, nodes]).to(inputs.device)
        self.best = torch.full((len(held),), -1, device=inputs.device)
        self.kept = Snapshot(network)

    @torch.no_grad()
    def evaluate(self) -> None:
        """Score the current weights, and keep them if they are at least as good as the best."""
        if not self.rows.numel():
            return
        z, _ = self.network(self.inputs, self.rows)
        hits = ((z.squeeze(1).argmax(-1) == self.truth) & self.counts).sum(-1)
        self.kept.keep(hits >= self.best)
        self.best = torch.maximum(self.best, hits)

    def restore(self) -> None:
        """Copy the best weights back into the network."""
        if self.rows.numel():
            self.kept.restore()


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
    links = {"relation": graph.link_relation, "link_weights": graph.link_weights}
    arrays |= {name: part for name, part in links.items() if part is not None}
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}


def feature_arrays(x: FeatureMatrix) -> dict[str, npt.NDArray[Any]]:
    """Features as named arrays: one array, or the parts of a CSR matrix.

    Examples
    --------
    >>> from scipy import sparse
    >>> list(feature_arrays(sparse.csr_matrix(np.eye(2))))
    ['data', 'indices', 'indptr', 'shape']
    """
    if isinstance(x, np.ndarray):
        return {"features": x}
    parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr}
    return {**parts, "shape": np.array(x.shape)}


def unpack(
    tensors: Mapping[str, Tensor],
    classes: tuple[str, ...],
    relations: tuple[str, ...] = LINKS,
    directed: bool = False,
) -> ReplayBuffer:
    """A replay buffer from the tensors that `pack` returned.

    Examples
    --------
    >>> graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, -1])
    >>> unpack(pack(make_replay_buffer(graph, [], seed=0)), graph.classes).tally.nodes
    3
    """
    try:
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        tally, schedule = _tally(arrays, len(classes))
        parts = (arrays.get("relation"), arrays.get("link_weights"), relations, directed)
        links = Links(arrays["links"], *parts)
        graph = Graph.build(_features(arrays), links, arrays["labels"], classes)
        held = arrays["held"].astype(bool)
        if held.ndim != 2 or held.shape[1] != graph.n:
            raise ValueError(f"validation nodes must be {graph.n}; found shape {held.shape}")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the replay buffer of the model is not valid ({error}). Copy the model again, or "
            "train again."
        ) from error
    return ReplayBuffer(graph, held, tally, schedule)


def _features(arrays: Mapping[str, Any]) -> FeatureMatrix:
    if "features" in arrays:
        return arrays["features"]
    return checked_csr(*(arrays[name] for name in ("data", "indices", "indptr", "shape")))


def _tally(arrays: Mapping[str, Any], C: int) -> tuple[Tally, int]:
    """The counts of all data, and the number of epochs of a new training."""
    counts, *of_classes = (arrays[name] for name in ("counts", "of_nodes", "of_ends"))
    for part, shape in zip((counts, *of_classes), ((3,), (C,), (C,)), strict=True):
        if part.shape != shape or part.dtype.kind != "i" or (part < 0).any():
            raise ValueError(f"counts must be {shape[0]} integers of 0 or more; found {part}")
    nodes, ends, schedule = counts.tolist()
    known, at_known = (sum(part.tolist()) for part in of_classes)
    # The average degree of a graph with links is at least 1 / n.
    if known > nodes or at_known > ends or schedule > VISITS * max(nodes, 1):
        found = f"{known} of {nodes} nodes, {at_known} of {ends} ends of links"
        raise ValueError(f"counts must be consistent; found {found} and {schedule} epochs")
    return Tally(nodes, ends, *of_classes), schedule
