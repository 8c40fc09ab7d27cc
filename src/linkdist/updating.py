"""A model that follows its graph: new nodes and links arrive, old ones are rehearsed.

Training on links needs no more than links and the features at their ends. So a model can be brought
up to date by further optimisation on what is new, beside a sample of what was there before, its
`Memory`, without touching every node again. A memory holds

- at most `limit` old links, half of them at labelled nodes as far as there are so many, since it is
  these that say what the classes are, and the features and labels of their ends;
- the counts (`Tally`) of all that was ever seen, from which α, β and the class weights come.

An update takes a fixed share of the steps that training anew on everything would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse

from linkdist.coefficients import Tally, coefficients
from linkdist.errors import GraphError
from linkdist.fitting import Progress
from linkdist.graph import UNKNOWN, FeatureMatrix, Graph, IntArray
from linkdist.inference import Model
from linkdist.inputs import make_inputs
from linkdist.splits import View
from linkdist.training import BATCH, epochs_for, loop_on_links

LIMIT = 20_000
"""How many links a memory holds."""
SHARE = 0.125
"""Steps of an update, as a share of training anew."""
RATE = 0.003
"""Adam's learning rate in an update: the weights are good already."""


@dataclass(frozen=True)
class Memory:
    """What a model keeps of the graph it was trained on.

    Attributes
    ----------
    graph : Graph
        The sample: some links, the nodes at their ends.
    tally : Tally
        Counts of all that was seen.
    """

    graph: Graph
    tally: Tally


def remember(graph: Graph, seed: int, limit: int = LIMIT) -> Memory:
    """Keep a sample of a graph's links, and its counts.

    Parameters
    ----------
    graph : Graph
        Its known labels are those that training may see.
    seed : int
        Of the sample.
    limit : int, optional
        How many links to keep.

    Examples
    --------
    >>> graph = Graph.build(np.eye(4), [(0, 1), (1, 2), (2, 3)], [0, 1, -1, -1])
    >>> memory = remember(graph, seed=0, limit=2)
    >>> len(memory.graph.links), memory.tally.nodes
    (2, 4)
    """
    sample = _induced(graph, _picked(graph, graph.links, [seed], limit))
    return Memory(sample, Tally.of(_whole_view(graph)))


def update(
    model: Model,
    memory: Memory,
    graph: Graph,
    *,
    method: str = "colinkdist",
    seed: int = 0,
    epochs: int | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
) -> Memory:
    """Train a model further, in place, on new nodes and links beside its memory.

    Parameters
    ----------
    model : Model
        Its network is trained, its α replaced.
    memory : Memory
        Of what it was trained on.
    graph : Graph
        What is new: nodes, links among them, labels where known. Old nodes that new links lead
        to come along as nodes.
    method : {'colinkdist', 'linkdist'}
        As in training.
    seed : int, optional
        Of the order of links, Dropout and the new memory.
    epochs : int, optional
        Passes over new and remembered links; by default as many as make an eighth of the steps
        of training anew.
    limit : int, optional
        How many links the new memory holds.
    progress : callable, optional
        Called with epochs done and epochs in all.

    Returns
    -------
    Memory
        Of everything, the new included.
    """
    if graph.classes != model.classes:
        raise GraphError(
            f"an update must have the model's classes {', '.join(model.classes)}; "
            f"found {', '.join(graph.classes)}."
        )
    joined = _joined(memory.graph, graph)
    tally = memory.tally + Tally.of(_whole_view(graph))
    network = model.network
    device, R = network.first.weight.device, network.first.weight.shape[0]
    view = _whole_view(joined)
    seeds = [int(s) for s in np.random.SeedSequence(seed).generate_state(R)]
    by = coefficients([tally] * R, None, device)
    inputs = make_inputs(joined.features, device)
    loop = loop_on_links(network, inputs, [view] * R, seeds, by, method, rate=RATE)
    total = epochs if epochs is not None else _epochs(tally, loop.steps)
    loop.run(total, None if progress is None else lambda epoch: progress(epoch + 1, total))
    with torch.no_grad():
        model.alpha.copy_(by.alpha)
    return Memory(_resampled(memory, graph, joined, seed, limit), tally)


def _epochs(tally: Tally, steps: int) -> int:
    edges = tally.ends // 2
    anew = epochs_for(edges / tally.nodes) * edges / BATCH
    return max(1, round(SHARE * anew / steps))


def _whole_view(graph: Graph) -> View:
    """All of a graph, with all its known labels."""
    return View(graph.features, np.arange(graph.n), graph.edges, graph.labels, graph.C)


def _joined(old: Graph, new: Graph) -> Graph:
    """Two graphs side by side."""
    return replace(
        new,
        features=_stacked([old.features, new.features]),
        links=np.concatenate([old.links, new.links + old.n]),
        labels=np.concatenate([old.labels, new.labels]),
    )


def _stacked(parts: Sequence[FeatureMatrix]) -> FeatureMatrix:
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")
    return np.concatenate(parts)


def _picked(graph: Graph, links: IntArray, seed: Sequence[int], limit: int) -> IntArray:
    """At most `limit` of the links, those at labelled nodes first for half of the places."""
    if len(links) <= limit:
        return links
    order = np.random.default_rng(seed).permutation(len(links))
    labelled = (graph.labels[links[order]] != UNKNOWN).any(axis=1)
    half = limit // 2
    first, rest = order[labelled][:half], order[labelled][half:]
    chosen: IntArray = links[np.concatenate([first, order[~labelled], rest])[:limit]]
    return chosen


def _induced(graph: Graph, links: IntArray) -> Graph:
    """The links' own nodes, renumbered."""
    nodes, places = np.unique(links, return_inverse=True)
    return replace(
        graph,
        features=graph.features[nodes],
        links=places.reshape(links.shape),
        labels=graph.labels[nodes],
    )


def _resampled(memory: Memory, new: Graph, joined: Graph, seed: int, limit: int) -> Graph:
    """A sample of old and new links, each in proportion to how many links it stands for."""
    count, old, fresh = len(memory.graph.links), memory.tally.ends, 2 * len(new.edges)
    places = min(count, round(limit * old / (old + fresh)))
    kept = np.random.default_rng([seed, 1]).permutation(count)[:places]
    added = _picked(joined, joined.links[count:], [seed, 2], limit - places)
    return _induced(joined, np.concatenate([joined.links[kept], added]))
