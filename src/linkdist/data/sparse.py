"""CSR matrices: those of SciPy or, without SciPy, the few operations that predictions need.

The distribution `linkdist-serve` does not install SciPy, which would be a quarter of its size and
of the time that it takes to start. The names and results are those of `scipy.sparse`.
"""

from __future__ import annotations

try:
    from scipy.sparse import csr_matrix, hstack, issparse, vstack
except ModuleNotFoundError:
    from linkdist.data.numpy_csr import csr_matrix, hstack, issparse, vstack

__all__ = ["csr_matrix", "hstack", "issparse", "vstack"]
