"""Loops compiled by Numba that run on PyTorch's own threads.

A loop must not run on Numba's threads: PyTorch's OpenMP threads spin while they wait for work, and
two pools of threads on the same cores slow each other down. So each loop is compiled as a C
function and passed to the OpenMP library of PyTorch, whose threads call it together; each thread
does the pieces that its number selects. Where PyTorch does not use an OpenMP library with GNU's
interface, the calling thread does all pieces.

A loop receives one address, at which its arguments lie in a row: integers, and the addresses of
tensors. It reads them like this::

    a = numbers(address, 3)
    x = array(a[0], (a[1], a[2]), np.float32)
    for piece in range(thread(), pieces, threads()):
        ...
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from torch import Tensor

OPTIONS: dict[str, Any] = {"fastmath": True, "error_model": "numpy"}


def find_openmp(folder: Path) -> ctypes.CDLL | None:
    """The OpenMP functions that PyTorch's own library uses; None, with a warning, without them.

    A process may hold several OpenMP libraries. Symbols are looked up in PyTorch's library and in
    the libraries that it depends on, so they are those of PyTorch's threads.

    Parameters
    ----------
    folder : Path
        The folder of PyTorch's shared libraries.
    """
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        try:
            library = ctypes.CDLL(str(folder / name), mode=os.RTLD_NOLOAD)
        except (AttributeError, OSError):
            continue
        if all(hasattr(library, symbol) for symbol in ("GOMP_parallel", "omp_get_thread_num")):
            return library
    warnings.warn(
        "PyTorch's OpenMP library was not found, so training on the CPU runs its compiled loops on "
        "one thread. Install a PyTorch that is built with GNU OpenMP, such as the one on PyPI for "
        "Linux, to use all cores.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


_library = find_openmp(Path(torch.__file__).parent / "lib")


class compiled:  # noqa: N801
    """Compile a loop into a function of contiguous tensors and integers that all threads run."""

    def __init__(self, loop: Callable[[Any], None]) -> None:
        self.loop = loop

    @cached_property
    def function(self) -> Any:  # noqa: ANN401
        """The loop, compiled at the first call: a prediction needs only one of them."""
        return numba.cfunc("void(voidptr)", cache=True, **OPTIONS)(self.loop)

    def __call__(self, *arguments: Tensor | int) -> None:
        values = [a if isinstance(a, int) else a.data_ptr() for a in arguments]
        packed = (ctypes.c_int64 * len(values))(*values)
        if _library is None:
            self.function.ctypes(packed)
            return
        start, threads = ctypes.c_void_p(self.function.address), torch.get_num_threads()
        _library.GOMP_parallel(start, packed, ctypes.c_uint(threads), ctypes.c_uint())


inlined = numba.njit(inline="always", **OPTIONS)
"""Marks a part of a loop."""


def _openmp_function(name: str, alone: int) -> Any:  # noqa: ANN401
    """An OpenMP function for use in a loop; it returns `alone` where there is no OpenMP library."""
    if _library is None:
        function = numba.cfunc("int32()")(lambda: alone)
        _constants.append(function)
        address = function.address
    else:
        address = ctypes.cast(_library[name], ctypes.c_void_p).value
    llvmlite.binding.add_symbol(f"linkdist_{name}", address)
    return types.ExternalFunction(f"linkdist_{name}", types.int32())


_constants: list[Any] = []  # compiled functions must not be freed
thread = _openmp_function("omp_get_thread_num", alone=0)
threads = _openmp_function("omp_get_num_threads", alone=1)


@intrinsic
def _pointer(context: Any, address: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@inlined
def numbers(address, count):
    """The arguments of a loop."""
    return numba.carray(address, count, np.int64)


@inlined
def array(address, shape, dtype):
    """The contiguous tensor at an address."""
    return numba.carray(_pointer(address), shape, dtype)
