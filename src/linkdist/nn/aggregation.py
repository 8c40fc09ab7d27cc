"""Sums and means over the neighbours of a node.

Prediction with links needs the mean over the neighbours of every node; a GCN needs the mean of a
node and its neighbours, Â x. Each is P x with a sparse matrix P made from the adjacency matrix A,
and its gradient is Pᵀ g. The replicas share one graph, or each has its own links and P is
block-diagonal. With weights, the entries of A are the weights of the links.

`Neighbours` are those of one head, `Relations` those of all K heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import FloatArray, Graph, IntArray
from linkdist.data.links import Edges, Links
from linkdist.kernels import Context, apply, sparse_product, uses_triton
from linkdist.nn.inputs import csr_tensor


class Neighbours:
    """The directed edges of one graph for all replicas, or of one graph for each.

    Parameters
    ----------
    edges : sequence of (e, 2) int arrays
        One array for all replicas, or one for each. Self-loops are ignored: a node is not its own
        neighbour.
    n : int
        Number of nodes of each graph.
    device : torch.device
        Where the sums are computed.
    weights : sequence of (e,) float32 arrays, optional
        The weights of the edges.
    symmetric : bool, optional
        Whether the edges contain each link in both directions, with the same weight.

    Examples
    --------
    >>> path = Neighbours([np.array([[0, 1], [1, 0], [1, 2], [2, 1]])], 3, torch.device("cpu"))
    >>> x = torch.tensor([[[1.0], [2.0], [4.0]]])
    >>> path.sum(x).flatten(), path.mean(x).flatten()
    (tensor([2., 5., 2.]), tensor([2.0000, 2.5000, 2.0000]))
    """

    def __init__(
        self,
        edges: Sequence[IntArray],
        n: int,
        device: torch.device,
        weights: Sequence[FloatArray] | None = None,
        symmetric: bool = True,
    ) -> None:
        self.graphs = len(edges)
        shift = np.arange(self.graphs) * n
        joined = np.concatenate([e + first for e, first in zip(edges, shift, strict=True)])
        proper = joined[:, 0] != joined[:, 1]
        entries = np.ones(len(joined)) if weights is None else np.concatenate(weights)
        entries, joined = entries[proper].astype(np.float32), joined[proper]
        size = self.graphs * n
        self.adjacency = sparse.csr_matrix((entries, (joined[:, 0], joined[:, 1])), (size, size))
        self.symmetric = symmetric
        self.degree: FloatArray = np.diff(self.adjacency.indptr).astype(np.float32)
        if weights is not None:
            self.degree = np.asarray(self.adjacency.sum(axis=1), dtype=np.float32).ravel()
        self.device = device
        linked = torch.from_numpy(self.degree > 0).to(device)
        self.linked = linked.view(self.graphs, n, 1)  # which nodes have a neighbour

    def sum(self, x: Tensor) -> Tensor:
        """Σ_j x_j over each node's neighbours, (R, n, f) → (R, n, f)."""
        return self._propagate(x, *self._sum)

    def sum_transposed(self, x: Tensor) -> Tensor:
        """Σ_j x_j over the nodes whose neighbour a node is."""
        return self._propagate(x, *self._sum[::-1])

    def mean(self, x: Tensor) -> Tensor:
        """The mean over each node's neighbours, 0 for a node without neighbours."""
        return self._propagate(x, *self._mean)

    def smooth(self, x: Tensor) -> Tensor:
        """Â x with Â = (D + I)⁻¹ (A + I): the mean of a node and its neighbours."""
        return self._propagate(x, *self._smooth)

    @cached_property
    def _sum(self) -> tuple[Tensor, Tensor]:
        return self._both_ways(self.adjacency, np.ones_like(self.degree))

    @cached_property
    def _mean(self) -> tuple[Tensor, Tensor]:
        degree = np.where(self.degree > 0, self.degree, np.float32(1))
        return self._both_ways(self.adjacency, 1 / degree)

    @cached_property
    def _smooth(self) -> tuple[Tensor, Tensor]:
        itself = sparse.identity(len(self.degree), dtype=np.float32, format="csr")
        return self._both_ways(self.adjacency + itself, 1 / (self.degree + 1))

    def _both_ways(self, matrix: sparse.csr_matrix, by: npt.NDArray[Any]) -> tuple[Tensor, Tensor]:
        """P = diag(by) M and Pᵀ, which has the same non-zeros for a symmetric M."""
        forth = matrix.copy()
        forth.data = matrix.data * np.repeat(by, np.diff(matrix.indptr))
        if self.symmetric:
            back = matrix.copy()
            back.data = matrix.data * by[matrix.indices]
        else:
            back = forth.T.tocsr()
        return csr_tensor(forth, self.device), csr_tensor(back, self.device)

    def _propagate(self, x: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        R, n, f = x.shape
        if self.graphs == 1 and not uses_triton(x.device):
            beside = x.transpose(0, 1).reshape(n, R * f)
            return apply(_Product, beside, forth, back).view(n, R, f).transpose(0, 1)
        return apply(_Product, x.reshape(R * n, f), forth, back).view(R, n, f)


class Relations:
    """The neighbours of each of K heads, for one graph.

    Parameters
    ----------
    edges : Edges
        The directed edges with their heads and weights.
    K : int
        Number of heads.
    n : int
        Number of nodes.
    device : torch.device
        Where the sums are computed.
    directed : bool, optional
        Whether heads 2 r and 2 r + 1 are the two directions of the same links.

    Examples
    --------
    >>> links = Links(np.array([[0, 1], [0, 2]]), np.array([0, 1]), relations=("a", "b"))
    >>> relations = relations_of(links, 3, torch.device("cpu"))
    >>> x = torch.tensor([[1.0], [2.0], [4.0]])
    >>> relations.means(x.expand(2, 1, 3, 1)).flatten(1)
    tensor([[2., 1., 0.],
            [4., 0., 1.]])
    """

    def __init__(
        self, edges: Edges, K: int, n: int, device: torch.device, directed: bool = False
    ) -> None:
        self.heads = []
        for part in map(edges.of_head, range(K)):
            weights = None if part.weights is None else [part.weights]
            self.heads.append(Neighbours([part.pairs], n, device, weights, not directed))
        self.device, self.n = device, n
        self.linked = torch.stack([head.linked for head in self.heads])  # (K, 1, n, 1)

    def sums(self, s: Tensor) -> Tensor:
        """Sums over the neighbours of each head, (K, R, n, f) → (K, R, n, f)."""
        return _stacked([head.sum(part) for head, part in zip(self.heads, s, strict=True)])

    def means(self, s: Tensor) -> Tensor:
        """Means over the neighbours of each head, (K, R, n, f) → (K, R, n, f)."""
        return _stacked([head.mean(part) for head, part in zip(self.heads, s, strict=True)])


def relations_of(graph: Graph | Links, n: int, device: torch.device) -> Relations:
    """The neighbours of the nodes of a graph, or of links between n nodes."""
    links = graph.all_links if isinstance(graph, Graph) else graph
    edges = graph.all_edges if isinstance(graph, Graph) else links.edges()
    return Relations(edges, len(links.heads), n, device, links.directed)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(list(parts))


class VisibleNeighbours:
    """The links of one graph of which each replica sees a subset of the nodes.

    Hiding a node hides its links. All replicas share the adjacency matrices, and a hidden node
    contributes nothing to any sum.

    Parameters
    ----------
    relations : Relations
        The links of one graph.
    visible : (R, n) tensor of bool
        The nodes that each replica sees.
    strengths : (R, K) tensor, optional
        How much a link of each head counts in `mean` and `smooth`, which do not distinguish them;
        by default 1.

    Examples
    --------
    >>> path = relations_of(Links(np.array([[0, 1], [1, 2]])), 3, torch.device("cpu"))
    >>> some = VisibleNeighbours(path, torch.tensor([[True, True, False]]))
    >>> some.mean(torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
    tensor([2., 1., 2.])
    """

    def __init__(
        self, relations: Relations, visible: Tensor, strengths: Tensor | None = None
    ) -> None:
        self.relations, self.strengths = relations, strengths
        self.visible = visible.float().unsqueeze(-1)  # (R, n, 1)
        self.degrees = [head.sum(self.visible) for head in relations.heads]
        self.degree = self._total(self.degrees)
        self.linked = torch.stack([degree > 0 for degree in self.degrees])  # (K, R, n, 1)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over visible neighbours, 0 for a node without any, (R, n, f) → (R, n, f)."""
        return self._sum(x) / torch.where(self.degree > 0, self.degree, 1)

    def smooth(self, x: Tensor) -> Tensor:
        """The mean of a node and its visible neighbours."""
        return (self._sum(x) + x) / (self.degree + 1)

    def smooth_transposed(self, x: Tensor) -> Tensor:
        """The transpose of `smooth` as a linear map."""
        x = x / (self.degree + 1)
        sums = [head.sum_transposed(x) for head in self.relations.heads]
        return self._total(sums) * self.visible + x

    def means(self, s: Tensor) -> Tensor:
        """Means over the visible neighbours of each head, (K, R, n, f) → (K, R, n, f)."""
        return _stacked([self.head_mean(k, part) for k, part in enumerate(s)])

    def head_mean(self, k: int, x: Tensor) -> Tensor:
        """The mean over the visible neighbours of one head."""
        total, degree = self.relations.heads[k].sum(x * self.visible), self.degrees[k]
        return total / torch.where(degree > 0, degree, 1)

    def head_mean_transposed(self, k: int, x: Tensor) -> Tensor:
        """The transpose of `head_mean` as a linear map."""
        degree = self.degrees[k]
        x = x / torch.where(degree > 0, degree, 1)
        return self.relations.heads[k].sum_transposed(x) * self.visible

    def _sum(self, x: Tensor) -> Tensor:
        seen = x * self.visible
        return self._total([head.sum(seen) for head in self.relations.heads])

    def _total(self, parts: Sequence[Tensor]) -> Tensor:
        """Σ_k γ_k · part_k."""
        if self.strengths is not None:
            by = self.strengths.T.reshape(len(parts), -1, 1, 1)
            parts = [strength * part for strength, part in zip(by, parts, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class RandomNeighbours:
    """Draws a random neighbour of a node; each replica has its own links.

    With weights, a neighbour is drawn with a probability in proportion to its weight.

    Parameters
    ----------
    edges : sequence of Edges
        The directed edges of each replica; their heads are ignored.
    n : int
        Number of nodes.
    device : torch.device
        Where the neighbours are needed.

    Attributes
    ----------
    degree : (R, n) tensor of int
        Number of neighbours.

    Examples
    --------
    >>> star = np.array([[0, 1], [0, 2], [1, 0], [2, 0]])
    >>> around = RandomNeighbours([Edges(star)], 4, torch.device("cpu"))
    >>> around.pick(torch.tensor([[0, 0, 2, 3]]), torch.tensor([[4, 5, 7, 9]]))
    tensor([[1, 2, 0, 3]])
    """

    def __init__(self, edges: Sequence[Edges], n: int, device: torch.device) -> None:
        order = [np.argsort(e.pairs[:, 0], kind="stable") for e in edges]
        ends = [e.pairs[at, 1] for e, at in zip(edges, order, strict=True)]
        width = max(1, max(map(len, ends)))
        self.ends = torch.zeros(len(ends), width, dtype=torch.int64, device=device)
        for row, end in zip(self.ends, ends, strict=True):
            row[: len(end)] = torch.from_numpy(end)
        degree = np.stack([np.bincount(e.pairs[:, 0], minlength=n) for e in edges])
        self.degree = torch.from_numpy(degree).to(device)  # (R, n)
        self.first = self.degree.cumsum(1) - self.degree
        self.sums: Tensor | None = None
        if any(e.weights is not None for e in edges):
            # The weights up to each edge: a weight is drawn, and then the edge that contains it.
            sums = torch.full((len(ends), width + 1), torch.inf, dtype=torch.float64)
            for row, e, at in zip(sums, edges, order, strict=True):
                weights = np.ones(len(at)) if e.weights is None else e.weights[at].astype(float)
                row[: len(at) + 1] = torch.from_numpy(np.concatenate([[0.0], weights.cumsum()]))
            self.sums = sums.to(device)

    def pick(self, nodes: Tensor, numbers: Tensor) -> Tensor:
        """A neighbour of each node (R, B), given random numbers; the node itself without any."""
        degree, first = self.degree.gather(1, nodes), self.first.gather(1, nodes)
        if self.sums is None:
            place = first + numbers.remainder(degree.clamp(min=1))
        else:
            low, high = self.sums.gather(1, first), self.sums.gather(1, first + degree)
            drawn = low + (high - low) * (numbers.remainder(UNIFORM).double() / UNIFORM)
            place = torch.searchsorted(self.sums, drawn, right=True) - 1
            place = torch.minimum(place, first + degree - 1)  # a sum may be rounded up
        drawn = self.ends.gather(1, place.clamp(0, self.ends.shape[1] - 1))
        return torch.where(degree > 0, drawn, nodes)


UNIFORM = 1 << 53
"""Number of different uniform numbers: those that float64 represents exactly."""


class _Product(torch.autograd.Function):
    """P x, with the gradient Pᵀ g."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return sparse_product(forth, x)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, None]:
        return sparse_product(ctx.back, grad.contiguous()), None, None
