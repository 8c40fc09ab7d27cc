"""The outputs of a network's heads, and what they add up to.

    κ · own_i + Σ_k α_k · mean_j neighbour_kj

of R replicas, as in `linkdist.inference.engine`. ONNX Runtime or PyTorch computes the outputs; what
is added here is explained part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.data.links import Links
from linkdist.inference.explain_parts import Name, group_parts
from linkdist.inference.shapley import Mask, Values

FAR = 100.0
"""Log-odds are limited to this absolute value: a probability of 0 or 1 has infinite ones."""


@dataclass(frozen=True)
class Heads:
    """A network whose heads can be computed.

    Attributes
    ----------
    outputs : callable
        Returns the outputs (n, R, C) of the own head and (n, R, K, C) of the neighbour heads, or
        (n, R, C) of a single one, for features (n, d): log-probabilities, log-odds or numbers.
    alpha : (R, K) array
        α, the weights of the neighbours.
    own : (R,) array
        κ, the weight of the node itself.
    task : {'classification', 'regression', 'multilabel'}
        What is predicted.
    """

    outputs: Callable[[FeatureMatrix], tuple[FloatArray, FloatArray]]
    alpha: FloatArray
    own: FloatArray
    task: str

    def combined(self, own: FloatArray, present: Mask, neighbours: Neighbours | None) -> Values:
        """What is added up, (V, R, C), from own outputs (V, R, C) and neighbours (V, m)."""
        scores = own.astype(np.float64)
        if neighbours is None:
            return scores
        sums, weights = neighbours.of(present)
        linked = weights > 0  # (V, K)
        means = sums / np.where(linked, weights, 1)[:, :, None, None]  # (V, K, R, C)
        total = self.alpha.sum(axis=1).astype(np.float64)  # (R,)
        share = linked @ self.alpha.T.astype(np.float64) / np.where(total > 0, total, 1)  # (V, R)
        factor = share * self.own + 1 - share
        around = np.einsum("rk,vkrc->vrc", self.alpha.astype(np.float64), means)
        combined: Values = factor[:, :, None] * scores + around
        return combined

    def explained(self, scores: Values) -> Values:
        """The log-odds of each class or label, or the number, (V, C), from (V, R, C)."""
        if self.task == "regression":
            number: Values = scores.mean(axis=1)
            return number
        if self.task == "multilabel":
            # The logarithms of the probabilities that a label is there, and that it is not.
            yes, no = (np.logaddexp.reduce(-np.logaddexp(0, x), axis=1) for x in (-scores, scores))
        else:
            scores = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
            yes = np.logaddexp.reduce(scores, axis=1)  # (V, C)
            no = _log_sum_of_others(yes)
        odds: Values = np.clip(yes - no, -FAR, FAR)
        return odds


def expit(odds: npt.ArrayLike) -> Values:
    """The probabilities that log-odds stand for.

    Examples
    --------
    >>> expit([0.0, np.log(3.0)]).round(6).tolist()
    [0.5, 0.75]
    """
    p: Values = np.exp(-np.logaddexp(0, -np.asarray(odds, dtype=np.float64)))
    return p


def _log_sum_of_others(x: Values) -> Values:
    """The logarithm of Σ_{k ≠ c} exp(x_k) for each column c of x (V, C), to full precision.

    Examples
    --------
    >>> np.exp(_log_sum_of_others(np.log([[1.0, 2.0, 4.0]]))).round(6).tolist()
    [[6.0, 5.0, 3.0]]
    """
    none = np.full((len(x), 1), -np.inf)
    before = np.logaddexp.accumulate(np.hstack([none, x[:, :-1]]), axis=1)
    after = np.logaddexp.accumulate(np.hstack([none, x[:, :0:-1]]), axis=1)[:, ::-1]
    others: Values = np.logaddexp(before, after)
    return others


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The neighbours of a node; each is a part, or several are one part.

    Attributes
    ----------
    names : list of Name
        The m parts.
    sums : (m, K, R, C) array
        The outputs of the neighbours of each part for each head, times the weights of the links.
    weights : (m, K) array
        The weights of the links.
    """

    names: list[Name]
    sums: Values
    weights: Values

    def of(self, present: Mask) -> tuple[Values, Values]:
        """The sums (V, K, R, C) and the weights (V, K) of those that are present (V, m)."""
        mask = present.astype(np.float64)
        return np.tensordot(mask, self.sums, axes=1), mask @ self.weights


