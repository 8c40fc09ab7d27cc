"""Paired tests beside SciPy and examples by hand."""

import itertools

import numpy as np
import pytest
from rivals.comparison import best_rival, compared, holm, signed_rank
from rivals.names import OURS
from scipy.stats import rankdata, wilcoxon


def test_holm_by_hand():
    # Sorted: 0.01 · 4, 0.02 · 3, 0.03 · 2, 0.5 · 1, each at least the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_the_signed_rank_test_is_that_of_scipy_without_ties():
    random = np.random.default_rng(0)
    for _ in range(10):
        differences = random.normal(0.4, 1, 10)
        expected = wilcoxon(differences, method="exact").pvalue
        assert signed_rank(differences) == pytest.approx(expected)


def test_the_signed_rank_test_counts_all_signs_with_ties():
    differences = np.array([1.0, 1.0, -1.0, 2.0, 3.0, 0.0])
    ranks = rankdata(np.abs(differences[:-1]))
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s)
            for signs in itertools.product((0, 1), repeat=5)]  # fmt: skip
    found = abs(ranks[differences[:-1] > 0].sum() - ranks.sum() / 2)
    expected = np.mean([abs(total - ranks.sum() / 2) >= found for total in sums])
    assert signed_rank(differences) == pytest.approx(expected)
    assert signed_rank(np.zeros(4)) == 1


def test_verdicts_follow_the_sign_and_the_corrected_test():
    random = np.random.default_rng(0)
    ours = 80 + random.normal(size=10)
    methods = {"SelfLinkDist": ours, "SelfLinkDist, with links": ours + 5, "MLP": ours - 3,
               "GCN": ours + 7, "GLNN": ours + random.permutation([-1, 1] * 5)}  # fmt: skip
    records = [{"set": "cora", "labels": "20", "method": method, "by_seed": dict(enumerate(scores))}
               for method, scores in methods.items()]  # fmt: skip
    rows = compared(records)
    verdicts = {method: rows["cora", "20", method].verdict for method in methods}
    assert verdicts == {"SelfLinkDist": "level", "SelfLinkDist, with links": "level",
                        "MLP": "better", "GCN": "worse", "GLNN": "level"}  # fmt: skip
    # GCN uses links at prediction, so it is compared with our mode that does.
    assert rows["cora", "20", "GCN"].difference == pytest.approx(-2)
    assert rows["cora", "20", "MLP"].p == pytest.approx(3 * 2 / 1024)


def test_a_rival_without_ours_or_all_seeds_beside_it_has_no_row():
    records = [{"set": "cora", "labels": "20", "method": "MLP", "by_seed": {0: 1.0, 1: 2.0}}]
    assert compared(records) == {}
    records.append({**records[0], "method": OURS, "by_seed": {0: 1.0, 1: 2.0, 2: 5.0}})
    assert [key[2] for key in compared(records)] == [OURS]


def test_a_class_with_a_missing_rival_has_no_best_one():
    by_seed = {"MLP": 1.0, "LightGBM": 3.0, "linear model": 2.0, "self-training": 9.0, OURS: 5.0}
    records = [{"set": "cora", "labels": "20", "method": m, "by_seed": dict.fromkeys(range(3), v)}
               for m, v in by_seed.items()]  # fmt: skip
    assert best_rival(compared(records), "cora", "20", 1).method == "LightGBM"
    assert best_rival(compared(records[1:]), "cora", "20", 1) is None
    assert best_rival(compared(records[1:]), "cora", "20", 2).method == "self-training"
