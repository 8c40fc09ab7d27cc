"""Oracles: scikit-learn's logistic regression, a quadratic's solution, problems alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from linkdist.training.panel.logistic import logistic_regression, minimise


def problem(seed=0, m=40, d=6, C=3):
    """Rows of unit length of groups that overlap, and their classes."""
    random = np.random.default_rng(seed)
    y = np.arange(m) % C
    x = random.normal(size=(C, d))[y] + random.normal(size=(m, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), y


def fitted(x, y, C, strengths):
    """Weights of R problems with rows x (R, m, d)."""
    rows, labels = torch.from_numpy(np.stack(x)), torch.from_numpy(np.stack(y))
    strength = torch.tensor(strengths)
    return logistic_regression(lambda W: rows @ W, labels, rows.shape[2], C, strength)


def probabilities(both, x):
    return (torch.from_numpy(x) @ both[:-1] + both[-1:]).softmax(-1).numpy()


def by_sklearn(x, y, c):
    return LogisticRegression(C=c, tol=1e-8, max_iter=20_000).fit(x, y)


@pytest.mark.parametrize("c", [0.01, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("shape", [(40, 6), (20, 30)])
def test_probabilities_are_those_of_scikit_learn(c, shape):
    x, y = problem(m=shape[0], d=shape[1])
    new, _ = problem(seed=1, d=shape[1])
    found = fitted([x], [y], 3, [c])[0]
    expected = by_sklearn(x, y, c)
    for rows in (x, new):
        np.testing.assert_allclose(
            probabilities(found, rows), expected.predict_proba(rows), atol=3e-3
        )


@pytest.mark.parametrize("c", [0.5, 20.0])
def test_two_classes_have_two_weights_of_which_scikit_learn_writes_the_difference(c):
    """w and -w have half the penalty of 2 w, so that scikit-learn's C is twice as large."""
    x, y = problem(C=2)
    found = fitted([x], [y], 2, [c])[0]
    expected = by_sklearn(x, y, 2 * c).predict_proba(x)
    np.testing.assert_allclose(probabilities(found, x), expected, atol=3e-3)


def test_rows_of_unknown_class_do_not_count():
    x, y = problem()
    padded = np.concatenate([x, np.full((15, 6), 3.0, dtype=np.float32)])
    labels = np.concatenate([y, np.full(15, -1)])
    found, expected = fitted([padded], [labels], 3, [1.0])[0], fitted([x], [y], 3, [1.0])[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_problems_side_by_side_are_the_same_as_alone():
    """Easy ones and hard ones, each with a strength of its own."""
    sizes, strengths = np.array([0.3, 3.0, 10.0], dtype=np.float32), [0.1, 1.0, 30.0]
    rows, labels = zip(*(problem(seed) for seed in range(3)), strict=True)
    rows = [size * x for size, x in zip(sizes, rows, strict=True)]
    together = fitted(rows, labels, 3, strengths)
    for x, y, strength, found in zip(rows, labels, strengths, together, strict=True):
        alone = fitted([x], [y], 3, [strength])[0]
        np.testing.assert_allclose(probabilities(found, x), probabilities(alone, x), atol=1e-4)


def test_a_class_without_rows_is_hardly_ever_predicted():
    x, y = problem(C=2)
    found = probabilities(fitted([x], [y], 3, [1.0])[0], x)
    assert np.isfinite(found).all()
    assert found[:, 2].max() < 0.01
    without = found[:, :2] / found[:, :2].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(without, by_sklearn(x, y, 2.0).predict_proba(x), atol=0.01)


def test_one_class_alone_is_always_predicted():
    x, _ = problem()
    found = probabilities(fitted([x], [np.ones(40, dtype=int)], 3, [1.0])[0], x)
    assert np.isfinite(found).all()
    assert found[:, 1].min() > 0.98


def test_minimise_finds_the_minima_of_quadratics():
    random = np.random.default_rng(0)
    roots = random.normal(size=(3, 8, 8))
    A = torch.from_numpy(roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(8)).float()
    b = torch.from_numpy(random.normal(size=(3, 8))).float()
    A[1] *= 100  # each has a scale of its own

    def quadratic(x):
        gradient = torch.einsum("rij,rj->ri", A, x) - b
        return ((gradient - b) * x).sum(1) / 2, gradient

    found = minimise(quadratic, torch.zeros(3, 8))
    expected = np.linalg.solve(A.numpy(), b.numpy()[..., None])[..., 0]
    np.testing.assert_allclose(found.numpy(), expected, atol=5e-3)


def test_minimise_stays_where_it_is_best_already():
    def bowl(x):
        return x.square().sum(1), 2 * x

    assert torch.equal(minimise(bowl, torch.zeros(2, 3)), torch.zeros(2, 3))


def test_minimise_never_ends_higher_than_it_began():
    """On a function whose slope misleads: steps are halved until they are of use."""
    starts = torch.tensor([[30.0, -4.0], [0.3, 2.0], [-7.0, 0.0]])

    def steep(x):
        return torch.cosh(x).sum(1), torch.sinh(x)

    found = minimise(steep, starts)
    assert (steep(found)[0] <= steep(starts)[0]).all()
    np.testing.assert_allclose(found.numpy(), 0, atol=1e-2)
