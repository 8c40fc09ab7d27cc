"""Stores of every task and of all kinds of links. Oracle: `linkdist.pipeline.read_graph`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.errors import OptionError, TableError
from linkdist.pipeline import Tables, read_graph
from linkdist.progress import Callback
from linkdist.store.build import build
from linkdist.store.verify import check
from linkdist.store.whole import read_whole
from linkdist.tables.parsing import text_of
from linkdist.tables.source import LINK_ROLES, ROLES
from linkdist.tables.targets import count_labels
from tests.stores import dense, small, write


class Reports(Callback):
    report = None

    def links(self, report):
        self.report = report


def edges_of(graph, places):
    """The edges with heads and weights, with other numbers of the nodes, sorted."""
    pairs, heads, weights = graph.all_edges
    heads = np.zeros(len(pairs), int) if heads is None else heads
    weights = np.ones(len(pairs), np.float32) if weights is None else weights
    rows = np.column_stack([places[pairs], heads])
    order = np.lexsort(rows.T[::-1])
    return rows[order].tolist(), weights[order]


def check_same(tables, out, parts):
    """Build a store and compare it with the graph in memory; None where both refuse the tables."""
    refusal = None
    try:
        nodes, graph, report = read_graph(tables, Callback())
    except (TableError, OptionError) as error:
        refusal = error
    if refusal is not None:
        with pytest.raises(type(refusal)) as found:
            build(tables, out, parts=parts, dtype="float32")
        assert str(found.value) == str(refusal)
        return None
    callback = Reports()
    store = build(tables, out, parts=parts, dtype="float32", callback=callback)
    whole, first = read_whole(store)
    ids = [one for part in range(parts) for one in store.ids(part).to_pylist()]
    place = {one: i for i, one in enumerate(text_of(nodes.ids).to_pylist())}
    places = np.array([place[one] for one in ids])
    assert first.tolist() == np.cumsum([0, *store.sizes[:-1]]).tolist()
    assert np.array_equal(dense(whole.features), dense(graph.features)[places])
    labels = graph.labels.astype(np.float32) if graph.task == "regression" else graph.labels
    assert np.array_equal(whole.labels, labels[places], equal_nan=graph.task == "regression")
    assert whole.labels.dtype == graph.labels.dtype
    for name in ("task", "classes", "relations", "directed", "heads", "n", "d"):
        assert getattr(whole, name) == getattr(graph, name), name
    assert store.heads == graph.heads
    found, expected = edges_of(whole, places), edges_of(graph, np.arange(graph.n))
    assert found[0] == expected[0]
    # The weight of a self-loop of a node without links is a mean, so it has rounding errors.
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    keys = whole.all_links.keys(graph.n)
    assert (keys[1:] > keys[:-1]).all(), "each link once, in the order of a graph"
    loops = graph.links[:, 0] == graph.links[:, 1]
    assert (store.m, store.loops) == (len(graph.links), loops.sum())
    assert callback.report == report
    assert list(store.manifest.labelled) == list(count_labels(graph.labels, graph.classes).values())
    roles = {role: getattr(tables, role) for role in (*ROLES, *LINK_ROLES)}
    roles |= {"task": nodes.task, "relations": graph.relations, "unknown": list(tables.unknown)}
    if report.ends is not None:
        roles["source"], roles["target"] = report.ends
    if written := nodes.label_format.state():
        roles["label_format"] = written
    assert store.about == roles
    assert check(out) == []
    return store


# labels -------------------------------------------------------------------------------------------

WORDS = ["drama", "war", "love"]
KINDS = ["classes", "numbers", "comma", "columns", "lists", "separated"]


@st.composite
def node_tables(draw):
    """The columns of a node table, the roles of the labels, and whether it may be CSV."""
    n, kind = draw(st.integers(3, 10)), draw(st.sampled_from(KINDS))

    def column(*values, first):
        one = st.one_of(st.none(), *values)
        return [*first, *draw(st.lists(one, min_size=n, max_size=n))[len(first) :]]

    ids = draw(st.lists(st.integers(0, 10**9), min_size=n, max_size=n, unique=True))
    nodes = {"id": [f"n{i}" for i in ids], "age": column(st.floats(-9, 9, width=32), first=[1, 2])}
    number, options = st.floats(-1e6, 1e6), {}
    if kind == "classes":
        nodes["y"] = column(st.sampled_from(WORDS), first=["war", "love"])
    elif kind == "numbers":
        nodes["y"], options = column(number, first=[0.5, 2.5]), {"task": "regression"}
    elif kind == "comma":
        texts = number.map(lambda x: f"{x:.2f}".replace(".", ","))
        nodes["y"], options = column(texts, first=["3,5", "4,25"]), {"task": "regression"}
    elif kind == "columns":
        truth = st.sampled_from(["0", "1"])
        nodes["y"] = column(truth, first=["0", "1"])
        nodes["z"] = [None if one is None else draw(truth) for one in nodes["y"]]
        options = {"label": ["y", "z"]}
    elif kind == "lists":
        lists = st.lists(st.sampled_from(WORDS), unique=True)
        nodes["y"] = pa.array(column(lists, first=[["war"], ["love", "war"]]))
    else:
        text = st.lists(st.sampled_from(WORDS), unique=True, min_size=1).map("|".join)
        nodes["y"] = column(text, first=["war", "love|war", "drama|war"])
        options = {"task": draw(st.sampled_from([None, "multilabel", "classification"]))}
    return nodes, {"label": "y", **options}, kind != "lists"


@settings(max_examples=60, deadline=None)
@given(node_tables(), st.integers(1, 3), st.booleans())
def test_labels_of_every_task_are_those_of_the_graph_in_memory(table, parts, csv):
    nodes, options, may_be_csv = table
    ends = {"s": nodes["id"][:-1], "t": nodes["id"][1:]}
    with TemporaryDirectory() as folder, small():
        suffix = "csv" if csv and may_be_csv else "parquet"
        tables = Tables(
            write(Path(folder, f"nodes.{suffix}"), nodes),
            write(Path(folder, "links.csv"), ends),
            "id",
            features=["age"],
            **options,
        )
        check_same(tables, Path(folder, "store"), parts)


def tables_of(folder, labels, **options):
    """Tables of a chain of nodes with these labels, in one or more columns."""
    n = len(next(iter(labels.values())))
    ids = [f"n{i}" for i in range(n)]
    nodes = {"id": ids, "age": [float(i) for i in range(n)], **labels}
    return Tables(
        write(folder / "nodes.parquet", nodes),
        write(folder / "links.csv", {"s": ids[:-1], "t": ids[1:]}),
        **{"id": "id", "label": "y", "features": ["age"], **options},
    )


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ({"y": ["1", "x", "2", "1e99", None]}, {"task": "regression"}),
        ({"y": ["7", "7", None]}, {"task": "regression"}),
        ({"y": pa.array([None, None, None], "string")}, {"task": "multilabel"}),
        ({"y": ["0", "1", "2"], "z": ["1", None, "0"]}, {"label": ["y", "z"]}),
        ({"y": ["0", "1"], "z": ["1", "0"]}, {"label": ["y", "z"], "task": "regression"}),
        ({"y": ["0", "1"], "z": ["1", "0"]}, {"label": ["y", "z"], "task": "classification"}),
        ({"y": [["a"], ["b"], None]}, {"task": "classification"}),
        ({"y": [[[1]], [[2]]]}, {}),
        ({"y": [f"{i}.5" for i in range(40)] + ["soon"]}, {}),
        ({"y": ["a", "b"]}, {"label": "z"}),
        ({"y": ["a", "b"]}, {"task": "ranking"}),
    ],
)
def test_wrong_labels_are_refused_as_in_memory(tmp_path, labels, options):
    tables = tables_of(tmp_path, labels, **options)
    assert check_same(tables, tmp_path / "store", 1) is None


def test_many_different_numbers_are_guessed_to_be_a_regression(tmp_path, monkeypatch):
    monkeypatch.setattr("linkdist.tables.nodes.DIFFERENT", 50)
    numbers = [f"{i},25" for i in range(200)]
    with small():
        store = check_same(tables_of(tmp_path, {"y": numbers}), tmp_path / "store", 2)
    assert store.task == "regression"
    assert store.manifest.label_format == {"decimal": ","}


def test_many_different_texts_still_give_all_classes(tmp_path, monkeypatch):
    monkeypatch.setattr("linkdist.tables.nodes.DIFFERENT", 5)
    texts = [f"{word}|{other}" for word in "abcdefgh" for other in "xyz"]
    with small():
        store = check_same(tables_of(tmp_path, {"y": texts}), tmp_path / "store", 2)
    assert store.classes == tuple("abcdefghxyz")


def test_tables_may_be_folders_and_globs(tmp_path):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "links").mkdir()
    for k in range(2):
        part = {"id": IDS[k::2], "age": NODES["age"][k::2], "y": NODES["y"][k::2]}
        write(tmp_path / f"nodes/{k}.parquet", part)
        write(tmp_path / f"links/{k}.parquet", {"s": IDS[k:-1:2], "t": IDS[k + 1 :: 2]})
    tables = Tables(tmp_path / "nodes", str(tmp_path / "links/*.parquet"), "id", "y")
    with small():
        check_same(tables, tmp_path / "store", 2)


# links --------------------------------------------------------------------------------------------

IDS = [f"n{i}" for i in range(9)]
NODES = {"id": IDS, "age": [float(i) for i in range(9)], "y": list("abcabcabc")}
RELATIONS = ["knows", "cites", "likes"]


def link_table(draw, weighted, relation):
    """The columns of a link table; unknown ids, self-loops and duplicates among them."""
    end = st.sampled_from([*IDS[:7], *IDS[:3], "nobody", None])
    rows = draw(st.lists(st.tuples(end, end), min_size=1, max_size=25))
    columns = {"to": pa.array([b for _, b in rows], "string"), "of": [a for a, _ in rows]}
    columns["of"] = pa.array(columns["of"], "string")
    many = {"min_size": len(rows), "max_size": len(rows)}
    if relation:
        columns["kind"] = draw(st.lists(st.sampled_from(RELATIONS), **many))
    if weighted:
        columns["weight"] = draw(st.lists(st.floats(0.125, 100, width=32), **many))
    return columns


@st.composite
def link_tables(draw):
    """Columns of one or more link tables by their names, and the options."""
    weighted, directed = draw(st.booleans()), draw(st.booleans())
    kind = draw(st.sampled_from(["one", "column", "several", "named"]))
    names = {"one": ["links"], "column": ["links"], "several": RELATIONS, "named": ["cites"]}[kind]
    tables = {name: link_table(draw, weighted, kind == "column") for name in names}
    options = {"directed": directed, "strict": draw(st.sampled_from([False, False, False, True]))}
    if draw(st.booleans()):
        options |= {"source": "of", "target": "to"}
    if weighted:
        options["weight"] = "weight"
    if kind == "column":
        options["relation"] = "kind"
    return tables, options, kind


def link_paths(folder, tables, kind, suffix="csv"):
    """Write link tables; what `Tables.edges` takes."""
    paths = {name: write(folder / f"{name}.{suffix}", one) for name, one in tables.items()}
    return paths if kind == "named" else list(paths.values())


@settings(max_examples=60, deadline=None)
@given(link_tables(), st.integers(1, 4), st.sampled_from(["csv", "parquet"]))
def test_links_of_every_kind_are_those_of_the_graph_in_memory(links, parts, suffix):
    tables, options, kind = links
    with TemporaryDirectory() as name, small():
        folder = Path(name)
        edges = link_paths(folder, tables, kind, suffix)
        nodes = write(folder / "nodes.csv", NODES)
        check_same(Tables(nodes, edges, "id", "y", **options), folder / "store", parts)


def table_with(folder, columns, **options):
    ends = {"s": ["n0", "n1", "n2", "n1"], "t": ["n1", "n2", "n0", "n0"]}
    edges = write(folder / "links.csv", ends | columns)
    return Tables(write(folder / "nodes.csv", NODES), edges, "id", "y", **options)


def test_relations_without_links_are_left_out(tmp_path):
    columns = {"s": ["x", "n1", "n2", "n1"], "kind": ["a", "b", "c", "b"]}
    tables = table_with(tmp_path, columns, relation="kind", directed=True)
    with small():
        store = check_same(tables, tmp_path / "store", 2)
    assert store.relations == ("b", "c")
    tables = table_with(tmp_path, columns | {"kind": ["a", "b", "b", "b"]}, relation="kind")
    with small():
        store = check_same(tables, tmp_path / "one", 2)
    assert store.relations == ("b",)
    assert not list((tmp_path / "one").glob("links/*.heads.npy"))


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"w": ["1", "-1", "x", ""]}, {"weight": "w"}),
        ({"kind": ["a", "", "b", "a"]}, {"relation": "kind"}),
        ({"kind": ["a", "", "b", "a"], "w": [1, 0, 1, 1]}, {"relation": "kind", "weight": "w"}),
        ({}, {"weight": "w"}),
        ({}, {"weight": "s"}),
        ({"s": ["x", "x", "x", "x"], "w": [1, 1, 1, 1]}, {"weight": "w"}),
    ],
)
def test_wrong_links_are_refused_as_in_memory(tmp_path, columns, options):
    tables = table_with(tmp_path, columns, **options)
    with small():
        assert check_same(tables, tmp_path / "store", 2) is None


def test_too_many_relations_are_refused_as_in_memory(tmp_path):
    columns = {"s": IDS[:1] * 21, "t": IDS[1:2] * 21, "kind": [f"k{i}" for i in range(21)]}
    tables = table_with(tmp_path, columns, relation="kind")
    assert check_same(tables, tmp_path / "store", 1) is None


def test_problems_of_several_tables_are_reported_at_once(tmp_path):
    good = {"s": ["n0", "n1"], "t": ["n1", "n2"], "w": [1.0, 2.0]}
    bad = good | {"w": [1.0, -2.0]}
    edges = [
        write(tmp_path / f"{name}.csv", one)
        for name, one in (("a", bad), ("b", good), ("c", bad), ("d", good | {"s": ["x", "y"]}))
    ]
    nodes = write(tmp_path / "nodes.csv", NODES)
    tables = Tables(nodes, edges[:3], "id", "y", weight="w")
    assert check_same(tables, tmp_path / "store", 1) is None
    assert check_same(Tables(nodes, edges[1::2], "id", "y"), tmp_path / "store", 1) is None
    tables = Tables(nodes, edges[:2], "id", "y", relation="w")
    assert check_same(tables, tmp_path / "store", 1) is None
