"""What this installation can compile: Triton's kernels for a GPU, Numba's loops for the CPU.

Both stand beside plain PyTorch that computes the same, and are used where they are there.
"""

from __future__ import annotations

import importlib.util

HAS_TRITON = importlib.util.find_spec("triton") is not None
HAS_NUMBA = importlib.util.find_spec("numba") is not None
