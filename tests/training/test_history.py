import numpy as np
import torch

from linkdist import Graph, Split
from linkdist.training.history import History


def one_hot(*predicted):
    return torch.nn.functional.one_hot(torch.tensor(predicted), 2).float()


def test_the_first_epoch_of_highest_validation_accuracy_counts():
    graph = Graph.build(np.eye(4), [(0, 1)], [0, 1, 0, 1])
    split = Split(np.array([], dtype=int), np.array([0, 1]), np.array([2, 3]))
    history = History(graph, [split, split], torch.device("cpu"))
    epochs = [
        ([0, 0, 0, 0], [1, 0, 0, 1]),  # validation 1/2 and 0, test 1/2 and 1
        ([0, 1, 1, 0], [0, 0, 1, 1]),  # 1 and 1/2, test 0 and 1/2
        ([0, 1, 0, 1], [1, 1, 1, 0]),  # 1 and 1/2, test 1 and 0
    ]
    better = [history.record("own", one_hot(*epoch)).tolist() for epoch in epochs]
    assert better == [[True, True], [True, True], [False, False]]
    best = history.best("own")
    assert best.epochs.tolist() == [2, 2]
    assert best.validation.tolist() == [1.0, 0.5]
    assert best.test.tolist() == [0.0, 0.5]


def test_a_marked_evaluation_counts_where_marks_are_asked_for():
    graph = Graph.build(np.eye(3), [(0, 1)], [0, 1, 0])
    split = Split(np.array([], dtype=int), np.array([0, 1]), np.array([2]))
    history = History(graph, [split], torch.device("cpu"), rule="marked")
    for guess, mark in (([0, 1, 1], True), ([1, 1, 0], True), ([0, 1, 0], False)):
        history.record("own", one_hot(guess))
        history.mark(torch.tensor([mark]))
    assert history.best("own").epochs.tolist() == [2]
    assert history.best("own").validation.tolist() == [0.5]


def test_replicas_may_have_validation_sets_of_different_sizes():
    """A replica's test nodes were once counted as validation nodes."""
    graph = Graph.build(np.eye(6), [(0, 1)], [0, 1, 0, 1, 0, 1])
    none = np.array([], dtype=int)
    splits = [
        Split(none, np.array([0]), np.array([1, 2])),
        Split(none, np.array([0, 3]), np.array([4])),
    ]
    history = History(graph, splits, torch.device("cpu"))
    history.record("own", one_hot([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]))
    best = history.best("own")
    assert best.validation.tolist() == [1.0, 0.5]
    assert best.test.tolist() == [0.5, 0.0]
