"""Oracles: dense products in NumPy, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from linkdist import kernels
from linkdist.kernels import add_sums
from linkdist.nn.inputs import csr_tensor

CPU = torch.device("cpu")
HALVES = st.one_of(
    st.sampled_from([0.0, -0.0, 65504.0, -65504.0, 2.0**-24, -(2.0**-24), 2.0**-14, 6.0e-5]),
    st.floats(-65504, 65504, width=16),
)


def result(matrix, x, total=None):
    """Run add_sums on a SciPy matrix and a float16 array."""
    total = torch.zeros(matrix.shape[0], x.shape[1]) if total is None else total
    add_sums(total, csr_tensor(matrix, CPU), torch.from_numpy(x))
    return total.numpy()


def expected(matrix, x):
    return matrix.toarray().astype(np.float64) @ x.astype(np.float64)


@st.composite
def cases(draw):
    """A rectangular matrix with empty rows, zeros and negative weights, and float16 values."""
    m, n, f = (draw(st.integers(1, 6)) for _ in range(3))
    weights = st.sampled_from([0.0, 0.0, 1.0, 0.5, -2.0, 3.25])
    matrix = draw(arrays.arrays(np.float32, (m, n), elements=weights))
    x = draw(arrays.arrays(np.float16, (n, f), elements=HALVES))
    return sparse.csr_matrix(matrix), x


@given(cases())
def test_sums_are_those_of_a_dense_product(case):
    matrix, x = case
    largest = np.abs(matrix.toarray()) @ np.abs(x.astype(np.float64))
    error = np.abs(result(matrix, x) - expected(matrix, x))
    assert (error <= 1e-6 * largest).all()


def test_every_float16_is_converted_exactly():
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(np.float16)
    x = x[np.isfinite(x)].reshape(-1, 1)
    found = result(sparse.identity(len(x), dtype=np.float32, format="csr"), x)
    assert (found == x.astype(np.float32)).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_share_the_rows(threads):
    random, before = np.random.default_rng(0), torch.get_num_threads()
    matrix = sparse.random(5000, 70, 0.1, "csr", np.float32, random)
    x = random.normal(size=(70, 9)).astype(np.float16)
    try:
        torch.set_num_threads(threads)
        found = result(matrix, x)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found, expected(matrix, x), rtol=1e-5, atol=1e-5)


def test_a_total_is_added_to():
    matrix, x = sparse.csr_matrix(np.eye(3, 2, dtype=np.float32)), np.ones((2, 1), np.float16)
    assert result(matrix, x, torch.full((3, 1), 5.0)).ravel().tolist() == [6, 6, 5]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 3)])
def test_a_matrix_without_entries_changes_nothing(shape):
    x = np.ones((shape[1], 2), np.float16)
    assert not result(sparse.csr_matrix(shape, dtype=np.float32), x).any()


@given(cases())
def test_without_numba_the_sums_are_the_same(case):
    matrix, x = case
    fast = result(matrix, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "HAS_NUMBA", False)
        slow = result(matrix, x)
    scale = np.abs(matrix.toarray()) @ np.abs(x.astype(np.float64)) + 1e-30
    assert (np.abs(fast - slow) <= 1e-6 * scale).all()


def test_values_in_float32_are_summed_too():
    total = torch.zeros(2, 1)
    add_sums(total, torch.eye(2).to_sparse_csr(), torch.tensor([[1e-10], [1e10]]))
    assert torch.equal(total, torch.tensor([[1e-10], [1e10]]))
