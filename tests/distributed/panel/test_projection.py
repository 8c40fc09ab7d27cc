"""Oracles: NumPy's means, deviations and singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import Graph
from linkdist.data.splits import Split, observe
from linkdist.distributed.panel import projection as module
from linkdist.distributed.panel.projection import (
    Moments,
    Projection,
    find_projection,
    moments_of,
    write_columns,
)
from linkdist.nn.inputs import make_inputs
from linkdist.training.panel.teachers import TeachingContext
from tests.distributed.panel.graphs import CPU, in_parts, random_graph, random_parts


def low_rank(n, d, rank, seed=0):
    """Rows with a few strong directions and weak noise."""
    random = np.random.default_rng(seed)
    strong = random.normal(size=(n, rank)) @ random.normal(size=(rank, d))
    return (strong + 0.01 * random.normal(size=(n, d))).astype(np.float32)


def placed_of(x, folder, P=3, kind="float32"):
    graph = Graph.build(x, [(0, 1)], np.arange(x.shape[0]) % 2)
    return in_parts(graph, random_parts(graph.n, P), folder, kind)


def principal_angles(one, other):
    """The cosines of the angles between two subspaces with orthonormal columns."""
    return np.linalg.svd(one.T @ other, compute_uv=False)


@pytest.mark.parametrize("chunk", [7, 1 << 22])
def test_moments_are_those_of_numpy(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    x = np.random.default_rng(0).normal(3, [1, 10, 0.1, 5], size=(50, 4)).astype(np.float32)
    placed = placed_of(x, tmp_path / "store")
    mean, spread = moments_of(placed.store, {}).standard()
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(spread, x.std(0) * 2, rtol=1e-4)
    hidden = np.array([0, 7, 8, 20])
    rest = moments_of(placed.store, placed.rows(hidden))
    seen = np.delete(x, hidden, axis=0).astype(np.float64)
    assert rest.n == 46
    np.testing.assert_allclose(rest.sums, seen.sum(0), rtol=1e-12)
    np.testing.assert_allclose(rest.squares, (seen**2).sum(0), rtol=1e-12)
    again = rest.plus(Moments.of(x[hidden]))
    np.testing.assert_allclose(again.standard()[1], spread, rtol=1e-6)


def test_the_standard_is_that_of_the_teachers_in_memory(tmp_path):
    graph = random_graph(d=4)
    placed = in_parts(graph, random_parts(graph.n, 3), tmp_path / "store")
    split = Split(np.arange(20), np.array([], int), np.arange(25, 30))
    view = observe(graph, split, "inductive")
    expected = TeachingContext(graph, [view], make_inputs(graph.features, CPU)).centre
    found = moments_of(placed.store, placed.rows(split.test)).standard()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs[0, 0].numpy(), rtol=1e-5, atol=1e-6)


def test_hidden_values_leave_no_trace_in_the_moments(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    hidden, found = np.array([4, 11, 12]), []
    for value in (0.0, 1e18):
        x[hidden] = value
        placed = placed_of(x, tmp_path / str(value))
        found.append(moments_of(placed.store, placed.rows(hidden)))
    assert np.array_equal(found[0].sums, found[1].sums)
    assert np.array_equal(found[0].squares, found[1].squares)


@pytest.mark.parametrize("constant", [0.0, 1000.1, -3e-5])
def test_a_constant_column_is_not_divided_by_a_rounding_error(constant):
    x = np.full((3001, 2), constant, np.float32)
    x[:, 1] += np.arange(3001) % 2 * 0.5
    _, spread = Moments.of(x).standard()
    assert spread[0] == pytest.approx(np.sqrt(2))
    assert spread[1] == pytest.approx(0.25 * np.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("kind", ["float32", "csr"])
def test_few_columns_stay_as_they_are(tmp_path, kind):
    graph = random_graph(d=6, kind=kind)
    placed = in_parts(graph, random_parts(graph.n, 3), tmp_path / "store", kind)
    moments = None if kind == "csr" else moments_of(placed.store, {})
    found = find_projection(placed.store, {}, None, moments)
    assert (found.directions, found.width) == (None, 6)
    written = write_columns(placed.workshop(tmp_path / "arrays"), found)
    x = graph.features
    if kind == "csr":
        length = np.sqrt(x.multiply(x).sum(1)).A
        x = x.toarray() / np.where(length > 0, length, 1)
    np.testing.assert_allclose(placed.gather(written.parts[0]).numpy(), x, rtol=1e-3, atol=1e-4)


def test_sparse_rows_may_have_one_length_for_all(tmp_path):
    x = sparse.csr_matrix([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    plain = np.zeros(2, np.float32), np.ones(2, np.float32)
    np.testing.assert_allclose(Projection(*plain, 2.0)(x), x.toarray() / 2)
    np.testing.assert_allclose(Projection(*plain)(x), [[0.6, 0.8], [0, 1], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "csr"])
def test_directions_span_the_dominant_subspace(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "WIDTH", 5)
    x = low_rank(80, 30, rank=5)
    if kind == "csr":
        x = sparse.csr_matrix(x)
    placed = placed_of(x, tmp_path / "store", kind=kind)
    moments = None if kind == "csr" else moments_of(placed.store, {})
    found = find_projection(placed.store, {}, None, moments)
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(5), atol=1e-5)
    prepared = found.prepared(x)
    if kind == "csr":
        prepared = prepared.toarray()
        assert np.linalg.norm(prepared, axis=1) == pytest.approx(1)
    else:
        assert (prepared**2).sum(1).mean() == pytest.approx(1, rel=1e-4)
        np.testing.assert_allclose(prepared, (x - x.mean(0)) / x.std(0) / np.sqrt(30), atol=1e-4)
    expected = np.linalg.svd(prepared, full_matrices=False)[2][:5].T
    assert principal_angles(found.directions, expected).min() > 0.9999
    np.testing.assert_allclose(found(x), prepared @ found.directions, rtol=1e-4, atol=1e-5)


def test_there_may_be_fewer_rows_than_directions(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WIDTH", 8)
    placed = placed_of(low_rank(6, 20, rank=2), tmp_path / "store")
    found = find_projection(placed.store, {}, None, moments_of(placed.store, {}))
    np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "csr"])
def test_hidden_rows_do_not_influence_the_projection(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "WIDTH", 4)
    x, hidden, found = low_rank(60, 20, rank=6), np.array([3, 5, 41]), []
    for value in (0.0, 50.0):
        x[hidden] = value + np.arange(20) * value
        content = sparse.csr_matrix(x) if kind == "csr" else x
        placed = placed_of(content, tmp_path / str(value), kind=kind)
        away = placed.rows(hidden)
        moments = None if kind == "csr" else moments_of(placed.store, away)
        found.append(find_projection(placed.store, away, None, moments))
    for name in ("mean", "spread", "directions"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name))


def test_columns_are_written_in_float16_without_overflow(tmp_path):
    x = np.array([[1e6, -1e6], [1.0, 2.0]], np.float32)
    placed = placed_of(x, tmp_path / "store", P=1)
    found = find_projection(placed.store, {}, None, moments_of(placed.store, {}))
    written = write_columns(placed.workshop(tmp_path / "arrays"), found)
    assert torch.equal(placed.gather(written.parts[0])[0], torch.tensor([65504.0, -65504.0]))
