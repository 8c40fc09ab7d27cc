"""The network as ONNX operations: the folded MLP of each replica.

x → Gemm, LayerNormalization, LeakyRelu → h
h → Gemm, LayerNormalization, LeakyRelu, Gemm → logits
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linkdist.artifacts.manifest import OUTPUTS
from linkdist.artifacts.onnx_graph.graph import GraphBuilder, Untyped
from linkdist.data.graph import FloatArray, IntArray
from linkdist.kernels import EPSILON, SLOPE
from linkdist.model import Model
from linkdist.nn.network import Folded

WIDE = 512
"""With more features than this, most of which are zero, the first layer uses only some of them."""


def add_logits(
    graph: GraphBuilder, model: Model, x: str, *, neighbour: bool, order: IntArray | None = None
) -> list[str]:
    """Append the network and return the logits (n, R, C) of the own head, then of the others.

    Parameters
    ----------
    graph : GraphBuilder
        The graph.
    model : Model
        The network of R replicas.
    x : str
        Name of the features, (n, d).
    neighbour : bool
        Whether to append the neighbour heads.
    order : (d,) array, optional
        The place of each feature of x among those of the model, if most features are zero.
    """
    network = model.network
    halves = [Folded(network)]
    if neighbour:
        halves += [Folded(network, head) for head in network.neighbours]
    used = None if order is None or len(order) <= WIDE else _used_columns(graph, x)
    if used is not None:
        x = graph.add("Gather", x, used, axis=1)
    found: list[list[str]] = [[] for _ in halves]
    for r in range(network.first.weight.shape[0]):
        weight, bias = _replica(halves[0].first, r)
        weight = weight if order is None else np.ascontiguousarray(weight[order])
        rows = weight if used is None else graph.add("Gather", weight, used, axis=0)
        h = _activated(graph, graph.add("Gemm", x, rows, bias), halves[0].norms[:2], r)
        for half, parts in zip(halves, found, strict=True):
            y = graph.add("Gemm", h, *_replica(half.second, r))
            y = _activated(graph, y, half.norms[2:], r)
            z = graph.add("Gemm", y, *_replica(half.third, r))  # (n, C)
            parts.append(graph.add("Unsqueeze", z, np.array([1])))
    return [graph.add("Concat", *parts, axis=1) for parts in found]


def add_prediction(graph: GraphBuilder, model: Model, own: str) -> str:
    """Append the mean over replicas, (n, C), as an output."""
    mean = {"regression": None, "multilabel": "Sigmoid", "classification": "Softmax"}[model.task]
    share = own if mean is None else graph.add(mean, own, **_last_axis(mean))
    name = graph.add("ReduceMean", share, name=OUTPUTS[model.task][0], axes=[1], keepdims=0)
    graph.output(name, "FLOAT", len(model.classes))
    return name


def add_heads(graph: GraphBuilder, model: Model, logits: list[str]) -> None:
    """Append the outputs of both heads, which are added up over neighbours."""
    _, own_name, neighbour_name = OUTPUTS[model.task]
    own, *heads = logits
    R, C, K = model.alpha.shape[0], len(model.classes), len(heads)
    natural = "LogSoftmax" if model.task == "classification" else "Identity"
    graph.add(natural, own, name=own_name, **_last_axis(natural))
    graph.output(own_name, "FLOAT", R, C)
    if K > 1:
        each = [graph.add("Unsqueeze", head, np.array([2])) for head in heads]
        heads = [graph.add("Concat", *each, axis=2)]  # (n, R, K, C)
    graph.add(natural, heads[0], name=neighbour_name, **_last_axis(natural))
    graph.output(neighbour_name, "FLOAT", R, *([K] if K > 1 else []), C)


def _used_columns(graph: GraphBuilder, x: str) -> str:
    """The columns that are not zero in all rows: of one row, few."""
    largest = graph.add("ReduceMax", graph.add("Abs", x), axes=[0], keepdims=0)
    return graph.add("Squeeze", graph.add("NonZero", largest), np.array([0]))


def _activated(graph: GraphBuilder, x: str, norm: Untyped, r: int) -> str:
    scale, shift = (part.ravel() for part in _replica(norm, r))
    y = graph.add("LayerNormalization", x, scale, shift, epsilon=EPSILON)
    return graph.add("LeakyRelu", y, alpha=SLOPE)


def _last_axis(kind: str) -> Untyped:
    return {"axis": -1} if "Softmax" in kind else {}


def _replica(parts: Untyped, r: int) -> Iterator[FloatArray]:
    """One replica's share of weights (R, fan_in, fan_out) and rows (R, 1, width)."""
    for part in parts:
        yield part[r].cpu().contiguous().numpy()
