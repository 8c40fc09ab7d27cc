"""The compiled loss and gradient against `nn.losses`, whose own oracle is NumPy."""

import pytest
import torch

from linkdist.nn.losses import Coefficients, LinkLoss, link_loss


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(1, 3, 1024, 5), (3, 2, 100, 7), (2, 3, 33, 70), (1, 2, 1, 2)])
def test_the_compiled_loss_is_the_plain_one(shape, device):
    R, S, B, C = shape
    random = torch.Generator().manual_seed(0)
    z, s = (2 * torch.randn(shape, generator=random) for _ in range(2))
    y = torch.randint(-1, C, (R, S, B), generator=random)
    by = Coefficients(*torch.rand(3, R, generator=random), torch.rand(R, C, generator=random))
    plain, dz, ds = result(lambda z, s: link_loss(z, s, y, by), z, s)
    y, by = y.to(device), Coefficients(*(part.to(device) for part in by))
    objective = LinkLoss(by, S)
    assert device == "cpu" or objective.kernel is not None
    for fast, slow in zip(
        result(lambda z, s: objective(z, s, y), z.to(device), s.to(device)),
        (plain, dz, ds),
        strict=True,
    ):
        torch.testing.assert_close(fast.cpu(), slow, rtol=1e-5, atol=1e-6)


def result(loss, z, s):
    z, s = (part.clone().requires_grad_() for part in (z, s))
    value = loss(z, s)
    # Each replica's share of the gradient is its own.
    by = torch.arange(1, len(value) + 1, device=value.device)
    return value.detach(), *torch.autograd.grad((value * by).sum(), (z, s))


def test_a_batch_without_a_label_teaches_by_distillation_alone():
    z, s = torch.randn(2, 1, 2, 5, 3)
    by = Coefficients(*torch.full((3, 1), 0.5), torch.ones(1, 3))
    loss = LinkLoss(by, 2)(z, s, torch.full((1, 2, 5), -1))
    apart = (z[:, :2] - s[:, :2].flip(1)).square().mean((-2, -1)).sum(-1)
    torch.testing.assert_close(loss, 0.5 * apart)
