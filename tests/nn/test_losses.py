"""Every term against a NumPy computation written from the paper's formulas."""

import numpy as np
import pytest
import torch

from linkdist.nn.losses import (
    Coefficients,
    contrast,
    cross_entropy,
    distillation,
    link_loss,
    supervision,
)

R, B, C = 2, 7, 4


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ce(logits, labels, weights=None):
    """Weighted mean of -log p(y) over the rows with a label, written as loops."""
    total = weight = 0.0
    for row, y in zip(logits, labels, strict=True):
        if y >= 0:
            w = 1.0 if weights is None else weights[y]
            total += -w * np.log(softmax(row)[y])
            weight += w
    return total / weight if weight else 0.0


def mse(a, b):
    return ((a - b) ** 2).mean()


@pytest.fixture
def batch():
    random = np.random.default_rng(0)
    z, s = random.normal(size=(2, R, 3, B, C))
    y = random.integers(-1, C, (R, 3, B))
    coefficients = random.random((3, R))
    weights = random.random((R, C))
    return z, s, y, coefficients, weights


def tensors(batch):
    z, s, y, coefficients, weights = batch
    by = Coefficients(*torch.from_numpy(coefficients), torch.from_numpy(weights))
    return torch.from_numpy(z), torch.from_numpy(s), torch.from_numpy(y), by


def supervised(z, s, y, w):
    return ce(z[0], y[0], w) + ce(s[1], y[0], w) + ce(z[1], y[1], w) + ce(s[0], y[1], w)


def apart(z, s):
    p, q = softmax(z), softmax(s)
    return mse(p[0], q[2]) + mse(p[1], q[2]) + mse(p[2], q[0]) + mse(p[2], q[1])


def pushed_from_labels(z, s, y, beta1, beta2, w):
    return (
        2 * ce(z[2], y[2])
        - beta1 * (ce(s[2], y[0], w) + ce(s[2], y[1], w))
        - beta2 * (ce(s[0], y[2]) + ce(s[1], y[2]))
    )


def test_cross_entropy_skips_unlabelled_rows_and_weighs_classes(batch):
    z, _, y, _, w = batch
    zt, _, yt, by = tensors(batch)
    expected = [ce(z[r, 0], y[r, 0], w[r]) for r in range(R)]
    np.testing.assert_allclose(cross_entropy(zt[:, 0], yt[:, 0], by.weights), expected)
    expected = [ce(z[r, 0], y[r, 0]) for r in range(R)]
    np.testing.assert_allclose(cross_entropy(zt[:, 0], yt[:, 0]), expected)


def test_no_labelled_row_is_no_loss_and_no_nan_in_the_gradient():
    z = torch.randn(1, 3, 2, requires_grad=True)
    loss = cross_entropy(z, torch.full((1, 3), -1), torch.ones(1, 2))
    loss.sum().backward()
    assert loss.item() == 0
    assert (z.grad == 0).all()


@pytest.mark.parametrize("sides", [2, 3])
def test_supervision(batch, sides):
    z, s, y, c, w = batch
    zt, st, yt, by = tensors(batch)
    expected = [supervised(z[r], s[r], y[r], w[r]) for r in range(R)]
    if sides == 3:
        expected = [
            e + pushed_from_labels(z[r], s[r], y[r], *c[1:, r], w[r])
            for r, e in enumerate(expected)
        ]
    log_z, log_s = zt[:, :sides].log_softmax(-1), st[:, :sides].log_softmax(-1)
    got = supervision(log_z, log_s, yt[:, :sides], by)
    np.testing.assert_allclose(got, expected)


def test_distillation(batch):
    z, s, *_ = batch
    zt, st, *_ = tensors(batch)
    expected = [mse(z[r, 0], s[r, 1]) + mse(z[r, 1], s[r, 0]) for r in range(R)]
    np.testing.assert_allclose(distillation(zt, st), expected)


def test_distillation_teaches_both_sides():
    z, s = (torch.randn(1, 2, 5, 3, requires_grad=True) for _ in range(2))
    distillation(z, s).sum().backward()
    torch.testing.assert_close(z.grad, -s.grad.flip(1))


def test_contrast(batch):
    z, s, *_ = batch
    zt, st, *_ = tensors(batch)
    np.testing.assert_allclose(
        contrast(zt.softmax(-1), st.softmax(-1)), [apart(z[r], s[r]) for r in range(R)]
    )


def test_a_batch_without_labels_gives_no_supervision_and_no_nan(batch):
    zt, st, yt, by = tensors(batch)
    zt.requires_grad_()
    loss = supervision(zt.log_softmax(-1), st.log_softmax(-1), torch.full_like(yt, -1), by)
    loss.sum().backward()
    assert (loss == 0).all()
    assert (zt.grad == 0).all()


@pytest.mark.parametrize("sides", [2, 3])
def test_the_whole_loss(batch, sides):
    z, s, y, c, w = batch
    zt, st, yt, by = tensors(batch)
    expected = []
    for r in range(R):
        loss = supervised(z[r], s[r], y[r], w[r])
        loss += c[0, r] * (mse(z[r, 0], s[r, 1]) + mse(z[r, 1], s[r, 0]))
        if sides == 3:
            loss += pushed_from_labels(z[r], s[r], y[r], *c[1:, r], w[r])
            loss -= c[0, r] / 2 * apart(z[r], s[r])
        expected.append(loss)
    got = link_loss(zt[:, :sides], st[:, :sides], yt[:, :sides], by)
    np.testing.assert_allclose(got, expected)
