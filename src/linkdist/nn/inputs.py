"""The node features on a device, and their product with the first layer's weights.

The first layer is where the time is: d is in the thousands, and most features are zero. So the
feature matrix X lives on the device once, dense or CSR, and what the network asks of it is

    X[rows] W      with rows (R, m) and W (R, d, h), giving (R, m, h)

for the rows of a batch, each replica its own, or X W for all nodes. `choose` decides which form X
takes, and says why.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from linkdist.data.graph import FeatureMatrix
from linkdist.kernels.backends import HAS_NUMBA

DENSE_FROM = 0.2
"""Share of non-zeros from which a dense product on the CPU is the faster one."""


class Choice(NamedTuple):
    """How features are kept on a device, and why."""

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
        """X[rows] W, or X W where no rows are given.

        Parameters
        ----------
        weight : (R, d, h) tensor
            W, one matrix a replica.
        rows : (R, m) tensor of int, optional
            The rows that each replica asks for.

        Returns
        -------
        (R, m, h) tensor
            Or (R, n, h) where no rows are given.
        """


def make_inputs(features: FeatureMatrix, device: torch.device) -> Inputs:
    """Put features on a device, in the form that `choose` names.

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
    # Made dense where it will live: what travels to a GPU is the CSR matrix.
    return DenseInputs(csr_tensor(features, device).to_dense(), half=kind == "half")


def choose(features: FeatureMatrix, device: torch.device) -> Choice:
    """How to keep features on a device: 'dense', 'half' or 'sparse'.

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
        if density < DENSE_FROM:
            return Choice("sparse", f"{density:.1%} of the features are not zero")
        return Choice("dense", f"{density:.1%} of the features are not zero: a dense product wins")
    if 2 * n * d > torch.cuda.mem_get_info(device)[0] // 4:
        return Choice("sparse", "a dense copy would not fit on the GPU")
    if _is_exact_in_half(features):
        return Choice("half", "bfloat16 holds each row up to its scale exactly; the GPU is dense")
    return Choice("dense", "bfloat16 would round the features; the GPU is dense")


class DenseInputs(Inputs):
    """X as a dense tensor: float32, float16, or bfloat16 beside a float32 scale a row.

    float16 is for memory: products are taken in float32, which TF32 does not round any further, or
    in bfloat16 where `out` asks for activations of that type, which take half of the time.

    On a GPU, X has columns of zeros added up to a multiple of eight: its matrix units want rows
    that start at multiples of 16 bytes, and take three times as long without.
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
            # On a GPU always: the gradient of a pick adds up in an order that changes.
            x = self.matrix.index_select(0, rows.flatten()).view(R, -1, self.matrix.shape[1])
            scale = None if self.scale is None else self.scale[rows]
            return _scaled(_product(x, weight, self.out), scale)
        # Rows that are most of the nodes, or repeat them: multiply all nodes once, then pick.
        whole = _scaled(_product(self.matrix.expand(R, -1, -1), weight, self.out), self.scale)
        return whole if rows is None else _pick(whole, rows)


class SparseInputs(Inputs):
    """X as a CSR matrix, which nothing here makes dense."""

    def __init__(self, features: sparse.csr_matrix, device: torch.device) -> None:
        self.n, self.d = features.shape
        self.device = device
        self.matrix = features
        self._whole = _Batch(features, device)
        if device.type == "cpu" and HAS_NUMBA:
            from linkdist.kernels import numba_spmm

            starts = torch.from_numpy(features.indptr.astype(np.int64, copy=False))
            self._csr = numba_spmm.Csr(starts, self._whole.columns, self._whole.values)

    def project(self, weight: Tensor, rows: Tensor | None = None) -> Tensor:
        """X[rows] W, or X W."""
        R = weight.shape[0]
        if rows is None or self.device.type != "cpu":
            # Picking CSR rows on a GPU would wait for the host; multiplying all does not.
            whole = self._times(weight, [self._whole] * R)
            return whole if rows is None else _pick(whole, rows)
        if HAS_NUMBA:
            from linkdist.kernels import numba_spmm

            out: Tensor = numba_spmm.Product.apply(weight, self._csr, rows)  # type: ignore[no-untyped-call]
            return out
        return self._times(weight, [_Batch(self.matrix[r.numpy()], r.device) for r in rows])

    def _times(self, weight: Tensor, batches: list[_Batch]) -> Tensor:
        out: Tensor = _SparseProduct.apply(weight, batches)  # type: ignore[no-untyped-call]
        return out


