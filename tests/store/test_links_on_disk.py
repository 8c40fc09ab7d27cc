"""Stores with heads, weights and labels of all tasks: interrupted builds and damaged files.

Oracles: the bytes of a store that was built without an interruption; the message for each damage.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from linkdist.errors import StoreError
from linkdist.pipeline import Tables
from linkdist.store import build as build_module
from linkdist.store import resolve_links
from linkdist.store.build import build
from linkdist.store.format import MANIFEST
from linkdist.store.reader import Store, forget_verified
from linkdist.store.synthetic import Planted, synth
from linkdist.store.verify import check
from linkdist.store.whole import read_whole
from tests.attacks.forged import with_array
from tests.store.test_journal import STAGES, AtStage, KilledError, raising_after
from tests.store.test_reader import set_at, with_ids
from tests.stores import small, tree, write

N, M = 60, 300


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Links with a relation that has none of them, weights, directions, and isolated nodes."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(0)
    ids = [f"n{i}" for i in range(N)]
    nodes = {"id": ids, "age": random.normal(size=N), "y": random.normal(size=N)}
    nodes |= {name: random.integers(0, 2, N) for name in ("even", "odd")}
    linked = random.integers(0, N - 6, (2, M))
    links = {"of": [ids[i] for i in linked[0]], "to": [ids[j] for j in linked[1]]}
    links["of"][:3] = ["nobody"] * 3
    links["kind"] = ["aims", "aims", "aims", *random.choice(["cites", "knows"], M - 3).tolist()]
    links["w"] = random.uniform(0.5, 2, M).astype(np.float32)
    return Tables(
        write(folder / "nodes.csv", nodes),
        write(folder / "links.parquet", links),
        *("id", "y"),
        features=["age"],
        relation="kind",
        weight="w",
        directed=True,
        task="regression",
    )


@pytest.fixture(scope="module")
def undisturbed(tables, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "store"
    with small():
        build(tables, out, parts=3)
    return out


@pytest.fixture
def store(undisturbed, tmp_path):
    return shutil.copytree(undisturbed, tmp_path / "store")


# interruptions ------------------------------------------------------------------------------------


@pytest.fixture
def fine(monkeypatch):
    """Let a build write as often as it can."""
    for name, value in (("MIN_BUFFER", 960), ("MAX_BUFFER", 960), ("BATCH", 20)):
        monkeypatch.setattr(build_module, name, value)
    monkeypatch.setattr(resolve_links, "COMMIT_LINKS", 1)


@pytest.mark.parametrize("name", ["append", "commit", "save"])
def test_a_build_killed_anywhere_ends_with_the_same_bytes(
    tables, tmp_path, monkeypatch, fine, undisturbed, name
):
    out, kills, calls = tmp_path / "store", 0, 0
    while not out.exists():
        with monkeypatch.context() as patch, small():
            raising_after(patch, name, calls)
            try:
                build(tables, out, parts=3)
            except KilledError:
                kills += 1
        calls = calls * 2 + 3 if name == "append" else calls + 3
    assert kills >= 2
    assert tree(out) == tree(undisturbed)


def test_a_build_killed_at_each_stage_ends_with_the_same_bytes(tables, tmp_path, undisturbed):
    for stage in STAGES:
        with small(), pytest.raises(KilledError):
            build(tables, tmp_path / "store", parts=3, callback=AtStage(stage))
    with small():
        build(tables, tmp_path / "store", parts=3)
    assert tree(tmp_path / "store") == tree(undisturbed)


# damage -------------------------------------------------------------------------------------------


def swap_heads(store):
    """Exchange the two heads of a pair of nodes that is linked twice."""
    pairs = Store.open(store).links(0, 1)
    place = int(np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))[0])

    def change(heads):
        heads[place : place + 2] = heads[place : place + 2][::-1].copy()

    return change


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("links/0000-0001.heads.npy", 0, 4, "must contain heads 0..3; 1 are outside"),
        ("links/0000-0001.weights.npy", 1, np.nan, "positive and finite numbers; 1 are not"),
        ("links/0000-0001.weights.npy", 1, np.inf, "positive and finite numbers; 1 are not"),
        ("links/0001-0001.weights.npy", 1, 0, "positive and finite numbers; 1 are not"),
        ("parts/0001.labels.npy", 1, np.inf, "must contain finite numbers, or NaN; 1 are others"),
    ],
)
def test_damaged_values_are_refused_at_every_reading(store, name, place, value, message):
    Store.open(store)
    with_array(store, name, set_at(place, value))
    opened = Store.open(store)
    for _ in range(2):
        with pytest.raises(StoreError, match=message):
            read_whole(opened)
    assert any(found.startswith(name) and message in found for found in check(store))


def test_heads_are_sorted_for_each_pair(store):
    with_array(store, "links/0000-0001.heads.npy", swap_heads(store))
    assert check(store) == ["links/0000-0001.npy must contain sorted links without duplicates"]


def test_a_self_loop_leads_out(store):
    pairs = Store.open(store).links(0, 0)
    loop = int(np.flatnonzero(pairs[:, 0] == pairs[:, 1])[0])
    with_array(store, "links/0000-0000.heads.npy", set_at(loop, 3))
    assert "links/0000-0000.heads.npy must contain even heads for self-loops" in check(store)


@pytest.mark.parametrize(("value", "bad"), [(2, 1), (-1, 1), (-2, 1)])
def test_damaged_rows_of_several_labels_are_refused(tables, tmp_path, value, bad):
    with small():
        several = replace(tables, label=["even", "odd"], task=None)
        store = build(several, tmp_path / "store", parts=2)
    assert store.labels(0).dtype == np.int8
    with_array(store.directory, "parts/0000.labels.npy", set_at((0, 1), value))
    forget_verified()
    with pytest.raises(StoreError, match=f"rows of 0 and 1, or of -1; {bad} are others"):
        Store.open(store.directory).labels(0)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"hashed": 4}, "4 parts are filled by hashing, but there are 3"),
        ({"relations": ["a", "a"]}, "two relations have the same name"),
        ({"relations": ["a"], "directed": False}, "the list of files does not match"),
        ({"weighted": False}, "the list of files does not match"),
        ({"classes": ["a", "b"], "labelled": [1, 1]}, "regression predicts one number, not 2"),
        ({"task": "ranking"}, "task: Input should be"),
        ({"label_format": {"colour": "red"}}, "label_format"),
    ],
)
def test_fields_of_a_manifest_must_agree(store, fields, problem):
    path = store / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(StoreError, match=problem):
        Store.open(store)


# the index of hashes ------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1 << 64, 1 << 40, 5], ids=["uniform", "low", "few"])
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_hashes_are_found_where_a_dictionary_finds_them(tmp_path, monkeypatch, n, spread):
    monkeypatch.setattr(resolve_links, "CHUNK", 300)
    random = np.random.default_rng(n)
    keys = np.unique(random.integers(0, spread, n, dtype=np.uint64))
    order = random.permutation(len(keys)).astype(np.uint32)
    (tmp_path / "work").mkdir()
    np.save(tmp_path / "work/0003.keys.npy", keys)
    np.save(tmp_path / "work/0003.order.npy", order)
    ends = np.array([0, 1, (1 << 64) - 1], np.uint64)
    asked = np.concatenate([ends, keys, keys + np.uint64(1), random.permutation(keys)])
    rows = dict(zip(keys.tolist(), order.tolist(), strict=True))
    found = resolve_links.HashIndex(tmp_path).find(3, asked)
    assert found.tolist() == [rows.get(key, -1) for key in asked.tolist()]


# versions and parts -------------------------------------------------------------------------------

NEW = ("task", "label_format", "hashed", "relations", "directed", "weighted")


def test_a_store_of_version_2_is_read(tmp_path):
    with small():
        whole = synth(tmp_path / "store", Planted(200, 900, features=2, classes=3), parts=2)
    path = tmp_path / "store" / MANIFEST
    fields = json.loads(path.read_text())
    old = {name: value for name, value in fields.items() if name not in NEW} | {"version": 2}
    path.write_text(json.dumps(old))
    store = Store.open(tmp_path / "store")
    assert store.manifest == whole.manifest
    assert (store.task, store.relations, store.heads) == ("classification", ("links",), ("links",))
    assert (store.directed, store.weighted, store.manifest.hashed) == (False, False, 2)
    assert store.bucket(0, 1).heads is None
    assert store.bucket(0, 1).weights is None
    assert check(tmp_path / "store") == []


def test_appended_parts_follow_no_hash_but_repeat_no_id(store):
    path = store / MANIFEST
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"hashed": 1, "label_rows": None}))
    assert check(store) == [], "every hash is 0 modulo 1, and the other parts follow no rule"
    again = Store.open(store).ids(0)[3].as_py()
    with_ids(store, 2, set_at(0, again))
    assert check(store) == ["parts/0000.ids.arrow contains 1 ids of other parts"]
    with_ids(store, 2, set_at(0, Store.open(store).ids(1)[0].as_py()))
    assert check(store) == [
        f"parts/{part:04}.ids.arrow contains 1 ids of other parts" for part in (1, 2)
    ]
