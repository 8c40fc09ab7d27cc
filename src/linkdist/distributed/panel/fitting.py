"""SelfLinkDist on a store: the stages in their order.

    sample      draw labelled rows; find validation nodes and their neighbours: one pass over links
    averages    average features over hops: ten passes for each view
    spreading   spread labels along links: 30 passes for each view
    teachers    fit them to labelled rows, calibrate and weight them, in memory
    targets     predict all nodes by the mixture, and average over neighbours: one pass
    students    learn the targets of rows, which needs no links

Arrays are written to a folder (`columns`); with the same store and options, what exists there is
not computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from linkdist._files import replacing
from linkdist.data.graph import IntArray, known_labels
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.adjacency import Adjacency
from linkdist.distributed.panel.averages import (
    STEPS_OF_VIEW,
    Blocks,
    average_heads,
    average_hops,
    average_neighbours,
    degrees,
    spread,
)
from linkdist.distributed.panel.projection import (
    Moments,
    Projection,
    find_projection,
    moments_of,
    write_columns,
)
from linkdist.distributed.panel.relations import choose_strengths, relational_teachers
from linkdist.distributed.panel.rows import TargetRows
from linkdist.distributed.panel.sample import Sample, draw_sample
from linkdist.distributed.panel.student import SAVED, StoreStudent
from linkdist.distributed.panel.targets import Labels, Mixture, write_beside, write_targets
from linkdist.distributed.panel.teachers import (
    Boosting,
    Spreading,
    ViewArrays,
    averaged_teachers,
    feature_teachers,
)
from linkdist.distributed.panel.workshop import Hidden, Seen, Workshop
from linkdist.errors import OptionError
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.store.plan import format_memory
from linkdist.store.reader import Store
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.fit import Fit
from linkdist.training.measures import measure_for
from linkdist.training.options import Options
from linkdist.training.panel.ensemble import MOSTLY, TeacherEnsemble
from linkdist.training.panel.estimates import label_limits
from linkdist.training.panel.estimators import STEPS, can_boost
from linkdist.training.panel.fitting import RANKINGS, check_labels, estimates_of, with_decision
from linkdist.training.panel.learning import cycles_for
from linkdist.training.panel.teachers import HOPS, Teacher, TeachingContext

PASSES, ROWS = 0.6, 0.4
"""The shares of the memory for the arrays of a step over links, and for the rows of students."""
MATRICES = {"cpu": 0.1, "cuda": 0.3}
"""The share for matrices of links, which are made again where they do not fit."""
TOLERANCE = 0.9
"""The share of the memory of an interrupted training with which it can be resumed."""
SCALES = 2.0**14
"""The largest factor of labels that spread."""


@dataclass(frozen=True)
class Resources:
    """Where a training on a store runs, and what it may use.

    Attributes
    ----------
    folder : Path
        Where arrays are written; all processes can read it.
    device : torch.device
        Where to train.
    room : int
        Bytes that training may hold.
    batch : int
        Number of nodes of a step.
    group : SingleProcess
        The processes.
    run : TrainingRun
        Checkpoint of the students.
    callback : Callback
        Receives the progress.
    saved : float
        Seconds between checkpoints of the students.
    """

    folder: Path
    device: torch.device
    room: int
    batch: int
    group: SingleProcess
    run: TrainingRun
    callback: Callback
    saved: float = SAVED


def fit_store(store: Store, options: Options, resources: Resources) -> tuple[Fit, Sample]:
    """Train SelfLinkDist on a store.

    Parameters
    ----------
    store : Store
        The graph.
    options : Options
        How to train.
    resources : Resources
        Where to train.

    Returns
    -------
    fit : Fit
        The model with its estimates, without its duration.
    sample : Sample
        The sample on which it was evaluated.
    """
    group, callback = resources.group, resources.callback
    # The sample, the blocks of columns and the slices depend on it, in all processes.
    memory = group.share(lambda: planned_room(resources.folder, resources.room))
    sample = group.share(
        lambda: draw_sample(store, options.seeds, options.held_out, memory, callback)
    )
    options.check_graph(sample.graph)
    check_labels(sample.graph, sample.splits[0])
    adjacency = Adjacency(store, resources.device, int(MATRICES[resources.device.type] * memory))
    workshop = Workshop(resources.folder, adjacency, group, int(PASSES * memory), callback)
    stages = _Stages(store, options, sample, workshop)
    ensemble = stages.ensemble(stages.arrays())
    rows = stages.rows(ensemble, int(ROWS * memory))
    adjacency.cache.held.clear()
    return stages.student(ensemble, rows, resources), sample


def planned_room(folder: Path, room: int) -> int:
    """The bytes that training may hold, as they were when it started.

    The arrays in the folder and the checkpoint were made for them. The free memory of a GPU changes
    a little from run to run.

    Parameters
    ----------
    folder : Path
        Where arrays are written.
    room : int
        Bytes that training may hold now.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     planned_room(Path(folder), 1000), planned_room(Path(folder), 2000)
    (1000, 1000)
    """
    path = folder / "memory"
    try:
        planned = int(path.read_text())
    except (OSError, ValueError):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(str(room).encode())
        return room
    if planned * TOLERANCE > room:
        raise OptionError(
            f"the training in {folder} was started with {format_memory(planned)} of memory; now it "
            f"may hold {format_memory(room)}. Resume it with as much --memory as before, or start "
            "from the beginning without --resume."
        )
    return planned


class _Stages:
    """The stages of one training."""

    def __init__(self, store: Store, options: Options, sample: Sample, workshop: Workshop) -> None:
        self.store, self.options, self.sample, self.workshop = store, options, sample, workshop
        hyper = options.hyperparameters.of_task(store.task)
        self.hyper, self.graph = hyper, sample.graph
        self.inputs = make_inputs(self.graph.features, workshop.device)
        views = [replica.view for replica in sample.taught]
        self.context = TeachingContext(self.graph, views, self.inputs, options.loss)
        self.boosts = can_boost(store.kind != "csr", store.d, store.n, store.C)
        self.linked = store.m > store.loops

    def arrays(self) -> list[ViewArrays]:
        """Average features and spread labels, for each view."""
        sample, workshop = self.sample, self.workshop
        hidden = {_name(each): each for each in map(sample.hidden, sample.replicas)}
        self.projection, self.moments = workshop.group.share(self._projection)
        if self.moments is not None:
            # The features of all nodes, not of the sample, which depends on links of hidden nodes.
            self.context.centre = self._centre(self.moments)
        blocks, K = len(workshop.widths(self.projection.width)), len(self.store.heads)
        each = self.linked * (STEPS_OF_VIEW + 2 * self.boosts + K * (K > 1))
        workshop.begin("averaging features", blocks + len(hidden) * (1 + blocks * each))
        self.base = write_columns(workshop, self.projection)
        self.seen = {
            name: Seen(rows, degrees(workshop, f"degree.{name}", rows))
            for name, rows in hidden.items()
        }
        self.heads: list[list[Blocks]] = []
        if K > 1 and self.linked:
            self._weigh_relations()
        return self._spread(self._averages()) if self.linked else []

    def _weigh_relations(self) -> None:
        """Average over the neighbours of each head, and choose how much its links count."""
        names = [_name(self.sample.hidden(replica)) for replica in self.sample.taught]
        means = {
            name: average_heads(self.workshop, self.base, seen, f"view.{name}")
            for name, seen in self.seen.items()
        }
        self.heads = [means[name] for name in names]
        degree = [self.seen[name].degree for name in names]
        found = choose_strengths(
            self.context, self.sample, self.base, self.heads, degree, self._standard
        )
        for name, strengths in zip(names, found.tolist(), strict=True):
            self.seen[name] = replace(self.seen[name], strengths=strengths)

    def _averages(self) -> dict[str, tuple[dict[int, Blocks], list[Blocks]]]:
        """Averages over hops and, for gradient boosting, means over neighbours."""
        found = {}
        for name, seen in self.seen.items():
            view = (self.workshop, self.base, seen, f"view.{name}")
            found[name] = (average_hops(*view), average_neighbours(*view) if self.boosts else [])
        return found

    def _spread(
        self, averages: Mapping[str, tuple[dict[int, Blocks], list[Blocks]]]
    ) -> list[ViewArrays]:
        workshop, found = self.workshop, []
        width = self.store.C + (self.store.task != "classification")
        taught = self.sample.taught
        workshop.begin("spreading labels", len(taught) * len(workshop.widths(width)) * (STEPS + 1))
        for replica in taught:
            hidden, withheld = self.sample.hidden(replica), self.sample.withheld(replica)
            key, name = _name(hidden), f"spread.{_name(hidden)}.{_name(withheld)}"
            known = _Known(Labels(self.store, withheld, self.sample.units), self.context)
            flow = spread(workshop, known.scaled, width, self.seen[key], name)
            hops, means = averages[key]
            found.append(ViewArrays(hops, flow, known.prior, known.scale, means))
        return found

    def _projection(self) -> tuple[Projection, Moments | None]:
        length, away = None, self.sample.rows(self._away)
        moments = None if self.store.kind == "csr" else moments_of(self.store, away)
        if self.store.kind == "csr" and self.store.task == "regression":
            length = float(1 / self.context.scale[0, 0])
        return find_projection(self.store, away, length, moments), moments

    @property
    def _away(self) -> IntArray:
        """The nodes of the sample that any view hides."""
        seen = [replica.view.nodes for replica in self.sample.replicas]
        return np.setdiff1d(self.sample.labelled, reduce(np.intersect1d, seen))

    def ensemble(self, arrays: Sequence[ViewArrays]) -> TeacherEnsemble:
        """Fit the teachers, calibrate and weight them."""
        self.workshop.callback.stage("fitting the teachers")
        groups = self._teachers(arrays)
        return TeacherEnsemble(self.graph, self.sample.replicas, self.context, groups)

    def _teachers(self, arrays: Sequence[ViewArrays]) -> list[list[Teacher]]:
        context, labelled = self.context, self.sample.labelled
        numbers = self.sample.numbers(labelled)
        common = (context, arrays, numbers, labelled)
        groups: list[list[Teacher]] = [list(feature_teachers(context))]
        if self.linked:
            for hop in HOPS[1:]:
                teachers = averaged_teachers(context, hop, *common[1:], self._standard)
                groups.append(list(teachers))
            groups.append([Spreading(*common)])
        if self.heads:
            around = (context, self.sample, self.base, self.heads, self._standard)
            groups += [list(found)] if (found := relational_teachers(*around)) else []
        if self.boosts:
            hops = (0, 2) if self.linked else (0,)
            groups += [[Boosting(context, hop, *common[1:])] for hop in hops]
        return groups

    def _centre(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Mean and scale (T, 1, d) of the dense columns of all nodes that each view sees."""
        found = []
        for replica in self.sample.taught:
            more = np.intersect1d(self._away, replica.view.nodes)
            seen = Moments.of(np.asarray(self.graph.features)[more])
            found.append(moments.plus(seen).standard())
        means, spreads = (torch.from_numpy(np.stack(part)) for part in zip(*found, strict=True))
        device = self.workshop.device
        return means.unsqueeze(1).to(device), spreads.unsqueeze(1).to(device)

    @property
    def _standard(self) -> tuple[Tensor, Tensor]:
        """What averaged columns are centred and divided by in each view."""
        if self.moments is not None and self.projection.directions is None:
            return self.context.centre
        shape, device = (len(self.sample.taught), 1, self.projection.width), self.workshop.device
        return torch.zeros(shape, device=device), torch.ones(shape, device=device)

    def rows(self, ensemble: TeacherEnsemble, room: int) -> TargetRows:
        """Write the targets, and the means of the neighbours' targets."""
        sample, workshop, store = self.sample, self.workshop, self.store
        kept = next(
            view
            for view, replica in zip(sample.views, sample.replicas, strict=True)
            if replica.kind == "kept"
        )
        known = [replica.kind == "known row" for replica in sample.replicas]
        links = [kept if seen else view for seen, view in zip(known, sample.views, strict=True)]
        mixture = Mixture(ensemble, links)
        workshop.begin("writing targets", len(known) * (1 + len(workshop.adjacency.heads)))
        hidden = [sample.hidden(replica) for replica in sample.replicas]
        mixture.estimate_priors(store, hidden)
        targets = write_targets(workshop, mixture, sample, sample.units, self.smooth and self.short)
        beside = write_beside(workshop, targets, [self.seen[_name(each)] for each in hidden])
        return TargetRows(store, targets, beside, hidden, workshop.device, room)

    @property
    def smooth(self) -> bool:
        """Whether students learn predictions instead of labels, if most nodes are labelled."""
        return self.store.task == "classification" and self.options.metric is not None

    @property
    def short(self) -> bool:
        """Whether most nodes are labelled, so that a student can learn them by heart."""
        return sum(self.store.manifest.labelled) > MOSTLY * self.store.n

    def cycles(self, batch: int) -> Sequence[int]:
        """How often each cycle visits a node, with a number of nodes in a step."""
        if self.options.epochs:
            return (self.options.epochs,)
        folds = any(replica.kind != "kept" for replica in self.sample.replicas)
        short = self.smooth and self.short
        long = self.store.task == "regression" or self.options.metric in RANKINGS
        return cycles_for(self.store.n, folds or short, batch, long and not short)

    def student(self, ensemble: TeacherEnsemble, rows: TargetRows, resources: Resources) -> Fit:
        """Train the students, calibrate the model and estimate its accuracy."""
        options, callback, units = self.options, resources.callback, self.sample.units
        callback.stage("training")
        once = not ensemble.scored or any(r.kind != "kept" for r in self.sample.replicas)
        cycles = self.cycles(resources.batch)[: 1 if once else None]
        measure = measure_for(self.store.task, options.metric)
        chosen = None if options.metric is None else measure
        student = StoreStudent(
            ensemble, self.inputs, cycles, (), self.hyper, rows, resources.batch,
            resources.group, chosen, resources.saved,
        )  # fmt: skip
        student.train(resources.run)
        factors = options.class_factors(self.graph)
        panel, decision = with_decision(units.restored(student.panel()), measure, factors)
        warnings = label_limits(
            self.store.classes, self.store.task, np.array(self.store.manifest.labelled)
        )
        estimates = estimates_of(
            units, self.sample.splits, panel, measure, False, lambda *_: None, None,
            factors is None, warnings,
        )  # fmt: skip
        return Fit(
            panel.model, panel.history, panel.visits, 0.0, self.inputs.precision, estimates,
            panel.predictions, self.inputs, self.context.neighbours, decision,
        )  # fmt: skip


