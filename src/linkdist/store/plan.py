"""How many parts a store needs so that training from it fits in memory.

Training holds three parts, two at work and one that is read ahead, and two buckets of links. All
of it shall take half of the memory at most; the rest is the program's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from linkdist.errors import OptionError
from linkdist.store.manifest import PARTS

LINK = 64
"""Bytes that training takes a link of the buckets that it holds."""
EDGES = 16
"""Bytes of these that are a link's two edges."""

HELD_PARTS, HELD_BUCKETS = 3, 2
COPIES = {"float16": 1, "float32": 1, "csr": 3}
"""How often a part lies in memory, by the kind of its features: CSR matrices are put below each
other for a round, and what that takes beside the matrices is about as much again (measured)."""

FINE = 64
"""Links that an average bucket must have."""

MEMORY = "2GB"

UNITS = {
    unit: size
    for power, letter in enumerate("KMGT", start=1)
    for unit, size in ((f"{letter}B", 1000**power), (f"{letter}IB", 1024**power))
} | {"": 1, "B": 1}


def parse_memory(text: str) -> int:
    """Bytes, from text such as 500MB, 1.5GiB or a plain number.

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
    unit = UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or float(found[1]) * unit < 1:
        rule = "memory must be a number of bytes such as 500MB, 2GB or 1.5GiB"
        raise OptionError(f"{rule}; found {text!r}.")
    return int(float(found[1]) * unit)


def format_memory(size: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> format_memory(999), format_memory(2_560_000_000)
    ('999 bytes', '2.6 GB')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if size >= UNITS[unit.upper()]:
            return f"{size / UNITS[unit.upper()]:.1f} {unit}"
    return f"{int(size)} bytes"


def parts_for(nodes: int, node_bytes: float, links: int, memory: int) -> int:
    """The smallest number of parts with which training fits in half of the memory.

    Parameters
    ----------
    nodes, links : int
        How many there are.
    node_bytes : float
        Bytes of a node's features and label.
    memory : int
        Bytes, as `--memory` says.

    Raises
    ------
    OptionError
        If it takes so many parts that buckets have too few links.

    Examples
    --------
    >>> parts_for(nodes=20_000_000, node_bytes=132, links=200_000_000, memory=2_000_000_000)
    13
    """

    def fits(P: int) -> bool:
        return _held(P, nodes * node_bytes, links) <= memory / 2

    most = largest_parts(links)
    if not fits(most):
        least = 2 * math.ceil(_held(most, nodes * node_bytes, links))
        raise OptionError(
            f"a memory of {format_memory(memory)} is too little for {nodes} nodes of "
            f"{format_memory(node_bytes)} and {links} links: {_rule(links, most)}. "
            f"Give --memory {least} or more."
        )
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def check_parts(parts: int, links: int) -> None:
    """Refuse a number of parts that makes too fine buckets for a graph.

    Examples
    --------
    >>> check_parts(4, links=1000)
    >>> check_parts(9, links=1000)
    Traceback (most recent call last):
    linkdist.errors.OptionError: 9 parts are too fine for 1000 links: with more than 5 parts a \
bucket of links has fewer than 64 on average. Give --parts 5 or fewer.
    """
    if not 1 <= parts <= PARTS:
        raise OptionError(f"parts must be 1 to {PARTS}; found {parts}.")
    most = largest_parts(links)
    if parts > most:
        raise OptionError(
            f"{parts} parts are too fine for {links} links: {_rule(links, most)}. "
            f"Give --parts {most} or fewer."
        )


def largest_parts(links: int) -> int:
    """The most parts with which an average bucket has enough links; 1 at least.

    Examples
    --------
    >>> largest_parts(64), largest_parts(192)
    (1, 2)
    """
    if not FINE:
        return PARTS
    return max(1, min(PARTS, (math.isqrt(1 + 8 * (links // FINE)) - 1) // 2))


def training_memory(part_bytes: Sequence[float], counts: Sequence[int]) -> int:
    """Bytes that training from a store takes at most.

    Parameters
    ----------
    part_bytes : (P,) sequence
        Bytes of each part's features and labels.
    counts : sequence
        Links of each bucket.

    Examples
    --------
    >>> training_memory([100, 300, 200, 200], [1, 2, 3, 4])
    1148
    """
    parts = sum(sorted(part_bytes)[-HELD_PARTS:])
    return int(parts + LINK * sum(sorted(counts)[-HELD_BUCKETS:]))


def _held(P: int, part_bytes: float, links: int) -> float:
    """Bytes that training takes with P even parts, whose bytes are `part_bytes` in all."""
    bucket = links if P == 1 else 2 * links / P**2
    buckets = min(HELD_BUCKETS, P * (P + 1) // 2)
    return part_bytes * min(HELD_PARTS, P) / P + LINK * bucket * buckets


def _rule(links: int, most: int) -> str:
    return f"with more than {most} parts a bucket of links has fewer than {FINE} on average"
