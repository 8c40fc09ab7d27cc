"""Oracles: a build from the old and new tables, sets of links in plain Python, the old bytes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.errors import OptionError, StoreError, TableError
from linkdist.pipeline import Tables
from linkdist.store import append as append_module
from linkdist.store import append_nodes, find_nodes
from linkdist.store.append import append
from linkdist.store.build import build
from linkdist.store.format import MANIFEST
from linkdist.store.keys import hash64
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.store.verify import check
from linkdist.tables.nodes import read_nodes
from tests.store.growing import (
    NEW_LINKS,
    OLD_LINKS,
    Report,
    append_new,
    build_from,
    link_columns,
    path_nodes,
)
from tests.stores import as_arrays, dense, small, tree, write

CELL = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9)


class PlainGraph:
    """A graph as sets of ids, to which nodes and links are appended by the rules of a store."""

    def __init__(self):
        self.nodes, self.links = [], set()

    def append(self, nodes, rows):
        """Append, and return the counts of a `LinkReport`."""
        old = {id for id in self.nodes if self._neighbours(id) == {id}}
        self.nodes += nodes
        known = [tuple(sorted(row)) for row in rows if set(row) <= set(self.nodes)]
        for id in old:
            if any(id in link and link[0] != link[1] for link in known):
                self.links.remove((id, id))
        new = set(known) - self.links
        self.links |= new
        self.links |= {(id, id) for id in nodes if not self._neighbours(id)}
        loops = sum(a == b for a, b in new)
        return len(rows), len(new), len(rows) - len(known), len(known) - len(new), loops

    def _neighbours(self, id):
        return {other for link in self.links if id in link for other in link if other != id} | (
            {id} if (id, id) in self.links else set()
        )


@st.composite
def growing_graphs(draw):
    """The node columns of a whole graph, and the numbers of nodes and the links of each stage."""
    n = draw(st.integers(3, 14))
    ids = draw(st.lists(CELL, min_size=n, max_size=n, unique=True))
    labels = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n))
    numbers = draw(st.lists(st.floats(-99, 99, width=16), min_size=n, max_size=n))
    nodes = {"id": ids, "class": ["b", "a", *labels[2:]], "age": [1.5, 2.5, *numbers[2:]]}
    if draw(st.booleans()):
        nodes["words"] = draw(st.lists(CELL, min_size=n, max_size=n))
    ends = sorted(draw(st.lists(st.integers(2, n), min_size=1, max_size=4)))
    stages = []
    for end in [*ends[:-1], n]:
        one = st.sampled_from([*ids, "nobody in the table"])
        stages.append((end, draw(st.lists(st.tuples(one, one), max_size=12))))
    stages[0][1].append((ids[0], ids[1]))
    return nodes, stages


def columns_of(nodes, start, end):
    return {name: values[start:end] for name, values in nodes.items()}


def grown(folder, nodes, stages, **options):
    """Build a store from the first stage and append the others; compare the reports."""
    plain, (end, rows) = PlainGraph(), stages[0]
    store = build_from(folder, columns_of(nodes, 0, end), rows, **options)
    plain.append(nodes["id"][:end], rows)
    for stop, more in stages[1:]:
        new = columns_of(nodes, end, stop) if stop > end else None
        edges = link_columns(more) if more else None
        before, reports = tree(store.directory), Report()
        counts = plain.append(nodes["id"][end:stop], more)
        end = stop
        if edges is not None and counts[2] == counts[0]:  # no row is a link
            with pytest.raises(TableError, match="but no row contains two of them"):
                append(store.directory, new, edges)
            assert tree(store.directory) == before
            edges = None
        if new is None and not counts[1]:
            with suppress(StoreError, OptionError):
                append(store.directory, None, edges)
                raise AssertionError("there is nothing to append")
            assert tree(store.directory) == before
            continue
        store = append(store.directory, new, edges, callback=reports)
        assert check(store.directory) == []
        if edges is not None:
            found = reports.report
            assert counts == (found.total, found.kept, found.unknown, found.duplicates, found.loops)
    return store, plain


@settings(max_examples=40, deadline=None)
@given(growing_graphs(), st.integers(1, 4), st.sampled_from(["float16", "float32"]), st.booleans())
def test_an_appended_store_is_the_store_of_all_tables(graph, parts, dtype, loops):
    nodes, stages = graph
    if not loops:
        stages = [(end, [row for row in rows if row[0] != row[1]]) for end, rows in stages]
    with TemporaryDirectory() as name, small():
        folder, ids = Path(name), nodes["id"]
        store, plain = grown(folder, nodes, stages, parts=parts, dtype=dtype)
        x, y, links = as_arrays(store, ids)
        expected = read_nodes(nodes, "id", "class", encoders=store.encoders, classes=store.classes)
        features = dense(expected.features)
        assert np.array_equal(x, features if store.kind == "csr" else features.astype(dtype))
        assert y.tolist() == expected.labels.tolist()
        places = {id: i for i, id in enumerate(ids)}
        found = {tuple(sorted((ids[a], ids[b]))) for a, b in links.tolist()}
        assert found == plain.links
        assert store.loops == sum(places[a] == places[b] for a, b in plain.links)
        if not loops:
            # A link is skipped if it comes before one of its nodes, so the build skips it, too.
            rows = [row for end, some in stages for row in some if set(row) <= set(ids[:end])]
            rebuilt = build_from(folder, nodes, rows, "rebuilt", parts=parts, dtype=dtype)
            _, theirs, expected_links = as_arrays(rebuilt, ids)
            assert links.tolist() == expected_links.tolist()
            assert y.tolist() == theirs.tolist()
            for one in ("n", "m", "loops", "classes", "kind"):
                assert getattr(store, one) == getattr(rebuilt, one)
            assert store.manifest.labelled == rebuilt.manifest.labelled


@settings(max_examples=15, deadline=None)
@given(growing_graphs(), st.integers(1, 3))
def test_chunks_of_links_do_not_change_the_bytes(graph, parts):
    nodes, stages = graph
    with TemporaryDirectory() as name, small():
        trees = []
        for number, size in enumerate([1, 1 << 16]):
            folder = Path(name, str(number))
            folder.mkdir()
            with mock.patch.multiple(append_module, MIN_LINKS=size, LINK_BYTES=1 << 40):
                grown(folder, nodes, stages, parts=parts)
            trees.append(tree(folder / "store"))
        assert trees[0] == trees[1]


# a small graph for the other tests: a path through 18 of 20 nodes ---------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with small():
        return build_from(tmp_path_factory.mktemp("stores"), path_nodes(0, 20), OLD_LINKS, parts=3)


@pytest.fixture
def store(built, tmp_path):
    """A store of a test's own."""
    return shutil.copytree(built.directory, tmp_path / "store")


