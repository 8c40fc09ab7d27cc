"""Oracles: SciPy's functions, and gradients that are 'prediction minus target'."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax

from linkdist.errors import OptionError
from linkdist.nn.tasks import task_named

R, B, C = 2, 7, 4


def numbers(seed=0):
    return np.random.default_rng(seed).normal(size=(R, B, C))


def bernoulli(z, t):
    return -(t * np.log(expit(z)) + (1 - t) * np.log(expit(-z))).mean(-1)


LOSSES = {
    ("classification", "squared"): lambda z, t: -(t * log_softmax(z, axis=-1)).sum(-1),
    ("multilabel", "squared"): bernoulli,
    ("regression", "squared"): lambda z, t: ((z - t) ** 2 / 2).mean(-1),
    ("regression", "absolute"): lambda z, t: np.abs(z - t).mean(-1),
}


def targets(name):
    random = np.random.default_rng(1)
    if name == "classification":
        return random.dirichlet(np.ones(C), size=(R, B))
    return random.random((R, B, C)) if name == "multilabel" else random.normal(size=(R, B, C))


@pytest.mark.parametrize(("name", "loss"), LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_the_formulas(name, loss, weighted):
    z, t = numbers(), targets(name)
    weights = np.random.default_rng(2).integers(0, 2, (R, B)) * 1.0 if weighted else None
    rows = LOSSES[name, loss](z, t)
    expected = rows.mean(-1) if weights is None else (rows * weights).sum(-1) / weights.sum(-1)
    given = None if weights is None else torch.from_numpy(weights)
    found = task_named(name, loss).loss(torch.from_numpy(z), torch.from_numpy(t), given)
    np.testing.assert_allclose(found.numpy(), expected)


def test_without_any_linked_row_a_weighted_loss_is_zero():
    z = torch.from_numpy(numbers()).requires_grad_()
    for name in ("classification", "multilabel", "regression"):
        loss = task_named(name).loss(z, torch.from_numpy(targets(name)), torch.zeros(R, B))
        (gradient,) = torch.autograd.grad(loss.sum(), z)
        assert (loss == 0).all()
        assert (gradient == 0).all()


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("classification", lambda z: softmax(z, axis=-1)),
        ("multilabel", expit),
        ("regression", lambda z: z),
    ],
)
def test_the_gradient_of_a_loss_is_prediction_minus_target(name, mean):
    """Which holds for natural parameters alone."""
    z = torch.from_numpy(numbers()).requires_grad_()
    task, t = task_named(name), targets(name)
    np.testing.assert_allclose(task.mean(task.natural(z)).detach().numpy(), mean(numbers()))
    (gradient,) = torch.autograd.grad(task.loss(z, torch.from_numpy(t)).sum(), z)
    count = B if name == "classification" else B * C
    np.testing.assert_allclose(gradient.numpy() * count, mean(numbers()) - t, atol=1e-12)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(OptionError, match="choose from classification, multilabel, regression"):
        task_named("ranking")
    with pytest.raises(OptionError, match="choose from squared, absolute"):
        task_named("regression", "huber")
