"""Link tables of a prediction are read with the columns of the training."""

from __future__ import annotations

import pytest

from linkdist.errors import OptionError, TableError
from linkdist.tables.source import Tables
from linkdist.tables.trained_columns import trained_link_tables, with_trained_columns


def completed(edges, about, **given):
    return with_trained_columns(Tables({}, edges, "id", "label", **given), about)


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
    rule = "undirected links and links without relations and links without weights; leave out"
    with pytest.raises(OptionError, match=f"{rule} --directed, --relation, --weight"):
        completed({"a": [1], "b": [2]}, {}, directed=True, relation="a", weight="b")


def test_a_table_without_the_relations_of_the_training_is_refused():
    rule = "the link table: the model was trained with the relations in column 'kind'; found only"
    with pytest.raises(TableError, match=f"{rule} a, b"):
        completed({"a": [1], "b": [2]}, RELATED)
    tables = {"y": {"a": [1], "b": [2]}}
    assert completed(tables, RELATED).relation is None
    assert list(completed(tables, {"relations": ["x", "y"]}).edges) == ["y"]


def test_tables_without_the_weights_of_the_training_are_refused():
    about = {"weight": "w"}
    trained = "the model was trained with the weights in column 'w'; found only a, b. Add this"
    with pytest.raises(TableError, match=f"the link table: {trained} column"):
        completed({"a": [1], "b": [2]}, about)
    assert completed({"a": [1], "b": [2], "v": [1]}, about, weight="v").weight == "v"
    both = (
        "the relations in column 'kind' and the weights in column 'w'; found only a, b. Add these"
    )
    with pytest.raises(TableError, match=both):
        completed({"a": [1], "b": [2]}, about | RELATED)
    tables = {"x": {"a": [7], "b": [8]}, "y": {"a": [7], "b": [8]}}
    with pytest.raises(TableError) as found:
        completed(tables, about | {"relations": ["x", "y"]})
    assert str(found.value).count(trained) == 2


def test_each_of_several_graphs_is_read_as_in_the_training():
    nodes = {"DE": {"id": [7]}, "ES": {"id": [8]}}
    edges = {"ES": {"to": [1], "of": [2]}, "DE": {"of": [3], "to": [4]}}
    about = {"source": "of", "target": "to", "directed": True}
    found = trained_link_tables(Tables(nodes, edges, "id", "label"), about)
    assert {name: (one.source, one.directed) for name, one in found.items()} == {
        "DE": ("of", True), "ES": ("of", True),
    }  # fmt: skip
    new = trained_link_tables(Tables(nodes, edges, "id", "label"), None)
    assert [one.source for one in new.values()] == [None, None]