@dataclass(frozen=True, eq=False)
class NearRows:
    """The rows that are linked with some rows.

    Attributes
    ----------
    positions : (k,) array
        The linked rows, sorted.
    row, neighbour, head : (e,) arrays
        The edges: which of the rows, which of `positions`, by which head.
    weights : (e,) array
        The weights of the links.
    heads : tuple of str
        Names of the heads.

    Examples
    --------
    >>> near = NearRows.of(Links(np.array([[0, 7], [7, 9], [0, 0]])), 10, np.array([0, 7]))
    >>> near.positions.tolist(), near.row.tolist(), near.neighbour.tolist()
    ([0, 7, 9], [0, 1, 1], [1, 0, 2])
    """

    positions: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    neighbour: npt.NDArray[np.int64]
    head: npt.NDArray[np.int64]
    weights: Values
    heads: tuple[str, ...]

    @classmethod
    def of(cls, links: Links, n: int, rows: npt.NDArray[np.int64]) -> NearRows:
        """The neighbours of `rows` among n nodes; a self-loop makes no node its own neighbour."""
        edges = links.merged(n).edges()
        i, j = edges.pairs.T
        edges = edges.take(np.isin(i, rows) & (i != j))
        i, j = edges.pairs.T
        order = np.argsort(rows)
        positions, neighbour = np.unique(j, return_inverse=True)
        return cls(
            positions.astype(np.int64),
            order[np.searchsorted(rows, i, sorter=order)],
            neighbour.reshape(-1),
            np.zeros(len(i), np.int64) if edges.heads is None else edges.heads,
            np.ones(len(i)) if edges.weights is None else edges.weights.astype(np.float64),
            links.heads,
        )

    def among(self, positions: npt.NDArray[np.int64]) -> NearRows:
        """The same neighbours at their places among more positions, which are sorted."""
        neighbour = np.searchsorted(positions, self.positions)[self.neighbour]
        return replace(self, positions=positions, neighbour=neighbour)

    def neighbours(
        self, row: int, outputs: FloatArray, ids: Sequence[str], most: int = 256
    ) -> Neighbours | None:
        """The neighbours of a row, None if there are none.

        Parameters
        ----------
        row : int
            One of the rows.
        outputs : (k, R, K, C) or (k, R, C) array
            The outputs of the neighbour heads at `positions`.
        ids : sequence of str
            The ids at `positions`.
        most : int
            Number of parts of each head; neighbours with light links are one part.
        """
        mine = self.row == row
        outputs = outputs.reshape(*outputs.shape[:2], -1, outputs.shape[-1])
        names, sums, weights = list[Name](), list[Values](), list[Values]()
        for k in np.unique(self.head[mine]).tolist():
            near = np.flatnonzero(mine & (self.head == k))
            found = [Name("neighbour", self.heads[k], ids[j]) for j in self.neighbour[near]]
            weight = self.weights[near]
            weighted = weight[:, None, None] * outputs[self.neighbour[near], :, k]  # (m, R, C)
            if len(found) > most:
                kept, rest, found = group_parts(found, weight, most)
                weighted, weight = (
                    np.concatenate([x[kept], x[rest].sum(axis=0, keepdims=True)])
                    for x in (weighted, weight)
                )
            names += found
            of_head = np.arange(outputs.shape[2]) == k
            sums.append(weighted[:, None] * of_head[:, None, None])
            weights.append(weight[:, None] * of_head)
        return Neighbours(names, np.concatenate(sums), np.concatenate(weights)) if names else None
