"""The three ways to compute a block hold together."""

import numpy as np
import pytest
import torch

from linkdist.kernels import Affine, Running, unpack
from linkdist.kernels import evaluate_block as evaluate
from linkdist.kernels import plain_block as plain
from linkdist.kernels import train_block as train


def case(R, S, B, width, device="cpu", dtype=torch.float32):
    torch.manual_seed(0)
    x = (torch.randn(R, S, B, width, dtype=dtype) * 3 + 1).to(device).requires_grad_()
    affine = Affine(
        *[
            (torch.randn(R, 1, 1, width, dtype=dtype) * 0.3 + at).to(device).requires_grad_()
            for at in (1, 0, 1, 0)
        ]
    )
    bits = torch.randint(0, 256, (R, S, B, -(-width // 8)), dtype=torch.uint8).to(device)
    pace = torch.tensor([0.1, 0.0, 0.1][:R], dtype=dtype, device=device).view(R, 1, 1)
    zero = torch.zeros(R, 1, width, dtype=dtype, device=device)
    return x, affine, bits, Running(zero, zero + 1, pace), torch.randn(R, S, B, width, dtype=dtype)


def result(way, *shape, device="cpu"):
    x, affine, bits, running, grad = case(*shape, device=device)
    y = way(x, affine, bits, running)
    grads = torch.autograd.grad(y, (x, *affine), grad.to(device))
    return [part.cpu() for part in (y, *grads, running.mean, running.var)]


@pytest.mark.parametrize(
    "shape", [(1, 2, 32, 16), (3, 3, 40, 24), (2, 1, 5, 20), (1, 3, 1024, 256)]
)
def test_the_loops_are_plain(shape):
    for fast, slow in zip(result(train, *shape), result(plain, *shape), strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


def test_the_plain_way_has_the_right_gradient():
    x, affine, bits, running, _ = case(2, 2, 6, 8, dtype=torch.float64)
    still = running._replace(momentum=torch.zeros_like(running.momentum))
    torch.autograd.gradcheck(lambda x, *a: plain(x, Affine(*a), bits, still), (x, *affine))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(1, 2, 32, 16), (3, 3, 1024, 256), (2, 1, 5, 20), (3, 1, 9000, 256)]
)
def test_the_kernels_are_plain(shape):
    for fast, slow in zip(result(train, *shape, device="cuda"), result(plain, *shape), strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_the_kernels_evaluate_as_plain():
    x, affine, _, running, _ = case(3, 1, 100, 256, device="cuda")
    mean, var = torch.randn_like(running.mean), torch.rand_like(running.var) + 0.1
    with torch.no_grad():
        fast = evaluate(x, affine, mean, var)
    torch.testing.assert_close(fast, evaluate(x, affine, mean, var), rtol=1e-4, atol=1e-5)


def test_unpacking_bits_is_numpys():
    packed = np.random.default_rng(0).integers(0, 256, (3, 4), dtype=np.uint8)
    expected = np.unpackbits(packed, axis=-1, bitorder="little")[:, :29].astype(bool)
    assert (unpack(torch.from_numpy(packed), 29).numpy() == expected).all()
