"""Shapley values against the mean over all permutations."""

from itertools import permutations

import numpy as np
import pytest

from linkdist.inference.shapley import shapley_values


def random_game(players, seed=0):
    """A value for each subset, of two quantities."""
    table = np.random.default_rng(seed).normal(size=(1 << players, 2))
    return lambda masks: table[masks @ (1 << np.arange(players))]


def by_permutations(value, players):
    """The definition: the mean change over all orders."""
    total = np.zeros((players, 2))
    orders = list(permutations(range(players)))
    for order in orders:
        mask = np.zeros((1, players), dtype=bool)
        before = value(mask)[0]
        for player in order:
            mask[0, player] = True
            after = value(mask)[0]
            total[player] += after - before
            before = after
    return total / len(orders)


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_all_subsets_give_the_mean_over_all_permutations(players):
    value = random_game(players)
    base, total, found = shapley_values(value, players)
    np.testing.assert_allclose(found, by_permutations(value, players), atol=1e-12)
    np.testing.assert_allclose(base + found.sum(axis=0), total, atol=1e-12)


def test_no_player_has_no_contribution():
    base, total, found = shapley_values(lambda masks: np.ones((len(masks), 1)), 0)
    assert (base, total, found.shape) == (1, 1, (0, 1))


def test_estimates_sum_exactly_and_are_close():
    value = random_game(5, seed=1)
    base, total, few = shapley_values(value, 5, subsets=30)
    np.testing.assert_allclose(base + few.sum(axis=0), total, atol=1e-12)
    assert np.abs(few - by_permutations(value, 5)).max() > 1e-3  # it is an estimate
    np.testing.assert_allclose(
        np.mean([shapley_values(relabelled(value, order), 5, subsets=30)[2][np.argsort(order)]
                 for order in permutations(range(5))], axis=0),
        by_permutations(value, 5), atol=1e-12,
    )  # fmt: skip


def relabelled(value, order):
    """The same game with other numbers for its players."""
    return lambda masks: value(masks[:, np.argsort(order)])


def test_estimates_of_interactions_in_pairs_are_exact():
    random = np.random.default_rng(0)
    single, pairs = random.normal(size=12), random.normal(size=(12, 12))

    def value(masks):
        on = masks.astype(float)
        return (on @ single + np.einsum("vi,ij,vj->v", on, np.triu(pairs, 1), on))[:, None]

    upper = np.triu(pairs, 1)
    _, _, found = shapley_values(value, 12, subsets=24)  # one pair of permutations
    np.testing.assert_allclose(found[:, 0], single + (upper + upper.T).sum(axis=1) / 2)


def test_a_player_without_effect_contributes_nothing():
    value = random_game(9, seed=2)
    _, _, found = shapley_values(lambda masks: value(masks[:, :9]), 10)
    np.testing.assert_allclose(found[9], 0, atol=1e-12)
