"""`linkdist train` as the user calls it; what it trains is tested with the pipeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linkdist.artifacts.model_dir import load_model
from linkdist.cli.train import parse_time
from linkdist.data.datasets import DATASETS
from linkdist.errors import OptionError
from tests.cli.common import refused, words

pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.mark.parametrize("name", DATASETS)
def test_a_named_data_set_is_referred_to_benchmark(command, name):
    result = command("train", name, "--epochs", "2")
    refused(result, f"found '{name}'.*use 'linkdist benchmark {name}'")


def test_an_argument_beside_tables_is_an_error(command, papers, tmp_path):
    tables = ("--nodes", papers / "nodes.csv", "--edges", papers / "links.csv")
    about = ("--id", "paper", "--label", "field", "--out", tmp_path / "model")
    refused(command("train", *tables, *about, "extra"), "train takes options only; found 'extra'")
    assert not (tmp_path / "model").exists()


def test_the_help_shows_the_groups_in_order(command):
    _, out, _ = command("train", "--help")
    titles = re.findall(r"╭─ ([A-Z][\w ]+) ─", out)
    assert titles == [
        "Options",
        "Node table",
        "Link table",
        "Store",
        "Training",
        "Network",
        "Output",
    ]
    assert "Usage: linkdist train [OPTIONS]" in words(out)


def test_hyperparameters_reach_the_model(command, papers, tmp_path):
    tables = ("--nodes", papers / "nodes.csv", "--edges", papers / "links.csv")
    about = ("--id", "paper", "--label", "field", "--method", "linkdist", "--epochs", "1")
    network = ("--hidden-size", "16", "--dropout", "0.25", "--batch-size", "512")
    out = ("--learning-rate", "0.02", "--device", "cpu", "--out", tmp_path / "model")
    code, _, err = command("train", *tables, *about, *network, *out)
    assert code == 0, err
    assert load_model(tmp_path / "model").model.network.hidden == 16


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--dropout", "1"), "dropout must be from 0 to below 1; found 1.0"),
        (("--learning-rate", "0"), "learning_rate must be a number above 0; found 0.0"),
    ],
)
def test_a_hyperparameter_out_of_range_is_an_error(command, papers, tmp_path, option, message):
    tables = ("--nodes", papers / "nodes.csv", "--edges", papers / "links.csv")
    about = ("--id", "paper", "--label", "field", "--out", tmp_path / "model")
    refused(command("train", *tables, *about, *option), message)
    assert not (tmp_path / "model").exists()


@pytest.fixture
def received(monkeypatch):
    """The arguments that a training receives, instead of a training."""
    arguments = {}

    def train(**given):
        arguments.update(given)
        raise OptionError("seen enough.")

    monkeypatch.setattr("linkdist.trained_model.train", train)
    return arguments


def test_tasks_graphs_and_their_options_reach_the_training(command, received, tmp_path):
    pairs = ("--nodes", "DE.csv", "--nodes", "ES.csv", "--edges", "d.csv", "--edges", "e.csv")
    roles = ("--id", "id", "--label", "even,loop", "--task", "multilabel", "--graph", "country")
    options = ("--hold-out-graphs", "--metric", "macro-f1", "--class-weight", "balanced")
    command("train", *pairs, *roles, *options, "--loss", "absolute", "--out", tmp_path / "model")
    expected = {
        "nodes": [Path("DE.csv"), Path("ES.csv")],
        "links": [Path("d.csv"), Path("e.csv")],
        "label": ["even", "loop"],
        "task": "multilabel",
        "graph": "country",
        "hold_out_graphs": True,
        "metric": "macro-f1",
        "class_weight": "balanced",
        "loss": "absolute",
    }
    assert {name: received[name] for name in expected} == expected


def test_one_table_and_one_label_stay_single(command, received, tmp_path):
    tables = ("--nodes", "n.csv", "--edges", "e.csv", "--id", "id", "--label", "y")
    command("train", *tables, "--out", tmp_path / "model")
    expected = {"nodes": Path("n.csv"), "links": Path("e.csv"), "label": "y", "task": None}
    expected |= {"graph": None, "metric": None, "class_weight": None, "hold_out_graphs": False}
    assert {name: received[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "f1"), "unknown metric 'f1'.*choose from accuracy, macro-f1, roc-auc"),
        (("--class-weight", "even"), "unknown class weight 'even'; choose from balanced"),
        (("--loss", "cubic"), "unknown loss 'cubic'; choose from squared, absolute"),
        (("--hold-out-graphs",), "hold_out_graphs needs several graphs; there is one"),
        (("--loss", "absolute"), "loss is for regression; the task is classification"),
        (("--task", "ranking"), "unknown task 'ranking'; choose from classification"),
    ],
)
def test_options_that_do_not_suit_the_task_are_errors(command, papers, tmp_path, options, message):
    tables = ("--nodes", papers / "nodes.csv", "--edges", papers / "links.csv")
    about = ("--id", "paper", "--label", "field", "--out", tmp_path / "model")
    code, _, err = command("train", *tables, *about, *options, "--quiet")
    assert code == 2
    assert re.search(message, err)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("option", [("--budget", "60s"), ("--hold-out-graphs",)])
def test_options_for_tables_are_refused_with_a_store(command, tmp_path, option):
    result = command("train", "--store", tmp_path / "store", "--out", tmp_path / "model", *option)
    refused(result, f"Found {option[0]}")


@pytest.mark.parametrize("text", ["", "soon", "0s", "-1m", "infh", "nan"])
def test_a_time_that_cannot_be_read_is_an_error(text):
    with pytest.raises(OptionError, match="a time must be a number"):
        parse_time(text)


def test_an_interrupted_training_prints_the_command_that_continues(
    command, papers, tmp_path, monkeypatch
):
    from linkdist.training.checkpoint import TrainingRun

    real = TrainingRun.after

    def after(run, done, total, tensors):
        real(run, done, total, tensors)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "after", after)
    tables = ("--nodes", papers / "nodes.csv", "--edges", papers / "links.csv")
    about = ("--id", "paper", "--label", "field", "--method", "linkdist", "--device", "cpu")
    code, _, err = command("train", *tables, *about, "--out", tmp_path / "model")
    assert code == 130
    assert "What is done is kept. Continue with:" in err
    assert re.search(r"^linkdist train .*model --resume$", err, re.MULTILINE)
