"""Options of a training: each is checked, alone and against the graph."""

from __future__ import annotations

import numpy as np
import pytest

from linkdist.data.graph import Graph
from linkdist.errors import OptionError
from linkdist.training.measures import MEASURES
from linkdist.training.options import CLASS_WEIGHTS, LOSSES, METRICS, Options

LABELS = {
    "classification": [0, 1, 0, 1],
    "regression": [0.5, 1.5, 2.5, 3.5],
    "multilabel": [[0, 1], [1, 0], [1, 1], [0, 0]],
}


def graph(task, groups=None):
    groups = None if groups is None else np.array(groups)
    return Graph.build(np.eye(4), [(0, 1)], LABELS[task], task=task, groups=groups)


@pytest.mark.parametrize("metric", [None, *METRICS])
@pytest.mark.parametrize("class_weight", [None, *CLASS_WEIGHTS])
@pytest.mark.parametrize("loss", LOSSES)
def test_known_names_are_taken(metric, class_weight, loss):
    Options(metric=metric, class_weight=class_weight, loss=loss).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metric": "auc"},
            "unknown metric 'auc'.*; choose from accuracy, macro-f1, roc-auc, aver",
        ),
        ({"class_weight": "balance"}, r"unknown class weight 'balance' \(near: balanced\)"),
        ({"loss": "huber"}, "unknown loss 'huber'; choose from squared, absolute"),
    ],
)
def test_unknown_names_are_errors_that_list_the_known_ones(options, message):
    with pytest.raises(OptionError, match=message):
        Options(**options).check()


@pytest.mark.parametrize("task", LABELS)
def test_the_defaults_suit_every_task(task):
    Options().check_graph(graph(task))
    Options(hold_out_graphs=True).check_graph(graph(task, [0, 0, 1, 1]))


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_metrics_suit_classes(task):
    for measure in MEASURES[task]:
        Options(metric=measure.name).check_graph(graph(task))
    with pytest.raises(OptionError, match=f"unknown metric for {task} 'r2'"):
        Options(metric="r2").check_graph(graph(task))
    with pytest.raises(OptionError, match=f"loss is for regression; the task is {task}"):
        Options(loss="absolute").check_graph(graph(task))


def test_class_weights_are_for_one_class_per_row():
    Options(class_weight="balanced").check_graph(graph("classification"))
    with pytest.raises(OptionError, match="one class per row; the task is multilabel"):
        Options(class_weight="balanced").check_graph(graph("multilabel"))


def test_all_options_that_do_not_suit_regression_are_in_one_message():
    Options(loss="absolute").check_graph(graph("regression"))
    wrong = Options(metric="accuracy", class_weight="balanced", hold_out_graphs=True)
    with pytest.raises(
        OptionError, match=r"metric for regression .* class_weight is .* hold_out_graphs"
    ):
        wrong.check_graph(graph("regression"))


@pytest.mark.parametrize("groups", [None, [0, 0, 0, 0]])
def test_graphs_cannot_be_held_out_if_there_is_one(groups):
    with pytest.raises(OptionError, match="hold_out_graphs needs several graphs; there is one"):
        Options(hold_out_graphs=True).check_graph(graph("classification", groups))
