"""Oracles: what was written; formulas in plain Python; the sentence that a person reads."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkdist.errors import OptionError, StoreError
from linkdist.store import format as module
from linkdist.store.format import MANIFEST, VERSION, Manifest, buckets
from linkdist.store.keys import hash64, part_of
from linkdist.store.plan import (
    LINK_BYTES,
    check_parts,
    format_memory,
    largest_parts,
    parse_memory,
    parts_for,
)
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.store.verify import check
from tests.stores import build_papers, small, tree


@pytest.fixture(scope="module")
def built(papers, tmp_path_factory):
    """A store of the papers, for all tests to read and none to change."""
    out = tmp_path_factory.mktemp("stores") / "papers"
    build_papers(papers, out)
    return out


@pytest.fixture
def store(built, tmp_path):
    """One of a test's own."""
    return shutil.copytree(built, tmp_path / "store")


@pytest.fixture
def made(tmp_path):
    with small():
        synth(tmp_path / "made", Planted(300, 2000, features=3, classes=4), parts=2)
    return tmp_path / "made"


def rewrite(store, **fields):
    """Change a manifest."""
    path = store / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def resign(store, name, content):
    """Change a file, and its digest with it."""
    (store / name).write_bytes(content)
    files = json.loads((store / MANIFEST).read_text())["files"]
    files[name] = [len(content), hashlib.sha256(content).hexdigest()]
    rewrite(store, files=files)


def with_array(store, name, change):
    """Change a .npy file and its digest."""
    array = np.load(store / name)
    change(array)
    np.save(store / name, array)
    resign(store, name, (store / name).read_bytes())


# a whole store ------------------------------------------------------------------------------------


def test_files_are_plain_numpy(built):
    found = Store.open(built)
    for a, b in buckets(found.P):
        mapped = np.load(built / f"links/{a:04}-{b:04}.npy", mmap_mode="r")
        assert np.array_equal(mapped, found.links(a, b))
        assert len(mapped) == found.counts[a, b]
    assert np.array_equal(np.load(built / "parts/0001.labels.npy"), found.labels(1))
    assert found.counts[np.tril_indices(found.P, -1)].tolist() == [0] * 3
    assert found.sizes.tolist() == [len(found.ids(part)) for part in range(found.P)]


def test_a_node_lies_where_its_id_says(built):
    found = Store.open(built)
    for part in range(found.P):
        assert (part_of(hash64(found.ids(part)), found.P) == part).all()


def test_a_whole_store_has_no_problem(built, made):
    assert check(built) == []
    assert check(made) == []


def test_a_store_can_be_moved(store, tmp_path):
    before = tree(store)
    moved = store.rename(tmp_path / "elsewhere")
    assert check(moved) == []
    assert tree(moved) == before
    assert str(tmp_path) not in (moved / MANIFEST).read_text()


def test_buckets_are_asked_for_in_order(built):
    with pytest.raises(StoreError, match="bucket has parts a <= b < 3; found 2 and 1"):
        Store.open(built).links(2, 1)


def test_a_store_of_tables_has_no_truth(built, made):
    with pytest.raises(StoreError, match="it has labels but no truth"):
        Store.open(built).truth(0)
    assert Store.open(made).encoders is None
    assert Store.open(made).about == {}


# one that is not whole ----------------------------------------------------------------------------


def refused(directory):
    """The sentence with which each way in refuses a directory."""
    with pytest.raises(StoreError) as opened:
        Store.open(directory)
    with pytest.raises(StoreError) as checked:
        check(directory)
    assert str(opened.value) == str(checked.value)
    return str(opened.value)


def test_what_is_no_store_is_told(tmp_path):
    assert "there is no directory" in refused(tmp_path / "nowhere")
    assert "has no manifest.json, so it is not a store" in refused(tmp_path)
    (tmp_path / "file").touch()
    assert "there is no directory" in refused(tmp_path / "file")


def test_an_unfinished_store_is_reported(store):
    (store / MANIFEST).rename(store / "journal.json")
    assert "is unfinished: it has no manifest.json yet. Run the command" in refused(store)


def test_a_newer_store_asks_for_a_newer_program(store):
    rewrite(store, version=VERSION + 1, program="9.9")
    text = refused(store)
    assert f"a store of version {VERSION + 1}, written by linkdist 9.9" in text
    assert "pip install --upgrade linkdist" in text


def test_an_older_store_is_to_be_built_again(store):
    rewrite(store, version=1, program="0.1")
    text = refused(store)
    assert "a store of version 1, written by linkdist 0.1" in text
    assert text.endswith("which reads versions 2 to 3. Build it again.")


