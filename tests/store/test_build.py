"""Oracle: the in-memory way, `read_nodes`, `read_links`, `with_own_loops` and `Graph.build`."""

from __future__ import annotations

import string
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.data.graph import Graph
from linkdist.errors import OptionError, StoreError, TableError
from linkdist.pipeline import Tables
from linkdist.progress import Callback
from linkdist.store import build as build_module
from linkdist.store import partition, resolve_links
from linkdist.store.build import build
from linkdist.store.keys import hash64
from linkdist.store.reader import Store
from linkdist.tables.links import read_links
from linkdist.tables.nodes import read_nodes
from linkdist.tables.parsing import text_of
from linkdist.tables.source import LINK_ROLES, ROLES
from tests.stores import as_arrays, build_papers, dense, papers_tables, small, tree, write

CELL = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)


@st.composite
def graphs(draw):
    """Columns of a node table and of a link table, and whether these may be CSV."""
    n = draw(st.integers(2, 12))
    kind = draw(st.sampled_from(["whole", "text"]))
    one = st.integers(-(10**12), 10**12) if kind == "whole" else CELL
    ids = draw(st.lists(one, min_size=n, max_size=n, unique_by=str))
    labels = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=n, max_size=n))
    labels[:2] = ["b", "a"]
    numbers = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)), min_size=n, max_size=n)
    nodes = {"id": ids, "class": labels, "age": [1.5, 2.5, *draw(numbers)[2:]]}
    extra = draw(st.sampled_from(["words", "shelf", "vector", ""]))
    if extra == "words":
        nodes["words"] = draw(st.lists(CELL, min_size=n, max_size=n))
    elif extra == "shelf":
        shelf = st.sampled_from(["top", "low"])
        nodes["shelf"] = draw(st.lists(shelf, min_size=n, max_size=n))
    elif extra == "vector":
        nodes["vector"] = [draw(st.lists(st.floats(-9, 9), min_size=3, max_size=3)) for _ in ids]
    stranger = st.just("nobody") if kind == "text" else st.just(10**13)
    end = st.one_of(st.sampled_from(ids), st.sampled_from(ids), st.none(), stranger)
    pairs = draw(st.lists(st.tuples(end, end), min_size=1, max_size=40))
    same = pa.int64() if kind == "whole" else pa.string()
    links = {name: pa.array([p[i] for p in pairs], same) for i, name in enumerate(("s", "t"))}
    return nodes, links, extra != "vector"


def in_memory(tables):
    nodes = read_nodes(tables.nodes, tables.id, tables.label, tables.kinds, tables.features)
    links, report = read_links(tables.edges, nodes.ids, tables.source, tables.target, tables.strict)
    every = links.with_own_loops(len(nodes.labels))
    return nodes, Graph.build(nodes.features, every, nodes.labels, nodes.classes), report


class Reports(Callback):
    def links(self, report):
        self.report = report


def check_same(tables, out, dtype, parts, **options):
    """Build, and compare all with the in-memory way; the store, or None where both refuse."""
    refusal = None
    try:
        nodes, graph, report = in_memory(tables)
    except TableError as error:
        refusal = str(error)
    if refusal is not None:
        with pytest.raises(TableError) as found:
            build(tables, out, parts=parts, dtype=dtype)
        assert str(found.value) == refusal
        return None
    told = Reports()
    store = build(tables, out, parts=parts, dtype=dtype, callback=told, **options)
    x, y, links = as_arrays(store, text_of(nodes.ids).to_pylist())
    expected = dense(graph.features)
    if store.kind == "float16":
        expected = expected.astype(np.float16)
    assert x.dtype == expected.dtype
    assert np.array_equal(x, expected)
    assert y.tolist() == graph.labels.tolist()
    assert links.tolist() == graph.links.tolist()
    assert told.report == report
    assert (store.n, store.m, store.d, store.classes) == (
        *(graph.n, len(graph.links), graph.d),
        graph.classes,
    )
    assert store.loops == (graph.links[:, 0] == graph.links[:, 1]).sum()
    assert store.encoders.state() == nodes.encoders.state()
    roles = {role: getattr(tables, role) for role in (*ROLES, *LINK_ROLES)} | {"unknown": []}
    assert store.about == roles | {"task": nodes.task, "relations": graph.relations}
    known = graph.labels[graph.labels >= 0]
    assert list(store.manifest.labelled) == np.bincount(known, minlength=graph.C).tolist()
    return store


def test_building_a_store_does_not_import_torch():
    """Building needs NumPy and PyArrow alone; PyTorch takes seconds and memory to import."""
    code = "import linkdist.store.build, linkdist.store.verify, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


STRICT = st.sampled_from([False, False, False, True])