@pytest.fixture(scope="module")
def undisturbed(built, tmp_path_factory):
    """The bytes of the store after the append that most tests make."""
    folder = shutil.copytree(built.directory, tmp_path_factory.mktemp("appended") / "store")
    append_new(folder)
    return tree(folder)


def test_only_files_that_change_are_written(store, built, undisturbed):
    before = {path: path.stat().st_ino for path in store.rglob("*") if path.is_file()}
    found = append_new(store)
    assert found.manifest.hashed == 3
    assert found.P == 4
    assert not [path for path in store.rglob("*") if path.is_dir() and path.name == "work"]
    kept = [name for name, file in found.manifest.files.items() if not file.generation]
    for name in kept:
        assert (store / name).stat().st_ino == before[store / name]
        assert found.manifest.files[name] == built.manifest.files[name]
    assert {name for name in built.manifest.files if name.startswith("parts/")} <= set(kept)
    written = {name for name, file in found.manifest.files.items() if file.generation}
    places = {id: (p, r) for p in range(4) for r, id in enumerate(found.ids(p).to_pylist())}
    changed = {"n20-n0", "n21-n3", "n20-n21", "n4-n9", "n0-n0", "n22-n22"}
    pairs = {tuple(sorted(places[id][0] for id in link.split("-"))) for link in changed}
    pairs |= {(a, 3) for a in range(4)}  # files of a new part exist even if they are empty
    assert {name for name in written if name.startswith("links/")} == {
        f"links/{a:04}-{b:04}.npy" for a, b in pairs
    }
    assert tree(store) == undisturbed
    names = {found.manifest.path(name) for name in found.manifest.files} | {MANIFEST}
    assert set(tree(store)) == names


def test_digests_of_untouched_files_are_not_computed(store):
    digests, real = [], hashlib.file_digest
    with mock.patch.object(hashlib, "file_digest", lambda *a: digests.append(a) or real(*a)):
        append(store, path_nodes(20, 21))
    assert sorted(Path(file.name).name for file, _ in digests) == [
        "0003.features.1.npy",
        "0003.ids.1.arrow",
    ]


