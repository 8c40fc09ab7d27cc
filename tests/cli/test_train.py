"""`linkdist train` as the user calls it; what it trains is tested with the pipeline."""

from __future__ import annotations

import re

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
    assert "The last checkpoint is kept. Continue with:" in err
    assert re.search(r"^linkdist train .*model --resume$", err, re.MULTILINE)
