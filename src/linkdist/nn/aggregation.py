"""Sums and means over the neighbours of a node.

Prediction with links needs Σ_j x_j or the mean over the neighbours j of every node; a GCN needs the
mean of a node and its neighbours, Â x. Each is P x with a sparse matrix P made from the adjacency
matrix A, and its gradient is Pᵀ g. The replicas share one graph, or each has its own links and P is
block-diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import FloatArray, IntArray
from linkdist.kernels import Context, apply, sparse_product, uses_triton
from linkdist.nn.inputs import csr_tensor


class Neighbours:
    """The directed edges of one graph for all replicas, or of one graph for each.

    Parameters
    ----------
    edges : sequence of (e, 2) int arrays
        One array for all replicas, or one for each; it has each link in both directions.
        Self-loops are ignored: a node is not its own neighbour.
    n : int
        Number of nodes of each graph.
    device : torch.device
        Where the sums are computed.

    Examples
    --------
    >>> path = Neighbours([np.array([[0, 1], [1, 0], [1, 2], [2, 1]])], 3, torch.device("cpu"))
    >>> x = torch.tensor([[[1.0], [2.0], [4.0]]])
    >>> path.sum(x).flatten(), path.mean(x).flatten()
    (tensor([2., 5., 2.]), tensor([2.0000, 2.5000, 2.0000]))
    """

    def __init__(self, edges: Sequence[IntArray], n: int, device: torch.device) -> None:
        self.graphs = len(edges)
        shift = np.arange(self.graphs) * n
        joined = np.concatenate([e + first for e, first in zip(edges, shift, strict=True)])
        joined = joined[joined[:, 0] != joined[:, 1]]
        ones = np.ones(len(joined), dtype=np.float32)
        size = self.graphs * n
        self.adjacency = sparse.csr_matrix((ones, (joined[:, 0], joined[:, 1])), (size, size))
        self.degree = np.diff(self.adjacency.indptr).astype(np.float32)
        self.device = device
        linked = torch.from_numpy(self.degree > 0).to(device)
        self.linked = linked.view(self.graphs, n, 1)  # which nodes have a neighbour

    def sum(self, x: Tensor) -> Tensor:
        """Σ_j x_j over each node's neighbours, (R, n, f) → (R, n, f)."""
        return self._propagate(x, *self._sum)

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
        return self._both_ways(self.adjacency, 1 / self.degree.clip(min=1))

    @cached_property
    def _smooth(self) -> tuple[Tensor, Tensor]:
        itself = sparse.identity(len(self.degree), dtype=np.float32, format="csr")
        return self._both_ways(self.adjacency + itself, 1 / (self.degree + 1))

    def _both_ways(self, matrix: sparse.csr_matrix, by: FloatArray) -> tuple[Tensor, Tensor]:
        """P = diag(by) M for a symmetric M, and Pᵀ = M diag(by), which has the same non-zeros."""
        forth, back = matrix.copy(), matrix.copy()
        forth.data = matrix.data * np.repeat(by, np.diff(matrix.indptr))
        back.data = matrix.data * by[matrix.indices]
        return csr_tensor(forth, self.device), csr_tensor(back, self.device)

    def _propagate(self, x: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        R, n, f = x.shape
        if self.graphs == 1 and not uses_triton(x.device):
            beside = x.transpose(0, 1).reshape(n, R * f)
            return apply(_Product, beside, forth, back).view(n, R, f).transpose(0, 1)
        return apply(_Product, x.reshape(R * n, f), forth, back).view(R, n, f)


class VisibleNeighbours:
    """The links of one graph of which each replica sees a subset of the nodes.

    Hiding a node hides its links. All replicas share one adjacency matrix, and a hidden node
    contributes nothing to any sum.

    Parameters
    ----------
    neighbours : Neighbours
        The links of one graph.
    visible : (R, n) tensor of bool
        The nodes that each replica sees.

    Examples
    --------
    >>> path = Neighbours([np.array([[0, 1], [1, 0], [1, 2], [2, 1]])], 3, torch.device("cpu"))
    >>> some = VisibleNeighbours(path, torch.tensor([[True, True, False]]))
    >>> some.mean(torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
    tensor([2., 1., 2.])
    """

    def __init__(self, neighbours: Neighbours, visible: Tensor) -> None:
        self.neighbours = neighbours
        self.visible = visible.float().unsqueeze(-1)  # (R, n, 1)
        self.degree = neighbours.sum(self.visible)
        self.linked = self.degree > 0  # (R, n, 1): which nodes have a visible neighbour

    def mean(self, x: Tensor) -> Tensor:
        """The mean over visible neighbours, 0 for a node without any, (R, n, f) → (R, n, f)."""
        return self.neighbours.sum(x * self.visible) / self.degree.clamp(min=1)

    def smooth(self, x: Tensor) -> Tensor:
        """The mean of a node and its visible neighbours."""
        return (self.neighbours.sum(x * self.visible) + x) / (self.degree + 1)

    def smooth_transposed(self, x: Tensor) -> Tensor:
        """The transpose of `smooth` as a linear map."""
        x = x / (self.degree + 1)
        return self.neighbours.sum(x) * self.visible + x


class RandomNeighbours:
    """Draws a random neighbour of a node; each replica has its own links.

    Parameters
    ----------
    edges : sequence of (e, 2) int arrays
        The directed edges of each replica.
    n : int
        Number of nodes.
    device : torch.device
        Where the neighbours are needed.

    Examples
    --------
    >>> star = np.array([[0, 1], [0, 2], [1, 0], [2, 0]])
    >>> around = RandomNeighbours([star], 4, torch.device("cpu"))
    >>> around.pick(torch.tensor([[0, 0, 2, 3]]), torch.tensor([[4, 5, 7, 9]]))
    tensor([[1, 2, 0, 3]])
    """

    def __init__(self, edges: Sequence[IntArray], n: int, device: torch.device) -> None:
        order = [np.argsort(e[:, 0], kind="stable") for e in edges]
        ends = [e[at, 1] for e, at in zip(edges, order, strict=True)]
        width = max(1, max(map(len, ends)))
        self.ends = torch.zeros(len(ends), width, dtype=torch.int64, device=device)
        for row, end in zip(self.ends, ends, strict=True):
            row[: len(end)] = torch.from_numpy(end)
        degree = np.stack([np.bincount(e[:, 0], minlength=n) for e in edges])
        self.degree = torch.from_numpy(degree).to(device)  # (R, n)
        self.first = self.degree.cumsum(1) - self.degree

    def pick(self, nodes: Tensor, numbers: Tensor) -> Tensor:
        """A neighbour of each node (R, B), given random numbers; the node itself without any."""
        degree = self.degree.gather(1, nodes)
        place = self.first.gather(1, nodes) + numbers.remainder(degree.clamp(min=1))
        drawn = self.ends.gather(1, place.clamp(max=self.ends.shape[1] - 1))
        return torch.where(degree > 0, drawn, nodes)


class _Product(torch.autograd.Function):
    """P x, with the gradient Pᵀ g."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, forth: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return sparse_product(forth, x)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, None]:
        return sparse_product(ctx.back, grad.contiguous()), None, None
