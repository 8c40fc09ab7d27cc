"""The node features on a device, and their product with the first layer's weights.

Most of the time is spent in the first layer: d is in the thousands, and most features are zero. So
the feature matrix X is stored on the device once, dense or CSR, and the network computes

    X[rows] W      with rows (R, m) and W (R, d, h), which is (R, m, h)

for the rows of a batch, which differ between replicas, or X W for all nodes. `choose` selects the
format of X from the data and the kind of device, and gives the reason.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from linkdist.data.graph import FeatureMatrix
from linkdist.kernels import HAS_NUMBA, Context, apply

DENSE_FROM = 0.2
"""Share of non-zeros from which a dense product is faster on the CPU."""
DENSE_ENTRIES = 1 << 30
"""Entries n · d up to which sparse features become dense on a GPU: 4 GiB in float32. The limit does
not depend on the memory that happens to be free, so the same data has the same precision."""


class Choice(NamedTuple):
    """The format of features on a device, and the reason for it."""

    kind: str
    why: str


class Inputs(ABC):
    """The feature matrix X (n, d) on a device."""

    n: int
    d: int
    device: torch.device
    precision: str = "float32"

    @abstractmethod
    def project(self, weight: Tensor, rows: Tensor | None = None) -> Tensor:
        """X[rows] W, or X W without `rows`.

        Parameters
        ----------
        weight : (R, d, h) tensor
            W, one matrix for each replica.
        rows : (R, m) tensor of int, optional
            The rows of each replica; by default all.

        Returns
        -------
        (R, m, h) tensor
            Or (R, n, h) without `rows`.
        """


def make_inputs(features: FeatureMatrix, device: torch.device) -> Inputs:
    """Put features on a device, in the format that `choose` selects.

    Examples
    --------
    >>> x = make_inputs(np.eye(3, dtype=np.float32), torch.device("cpu"))
    >>> x.project(torch.ones(1, 3, 2), torch.tensor([[2, 0]])).shape
    torch.Size([1, 2, 2])
    """
    kind = choose(features, device).kind
    if kind == "sparse":
        return SparseInputs(features, device)
    if isinstance(features, np.ndarray):
        return DenseInputs(torch.from_numpy(features).to(device))
    # It becomes dense on the device: the CSR matrix is smaller to copy.
    return DenseInputs(csr_tensor(features, device).to_dense(), half=kind == "half")


def choose(features: FeatureMatrix, device: torch.device) -> Choice:
    """Select the format of features on a device: 'dense', 'half' or 'sparse'.

    Examples
    --------
    >>> choose(np.eye(3, dtype=np.float32), torch.device("cpu")).kind
    'dense'
    """
    if isinstance(features, np.ndarray):
        return Choice("dense", "the features are dense")
    n, d = features.shape
    density = features.nnz / (n * d)
    if device.type == "cpu":
        found = f"{density:.1%} of the features are not zero"
        if density < DENSE_FROM:
            return Choice("sparse", found)
        return Choice("dense", f"{found}: a dense product is faster")
    if n * d > DENSE_ENTRIES:
        return Choice("sparse", f"{n:,} x {d:,} features are too large for a dense matrix on a GPU")
    if _is_exact_in_half(features):
        return Choice("half", "bfloat16 represents each row exactly, up to a scale")
    return Choice("dense", "bfloat16 would round the features")


class DenseInputs(Inputs):
    """X as a dense tensor: float32, float16, or bfloat16 with a float32 scale for each row.

    float16 saves memory: products are computed in float32, which TF32 does not round any further,
    or in bfloat16 if `out` is bfloat16, which takes half of the time.

    On a GPU, X is padded with columns of zeros to a multiple of eight: matrix units need rows that
    start at multiples of 16 bytes, and take three times as long otherwise.
    """

    def __init__(
        self, matrix: Tensor, half: bool = False, out: torch.dtype = torch.float32
    ) -> None:
        self.out = out
        self.n, self.d = matrix.shape
        self.device = matrix.device
        self.scale = _row_scale(matrix) if half else None
        if self.scale is not None:
            matrix = matrix / self.scale
        if matrix.is_cuda:
            matrix = F.pad(matrix, (0, -self.d % 8)) if self.d % 8 else matrix
            self.precision = "bfloat16 first layer, TF32" if half else "TF32"
        self.matrix = matrix.to(torch.bfloat16) if half else matrix

    def project(self, weight: Tensor, rows: Tensor | None = None) -> Tensor:
        """X[rows] W, or X W."""
        R = weight.shape[0]
        if rows is not None and (self.matrix.is_cuda or 2 * rows.shape[1] < self.n):
            # Always on a GPU: the gradient of a selection would be summed in a varying order.
            x = self.matrix.index_select(0, rows.flatten()).view(R, -1, self.matrix.shape[1])
            scale = None if self.scale is None else self.scale[rows]
            return _scaled(_product(x, weight, self.out), scale)
        # The rows cover most nodes or repeat them: multiply all nodes once, then select.
        whole = _scaled(_product(self.matrix.expand(R, -1, -1), weight, self.out), self.scale)
        return whole if rows is None else _select(whole, rows)


class SparseInputs(Inputs):
    """X as a CSR matrix; it never becomes dense."""

    def __init__(self, features: sparse.csr_matrix, device: torch.device) -> None:
        self.n, self.d = features.shape
        self.device = device
        self.matrix = features
        self._whole = _Batch(features, device)
        if device.type == "cpu" and HAS_NUMBA:
            from linkdist.kernels import numba_ops

            starts = torch.from_numpy(features.indptr.astype(np.int64, copy=False))
            self._csr = numba_ops.Csr(starts, self._whole.columns, self._whole.values)

    def project(self, weight: Tensor, rows: Tensor | None = None) -> Tensor:
        """X[rows] W, or X W."""
        if rows is None or self.device.type != "cpu":
            # Selecting CSR rows on a GPU would wait for the host; multiplying all rows does not.
            whole = apply(_SparseProduct, weight, [self._whole] * weight.shape[0])
            return whole if rows is None else _select(whole, rows)
        if HAS_NUMBA:
            from linkdist.kernels import numba_ops

            return apply(numba_ops.Product, weight, self._csr, rows)
        batches = [_Batch(self.matrix[r.numpy()], r.device) for r in rows]
        return apply(_SparseProduct, weight, batches)


class _Batch:
    """Some rows of X as CSR tensors."""

    def __init__(self, rows: sparse.csr_matrix, device: torch.device) -> None:
        self.rows = rows
        self.device = device
        self.columns = torch.from_numpy(rows.indices.astype(np.int32, copy=False)).to(device)
        self.starts = torch.from_numpy(rows.indptr[:-1].astype(np.int32, copy=False)).to(device)
        self.values = torch.from_numpy(rows.data).to(device)


class _SparseProduct(torch.autograd.Function):
    """X_b W for the rows of each replica; the gradient of W is X_bᵀ G."""

    @staticmethod
    def forward(ctx: Context, weight: Tensor, batches: list[_Batch]) -> Tensor:
        ctx.batches = batches
        return _stack(
            F.embedding_bag(b.columns, w, b.starts, mode="sum", per_sample_weights=b.values)
            for w, b in zip(weight, batches, strict=True)
        )

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        pairs = zip(ctx.batches, grad, strict=True)
        return _stack(csr_tensor(b.rows.T.tocsr(), b.device) @ g for b, g in pairs), None


def _stack(replicas: Iterable[Tensor]) -> Tensor:
    """Stack tensors; a single one is not copied: the first layer's gradient is large."""
    parts = list(replicas)
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


