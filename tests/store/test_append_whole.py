"""Appends to stores of every task and of all kinds of links. Oracle: a build from all tables."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.errors import StoreError, TableError
from linkdist.pipeline import Tables
from linkdist.store.append import append
from linkdist.store.build import build
from linkdist.store.format import MANIFEST
from linkdist.store.verify import check
from linkdist.store.whole import read_whole
from linkdist.tables.nodes import read_nodes
from linkdist.tables.targets import LabelFormat
from tests.store.growing import Report
from tests.store.test_whole import edges_of
from tests.stores import dense, small, tree, write

IDS = [f"n{i}" for i in range(10)]
AGES = [float(i % 4) for i in range(10)]
WORDS = ["drama", "war", "love"]
RELATIONS = ["knows", "cites", "likes"]
OLD = 4
"""The number of nodes of the build, whose labels have all classes."""


def lists(*values):
    return st.lists(st.sampled_from(values), unique=True, min_size=1)


FIRST = {
    "classes": (["war", "love", "drama", None], st.sampled_from(WORDS)),
    "numbers": ([0.5, 2.5, None, 1.0], st.floats(-1e6, 1e6)),
    "comma": (["3,5", "4,25", None, "1"], st.sampled_from(["1.200", "0,125", "7"])),
    "columns": (["0", "1", "1", None], st.sampled_from(["0", "1"])),
    "lists": ([["war"], ["love", "war"], ["drama"], None], lists(*WORDS)),
    "separated": (["war", "love|war", "drama|war", None], lists(*WORDS).map("|".join)),
}
OPTIONS = {
    "numbers": {"task": "regression"},
    "comma": {"task": "regression"},
    "columns": {"label": ["y", "z"]},
    "separated": {"task": "multilabel"},
}


@st.composite
def node_columns(draw):
    """The columns of a node table and the roles of the labels."""
    kind = draw(st.sampled_from(list(FIRST)))
    first, values = FIRST[kind]
    rest = draw(st.lists(st.none() | values, min_size=6, max_size=6))
    nodes = {"id": IDS, "age": AGES, "y": pa.array([*first, *rest])}
    if kind == "columns":
        nodes["z"] = [None if one is None else "01"[one == "0"] for one in [*first, *rest]]
    return nodes, {"label": "y", **OPTIONS.get(kind, {})}


@st.composite
def link_rows(draw, names, loops):
    """Rows of ends, relation and weight; only linked nodes have self-loops, except with `loops`."""
    end, weight = st.sampled_from([*IDS, "nobody", None]), st.floats(0.125, 100, width=32)
    row = st.tuples(end, end, st.sampled_from(names), st.just(1.0) | weight)
    rows = draw(st.lists(row, max_size=15))
    return [row for row in rows if row[0] != row[1] or loops or row[0] in IDS[:2]]


@st.composite
def growing_stores(draw):
    """Columns of nodes, options, and the number of nodes and the rows of links of each stage."""
    nodes, options = draw(node_columns())
    kind = draw(st.sampled_from(["one", "column", "several"]))
    names = ["links"] if kind == "one" else RELATIONS
    options["directed"] = draw(st.booleans())
    if draw(st.booleans()):
        options["weight"] = "strength"
    if kind == "column":
        options["relation"] = "kind"
    first = [("n0", "n1", name, 2.0) for name in names]
    stages = [(OLD, first + draw(link_rows(names, loops=False)))]
    if draw(st.booleans()):
        stages.append((7, draw(link_rows(names, loops=False))))
    stages.append((draw(st.integers(stages[-1][0], len(IDS))), draw(link_rows(names, loops=True))))
    return nodes, options, kind, stages


def some_rows(columns, start, end):
    return {name: values[start:end] for name, values in columns.items()}


def table_of(rows, options):
    """A link table; its first two columns are not those of the ends."""
    texts = {"kind": [row[2] for row in rows], "strength": [str(row[3]) for row in rows]}
    texts = {name: texts[name] for name in texts if name in options.values()}
    texts |= {"to": [row[1] for row in rows], "of": [row[0] for row in rows]}
    return {name: pa.array(values, "string") for name, values in texts.items()}


def link_tables(rows, options, kind):
    """A table, or one for each relation that has rows."""
    if kind != "several":
        return table_of(rows, options) if rows else None
    each = {name: [row for row in rows if row[2] == name] for name in RELATIONS}
    return {name: table_of(some, options) for name, some in each.items() if some} or None


def build_from(folder, name, nodes, rows, options, kind, parts):
    edges = link_tables(rows, options, kind)
    if kind == "several":
        paths = [write(folder / f"{name}.{one}.parquet", edges[one]) for one in RELATIONS]
        edges = dict(zip(RELATIONS, paths, strict=True))
    else:
        edges = write(folder / f"{name}.links.csv", edges)
    table = write(folder / f"{name}.parquet", nodes)
    tables = Tables(table, edges, "id", features=["age"], source="of", target="to", **options)
    return build(tables, folder / name, parts=parts, dtype="float32")


def known_rows(rows, end, kind):
    """The rows between nodes that exist, as an append skips the others."""
    there = [row for row in rows if {row[0], row[1]} <= set(IDS[:end])]
    if kind != "several":
        return there and rows, there
    return [row for row in rows if any(row[2] == one[2] for one in there)], there


def append_stage(store, nodes, edges):
    """Append; the store as it was if it has all of this already."""
    before, reports = tree(store.directory), Report()
    if nodes is None and edges is None:
        return store
    problem = ""
    try:
        store = append(store.directory, nodes, edges, callback=reports)
    except StoreError as error:
        problem = str(error)
    if problem:
        assert problem.endswith("has all these links already, so there is nothing to append.")
        assert tree(store.directory) == before
        assert nodes is None
        assert not store.weighted
        return store
    assert check(store.directory) == []
    if edges is not None:
        found = reports.report
        assert found.total == found.kept + found.duplicates + found.unknown
        assert sum(count for _, count in found.relations) in (0, found.kept)
    return store


def assert_same(store, rebuilt, end):
    """Compare two stores of the first nodes, except for the features."""
    graphs = []
    for one in (store, rebuilt):
        graph, _ = read_whole(one)
        ids = [text for part in range(one.P) for text in one.ids(part).to_pylist()]
        places = np.array([IDS.index(text) for text in ids])
        assert sorted(places.tolist()) == list(range(end))
        graphs.append((edges_of(graph, places), graph.labels[np.argsort(places)]))
    ((edges, weights), labels), ((their_edges, their_weights), their_labels) = graphs
    assert edges == their_edges
    np.testing.assert_allclose(weights, their_weights, rtol=1e-6)
    np.testing.assert_array_equal(labels, their_labels)
    for name in ("n", "m", "loops", "task", "classes", "relations", "heads", "weighted"):
        assert getattr(store, name) == getattr(rebuilt, name), name
    assert store.manifest.labelled == rebuilt.manifest.labelled
    assert store.about == rebuilt.about
    if store.weighted:
        own, theirs = store.manifest.own_loops, rebuilt.manifest.own_loops
        assert own.number == theirs.number
        assert own.weight == pytest.approx(theirs.weight, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(growing_stores(), st.integers(1, 3))
def test_an_appended_store_of_any_kind_is_the_store_of_all_tables(graph, parts):
    nodes, options, kind, stages = graph
    with TemporaryDirectory() as name, small():
        folder, (end, rows) = Path(name), stages[0]
        store = build_from(folder, "store", some_rows(nodes, 0, end), rows, options, kind, parts)
        _, every = known_rows(rows, end, kind)
        for stop, more in stages[1:]:
            new = some_rows(nodes, end, stop) if stop > end else None
            rows, there = known_rows(more, stop, kind)
            store = append_stage(store, new, link_tables(rows, options, kind))
            every, end = every + there, stop
        whole = some_rows(nodes, 0, end)
        rebuilt = build_from(folder, "rebuilt", whole, every, options, kind, parts)
        assert_same(store, rebuilt, end)
        form = LabelFormat.of(store.about, store.classes)
        label = options["label"]
        expected = read_nodes(whole, "id", label, encoders=store.encoders, label_format=form)
        graph, _ = read_whole(store)
        ids = [text for part in range(store.P) for text in store.ids(part).to_pylist()]
        order = [IDS.index(text) for text in ids]
        assert np.array_equal(dense(graph.features), dense(expected.features)[order])


# what an append changes, and what it refuses ------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """A store with weights and relations; n2 and n3 have no links."""
    rows = [("n0", "n1", "cites", 2.0), ("n1", "n0", "knows", 4.0)]
    options = {"label": "y", "weight": "strength", "relation": "kind"}
    nodes = some_rows({"id": IDS, "age": AGES, "y": ["a", "b", "a", None]}, 0, OLD)
    with small():
        found = build_from(tmp_path, "store", nodes, rows, options, "column", 1)
    assert found.manifest.own_loops == (2, 3.0)
    return found.directory


def rows_of_links(*rows):
    return table_of(rows, {"relation": "kind", "weight": "strength"})


def weights_of(found):
    """The weight of each link, by its relation and ids."""
    links = {}
    for a in range(found.P):
        for b in range(a, found.P):
            pairs, heads, weights = found.bucket(a, b)
            for (i, j), head, weight in zip(pairs, heads, weights, strict=True):
                ids = sorted([found.ids(a)[int(i)].as_py(), found.ids(b)[int(j)].as_py()])
                links[found.heads[head], *ids] = float(weight)
    return links


def test_weights_are_added_up_and_loops_have_the_average(store):
    found = append(store, None, rows_of_links(("n1", "n0", "cites", 5.0), ("n0", "n1", "cites", 1)))
    weights = {("cites", "n0", "n1"): 8.0, ("knows", "n0", "n1"): 4.0}
    assert weights_of(found) == weights | {("cites", id, id): 6.0 for id in ("n2", "n3")}
    assert found.manifest.own_loops == (2, 6.0)
    assert {name for name, file in found.manifest.files.items() if file.generation} == {
        "links/0000-0000.weights.npy"
    }
    found = append(store, None, rows_of_links(("n2", "n2", "cites", 3.0)))
    weights[("cites", "n2", "n2")] = 3.0
    assert weights_of(found) == weights | {("cites", "n3", "n3"): 5.0}
    nodes = {"id": ["n4"], "age": [1.0], "y": [None]}
    found = append(store, nodes, rows_of_links(("n2", "n4", "knows", 5.0)))
    weights[("knows", "n2", "n4")] = 5.0
    assert weights_of(found) == weights | {("cites", "n3", "n3"): 5.0}
    assert check(store) == []


def test_a_loop_of_a_linked_node_with_the_average_weight_is_kept(store):
    append(store, None, rows_of_links(("n0", "n0", "cites", 3.0)))
    found = append(store, None, rows_of_links(("n0", "n1", "knows", 4.0)))
    assert found.manifest.own_loops.weight == pytest.approx(13 / 3)
    assert weights_of(found)["cites", "n0", "n0"] == 3.0
    assert weights_of(found)["cites", "n2", "n2"] == pytest.approx(13 / 3)


def test_loops_of_two_relations_are_kept(tmp_path):
    names = RELATIONS[:2]
    rows = [*(("n0", "n1", one, 1.0) for one in names), *(("n2", "n2", one, 1.0) for one in names)]
    nodes = {"id": IDS[:OLD], "age": AGES[:OLD], "y": ["a", "b", "a", None]}
    options = {"label": "y", "relation": "kind"}
    with small():
        store = build_from(tmp_path, "store", nodes, rows, options, "column", 1)
        new = [("n2", "n3", "cites", 1.0)]
        store = append(store.directory, None, table_of(new, options))
        rebuilt = build_from(tmp_path, "rebuilt", nodes, rows + new, options, "column", 1)
    assert store.loops == 2
    assert_same(store, rebuilt, OLD)


def refused(store, *tables, kind=TableError):
    before = tree(store)
    with pytest.raises(kind) as found:
        append(store, *tables)
    assert tree(store) == before
    return str(found.value)


def test_wrong_relations_and_weights_are_reported_at_once(store):
    rows = [("n0", "n1", "likes", 1.0), ("n0", "n2", "cites", -1.0), ("n0", "n3", None, 1.0)]
    found = refused(store, None, rows_of_links(*rows))
    assert "the store was built with the relations cites, knows; found others: 'likes' (1 row)" in (
        found
    )
    assert "column 'strength' must contain positive numbers" in found
    assert "column 'kind' must contain a relation in every row; row 3 is empty" in found
    table = {"of": ["n0"], "to": ["n2"]}
    found = refused(store, None, table)
    rule = "the store was built with the relations in column 'kind' and the weights in column"
    assert f"{rule} 'strength'; found only of, to. Add these columns." in found


def test_tables_of_relations_are_refused_without_relations(tmp_path):
    rows = [("n0", "n1", "links", 1.0)]
    nodes = {"id": IDS, "age": AGES, "y": list("abababab") + [None] * 2}
    with small():
        build_from(tmp_path, "store", nodes, rows, {"label": "y"}, "one", 1)
    tables = {name: table_of(rows, {}) for name in ("cites", "knows")}
    rule = "the store was built without relations, so it takes one link table; found cites, knows."
    assert refused(tmp_path / "store", None, tables) == rule


@pytest.mark.parametrize(
    ("kind", "label", "problem"),
    [
        ("numbers", "soon", "column 'y' must contain numbers"),
        ("columns", "2", "column 'y' must contain 0 or 1"),
        ("separated", "war|opera", "classes that the store does not have"),
    ],
)
def test_wrong_labels_of_every_task_are_reported(tmp_path, kind, label, problem):
    nodes = {"id": IDS[:OLD], "age": AGES[:OLD], "y": FIRST[kind][0]}
    if kind == "columns":
        nodes["z"] = ["1", "0", "0", None]
    options = {"label": "y", **OPTIONS[kind]}
    with small():
        build_from(tmp_path, "store", nodes, [("n0", "n1", "links", 1.0)], options, "one", 1)
    new = {"id": ["n4"], "age": [1.0], "y": [label], "z": ["1"]}
    assert problem in refused(tmp_path / "store", new)
    if kind == "columns":
        found = refused(tmp_path / "store", {"id": ["n4"], "age": [1.0], "y": ["1"]})
        assert "unknown column 'z'" in found
        assert "must all have a value" not in found


def test_an_empty_table_of_a_relation_is_skipped_beside_another(tmp_path):
    rows = [("n0", "n1", name, 1.0) for name in RELATIONS]
    nodes = {"id": IDS, "age": AGES, "y": list("abababab") + [None] * 2}
    with small():
        build_from(tmp_path, "store", nodes, rows, {"label": "y"}, "several", 2)
    empty, new = table_of([], {}), table_of([("n2", "n3", "", 1.0)], {})
    found = append(tmp_path / "store", None, {"likes": empty, "cites": new})
    assert found.m == len(rows) + 1 + 6
    message = refused(tmp_path / "store", None, {"likes": empty, "cites": empty})
    assert message.count("the table has no rows. Leave it out, or add links") == 2


def test_a_store_without_the_average_weight_is_refused(store):
    path = store / MANIFEST
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"own_loops": None}))
    assert "does not record the average weight" in refused(store, None, {}, kind=StoreError)
