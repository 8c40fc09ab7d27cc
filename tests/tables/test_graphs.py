"""Several graphs, against one table with the same rows and against counting in plain Python."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.pipeline import read_graph, summarise_tables
from linkdist.progress import Callback
from linkdist.tables.graphs import join_links, named_tables, open_nodes
from linkdist.tables.io import open_table
from linkdist.tables.nodes import read_nodes
from linkdist.tables.source import Tables

DE = {"id": [1, 2, 3], "age": [20, 30, 45], "field": ["math", "art", None]}
ES = {"id": [3, 1], "age": [50, 61], "field": ["art", "math"]}


def pair(nodes=(DE, ES), links=None, **options):
    """Tables with a pair for each graph."""
    links = links or {"DE": {"a": [1, 2], "b": [2, 3]}, "ES": {"a": [1], "b": [3]}}
    return Tables(dict(zip(("DE", "ES"), nodes, strict=True)), links, "id", "field", **options)


def refused(call, message):
    with pytest.raises((TableError, OptionError), match=message) as caught:
        call()
    return str(caught.value)


def dense(features):
    return features.toarray() if hasattr(features, "toarray") else features


# A column with the names of graphs ----------------------------------------------------------------


@given(st.lists(st.sampled_from(["10", "9", "1", "DE", "ES"]), min_size=6, max_size=20))
def test_a_column_names_the_graph_of_each_row(names):
    n = len(names)
    nodes = {
        "id": range(n),
        "age": [i * i for i in range(n)],
        "field": ["a", "b"] * (n // 2) + ["a"] * (n % 2),
    }
    found = read_nodes({**nodes, "country": names}, "id", "field", graph="country")
    assert [found.graphs[k] for k in found.groups] == names
    integers = set(names) <= {"10", "9", "1"}
    assert found.graphs == tuple(sorted(set(names), key=int if integers else str))
    assert found.encoders.names == ("age",)
    assert found.ids.to_pylist() == list(range(n))


def test_rows_without_a_graph_are_errors(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "id,age,field,country\n1,3,a,DE\n2,4,b,\n3,9,a,  \n4,8,b,ES\n5,2,b,ES\n"
    )
    message = "column 'country' must name the graph of each row; row 2 is empty, row 3 is empty"
    refused(lambda: read_nodes(tmp_path / "nodes.csv", "id", "field", graph="country"), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "contry"}, r"unknown column 'contry' \(near: country\)"),
        ({"graph": "id"}, "ids and graphs must be two columns; both are 'id'"),
        ({"graph": "field"}, "labels and graphs must be two columns; both are 'field'"),
        ({"graph": "country", "features": ["country"]}, "'country' contains the graphs and cannot"),
        ({"graph": "age"}, "'age' must name graphs of several rows; all rows are different"),
    ],
)
def test_a_column_that_cannot_name_graphs_is_an_error(options, message):
    nodes = {**DE, "field": ["a", "b", "a"], "country": ["DE", "DE", "ES"], "x": [1, 2, 4]}
    refused(lambda: read_nodes(nodes, "id", "field", **options), message)


def test_links_between_graphs_are_counted_and_used():
    n = 12
    nodes = {"id": range(n), "age": [i * i for i in range(n)], "field": ["a", "b"] * 6}
    nodes["country"] = ["DE"] * 5 + ["ES"] * 7
    links = {"a": list(range(n - 1)), "b": [(i * 5 + 2) % n for i in range(n - 1)]}
    tables = Tables(nodes, links, "id", "field", graph="country")
    pairs = {frozenset(pair) for pair in zip(links["a"], links["b"], strict=True)}
    crossing = sum(len({nodes["country"][i] for i in pair}) == 2 for pair in pairs)
    summary = summarise_tables(tables, Callback())
    (warning,) = summary.warnings
    assert f"{crossing} of {len(pairs)} links join two graphs, such as " in warning
    assert summary.graphs == {"DE": (5, 5), "ES": (7, 7)}
    _, graph, _ = read_graph(tables, Callback())
    assert {frozenset(link) for link in graph.links.tolist()} >= pairs
    assert graph.groups.tolist() == [0] * 5 + [1] * 7


def test_one_graph_is_warned_about():
    nodes = {"id": range(4), "age": [3, 1, 4, 1], "field": list("abab"), "country": ["DE"] * 4}
    tables = Tables(nodes, {"a": [1], "b": [2]}, "id", "field", graph="country")
    assert summarise_tables(tables, Callback()).warnings == (
        "there is one graph only, 'DE', so no graph can be held out.",
    )


# Pairs of tables ----------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    """Node and link tables of two or three graphs."""
    tables = {}
    for name in draw(
        st.lists(
            st.sampled_from(["DE", "ES", "FR", "10", "9"]), min_size=2, max_size=3, unique=True
        )
    ):
        ids = draw(st.lists(st.integers(0, 20), min_size=2, max_size=6, unique=True))
        ends = st.tuples(st.sampled_from(ids), st.sampled_from(ids))
        links = draw(st.lists(ends, min_size=1, max_size=6))
        ages = [draw(st.integers(0, 90)) for _ in ids]
        words = [draw(st.sampled_from(["red", "blue", "green"])) for _ in ids]
        nodes = {"id": ids, "age": ages, "colour": words, "field": (["a", "b"] * 3)[: len(ids)]}
        tables[name] = nodes, {"a": [a for a, _ in links], "b": [b for _, b in links]}
    return tables


@settings(deadline=None)
@given(graphs(), st.sampled_from(["frames", "csv", "parquet", "mixed"]))
def test_pairs_of_tables_are_one_table_with_a_column_of_graphs(tmp_path_factory, tables, kind):
    """Compared with: all rows in one table, with ids such as DE/7."""
    folder = tmp_path_factory.mktemp("pairs")
    nodes, links = (
        {
            name: write(folder, f"{name}-{k}", pair[k], kind, i)
            for i, (name, pair) in enumerate(tables.items())
        }
        for k in (0, 1)
    )
    pairs = Tables(nodes, links, "id", "field")
    rows = [
        (name, *row)
        for name, (table, _) in tables.items()
        for row in zip(*table.values(), strict=True)
    ]
    whole = pd.DataFrame(rows, columns=["country", "id", "age", "colour", "field"])
    whole["id"] = whole.country + "/" + whole.id.astype(str)
    joined = [
        (f"{name}/{a}", f"{name}/{b}")
        for name, (_, table) in tables.items()
        for a, b in zip(*table.values(), strict=True)
    ]
    one = Tables(whole, pd.DataFrame(joined, columns=["a", "b"]), "id", "field", graph="country")
    found, graph, report = read_graph(pairs, Callback())
    expected, other, counts = read_graph(one, Callback())
    assert found.ids.to_pylist() == expected.ids.to_pylist()
    assert np.allclose(dense(found.features), dense(expected.features), atol=1e-5)
    assert found.encoders.names == expected.encoders.names
    assert found.labels.tolist() == expected.labels.tolist()
    assert (found.graphs, found.groups.tolist()) == (expected.graphs, expected.groups.tolist())
    assert graph.links.tolist() == other.links.tolist()
    assert graph.groups.tolist() == other.groups.tolist()
    assert (report.total, report.kept, report.loops) == (counts.total, counts.kept, counts.loops)


def write(folder, name, table, kind, i):
    """A table in memory, or a file of this kind."""
    if kind == "frames":
        return pd.DataFrame(table)
    if kind == "csv" or (kind == "mixed" and i == 0):
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
        return folder / f"{name}.csv"
    pyarrow.parquet.write_table(pa.table(table), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def test_ids_may_repeat_between_graphs_but_not_within_one():
    nodes, graph, _ = read_graph(pair(), Callback())
    assert nodes.ids.to_pylist() == ["DE/1", "DE/2", "DE/3", "ES/3", "ES/1"]
    assert graph.links.tolist() == [[0, 1], [1, 2], [3, 4]]
    tables = pair((DE, {**ES, "id": [3, 3]}))
    message = (
        "duplicate ids: 'ES/3' in row 1 of the node table 'ES' and row 2 of the node table 'ES'"
    )
    refused(lambda: read_graph(tables, Callback()), message)


def test_errors_name_the_table_of_a_row(tmp_path):
    for name, rows in {"DE": "1,3,a\n2,4,b\n", "ES": "1,5,b\n,old,a\n"}.items():
        (tmp_path / f"{name}.csv").write_text("id,age,field\n" + rows)
    paths = [tmp_path / "DE.csv", tmp_path / "ES.csv"]
    found = refused(lambda: read_nodes(paths, "id", "field", {"age": "numeric"}), "2 node tables: ")
    assert f"column 'age' must contain numbers; row 2 of {paths[1]} has 'old'" in found
    assert f"column 'id' must contain an id in each row; row 2 of {paths[1]} is empty" in found


def test_links_to_unknown_nodes_are_named_with_their_graph():
    links = {"DE": {"a": [1, 2], "b": [2, 9]}, "ES": {"a": [1, 2], "b": [3, 3]}}
    _, _, report = read_graph(pair(links=links), Callback())
    assert (report.total, report.kept, report.unknown) == (4, 2, 2)
    assert "(first: '9' in row 2 of DE, '2' in row 2 of ES)" in str(report)
    with pytest.raises(TableError, match=r"row 2 has '9'.* row 2 has '2'"):
        read_graph(pair(links=links, strict=True), Callback())


def test_differences_between_the_columns_are_listed_at_once():
    es = {"id": [1, 2], "field": ["a", "b"], "size": [1, 2], "country": [1, 2]}
    de = {"id": [1, 2], "field": ["a", "b"], "age": [1, 2], "country": ["x", "y"]}
    found = refused(lambda: read_graph(pair((de, es)), Callback()), "^2 node tables: ")
    both = "the node table 'ES' has no 'age', the node table 'DE' has no 'size'"
    assert f"all must have the same columns; {both}" in found
    both = "string in the node table 'DE', int64 in the node table 'ES'"
    assert f"column 'country' must have one type in all node tables; found {both}" in found


def test_types_that_can_be_joined_are(tmp_path):
    tables = {"a": {"id": [1, 2], "x": [1, 2]}, "b": {"id": [1, 2], "x": [1.5, None]}}
    tables["c"] = {"id": pa.array(["u", "v"]).dictionary_encode(), "x": pa.nulls(2)}
    for name in "bc":
        tables[name]["id"] = pa.array([1, 2], pa.int32())
    assert open_nodes(tables).schema.field("x").type == pa.float64()
    nodes = read_nodes(tables, "id", None)
    assert nodes.features.shape == (6, 1)
    (tmp_path / "d.csv").write_text("id,x\n1,3\n2,$4\n")  # money is text, as far as Arrow knows
    mixed = read_nodes({**tables, "d": tmp_path / "d.csv"}, "id", None)
    mean = np.mean([1, 2, 1.5, 3, 4])
    assert np.isclose(mixed.encoders.state()[0]["mean"], mean)
    assert mixed.ids.to_pylist()[-1] == "d/2"


@pytest.mark.parametrize("kind", ["frames", "csv", "mixed"])
def test_columns_may_be_in_another_order(tmp_path, kind):
    turned = dict(reversed(ES.items()))
    tables = {"DE": DE, "ES": turned}
    paths = {k: write(tmp_path, k, one, kind, i) for i, (k, one) in enumerate(tables.items())}
    found, expected = (
        read_nodes(paths, "id", "field"),
        read_nodes({"DE": DE, "ES": ES}, "id", "field"),
    )
    assert np.allclose(found.features, expected.features)
    assert found.labels.tolist() == expected.labels.tolist()
    assert found.ids.to_pylist() == expected.ids.to_pylist()


def test_kinds_are_inferred_from_all_tables():
    words = {"id": range(20), "x": ["3"] * 20}
    other = {"id": range(20), "x": [f"word{i % 4}" for i in range(20)]}
    assert read_nodes({"a": words, "b": other}, "id", None).guesses["x"].kind == "categorical"


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("DE.csv", []),
        (["DE.csv"], []),
        ({"DE": "DE.csv"}, []),
        ({"id": [1, 2], "x": np.arange(2)}, []),
        ({"id": pd.Series([1]), "x": pa.chunked_array([[1]])}, []),
        (["data/DE.csv", "data/ES.csv.gz"], ["DE", "ES"]),
        (["DE/nodes.csv", "ES/nodes.csv"], ["DE", "ES"]),
        (["DE/*.parquet", "ES/*.parquet"], ["DE", "ES"]),
        ([DE, ES], ["1", "2"]),
        ((pd.DataFrame(DE), "ES.csv"), ["1", "ES"]),
        ({"x": DE, "y": pd.DataFrame(ES)}, ["x", "y"]),
        ({"x": pa.table(DE), "y": "ES.csv"}, ["x", "y"]),
    ],
)
def test_tables_are_named_by_their_files_folders_or_keys(nodes, names):
    assert list(named_tables(nodes)) == names


@pytest.mark.parametrize(
    "nodes", [["a/nodes.csv", "a/nodes.csv"], {"a/b": DE, "c": ES}, {" ": DE, "c": ES}]
)
def test_tables_need_different_names(nodes):
    refused(lambda: named_tables(nodes), "node tables must have different names without '/'")


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"a": [1], "b": [2]}, r"2 node tables \(DE, ES\) need as many link tables, .*; found 1"),
        ([{"a": [1], "b": [2]}], "found 1"),
        ([{"a": [1], "b": [2]}] * 3, "found 3"),
        ({"DE": DE, "FR": ES}, "found tables of DE, FR"),
    ],
)
def test_there_must_be_as_many_link_tables(links, message):
    refused(lambda: read_graph(pair(links=links), Callback()), message)


def test_link_tables_may_be_in_the_order_of_the_node_tables():
    links = [{"a": [1, 2], "b": [2, 3]}, {"a": [1], "b": [3]}]
    assert read_graph(pair(links=links), Callback())[1].links.tolist() == [[0, 1], [1, 2], [3, 4]]


def test_problems_of_all_link_tables_are_in_one_message(tmp_path):
    links = {"DE": {"a": [8], "b": [9]}, "ES": {"a": [1]}}
    found = refused(lambda: read_graph(pair(links=links), Callback()), "but no row contains two")
    assert "links need two columns of ids; found a" in found
    nodes = [tmp_path / "DE.csv", tmp_path / "ES.csv"]
    found = refused(lambda: read_nodes(nodes, "id", "field"), "DE.csv")
    assert "ES.csv" in found


def test_a_column_of_graphs_and_several_tables_are_two_answers():
    tables = pair(({**DE, "c": list("xyx")}, {**ES, "c": list("xx")}), graph="c")
    refused(
        lambda: read_graph(tables, Callback()),
        "several node tables are graphs already; leave out the column 'c'",
    )


def test_a_table_without_rows_is_named():
    empty = pa.table({name: pa.array([], pa.string()) for name in DE})
    refused(lambda: read_nodes({"DE": DE, "ES": empty}, "id", "field"), "string")
    empty = pa.table(DE).slice(0, 0)
    refused(
        lambda: read_nodes({"DE": DE, "ES": empty}, "id", "field"), "'ES': the table has no rows"
    )


def test_more_labels_have_the_ids_that_are_shown():
    more = {"id": ["DE/3"], "field": ["math"]}
    nodes, _, _ = read_graph(pair(labels=more), Callback())
    assert nodes.labels.tolist() == [1, 0, 1, 0, 1]
    refused(
        lambda: read_graph(pair(labels={"id": [3], "field": ["math"]}), Callback()), "row 1 has '3'"
    )


def test_an_opened_table_stays_one_table():
    assert read_nodes(open_table(DE), "id", "field").groups is None
    assert read_nodes([DE], "id", "field").ids.to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("directed", [False, True])
def test_pairs_of_tables_keep_relations_weights_and_direction(directed):
    """Compared with: all links in one table, between ids such as DE/7."""
    de = {"a": [1, 2, 3, 2], "b": [2, 3, 9, 1], "how": list("xyxx"), "w": [1, 2, 3, 4]}
    es = {"a": [1, 3], "b": [3, 1], "how": ["z", "x"], "w": [5, 0.5]}
    roles = {"relation": "how", "weight": "w", "directed": directed}
    links = {"ES": es, "DE": de}  # in another order than the node tables
    _, found, report = read_graph(pair(links=links, **roles), Callback())
    joined = pd.concat([pd.DataFrame(de).assign(c="DE/"), pd.DataFrame(es).assign(c="ES/")])
    joined[["a", "b"]] = joined[["a", "b"]].astype(str).radd(joined.c, axis=0)
    whole = pd.concat([pd.DataFrame(DE).assign(c="DE/"), pd.DataFrame(ES).assign(c="ES/")])
    whole["id"] = whole.c + whole.id.astype(str)
    one = Tables(whole.drop(columns="c"), joined.drop(columns="c"), "id", "field", **roles)
    _, expected, counts = read_graph(one, Callback())
    assert found.heads == expected.heads
    assert found.links.tolist() == expected.links.tolist()
    assert found.link_relation.tolist() == expected.link_relation.tolist()
    assert np.allclose(found.link_weights, expected.link_weights)
    assert (report.total, report.kept, report.unknown) == (
        counts.total,
        counts.kept,
        counts.unknown,
    )
    assert (report.relations, report.weights) == (counts.relations, counts.weights)


def test_links_are_joined_with_their_relations_and_weights():
    a = Links(
        np.array([[0, 1], [1, 2]]), np.array([1, 0]), np.array([1.0, 2.0]), ("likes", "cites")
    )
    b = Links(np.array([[3, 4]]), np.array([0]), None, ("knows",))
    found = join_links([a, b])
    assert found.relations == ("cites", "knows", "likes")
    assert [found.relations[k] for k in found.relation] == ["cites", "likes", "knows"]
    assert found.weights.tolist() == [1.0, 2.0, 1.0]
    assert found.pairs.tolist() == [[0, 1], [1, 2], [3, 4]]
    plain = join_links([Links(np.array([[0, 1]])), Links(np.array([[2, 3]]))])
    assert (plain.relation, plain.weights, plain.relations) == (None, None, ("links",))
    assert not plain.directed
