"""Our CSR matrices against those of SciPy."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from linkdist.data import numpy_csr

SIZES = st.integers(0, 6)


@st.composite
def entries(draw):
    """The three arrays of a CSR matrix with duplicates and empty rows, and its shape."""
    n, d = draw(SIZES), draw(st.integers(1, 5))
    counts = draw(arrays(np.int64, n, elements=st.integers(0, 4)))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = draw(arrays(np.int64, int(indptr[-1]), elements=st.integers(0, d - 1)))
    data = draw(arrays(np.float32, len(indices), elements=st.sampled_from([-2, 0.5, 1, 3])))
    return (data, indices, indptr), (n, d)


def both(found):
    parts, shape = found
    # SciPy writes into the arrays that it is given.
    return [make(tuple(map(np.copy, parts)), shape=shape) for make in MAKERS]


MAKERS = (numpy_csr.csr_matrix, scipy.sparse.csr_matrix)


@given(entries())
def test_duplicates_are_added_up_and_sorted(found):
    ours, theirs = both(found)
    np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    for matrix in (ours, theirs):
        matrix.sum_duplicates()
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(ours, part), getattr(theirs, part))
    assert ours.shape == theirs.shape


@given(entries(), SIZES, SIZES, SIZES)
def test_rows_and_products_are_those_of_scipy(found, start, stop, k):
    ours, theirs = both(found)
    part = ours[start:stop]
    np.testing.assert_array_equal(part.toarray(), theirs[start:stop].toarray())
    d = ours.shape[1]
    dense = np.arange(d * k, dtype=np.float32).reshape(d, k)
    product = part @ dense
    np.testing.assert_allclose(product, theirs[start:stop] @ dense, rtol=1e-6)
    assert product.dtype == np.float32


@given(entries(), st.integers(0, 4))
def test_stacks_are_those_of_scipy(found, width):
    ours, theirs = both(found)
    n, d = ours.shape
    dense = np.arange(n * width, dtype=np.float32).reshape(n, width) % 3
    for stack, theirs_stack, block in (
        (numpy_csr.hstack, scipy.sparse.hstack, dense),
        (numpy_csr.vstack, scipy.sparse.vstack, np.eye(d, dtype=np.float32)),
    ):
        mine = stack([numpy_csr.csr_matrix(block), ours, numpy_csr.csr_matrix(ours)])
        right = [scipy.sparse.csr_matrix(block), theirs, theirs]
        expected = theirs_stack(right, format="csr", dtype=np.float32)
        np.testing.assert_array_equal(mine.toarray(), expected.toarray())
        np.testing.assert_array_equal(mine.indptr, expected.indptr)
        np.testing.assert_array_equal(mine.indices, expected.indices)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_a_shape_is_a_matrix_of_zeros(shape):
    np.testing.assert_array_equal(
        numpy_csr.csr_matrix(shape, dtype=np.float32).toarray(), np.zeros(shape)
    )
