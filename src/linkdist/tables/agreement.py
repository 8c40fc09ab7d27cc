"""How the columns of a table agree with one another.

A column whose values are moved to other rows has the same distribution as before; only its relation
to the other columns is lost. For each pair of related columns, correspondence analysis gives a
score to each bin so that the correlation of the two scores is as large as possible. The agreement
of the pair is the mean of the product of the scores over rows: about that correlation in the
training, and 0 if the columns are unrelated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import IntArray
from linkdist.tables.column_values import Bags

Array = npt.NDArray[np.float64]

PARTNERS = 3
"""Maximum number of columns that a column is compared with, those that it agrees with most."""

COLUMNS = 100
"""The agreement of further columns is not measured: the number of pairs would be too large."""

FEW = 10
"""A bin of fewer rows has the score 0."""

LEAST, ERRORS = 0.1, 4.0
"""The smallest agreement of a pair, also in standard errors."""


@dataclass(frozen=True)
class Pair:
    """Two related columns.

    Attributes
    ----------
    first, second : int
        The columns.
    scores : two sequences of float
        A score for each bin of both columns, with mean 0 and variance 1 in the training.
    """

    first: int
    second: int
    scores: tuple[tuple[float, ...], tuple[float, ...]]

    def sums(self, places: Sequence[IntArray]) -> Array:
        """Number of rows in which neither value is missing, Σw and Σw² of the products w of scores.

        Parameters
        ----------
        places : sequence of (n,) int arrays
            The bins of the rows in each column.
        """
        a, b = places[self.first], places[self.second]
        u, v = (np.array([*scores[:-1], np.nan]) for scores in self.scores)
        return moments(u[a] * v[b])

    def state(self) -> dict[str, Any]:
        """The pair as JSON values."""
        return {"columns": [self.first, self.second], "scores": [list(one) for one in self.scores]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], sizes: Sequence[int]) -> Pair:
        """Restore a pair; `sizes` are the numbers of bins. An invalid state is a ValueError."""
        first, second = state["columns"]
        a, b = (tuple(map(float, one)) for one in state["scores"])
        known = all(type(i) is int and 0 <= i < len(sizes) for i in (first, second))
        if not known or (len(a), len(b)) != (sizes[first], sizes[second]):
            raise ValueError("a pair of columns must have a score for each bin")
        return cls(first, second, (a, b))


def moments(values: Array) -> Array:
    """Number, sum and sum of squares of the values that are not NaN.

    Examples
    --------
    >>> moments(np.array([1.0, 3.0, np.nan])).tolist()
    [2.0, 4.0, 10.0]
    """
    known = values[~np.isnan(values)]
    return np.array([len(known), known.sum(), np.square(known).sum()], dtype=np.float64)


def mean_and_error(sums: Array) -> tuple[float, float]:
    """The mean and its standard error, from `moments`; NaN without values.

    Examples
    --------
    >>> mean_and_error(np.array([2.0, 4.0, 10.0]))
    (2.0, 1.0)
    """
    n, total, squares = sums.tolist()
    if n < 2:
        return (total / n if n else np.nan), np.nan
    variance = max(squares / n - (total / n) ** 2, 0.0) * n / (n - 1)
    return total / n, float(np.sqrt(variance / n))


def halves(n: int) -> tuple[IntArray, IntArray]:
    """Two random halves of n rows: one chooses words, pairs and scores, the other measures them.

    Examples
    --------
    >>> [len(half) for half in halves(5)]
    [3, 2]
    """
    first, second = np.array_split(np.random.default_rng(0).permutation(n), 2)
    return first, second


def informative_words(
    rows: Bags, words: Sequence[str], places: Sequence[IntArray], sizes: Sequence[int]
) -> list[str]:
    """The words that depend on other columns, the most dependent first.

    The most frequent words of a text depend on nothing. Of all rows, the first of two `halves` is
    used.

    Parameters
    ----------
    rows : list of n lists of str
        The words of each row, each once.
    words : sequence of str
        The words to choose from.
    places : sequence of (n,) int arrays
        The bins of the rows in the other columns.
    sizes : sequence of int
        Their numbers of bins.

    Examples
    --------
    >>> place = np.arange(400) % 2
    >>> informative_words([["the", "ab"[k]] for k in place], ["the", "a", "b"], [place], [3])
    ['a', 'b']
    """
    chosen_by, _ = halves(len(rows))
    rank, n = {word: k for k, word in enumerate(words)}, len(chosen_by)
    found = [(rank[word], row) for row in chosen_by.tolist() for word in rows[row] if word in rank]
    word, row = np.array(found, dtype=np.int64).reshape(-1, 2).T
    with_word = np.bincount(word, minlength=len(words))[:, None]
    strength = np.zeros(len(words))
    for place, size in zip(places, sizes, strict=True):
        table = np.bincount(word * size + place[row], minlength=len(words) * size)
        in_bin = np.bincount(place[chosen_by], minlength=size)
        expected = with_word * in_bin / max(n, 1)
        variance = np.maximum(expected * (1 - with_word / max(n, 1)), 1e-9)
        differs = np.square(table.reshape(-1, size) - expected) / variance
        # Chi-square in standard deviations above its mean, which is its degrees of freedom.
        freedom = max(int((in_bin > 0).sum()) - 1, 1)
        statistic = differs[:, in_bin > 0].sum(axis=1)
        strength = np.maximum(strength, (statistic - freedom) / np.sqrt(2 * freedom))
    strength[with_word[:, 0] < FEW] = 0
    order = np.argsort(-strength, kind="stable")
    return [words[k] for k in order.tolist() if strength[k] > ERRORS]


def find_pairs(places: Sequence[IntArray], sizes: Sequence[int]) -> list[tuple[Pair, Array]]:
    """Find pairs of related columns.

    One half of the rows chooses pairs and scores, the other half measures their agreement, so that
    unrelated columns do not seem to agree.

    Parameters
    ----------
    places : sequence of (n,) int arrays
        The bins of the rows in each column; the last bin is that of missing values.
    sizes : sequence of int
        Numbers of bins.

    Returns
    -------
    list of Pair and (3,) array
        The pairs, and `Pair.sums` over the second half of the rows.

    Examples
    --------
    >>> same, other = np.arange(400) % 2, np.arange(400) // 2 % 2
    >>> [((pair, sums),)] = [find_pairs([same, same, other], [3, 3, 3])]
    >>> (pair.first, pair.second), mean_and_error(sums)[0].__round__(2)
    ((0, 1), 1.01)
    """
    chosen_by, measured_on = halves(len(places[0]) if places else 0)
    found: dict[tuple[int, int], tuple[float, Array, Array]] = {}
    for i, j in combinations(range(min(len(places), COLUMNS)), 2):
        cells = places[i][chosen_by] * sizes[j] + places[j][chosen_by]
        table = np.bincount(cells, minlength=sizes[i] * sizes[j]).reshape(sizes[i], sizes[j])
        found[i, j] = _correspond(table)
    best = set[tuple[int, int]]()
    for i in range(len(places)):
        own = sorted((pair for pair in found if i in pair), key=lambda pair: -found[pair][0])
        best.update(own[:PARTNERS])
    pairs = []
    rest = [place[measured_on] for place in places]
    for i, j in sorted(best):
        _, u, v = found[i, j]
        pair = Pair(i, j, (tuple(u.round(4).tolist()), tuple(v.round(4).tolist())))
        mean, error = mean_and_error(sums := pair.sums(rest))
        if mean > max(LEAST, ERRORS * error):
            pairs.append((pair, sums))
    return pairs


def _correspond(table: IntArray) -> tuple[float, Array, Array]:
    """The largest correlation of scores of the rows and columns of a table, and these scores."""
    counts = table.astype(np.float64)
    counts[-1], counts[:, -1] = 0, 0  # missing values
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    total = rows.sum()
    u, v = np.zeros(len(rows)), np.zeros(len(columns))
    several = (rows >= FEW).sum() > 1 and (columns >= FEW).sum() > 1
    if not several:
        return 0.0, u, v
    r, c = rows >= FEW, columns >= FEW
    expected = np.outer(rows[r], columns[c]) / total
    residuals = (counts[np.ix_(r, c)] - expected) / np.sqrt(expected * total)
    left, strength, right = np.linalg.svd(residuals)
    u[r] = left[:, 0] / np.sqrt(rows[r] / total)
    v[c] = right[0] / np.sqrt(columns[c] / total)
    return float(strength[0]), u, v