class _Batch:
    """Some rows of X as tensors in CSR form; the transpose is made where a gradient needs it."""

    def __init__(self, rows: sparse.csr_matrix, device: torch.device) -> None:
        self.rows = rows
        self.device = device
        self.columns = torch.from_numpy(rows.indices.astype(np.int32, copy=False)).to(device)
        self.starts = torch.from_numpy(rows.indptr[:-1].astype(np.int32, copy=False)).to(device)
        self.values = torch.from_numpy(rows.data).to(device)

    def transpose(self) -> Tensor:
        return csr_tensor(self.rows.T.tocsr(), self.device)


class _SparseProduct(torch.autograd.Function):
    """X_b W, each replica's own rows; the gradient of W is X_bᵀ G."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, batches: list[_Batch]) -> Tensor:  # noqa: ANN401
        ctx.batches = batches
        return _side_by_side(
            F.embedding_bag(b.columns, w, b.starts, mode="sum", per_sample_weights=b.values)
            for w, b in zip(weight, batches, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        pairs = zip(ctx.batches, grad, strict=True)
        return _side_by_side(batch.transpose() @ g for batch, g in pairs), None


def _side_by_side(replicas: Iterable[Tensor]) -> Tensor:
    """Stacked; a single one as it is, since a copy of the first layer's gradient is not free."""
    parts = list(replicas)
    return parts[0].unsqueeze(0) if len(parts) == 1 else torch.stack(parts)


class HalfProduct(torch.autograd.Function):
    """x W with bfloat16 factors, summed in float32 and returned in the type that is asked for."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, out: torch.dtype) -> Tensor:  # noqa: ANN401
        """X (R, m, d or more) times W (R, d, h), zeros below W."""
        R, d, h = ctx.shape = weight.shape
        half = torch.zeros(R, x.shape[2], h, dtype=x.dtype, device=x.device)
        half[:, :d] = weight
        ctx.save_for_backward(x, half if ctx.needs_input_grad[0] else None)
        return torch.bmm(x, half) if out == x.dtype else torch.bmm(x, half, out_dtype=out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None]:  # noqa: ANN401
        """The gradients of x, where it is wanted, and of W."""
        x, half = ctx.saved_tensors
        grad = grad.to(x.dtype)
        whole = torch.bmm(x.transpose(1, 2), grad, out_dtype=torch.float32)
        back = None if half is None else torch.bmm(grad, half.transpose(1, 2))
        return back, whole[:, : ctx.shape[1]], None


def csr_tensor(matrix: sparse.csr_matrix, device: torch.device) -> Tensor:
    """A SciPy CSR matrix as a PyTorch one.

    Examples
    --------
    >>> csr_tensor(sparse.csr_matrix(np.eye(2)), torch.device("cpu")).layout
    torch.sparse_csr
    """
    starts, columns, values = (
        torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    with warnings.catch_warnings():
        # PyTorch announces that its CSR layout is young each time one is made.
        warnings.filterwarnings("ignore", message="Sparse")
        return torch.sparse_csr_tensor(
            starts, columns, values, size=matrix.shape, check_invariants=False
        )


def _product(x: Tensor, weight: Tensor, out: torch.dtype) -> Tensor:
    if x.dtype == torch.float16:
        x = x.to(out)
    if x.dtype == weight.dtype:
        return torch.bmm(x, F.pad(weight, (0, 0, 0, x.shape[2] - weight.shape[1])))
    product: Tensor = HalfProduct.apply(x, weight, out)  # type: ignore[no-untyped-call]
    return product


def _scaled(product: Tensor, scale: Tensor | None) -> Tensor:
    return product if scale is None else product * scale


def _pick(whole: Tensor, rows: Tensor) -> Tensor:
    """Rows (R, m) of each replica's (n, h) matrix."""
    R, n, h = whole.shape
    first = torch.arange(R, device=rows.device).unsqueeze(1) * n
    flat = (rows + first).flatten()
    return whole.reshape(R * n, h).index_select(0, flat).view(R, -1, h)


def _row_scale(matrix: Tensor) -> Tensor | None:
    """A scale a row (n, 1) that leaves numbers which bfloat16 holds exactly.

    Counts need none; the words of a row that was scaled to sum to 1 are its largest value times 1.
    """
    if _holds_exactly(matrix):
        return None
    top = matrix.abs().amax(dim=1, keepdim=True)
    return torch.where(top > 0, top, 1.0)


def _is_exact_in_half(features: sparse.csr_matrix) -> bool:
    """Whether bfloat16 holds each row exactly, but for a scale."""
    values = torch.from_numpy(features.data)
    top = np.asarray(abs(features).max(axis=1).todense()).ravel()
    top[top == 0] = 1
    scale = torch.from_numpy(np.repeat(top, np.diff(features.indptr)))
    return _holds_exactly(values) or _holds_exactly(values / scale)


def _holds_exactly(values: Tensor) -> bool:
    return bool((values.to(torch.bfloat16).to(values.dtype) == values).all())
