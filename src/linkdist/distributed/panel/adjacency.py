"""The links of a store as sparse matrices between two parts, and sums over neighbours.

The sums over the neighbours of all nodes are A x with the adjacency matrix A. The rows of part a
are the sum over all parts b of A_ab x_b, where A_ab is made from the bucket of a and b. So one part
of the result and one part of x are in memory at a time. Self-loops are left out: a node is not its
own neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from linkdist.data.graph import IntArray
from linkdist.distributed.panel.columns import Columns
from linkdist.errors import StoreError
from linkdist.kernels import add_sums
from linkdist.nn.inputs import csr_tensor
from linkdist.store.format import REBUILD, bucket_file, buckets
from linkdist.store.reader import Store


class Cache:
    """Tensors that stay in memory as long as there is room; others are made again.

    Parameters
    ----------
    room : int
        Number of bytes.

    Examples
    --------
    >>> cache = Cache(room=8)
    >>> cache.get("a", lambda: torch.zeros(2)), cache.get("a", lambda: torch.ones(2))
    (tensor([0., 0.]), tensor([0., 0.]))
    """

    def __init__(self, room: int) -> None:
        self.room, self.held = room, dict[Any, Tensor]()

    def get(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        """The tensor with a key, made if it is not held."""
        if key in self.held:
            return self.held[key]
        made = make()
        if made.layout == torch.sparse_csr:
            values = made.values()
            size = values.nbytes + made.col_indices().nbytes + made.crow_indices().nbytes
        else:
            size = made.nbytes
        if size <= self.room:
            self.held[key] = made
            self.room -= size
        return made


class Adjacency:
    """The links of a store.

    Parameters
    ----------
    store : Store
        The graph.
    device : torch.device
        Where sums are computed.
    room : int
        Bytes of matrices that may stay in memory.

    Attributes
    ----------
    heads : range
        The neighbour heads.
    """

    def __init__(self, store: Store, device: torch.device, room: int) -> None:
        self.store, self.device, self.cache = store, device, Cache(room)
        self.heads = range(len(store.heads))
        self.mean_weight = _mean_weight(store)

    def matrix(self, a: int, b: int, head: int | None = None) -> Tensor:
        """A_ab (n_a, n_b) in CSR format, of the links of one head or of all.

        Its entries are 1, or weights whose mean over all links is 1.
        """
        return self.cache.get(
            (a, b, head), lambda: csr_tensor(self._matrix(a, b, head), self.device)
        )

    def _matrix(self, a: int, b: int, head: int | None) -> sparse.csr_matrix:
        if a < b:
            return self._edges(a, b, head)
        back = head ^ 1 if head is not None and self.store.directed else head
        turned = self._edges(b, a, back).T.tocsr()
        return turned + self._edges(a, b, head) if a == b else turned

    def _edges(self, a: int, b: int, head: int | None) -> sparse.csr_matrix:
        """The edges from part a to part b of the links of a bucket, a <= b, without self-loops."""
        pairs, heads, weights = self.store.bucket(a, b)
        i, j = np.ascontiguousarray(pairs.astype(np.int32, copy=False).T)
        if (i[1:] < i[:-1]).any():
            path = self.store.directory / bucket_file(a, b)
            raise StoreError(f"{path} must contain sorted links. {REBUILD}")
        by = np.ones(len(i), np.float32) if weights is None else weights / self.mean_weight
        if heads is not None and head is not None:
            i, j, by = (part[heads == head] for part in (i, j, by))
        if a == b:
            proper = i != j
            i, j, by = (part[proper] for part in (i, j, by))
        # The links are sorted, so that the rows need not be: SciPy would take most of the time.
        shape = (self.store.manifest.sizes[a], self.store.manifest.sizes[b])
        starts = np.zeros(shape[0] + 1, np.int32)
        np.cumsum(np.bincount(i, minlength=shape[0]), out=starts[1:])
        return sparse.csr_matrix((by.astype(np.float32, copy=False), j, starts), shape)

    def sums(
        self,
        a: int,
        read: Callable[[int], Tensor],
        head: int | None = None,
        strengths: Sequence[float] | None = None,
    ) -> Tensor:
        """Sums (n_a, f) over the neighbours of the nodes of part a, in float32.

        Parameters
        ----------
        a : int
            The part.
        read : callable
            Returns x of a part, (n_b, f) in float16, on the device.
        head : int, optional
            The head whose links are used; by default all links.
        strengths : sequence of float, optional
            How much a link of each head counts, if all are used; by default 1.
        """
        width = read(0).shape[1]
        total = torch.zeros(int(self.store.sizes[a]), width, device=self.device)
        if strengths is not None and head is None:
            for k, by in enumerate(strengths):
                total += by * self.sums(a, read, k)
            return total
        for b in range(self.store.P):
            add_sums(total, self.matrix(a, b, head), read(b))
        return total


def _mean_weight(store: Store) -> float:
    """The mean weight of all links; 1 if they have none."""
    if not store.weighted or not store.m:
        return 1.0
    found = (store.bucket(a, b)[2] for a, b in buckets(store.P))
    return sum(float(part.sum(dtype=np.float64)) for part in found if part is not None) / store.m


class Visible:
    """Reads an array part by part, with zeros for hidden nodes.

    Parameters
    ----------
    columns : Columns
        The array.
    hidden : mapping of int to int arrays
        The rows of each part that are hidden.
    device : torch.device
        Where the parts are needed.
    room : int
        Bytes that may stay on the device; on a CPU, files are mapped and nothing stays.
    """

    def __init__(
        self, columns: Columns, hidden: Mapping[int, IntArray], device: torch.device, room: int
    ) -> None:
        self.columns, self.hidden, self.device = columns, hidden, device
        self.cache = Cache(room if device.type == "cuda" else 0)

    def __call__(self, part: int) -> Tensor:
        """The values of a part (n_p, width)."""
        return self.cache.get(part, lambda: self._read(part))

    def _read(self, part: int) -> Tensor:
        x = self.columns.read(part)
        if len(rows := self.hidden.get(part, ())):
            x[torch.from_numpy(np.asarray(rows))] = 0
        return x.to(self.device)
