"""Shapley values: a prediction as a sum of contributions, one for each part of a row.

In a permutation, parts are switched on one after the other, and each adds the change that it makes.
The Shapley value of a part is the mean of its changes over all permutations. A sample of
permutations estimates it. In each permutation the changes add up to the difference between all
parts and none, so the sums of the estimates are exact as well.

Permutations are sampled in pairs of opposite order: where parts interact in pairs, the errors of
the two orders cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[np.float64]

SEED = 0
"""Explanations of the same row are the same each time."""


def sample_permutations(parts: int, pairs: int) -> npt.NDArray[np.int64]:
    """Sample permutations of parts, and add the reverse of each, (2 pairs, parts).

    Examples
    --------
    >>> order = sample_permutations(3, 1)
    >>> bool((order[0] == order[1][::-1]).all()), sorted(order[0].tolist())
    (True, [0, 1, 2])
    """
    random = np.random.default_rng(SEED)
    order = random.permuted(np.tile(np.arange(parts), (pairs, 1)), axis=1)
    return np.concatenate([order, order[:, ::-1]])


def shapley_values(
    value: Callable[[Mask], Values], parts: int, pairs: int
) -> tuple[Values, Values, Values]:
    """Estimate Shapley values from pairs of permutations.

    Parameters
    ----------
    value : callable
        Returns the values (V, T) of V subsets of the parts, which are given as masks (V, parts).
    parts : int
        G, the number of parts.
    pairs : int
        Number of pairs of permutations. A pair is computed from 2 G - 2 subsets.

    Returns
    -------
    base, total : (T,) arrays
        The values of no part and of all parts.
    contributions : (G, T) array
        The Shapley values, which sum to `total - base`.

    Examples
    --------
    >>> def value(mask):  # parts that count 1 and 2, and 3 more together
    ...     return (mask @ [1.0, 2.0] + 3.0 * mask.all(axis=1))[:, None]
    >>> base, total, contributions = shapley_values(value, 2, pairs=1)
    >>> base.tolist(), total.tolist(), contributions.ravel().tolist()
    ([0.0], [6.0], [2.5, 3.5])
    """
    order = sample_permutations(parts, pairs)  # (P, G)
    rank = np.argsort(order, axis=1)
    # Row k of a permutation has its first k parts.
    masks = rank[:, None, :] < np.arange(parts + 1)[:, None]  # (P, G + 1, G)
    inner = masks[:, 1:-1].reshape(-1, parts)
    ends = np.repeat([[False], [True]], parts, axis=1)
    values = value(np.concatenate([ends, inner]))
    base, total = values[:2]
    P, T = len(order), values.shape[1]
    path = np.empty((P, parts + 1, T))
    path[:, 0], path[:, -1] = base, total  # both are the base if there are no parts
    path[:, 1:-1] = values[2:].reshape(P, -1, T)
    changes = np.diff(path, axis=1)
    return base, total, np.take_along_axis(changes, rank[..., None], axis=1).mean(axis=0)
