"""The forked MLP, for R replicas.

A block is BatchNorm, LayerNorm, LeakyReLU, Dropout, Linear. The forked MLP M: x → (z, s) is

    h = block(Linear(x))        (R, S, B, hidden)
    z = own(h)                  (R, S, B, C)   the node's own label
    s = neighbour(h)            (K, R, S, B, C)   its neighbour's label

with a block for each head, and a neighbour head for each of K relations of links. Every parameter
has a leading replica axis R, so ten seeds train in one pass. The axis S holds the sides of a batch
of links (i, j and, in contrastive training, k): BatchNorm takes its statistics over the B rows of
one side of one replica.

The caller provides the randomness: a training pass receives the Dropout bits, one per element and
eight to a byte, and the momentum of the running statistics. Without them, the network evaluates.
`Folded` is the network for deployment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from linkdist import kernels
from linkdist.kernels import EPSILON, SLOPE, Affine, Running
from linkdist.nn.inputs import HalfProduct, Inputs

HIDDEN = 256
DROPOUT = 0.5
MOMENTUM = 0.1


class Noise(NamedTuple):
    """The random part of a training pass.

    Attributes
    ----------
    bits : sequence of (R, S, B, ⌈hidden / 8⌉) uint8 tensors
        The elements that each block's Dropout keeps, in the order of the blocks.
    momentum : (R, 1, 1) tensor
        How far BatchNorm's running statistics move; 0 leaves those of a replica unchanged.
    mask : (R, d, 1) tensor, optional
        Factors of the features: 0 hides a feature from the whole batch; the other factors are
        larger than 1 to compensate.
    """

    bits: Sequence[Tensor]
    momentum: Tensor
    mask: Tensor | None = None


MASK_FROM = 256
"""Number of features from which some are masked: each of a few features matters too much."""


def mask_words(d: int, share: float) -> int:
    """Number of 64-bit words that `feature_mask` needs; 0 where d is too small for a mask.

    Examples
    --------
    >>> mask_words(500, 0.5), mask_words(500, 0.0), mask_words(64, 0.5)
    (63, 0, 0)
    """
    return -(-d // 8) if share and d >= MASK_FROM else 0


def feature_mask(words: Tensor, d: int, share: float) -> Tensor:
    """Mask a share of the features: `Noise.mask` from random bits, one byte per feature.

    Parameters
    ----------
    words : (R, ⌈d / 8⌉) tensor of int64
        Random bits.
    d : int
        Number of features.
    share : float
        The share, rounded to a multiple of 1/256.

    Examples
    --------
    >>> feature_mask(torch.tensor([[0x_40_FF_BF_C0]]), 4, share=0.75).flatten()
    tensor([4., 0., 4., 0.])
    """
    below = round(256 * share)
    kept = words.view(torch.uint8)[:, :d] >= below
    return kept.unsqueeze(-1) * (256 / (256 - below))


class First(nn.Module):
    """X W with W (R, d, hidden), initialised as in PyTorch.

    There is no bias here, nor in any layer before a block: BatchNorm would remove it, and Adam,
    which normalises gradients, would move it at random because of rounding errors.
    """

    def __init__(self, d: int, hidden: int, random: Sequence[torch.Generator]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(len(random), d, hidden))
        _initialise(self, 1 / math.sqrt(d), random)

    def forward(
        self, inputs: Inputs, rows: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """X[rows] W (R, S, B, hidden) for rows (R, S, B); for all nodes (R, 1, n, hidden)."""
        flat = None if rows is None else rows.flatten(1)
        x = inputs.project(self.weight if mask is None else self.weight * mask, flat)
        return x.unsqueeze(1) if rows is None else x.view(*rows.shape, -1)


class Linear(nn.Module):
    """x Wᵀ + b with W (R, fan_out, fan_in), initialised as in PyTorch."""

    def __init__(
        self, fan_in: int, fan_out: int, random: Sequence[torch.Generator], bias: bool
    ) -> None:
        super().__init__()
        R = len(random)
        self.weight = nn.Parameter(torch.empty(R, fan_out, fan_in))
        self.bias = nn.Parameter(torch.empty(R, 1, fan_out)) if bias else None
        _initialise(self, 1 / math.sqrt(fan_in), random)

    def forward(self, x: Tensor) -> Tensor:
        """(R, S, B, fan_in) → (R, S, B, fan_out)."""
        flat = x.flatten(1, 2)
        if x.dtype == self.weight.dtype:
            y = kernels.apply(_Product, flat, self.weight)
        else:
            # Logits, which have a bias, are float32; the input of a block is not.
            out = flat.dtype if self.bias is None else self.weight.dtype
            y = kernels.apply(HalfProduct, flat, self.weight.transpose(1, 2), out)
        y = y if self.bias is None else y.add_(self.bias)
        return y.view(*x.shape[:3], -1)


class _Product(torch.autograd.Function):
    """x Wᵀ with the gradient gᵀ x of W: autograd's (xᵀ g)ᵀ takes four times as long here."""

    @staticmethod
    def forward(ctx: kernels.Context, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: kernels.Context, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return torch.bmm(grad, weight), torch.bmm(grad.transpose(1, 2), x)


@torch.no_grad()
def _initialise(layer: nn.Module, bound: float, random: Sequence[torch.Generator]) -> None:
    for part in layer.parameters():
        for row, generator in zip(part, random, strict=True):
            row.uniform_(-bound, bound, generator=generator)


class Block(nn.Module):
    """BatchNorm, LayerNorm, LeakyReLU, Dropout, Linear."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        random: Sequence[torch.Generator],
        bias: bool = True,
        dropout: float = DROPOUT,
    ) -> None:
        super().__init__()
        # The kernels double what Dropout keeps, which is right for a probability of 0.5.
        self.rescale = 128 / kept_of_256(dropout)
        shape = (len(random), 1, 1, fan_in)
        self.batch_scale = nn.Parameter(torch.ones(shape))
        self.batch_shift = nn.Parameter(torch.zeros(shape))
        self.layer_scale = nn.Parameter(torch.ones(shape))
        self.layer_shift = nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape[0], 1, fan_in))
        self.register_buffer("running_var", torch.ones(shape[0], 1, fan_in))
        self.linear = Linear(fan_in, fan_out, random, bias)

    def forward(
        self, x: Tensor, bits: Tensor | None = None, momentum: Tensor | None = None
    ) -> Tensor:
        """(R, S, B, fan_in) → (R, S, B, fan_out)."""
        affine = Affine(self.batch_scale, self.batch_shift, self.layer_scale, self.layer_shift)
        if bits is None or momentum is None:
            y = kernels.evaluate_block(x, affine, self.running_mean, self.running_var)
        else:
            running = Running(self.running_mean, self.running_var, momentum)
            y = kernels.train_block(x, affine, bits, running)
            y = y if self.rescale == 1 else y * self.rescale
        out: Tensor = self.linear(y)
        return out


class ForkedMLP(nn.Module):
    """M: x → (z, s), for R replicas.

    Parameters
    ----------
    d, C : int
        Numbers of features and classes.
    seeds : sequence of int
        One for each replica; a replica's weights depend on its own seed alone.
    hidden : int, optional
        Width of the hidden layers.
    dropout : float, optional
        Probability of dropping a hidden unit in training.
    K : int, optional
        Number of neighbour heads.

    Examples
    --------
    >>> from linkdist.nn.inputs import make_inputs
    >>> import numpy as np
    >>> x = make_inputs(np.eye(4, dtype=np.float32), torch.device("cpu"))
    >>> z, s = ForkedMLP(d=4, C=3, seeds=[0, 1])(x)
    >>> z.shape, s.shape
    (torch.Size([2, 1, 4, 3]), torch.Size([1, 2, 1, 4, 3]))
    """

    def __init__(
        self,
        d: int,
        C: int,
        seeds: Sequence[int],
        hidden: int = HIDDEN,
        dropout: float = DROPOUT,
        K: int = 1,
    ) -> None:
        super().__init__()
        random = generators(seeds)
        self.hidden, self.dropout = hidden, dropout
        self.first = First(d, hidden, random)
        self.trunk = Block(hidden, hidden, random, bias=False, dropout=dropout)
        self.own = Block(hidden, C, random, dropout=dropout)
        self.neighbour = Block(hidden, C, random, dropout=dropout)
        more = (Block(hidden, C, random, dropout=dropout) for _ in range(K - 1))
        self.more_neighbours = nn.ModuleList(more)

    @property
    def neighbours(self) -> list[Block]:
        """The K neighbour heads."""
        return [self.neighbour, *cast(Iterable[Block], self.more_neighbours)]

    @property
    def blocks(self) -> int:
        """Number of blocks, each with its own Dropout."""
        return 3 + len(self.more_neighbours)

    def forward(
        self, inputs: Inputs, rows: Tensor | None = None, noise: Noise | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits z (R, S, B, C) and s (K, R, S, B, C) of the nodes `rows` (R, S, B), or of all."""
        bits, momentum, mask = noise if noise is not None else ((None,) * self.blocks, None, None)
        x = self.first(inputs, rows, mask)  # (R, S, B, hidden)
        h = self.trunk(x, bits[0], momentum)  # (R, S, B, hidden)
        z = self.own(h, bits[1], momentum)  # (R, S, B, C)
        s = [head(h, part, momentum) for head, part in zip(self.neighbours, bits[2:], strict=True)]
        return z, s[0].unsqueeze(0) if len(s) == 1 else torch.stack(s)


def kept_of_256(dropout: float) -> int:
    """The average number of 256 hidden units that Dropout keeps, at least one.

    Examples
    --------
    >>> kept_of_256(0.5), kept_of_256(0.0), kept_of_256(0.999)
    (128, 256, 1)
    """
    return max(1, round(256 * (1 - dropout)))


def generators(seeds: Sequence[int], device: torch.device | None = None) -> list[torch.Generator]:
    """One random stream for each replica."""
    return [torch.Generator(device or "cpu").manual_seed(seed) for seed in seeds]


class Folded(nn.Module):
    """One head of a forked MLP for deployment: a plain MLP from features to logits.

    In evaluation, BatchNorm is a fixed scale and shift of each hidden feature, so it can be folded
    into the preceding Linear layer:

        γ (x W - μ) / √(σ² + ε) + β  =  x W' + b'    with    W' = W γ / √(σ² + ε)
                                                             b' = β - μ γ / √(σ² + ε)

    The result is Linear, LayerNorm, LeakyReLU, Linear, LayerNorm, LeakyReLU, Linear. Prediction
    from features does not need the neighbour head; for prediction with links it is folded in the
    same way, after the same first Linear layer.

    Parameters
    ----------
    network : ForkedMLP
        A trained network; it is not changed.
    head : Block, optional
        By default `network.own`; one of `network.neighbours` for another head.

    Examples
    --------
    >>> Folded(ForkedMLP(d=4, C=3, seeds=[0, 1]))(torch.eye(4)).shape
    torch.Size([2, 4, 3])
    """

    def __init__(self, network: ForkedMLP, head: Block | None = None) -> None:
        super().__init__()
        trunk, head = network.trunk, head or network.own
        self.first = nn.ParameterList(_fold(network.first.weight, trunk))
        self.second = nn.ParameterList(_fold(trunk.linear.weight.transpose(1, 2), head))
        assert head.linear.bias is not None
        self.third = nn.ParameterList(
            [head.linear.weight.detach().transpose(1, 2), head.linear.bias.detach()]
        )
        self.norms = nn.ParameterList(
            part.detach().squeeze(1)
            for b in (trunk, head)
            for part in (b.layer_scale, b.layer_shift)
        )
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (R, n, C) of dense features (n, d)."""
        scale1, shift1, scale2, shift2 = self.norms
        h = _activate(x @ self.first[0] + self.first[1], scale1, shift1)  # (R, n, hidden)
        h = _activate(torch.baddbmm(self.second[1], h, self.second[0]), scale2, shift2)
        return torch.baddbmm(self.third[1], h, self.third[0])


def _activate(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.leaky_relu(F.layer_norm(x, x.shape[-1:], eps=EPSILON) * scale + shift, SLOPE)


def _fold(weight: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """W' and b' for the Linear layer without bias before a block, and the block's BatchNorm."""
    by = block.batch_scale.detach().squeeze(1) * (block.running_var + EPSILON).rsqrt()  # (R, 1, h)
    return weight.detach() * by, block.batch_shift.detach().squeeze(1) - block.running_mean * by