def test_an_isolated_node_loses_its_loop_and_a_new_one_gets_one(store):
    found = append_new(store)
    ids = [f"n{i}" for i in range(23)]
    _, _, links = as_arrays(found, ids)
    assert [pair for pair in links.tolist() if pair[0] == pair[1]] == [[1, 1], [22, 22]]
    assert found.loops == 2
    assert found.manifest.source["appended"] == [
        {
            "nodes": "the node table",
            "edges": "the link table",
            "links": "4 links from 5 rows; duplicates merged: 1.",
            "isolated": 1,
            "linked": 1,
        }
    ]


def test_a_loop_of_a_linked_node_is_kept(tmp_path):
    loops = [(f"n{i}", f"n{i}") for i in range(20)]
    with small():
        build_from(tmp_path, path_nodes(0, 20), OLD_LINKS + loops, parts=3)
        rows = [(f"n{i}", f"n{(i + 5) % 20}") for i in range(20)]
        found = append(tmp_path / "store", None, link_columns(rows))
    _, _, links = as_arrays(found, [f"n{i}" for i in range(20)])
    kept = [a for a, b in links.tolist() if a == b]
    assert kept == list(range(2, 20)), "only 0 and 1 had no other link"


def test_many_small_appends_fill_one_part(store):
    sizes = []
    for i in range(20, 40):
        found = append(store, path_nodes(i, i + 1), link_columns([(f"n{i}", f"n{i - 1}")]))
        sizes.append(found.manifest.sizes)
    capacity = max(sizes[0][:3])
    assert all(found[:3] == sizes[0][:3] for found in sizes)
    assert all(sum(found) == 21 + i for i, found in enumerate(sizes))
    assert all(set(found[3:-1]) <= {capacity} and found[-1] <= capacity for found in sizes)
    assert check(store) == []
    assert len(found.manifest.source["appended"]) == 20
    _, _, links = as_arrays(found, [f"n{i}" for i in range(40)])
    assert links.tolist() == [[0, 0], [1, 1], *([i, i + 1] for i in range(2, 39))]


def test_links_or_nodes_alone_are_appended(store):
    found = append(store, None, link_columns([("n0", "n1")]))
    assert (found.n, found.m, found.loops, found.P) == (20, 18, 0, 3)
    found = append(store, path_nodes(20, 22))
    assert (found.n, found.m, found.loops, found.P) == (22, 20, 2, 4)
    found = append(store, None, link_columns([("n20", "n21")]))
    assert (found.n, found.m, found.loops, found.P) == (22, 19, 0, 4)
    assert check(store) == []
    with pytest.raises(OptionError, match=r"nothing to append\. Give --nodes, --edges or both"):
        append(store)


def test_columns_of_links_are_those_of_the_store(tmp_path):
    nodes = write(tmp_path / "n.csv", path_nodes(0, 20))
    edges = write(tmp_path / "e.csv", {"when": [1, 1], "to": ["n1", "n2"], "from": ["n2", "n3"]})
    with small():
        build(Tables(nodes, edges, "id", "class", source="from", target="to"), tmp_path / "store")
    new = {"from": ["n8"], "when": [2], "to": ["n9"]}
    reports = Report()
    found = append(tmp_path / "store", None, new, callback=reports)
    assert found.m == 3 + 15
    assert reports.report.unused == ("when",)
    other = {"one": ["n5"], "two": ["n6"]}
    assert append(tmp_path / "store", None, other, source="two", target="one").m == 19 - 2


# what is wrong with the tables --------------------------------------------------------------------


def refused(store, *tables, kind=TableError, **options):
    before = tree(store)
    with pytest.raises(kind) as found:
        append(store, *tables, **options)
    assert tree(store) == before
    return str(found.value)


def test_all_problems_of_new_nodes_are_reported_at_once(store):
    ids = ["n3", "n20", "n20", None, "n5"]
    labels = ["a", "law", "law", "zoo", None]
    found = refused(store, {"id": ids, "class": labels, "age": [1, "x", 3, 4, 5]})
    assert "column 'id' must contain an id in each row; row 4 is empty." in found
    assert "column 'id' contains duplicate ids: 'n20' in rows 2 and 3." in found
    assert "classes that the store does not have" in found
    assert "'law' (2 rows), 'zoo' (1 rows)" in found
    rule = "column 'id' contains ids that the store has already; leave out these rows:"
    assert f"{rule} 'n3' in row 1, 'n5' in row 5." in found


