"""Nodes and links as 64-bit numbers: hashes of ids, and links that sort as numbers.

A node belongs to the part that the hash of its id gives, so no table of all ids is needed. The hash
of a text of l bytes, read as 8-byte words w_0 w_1 ... with the last one padded with zeros, is

    f(Σ_j f(w_j) (2 f(j) + 1)  +  l · 0x9E3779B97F4A7C15)      modulo 2^64

where f is the finalizer of splitmix64, a bijection. It is the same on every machine. The words of
all texts are processed at once.

A link between the rows i and j is the number i * 2**32 + j, so sorting numbers sorts links. A link
of the head h is (i * 2**29 + j) * 2**6 + h, if links have several heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Keys: TypeAlias = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
"""The bits of a word of which the first 0 to 8 bytes belong to the text."""

HASH_ROWS = 1 << 16
"""Number of texts that are processed at once."""

HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)

HEAD_BITS, ROW_BITS = 6, 29
"""Bits of a head and of a row in the number of a link with a head."""


def hash64(text: pa.Array) -> Keys:
    """The hash of each text.

    Parameters
    ----------
    text : (n,) array of large_string
        Texts, none of them null.

    Returns
    -------
    (n,) uint64 array
        The hashes.

    Examples
    --------
    >>> [f"{key:016x}" for key in hash64(pa.array(["7", "007"], pa.large_string()))]
    ['d7bc0a157a136b5d', 'b8ff6199be29a03b']
    """
    pieces = [_hash(text.slice(start, HASH_ROWS)) for start in range(0, len(text), HASH_ROWS)]
    return np.concatenate([np.empty(0, np.uint64), *pieces])


def part_of(keys: Keys, P: int) -> npt.NDArray[np.uint16]:
    """The part of each node, from the hash of its id.

    Examples
    --------
    >>> part_of(np.array([7, 8, 9], np.uint64), 3).tolist()
    [1, 2, 0]
    """
    return (keys % np.uint64(P)).astype(np.uint16)


def text_buffers(text: pa.Array) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """The bytes of all texts in a row, and the n + 1 positions at which they start and end.

    Examples
    --------
    >>> content, ends = text_buffers(pa.array(["ab", "c"], pa.large_string())[1:])
    >>> bytes(content), ends.tolist()
    (b'c', [0, 1])
    """
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    content = memoryview(b"" if data is None else data)
    return content[int(ends[0]) : int(ends[-1])], ends - ends[0]


def _hash(text: pa.Array) -> Keys:
    if text.null_count:
        raise ValueError("a missing text has no hash")
    content, ends = text_buffers(text)
    length = np.diff(ends)
    words = np.maximum((length + 7) // 8, 1)
    first = np.cumsum(words) - words
    j = np.arange(words.sum()) - np.repeat(first, words)
    left = np.minimum(np.repeat(length, words) - 8 * j, 8)
    at = np.repeat(ends[:-1], words) + 8 * j
    # A word may start at any byte, so the candidate words overlap; 8 bytes are room for the last.
    every = np.ndarray(len(content) + 1, "<u8", bytes(content) + bytes(8), strides=(1,))
    w = every[at].astype(np.uint64) & MASKS[left]
    terms = _mix(w) * (2 * _mix(j.astype(np.uint64)) + 1)
    return _mix(np.add.reduceat(terms, first) + length.astype(np.uint64) * GOLDEN)


def _mix(z: Keys) -> Keys:
    """The finalizer of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def pack(i: npt.NDArray[np.integer], j: npt.NDArray[np.integer], within: bool) -> Keys:
    """Links as numbers; `within` one part, the smaller row comes first.

    Examples
    --------
    >>> unpack(pack(np.array([5, 0]), np.array([1, 7]), within=True)).tolist()
    [[1, 5], [0, 7]]
    """
    if within:
        i, j = np.minimum(i, j), np.maximum(i, j)
    keys: Keys = (i.astype(np.uint64) << HALF) | j.astype(np.uint64)
    return keys


