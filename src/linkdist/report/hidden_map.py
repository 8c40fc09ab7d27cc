"""The hidden layer as a map: nodes with similar hidden representations are close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from linkdist.data.graph import UNKNOWN, Graph, IntArray
from linkdist.nn.inputs import Inputs
from linkdist.nn.network import ForkedMLP

Array: TypeAlias = npt.NDArray[np.float64]

MAP_NODES = 1000
"""Largest number of nodes on the map of the hidden layer."""
TSNE_NODES = 30
"""Smallest number of nodes for t-SNE; fewer nodes are mapped by PCA."""
PCA_COMPONENTS = 50
"""Dimensions of the hidden layer that t-SNE starts from."""


class HiddenMap(NamedTuple):
    """Nodes in a plane: coordinates (k, 2), ids, classes, and whether the labels are known.

    `ordered` says whether the classes are groups of numbers in ascending order.
    """

    method: str
    places: Array
    ids: list[str]
    classes: IntArray
    known: npt.NDArray[np.bool_]
    ordered: bool = False


def map_hidden_layer(
    graph: Graph, network: ForkedMLP, inputs: Inputs, p: Array, ids: Sequence[Any]
) -> HiddenMap:
    """Map a random sample of the nodes.

    Parameters
    ----------
    graph : Graph
        The training graph.
    network : ForkedMLP
        The trained network.
    inputs : Inputs
        The features on the network's device.
    p : (n, C) array
        Predicted probabilities, for the classes of nodes without a label.
    ids : sequence
        The ids of the nodes.
    """
    known = graph.labels != UNKNOWN
    classes = np.where(known, graph.labels, p.argmax(axis=1))
    return map_nodes(network, inputs, ids, classes, known)


def map_nodes(
    network: ForkedMLP,
    inputs: Inputs,
    ids: Sequence[Any],
    classes: IntArray,
    known: npt.NDArray[np.bool_],
) -> HiddenMap:
    """Map a random sample of the n nodes, whose classes (n,) are known or predicted."""
    random, n = np.random.default_rng(0), len(classes)
    nodes = np.sort(random.choice(n, min(MAP_NODES, n), replace=False))
    return HiddenMap(
        "t-SNE" if len(nodes) >= TSNE_NODES else "PCA",
        project(_hidden(network, inputs, nodes)),
        [str(ids[i]) for i in nodes.tolist()],
        classes[nodes],
        known[nodes],
    )


@torch.no_grad()
def _hidden(network: ForkedMLP, inputs: Inputs, nodes: IntArray) -> Array:
    """Return the hidden layer (k, hidden) of the first replica."""
    R = network.first.weight.shape[0]
    rows = torch.from_numpy(nodes).to(inputs.device).expand(R, 1, -1)
    h: Array = network.trunk(network.first(inputs, rows))[0, 0].double().cpu().numpy()
    return h


def project(h: Array) -> Array:
    """Project vectors (k, f) to a plane (k, 2) by t-SNE, or by PCA if there are few.

    The result is deterministic.

    Examples
    --------
    >>> project(np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))[:, 0].round(6)
    array([ 2., -1., -1.])
    """
    h = np.where(np.isfinite(h), h, 0.0)
    if not np.ptp(h, axis=0).any():
        return np.zeros((len(h), 2))
    few = len(h) < TSNE_NODES
    # scikit-learn takes a second to import, and prediction does not need it.
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Several threads would sum in varying order, and they are slower for so few nodes.
    with threadpool_limits(1):
        x = PCA(min(2 if few else PCA_COMPONENTS, *h.shape), svd_solver="full").fit_transform(h)
        plane: Array = np.pad(x[:, :2], [(0, 0), (0, max(0, 2 - x.shape[1]))])
        if few:
            return plane
        init = 1e-4 * plane / plane[:, 0].std()  # the scale of scikit-learn's init="pca"
        perplexity = min(30.0, (len(h) - 1) / 3)
        tsne = TSNE(init=init, perplexity=perplexity, max_iter=500, random_state=0)
        places: Array = tsne.fit_transform(x).astype(np.float64)
    return places
