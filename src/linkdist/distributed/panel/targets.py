"""The targets of the students for all nodes of a store, and the means of their neighbours' targets.

The target of a node is the prediction of the mixture of teachers, or its known label
(`training.panel.ensemble`). A student learns t_i and the target t_j of a random neighbour j:

    CE(z_i, t_i) + CE(s_i, t_j)

The second term is linear in t_j, so its mean over the neighbours is CE(s_i, t̄_i) with the mean t̄_i
of their targets. With t̄ on disk, a student needs no links: it reads the rows of a part. The squared
error has the same gradient as well. With the absolute error, the neighbour head learns the mean of
the neighbours' numbers instead of their median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linkdist.data.graph import known_labels, without_labels
from linkdist.data.links import reverse_head
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.projection import WIDTH
from linkdist.distributed.panel.sample import Sample
from linkdist.distributed.panel.teachers import PartRows, StoreTeacher
from linkdist.distributed.panel.workshop import Hidden, Rows, Seen, Update, Workshop
from linkdist.store.reader import Store
from linkdist.training.panel.ensemble import LOWEST, TeacherEnsemble, class_shares
from linkdist.training.panel.fitting import Units

CHUNK = 1 << 22
"""Number of values of a mixture that are computed at once."""
PRIOR_ROWS = 200_000
"""Number of nodes from which the shares of the classes are estimated."""


@dataclass(frozen=True)
class Labels:
    """The labels that a view knows, part by part.

    Attributes
    ----------
    store : Store
        The graph.
    withheld : mapping
        The rows whose labels are unknown to the view.
    units : Units
        The units of numbers.
    """

    store: Store
    withheld: Hidden
    units: Units

    def read(self, part: int) -> Any:  # noqa: ANN401
        """The labels of a part in the form of `Graph.labels`."""
        y: Any = self.store.labels(part)
        y = y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
        if part in self.withheld:
            y = without_labels(y, self.withheld[part])
        if self.store.task == "regression":
            y = (y - self.units.centre) / self.units.scale
        return y


class Mixture:
    """The mixture of teachers of each replica, for any rows of a store.

    Parameters
    ----------
    ensemble : TeacherEnsemble
        The teachers of the sample with their weights; they are `StoreTeacher`.
    links : sequence of int
        For each replica, the view whose averages make its targets.
    """

    def __init__(self, ensemble: TeacherEnsemble, links: Sequence[int]) -> None:
        self.ensemble, self.links = ensemble, links
        self.priors = [ensemble.prior(replica) for replica in ensemble.replicas]

    @torch.no_grad()
    def predict(self, r: int, rows: PartRows) -> Tensor:
        """Predictions (k, C) for replica r: probabilities or numbers."""
        ensemble, total = self.ensemble, None
        task, device = ensemble.context.task, ensemble.context.device
        prior = torch.from_numpy(self.priors[r]).float().to(device)
        for group, chosen in zip(ensemble.groups, ensemble.weights[r], strict=True):
            teacher = group[chosen.variant]
            assert isinstance(teacher, StoreTeacher)
            scores = teacher.part_scores(ensemble.view_of[r], self.links[r], rows)
            power, shift = chosen.exponents.tolist()
            mean = chosen.weight * task.mean(power * scores.clamp(min=LOWEST) + shift * prior)
            total = mean if total is None else total + mean
        assert total is not None
        if (shares := ensemble.estimated_prior[r]) is not None:
            total = total * torch.from_numpy(np.exp(shares)).to(total)
            total = total / total.sum(-1, keepdim=True)
        return total

    def part(self, store: Store, part: int, r: int) -> Tensor:
        """Predictions (n_p, C) of all rows of a part, in float16."""
        out = torch.empty(store.manifest.sizes[part], store.C, dtype=torch.float16)
        for rows, p in self._pieces(store, part, r, len(out)):
            out[rows] = p.half().cpu()
        return out

    def _pieces(self, store: Store, part: int, r: int, n: int) -> Iterator[tuple[slice, Tensor]]:
        """The predictions of the first n rows of a part, some rows at a time."""
        x: Any = store.features(part)
        dense = 0 if store.kind == "csr" else store.d
        step = max(1, CHUNK // max(store.C, dense, WIDTH))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            some = PartRows(part, rows, x[rows], self.ensemble.context.device)
            yield rows, self.predict(r, some)

    def estimate_priors(self, store: Store, hidden: Sequence[Hidden]) -> None:
        """Estimate the shares of classes where labels are balanced by design.

        They come from the predictions of visible nodes of the largest part, which are a random
        sample.

        Parameters
        ----------
        store : Store
            The graph.
        hidden : sequence of mappings
            The rows that each replica does not see.
        """
        part = int(store.sizes.argmax())
        n = min(PRIOR_ROWS, store.manifest.sizes[part])
        for r, away in enumerate(hidden):
            if self.ensemble.is_balanced(r):
                seen = np.setdiff1d(np.arange(n), away.get(part, []))
                pieces = [p.cpu() for _, p in self._pieces(store, part, r, n)]
                p = torch.cat(pieces)[torch.from_numpy(seen)].double().numpy()
                self.ensemble.estimated_prior[r] = class_shares(self.ensemble, r, p)


def write_targets(
    workshop: Workshop, mixture: Mixture, sample: Sample, units: Units, smooth: bool
) -> list[Columns]:
    """Write the targets of each replica.

    Parameters
    ----------
    workshop : Workshop
        Writes the arrays.
    mixture : Mixture
        The teachers.
    sample : Sample
        The replicas.
    units : Units
        The units of numbers.
    smooth : bool
        Whether known labels do not replace predictions.
    """
    store, ensemble, found = workshop.store, mixture.ensemble, []
    for r, replica in enumerate(sample.replicas):
        labels = Labels(store, sample.withheld(replica), units)

        def compute(part: int, r: int = r, labels: Labels = labels) -> Tensor:
            targets = mixture.part(store, part, r)
            y = labels.read(part)
            known = known_labels(y)
            if not smooth and known.any():
                rows = torch.from_numpy(np.flatnonzero(known))
                targets[rows] = torch.from_numpy(ensemble.context.targets(y[known])).half()
            return targets

        found.append(workshop.columns(f"targets.{r}", store.C))
        workshop.fill(found[-1], compute)
    return found


def write_beside(
    workshop: Workshop, targets: Sequence[Columns], seen: Sequence[Seen]
) -> list[list[Columns]]:
    """Write the means of the neighbours' targets, for each replica and head.

    A node without neighbours has its own target with one head, and NaN with several, of which a
    student then learns the others.

    Parameters
    ----------
    workshop : Workshop
        Writes the arrays.
    targets : sequence of Columns
        Those of each replica.
    seen : sequence of Seen
        What each replica sees of the links.
    """
    found = []
    for r, (own, view) in enumerate(zip(targets, seen, strict=True)):
        heads = []
        for head in workshop.adjacency.heads:
            heads.append(workshop.columns(f"beside.{r}.{head}", own.width))
            # A head predicts the nodes whose neighbour a node is: those at the other end.
            other = reverse_head(head, workshop.store.directed)
            update = _mean_target(view, other, len(workshop.adjacency.heads) == 1)
            workshop.propagate(own, heads[-1], view, update, other)
        found.append(heads)
    return found


def _mean_target(seen: Seen, head: int, single: bool) -> Update:
    """The mean over the neighbours of a head, and what takes its place without any."""

    def update(rows: Rows, sums: Tensor) -> Tensor:
        count = rows.of(seen.degree)[:, head : head + 1]
        rest = rows.own if single else torch.full_like(sums, torch.nan)
        return torch.where(count > 0, sums / count.clamp(min=1e-12), rest)

    return update