@settings(max_examples=100, deadline=None)
@given(graphs(), st.integers(1, 5), st.booleans(), st.booleans(), STRICT)
def test_a_store_is_the_in_memory_graph_in_another_order(graph, parts, csv, half, strict):
    nodes, links, may_be_csv = graph
    ending = ".csv" if csv and may_be_csv else ".parquet"
    with TemporaryDirectory() as folder, small():
        paths = [
            write(Path(folder, f"{name}{ending}"), columns)
            for name, columns in (("nodes", nodes), ("links", links))
        ]
        kinds = {"words": "text"} if "words" in nodes else {}
        tables = Tables(*paths, "id", "class", kinds=kinds, strict=strict)
        check_same(tables, Path(folder, "store"), "float16" if half else "float32", parts)


@pytest.mark.parametrize("budget", [2400, 1 << 27], ids=["a batch at a time", "all at once"])
def test_the_papers_are_the_same_however_they_come(papers, tmp_path, monkeypatch, budget):
    monkeypatch.setattr(build_module, "MIN_BUFFER", budget)
    monkeypatch.setattr(build_module, "MAX_BUFFER", budget)
    monkeypatch.setattr(resolve_links, "CHUNK", 100)
    with small():
        store = check_same(papers_tables(papers), tmp_path / "store", "float16", 4)
    assert store.kind == "csr"
    assert not list(tmp_path.glob("*.building"))


def test_features_of_both_kinds_are_chosen_by_the_columns(papers, tmp_path):
    with small():
        dense_one = Tables(
            papers / "nodes.csv", papers / "links.csv", "paper", "field", features=["year"]
        )
        assert check_same(dense_one, tmp_path / "half", "float16", 2).kind == "float16"
        assert check_same(dense_one, tmp_path / "single", "float32", 2).kind == "float32"


def test_out_is_filled_in_place(papers, tmp_path):
    with small():
        tables = papers_tables(papers, features=["year"])
        store = build(tables, tmp_path / "store", parts=2)
    n = int(store.sizes[0])
    out = np.full((n + 3, store.d), 7, np.float16)
    x = store.features(0, out)
    assert np.shares_memory(x, out)
    assert np.array_equal(x, store.features(0))
    assert (out[n:] == 7).all()
    with pytest.raises(ValueError, match="out must be a C-contiguous float16"):
        store.features(0, out.astype(np.float32))


# what is wrong with the tables --------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Tables whose columns a test may change."""

    def make(nodes=None, links=None, **options):
        columns = {
            "id": [str(i) for i in range(20)],
            "class": ["a", "b"] * 10,
            "age": [float(i) for i in range(20)],
        }
        ends = {"s": [str(i) for i in range(19)], "t": [str(i + 1) for i in range(19)]}
        return Tables(
            write(tmp_path / "nodes.parquet", columns | (nodes or {})),
            write(tmp_path / "links.parquet", ends | (links or {})),
            "id",
            "class",
            **options,
        )

    return make


def refused(tables, tmp_path, kind=TableError, **options):
    with small(), pytest.raises(kind) as found:
        build(tables, tmp_path / "store", **{"parts": 3, **options})
    assert not (tmp_path / "store").exists()
    return str(found.value)


def test_ids_that_stand_twice_are_told_with_their_rows(table, tmp_path):
    ids = [str(i % 8) for i in range(20)]
    tables = table({"id": ids})
    with pytest.raises(TableError) as expected:
        read_nodes(tables.nodes, "id", "class")
    found = refused(tables, tmp_path)
    assert found == str(expected.value)
    assert "'0' in rows 1 and 9" in found
    assert "12 in total" in found
    assert refused(tables, tmp_path) == found, "asked again, the same is said"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "age"}, "a store contains one graph"),
        ({"nodes": ["a.csv", "b.csv"]}, "a store contains one graph"),
        (
            {"labels": "more.csv", "text_encoder": len},
            "labels and text from its only node table; found --labels, a text encoder.",
        ),
        ({"edges": {"s": ["0"], "t": ["1"]}}, "a store is built from files; found a table in"),
    ],
)
def test_what_a_store_cannot_contain_is_refused(table, tmp_path, options, message):
    assert message in refused(replace(table(), **options), tmp_path, OptionError)


def test_numbers_become_classes_of_a_store_only_if_asked_for(table, tmp_path):
    numbers = [i + 0.25 for i in range(25)]
    ids = [str(i) for i in range(25)]
    tables = table({"id": ids, "class": numbers, "age": numbers})
    assert build(tables, tmp_path / "numbers").task == "regression"
    assert len(build(replace(tables, task="classification"), tmp_path / "out").classes) == 25


def test_missing_ids_and_labels_are_told_at_once(table, tmp_path):
    tables = table({"id": [None, *map(str, range(19))], "class": ["a"] * 20})
    found = refused(tables, tmp_path)
    assert "must contain an id in each row; row 1 is empty" in found
    assert "two classes or more" in found


def test_a_link_to_a_node_that_is_not_there_is_refused_if_strict(table, tmp_path):
    links = {"s": ["0", "x", "2", None, "3"], "t": ["1", "0", "1", "2", "y"]}
    found = refused(table(links=links, strict=True), tmp_path)
    rule = "links must connect nodes of the node table"
    assert f"{rule}; row 2 has 'x', row 4 is empty, row 5 has 'y'." in found


