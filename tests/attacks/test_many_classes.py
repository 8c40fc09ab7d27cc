"""Finding 24: an evaluation of 10,000 classes takes as much memory as it has rows.

Oracle: the same evaluation with arrays of (C, C) counts, and scikit-learn.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import f1_score

from linkdist.report import html, metrics, pair_counts
from linkdist.report.evaluation import Evaluator
from linkdist.report.metrics import evaluate, homophily, least_certain


def predictions(n, C, seed=0):
    random = np.random.default_rng(seed)
    truth = random.integers(C, size=n)
    p = random.random((n, C)) ** 8
    p[np.arange(n), truth] += random.random(n)
    return p / p.sum(axis=1, keepdims=True), truth


def both(monkeypatch, compute):
    """What is computed with arrays, and with sparse matrices."""
    dense = compute()
    monkeypatch.setattr(pair_counts, "DENSE", 1)
    return dense, compute()


def test_sparse_counts_give_the_same_scores(monkeypatch):
    p, truth = predictions(300, 7)

    def compute():
        evaluator = Evaluator(list("abcdefg"))
        evaluator.add(truth[:100], p[:100])
        evaluator.add(truth[100:], p[100:])
        return evaluator.result().as_json()

    dense, found = both(monkeypatch, compute)
    assert np.array(dense.pop("confusion")).sum() == 300
    assert found.pop("confusion") == ()
    assert found == dense
    expected = f1_score(truth, p.argmax(axis=1), average="macro")
    assert found["macro_f1"] == pytest.approx(expected)


def test_sparse_counts_give_the_same_charts(monkeypatch):
    p, truth = predictions(300, 7)
    links = np.random.default_rng(1).integers(300, size=(500, 2))
    names = list("abcdefg")

    def compute():
        counts, known = evaluate(p, truth).confusion, homophily(links, truth, 7)
        parts = [html.combine_classes(one, [0, 2]).tolist() for one in (counts, known.counts)]
        return *parts, html._errors(counts, names), known.share, known.links

    dense, found = both(monkeypatch, compute)
    assert found == dense
    assert sparse.issparse(evaluate(p, truth).confusion)


def test_the_least_certain_nodes_are_those_of_a_full_sort():
    random = np.random.default_rng(0)
    p = random.integers(4, size=(200, 6)) / 4  # many ties
    top = np.argsort(-p, axis=1, kind="stable")[:, :2]
    margin = np.take_along_axis(p, top, axis=1) @ [1, -1]
    expected = np.argsort(margin, kind="stable")[:20]
    found = least_certain(p, np.zeros(200, int), range(200))
    assert [int(one.id) for one in found] == expected.tolist()
    assert [(one.first[0], one.second[0]) for one in found] == [tuple(top[i]) for i in expected]


def test_ten_thousand_classes_need_little_memory():
    """Their confusion matrix as an array has 800 MB."""
    n, C = 200, 10_000
    p, truth = predictions(n, C)
    names = list(map(str, range(C)))
    tracemalloc.start()
    evaluator = Evaluator(names)
    evaluator.add(truth, p)
    found, mode = evaluator.result(), evaluate(p, truth)
    drawn = html.combine_classes(mode.confusion, range(12))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20
    assert (found.rows, int(drawn.sum()), found.confusion) == (n, n, ())
    assert found.accuracy == mode.accuracy == (p.argmax(axis=1) == truth).mean()


def test_a_model_directory_keeps_small_confusion_matrices_only():
    for C, kept in ((100, True), (101, False)):
        p, truth = predictions(50, C)
        modes = dict.fromkeys(("features", "links"), evaluate(p, truth))
        curves = dict.fromkeys(modes, np.zeros((1, 1)))
        stored = metrics.ValidationMetrics(50, curves, np.zeros(1, int), modes).stored()
        assert ("confusion" in stored) is kept
