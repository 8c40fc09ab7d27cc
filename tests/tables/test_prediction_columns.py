"""Columns of predictions: values worked out by hand, and labels that training reads back."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from linkdist.errors import ModelError, OptionError, TableError
from linkdist.tables.certainty import Caution, Certainty
from linkdist.tables.io import open_table
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.targets import label_values
from linkdist.tables.validation import Problems

IDS = pa.array([7, 8, 9])
LINKED = np.array([True, False, True])
NUMBERS = np.array([[1.5], [2.0], [-4.0]])
P = np.array([[0.9, 0.3], [0.4, 0.1], [0.6, 0.6]])
WIDTHS = {"widths": {"features": 2.0, "links": 0.5}}
THRESHOLDS = {"thresholds": {"features": [0.3, 0.5], "links": [0.8, 0.2]}}
DECIDED = [[1, 1], [1, 0], [0, 1]]
"""What `P` becomes if the first and the last row have links."""


def columns(task, classes, **about):
    return PredictionColumns.of({"task": task, "label": "y", **about}, classes)


def written(path, found, values, linked=None):
    with PredictionWriter(path, "id", pa.int64(), found) as writer:
        writer.write(IDS, values, linked)
    return open_table(path).sample()


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_numbers_have_the_interval_of_their_mode(tmp_path, name):
    found = columns("regression", ("y",), decision=WIDTHS)
    table = written(tmp_path / name, found, NUMBERS, LINKED)
    assert table.to_pydict() == {
        "id": [7, 8, 9],
        "predicted": [1.5, 2.0, -4.0],
        "low": [1.0, 0.0, -4.5],
        "high": [2.0, 4.0, -3.5],
    }
    without = written(tmp_path / name, found, NUMBERS)
    assert without["low"].to_pylist() == [-0.5, 0.0, -6.0]


@pytest.mark.parametrize("width", [None, float("inf")])
def test_an_unknown_interval_is_empty(tmp_path, width):
    """Training has an infinite width, and a model directory null, if there are few labels."""
    decision = {"widths": {"features": width, "links": 0.5}}
    found = columns("regression", ("y",), decision=decision)
    table = written(tmp_path / "p.parquet", found, NUMBERS, LINKED)
    assert table["low"].to_pylist() == [1.0, None, -4.5]
    assert found.lacks_intervals()
    assert found.lacks_intervals(LINKED)
    assert not found.lacks_intervals(np.array([True, True]))
    assert columns("regression", ("y",)).lacks_intervals(LINKED)


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_several_columns_of_labels_are_written_as_in_the_training(tmp_path, name):
    form = {"separator": None, "binary": True}
    about = {"label": ["even", "loop"], "label_format": form, "decision": THRESHOLDS}
    found = columns("multilabel", ("even", "loop"), **about)
    path = tmp_path / name
    table = written(path, found, P, LINKED)
    assert table.column_names == ["id", "even", "loop", "p_even", "p_loop"]
    assert np.array(table.to_pandas()[["even", "loop"]]).tolist() == DECIDED
    np.testing.assert_allclose(table.to_pandas()[["p_even", "p_loop"]], P, rtol=1e-6)
    assert read_back(path, found).tolist() == DECIDED


@pytest.mark.parametrize(
    ("name", "separator", "kind"),
    [("p.parquet", ";", "string"), ("p.csv", ";", "string"), ("p.parquet", None, "list")],
)
def test_labels_of_one_column_are_written_as_in_the_training(tmp_path, name, separator, kind):
    form = {"separator": separator, "binary": False}
    found = columns("multilabel", ("art", "war"), label_format=form, decision=THRESHOLDS)
    path = tmp_path / name
    table = written(path, found, P, LINKED)
    assert table.column_names == ["id", "labels", "p_art", "p_war"]
    assert kind in str(table.schema.types[1])
    expected = [["art", "war"], ["art"], ["war"]]
    if separator:
        assert table["labels"].to_pylist() == [separator.join(row) for row in expected]
    else:
        assert table["labels"].to_pylist() == expected
    assert read_back(path, found, "labels").tolist() == DECIDED


def read_back(path, found, *columns):
    """The labels of a table of predictions, read as those of a training."""
    (batch,) = open_table(path).batches()
    labels = label_values(batch, columns or found.form.columns, Problems())
    return found.form.encode(labels)[0]


def test_csv_has_text_in_place_of_lists(tmp_path):
    form = {"separator": None, "binary": False}
    found = columns("multilabel", ("art", "war"), label_format=form)
    table = written(tmp_path / "p.csv", found, P)
    assert table["labels"].to_pylist() == ["art", "", "art|war"]


def test_without_thresholds_a_label_needs_a_half():
    found = columns("multilabel", ("even", "loop"))
    assert found.decided([[0.5, 0.49]]).tolist() == [[True, False]]


def test_a_model_directory_keeps_the_decision():
    about = json.loads(json.dumps({"decision": THRESHOLDS, "task": "multilabel"}))
    found = PredictionColumns.of(about, ("a", "b"))
    assert found.decided(P, LINKED).astype(int).tolist() == DECIDED


@pytest.mark.parametrize(
    "decision",
    [
        {"thresholds": {"features": [0.1, 0.2, 0.3], "links": [0.5]}},
        {"thresholds": [0.1, 0.2]},
        {"widths": {"features": "wide"}},
    ],
)
def test_a_damaged_decision_is_refused(decision):
    with pytest.raises(ModelError, match="thresholds or intervals of the model are not valid"):
        columns("multilabel", ("a", "b"), decision=decision)


def test_columns_must_have_different_names(tmp_path):
    found = columns("multilabel", ("a", "p_a"), label_format={"separator": None, "binary": True})
    with pytest.raises(TableError, match="must have different names; found several p_a"):
        found.schema("id", pa.int64())
    for name in ("predicted", "low", "high"):
        with pytest.raises(TableError, match=f"'{name}' cannot be the name of the column of ids"):
            columns("regression", ("y",)).schema(name, pa.int64())
    with pytest.raises(TableError, match=r"numbers must have shape \(3, 1\); found \(3, 2\)"):
        written(tmp_path / "p.csv", columns("regression", ("y",)), P)


# Sets and unanswered rows ---------------------------------------------------------------------

CERTAIN = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
"""Three held-out rows of the first class: the second is an error, and the least certain."""


def certain(classes=("a", "b"), **about):
    """Columns of classes whose held-out rows with links are twice as uncertain."""
    labels = np.zeros(3, dtype=int)
    both = {"features": CERTAIN, "links": (CERTAIN + 0.5) / 2}
    state = Certainty.of(both, labels).state()
    return columns("classification", classes, certainty=json.loads(json.dumps(state)), **about)


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_sets_and_empty_labels_have_the_thresholds_of_their_mode(tmp_path, name):
    """At 0.7 all true classes count: 0.4 from features and 0.45 with links."""
    found = certain().cautious(Caution(sets=0.7, abstain=0.4))
    p = np.array([[0.57, 0.43], [0.57, 0.43], [0.1, 0.9]])
    table = written(tmp_path / name, found, p, LINKED)
    assert table.column_names == ["id", "label", "confidence", "set", "p_a", "p_b"]
    # Two of three rows are answered: from 0.7 from features, from 0.6 with links.
    assert [label or None for label in table["label"].to_pylist()] == [None, None, "b"]
    sets = table["set"].to_pylist()
    names = [one.split("|") for one in sets] if name.endswith("csv") else sets
    assert names == [["a"], ["a", "b"], ["b"]]
    np.testing.assert_allclose(table["confidence"].to_pylist(), [0.57, 0.57, 0.9], rtol=1e-6)


def test_a_set_is_never_empty_and_has_all_classes_if_labels_are_few():
    p = np.array([[0.34, 0.33, 0.33], [1.0, 0.0, 0.0]])
    held = np.array([[1.0, 0.0, 0.0]] * 9)
    state = Certainty.of({"features": held, "links": held}, np.zeros(9, dtype=int)).state()
    found = columns("classification", tuple("abc"), certainty=state)
    assert found.cautious(Caution(sets=0.9)).sets(p).tolist() == [[True, False, False]] * 2
    assert found.cautious(Caution(sets=0.9)).too_few() == ""
    every = found.cautious(Caution(sets=0.95))
    assert every.sets(p).all()
    assert "need 19 labels that training had not seen; found 9." in every.too_few()


def test_without_caution_nothing_changes(tmp_path):
    found = certain()
    assert found.cautious(Caution()) is found
    assert found.names == columns("classification", ("a", "b")).names
    assert found.answered(P).all()
    assert found.too_few() == found.answered_text(np.ones(2), np.ones(2)) == ""


def test_classes_that_contain_the_separator_need_lists(tmp_path):
    found = certain(("a|b", "b")).cautious(Caution(sets=0.7))
    table = written(tmp_path / "p.parquet", found, P)
    assert table["set"].to_pylist()[0] == ["a|b"]
    with pytest.raises(TableError, match="Write Parquet"):
        written(tmp_path / "p.csv", found, P)
    with pytest.raises(TableError, match="'set' cannot be the name of the column of ids"):
        found.schema("set", pa.string())


@pytest.mark.parametrize("caution", [Caution(sets=0.9), Caution(abstain=0.2)])
def test_sets_that_a_model_cannot_have_are_refused(caution):
    with pytest.raises(ModelError, match=r"an older version.* Train again"):
        columns("classification", ("a", "b")).cautious(caution)
    with pytest.raises(ModelError, match="it was updated"):
        certain(updates=[{}]).cautious(caution)
    with pytest.raises(OptionError, match="columns low and high"):
        columns("regression", ("y",), decision=WIDTHS).cautious(caution)
    with pytest.raises(OptionError, match="several labels"):
        columns("multilabel", ("a", "b"), decision=THRESHOLDS).cautious(caution)
    with pytest.raises(ModelError, match="Train again"):
        columns("classification", ("a", "b"), certainty={"features": 1})
