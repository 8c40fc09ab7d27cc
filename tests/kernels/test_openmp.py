"""Compiled loops run on PyTorch's own threads, and say so where they cannot."""

import ctypes
from pathlib import Path

import pytest
import torch

from linkdist.kernels._openmp import find_openmp


def test_the_openmp_library_is_the_one_that_pytorch_uses():
    library = find_openmp(Path(torch.__file__).parent / "lib")
    assert library is not None
    maximum = library.omp_get_max_threads
    maximum.restype = ctypes.c_int
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert maximum() == 3
    finally:
        torch.set_num_threads(before)


def test_another_loaded_openmp_library_is_not_taken_for_pytorchs(tmp_path):
    """Any libgomp in the process was used; without any, loops ran on one thread silently."""
    with pytest.warns(RuntimeWarning, match="OpenMP library was not found.* one thread"):
        assert find_openmp(tmp_path) is None
