"""Oracle: a new loop for each round, as training made them before loops could be refilled."""

from __future__ import annotations

import pytest
import torch

from linkdist.nn.optim import make_adam
from linkdist.training.loop import Loop
from tests.recording import fake_recording

SEEDS = [7, 8]
ROUNDS = [[40, 33], [64, 64], [17, 20], [64, 9], [31, 31]]
CAPACITY = 64


class Layer(torch.nn.Module):
    """A linear layer for two replicas."""

    def __init__(self):
        super().__init__()
        start = torch.randn(2, 3, 1, generator=torch.manual_seed(0))
        self.weight = torch.nn.Parameter(start)


def rows_of(number):
    """Features and targets of the items of a round, for both replicas."""
    generator = torch.Generator().manual_seed(number)
    return torch.randn(2, CAPACITY, 4, generator=generator)


def loss_on(layer, rows):
    """The squared error on random halves of a batch of rows (R, n, 4)."""
    replica = torch.arange(2).unsqueeze(1)

    def loss(index, streams, momentum):
        _, numbers = streams.draw((*index.shape[:1], 1, index.shape[1]), 8, 1, index.shape[1])
        chosen = rows[replica, index]  # (R, B, 4)
        error = (chosen[..., :3] @ layer.weight).squeeze(-1) - chosen[..., 3]
        return (error.square() * (numbers % 2)).mean(1)

    return loss


def by_new_loops(batch):
    layer = Layer()
    adam = make_adam(layer)
    for number, lengths in enumerate(ROUNDS):
        rows = rows_of(number)[:, : max(lengths)].clone()
        loop = Loop(layer, loss_on(layer, rows), lengths, SEEDS, batch, adam=adam)
        for _ in loop.epoch(number):
            pass
    return layer.weight.detach()


def by_one_loop(batch, seen=None):
    """The weights of one loop over a buffer with room for the largest round."""
    layer, buffer = Layer(), torch.full((2, CAPACITY, 4), torch.nan)
    loop = Loop(layer, loss_on(layer, buffer), ROUNDS[0], SEEDS, batch, capacity=CAPACITY)
    for number, lengths in enumerate(ROUNDS):
        buffer.fill_(torch.nan)
        buffer[:, : max(lengths)] = rows_of(number)[:, : max(lengths)]
        loop.refill(lengths)
        for _ in loop.epoch(number):
            pass
        if seen is not None:
            seen.append(pointers(loop))
    return layer.weight.detach()


def pointers(loop):
    owners = (loop, loop.order, loop.streams)
    return {
        name: value.data_ptr()
        for owner in owners
        for name, value in vars(owner).items()
        if isinstance(value, torch.Tensor)
    }


@pytest.mark.parametrize("batch", [5, 16, 1000])
def test_one_loop_trains_as_a_new_loop_for_each_round(batch):
    assert torch.equal(by_one_loop(batch), by_new_loops(batch))


@pytest.mark.parametrize("batch", [5, 8])
def test_a_step_that_was_recorded_once_trains_as_new_loops(batch, monkeypatch):
    expected = by_new_loops(batch)
    recordings, seen = fake_recording(monkeypatch), []
    assert torch.equal(by_one_loop(batch, seen), expected)
    assert len(recordings) == 1
    assert len(seen[0]) >= 6
    assert all(each == seen[0] for each in seen)


def test_recorded_batches_have_one_shape_and_repeat_few_items(monkeypatch):
    fake_recording(monkeypatch)
    layer, indices = Layer(), []

    def loss(index, streams, momentum):
        indices.append(index.clone())
        return layer.weight.sum((1, 2))

    loop = Loop(layer, loss, [3, 3], SEEDS, batch=50, capacity=CAPACITY)
    for number, lengths in enumerate(ROUNDS):
        loop.refill(lengths)
        assert [*loop.epoch(number)] == [*range(loop.steps)]
        assert loop.steps == -(-max(lengths) // 50)
        found = torch.cat(indices[-loop.steps :], dim=1)
        for r, length in enumerate(lengths):
            assert sorted(found[r, :length].tolist()) == list(range(length))
            repeated = found[r, torch.arange(found.shape[1]) % length]
            assert torch.equal(found[r], repeated)
    assert {tuple(index.shape) for index in indices} == {(2, 50)}


def test_a_new_loss_is_recorded_and_the_old_one_is_released(monkeypatch):
    expected = by_new_loops(5)
    recordings, layer = fake_recording(monkeypatch), Layer()
    loop, long = None, 0
    for number, lengths in enumerate(ROUNDS):
        rows = rows_of(number)[:, : max(lengths)].clone()
        loss = loss_on(layer, rows)
        if loop is None:
            loop = Loop(layer, loss, lengths, SEEDS, 5, capacity=CAPACITY)
        else:
            loop.refill(lengths, loss)
        for _ in loop.epoch(number):
            pass
        loop.release()
        long += loop.steps > Loop.WARM_UP
    assert torch.equal(layer.weight.detach(), expected)
    assert len(recordings) == long
    loop.refill([9, 9])
    with pytest.raises(RuntimeError, match="call `refill` with a loss"):
        next(loop.epoch(0))


def test_a_released_loop_keeps_no_memory_of_its_items():
    loop = Loop(Layer(), None, [1000, 1000], SEEDS, capacity=1000)
    assert loop.order.whole.numel() == 2000
    loop.release()
    assert loop.order.whole.numel() == 0


def test_what_does_not_fit_is_an_error():
    loop = Loop(Layer(), None, [5, 5], SEEDS, capacity=8)
    with pytest.raises(ValueError, match=r"found \[9, 2\] items for a capacity of \[8, 8\]"):
        loop.refill([9, 2])
    weighted = Loop(Layer(), None, [2, 2], SEEDS, weights=[torch.ones(2).numpy()] * 2)
    with pytest.raises(ValueError, match="items with weights"):
        weighted.refill([2, 2])
