"""In which part a node lies: its id's hash says so, and no table of all ids is needed.

The hash of a text of l bytes w_0 w_1 ... in words of 8, the last one filled up with zeros, is

    f(Σ_j f(w_j) (2 f(j) + 1)  +  l · 0x9E3779B97F4A7C15)      modulo 2^64

with f the last step of splitmix64, which maps no two numbers to one. It is of this program and on
any machine the same. All words of all texts are worked on at once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Keys: TypeAlias = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
"""What is left of a word of which so many bytes are the text's."""

ROWS = 1 << 16
"""Texts that are worked on at once."""


def hash64(text: pa.Array) -> Keys:
    """The hash of each text.

    Parameters
    ----------
    text : (n,) array of large_string
        None of them null.

    Returns
    -------
    (n,) uint64 array
        The hashes.

    Examples
    --------
    >>> [f"{key:016x}" for key in hash64(pa.array(["7", "007"], pa.large_string()))]
    ['d7bc0a157a136b5d', 'b8ff6199be29a03b']
    """
    pieces = [_hash(text.slice(start, ROWS)) for start in range(0, len(text), ROWS)]
    return np.concatenate([np.empty(0, np.uint64), *pieces])


def part_of(keys: Keys, P: int) -> npt.NDArray[np.uint16]:
    """The part of each node, by its id's hash.

    Examples
    --------
    >>> part_of(np.array([7, 8, 9], np.uint64), 3).tolist()
    [1, 2, 0]
    """
    return (keys % np.uint64(P)).astype(np.uint16)


def _hash(text: pa.Array) -> Keys:
    start, length, content = _bytes_of(text)
    words = np.maximum((length + 7) // 8, 1)
    first = np.cumsum(words) - words
    j = np.arange(words.sum()) - np.repeat(first, words)
    left = np.minimum(np.repeat(length, words) - 8 * j, 8)
    at = np.repeat(start, words) + 8 * j
    # A word begins at any byte, so the words to choose from overlap.
    every = np.ndarray(len(content) - 7, "<u8", content, strides=(1,))
    w = every[at].astype(np.uint64) & MASKS[left]
    terms = _mixed(w) * (2 * _mixed(j.astype(np.uint64)) + 1)
    return _mixed(np.add.reduceat(terms, first) + length.astype(np.uint64) * GOLDEN)


def _bytes_of(text: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], bytes]:
    """Where each text begins, its length, and the bytes of all, with room for a word behind."""
    if text.null_count:
        raise ValueError("a text that is missing has no hash")
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    content = b"" if data is None else data[int(ends[0]) : int(ends[-1])].to_pybytes()
    return ends[:-1] - ends[0], np.diff(ends), content + bytes(8)


def _mixed(z: Keys) -> Keys:
    """The last step of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
