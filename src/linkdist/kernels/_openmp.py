"""Compiled loops on PyTorch's own threads.

A loop that Numba compiled can run on several cores, but not on Numba's threads: PyTorch's, which
come from GNU's OpenMP library, spin while they wait for work, and two teams on the same cores take
turns instead of sharing them. So a loop is compiled as a C function and handed to that library,
whose threads call it together; each does the pieces that its number names. Where PyTorch's threads
are not GNU's, the calling thread does all pieces.

A loop is handed one address, where its arguments lie in a row: whole numbers, and the addresses of
tensors. It reads them so::

    a = numbers(address, 3)
    x = array(a[0], (a[1], a[2]), np.float32)
    for piece in range(thread(), pieces, threads()):
        ...
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.binding
import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from torch import Tensor

Run: TypeAlias = Callable[..., None]
OPTIONS: dict[str, Any] = {"fastmath": True, "error_model": "numpy"}


def _openmp() -> ctypes.CDLL | None:
    """The OpenMP library that PyTorch loaded; a copy of our own would bring threads of its own."""
    try:
        return ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)
    except (AttributeError, OSError):
        return None


_library = _openmp()


def compiled(loop: Callable[[Any], None]) -> Run:
    """A loop as a function of contiguous tensors and whole numbers, run by all threads together."""
    function = numba.cfunc("void(voidptr)", cache=True, **OPTIONS)(loop)

    def run(*arguments: Tensor | int) -> None:
        values = [a if isinstance(a, int) else a.data_ptr() for a in arguments]
        packed = (ctypes.c_int64 * len(values))(*values)
        _together(function, ctypes.addressof(packed))

    return run


def compiled_for_one(loop: Callable[[Any], None]) -> Callable[[int], None]:
    """A loop as a function of its arguments' address, run by the calling thread alone."""
    function: Callable[[int], None] = numba.cfunc("void(voidptr)", cache=True, **OPTIONS)(
        loop
    ).ctypes
    return function


def _together(function: Any, address: int) -> None:  # noqa: ANN401
    if _library is None:
        function.ctypes(address)
        return
    start, threads = ctypes.c_void_p(function.address), torch.get_num_threads()
    _library.GOMP_parallel(start, ctypes.c_void_p(address), ctypes.c_uint(threads), ctypes.c_uint())


inlined = numba.njit(inline="always", **OPTIONS)
"""A part of a loop."""


def _asked(name: str, alone: int) -> Any:  # noqa: ANN401
    """A question to the OpenMP library, for use in a loop; `alone` is the answer without one."""
    if _library is None:
        function = numba.cfunc("int32()")(lambda: alone)
        _answers.append(function)
        address = function.address
    else:
        address = ctypes.cast(_library[name], ctypes.c_void_p).value
    llvmlite.binding.add_symbol(f"linkdist_{name}", address)
    return types.ExternalFunction(f"linkdist_{name}", types.int32())


_answers: list[Any] = []
thread = _asked("omp_get_thread_num", alone=0)
threads = _asked("omp_get_num_threads", alone=1)


@intrinsic
def _pointer(context: Any, address: Any) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@inlined
def numbers(address, count):
    """A loop's arguments."""
    return numba.carray(address, count, np.int64)


@inlined
def array(address, shape, dtype):
    """The contiguous tensor at an address."""
    return numba.carray(_pointer(address), shape, dtype)
