"""What a view hides has no influence on it: hidden nodes are scrambled, and the bits compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist import Graph
from linkdist.distributed.group import SingleProcess
from linkdist.distributed.panel import fitting
from linkdist.distributed.panel import projection as projections
from linkdist.distributed.panel.columns import Columns
from linkdist.distributed.panel.fitting import Resources, fit_store
from linkdist.distributed.panel.student import StoreStudent
from linkdist.progress import Callback
from linkdist.training.checkpoint import TrainingRun
from linkdist.training.options import Options
from linkdist.training.panel import replicas
from linkdist.training.panel.ensemble import TeacherEnsemble, TeacherWeight
from tests.distributed.panel.graphs import CPU, in_parts, random_parts

N, C, P = 90, 3, 3
DENSITY = {"float32": 1.0, "csr": 0.1}


def planted(kind):
    """A graph whose classes differ, with labels of 35 nodes."""
    random = np.random.default_rng(0)
    labels = random.integers(0, C, N)
    x = random.normal(size=(N, 70)) + np.eye(C, 70)[labels] * 2
    pairs = random.integers(0, N, (300, 2))
    known = np.where(np.isin(np.arange(N), random.permutation(N)[:35]), labels, -1)
    return _graph(x * (random.random(x.shape) < DENSITY[kind]), pairs, known, kind)


def _graph(x, pairs, labels, kind):
    x = sparse.csr_matrix(x) if kind == "csr" else x
    return Graph.build(x, pairs, labels, [str(c) for c in range(C)])


def scrambled(graph, hidden, kind, labels):
    """The graph with other features, links and, if asked for, labels of some nodes."""
    random = np.random.default_rng(1)
    x = graph.features.toarray() if kind == "csr" else graph.features.copy()
    shape = (len(hidden), x.shape[1])
    x[hidden] = 1000 * random.normal(size=shape) * (random.random(shape) < DENSITY[kind])
    kept = graph.links[~np.isin(graph.links, hidden).any(axis=1)]
    new = np.stack([random.choice(hidden, 60), random.integers(0, N, 60)], axis=1)
    y = graph.labels.copy()
    if labels:
        y[hidden] = (y[hidden] + random.integers(1, C, len(hidden))) % C
    return _graph(x, np.concatenate([kept, new]), y, kind)


@pytest.fixture
def captured(monkeypatch):
    """The students that are trained; mixtures have equal weights, folds do not depend on labels.

    Weights and shares of classes come from predictions of validation nodes, hidden ones or those of
    other folds, whose teachers know the labels of this one.
    """
    found = []

    class Captured(StoreStudent):
        def train(self, run):
            super().train(run)
            found.append(self)

    def even(self, _):
        groups = self.groups
        return [TeacherWeight(1 % len(g), np.array([1.0, 0.0]), 1 / len(groups)) for g in groups]

    monkeypatch.setattr(fitting, "StoreStudent", Captured)
    monkeypatch.setattr(TeacherEnsemble, "_weights", even)
    monkeypatch.setattr(TeacherEnsemble, "is_balanced", lambda *_: False)
    monkeypatch.setattr(
        replicas, "stratified", lambda labels, folds, _: np.arange(len(labels)) % folds
    )
    return found


def trained(placed, folder, share):
    options = Options.of(epochs=2, hidden_size=8, device="cpu", held_out=share)
    run = TrainingRun(None, None)
    resources = Resources(folder, CPU, 10**9, 32, SingleProcess(), run, Callback())
    return fit_store(placed.store, options, resources)[1]


def visible_rows(folder, placed, hidden, names):
    """The bytes of the rows that are not hidden, of all arrays with some names."""
    found = {}
    for path in sorted(folder.iterdir()):
        if any(name in path.name for name in names):
            width = np.load(path / "0000.npy").shape[1]
            kind = str(np.load(path / "0000.npy").dtype)
            columns = Columns(path, placed.store.manifest.sizes, width, kind)
            for part in range(P):
                rows = np.delete(columns.read(part).numpy(), hidden.get(part, []), axis=0)
                found[path.name, part] = rows.tobytes()
    return found


@pytest.mark.parametrize(
    ("kind", "share", "width"),
    [
        ("float32", None, 256),
        ("csr", None, 12),
        ("float32", 0.3, 12),
        ("float32", 0.3, 256),
        ("csr", 0.3, 256),
    ],
)
def test_hidden_nodes_have_no_influence(tmp_path, monkeypatch, captured, kind, share, width):
    monkeypatch.setattr(projections, "WIDTH", width)
    graph, part = planted(kind), random_parts(N, P)
    placed = in_parts(graph, part, tmp_path / "store", kind)
    sample = trained(placed, tmp_path / "arrays", share)
    replica = sample.replicas[0]
    assert replica.kind == ("new row" if share is None else "kept")
    hidden = sample.hidden(replica)
    numbers = np.concatenate([(p << 32) + rows for p, rows in hidden.items()])
    nodes = np.flatnonzero(np.isin(placed.numbers, numbers))
    assert len(nodes) > 4

    other = scrambled(graph, nodes, kind, labels=share is None)
    again = in_parts(other, part, tmp_path / "scrambled", kind)
    trained(again, tmp_path / "others", share)
    name = fitting._name(hidden)
    names = (f"degree.{name}", f"view.{name}", f"spread.{name}", "targets.0", "beside.0.0")
    ours = visible_rows(tmp_path / "arrays", placed, hidden, names)
    theirs = visible_rows(tmp_path / "others", again, hidden, names)
    assert {file.split(".")[0] for file, _ in ours} == {
        "degree",
        "view",
        "spread",
        "targets",
        "beside",
    }
    assert ours == theirs
    one, two = (student.network.state_dict() for student in captured)
    assert all(torch.equal(one[key][0], two[key][0]) for key in one)
    if share is None:
        assert not all(torch.equal(one[key][-1], two[key][-1]) for key in one), "the kept one does"
