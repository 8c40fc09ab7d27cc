"""The headers of .npy files.

NumPy pads the header of any one- or two-dimensional array to 128 bytes. So the length of a file
gives its number of rows, a file can grow before its header is written, and a reader that knows the
shape compares bytes instead of parsing a header.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

HEADER = 128
"""Number of bytes of a .npy header."""


def npy_header(shape: tuple[int, ...], dtype: npt.DTypeLike) -> bytes:
    """The first 128 bytes of a .npy file, as `numpy.save` writes them.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((3, 2), np.uint32))
    >>> file.getvalue() == npy_header((3, 2), "uint32") + bytes(24)
    True
    """
    file = io.BytesIO()
    fields = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    header = file.getvalue()
    if len(header) != HEADER:
        raise ValueError(f"the header has {len(header)} bytes: {shape} has too many dimensions")
    return header


def rows_in(path: Path, width: int) -> int:
    """The number of rows of `width` bytes in a .npy file, from its length.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/links.npy", np.zeros((3, 2), np.uint32))
    ...     rows_in(Path(folder, "links.npy"), 8)
    3
    """
    return (path.stat().st_size - HEADER) // width
