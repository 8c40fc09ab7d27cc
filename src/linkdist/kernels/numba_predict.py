"""One node through the folded MLP, as a compiled loop on one thread.

For a single row a library spends more time on calling its operations than on computing them. Here
it is one call: eight features at a time are read with their rows of weights, or passed over where
they are zero, and the weights are all that memory has to deliver.
"""

from __future__ import annotations

import threading
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.kernels._openmp import array, compiled_for_one, inlined, numbers
from linkdist.kernels.reference import EPSILON, SLOPE
from linkdist.nn.folding import Folded

f32 = np.float32
slope, epsilon = f32(SLOPE), f32(EPSILON)


@inlined
def _affine(x, weight, bias, y):
    """The row x W + b, into y."""
    width = y.shape[0]
    y[:] = bias
    i = 0
    while i + 8 <= x.shape[0]:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        e, f, g, h = x[i + 4], x[i + 5], x[i + 6], x[i + 7]
        if a != 0 or b != 0 or c != 0 or d != 0 or e != 0 or f != 0 or g != 0 or h != 0:
            p, q, r, s = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
            t, u, v, w = weight[i + 4], weight[i + 5], weight[i + 6], weight[i + 7]
            for j in range(width):
                y[j] += ((a * p[j] + b * q[j]) + (c * r[j] + d * s[j])) + (
                    (e * t[j] + f * u[j]) + (g * v[j] + h * w[j])
                )
        i += 8
    while i < x.shape[0]:
        a, p = x[i], weight[i]
        for j in range(width):
            y[j] += a * p[j]
        i += 1


@inlined
def _activate(x, scale, shift):
    """LayerNorm and LeakyReLU, in place."""
    width = f32(x.shape[0])
    total, square = f32(0), f32(0)
    for j in range(x.shape[0]):
        total += x[j]
    level = total / width
    for j in range(x.shape[0]):
        square += (x[j] - level) * (x[j] - level)
    by = f32(1) / np.sqrt(square / width + epsilon)
    for j in range(x.shape[0]):
        t = (x[j] - level) * by * scale[j] + shift[j]
        x[j] = max(t, slope * t)


@compiled_for_one
def _forward(address):
    a = numbers(address, 16)
    R, d, hidden, C = a[12], a[13], a[14], a[15]
    x, z = array(a[0], d, f32), array(a[1], (R, C), f32)
    w1, b1 = array(a[2], (R, d, hidden), f32), array(a[3], (R, hidden), f32)
    w2, b2 = array(a[4], (R, hidden, hidden), f32), array(a[5], (R, hidden), f32)
    w3, b3 = array(a[6], (R, hidden, C), f32), array(a[7], (R, C), f32)
    scale1, shift1 = array(a[8], (R, hidden), f32), array(a[9], (R, hidden), f32)
    scale2, shift2 = array(a[10], (R, hidden), f32), array(a[11], (R, hidden), f32)
    h, g = np.empty(hidden, f32), np.empty(hidden, f32)
    for r in range(R):
        _affine(x, w1[r], b1[r], h)
        _activate(h, scale1[r], shift1[r])
        _affine(h, w2[r], b2[r], g)
        _activate(g, scale2[r], shift2[r])
        _affine(g, w3[r], b3[r], z[r])


_Call: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], IntArray, int]


class Single:
    """A folded MLP for one node at a time.

    Parameters
    ----------
    folded : Folded
        On the CPU; its weights are copied.

    Examples
    --------
    >>> from linkdist.nn.network import ForkedMLP
    >>> one = Single(Folded(ForkedMLP(d=4, C=3, seeds=[0, 1])))
    >>> one(np.ones(4, dtype=np.float32)).shape
    (2, 3)
    """

    def __init__(self, folded: Folded) -> None:
        parts = [*folded.first, *folded.second, *folded.third, *folded.norms]
        self._weights = [part.detach().contiguous().clone() for part in parts]
        self.R, self.d, hidden = folded.first[0].shape
        self.C = folded.third[0].shape[2]
        self._sizes = (self.R, self.d, hidden, self.C)
        self._own = threading.local()

    def __call__(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Own-label logits (R, C) of one node's features (d,)."""
        if x.shape != (self.d,):
            raise ValueError(f"a node must have {self.d} features; found shape {x.shape}.")
        try:
            into, z, _, address = self._own.call
        except AttributeError:
            into, z, _, address = self._prepare()
        into[:] = x
        _forward(address)
        copy: npt.NDArray[np.float32] = z.copy()
        return copy

    def _prepare(self) -> _Call:
        """What a thread's calls share: room for x and z, and the arguments of the loop."""
        x, z = np.empty(self.d, f32), np.empty((self.R, self.C), f32)
        values = [x.ctypes.data, z.ctypes.data, *(part.data_ptr() for part in self._weights)]
        packed = np.array([*values, *self._sizes], dtype=np.int64)
        self._own.call = x, z, packed, packed.ctypes.data
        return x, z, packed, packed.ctypes.data
