"""Steps of a training: on a GPU, one step is recorded as a CUDA graph and replayed.

A step of a small network is some forty short kernels; starting them one by one takes most of the
time.
"""

import gc
import sys
from functools import cache

import torch

WARM_UP = 3


def repeated_step(step, device):
    """A function that makes one step."""
    return _Recorded(step) if device.type == "cuda" else step


@cache
def _freeze():
    """Exempt what exists from garbage collection, which every recording starts."""
    gc.collect()
    gc.freeze()


class _Recorded:
    """The first steps run as they are, on a stream of their own; then one is recorded."""

    def __init__(self, step):
        self.step, self.plain, self.graph = step, WARM_UP, None
        self.stream = torch.cuda.Stream()

    def __call__(self):
        if self.graph is not None:
            self.graph.replay()
        elif self.plain > 0:
            self.plain -= 1
            self._run()
        else:
            self._record()

    def _run(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.step()
        torch.cuda.current_stream().wait_stream(self.stream)

    def _record(self):
        """Record a step, which does not run it, and replay it once."""
        _freeze()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.step()
        except RuntimeError as error:
            print(f"steps are not recorded: {error}", file=sys.stderr, flush=True)
            self.plain = sys.maxsize
            return self._run()
        self.graph = graph
        graph.replay()
