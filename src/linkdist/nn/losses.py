"""The terms of the paper's loss as pure functions.

For a batch of directed edges (i, j), and one random node k for each, the network returns own-label
logits z and neighbour-label logits s. All arrays have a leading replica axis R, then an axis S for
the sides i, j and, in contrastive training, k; every term is one number for each replica::

    z, s          (R, S, B, C)   logits
    y             (R, S, B)      labels, -1 where unknown
    w             (R, C)         class weights
    α, β1, β2     (R,)

LinkDist minimises

      CE_w(z_i, y_i) + CE_w(s_j, y_i) + CE_w(z_j, y_j) + CE_w(s_i, y_j)      supervision
    + α [ MSE(z_i, s_j) + MSE(z_j, s_i) ]                                    distillation

and CoLinkDist adds, for a k that is not likely to be linked to i or j,

    + 2 CE(z_k, y_k) - β1 [ CE_w(s_k, y_i) + CE_w(s_k, y_j) ]
                     - β2 [ CE(s_i, y_k) + CE(s_j, y_k) ]                    supervision
    - α/2 [ MSE(p(z_i), p(s_k)) + MSE(p(z_j), p(s_k))
          + MSE(p(z_k), p(s_i)) + MSE(p(z_k), p(s_j)) ]                      contrast

So the label y_b of a side supervises its own head z_b and the neighbour heads s_a of the other
sides, each with its own factor: the factors are two small tables, and all cross-entropies are one
gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from linkdist.kernels import Context, LossKernel, apply, link_loss_kernel


class Coefficients(NamedTuple):
    """The coefficients of the loss, one row for each replica.

    Attributes
    ----------
    alpha, beta1, beta2 : (R,) tensor
        α weights distillation; β1 and β2 weight the contrastive terms of the labels.
    weights : (R, C) tensor
        w, the class weights.
    """

    alpha: Tensor
    beta1: Tensor
    beta2: Tensor
    weights: Tensor


def mse(a: Tensor, b: Tensor) -> Tensor:
    """Mean over rows and classes of (a - b)².

    Examples
    --------
    >>> mse(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0, 4.0]]]))
    tensor([2.5000])
    """
    return (a - b).square().mean(dim=(-2, -1))


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """CE_w, the weighted mean of -log p(label) over the rows with a known label.

    Parameters
    ----------
    logits : (R, B, C) tensor
        z or s.
    labels : (R, B) tensor of int
        Rows with -1 are ignored; without any label the result is 0.
    weights : (R, C) tensor, optional
        w; by default all 1.

    Examples
    --------
    >>> cross_entropy(torch.zeros(1, 3, 2), torch.tensor([[0, 1, -1]]))
    tensor([0.6931])
    """
    known = labels >= 0
    target = labels.clamp(min=0)
    log_p = logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (R, B)
    share = known.to(logits.dtype) if weights is None else weights.gather(-1, target) * known
    total = share.sum(-1)
    return -(share * log_p).sum(-1) / torch.where(total > 0, total, 1.0)


def soft_cross_entropy(logits: Tensor, p: Tensor) -> Tensor:
    """CE(z, t), the mean over rows of -Σ_c t_c log p(z)_c, for targets t that are probabilities.

    Parameters
    ----------
    logits : (R, B, C) tensor
        z or s.
    p : (R, B, C) tensor
        t; rows sum to 1.

    Examples
    --------
    >>> soft_cross_entropy(torch.zeros(1, 3, 2), torch.full((1, 3, 2), 0.5))
    tensor([0.6931])
    """
    return -(p * logits.log_softmax(-1)).sum(-1).mean(-1)


def supervision(log_z: Tensor, log_s: Tensor, y: Tensor, by: Coefficients) -> Tensor:
    """The sum of all cross-entropies of the loss, each with its factor.

    Parameters
    ----------
    log_z, log_s : (R, S, B, C) tensors
        Log-probabilities of i, j and, if S is 3, of k.
    y : (R, S, B) tensor
        Their labels.
    by : Coefficients
        β1, β2, w.

    Examples
    --------
    >>> log_p, label = torch.zeros(1, 2, 1, 4).log_softmax(-1), torch.tensor([[[3], [-1]]])
    >>> supervision(log_p, log_p, label, Coefficients(*torch.ones(3, 1), torch.ones(1, 4)))
    tensor([2.7726])
    """
    R, S, B = y.shape
    target = y.clamp(min=0)
    share = row_shares(y, target, by.weights)  # (R, S, B)
    own = log_z.gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (R, S, B)
    # beside[:, a, b]: log p(s_a) at the label of side b.
    index = target.view(R, 1, S, B, 1).expand(R, S, S, B, 1)
    beside = log_s.unsqueeze(2).expand(-1, -1, S, -1, -1).gather(-1, index).squeeze(-1)
    own_factors, beside_factors = factors(by, S)
    terms = (own_factors * (share * own).sum(-1)).sum(-1)
    return -terms - (beside_factors * (share.unsqueeze(1) * beside).sum(-1)).sum((1, 2))


def row_shares(y: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """The share of each row in the weighted mean of its side; the rows of k have equal weights."""
    weight = weights.gather(1, target[:, :2].flatten(1)).view(y[:, :2].shape)
    if y.shape[1] == 3:
        weight = torch.cat([weight, torch.ones_like(weight[:, :1])], dim=1)
    weight = weight * (y >= 0)
    total = weight.sum(-1, keepdim=True)
    return weight / torch.where(total > 0, total, 1.0)


def factors(by: Coefficients, S: int) -> tuple[Tensor, Tensor]:
    """Factors of the terms of the own head (R, S) and of the neighbour head (R, S, S)."""
    zero, one = torch.zeros_like(by.beta1), torch.ones_like(by.beta1)
    rows = [
        [zero, one, -by.beta2],
        [one, zero, -by.beta2],
        [-by.beta1, -by.beta1, zero],
    ]
    beside = torch.stack([torch.stack(row[:S], dim=-1) for row in rows[:S]], dim=1)
    own = torch.stack([one, one, 2 * one][:S], dim=-1)
    return own, beside


def distillation(z: Tensor, s: Tensor) -> Tensor:
    """MSE(z_i, s_j) + MSE(z_j, s_i), on logits; each side is the other's target.

    Examples
    --------
    >>> distillation(torch.ones(1, 2, 5, 3), torch.zeros(1, 2, 5, 3))
    tensor([2.])
    """
    return mse(z[:, :2], s[:, :2].flip(1)).sum(-1)


def contrast(p: Tensor, q: Tensor) -> Tensor:
    """MSE(p_i, q_k) + MSE(p_j, q_k) + MSE(p_k, q_i) + MSE(p_k, q_j), p = p(z) and q = p(s).

    Examples
    --------
    >>> contrast(torch.ones(1, 3, 1, 2), torch.zeros(1, 3, 1, 2))
    tensor([4.])
    """
    return mse(p[:, :2], q[:, 2:]).sum(-1) + mse(p[:, 2:], q[:, :2]).sum(-1)


def link_loss(z: Tensor, s: Tensor, y: Tensor, by: Coefficients) -> Tensor:
    """LinkDist's loss for two sides of a batch, CoLinkDist's for three.

    Parameters
    ----------
    z, s : (R, S, B, C) tensors
        Logits of i, j and, if S is 3, of k.
    y : (R, S, B) tensor
        Their labels.
    by : Coefficients
        α, β1, β2, w.

    Returns
    -------
    (R,) tensor
        One loss for each replica.

    Examples
    --------
    >>> z, y = torch.zeros(1, 2, 1, 2), torch.tensor([[[0], [-1]]])
    >>> link_loss(z, z, y, Coefficients(*torch.ones(3, 1), torch.ones(1, 2)))
    tensor([1.3863])
    """
    log_z, log_s = z.log_softmax(-1), s.log_softmax(-1)
    loss = supervision(log_z, log_s, y, by) + by.alpha * distillation(z, s)
    if z.shape[1] == 3:
        loss = loss - by.alpha / 2 * contrast(log_z.exp(), log_s.exp())
    return loss


class LinkLoss:
    """`link_loss` by the fastest implementation for its device.

    Parameters
    ----------
    by : Coefficients
        α, β1, β2, w, on the device of the logits.
    sides : {2, 3}
        2 for LinkDist, 3 for CoLinkDist.

    Examples
    --------
    >>> loss = LinkLoss(Coefficients(*torch.ones(3, 1), torch.ones(1, 2)), sides=2)
    >>> z, y = torch.zeros(1, 2, 1, 2), torch.tensor([[[0], [-1]]])
    >>> loss(z, z, y)
    tensor([1.3863])
    """

    def __init__(self, by: Coefficients, sides: int) -> None:
        self.by = by
        self.factors = tuple(part.contiguous() for part in factors(by, sides))
        self.kernel = link_loss_kernel(by.alpha.device)

    def __call__(self, z: Tensor, s: Tensor, y: Tensor) -> Tensor:
        """The loss (R,) of logits z and s (R, S, B, C) and labels y (R, S, B)."""
        if self.kernel is None:
            return link_loss(z, s, y, self.by)
        share = row_shares(y, y.clamp(min=0), self.by.weights)
        rest = (y.contiguous(), share.contiguous(), *self.factors, self.by.alpha)
        return apply(_WithGradient, z, s, rest, self.kernel)


class _WithGradient(torch.autograd.Function):
    """A kernel that computes the loss and its gradient in the forward pass."""

    @staticmethod
    def forward(
        ctx: Context, z: Tensor, s: Tensor, rest: Sequence[Tensor], kernel: LossKernel
    ) -> Tensor:
        loss, *gradient = kernel((z.contiguous(), s.contiguous(), *rest))
        ctx.save_for_backward(*gradient)
        return loss

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        dz, ds = ctx.saved_tensors
        grad = grad.view(-1, 1, 1, 1)
        return dz * grad, ds * grad, None, None