def test_all_that_strict_refuses_is_told_at_once(table, tmp_path):
    links = {"s": ["0", "1", "2", "x"], "t": ["1", "0", "2", "0"]}
    tables = table(links=links, strict=True)
    with pytest.raises(TableError) as expected:
        in_memory(tables)
    assert refused(tables, tmp_path) == str(expected.value)
    assert str(expected.value).count(";") == 3


def test_two_ids_of_one_hash_end_in_a_sentence(table, tmp_path, monkeypatch):
    def same_for_two(text):
        keys = hash64(text)
        where = [i for i, value in enumerate(text.to_pylist()) if value in ("3", "11")]
        keys[where] = 12345
        return keys

    monkeypatch.setattr(partition, "hash64", same_for_two)
    found = refused(table(), tmp_path, StoreError)
    assert "the ids '3' and '11' have the same 64-bit hash" in found


def test_a_feature_too_large_for_float16_names_the_way_out(table, tmp_path):
    # Only in thousands of millions of rows can one lie so far out; so the encoder is told.
    tables = table()
    encoders = read_nodes(tables.nodes, "id", "class").encoders
    encoders.columns[0].mean, encoders.columns[0].deviation = 0.0, 1e-9
    x = encoders.transform(pa.record_batch({"age": [0.0, 1.0]}))
    with pytest.raises(TableError) as found:
        partition.as_float16(x, tables.nodes, 8, encoders)
    assert "row 9 is 1e+06 standard deviations from the mean of column 'age'" in str(found.value)
    assert "Give --dtype float32" in str(found.value)


def test_too_many_parts_are_refused_with_the_most_that_are_possible(papers, tmp_path):
    with pytest.raises(OptionError) as found:
        build(papers_tables(papers), tmp_path / "store", parts=12)
    assert "12 parts are too many for 4796 links: with more than 11 parts" in str(found.value)
    assert "Give --parts 11 or fewer." in str(found.value)


@pytest.mark.parametrize("parts", [None, 1, 3])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_empty_link_table_is_told_as_the_in_memory_way_tells_it(papers, tmp_path, ending, parts):
    edges = write(tmp_path / f"links.{ending}", {"a": pa.array([], "int64"), "b": []})
    tables = Tables(papers / "nodes.csv", edges, "paper", "field")
    with pytest.raises(TableError) as expected:
        read_links(edges, pa.array([1, 2]))
    with pytest.raises(TableError) as found:
        build(tables, tmp_path / "store", parts=parts)
    assert str(found.value) == str(expected.value)
    assert "the table has no rows; a graph needs links" in str(found.value)
    assert list(tmp_path.iterdir()) == [edges]


def test_too_little_memory_says_how_much_it_takes(papers, tmp_path):
    with pytest.raises(OptionError, match="is too small for 1200 nodes") as found:
        build(papers_tables(papers), tmp_path / "store", memory=10_000)
    enough = int(str(found.value).split("--memory ")[1].split()[0])
    assert build(papers_tables(papers), tmp_path / "store", memory=enough).P == 11


def test_an_existing_directory_stays_unless_it_is_a_store_and_may_go(papers, tmp_path):
    out = tmp_path / "store"
    build_papers(papers, out)
    before = tree(out)
    with pytest.raises(OptionError, match=r"is already a store.*--overwrite"):
        build_papers(papers, out)
    assert build_papers(papers, out, parts=2, overwrite=True).P == 2
    assert tree(out) != before
    (out / "notes.md").write_text("mine")
    with pytest.raises(OptionError, match=r"contains notes\.md; only an empty directory or a"):
        build_papers(papers, out, overwrite=True)
    (tmp_path / "other.building").mkdir()
    (tmp_path / "other.building" / "notes.md").write_text("mine")
    with pytest.raises(OptionError, match="not a store that is being built"):
        build_papers(papers, tmp_path / "other")
    assert [path.name for path in (tmp_path / "other.building").iterdir()] == ["notes.md"]
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is a file"):
        build_papers(papers, tmp_path / "file")


def test_columns_and_names_are_those_of_the_tables(tmp_path):
    rows = [f"{a}{b}" for a in string.ascii_lowercase for b in "xyz"]
    nodes = write(tmp_path / "n.csv", {"key": rows, "y": ["1", "10", "2"] * 26, "v": range(78)})
    edges = write(tmp_path / "e.csv", {"when": range(77), "to": rows[1:], "from": rows[:-1]})
    tables = Tables(nodes, edges, "key", "y", source="from", target="to")
    with small():
        store = check_same(tables, tmp_path / "store", "float32", 3)
    assert store.classes == ("1", "2", "10")
    assert Store.open(tmp_path / "store").manifest == store.manifest
    assert store.manifest.source["nodes"] == "n.csv"
