"""Workers that share the parts: what they write and learn together is what one of them does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.student import StoreStudent
from tests.distributed.panel.graphs import in_parts, random_graph, random_parts


class Worker(SingleProcess):
    """One of several workers that do not wait for each other."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [2, 3, 7])
def test_each_part_is_written_by_one_worker(tmp_path, monkeypatch, size):
    graph = random_graph()
    placed = in_parts(graph, random_parts(graph.n, 5), tmp_path / "store")
    original, writes = Columns.write, []

    def counted(columns, part, values):
        writes.append(part)
        original(columns, part, values)

    monkeypatch.setattr(Columns, "write", counted)
    for rank in range(size):
        workshop = placed.workshop(tmp_path / "arrays", group=Worker(rank, size))
        x = workshop.columns("x", 2)
        workshop.fill(x, lambda part: torch.full((placed.store.manifest.sizes[part], 2), part))
    assert sorted(writes) == [0, 1, 2, 3, 4]
    assert all((x.read(part) == part).all() for part in range(5))


def turns_of(size, rank, units, start, end):
    """The turns of a worker, without a network."""
    student = object.__new__(StoreStudent)
    student.group, student.seeds = Worker(rank, size), [3]
    student.parts = type("Parts", (), {"units": list(range(units))})
    return list(student._turns(start, end))


@given(size=st.integers(1, 4), units=st.integers(1, 9), visits=st.integers(1, 3))
def test_workers_together_visit_each_slice(size, units, visits):
    every = [turns_of(size, rank, units, 0, visits * units) for rank in range(size)]
    assert len({tuple(done for _, done in turns) for turns in every}) == 1
    for visit in range(visits):
        seen = [
            own
            for turns in every
            for own, done in turns
            if visit * units < done <= (visit + 1) * units
        ]
        assert set(seen) == set(range(units))
        assert len(seen) == -(-units // size) * size
    assert every[0][-1][1] == visits * units


@given(units=st.integers(1, 6), before=st.integers(1, 3), start=st.integers(0, 11))
def test_a_training_continues_with_another_number_of_workers(units, before, start):
    """The slices that remain in a visit are those that were not done before."""
    order = [own for own, _ in turns_of(1, 0, units, 0, 3 * units)]
    start = min(start, 3 * units)
    resumed = [turns_of(before, rank, units, start, 3 * units) for rank in range(before)]
    rest = [done for _, done in resumed[0]]
    assert rest == sorted(set(rest))
    seen = {own for turns in resumed for own, done in turns if done <= -(-start // units) * units}
    assert seen == set(order[start : -(-start // units) * units])


def test_visits_have_orders_of_their_own():
    one, two = (
        [own for own, _ in turns_of(1, 0, 9, visit * 9, visit * 9 + 9)] for visit in range(2)
    )
    assert sorted(one) == sorted(two) == list(range(9))
    assert one != two
    assert not np.array_equal(one, range(9))
