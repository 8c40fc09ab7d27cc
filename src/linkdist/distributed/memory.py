"""Memory that the C library keeps after arrays are freed."""

from __future__ import annotations

import ctypes
import sys


def release_unused() -> None:
    """Return freed memory to the system, where the C library can (glibc).

    The C library keeps freed blocks for later. After a stage with large arrays these can be
    hundreds of megabytes, which would count against the memory that a training may use.

    Examples
    --------
    >>> release_unused()
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