class HalfProduct(torch.autograd.Function):
    """x W with bfloat16 factors, summed in float32 and returned in the type `out`."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, weight: Tensor, out: torch.dtype) -> Tensor:
        """X (R, m, d or more) times W (R, d, h), padded with zeros."""
        R, d, h = ctx.shape = weight.shape
        half = torch.zeros(R, x.shape[2], h, dtype=x.dtype, device=x.device)
        half[:, :d] = weight
        ctx.save_for_backward(x, half if ctx.needs_input_grad[0] else None)
        return torch.bmm(x, half) if out == x.dtype else torch.bmm(x, half, out_dtype=out)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """The gradients of x, if needed, and of W."""
        x, half = ctx.saved_tensors
        grad = grad.to(x.dtype)
        whole = torch.bmm(x.transpose(1, 2), grad, out_dtype=torch.float32)
        back = None if half is None else torch.bmm(grad, half.transpose(1, 2))
        return back, whole[:, : ctx.shape[1]], None


def csr_tensor(matrix: sparse.csr_matrix, device: torch.device) -> Tensor:
    """Convert a SciPy CSR matrix to PyTorch.

    Examples
    --------
    >>> csr_tensor(sparse.csr_matrix(np.eye(2)), torch.device("cpu")).layout
    torch.sparse_csr
    """
    arrays = (matrix.indptr, matrix.indices, matrix.data)
    starts, columns, values = (torch.from_numpy(array).to(device) for array in arrays)
    with warnings.catch_warnings():
        # PyTorch warns that its CSR layout is in beta.
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(
            starts, columns, values, matrix.shape, check_invariants=False
        )


def _product(x: Tensor, weight: Tensor, out: torch.dtype) -> Tensor:
    if x.dtype == torch.float16:
        x = x.to(out)
    if x.dtype == weight.dtype:
        return torch.bmm(x, F.pad(weight, (0, 0, 0, x.shape[2] - weight.shape[1])))
    return apply(HalfProduct, x, weight, out)


def _scaled(product: Tensor, scale: Tensor | None) -> Tensor:
    return product if scale is None else product * scale


def _select(whole: Tensor, rows: Tensor) -> Tensor:
    """The rows (R, m) of each replica's (n, h) matrix."""
    R, n, h = whole.shape
    first = torch.arange(R, device=rows.device).unsqueeze(1) * n
    flat = (rows + first).flatten()
    return whole.reshape(R * n, h).index_select(0, flat).view(R, -1, h)


def _row_scale(matrix: Tensor) -> Tensor | None:
    """Scales (n, 1) of the rows such that bfloat16 represents the rest exactly; None without need.

    Counts need no scale; a row of word counts that was scaled to sum to 1 needs its largest value.
    """
    if _is_exact(matrix):
        return None
    top = matrix.abs().amax(dim=1, keepdim=True)
    return torch.where(top > 0, top, 1.0)


def _is_exact_in_half(features: sparse.csr_matrix) -> bool:
    """Whether bfloat16 represents each row exactly, up to a scale."""
    values = torch.from_numpy(features.data)
    top = np.asarray(abs(features).max(axis=1).todense()).ravel()
    top[top == 0] = 1
    scale = torch.from_numpy(np.repeat(top, np.diff(features.indptr)))
    return _is_exact(values) or _is_exact(values / scale)


def _is_exact(values: Tensor) -> bool:
    return bool((values.to(torch.bfloat16).to(values.dtype) == values).all())
