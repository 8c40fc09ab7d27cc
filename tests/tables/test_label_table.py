"""Labels from a second table, against a dictionary."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkdist.errors import TableError
from linkdist.tables.label_table import add_labels
from linkdist.tables.nodes import read_nodes

IDS = [7, 8, 9]


def added(labels, more, **options):
    text = pa.array(labels, pa.large_string())
    return add_labels(text, pa.array(IDS), more, ("id", "y"), **options).to_pylist()


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
    assert added(["0", "1", "-1"], {"id": [9, 7], "y": [1, -1]}) == ["0", "1", "1"]
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
         "'id' must contain ids of the node table; row 2 has '1', row 3 has None"),
        ({"id": [7], "label": ["a"]}, "unknown column 'y'"),
        ({"id": [7], "y": [["a"]]}, "must contain one value per row"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit_are_refused_in_words(more, message):
    with pytest.raises(TableError, match=f"the label table: .*{message}"):
        added(["a", None, None], more)
