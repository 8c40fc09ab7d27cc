"""Oracles: float64 statistics, a step and a training in float32, and a CPU's; on a GPU."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from linkdist.data.splits import View
from linkdist.distributed import loader
from linkdist.distributed.pipeline import train_store
from linkdist.distributed.survey import survey
from linkdist.distributed.trainer import Schedule, batch_for, fits_whole, train_rounds
from linkdist.kernels import HAS_TRITON
from linkdist.nn.inputs import DenseInputs, make_inputs
from linkdist.nn.network import ForkedMLP
from linkdist.pipeline import Options, Tables
from linkdist.store.build import build
from linkdist.store.plan import training_memory
from linkdist.store.synthetic import Planted, synth
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.link_task import coefficients, loss_on_links, seen_by
from linkdist.training.loop import Loop, training_context

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not (torch.cuda.is_available() and HAS_TRITON), reason="needs a GPU"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("rows", [4097, 150_001])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_statistics_of_many_rows(rows, kind):
    from linkdist.kernels import triton_ops

    x = (torch.randn(1, 2, rows, 40, device=CUDA) * 2 + 30).to(kind)
    mean, var = triton_ops.statistics(x)
    exact = x.double()
    assert torch.allclose(mean.double(), exact.mean(2, keepdim=True), atol=1e-4)
    assert torch.allclose(var.double(), exact.var(2, keepdim=True, correction=0), rtol=1e-3)


def gradients(out, rows=8192):
    """Loss and gradients of one step on planted classes, activations in a type."""
    random = np.random.default_rng(0)
    y = random.integers(7, size=3000)
    x = random.normal(size=(3000, 40)) + random.normal(size=(7, 40))[y]
    edges = random.integers(3000, size=(50_000, 2))
    view = View(x.astype(np.float16), np.arange(3000), edges, np.where(y > 3, y, -1), 7)
    matrix = torch.from_numpy(view.features).to(CUDA)
    network = ForkedMLP(40, 7, [0]).to(CUDA)
    by = coefficients([view], device=CUDA)
    loss = loss_on_links(
        network, DenseInputs(matrix, out=out), seen_by([view], CUDA), by, "colinkdist"
    )
    loop = Loop(network, loss, [len(edges)], [0], rows)
    with training_context(CUDA):
        loop.streams.begin_epoch(0)
        loop.order.shuffle(loop.streams)
        total = loss(
            loop.order.batch(loop.done), loop.streams, torch.full((1, 1, 1), 0.1, device=CUDA)
        )
        total.sum().backward()
    return total.item(), [p.grad.flatten() for p in network.parameters()]


@pytest.mark.parametrize("rows", [1024, 8192])
def test_a_step_in_bfloat16_points_where_one_in_float32_does(rows):
    exact, half = gradients(torch.float32, rows), gradients(torch.bfloat16, rows)
    assert half[0] == pytest.approx(exact[0], rel=1e-3)
    for ours, theirs in zip(half[1], exact[1], strict=True):
        assert torch.cosine_similarity(ours, theirs, dim=0) > 0.99


def test_training_in_bfloat16_and_large_batches_learns_as_much(tmp_path, monkeypatch):
    planted = Planted(200_000, 2_000_000, features=64, classes=10, labelled=0.02)
    store = synth(tmp_path / "store", planted, parts=3)
    found = survey(store, 0.1, 0)
    x = np.concatenate([store.features(p) for p in range(3)]).astype(np.float32)
    truth = np.concatenate([store.truth(p) for p in range(3)])
    assert batch_for(store, CUDA) == 1024
    scores = {}
    for name, triton, batch in (
        ("plain", False, 1024),
        ("half", True, 1024),
        ("large", True, 8192),
    ):
        monkeypatch.setattr(loader, "HAS_TRITON", triton)
        for whole in (True, False):
            schedule = Schedule.of(store, 2, whole)
            stage = train_rounds(
                store, found, schedule, [0], TrainingRun(None, None), device=CUDA, batch=batch
            )
            with torch.no_grad():
                z, _ = stage.network(make_inputs(x, CUDA))
            scores[name, whole] = (z.flatten(0, 2).argmax(-1).cpu().numpy() == truth).mean()
    print(scores)
    assert all(score > scores["plain", True] - 0.02 for score in scores.values())


def store_of_words(folder):
    """Nodes of four classes whose words differ; links mostly within a class."""
    random = np.random.default_rng(0)
    y = np.arange(20_000) % 4
    word = random.integers(300, size=(20_000, 12)) + 30 * y[:, None]
    a, step = random.integers(20_000, size=(2, 100_000))
    step[:80_000] *= 4  # to a node of the same class
    nodes = {
        "id": np.arange(20_000),
        "words": [" ".join(f"w{w}" for w in row) for row in word],
        "class": [f"c{c}" if i % 8 < 4 else None for i, c in enumerate(y)],
    }
    parquet.write_table(pa.table(nodes), folder / "nodes.parquet")
    parquet.write_table(pa.table({"a": a, "b": (a + step) % 20_000}), folder / "links.parquet")
    paths = folder / "nodes.parquet", folder / "links.parquet"
    tables = Tables(*paths, "id", "class", kinds={"words": "text"})
    return build(tables, folder / "store", parts=4)


def store_of_numbers(folder):
    """Planted classes."""
    return synth(folder / "store", Planted(20_000, 200_000, classes=10, labelled=0.5), parts=4)


@pytest.mark.parametrize("make", [store_of_numbers, store_of_words])
def test_a_model_of_a_store_is_as_good_as_that_of_the_cpu(make, tmp_path):
    store = make(tmp_path)
    little = training_memory(store.part_bytes, store.manifest.counts)
    assert not fits_whole(store, little, CUDA)
    scores = {}
    for name, device, memory in (
        ("whole", "cuda", None),
        ("rounds", "cuda", little),
        ("cpu", "cpu", little),
    ):
        options = Options(method="colinkdist", replicas=2, epochs=2, device=device)
        saved = train_store(store.directory, tmp_path / name, options, memory)
        scores[name] = saved.about["scores"]["accuracy from features"]
    print(scores)
    assert scores["cpu"] > 0.5
    assert all(score > scores["cpu"] - 0.02 for score in scores.values())
