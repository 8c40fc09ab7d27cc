"""Oracles: scikit-learn's logistic regression, SciPy's optimiser, a grid, simulated predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from linkdist.training.panel.likelihood import (
    calibrated,
    class_prior,
    estimated_class_prior,
    fit_exponents,
    fit_linear,
    is_balanced,
    minimise,
    mixture_weights,
)


def problem(seed=0, m=40, d=6, C=3):
    """Rows of unit length of groups that overlap, and their classes."""
    random = np.random.default_rng(seed)
    y = np.arange(m) % C
    x = random.normal(size=(C, d))[y] + random.normal(size=(m, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), y


def fitted(x, y, C, strengths):
    """Weights of R problems with rows x (R, m, d)."""
    rows, labels = torch.from_numpy(np.stack(x)), torch.from_numpy(np.stack(y))
    known = (labels >= 0).unsqueeze(-1).float()
    targets = torch.eye(C)[labels.clamp(min=0)]
    strength, d = torch.tensor(strengths), rows.shape[2]
    return fit_linear(lambda W: rows @ W, targets, known, d, strength, "classification")


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


def drawn(p, random):
    """A class for each row of probabilities."""
    return (p.cumsum(axis=1) < random.random((len(p), 1))).sum(axis=1)


def simulated(K, N=200, C=3, seed=0, wrong=()):
    """K noisy predictions of N nodes, some of them inverted, and the classes of the nodes."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=(N, C))
    labels = drawn(softmax(truth, axis=1), random)
    noisy = truth + random.normal(size=(K, N, C))
    noisy[list(wrong)] *= -1
    return log_softmax(noisy, axis=-1), labels


def penalised(at, predictions, shares, labels, prior):
    parts = np.concatenate([predictions, np.broadcast_to(shares, (1, *predictions.shape[1:]))])
    log_p = log_softmax(np.tensordot(at, parts, 1), axis=1)
    start = np.array([*prior, 0.0])
    return -log_p[np.arange(len(labels)), labels].sum() + ((at - start) ** 2).sum() / 2


def best_by_scipy(predictions, shares, labels, prior):
    bounds = [(0, None)] * len(prior) + [(None, None)]
    args = (predictions, shares, labels, prior)
    start = np.array([*prior, 0.0])
    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 1000}
    return minimize(penalised, start, args, "L-BFGS-B", bounds=bounds, options=options).x


@pytest.mark.parametrize(
    ("K", "prior", "wrong"),
    [
        (1, [1.0], ()),
        (2, [0.5, 0.5], ()),
        (3, [1.0, 0.5, 0.0], ()),
        (1, [1.0], (0,)),
        (2, [0.5, 0.5], (1,)),
        (3, [1.0, 1.0, 1.0], (0, 2)),
    ],
)
def test_exponents_are_those_that_scipy_finds(K, prior, wrong):
    predictions, labels = simulated(K, wrong=wrong)
    labels = np.where(np.arange(len(labels)) % 2, labels, 0)  # one class is more frequent
    shares = class_prior(labels, 3)
    found = fit_exponents(predictions, shares, labels, prior)
    assert found == pytest.approx(best_by_scipy(predictions, shares, labels, prior), abs=2e-3)
    assert (found[list(wrong)] == 0).all()


def test_exponents_are_best_within_bounds_where_both_would_be_negative_without():
    """Two opposite predictions, one of them right: it has to stay."""
    random = np.random.default_rng(0)
    right = random.normal(size=(300, 2))
    labels = drawn(softmax(right, axis=1), random)
    against = -3 * np.eye(2)[labels] - right + 0.5 * random.normal(size=right.shape)
    predictions = log_softmax(np.stack([right, against]), axis=-1)
    shares, prior = class_prior(labels, 2), [0.5, 0.5]
    expected = best_by_scipy(predictions, shares, labels, prior)
    assert fit_exponents(predictions, shares, labels, prior) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("prior", [[1.0], [0.5, 0.5]])
