"""Sums over neighbours for values in half precision, as a loop that Numba compiles for the CPU.

A graph on disk has its values in float16, half of the bytes to read. Converting a whole part before
each product would take longer than the product, so the loop converts a value when it adds it. For
the bits s eeeee mmmmmmmmmm of a float16, the float32 with the bits s 000eeeee mmmmmmmmmm0…0 is
2¹¹² times smaller, also for zero and for numbers without a leading 1.
"""

from __future__ import annotations

import numpy as np

from linkdist.kernels._openmp import array, compiled, numbers, thread, threads

PIECE = 1024
"""Number of rows that a thread processes at a time."""

f32, i32, i64, u16 = np.float32, np.int32, np.int64, np.uint16
exponent = f32(2.0**112)


@compiled
def add_half_sums(address):
    """Add P x to a total, for a CSR matrix P and x in float16."""
    a = numbers(address, 9)
    rows, width, others, entries = a[5], a[6], a[7], a[8]
    starts = array(a[0], (rows + 1,), i32)
    columns = array(a[1], (entries,), i32)
    values = array(a[2], (entries,), f32)
    x = array(a[3], (others, width), u16)
    total = array(a[4], (rows, width), f32)
    pieces = (rows + PIECE - 1) // PIECE
    for piece in range(thread(), pieces, threads()):
        for row in range(piece * PIECE, min(rows, (piece + 1) * PIECE)):
            own = total[row]
            for entry in range(starts[row], starts[row + 1]):
                other, by = x[columns[entry]], values[entry] * exponent
                for c in range(width):
                    half = i32(other[c])
                    bits = ((half & 0x7FFF) << 13) | ((half & 0x8000) << 16)
                    own[c] += i32(bits).view(f32) * by
