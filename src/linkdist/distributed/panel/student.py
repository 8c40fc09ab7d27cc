"""Students that learn the targets of a store, part by part.

A visit of all nodes takes the slices of the parts (`rows`) in random order, and the rows of a slice
in random order. The random streams of a slice depend on the seed of a replica and the number of
slices before it alone, so an interrupted training continues from its last checkpoint to the same
weights. Everything else is as
in memory (`training.panel.learning.Student`): two cycles of a learning rate that decays to 0, and
validation nodes of the sample that choose the better one.

Workers train a slice each at the same time. An interrupted training can continue with another
number of workers, which may need another number of steps for the same slices: the learning rate
then continues from the same share of its decay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from linkdist.data.splits import Split
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.rows import Buffers, TargetRows
from linkdist.nn.inputs import Inputs
from linkdist.nn.network import ForkedMLP, Noise, feature_mask, mask_words
from linkdist.nn.optim import Adam, RandomStreams, make_adam
from linkdist.nn.tasks import Task
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.link_task import MASKED
from linkdist.training.loop import Hyperparameters, Loop, Loss, training_context
from linkdist.training.measures import Measure
from linkdist.training.panel.ensemble import TeacherEnsemble
from linkdist.training.panel.learning import Student

SAVED = 60.0
"""Seconds after which a checkpoint is saved at the end of a turn."""


class StoreStudent(Student):
    """The students of a store.

    Parameters
    ----------
    ensemble, inputs, cycles, hyper, measure
        As in `Student`; the graph is the sample.
    rows : TargetRows
        What the students learn from.
    batch : int
        Number of nodes of a step, of all workers together.
    group : SingleProcess
        The processes that train; the first one evaluates and saves checkpoints.
    saved : float, optional
        Seconds between checkpoints.
    """

    def __init__(
        self,
        ensemble: TeacherEnsemble,
        inputs: Inputs,
        cycles: Sequence[int],
        splits: Sequence[Split],
        hyper: Hyperparameters,
        rows: TargetRows,
        batch: int,
        group: SingleProcess,
        measure: Measure | None = None,
        saved: float = SAVED,
    ) -> None:
        super().__init__(ensemble, inputs, cycles, splits, hyper, measure)
        self.parts, self.batch, self.group, self.saved = rows, batch, group, saved
        self.shared = group.wrap(self.network)

    def train(self, run: TrainingRun) -> None:
        """Train the cycles, until one of them improves no replica."""
        units = len(self.parts.units)
        start, total = 0, sum(self.cycles) * units
        for cycle in self.cycles:
            end = start + cycle * units
            if run.done <= end:
                self._cycle(run, cycle, start, end, total)
                self.visits = end // units
                # The workers must agree, and the statistics of BatchNorm differ between them.
                if not self.group.share(self.evaluate):
                    break
            start = end
        self.best.restore()
        self._share_result()
        if self.visits * units < total:
            run.after(total, total, None)

    def _cycle(self, run: TrainingRun, cycle: int, start: int, end: int, total: int) -> None:
        """Train the slices of one cycle that are not done yet."""
        rate, decays = self.hyper.rate("selflinkdist"), self.hyper.decays("selflinkdist")
        steps = cycle * self.steps
        adam, planned = make_adam(self.shared, rate, steps if decays else None), steps.clone()
        state = {**self.state(), **{f"adam.{name}": t for name, t in adam.state().items()}}
        state["steps"] = planned
        if run.done > start:
            run.resume(state, self.history)
            adam.count.copy_((adam.count * (steps / planned).view(-1, 1)).round())
            planned.copy_(steps)
        kept_at = time.monotonic()
        with training_context(self.inputs.device):
            for done in self._train(adam, max(start, run.done), end):
                keep = done == end or time.monotonic() - kept_at >= self.saved
                if self.group.rank == 0:
                    run.after(done, total, {**state, **self.history.state()} if keep else None)
                kept_at = time.monotonic() if keep else kept_at

    def _share_result(self) -> None:
        """Give all workers the weights and the history of the first, which evaluates."""
        network, history = self.network.state_dict(), self.history.state
        found = self.group.share(
            lambda: {name: t.cpu() for name, t in {**network, **history()}.items()}
        )
        if self.group.rank:
            self.network.load_state_dict({name: found[name] for name in network})
            self.history.load(found)

    @property
    def steps(self) -> Tensor:
        """Number of steps (R,) of a visit, which the learning rate depends on."""
        size = self.group.size
        batch = max(1, self.batch // size)
        own = np.array(
            [[-(-n // min(batch, max(each))) for n in each] for each in self.parts.nodes]
        )
        turns = [own[turn : turn + size].max(axis=0) for turn in range(0, len(own), size)]
        return torch.from_numpy(np.sum(turns, axis=0)).to(self.inputs.device)

    def _train(self, adam: Adam, start: int, end: int) -> Iterator[int]:
        """Train slices, one of each worker at a time; yields the number that are done."""
        buffers, loop = Buffers(self.parts), None
        turns = list(self._turns(start, end))
        slices = self.parts.read([own for own, _ in turns])
        for (_, done), data in zip(turns, slices, strict=True):
            buffers.fill(data)
            lengths = [len(nodes) for nodes in data.nodes]
            del data
            if loop is None:
                loop = self._loop(loss_on_rows(self.shared, buffers, self.task), lengths, adam)
            else:
                loop.refill(lengths)
            for _ in loop.epoch(done * self.group.size + self.group.rank):
                pass
            if not buffers.fixed:  # before the slice after the next is read
                loop = None
                buffers.clear()
            yield done

    def _turns(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The slice of this worker in each turn, and the number that are done after it.

        A visit takes the slices in random order. The point at which a training was interrupted, and
        the number of workers before it, do not matter.
        """
        size, rank, units = self.group.size, self.group.rank, len(self.parts.units)
        done = start
        while done < end:
            visit, place = divmod(done, units)
            order = np.random.default_rng([self.seeds[0], visit]).permutation(units)
            own = int(order[min(place + rank, units - 1)])
            done = min(done + size, (visit + 1) * units)
            yield own, done

    def _loop(self, loss: Loss, lengths: Sequence[int], adam: Adam) -> Loop:
        batch = max(1, self.batch // self.group.size)
        return Loop(
            self.shared, loss, lengths, self.seeds, batch, adam=adam,
            steps=self.group.max_steps, capacity=self.parts.most, alone=self.group.size == 1,
        )  # fmt: skip


def loss_on_rows(network: ForkedMLP, buffers: Buffers, task: Task) -> Loss:
    """The loss of a batch of rows, for `Loop`: CE(z, t) + the mean over heads of CE(s_k, t̄_k)."""
    inputs = buffers.inputs
    assert inputs is not None
    d = buffers.rows.store.d
    masked = 0.0 if task.name == "regression" else MASKED
    words, K = mask_words(d, masked), len(buffers.beside)
    targets, beside, nodes = buffers.targets, buffers.beside, buffers.nodes
    replica = torch.arange(len(targets), device=targets.device).view(-1, 1)

    def loss(index: Tensor, streams: RandomStreams, momentum: Tensor) -> Tensor:
        R, B = index.shape
        shape, dropout = (R, 1, B), network.dropout
        bits, numbers = streams.draw(shape, network.hidden, network.blocks, words, dropout)
        i = nodes.gather(1, index)  # (R, B)
        mask = feature_mask(numbers, d, masked) if words else None
        z, s = network(inputs, i.unsqueeze(1), Noise(bits, momentum, mask))
        own = task.loss(z.squeeze(1), targets[replica, i].float())
        around = torch.zeros_like(own)
        for head, t in zip(s, beside, strict=True):
            mean = t[replica, i].float()
            if K == 1:
                return own + task.loss(head.squeeze(1), mean)
            linked = ~mean[..., 0].isnan()
            around = around + task.loss(head.squeeze(1), mean.nan_to_num(), linked.float())
        return own + around / K

    return loss
