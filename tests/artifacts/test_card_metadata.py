"""The metadata of model cards. Oracle: PyYAML, which the Hub's own library uses too."""

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from linkdist.artifacts.card_metadata import card_metadata
from linkdist.artifacts.model_card import model_card
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP

ESTIMATES = {
    "measure": "roc-auc",
    "new_rows": [
        {"name": "this model, from features", "value": 0.58123, "links": False},
        {"name": "this model, with links", "value": 0.92, "links": True},
    ],
    "known_rows": [{"name": "this model, from features", "value": float("nan")}],
    "baselines": [{"name": "label spreading", "value": 0.99, "links": True}],
}


def read(text):
    start, metadata, rest = text.split("---\n")
    assert start == rest == ""
    return yaml.safe_load(metadata)


def test_estimates_are_the_results_of_the_model():
    found = read(card_metadata("papers", {"task": "classification", "estimates": ESTIMATES}))
    assert found["library_name"] == "linkdist"
    assert found["pipeline_tag"] == "tabular-classification"
    assert found["tags"] == ["linkdist", "graph", "classification"]
    (model,) = found["model-index"]
    (result,) = model["results"]
    assert model["name"] == "papers"
    assert result["task"] == {"type": "tabular-classification"}
    assert result["dataset"].keys() == {"type", "name"}
    assert result["metrics"] == [
        {"type": "roc_auc", "value": 0.5812, "name": "ROC AUC of new rows, from features"},
        {"type": "roc_auc", "value": 0.92, "name": "ROC AUC of new rows, with links"},
    ]


@pytest.mark.parametrize(
    ("measure", "metric"),
    [("accuracy", "accuracy"), ("macro-f1", "f1"), ("average-precision", "average_precision"),
     ("r2", "r_squared"), ("mae", "mae")],
)  # fmt: skip
def test_measures_have_the_names_of_the_hub(measure, metric):
    found = read(card_metadata("m", {"estimates": ESTIMATES | {"measure": measure}}))
    metrics = found["model-index"][0]["results"][0]["metrics"]
    assert {one["type"] for one in metrics} == {metric}


def test_a_model_without_valid_estimates_has_no_results():
    assert "model-index" not in read(card_metadata("m", {"task": "multilabel"}))
    assert "model-index" not in read(card_metadata("m", {"estimates": ESTIMATES, "updates": [1]}))
    assert read(card_metadata("m", {"task": "regression"}))["pipeline_tag"] == "tabular-regression"


@given(st.text(), st.text())
def test_any_name_is_read_back_or_replaced(name, rows):
    estimates = ESTIMATES | {"rows": rows}
    found = read_whole(card_metadata(name, {"estimates": estimates}) + "# title\n")
    (model,) = found["model-index"]
    assert len(model["name"]) == len(name)
    if name.isprintable():
        assert model["name"] == name
    first, _ = model["results"][0]["metrics"]
    assert first["name"].startswith("ROC AUC of ")


def read_whole(text):
    """The metadata of a card, found as a program does: from the first '---' line to the next."""
    first, *lines = text.split("\n")
    assert first == "---"
    return yaml.safe_load("\n".join(lines[: lines.index("---")]))


def test_a_saved_model_has_them_before_its_card_and_loads(tmp_path):
    model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    about = {"label": "field", "estimates": {**ESTIMATES, "known_rows": []}}
    save_model(tmp_path / "some model", Saved(model, about=about))
    card = (tmp_path / "some model" / "README.md").read_text("utf-8")
    plain = model_card("some model", about, ("a", "b", "c"))
    assert card == card_metadata("some model", about) + plain
    assert read_whole(card)["model-index"][0]["name"] == "some model"
    assert load_model(tmp_path / "some model").model.classes == ("a", "b", "c")