def test_all_invalid_fields_of_a_manifest_are_reported_at_once(store):
    counts = json.loads((store / MANIFEST).read_text())["counts"]
    rewrite(store, kind="int8", d=-1, loops=1.0, counts=[*counts[:-1], True], classes="abc")
    text = refused(store)
    assert f"{store / MANIFEST} was changed or is truncated (kind: Input should be" in text
    for field in ("d: ", "loops: ", f"counts.{len(counts) - 1}: ", "classes: "):
        assert f"; {field}" in text
    assert text.endswith("Build it again, or copy it again from where it was built.")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"counts": [1]}, "there are 1 counts for 3 parts"),
        ({"labelled": []}, "labelled has 0 of 4 classes"),
        ({"columns": None}, "a store must either be synthetic or have columns"),
        ({"d": 3}, "features, not 3"),
        ({"files": {}}, "the list of files does not match the numbers of parts and buckets"),
        ({"files": {"a": [1, "x"]}}, "files.a.1: String should match pattern"),
    ],
)
def test_fields_of_a_manifest_must_agree(store, fields, problem):
    rewrite(store, **fields)
    assert problem in refused(store)


def test_missing_and_truncated_files_are_reported_at_once(store):
    (store / "parts/0001.labels.npy").unlink()
    os.truncate(store / "links/0000-0002.npy", 200)
    (store / "links/0001-0002.npy").unlink()
    with pytest.raises(StoreError) as found:
        Store.open(store)
    length = Manifest.read(store).files["links/0000-0002.npy"].size
    problems = [
        f"links/0000-0002.npy has 200 bytes, not {length}",
        "links/0001-0002.npy is missing",
        "parts/0001.labels.npy is missing",
    ]
    assert f"{'; '.join(problems)}. Build it again, or copy it again" in str(found.value)
    assert check(store) == problems


def test_a_digest_that_does_not_match_names_both(store):
    path = store / "links/0000-0001.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    opened = Store.open(store)
    assert opened.links(0, 0).size, "another file can still be read"
    with pytest.raises(StoreError) as found:
        opened.links(0, 1)
    expected = opened.manifest.files["links/0000-0001.npy"].digest
    assert f"{path} was damaged or changed" in str(found.value)
    now = hashlib.sha256(content).hexdigest()
    assert f"begins with {now[:12]}, not with {expected[:12]}. Build it again" in str(found.value)
    problem = str(found.value).removeprefix(f"{store}/").partition(". Build it again")[0]
    assert check(store) == [problem]


@pytest.mark.parametrize(
    "name", ["parts/0000.features.data.npy", "parts/0000.ids.arrow", "parts/0000.labels.npy"]
)
def test_each_kind_of_file_has_its_digest_checked(store, name):
    content = bytearray((store / name).read_bytes())
    content[len(content) // 2] ^= 1
    (store / name).write_bytes(content)
    opened = Store.open(store)
    read = {"features": opened.features, "ids": opened.ids, "labels": opened.labels}
    with pytest.raises(StoreError, match="was damaged or changed"):
        read[name.split(".")[1]](0)


def test_a_file_is_compared_once(store, monkeypatch):
    opened, taken = Store.open(store), []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda: taken.append(1) or real())
    for _ in range(3):
        opened.links(0, 1)
    assert len(taken) == 1
    os.utime(store / "links/0000-0001.npy", ns=(1, 1))
    opened.links(0, 1)
    assert len(taken) == 2, "a file that was written to is compared again"


def test_a_file_of_another_shape_is_refused(store):
    np.save(store / "parts/0000.labels.npy", np.zeros(3, np.int64))
    resign(store, "parts/0000.labels.npy", (store / "parts/0000.labels.npy").read_bytes())
    with pytest.raises(StoreError, match="must contain int32 of shape"):
        Store.open(store).labels(0)
    resign(store, "parts/0001.ids.arrow", b"no arrow")
    with pytest.raises(StoreError, match="cannot be read"):
        Store.open(store).ids(1)


# a graph that is none, though its digests match ---------------------------------------------------


def set_at(place, value):
    def change(array):
        array[place] = value

    return change


def backwards(array):
    array[:] = array[::-1].copy()


def turned(array):
    array[:] = array[:, ::-1].copy()


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "links/0000-0001.npy",
            set_at((-1, 0), 10**6),
            "must contain rows 0..149 of part 0; 1 are",
        ),
        ("links/0000-0001.npy", backwards, "must contain sorted links without duplicates"),
        ("links/0001-0001.npy", turned, "must contain links with the smaller row first"),
        ("parts/0001.labels.npy", set_at(3, 4), "must contain -1..3; 1 are outside"),
        ("parts/0001.truth.npy", set_at(3, -1), "must contain 0..3; 1 are outside"),
        (
            "parts/0000.features.npy",
            set_at((1, 1), np.nan),
            "must contain finite numbers; 1 are not",
        ),
    ],
)
def test_content_that_is_no_graph_is_found(made, name, change, sentence):
    with_array(made, name, change)
    found = check(made)
    assert any(problem.startswith(name) and sentence in problem for problem in found), found


def test_sparse_features_outside_are_found(store):
    with_array(store, "parts/0000.features.indices.npy", set_at(0, 10**6))
    rule = f"indices must be in 0..{Store.open(store).d - 1}; found 1000000"
    assert any(rule in problem for problem in check(store))


