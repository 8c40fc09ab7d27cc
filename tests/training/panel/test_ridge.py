"""Ridge regressions in closed form, beside scikit-learn's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import Ridge

from linkdist.data.graph import Graph
from linkdist.data.splits import Split, observe
from linkdist.nn.inputs import make_inputs
from linkdist.training.panel import teachers
from linkdist.training.panel.ridge import fit_ridge
from linkdist.training.panel.teachers import RIDGE_STRENGTHS, TeachingContext, linear_teachers

CPU = torch.device("cpu")


@pytest.mark.parametrize(("m", "d"), [(60, 5), (12, 40)], ids=["long", "wide"])
def test_weights_are_those_of_scikit_learn(m, d):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, m, d)), random.normal(size=(2, m, 1))
    known = random.integers(0, 3, size=(2, m, 1)).astype(float)
    strengths = (0.1, 1000.0)
    parts = (torch.from_numpy(part.astype(np.float32)) for part in (x, y, known))
    found = fit_ridge(*parts, strengths).view(2, 2, d + 1, 1)  # (A, R, d + 1, C)
    for a, strength in enumerate(strengths):
        for r in range(2):
            exact = Ridge(alpha=1 / strength).fit(x[r], y[r, :, 0], sample_weight=known[r, :, 0])
            expected = [*exact.coef_, exact.intercept_]
            np.testing.assert_allclose(found[a, r, :, 0], expected, rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def counted():
    """A sparse graph whose number is how many words a row has, and a view of all nodes."""
    random = np.random.default_rng(0)
    n, d = 150, 30
    rate = random.uniform(0.05, 0.6, size=(n, 1))
    words = (random.random((n, d)) < rate).astype(np.float32)
    words[:, 0] = 1  # no row is empty
    numbers = words.sum(axis=1).astype(float)
    links = random.integers(n, size=(200, 2))
    graph = Graph(sparse.csr_matrix(words), links, numbers, ("y",), task="regression")
    split = Split(np.arange(60), np.arange(0), np.arange(60, n))
    return graph, observe(graph, split, "transductive")


def test_sparse_rows_keep_their_length_in_a_regression(counted):
    """Rows of unit length could not tell a row with many words from one with few."""
    graph, view = counted
    context = TeachingContext(graph, [view], make_inputs(graph.features, CPU))
    x = graph.features.toarray()
    x = x / np.linalg.norm(x, axis=1).mean()
    (group,) = linear_teachers(context, [0])
    assert [teacher.strength for teacher in group] == list(RIDGE_STRENGTHS)
    for teacher in group:
        exact = Ridge(alpha=1 / teacher.strength).fit(x[view.train], graph.labels[view.train])
        found = teacher.scores([0], context.seen)[0, :, 0].numpy()
        np.testing.assert_allclose(found, exact.predict(x), rtol=1e-3, atol=1e-2)
    classes = np.arange(graph.n) % 2
    as_classes = replace(graph, labels=classes, classes=("a", "b"), task="classification")
    split = Split(view.train, view.train[:0], view.train[:0])
    of_classes = observe(as_classes, split, "transductive")
    unit = TeachingContext(as_classes, [of_classes], context.inputs).scale[:, 0].numpy()
    lengths = np.linalg.norm(graph.features.toarray(), axis=1)
    np.testing.assert_allclose(unit, 1 / lengths, rtol=1e-6)


def test_rows_that_are_not_stored_give_the_same_predictions(counted, monkeypatch):
    graph, view = counted
    context = TeachingContext(graph, [view], make_inputs(graph.features, CPU))
    (stored,) = linear_teachers(context, [1])
    monkeypatch.setattr(teachers, "STORED", {"cpu": 0})
    (iterated,) = linear_teachers(context, [1])
    for a, b in zip(stored, iterated, strict=True):
        p, q = (teacher.scores([0], context.seen) for teacher in (a, b))
        torch.testing.assert_close(p, q, rtol=0, atol=0.05)
