"""A recorder of steps for machines without a GPU.

A CUDA graph repeats its operations on the tensors that it saw, and knows nothing of Python: neither
new tensors nor new numbers. The fake has the same restriction, because it keeps copies of the loop
and the order as they were when the step was recorded; only tensors are shared.
"""

from __future__ import annotations

import copy

from linkdist.training import loop as loop_module
from linkdist.training.loop import Loop


class FakeGraph:
    """The step of a loop, with all Python values of the time of the recording."""

    def __init__(self, loop):
        self.loop = copy.copy(loop)
        self.loop.order = copy.copy(loop.order)

    def replay(self):
        self.loop._step()


def fake_recording(monkeypatch):
    """Let loops on the CPU record their steps; returns a list that gets each recording."""
    recordings = []

    def record(loop):
        recordings.append(FakeGraph(loop))
        return recordings[-1]

    monkeypatch.setattr(loop_module, "uses_triton", lambda device: True)
    monkeypatch.setattr(Loop, "_record", record)
    return recordings
