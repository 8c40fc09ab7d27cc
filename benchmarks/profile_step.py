"""Where a contrastive step's time goes on the CPU, by PyTorch's profiler.

Usage: python benchmarks/profile_step.py [SET ...]
"""

import sys

import torch
from measure import write
from torch.profiler import ProfilerActivity
from training import steps_of_project

from linkdist import load_dataset, named_split, observe
from linkdist.training.loop import manners

SETS = ("cora", "amazon-computers", "coauthor-physics")
STEPS, SHOWN = 40, 8
NAMES = {
    "aten::bmm": "products of the hidden and last layers (dense: the first, too)",
    "Normalise": "blocks, forward (compiled)",
    "NormaliseBackward": "blocks, backward (compiled)",
    "Product": "first layer, forward (compiled, sparse)",
    "ProductBackward": "first layer, backward (compiled, sparse)",
    "aten::_fused_adam_": "Adam",
    "_WithGradient": "loss and its gradient (compiled)",
    "aten::random_": "random bits",
    "aten::index_select": "rows of dense features",
}


def rows_of(name):
    """The largest parts of a step."""
    graph, cpu = load_dataset(name), torch.device("cpu")
    view = observe(graph, named_split(graph, "transductive", 0), "transductive")
    step = steps_of_project(graph, [view], cpu, "colinkdist")
    with manners(cpu):
        for _ in range(10):
            step()
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profile:
            for _ in range(STEPS):
                step()
    parts = sorted(profile.key_averages(), key=lambda part: -part.self_cpu_time_total)
    total = sum(part.self_cpu_time_total for part in parts)
    shown = [(NAMES.get(part.key, part.key), part.self_cpu_time_total) for part in parts[:SHOWN]]
    rest = total - sum(time for _, time in shown)
    for what, time in [*shown, ("all else", rest)]:
        yield {
            "set": name,
            "part": what,
            "ms a step": round(time / STEPS / 1000, 2),
            "share": f"{time / total:.0%}",
        }


if __name__ == "__main__":
    table = [row for name in sys.argv[1:] or SETS for row in rows_of(name)]
    write("profile", "python benchmarks/profile_step.py", table)
