"""Oracle: an order that was made for the new numbers of items."""

from __future__ import annotations

import pytest
import torch

from linkdist.nn.optim import RandomStreams
from linkdist.nn.order import ShuffledOrder, StridedOrder

CPU = torch.device("cpu")


def batches(order, steps):
    streams = RandomStreams([3, 4], CPU)
    streams.begin_epoch(5)
    order.shuffle(streams)
    return torch.stack([order.batch(torch.tensor(step)) for step in range(steps)])


@pytest.mark.parametrize("kind", [ShuffledOrder, StridedOrder])
@pytest.mark.parametrize(("lengths", "steps"), [([7, 9], 3), ([2, 40], 10), ([1, 1], 1)])
def test_a_refilled_order_is_a_new_one_in_the_same_memory(kind, lengths, steps):
    order = kind([40, 40], 10, 4, CPU)
    tensors = [value for value in vars(order).values() if isinstance(value, torch.Tensor)]
    before = [tensor.data_ptr() for tensor in tensors]
    order.refill(lengths, steps)
    assert torch.equal(batches(order, steps), batches(kind(lengths, steps, 4, CPU), steps))
    after = [value for value in vars(order).values() if isinstance(value, torch.Tensor)]
    assert [tensor.data_ptr() for tensor in after] == before


def test_more_batches_than_memory_are_an_error():
    order = ShuffledOrder([8], 2, 4, CPU)
    with pytest.raises(ValueError, match="memory for 2 batches; found 3"):
        order.refill([12], 3)
