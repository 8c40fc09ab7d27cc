"""The number of parts with which training from a store fits in memory.

Training holds three parts, two in use and one that is read ahead, and two buckets of links. They
may take half of the memory; the other half is for the program itself.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence

from linkdist.errors import OptionError
from linkdist.store.format import MAX_PARTS

LINK_BYTES = 64
"""Bytes that training needs for each link of the buckets that it holds."""
EDGE_BYTES = 16
"""The share of `LINK_BYTES` that stores the two edges of a link."""

HELD_PARTS, HELD_BUCKETS = 3, 2
COPIES = {"float16": 1, "float32": 1, "csr": 3}
"""How many times a part is in memory, for each kind of features: CSR matrices are stacked for a
round, and stacking needs about as much again as the matrices themselves (measured)."""

MIN_BUCKET = 64
"""The number of links that an average bucket must have."""

MEMORY = "2GB"

UNITS = {
    unit: size
    for power, letter in enumerate("KMGT", start=1)
    for unit, size in ((f"{letter}B", 1000**power), (f"{letter}IB", 1024**power))
} | {"": 1, "B": 1}


def parse_memory(text: str) -> int:
    """A number of bytes, from a text such as 500MB, 1.5GiB or a plain number.

    Examples
    --------
    >>> parse_memory("500MB"), parse_memory("1.5 GiB"), parse_memory("4096")
    (500000000, 1610612736, 4096)
    >>> parse_memory("much")
    Traceback (most recent call last):
    linkdist.errors.OptionError: memory must be a number of bytes such as 500MB, 2GB or 1.5GiB; \
found 'much'.
    """
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*", text)
    size = float(found[1]) * UNITS.get(found[2].upper(), 0) if found else 0
    if size < 1:
        rule = "memory must be a number of bytes such as 500MB, 2GB or 1.5GiB"
        raise OptionError(f"{rule}; found {text!r}.")
    return int(size)


def format_memory(size: float) -> str:
    """A number of bytes as a short text.

    Examples
    --------
    >>> format_memory(999), format_memory(2_560_000_000)
    ('999 bytes', '2.6 GB')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if size >= UNITS[unit.upper()]:
            return f"{size / UNITS[unit.upper()]:.1f} {unit}"
    return f"{int(size)} bytes"


def label_bytes(task: str, C: int) -> int:
    """Bytes that the label of a node needs in training.

    Examples
    --------
    >>> label_bytes("classification", 40), label_bytes("multilabel", 40)
    (8, 160)
    """
    return 4 * C if task == "multilabel" else 8


def parts_for(nodes: int, node_bytes: float, links: int, memory: int) -> int:
    """The smallest number of parts with which training fits in half of the memory.

    Parameters
    ----------
    nodes, links : int
        Numbers of nodes and links.
    node_bytes : float
        Bytes of the features and the label of a node.
    memory : int
        Bytes, the value of `--memory`.

    Raises
    ------
    OptionError
        If so many parts are needed that buckets have too few links.

    Examples
    --------
    >>> parts_for(nodes=20_000_000, node_bytes=132, links=200_000_000, memory=2_000_000_000)
    13
    """

    def held(P: int) -> float:
        bucket = links if P == 1 else 2 * links / P**2
        parts = nodes * node_bytes * min(HELD_PARTS, P) / P
        return parts + LINK_BYTES * bucket * min(HELD_BUCKETS, P * (P + 1) // 2)

    most = largest_parts(links)
    if held(most) > memory / 2:
        raise OptionError(
            f"a memory of {format_memory(memory)} is too small for {nodes} nodes of "
            f"{format_memory(node_bytes)} and {links} links: {_rule(most)}. "
            f"Give --memory {2 * math.ceil(held(most))} or more."
        )
    return 1 + bisect_left(range(1, most), True, key=lambda P: held(P) <= memory / 2)


def check_parts(parts: int, links: int) -> None:
    """Raise an error if a number of parts is invalid, or leaves too few links for a bucket.

    Examples
    --------
    >>> check_parts(4, links=1000)
    >>> check_parts(9, links=1000)
    Traceback (most recent call last):
    linkdist.errors.OptionError: 9 parts are too many for 1000 links: with more than 5 parts an \
average bucket has fewer than 64 links. Give --parts 5 or fewer.
    """
    if not 1 <= parts <= MAX_PARTS:
        raise OptionError(f"parts must be 1 to {MAX_PARTS}; found {parts}.")
    most = largest_parts(links)
    if parts > most:
        raise OptionError(
            f"{parts} parts are too many for {links} links: {_rule(most)}. "
            f"Give --parts {most} or fewer."
        )


def largest_parts(links: int) -> int:
    """The largest number of parts with which an average bucket has enough links; at least 1.

    Examples
    --------
    >>> largest_parts(64), largest_parts(192)
    (1, 2)
    """
    return max(1, min(MAX_PARTS, (math.isqrt(1 + 8 * (links // MIN_BUCKET)) - 1) // 2))


def training_memory(part_bytes: Sequence[float], counts: Sequence[int]) -> int:
    """The largest number of bytes that training from a store holds.

    Parameters
    ----------
    part_bytes : (P,) sequence
        Bytes of the features and labels of each part.
    counts : sequence
        Number of links of each bucket.

    Examples
    --------
    >>> training_memory([100, 300, 200, 200], [1, 2, 3, 4])
    1148
    """
    parts = sum(sorted(part_bytes)[-HELD_PARTS:])
    return int(parts + LINK_BYTES * sum(sorted(counts)[-HELD_BUCKETS:]))


def _rule(most: int) -> str:
    return f"with more than {most} parts an average bucket has fewer than {MIN_BUCKET} links"
