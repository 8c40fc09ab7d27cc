"""Sums and means over a node's neighbours.

Message-passing mode and the GCN both need Σ_j x_j over the neighbours j of every node. The sum is
a product with the sparse adjacency matrix A; links are undirected, so A is symmetric and the
gradient is the same sum again. Each replica may have links of its own (then A is block-diagonal)
or all share one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from linkdist.graph import IntArray
from linkdist.inputs import csr_tensor


class Neighbours:
    """The directed edges of one graph that all replicas share, or of a graph a replica.

    Parameters
    ----------
    edges : sequence of (e, 2) int arrays
        One for all replicas, or one a replica; a link stands in it twice, a self-loop once.
    n : int
        Number of nodes of each graph.
    device : torch.device
        Where the sums are taken.

    Examples
    --------
    >>> path = Neighbours([np.array([[0, 1], [1, 0], [1, 2], [2, 1]])], 3, torch.device("cpu"))
    >>> path.sum(torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
    tensor([2., 5., 2.])
    >>> path.mean(torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
    tensor([2.0000, 2.5000, 2.0000])
    """

    def __init__(self, edges: Sequence[IntArray], n: int, device: torch.device) -> None:
        self.graphs = len(edges)
        blocks = [
            sparse.csr_matrix((np.ones(len(e), dtype=np.float32), (e[:, 0], e[:, 1])), (n, n))
            for e in edges
        ]
        degree = np.stack([np.diff(block.indptr) for block in blocks])
        whole = blocks[0] if len(blocks) == 1 else sparse.block_diag(blocks, format="csr")
        self.adjacency = csr_tensor(whole, device)
        self.degree = torch.from_numpy(degree.astype(np.float32)).to(device).unsqueeze(-1)

    def sum(self, x: Tensor) -> Tensor:
        """Σ_j x_j over each node's neighbours, (R, n, f) → (R, n, f)."""
        out: Tensor
        R, n, f = x.shape
        if self.graphs == 1:
            beside = x.transpose(0, 1).reshape(n, R * f)
            out = _Sum.apply(beside, self.adjacency)  # type: ignore[no-untyped-call]
            return out.view(n, R, f).transpose(0, 1)
        out = _Sum.apply(x.reshape(R * n, f), self.adjacency)  # type: ignore[no-untyped-call]
        return out.view(R, n, f)

    def mean(self, x: Tensor) -> Tensor:
        """The neighbours' mean, 0 for a node without neighbours."""
        return self.sum(x) / self.degree.clamp(min=1)

    def smooth(self, x: Tensor) -> Tensor:
        """Â x with Â = (D + I)⁻¹ (A + I): the mean of a node and its neighbours."""
        return (x + self.sum(x)) / (self.degree + 1)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Tensor) -> Tensor:  # noqa: ANN401
        ctx.adjacency = adjacency
        return adjacency @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return ctx.adjacency @ grad.contiguous(), None