def test_a_completed_append_is_refused(store):
    append_new(store)
    found = refused(store, path_nodes(20, 23), link_columns(NEW_LINKS))
    assert "'n20' in row 1, 'n21' in row 2, 'n22' in row 3." in found
    found = refused(store, None, link_columns(NEW_LINKS), kind=StoreError)
    assert found == f"{store} has all these links already, so there is nothing to append."


def test_missing_columns_and_rows_are_reported(store):
    assert "unknown column 'class'" in refused(store, {"id": ["n30"], "age": [1]})
    empty = {name: pa.array([], "str") for name in ("id", "class", "age")}
    assert "the table has no rows" in refused(store, empty)
    nothing = {"s": pa.array([], "str"), "t": pa.array([], "str")}
    assert "the table has no rows. Leave it out" in refused(store, None, nothing)


def test_links_to_unknown_nodes_are_counted_with_examples(store):
    rows = [("n1", "x"), ("n3", "n7"), (None, "n4"), ("n30", None), ("n20", "n7")]
    reports = Report()
    append(store, path_nodes(20, 21), link_columns(rows), callback=reports)
    assert str(reports.report) == (
        "2 links from 5 rows; links to unknown nodes skipped: 3 (first: 'x' in row 1, None in row "
        "3, 'n30' in row 4)."
    )
    found = refused(store, None, link_columns([("x", "n1"), ("n1", "y")]))
    assert "must contain ids of the store or of new nodes, but no row contains two" in found
    assert "row 1 has 'x', row 2 has 'y'" in found


def test_values_that_are_not_used_are_noted(store):
    reports = Report()
    append(store, {"id": ["n20"], "class": [None], "age": [None]}, callback=reports)
    assert reports.notes == ["column 'age': of 1 value, 1 is missing."]


def test_a_feature_too_large_for_float16_names_the_way_out(store):
    found = refused(store, {"id": ["n20"], "class": [None], "age": [1e7]})
    assert "Correct the table, or build the store again with --dtype float32." in found


def test_too_many_nodes_for_the_memory_are_refused(store):
    found = refused(store, path_nodes(20, 30), kind=OptionError, memory=9 * append_nodes.NODE_BYTES)
    assert "has more than 9 rows, the most that a memory of 1.2 kB can append" in found
    assert append(store, path_nodes(20, 30), memory=10 * append_nodes.NODE_BYTES).n == 30
    assert "memory must be 1 byte or more" in refused(store, {}, kind=OptionError, memory=0)


def test_too_many_parts_are_refused(store, monkeypatch):
    monkeypatch.setattr(append_nodes, "MAX_PARTS", 3)
    assert "more than 3 parts" in refused(store, path_nodes(20, 21), kind=StoreError)


@pytest.mark.parametrize("other", ["n5", "n21"])
def test_two_ids_of_one_hash_are_refused(store, monkeypatch, other):
    def same_for_two(text):
        keys = hash64(text)
        keys[[i for i, id in enumerate(text.to_pylist()) if id in ("n20", other)]] = 3 * 10**9
        return keys

    for module in (append_nodes, find_nodes):
        monkeypatch.setattr(module, "hash64", same_for_two)
    part = [p for p in range(3) if other in Store.open(store).ids(p).to_pylist()]
    monkeypatch.setattr(find_nodes, "part_of", lambda keys, P: np.full(len(keys), *part or [0]))
    found = refused(store, path_nodes(20, 22), kind=StoreError)
    assert "have the same 64-bit hash" in found
    assert "'n20'" in found
    assert f"'{other}'" in found


def test_a_synthetic_store_is_refused(tmp_path):
    with small():
        synth(tmp_path / "made", Planted(30, 90, features=2, classes=2), parts=1)
    found = refused(tmp_path / "made", None, link_columns(NEW_LINKS), kind=StoreError)
    assert "is a synthetic graph, which has no columns" in found
    with pytest.raises(StoreError, match="there is no directory"):
        append(tmp_path / "none", path_nodes(0, 1))


def test_appending_does_not_import_torch():
    code = "import linkdist.store.append, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
