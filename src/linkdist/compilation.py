"""Fuse what runs on a GPU, and leave the CPU as it is.

A chain of small tensor operations costs a GPU a trip through memory for each of them; compiled,
the chain is one or two kernels. The CPU has its own remedies and no compiler to count on.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def fused_on_gpu(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function of tensors, for calls whose first tensor is on a GPU.

    One compilation serves all shapes, since tables of many sizes go through the same code.

    Examples
    --------
    >>> @fused_on_gpu
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x + x
    >>> twice(torch.ones(2))
    tensor([2., 2.])
    """
    if importlib.util.find_spec("triton") is None:
        return function
    fused = torch.compile(function, dynamic=True)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        on_gpu = isinstance(args[0], torch.Tensor) and args[0].is_cuda
        return fused(*args, **kwargs) if on_gpu else function(*args, **kwargs)

    return call
