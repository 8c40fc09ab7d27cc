"""Layers of the networks: linear ones, and PyTorch Geometric's SAGEConv and GCNConv.

Features are wide and links are many, so the two graph layers multiply by their weights first and
sum over neighbours then. That is the same function as PyTorch Geometric's `forward`, with its
weights. Sparse features and the matrix of links are CSR tensors whose transposes are stored, so
that a gradient is a product as well.
"""

import warnings

import numpy as np
import torch
from scipy import sparse
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

SPARSE = 0.1
"""Features with a smaller share of non-zeros stay sparse."""


class Product(torch.autograd.Function):
    """A constant sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx, matrix, transposed, dense):
        """The product."""
        ctx.transposed = transposed
        return matrix @ dense

    @staticmethod
    def backward(ctx, gradient):
        """The transposed matrix times the gradient."""
        return None, None, ctx.transposed @ gradient.contiguous()


class Inputs:
    """The rows that a layer reads: a dense tensor, or a CSR tensor with its transpose."""

    def __init__(self, rows, transposed=None):
        self.rows, self.transposed = rows, transposed

    @classmethod
    def of_rows(cls, x, device):
        """Features on a device."""
        if not sparse.issparse(x):
            return cls(torch.from_numpy(x).to(device))
        if x.nnz >= SPARSE * x.shape[0] * x.shape[1]:
            return cls(torch.from_numpy(x.toarray().astype(np.float32)).to(device))
        return cls(as_csr(x, device), as_csr(x.T, device))

    @classmethod
    def of_hidden(cls, h):
        """The outputs of a hidden layer."""
        return cls(h)

    def times(self, weight):
        """The rows times a weight (out, in), as `torch.nn.functional.linear` does it."""
        if self.transposed is None:
            return self.rows @ weight.T
        return Product.apply(self.rows, self.transposed, weight.T.contiguous())


class Links:
    """The links of a graph: sums over neighbours, their means, and the GCN's weighted sums."""

    def __init__(self, edges, n, device):
        edges = edges[edges[:, 0] != edges[:, 1]]
        ones = np.ones(len(edges), dtype=np.float32)
        adjacency = sparse.csr_matrix((ones, edges.T), (n, n))
        self.adjacency = as_csr(adjacency, device)
        degree = np.diff(adjacency.indptr)
        inverse = (1 / np.maximum(degree, 1)).astype(np.float32)
        self.inverse_degree = torch.from_numpy(inverse).to(device)[:, None]
        index, weight = gcn_norm(torch.from_numpy(np.ascontiguousarray(edges.T)), num_nodes=n)
        self.normalised = as_csr(sparse.csr_matrix((weight.numpy(), index.numpy()), (n, n)), device)

    def mean(self, h):
        """The mean over neighbours; 0 without any."""
        return self.inverse_degree * Product.apply(self.adjacency, self.adjacency, h)

    def smooth(self, h):
        """The GCN's sum over a node and its neighbours."""
        return Product.apply(self.normalised, self.normalised, h)


class Perceptron(torch.nn.Linear):
    """A linear layer."""

    def forward(self, x, links):
        """Outputs of all rows."""
        return x.times(self.weight) + self.bias


class Sage(SAGEConv):
    """PyTorch Geometric's SAGEConv, with the product before the mean."""

    def forward(self, x, links):
        """Outputs of all nodes."""
        return links.mean(x.times(self.lin_l.weight)) + self.lin_l.bias + x.times(self.lin_r.weight)


class GraphConvolution(GCNConv):
    """PyTorch Geometric's GCNConv on a matrix that is normalised once."""

    def forward(self, x, links):
        """Outputs of all nodes."""
        return links.smooth(x.times(self.lin.weight)) + self.bias


def as_csr(matrix, device):
    """A SciPy matrix as a CSR tensor on a device."""
    matrix = sparse.csr_matrix(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    places = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    parts = (part.to(device) for part in (*places, torch.from_numpy(matrix.data)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=False)