def unpack(keys: Keys) -> npt.NDArray[np.uint32]:
    """Numbers as links, (m, 2)."""
    links = np.empty((len(keys), 2), dtype=np.uint32)
    links[:, 0] = keys >> HALF
    links[:, 1] = keys & LOW
    return links


@dataclass(frozen=True)
class LinkCode:
    """Links with their heads as numbers.

    Attributes
    ----------
    heads : int
        K, the number of heads.
    directed : bool
        Whether the other direction of an edge has another head.

    Examples
    --------
    >>> code = LinkCode(heads=2, directed=True)
    >>> keys = code.pack(np.array([5, 0]), np.array([1, 7]), np.array([0, 0]), within=True)
    >>> pairs, heads = code.unpack(keys)
    >>> pairs.tolist(), heads.tolist()
    ([[1, 5], [0, 7]], [1, 0])
    """

    heads: int = 1
    directed: bool = False

    @property
    def rows(self) -> int:
        """The largest number of rows of a part."""
        return 1 << (ROW_BITS if self.heads > 1 else 32)

    def pack(
        self,
        i: npt.NDArray[np.integer],
        j: npt.NDArray[np.integer],
        heads: npt.NDArray[np.integer] | None,
        within: bool,
    ) -> Keys:
        """Links as numbers, given the heads of the edges from i to j.

        Within one part, the smaller row comes first, with the head of the edge from it.
        """
        keys = pack(i, j, within)
        if heads is None or self.heads == 1:
            return keys
        turned = (i > j) & (within and self.directed)
        high, low = (keys >> HALF) << np.uint64(ROW_BITS), keys & LOW
        numbers: Keys = (high | low) << np.uint64(HEAD_BITS)
        return numbers | (heads.astype(np.uint64) ^ turned.astype(np.uint64))

    def unpack(self, keys: Keys) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8] | None]:
        """Numbers as links (m, 2) and their heads (m,), None if there is one head."""
        if self.heads == 1:
            return unpack(keys), None
        heads = (keys & np.uint64((1 << HEAD_BITS) - 1)).astype(np.uint8)
        return unpack(self.without_heads(keys)), heads

    def relations(self, keys: Keys) -> npt.NDArray[np.uint64]:
        """The position of the relation of each link."""
        heads = keys & np.uint64((1 << HEAD_BITS) - 1) if self.heads > 1 else np.zeros_like(keys)
        return heads >> np.uint64(self.directed)

    def is_loop(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether each of the links within one part is a self-loop."""
        return is_loop(self.without_heads(keys))

    def is_own_loop(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Whether each is a self-loop of the first head, as nodes without links have them."""
        first = keys & np.uint64((1 << HEAD_BITS) - 1) == 0 if self.heads > 1 else np.bool_(True)
        return self.is_loop(keys) & first

    def without_heads(self, keys: Keys) -> Keys:
        """Links as the numbers that `pack` gives, without their heads."""
        if self.heads == 1:
            return keys
        keys = keys >> np.uint64(HEAD_BITS)
        mask = np.uint64((1 << ROW_BITS) - 1)
        return ((keys >> np.uint64(ROW_BITS)) << HALF) | (keys & mask)


def sort_unique(keys: Keys) -> Keys:
    """The distinct numbers in order; sorts the given array in place.

    Examples
    --------
    >>> sort_unique(np.array([3, 1, 3], np.uint64)).tolist()
    [1, 3]
    """
    keys.sort()
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def is_loop(keys: Keys) -> npt.NDArray[np.bool_]:
    """Whether each of the links within one part is a self-loop.

    Examples
    --------
    >>> is_loop(pack(np.array([1, 2]), np.array([1, 3]), within=True)).tolist()
    [True, False]
    """
    same: npt.NDArray[np.bool_] = (keys >> HALF) == (keys & LOW)
    return same


def count_loops(keys: Keys) -> int:
    """The number of self-loops among the links within one part.

    Examples
    --------
    >>> count_loops(pack(np.array([1, 2]), np.array([1, 3]), within=True))
    1
    """
    return int(np.count_nonzero(is_loop(keys)))