class _Known:
    """The known labels of a view as columns, scaled so that float16 represents what spreads."""

    def __init__(self, labels: Labels, context: TeachingContext) -> None:
        self.labels, self.context = labels, context
        sums = sum((self._columns(part).sum(0) for part in range(labels.store.P)), torch.zeros(1))
        many = context.graph.task != "classification"
        count = float(sums[-1] if many else sums.sum())
        self.prior = (sums / max(count, 1)).unsqueeze(0)
        self.scale = float(np.clip(labels.store.n / max(count, 1), 1, SCALES))

    def scaled(self, part: int) -> Tensor:
        """The columns of a part, times `scale`."""
        return self.scale * self._columns(part)

    def _columns(self, part: int) -> Tensor:
        y = self.labels.read(part)
        known, C = known_labels(y), self.context.graph.C
        many = self.context.graph.task != "classification"
        found = torch.zeros(len(y), C + many)
        rows = torch.from_numpy(np.flatnonzero(known))
        found[rows, :C] = torch.from_numpy(self.context.targets(y[known]))
        if many:
            found[rows, -1] = 1
        return found


def _name(rows: Hidden) -> str:
    """A short name of some rows, the same for the same rows."""
    digest = hashlib.sha256()
    for part in sorted(rows):
        digest.update(np.int64(part).tobytes())
        digest.update(np.ascontiguousarray(rows[part], dtype=np.int64).tobytes())
    return digest.hexdigest()[:12]