def test_without_judges_exponents_stay_where_the_prior_is(prior):
    nobody = np.array([], dtype=np.int64)
    predictions = np.empty((len(prior), 0, 3))
    found = fit_exponents(predictions, class_prior(nobody, 3), nobody, prior)
    assert found.tolist() == [*prior, 0.0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_many_judges_find_the_temperature(temperature):
    random = np.random.default_rng(0)
    z = random.normal(scale=2.0, size=(8000, 4))
    labels = drawn(softmax(z / temperature, axis=1), random)
    shares = class_prior(labels, 4)
    found = fit_exponents(log_softmax(z, axis=1)[None], shares, labels, [1.0])
    assert found[0] == pytest.approx(1 / temperature, rel=0.06)
    assert abs(found[1]) * np.ptp(shares) < 0.1  # all classes are as frequent


def test_predictions_that_ignore_the_classes_shares_get_them_once():
    random = np.random.default_rng(0)
    pi = np.array([0.7, 0.2, 0.1])
    z = random.normal(scale=1.5, size=(8000, 3))
    labels = drawn(softmax(z + np.log(pi), axis=1), random)
    # π are the classes' shares before a node is seen: here they are known.
    found = fit_exponents(log_softmax(z, axis=1)[None], np.log(pi), labels, [1.0])
    assert found == pytest.approx([1.0, 1.0], abs=0.06)


@given(
    arrays(float, (2, 12, 3), elements=st.floats(0, 1)),
    arrays(np.int64, 12, elements=st.integers(0, 2)),
)
def test_exponents_are_finite_and_never_negative(p, labels):
    p = np.maximum(p, 1e-30)
    predictions = np.log(p / p.sum(axis=-1, keepdims=True))
    shares = class_prior(labels, 3)
    found = fit_exponents(predictions, shares, labels, [0.5, 0.5])
    assert np.isfinite(found).all()
    assert (found[:-1] >= 0).all()
    at_prior = penalised(np.array([0.5, 0.5, 0.0]), predictions, shares, labels, [0.5, 0.5])
    assert penalised(found, predictions, shares, labels, [0.5, 0.5]) <= at_prior + 1e-6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mixture_weights_are_the_best_of_a_grid(seed):
    random = np.random.default_rng(seed)
    p = random.beta([[2.0], [1.5]], [[1.0], [1.2]], size=(2, 150))
    grid = np.linspace(0, 1, 2001)
    likelihood = np.log(grid[:, None] * p[0] + (1 - grid[:, None]) * p[1]).sum(axis=1)
    best = grid[likelihood.argmax()]
    assert 0 < best < 1
    found = mixture_weights(p, pseudo_nodes=0.0, rounds=3000)
    assert found == pytest.approx([best, 1 - best], abs=2e-3)


def test_an_opinion_that_explains_nothing_has_its_imaginary_judges_share():
    p = np.stack([np.full(50, 0.9), np.full(50, 0.5), np.full(50, 1e-9)])
    assert mixture_weights(p, pseudo_nodes=0.0)[2] < 1e-6
    assert mixture_weights(p, pseudo_nodes=1.0)[2] == pytest.approx(1 / 53, rel=1e-3)
    assert mixture_weights(p, pseudo_nodes=1.0).argmax() == 0


def test_without_judges_all_opinions_count_alike():
    assert mixture_weights(np.empty((4, 0))) == pytest.approx([0.25] * 4)


@given(arrays(float, (3, 7), elements=st.floats(0, 1)), st.sampled_from([0.0, 0.5, 1.0]))
def test_mixture_weights_sum_to_one(p, prior):
    found = mixture_weights(p, prior, rounds=20)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    if prior:
        assert found.min() >= prior / (7 + 3 * prior) - 1e-12


@pytest.mark.parametrize("shares", [[0.6, 0.3, 0.1], [0.05, 0.05, 0.9], [1 / 3, 1 / 3, 1 / 3]])
def test_estimated_shares_are_those_of_the_simulation(shares):
    random = np.random.default_rng(0)
    labels = random.choice(3, 10_000, p=shares)
    middles = 1.5 * np.eye(3)
    x = middles[labels] + random.normal(size=(10_000, 3))
    # By Bayes' rule, as if all classes were equal.
    p = softmax(-((x[:, None] - middles) ** 2).sum(axis=2) / 2, axis=1)
    assert np.exp(estimated_class_prior(p, pseudo_nodes=0.0)) == pytest.approx(shares, abs=0.02)
    drawn_in = np.exp(estimated_class_prior(p, pseudo_nodes=1.0))
    assert np.ptp(drawn_in) < max(np.ptp(shares), 0.02)


@pytest.mark.parametrize("prior", [0.0, 0.1])
def test_estimated_shares_stay_equal_where_predictions_say_nothing(prior):
    found = estimated_class_prior(np.full((40, 5), 0.2), prior)
    assert np.exp(found) == pytest.approx([0.2] * 5)


@given(arrays(float, (9, 3), elements=st.floats(0, 1)))
def test_estimated_shares_are_finite_shares(p):
    with np.errstate(invalid="ignore"):
        p = np.where(p.sum(axis=1, keepdims=True) > 1e-9, p / p.sum(axis=1, keepdims=True), 1 / 3)
    found = estimated_class_prior(p)
    assert np.isfinite(found).all()
    assert np.exp(found).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [
        ([0] * 20 + [1] * 20 + [2] * 20, True),
        ([0] * 4 + [1] * 5 + [3] * 4, True),  # a class without labels, a label held out
        ([0] * 4 + [1] * 6, False),
        ([0, 1, 2], False),  # one of each may be chance
        ([0, 0, 0], False),
        ([], False),
    ],
)
def test_labels_were_is_balanced_where_classes_have_as_many(labels, chosen):
    assert is_balanced(np.array(labels, dtype=np.int64)) is chosen


def test_calibrated_is_the_formula():
    random = np.random.default_rng(0)
    p, pi = random.dirichlet(np.ones(4), size=(2, 6)), random.dirichlet(np.ones(4))
    expected = p[0] ** 0.7 * p[1] ** 0.2 * pi**-0.4
    expected /= expected.sum(axis=1, keepdims=True)
    found = calibrated(np.log(p), np.log(pi), np.array([0.7, 0.2, -0.4]))
    assert np.exp(found) == pytest.approx(expected)


@given(arrays(np.int64, st.integers(0, 30), elements=st.integers(0, 3)))
def test_class_shares_count_each_class_once_more(labels):
    found = np.exp(class_prior(labels, 4))
    expected = [(np.sum(labels == c) + 1) / (len(labels) + 4) for c in range(4)]
    assert found == pytest.approx(expected)
