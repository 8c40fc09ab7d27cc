"""Shapley values: a value of all players together as a sum of contributions, one for each player.

In a permutation, players are switched on one after the other, and each adds the change that it
makes. The Shapley value of a player is the mean of its changes over all permutations. Few players
have few subsets, and the mean is exact. Otherwise a sample of permutations estimates it. In each
permutation the changes add up to the difference between all players and none, so the sums of the
estimates are exact as well.

Permutations are sampled in pairs of opposite order: where players interact in pairs, the errors of
the two orders cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[np.float64]

SUBSETS = 256
"""Number of subsets that are computed: with 8 players, all of them."""

SEED = 0
"""The same players have the same values each time."""


def shapley_values(
    value: Callable[[Mask], Values], players: int, subsets: int = SUBSETS
) -> tuple[Values, Values, Values]:
    """Compute or estimate Shapley values.

    Parameters
    ----------
    value : callable
        Returns the values (V, T) of V subsets of the players, which are given as masks
        (V, players).
    players : int
        G, the number of players.
    subsets : int
        Number of subsets to compute. Estimates need 2 G of them, and take that many if necessary.

    Returns
    -------
    base, total : (T,) arrays
        The values of no player and of all players.
    contributions : (G, T) array
        The Shapley values, which sum to `total - base`.

    Examples
    --------
    >>> def value(mask):  # players that count 1 and 2, and 3 more together
    ...     return (mask @ [1.0, 2.0] + 3.0 * mask.all(axis=1))[:, None]
    >>> base, total, contributions = shapley_values(value, 2)
    >>> base.tolist(), total.tolist(), contributions.ravel().tolist()
    ([0.0], [6.0], [2.5, 3.5])
    """
    if players < subsets.bit_length():
        return _exact(value, players)
    return _estimates(value, players, max(1, subsets // (2 * players)))


def _exact(value: Callable[[Mask], Values], G: int) -> tuple[Values, Values, Values]:
    """All subsets; number k has the players of the binary digits of k."""
    number = np.arange(1 << G)
    masks = (number[:, None] >> np.arange(G) & 1).astype(bool)  # (2 ** G, G)
    values = value(masks)
    size = masks.sum(axis=1)
    share = [factorial(s) * factorial(G - s - 1) / factorial(G) for s in range(G)]
    contributions = np.empty((G, values.shape[1]))
    for player in range(G):
        without = number[~masks[:, player]]
        changes = values[without | 1 << player] - values[without]
        contributions[player] = np.take(share, size[without]) @ changes
    return values[0], values[-1], contributions


def _estimates(
    value: Callable[[Mask], Values], G: int, pairs: int
) -> tuple[Values, Values, Values]:
    """Means over pairs of permutations."""
    random = np.random.default_rng(SEED)
    order = random.permuted(np.tile(np.arange(G), (pairs, 1)), axis=1)
    order = np.concatenate([order, order[:, ::-1]])  # (P, G)
    rank = np.argsort(order, axis=1)
    # Subset k of a permutation has its first k players.
    masks = rank[:, None, :] < np.arange(G + 1)[:, None]  # (P, G + 1, G)
    ends = np.repeat([[False], [True]], G, axis=1)
    values = value(np.concatenate([ends, masks[:, 1:-1].reshape(-1, G)]))
    base, total = values[:2]
    P, T = len(order), values.shape[1]
    path = np.empty((P, G + 1, T))
    path[:, 0], path[:, -1] = base, total
    path[:, 1:-1] = values[2:].reshape(P, G - 1, T)
    changes = np.take_along_axis(np.diff(path, axis=1), rank[..., None], axis=1)
    return base, total, changes.mean(axis=0)
