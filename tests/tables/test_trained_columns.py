"""Link tables of a prediction are read with the columns of the training."""

from __future__ import annotations

import pyarrow as pa
import pytest

from linkdist.errors import OptionError, TableError
from linkdist.tables.links import read_links
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import with_trained_columns

IDS = pa.array(["7", "8", "9"])


def completed(edges, about, notes=None, **given):
    class Notes:
        def note(self, text):
            assert notes is not None
            notes.append(text)

    return with_trained_columns(Tables({}, edges, "id", "label", **given), about, Notes())


RELATED = {"relation": "kind", "relations": ["x", "y"]}


def test_columns_of_the_training_are_used_where_tables_have_them():
    about = {"source": "of", "target": "to", "weight": "w", "directed": True} | RELATED
    table = {"to": [1], "w": [1], "of": [2], "kind": ["x"]}
    found = completed(table, about)
    assert (found.source, found.target) == ("of", "to")
    assert (found.relation, found.weight, found.directed) == ("kind", "w", True)
    found = completed(table, about, source="to", target="of", relation="w", weight="kind")
    assert (found.source, found.target) == ("to", "of")
    assert (found.relation, found.weight) == ("w", "kind")
    found = completed({"from": [1], "to": [2], "kind": ["x"], "w": [1]}, about)
    assert (found.source, found.target) == (None, "to")


def test_a_model_from_before_takes_one_undirected_table():
    found = completed({"a": [1], "b": [2], "kind": ["x"]}, {"source": None, "target": None})
    assert (found.relation, found.weight, found.directed) == (None, None, False)
    with pytest.raises(TableError, match=r"trained without relations, .* table; found x, y"):
        completed({"x": {"a": [1]}, "y": {"a": [1]}}, {})
    with pytest.raises(OptionError, match="trained with undirected links; leave out --directed"):
        completed({"a": [1], "b": [2]}, {}, directed=True)


def test_a_table_without_the_relations_of_the_training_is_refused():
    rule = "the link table: the model was trained with the relations in column 'kind'; found only"
    with pytest.raises(TableError, match=f"{rule} a, b"):
        completed({"a": [1], "b": [2]}, RELATED)
    tables = {"y": {"a": [1], "b": [2]}}
    assert completed(tables, RELATED).relation is None
    assert list(completed(tables, {"relations": ["x", "y"]}).edges) == ["y"]


def test_links_without_the_weights_of_the_training_weigh_the_same():
    notes, about = [], {"weight": "w"}
    assert completed({"a": [1], "b": [2]}, about, notes).weight is None
    assert notes == [
        "The model was trained with the weights in column 'w'. The link table has no such column, "
        "so all links have the same weight."
    ]
    tables = {"x": {"a": [7], "b": [8], "w": [1]}, "y": {"a": [7], "b": [8]}}
    found = completed(tables, about | {"relations": ["x", "y"]})
    with pytest.raises(TableError, match="the link table: unknown column 'w'; choose from a, b"):
        read_links(found.edges, IDS, weight=found.weight, relations=["x", "y"])
