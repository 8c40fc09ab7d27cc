"""Arrays as plain .npy files whose header is known before they are read.

NumPy pads the header of any array of one or two dimensions to 128 bytes. So a file's length says
how many rows it has, a file can be appended to before its header is written, and a reader that
knows the shape compares bytes and parses nothing.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER = 128


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
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    header = file.getvalue()
    if len(header) != HEADER:
        raise ValueError(f"a header of {len(header)} bytes: {shape} has too many dimensions")
    return header


def as_bytes(array: npt.NDArray[Any]) -> memoryview:
    """An array's own memory, in rows without gaps.

    Examples
    --------
    >>> len(as_bytes(np.zeros((3, 2), np.uint32)))
    24
    """
    return array.reshape(-1).view(np.uint8).data


def rows_in(path: Path, width: int) -> int:
    """How many rows of `width` bytes a .npy file has, by its length.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/links.npy", np.zeros((3, 2), np.uint32))
    ...     rows_in(Path(folder, "links.npy"), 8)
    3
    """
    return (path.stat().st_size - HEADER) // width
