"""Freed memory that stays with the process.

A training step on the CPU frees tensors of a few megabytes and asks for the same again in the
next. The C library of most Linux systems hands such pieces back to the kernel, which clears them
anew when they are touched: a twentieth of a step. Where it can be asked to keep them it is, and
what it kept is given back at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
DEFAULTS = {M_TRIM_THRESHOLD: 128 << 10, M_TOP_PAD: 128 << 10, M_MMAP_THRESHOLD: 128 << 10}
KEEPING = {M_TRIM_THRESHOLD: 1 << 30, M_TOP_PAD: 64 << 20, M_MMAP_THRESHOLD: 32 << 20}


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory, where the C library is one that can be told to.

    Examples
    --------
    >>> with kept_memory():
    ...     pass
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "malloc_trim"):
        yield
        return
    for option, value in KEEPING.items():
        library.mallopt(option, value)
    try:
        yield
    finally:
        for option, value in DEFAULTS.items():
            library.mallopt(option, value)
        library.malloc_trim(0)