def with_ids(store, part, change):
    """Change a part's ids and their digest."""
    ids = Store.open(store).ids(part).to_pylist()
    change(ids)
    batch = pa.record_batch([pa.array(ids, pa.large_string())], ["id"])
    name = f"parts/{part:04}.ids.arrow"
    with pa.ipc.new_file(store / name, batch.schema) as writer:
        writer.write_batch(batch)
    resign(store, name, (store / name).read_bytes())


def test_ids_of_another_part_are_found(store):
    foreign = Store.open(store).ids(1)[0].as_py()
    with_ids(store, 0, set_at(0, foreign))
    assert check(store) == ["parts/0000.ids.arrow contains 1 ids of other parts"]


def test_duplicate_ids_are_found(store):
    with_ids(store, 0, set_at(0, Store.open(store).ids(0)[5].as_py()))
    assert check(store) == ["parts/0000.ids.arrow contains duplicate or missing ids"]


def test_counts_of_the_manifest_are_compared(made):
    labelled = json.loads((made / MANIFEST).read_text())["labelled"]
    rewrite(made, loops=7, labelled=[labelled[0] + 1, *labelled[1:]])
    loops, labels = check(made)
    assert "the manifest has 7 self-loops; there are " in loops
    assert "the counts of labels in the manifest differ from those of the parts" in labels


# manifests of garbage -----------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=40), JSON.map(lambda value: json.dumps(value).encode())))
def test_garbage_is_no_manifest(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "garbage"
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(StoreError, match="manifest"):
        Store.open(folder)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_manifest_with_one_field_changed_is_refused_or_sound(built, tmp_path_factory, data):
    fields = json.loads((built / MANIFEST).read_text())
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(JSON)
    folder = tmp_path_factory.getbasetemp() / "changed"
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps(fields))
    try:
        found = Manifest.read(folder)
    except StoreError:
        return
    assert len(found.sizes) == found.P
    names = module.expected_files(
        found.P, found.kind, found.synthetic, found.K, weighted=found.weighted
    )
    assert set(found.files) == set(names)


# hashes -------------------------------------------------------------------------------------------

WORD = (1 << 64) - 1


def mixed(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def slow_hash(text):
    content = text.encode()
    total = len(content) * 0x9E3779B97F4A7C15
    for j in range(max(1, -(-len(content) // 8))):
        word = int.from_bytes(content[8 * j : 8 * j + 8], "little")
        total += mixed(word) * (2 * mixed(j) + 1)
    return mixed(total & WORD)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(0, 3))
def test_hashes_are_those_of_plain_python(texts, skip):
    column = pa.array(texts, pa.large_string())[skip:]
    assert hash64(column).tolist() == [slow_hash(text) for text in texts[skip:]]


def test_many_hashes_are_those_of_a_few():
    column = pa.array([f"node {i}" for i in range(200_000)], pa.large_string())
    keys = hash64(column)
    assert keys[-3:].tolist() == [slow_hash(f"node {i}") for i in range(199_997, 200_000)]
    assert len(np.unique(keys)) == 200_000
    counts = np.bincount(part_of(keys, 7), minlength=7)
    expected = 200_000 / 7
    assert ((counts - expected) ** 2 / expected).sum() < 22.5  # chi-squared, 6 degrees, 0.1 %


def test_a_missing_text_has_no_hash():
    with pytest.raises(ValueError, match="has no hash"):
        hash64(pa.array([None], pa.large_string()))


# planning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "1PB", "1e9", "two GB", "nan", "1..5GB"])
def test_memory_that_is_none_is_refused(text):
    with pytest.raises(OptionError, match="memory must be a number of bytes such as 500MB"):
        parse_memory(text)


@given(st.integers(1, 10**13))
def test_plain_bytes_are_bytes(size):
    assert parse_memory(str(size)) == parse_memory(f"{size}b") == size
    assert format_memory(size)


@given(
    st.integers(1, 10**9), st.integers(1, 10**4), st.integers(1, 10**10), st.integers(10**6, 10**12)
)
def test_parts_are_the_fewest_that_fit(nodes, width, links, memory):
    def takes(P):
        parts = min(3, P) * nodes * width / P
        return parts + LINK_BYTES * (links if P == 1 else 2 * links / P**2 * 2)

    most = largest_parts(links)
    if takes(most) > memory / 2:
        with pytest.raises(OptionError, match="is too small") as found:
            parts_for(nodes, width, links, memory)
        least = int(str(found.value).rsplit("--memory ")[1].split()[0])
        assert parts_for(nodes, width, links, least) <= most
        return
    P = parts_for(nodes, width, links, memory)
    check_parts(P, links)
    assert takes(P) <= memory / 2
    assert P == 1 or takes(P - 1) > memory / 2


@given(st.integers(64, 10**11))
def test_the_most_parts_leave_64_links_to_a_bucket(links):
    P = largest_parts(links)
    assert links / (P * (P + 1) / 2) >= 64
    assert P == 9999 or links / ((P + 1) * (P + 2) / 2) < 64
