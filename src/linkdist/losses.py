"""The paper's loss terms as pure functions.

For a batch of directed edges (i, j), and one random node k for each, the network gives own-label
logits z and neighbour-label logits s. All arrays have a leading replica axis R, and every function
returns one number a replica::

    z_i, s_i, z_j, s_j, z_k, s_k   (R, B, C)   logits
    y_i, y_j, y_k                  (R, B)      labels, -1 where unknown
    w                              (R, C)      class weights
    α, β1, β2                      (R,)

LinkDist minimises   supervision + α · distillation, and CoLinkDist adds contrast.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from linkdist.compilation import fused_on_gpu


class Coefficients(NamedTuple):
    """What the loss takes from a view, one row a replica.

    Attributes
    ----------
    alpha, beta1, beta2 : (R,) tensor
        α weighs distillation, β1 and β2 the pushes away from labels.
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
        Rows with -1 do not count; where no row counts the result is 0.
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


def supervision(
    z_i: Tensor, s_i: Tensor, z_j: Tensor, s_j: Tensor, y_i: Tensor, y_j: Tensor, w: Tensor
) -> Tensor:
    """CE_w(z_i, y_i) + CE_w(s_j, y_i) + CE_w(z_j, y_j) + CE_w(s_i, y_j).

    A node's label teaches its own head, and its neighbour's neighbour head.

    Examples
    --------
    >>> zero, label = torch.zeros(1, 2, 4), torch.tensor([[3, -1]])
    >>> supervision(zero, zero, zero, zero, label, label, torch.ones(1, 4))
    tensor([5.5452])
    """
    return (
        cross_entropy(z_i, y_i, w)
        + cross_entropy(s_j, y_i, w)
        + cross_entropy(z_j, y_j, w)
        + cross_entropy(s_i, y_j, w)
    )


def distillation(z_i: Tensor, s_i: Tensor, z_j: Tensor, s_j: Tensor) -> Tensor:
    """MSE(z_i, s_j) + MSE(z_j, s_i), on logits; each side teaches the other.

    Examples
    --------
    >>> one, zero = torch.ones(1, 2, 3), torch.zeros(1, 2, 3)
    >>> distillation(one, zero, one, zero)
    tensor([2.])
    """
    return mse(z_i, s_j) + mse(z_j, s_i)


def contrast(
    z: tuple[Tensor, Tensor, Tensor],
    s: tuple[Tensor, Tensor, Tensor],
    y: tuple[Tensor, Tensor, Tensor],
    by: Coefficients,
) -> Tensor:
    """What CoLinkDist adds for a node k that is not likely to be linked to i or j.

    - α/2 [ MSE(p(z_i), p(s_k)) + MSE(p(z_j), p(s_k)) + MSE(p(z_k), p(s_i)) + MSE(p(z_k), p(s_j)) ]
    + 2 CE(z_k, y_k)
    - β1 [ CE_w(s_k, y_i) + CE_w(s_k, y_j) ] - β2 [ CE(s_i, y_k) + CE(s_j, y_k) ]

    Parameters
    ----------
    z, s : triple of (R, B, C) tensors
        Logits of i, j, k.
    y : triple of (R, B) tensors
        Labels of i, j, k.
    by : Coefficients
        α, β1, β2, w.

    Examples
    --------
    >>> zero, label = torch.zeros(1, 1, 2), torch.tensor([[0]])
    >>> half = Coefficients(*torch.full((3, 1), 0.5), torch.ones(1, 2))
    >>> contrast((zero,) * 3, (zero,) * 3, (label,) * 3, half)
    tensor([0.])
    """
    (s_i, s_j, s_k), (y_i, y_j, y_k) = s, y
    p_z_i, p_z_j, p_z_k = (logits.softmax(-1) for logits in z)
    p_s_i, p_s_j, p_s_k = (logits.softmax(-1) for logits in s)
    apart = mse(p_z_i, p_s_k) + mse(p_z_j, p_s_k) + mse(p_z_k, p_s_i) + mse(p_z_k, p_s_j)
    from_links = cross_entropy(s_k, y_i, by.weights) + cross_entropy(s_k, y_j, by.weights)
    from_nodes = cross_entropy(s_i, y_k) + cross_entropy(s_j, y_k)
    return (
        2 * cross_entropy(z[2], y_k)
        - by.alpha / 2 * apart
        - by.beta1 * from_links
        - by.beta2 * from_nodes
    )


@fused_on_gpu
def link_loss(z: Tensor, s: Tensor, y: Tensor, by: Coefficients) -> Tensor:
    """LinkDist's loss for two sides of a batch, CoLinkDist's for three.

    Parameters
    ----------
    z, s : (R, S, B, C) tensors
        Logits of i, j and, where S is 3, of k.
    y : (R, S, B) tensor
        Their labels.
    by : Coefficients
        α, β1, β2, w.

    Returns
    -------
    (R,) tensor
        One loss a replica.

    Examples
    --------
    >>> z, y = torch.zeros(1, 2, 1, 2), torch.tensor([[[0], [-1]]])
    >>> link_loss(z, z, y, Coefficients(*torch.ones(3, 1), torch.ones(1, 2)))
    tensor([1.3863])
    """
    zs, ss, ys = z.unbind(1), s.unbind(1), y.unbind(1)
    (z_i, z_j), (s_i, s_j), (y_i, y_j) = zs[:2], ss[:2], ys[:2]
    loss = supervision(z_i, s_i, z_j, s_j, y_i, y_j, by.weights)
    loss = loss + by.alpha * distillation(z_i, s_i, z_j, s_j)
    if len(zs) == 3:
        loss = loss + contrast((z_i, z_j, zs[2]), (s_i, s_j, ss[2]), (y_i, y_j, ys[2]), by)
    return loss
