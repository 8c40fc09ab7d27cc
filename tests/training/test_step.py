"""A step as training takes it, against the same step in plain PyTorch and float64.

Same weights, same masks, same batch. The oracle uses PyTorch's dense products, its autograd and its
Adam, and shares with the fast step nothing but the statement of a block
(`kernels.plain_block`) and of the loss (`nn.losses.link_loss`), which have oracles of their
own.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import Graph, observe
from linkdist.data.splits import semi_supervised
from linkdist.kernels import Affine, Running
from linkdist.kernels import plain_block as plain
from linkdist.nn.inputs import SparseInputs, make_inputs
from linkdist.nn.losses import Coefficients, link_loss
from linkdist.nn.network import MOMENTUM, ForkedMLP
from linkdist.nn.optim import RandomStreams
from linkdist.training.link_task import coefficients, loss_on_links, seen_by
from linkdist.training.loop import Loop

NODES, FEATURES, CLASSES, BATCH = 120, 37, 5, 70
CASES = [
    (kind, replicas, method)
    for kind in ("dense", "csr")
    for replicas in (1, 3)
    for method in ("linkdist", "colinkdist")
]


def graph_of(kind):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.15, (NODES, FEATURES)).astype(np.float32)
    features = sparse.csr_matrix(counts) if kind == "csr" else rng.normal(size=counts.shape)
    links = rng.integers(0, NODES, (300, 2))
    return Graph.build(features, links, np.arange(NODES) % CLASSES)


class Kept(RandomStreams):
    """RandomStreams that remember what they gave."""

    def draw(self, *wanted):
        self.given = super().draw(*wanted)
        return self.given


def plain_step(network, graph, views, index, draws, method, rounded):
    """Loss, gradients by name and moved running statistics, in float64."""
    parts = {k: v.detach().double().cpu().requires_grad_() for k, v in network.named_parameters()}
    stats = {k: v.detach().double().cpu() for k, v in network.named_buffers()}
    bits, numbers = ([p.cpu() for p in draws.given[0]], draws.given[1].cpu())
    by = Coefficients(*(part.double() for part in coefficients(views)))
    rows = torch.stack(
        [torch.from_numpy(view.edges)[at].T for view, at in zip(views, index, strict=True)]
    )
    if method == "colinkdist":
        k = [
            torch.from_numpy(v.nodes)[n.remainder(len(v.nodes))]
            for v, n in zip(views, numbers, strict=True)
        ]
        rows = torch.cat([rows, torch.stack(k)[:, None]], dim=1)
    dense = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
    first = parts["first.weight"]
    if rounded:
        first = first + (first.bfloat16().double() - first).detach()
    x = torch.from_numpy(dense).double()[rows] @ first[:, None]

    def block(name, x, bits):
        affine = Affine(*(parts[f"{name}.{part}"] for part in Affine._fields))
        pace = torch.full((len(views), 1, 1), MOMENTUM, dtype=torch.float64)
        running = Running(stats[f"{name}.running_mean"], stats[f"{name}.running_var"], pace)
        y = plain(x, affine, bits, running)
        out = y @ parts[f"{name}.linear.weight"][:, None].transpose(2, 3)
        bias = parts.get(f"{name}.linear.bias")
        return out if bias is None else out + bias[:, None]

    h = block("trunk", x, bits[0])
    z, s = block("own", h, bits[1]), block("neighbour", h, bits[2])
    labels = torch.from_numpy(np.stack([view.labels for view in views]))
    y = torch.stack([of[at] for of, at in zip(labels, rows, strict=True)])
    loss = link_loss(z, s, y, by)
    return (
        loss,
        dict(zip(parts, torch.autograd.grad(loss.sum(), parts.values()), strict=True)),
        stats,
    )


def compare(kind, replicas, method, device, tolerance=1e-5, rounded=False):
    graph = graph_of(kind)
    views = [
        observe(graph, semi_supervised(graph, seed, 4, 20, 40), "transductive")
        for seed in range(replicas)
    ]
    network = ForkedMLP(FEATURES, CLASSES, range(replicas), hidden=24).to(device)
    with torch.no_grad():
        for parameter in network.parameters():
            # Away from the ones and zeros that training starts from, so that every factor shows.
            parameter.add_(
                0.1 * torch.randn(parameter.shape, generator=torch.manual_seed(1)).to(device)
            )
    inputs = make_inputs(graph.features, device)
    assert kind == "dense" or device.type != "cpu" or isinstance(inputs, SparseInputs)
    by = coefficients(views, None, device)
    loss_of = loss_on_links(network, inputs, seen_by(views, inputs.device), by, method)
    draws = Kept(range(replicas), device)
    draws.begin_epoch(0)
    index = torch.randint(len(views[0].edges), (replicas, BATCH), generator=torch.manual_seed(2))
    before = {name: part.detach().clone() for name, part in network.named_buffers()}
    pace = torch.full((replicas, 1, 1), MOMENTUM, device=device)
    fast = loss_of(index.to(device), draws, pace)
    fast.sum().backward()
    after = {name: part.clone() for name, part in network.named_buffers()}
    for name, part in network.named_buffers():
        part.copy_(before[name])
    slow, grads, stats = plain_step(network, graph, views, index, draws, method, rounded)
    close(fast, slow, tolerance)
    for name, parameter in network.named_parameters():
        # The gradient of a rounded layer is a product of rounded factors.
        loose = rounded and name == "first.weight"
        close(parameter.grad, grads[name], 5e-3 if loose else tolerance)
    for name, part in after.items():
        close(part, stats[name], tolerance)


def close(fast, slow, tolerance):
    fast, slow = fast.detach().double().cpu(), slow.detach()
    assert float((fast - slow).norm() / slow.norm()) <= tolerance


@pytest.mark.parametrize(("kind", "replicas", "method"), CASES)
def test_the_fast_step_is_the_plain_one(kind, replicas, method):
    compare(kind, replicas, method, torch.device("cpu"))


@pytest.mark.parametrize(("kind", "replicas", "method"), CASES)
def test_without_numba_it_is_the_same(monkeypatch, kind, replicas, method):
    for module in ("kernels", "nn.inputs"):
        monkeypatch.setattr(f"linkdist.{module}.HAS_NUMBA", False)
    compare(kind, replicas, method, torch.device("cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "replicas", "method"), CASES)
def test_on_a_gpu_it_is_the_same(kind, replicas, method):
    # Counts go into the first layer as bfloat16, and so do its weights.
    compare(kind, replicas, method, torch.device("cuda"), rounded=kind == "csr")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_adam_is_pytorchs(device):
    """Ten steps of two replicas, one of which rests at every third."""
    torch.manual_seed(0)
    network = ForkedMLP(FEATURES, CLASSES, [0, 1], hidden=24).to(device)
    plain = [
        [p.detach()[r].double().requires_grad_() for p in network.parameters()] for r in (0, 1)
    ]
    oracles = [torch.optim.Adam(parameters, lr=0.01) for parameters in plain]
    adam = Loop(network, None, [1, 1], [0, 1]).adam
    for step in range(10):
        active = torch.tensor([1.0, float(step % 3 > 0)], device=device)
        for i, p in enumerate(network.parameters()):
            p.grad = torch.randn_like(p)
            for r in (0, 1):
                plain[r][i].grad = p.grad[r].double()
        adam.step(active)
        for r in (0, 1):
            if active[r]:
                oracles[r].step()
    for i, p in enumerate(network.parameters()):
        for r in (0, 1):
            close(p[r], plain[r][i].cpu(), 1e-5)


MEMORY = """
import itertools, resource
from linkdist import fit, load_dataset, named_split
from linkdist.training.loop import Loop

# An epoch is what a training repeats; of its steps fifty, which need what all need.
Loop.epoch = lambda self, epoch, whole=Loop.epoch: itertools.islice(whole(self, epoch), 50)
graph = load_dataset("coauthor-physics", download=False)
fit(graph, named_split(graph, "transductive", 0), epochs=2, device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.data
def test_training_on_coauthor_physics_stays_below_a_gigabyte():
    """Interpreter and PyTorch included; its features alone would be 1.2 GB if they were dense."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1000
