"""Labels from a second table, against a dictionary."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.errors import TableError
from linkdist.tables.label_table import read_label_table, read_labels
from linkdist.tables.nodes import read_nodes
from linkdist.tables.targets import LabelFormat
from linkdist.tables.validation import Problems

IDS = [7, 8, 9]


def added(labels, more, unknown=(), classes=("a", "art", "b")):
    """The names of the classes of the nodes after the labels of a table are added."""
    table = read_label_table(more, "id", ["y"])
    form = LabelFormat("classification", ("y",), classes, tuple(unknown))
    text = pa.array(labels, pa.large_string())
    found = read_labels(text, ("y",), None, unknown, Problems(), form, pa.array(IDS), table)
    return [None if k < 0 else classes[k] for k in found.labels]


@given(st.dictionaries(st.sampled_from(IDS), st.sampled_from(["a", "b", None, "  "])))
def test_labels_are_filled_in_like_a_dictionary(more):
    found = added([None] * 3, {"id": pa.array(more, pa.int64()), "y": pa.array(more.values())})
    assert found == [(more.get(id) or "").strip() or None for id in IDS]


def test_a_label_that_both_tables_have_stays():
    assert added(["a", None, "b"], {"id": [7, 8], "y": ["a", "b"]}) == ["a", "b", "b"]
    assert added([None] * 3, {"id": [7, 7], "y": ["a", "a"]}) == ["a", None, None]


def test_unknown_labels_are_skipped():
    more = {"id": [7, 8], "y": ["NA", "a"]}
    assert added([None] * 3, more, unknown=["NA"]) == [None, "a", None]


def test_minus_one_among_integers_is_an_unknown_label():
    more = {"id": [9, 7], "y": [1, -1]}
    assert added(["0", "1", "-1"], more, classes=("0", "1")) == ["0", "1", "1"]
    nodes = {"id": IDS, "y": [0, 1, -1], "x": [1, 2, 4]}
    found = read_nodes(nodes, "id", "y", more_labels={"id": [9], "y": [1]})
    assert (found.labels.tolist(), found.classes) == ([0, 1, 1], ("0", "1"))


def test_ids_are_compared_as_text(tmp_path):
    path = tmp_path / "more.csv"
    path.write_text("y,id,predicted\nart,9,math\n,8,math\n")
    assert added(["a", None, None], path) == ["a", None, "art"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": [7], "y": ["b"]}, "node 7 has the labels 'a' and 'b'"),
        ({"id": [8, 8], "y": ["a", "b"]}, "node 8 has the labels 'a' and 'b'"),
        ({"id": [8, 1, None], "y": [None, "a", "a"]},
         "'id' must contain ids of the node table; row 2 has '1', row 3 is empty"),
        ({"id": [7], "label": ["a"]}, "unknown column 'y'"),
        ({"id": [7], "y": [["a"]]}, "must contain one value per row"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_are_refused_in_words(more, message):
    with pytest.raises(TableError, match=f"the label table: .*{message}"):
        added(["a", None, None], more)


@given(st.dictionaries(st.sampled_from(range(20)), st.none() | st.floats(-1e9, 1e9)))
def test_numbers_are_filled_in_like_a_dictionary(more):
    ids = range(-2, 20)
    nodes = {"id": ids, "x": [i * i for i in ids], "y": [4.5, -1.5] + [None] * 20}
    table = {"id": pa.array(more, pa.int64()), "y": pa.array(more.values(), pa.float64())}
    found = read_nodes(nodes, "id", "y", more_labels=table, task="regression").labels
    expected = [math.nan if more.get(i) is None else more[i] for i in range(20)]
    assert np.array_equal(found, [4.5, -1.5, *expected], equal_nan=True)


def test_equal_numbers_may_be_written_in_two_ways():
    nodes = {"id": IDS, "x": [1, 2, 4], "y": ["4.50", "1", None]}
    same = {"id": [7, 9], "y": ["4.5", "3"]}
    found = read_nodes(nodes, "id", "y", more_labels=same, task="regression")
    assert found.labels.tolist() == [4.5, 1.0, 3.0]
    with pytest.raises(TableError, match=r"the label table: node 7 has the labels 4\.5 and 4\.75"):
        read_nodes(nodes, "id", "y", more_labels={"id": [7], "y": [4.75]}, task="regression")


def test_the_task_is_guessed_from_both_tables():
    ids = list(range(40))
    nodes = {"id": ids, "x": [i * i for i in ids], "y": pa.nulls(40)}
    found = read_nodes(nodes, "id", "y", more_labels={"id": ids, "y": [i / 8 for i in ids]})
    assert (found.task, found.labels[3]) == ("regression", 0.375)
    lists = {"id": ids, "y": [["a"] if i % 2 else ["a", "b"] for i in ids]}
    found = read_nodes(nodes, "id", "y", more_labels=lists)
    assert (found.task, found.classes, found.labels[1].tolist()) == (
        "multilabel",
        ("a", "b"),
        [1, 0],
    )


def test_several_labels_are_filled_in_and_compared():
    nodes = {"id": IDS, "x": [1, 2, 4], "even": [1, None, None], "loop": [0, None, None]}
    more = {"id": [8, 9, 7], "even": [0, None, 1], "loop": [1, None, 0]}
    found = read_nodes(nodes, "id", ["even", "loop"], more_labels=more)
    assert found.labels.tolist() == [[1, 0], [0, 1], [-1, -1]]
    with pytest.raises(
        TableError, match=r"node 7 has the labels \['even'\] and \['even', 'loop'\]"
    ):
        read_nodes(nodes, "id", ["even", "loop"], more_labels={"id": [7], "even": [1], "loop": [1]})


def test_lists_may_be_filled_in_as_text(tmp_path):
    (tmp_path / "more.csv").write_text("id,y\n8,law|art\n9,\n")
    form = LabelFormat("multilabel", ("y",), ("art", "law"), separator="|")
    nodes = {"id": IDS, "x": [1, 2, 4], "y": [["art"], None, None]}
    found = read_nodes(nodes, "id", "y", more_labels=tmp_path / "more.csv", label_format=form)
    assert found.labels.tolist() == [[1, 0], [1, 1], [-1, -1]]


def test_classes_that_a_model_does_not_know_are_counted_in_both_tables():
    form = LabelFormat("classification", ("y",), ("a", "b"))
    nodes = {"id": IDS, "x": [1, 2, 4], "y": ["law", "a", None]}
    more = {"id": [9], "y": ["law"]}
    found = read_nodes(nodes, "id", "y", more_labels=more, label_format=form)
    assert found.unknown_labels == {"law": 2}
