"""How alike the labels of linked nodes are, for numbers and for several labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray, Labels, known_labels


def link_correlation(links: IntArray, labels: Labels) -> tuple[int, npt.NDArray[np.float64]]:
    """Pearson's correlation of the labels at the two ends of links.

    It is 1 if linked nodes have equal labels and about 0 if the labels do not depend on the links.
    A link counts in both directions; self-loops and links to unknown labels are left out.

    Parameters
    ----------
    links : (m, 2) array of int
        Pairs of nodes.
    labels : (n,) array of numbers or (n, C) array of 0 and 1
        Known labels, or unknown ones as in `Graph`.

    Returns
    -------
    int, (C,) array
        Number of links with known labels at both ends, and the correlations; NaN where the labels
        do not differ.

    Examples
    --------
    >>> links = np.array([[0, 1], [2, 3], [3, 3]])
    >>> link_correlation(links, np.array([1.0, 1.0, 5.0, 5.0]))
    (2, array([1.]))
    """
    known = known_labels(labels)
    pairs = links[links[:, 0] != links[:, 1]]
    pairs = pairs[known[pairs].all(axis=1)]
    values = np.where(known.reshape(-1, *[1] * (labels.ndim - 1)), labels, 0)
    values = values.reshape(len(labels), -1).astype(np.float64)  # (n, C)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    if not len(ends):
        return 0, np.full(values.shape[1], np.nan)
    first, second = values[ends[:, 0]], values[ends[:, 1]]
    # Both ends have the same mean and variance, because each link counts in both directions.
    mean = first.mean(axis=0)
    variance = ((first - mean) ** 2).mean(axis=0)
    covariance = ((first - mean) * (second - mean)).mean(axis=0)
    differ = variance > 1e-12 * np.maximum((first**2).mean(axis=0), 1e-300)
    with np.errstate(invalid="ignore", divide="ignore"):
        return len(pairs), np.where(differ, covariance / variance, np.nan)
