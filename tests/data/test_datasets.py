"""Named data sets: reading, rejection of damaged files, complete downloads."""

from __future__ import annotations

import builtins
import http.server
import os
import pickle
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pooch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from linkdist.data import datasets, raw_files
from linkdist.data.datasets import (
    DATASETS,
    PAPER_DATASETS,
    DatasetInfo,
    find_raw,
    load_dataset,
    public_split,
)
from linkdist.data.graph import Graph
from linkdist.errors import DataError, OptionError

# A planetoid set by hand: nodes 0..4 in allx, 7 and 5 in tx, node 6 in a gap.
ALLX = np.array([[1, 1, 0], [0, 2, 2], [0, 0, 0], [3, 0, 1], [0, 0, 5]], dtype=np.float32)
ALLY = np.array([[1, 0], [0, 1], [0, 1], [1, 0], [0, 1]], dtype=np.int32)
TX = np.array([[0, 7, 0], [1, 1, 2]], dtype=np.float32)
TY = np.array([[0, 1], [1, 0]], dtype=np.int32)
LINKS = {0: [1, 1, 3], 1: [0], 2: [2], 3: [0], 4: [6], 5: [7], 6: [4], 7: [5]}
TINY = DatasetInfo(
    "tiny",
    *(8, 3, 2, 9),
    family="planetoid",
    folder="Tiny",
    files=tuple(
        f"ind.tiny.{part}" for part in ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
    ),
)

# An npz set by hand: a link in one direction, one in both, a self-loop; counts above 1.
NPZ_X = np.array([[2, 0], [0, 3], [1, 1]], dtype=np.float32)
NPZ_A = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1]], dtype=np.float32)
TINY_NPZ = DatasetInfo(
    "tiny-npz", *(3, 2, 2, 5), family="citation_full", folder="Tiny", files=("tiny_full.npz",)
)


@pytest.fixture(autouse=True)
def _own_surroundings(request, tmp_path, monkeypatch):
    """Keep tests out of the user's folders, and register the tiny data sets."""
    if request.node.get_closest_marker("data") is None:
        monkeypatch.delenv("LINKDIST_DATA", raising=False)
    monkeypatch.setenv("LINKDIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setitem(DATASETS, "tiny", TINY)
    monkeypatch.setitem(DATASETS, "tiny-npz", TINY_NPZ)
    monkeypatch.setattr(datasets, "PUBLIC_SPLITS", (*datasets.PUBLIC_SPLITS, "tiny"))


def planetoid_files() -> dict[str, bytes]:
    """Raw files with the module names that Python 2's NumPy and SciPy wrote."""
    graph = defaultdict(list, LINKS)
    x, tx = sparse.csr_matrix(ALLX), sparse.csr_matrix(TX)
    parts = {"x": x[:2], "y": ALLY[:2], "tx": tx, "ty": TY, "allx": x, "ally": ALLY, "graph": graph}
    files = {f"ind.tiny.{part}": old(pickle.dumps(thing, 3)) for part, thing in parts.items()}
    return {**files, "ind.tiny.test.index": b"7\n5"}


def old(pickled: bytes) -> bytes:
    renamed = pickled.replace(b"numpy._core.", b"numpy.core.").replace(b"._csr\n", b".csr\n")
    return renamed.replace(b"cbuiltins\nlist", b"c__builtin__\nlist")


def npz_arrays() -> dict[str, np.ndarray]:
    arrays = {"labels": np.array([0, 1, 1])}
    for key, matrix in (("adj", sparse.csr_matrix(NPZ_A)), ("attr", sparse.csr_matrix(NPZ_X))):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{key}_{part}"] = np.asarray(getattr(matrix, part))
    return arrays


def write_planetoid(folder: Path, **changed: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**planetoid_files(), **changed}.items():
        (folder / name).write_bytes(content)
    return folder


def write_npz(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "tiny_full.npz", **arrays)
    return folder


# Digits.


def test_digits_have_their_published_sizes():
    graph = load_dataset("digits")
    info = DATASETS["digits"]
    assert (graph.n, graph.d, graph.C, len(graph.edges)) == (1797, 64, 10, 19858)
    assert (info.n, info.d, info.C, info.e) == (1797, 64, 10, 19858)
    assert graph.name == "digits"
    assert graph.classes == tuple("0123456789")
    assert graph.features.dtype == np.float32
    assert (graph.features.min(), graph.features.max()) == (0, 1)
    assert np.array_equal(graph.labels, load_digits().target)
    assert raw_files.digest(graph) == info.digest
    pairs = {tuple(edge) for edge in graph.edges.tolist()}
    assert pairs == {(j, i) for i, j in pairs}
    assert all(i != j for i, j in pairs)


def test_digits_links_are_the_eight_nearest():
    images = load_digits().data
    pairs = raw_files.nearest(images)
    assert np.array_equal(pairs[:, 0], np.repeat(np.arange(1797), 8))
    found = np.linalg.norm(images[pairs[:, 0]] - images[pairs[:, 1]], axis=1).reshape(1797, 8)
    expected, _ = NearestNeighbors(n_neighbors=8).fit(images).kneighbors()
    np.testing.assert_allclose(found, expected)
    drawn = {tuple(sorted(pair)) for pair in pairs.tolist()}
    assert drawn == {tuple(link) for link in load_dataset("digits").links.tolist()}


def test_nearest_breaks_ties_by_node_number():
    pairs = raw_files.nearest(np.zeros((12, 2)))
    assert pairs[pairs[:, 0] == 3, 1].tolist() == [0, 1, 2, 4, 5, 6, 7, 8]


# The registry.


def test_registry_contains_digits_and_the_eight_data_sets_of_the_paper(monkeypatch):
    monkeypatch.undo()
    assert list(DATASETS) == ["digits", *PAPER_DATASETS]
    assert list(PAPER_DATASETS) == [
        *("cora", "citeseer", "pubmed", "cora-full", "amazon-photo", "amazon-computers"),
        *("coauthor-cs", "coauthor-physics"),
    ]
    assert datasets.PUBLIC_SPLITS == ("cora", "citeseer", "pubmed")
    assert [name for name, info in DATASETS.items() if info.digest is None] == ["cora-full"]
    for name in PAPER_DATASETS:
        assert all(url.startswith("https://github.com/") for url in DATASETS[name].urls)


def test_unknown_name_is_rejected_with_a_suggestion():
    for ask in (load_dataset, public_split, find_raw):
        with pytest.raises(OptionError, match=r"unknown data set 'coar'.*near: cora"):
            ask("coar")


# Reading.


def test_planetoid_files_are_combined(tmp_path):
    graph = load_dataset("tiny", write_planetoid(tmp_path), download=False)
    # Test rows are those of test.index; the gap has no features and class 0.
    expected = np.zeros((8, 3))
    expected[[0, 1, 3, 4, 7, 5]] = [
        *([1 / 2, 1 / 2, 0], [0, 1 / 2, 1 / 2], [3 / 4, 0, 1 / 4], [0, 0, 1]),
        *([0, 1, 0], [1 / 4, 1 / 4, 1 / 2]),
    ]
    assert sparse.issparse(graph.features)
    assert graph.features.format == "csr"
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.features.toarray(), expected)
    assert graph.labels.tolist() == [0, 1, 1, 0, 1, 0, 0, 1]
    assert graph.links.tolist() == [[0, 1], [0, 3], [2, 2], [4, 6], [5, 7]]
    assert graph.name == "tiny"


def test_planetoid_files_of_current_numpy_are_read_the_same_way(tmp_path):
    today = {"ind.tiny.tx": pickle.dumps(sparse.csr_matrix(TX), 3)}
    today["ind.tiny.ally"] = pickle.dumps(np.asfortranarray(ALLY), 3)
    one = load_dataset("tiny", write_planetoid(tmp_path / "old"), download=False)
    two = load_dataset("tiny", write_planetoid(tmp_path / "today", **today), download=False)
    assert raw_files.digest(one) == raw_files.digest(two)


def test_npz_values_stay_as_stored(tmp_path):
    text = np.array([{"published": "files"}, "hold such"], dtype=object)
    write_npz(tmp_path, {**npz_arrays(), "attr_text": text})
    graph = load_dataset("tiny-npz", tmp_path, download=False)
    np.testing.assert_array_equal(graph.features.toarray(), NPZ_X)
    assert graph.features.format == "csr"
    assert graph.features.dtype == np.float32
    assert graph.links.tolist() == [[0, 1], [1, 2], [2, 2]]
    assert graph.labels.tolist() == [0, 1, 1]
    assert graph.name == "tiny-npz"


def test_digest_depends_on_every_array():
    edges, labels = [[0, 1], [1, 2]], [0, 1, 1]
    graphs = [
        Graph.build(NPZ_X, edges, labels),
        Graph.build(NPZ_X * 2, edges, labels),
        Graph.build(NPZ_X[:, ::-1], edges, labels),
        Graph.build(np.pad(NPZ_X, ((0, 0), (0, 1))), edges, labels),
        Graph.build(NPZ_X, [[0, 1], [0, 2]], labels),
        Graph.build(NPZ_X, edges, [0, 1, 0]),
    ]
    assert len({raw_files.digest(graph) for graph in graphs}) == len(graphs)
    unsorted = sparse.csr_matrix((NPZ_X[NPZ_X > 0], [0, 1, 0, 1], [0, 1, 2, 4]), shape=(3, 2))
    unsorted.indices[2:], unsorted.indices.flags.writeable = [1, 0], True
    same = Graph.build(unsorted, [[2, 1], [1, 0], [1, 2]], labels)
    assert raw_files.digest(same) == raw_files.digest(graphs[0])


# Rejection.


@pytest.mark.parametrize("file", TINY.files)
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_truncated_planetoid_file_is_rejected_by_name(tmp_path, file, kept):
    whole = planetoid_files()[file]
    cut = whole[: min(int(kept * len(whole)), len(whole) - 1)]
    write_planetoid(tmp_path, **{file: cut})
    with pytest.raises(DataError, match="damaged or is not the published file") as caught:
        load_dataset("tiny", tmp_path, download=False)
    # A truncated index is still an index; only the combination of files is inconsistent.
    assert str(tmp_path if file.endswith("index") else tmp_path / file) in str(caught.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_npz_file_is_rejected_by_name(tmp_path, share):
    path = write_npz(tmp_path, npz_arrays()) / "tiny_full.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match=r"tiny_full\.npz is damaged or is not the published file"):
        load_dataset("tiny-npz", tmp_path, download=False)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_changed_byte_in_npz_is_rejected_or_changes_nothing(tmp_path, share, value):
    path = write_npz(tmp_path, npz_arrays()) / "tiny_full.npz"
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] = value
    path.write_bytes(content)
    try:
        graph = load_dataset("tiny-npz", tmp_path, download=False)
    except DataError:
        return
    np.testing.assert_array_equal(graph.features.toarray(), NPZ_X)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("labels", np.array([0, 1, None], dtype=object)),
        ("attr_data", np.array([{}, 1, 2, 3], dtype=object)),
        ("labels", np.array([0.0, 1.0, 1.0])),
        ("attr_data", np.array([np.nan, 3, 1, 1], dtype=np.float32)),
        ("attr_indices", np.array([0, 1, 0, 2**30])),
        ("attr_indices", np.array([0, 1, 0, -1])),
        ("attr_indptr", np.array([0, 2**30, 2, 4])),
        ("adj_indptr", np.array([0, 1, 3, 2**30])),
        ("adj_shape", np.array([2**40, 2**40])),
        ("adj_shape", np.array([])),
    ],
)
def test_npz_with_invalid_arrays_is_rejected(tmp_path, key, value):
    write_npz(tmp_path, {**npz_arrays(), key: value})
    with pytest.raises(DataError, match=r"tiny_full\.npz is damaged or is not the published file"):
        load_dataset("tiny-npz", tmp_path, download=False)


def test_npz_without_a_key_or_not_an_archive_is_rejected(tmp_path):
    arrays = npz_arrays()
    del arrays["attr_indptr"]
    path = write_npz(tmp_path, arrays) / "tiny_full.npz"
    with pytest.raises(DataError, match="attr_indptr"):
        load_dataset("tiny-npz", tmp_path, download=False)
    np.save(tmp_path / "plain.npy", np.eye(2))
    for content in ((tmp_path / "plain.npy").read_bytes(), pickle.dumps(npz_arrays()), b"<html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="damaged or is not the published file"):
            load_dataset("tiny-npz", tmp_path, download=False)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("test.index", b"7\n7", "contains a node twice"),
        ("test.index", b"7\n4", "contains a node twice"),
        ("test.index", b"7\n5\n6", "damaged or is not the published file"),
        ("test.index", b"7\nfive", "five"),
        ("test.index", b"7\n-1", "damaged or is not the published file"),
        ("graph", pickle.dumps({0: [9]}), "links must be pairs of nodes"),
        ("graph", pickle.dumps([[0, 1]]), "damaged or is not the published file"),
        (
            "x",
            pickle.dumps(sparse.csr_matrix(ALLX[1:3]), 3),
            "x differs from the first rows of allx",
        ),
        ("y", pickle.dumps(ALLY[1:3], 3), "y differs from the first rows of ally"),
        ("ally", pickle.dumps(ALLY[:4], 3), "damaged or is not the published file"),
        ("ally", pickle.dumps(np.array([["a", "b"]]), 3), "plain numbers"),
        ("ally", pickle.dumps(np.array([[print, {}]]), 3), "names 'builtins.print'"),
        ("ally", pickle.dumps(np.array([[1, {}]]), 3), "plain numbers"),
    ],
)
def test_inconsistent_planetoid_files_are_rejected(tmp_path, file, content, reason):
    write_planetoid(tmp_path, **{f"ind.tiny.{file}": content})
    with pytest.raises(DataError, match=reason):
        load_dataset("tiny", tmp_path, download=False)


def test_other_sizes_and_other_content_are_reported_differently(tmp_path, monkeypatch):
    write_npz(tmp_path, npz_arrays())
    monkeypatch.setitem(DATASETS, "tiny-npz", replace(TINY_NPZ, e=6, digest="0" * 64))
    with pytest.raises(DataError) as caught:
        load_dataset("tiny-npz", tmp_path, download=False)
    for part in (str(tmp_path), "expected n = 3, d = 2, C = 2, e = 6", "found n = 3", "e = 5."):
        assert part in str(caught.value)
    monkeypatch.setitem(DATASETS, "tiny-npz", replace(TINY_NPZ, digest="0" * 64))
    with pytest.raises(DataError, match=r"expected digest 0{64}; found digest .*LINKDIST_DATA"):
        load_dataset("tiny-npz", tmp_path, download=False)


# Malicious pickles.


class Gadget:
    """Pickled as a call that would create a file."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def raw_pickles(mark: str) -> dict[str, bytes]:
    """Opcodes that no pickler writes, which try to call os.system or a similar function."""
    touch = f"touch {mark}".encode()
    system = b"(S'" + touch + b"'\ntR."
    return {
        "inst": b"(S'" + touch + b"'\nios\nsystem\n.",
        "posix": b"cposix\nsystem\n" + system,
        "py2": b"c__builtin__\neval\n(S'open(" + repr(mark).encode() + b', "w")\'\ntR.',
        "getattr": b"c__builtin__\ngetattr\n(cnumpy\nndarray\nS'tofile'\ntR.",
        "numpy": b"cnumpy\nfromfile\n(S'" + mark.encode() + b"'\ntR.",
        "dotted": b"\x80\x04\x8c\x0bcollections\x8c\x1ddefaultdict.__class__.__base__\x93.",
        "hidden": b"cnumpy.core.multiarray\nos.system\n" + system,
        "testing": b"cnumpy.testing._private.utils\nrunstring\n(S'1'\n}tR.",
        "reconstructor": b"ccopyreg\n_reconstructor\n(cos\n_wrap_close\nc__builtin__\nobject\nNtR.",
        "persistent": b"Pos.system\n.",
        "extension": b"\x80\x02\x82\x01.",
        "buffer": b"\x80\x05\x97.",
    }


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("file", ["x", "graph"])
def test_malicious_pickle_is_rejected_and_not_run(tmp_path, protocol, file):
    mark = tmp_path / "mark"
    calls = [(os.system, f"touch {mark}"), (builtins.open, str(mark), "w"), (os.mkdir, str(mark))]
    calls += [(builtins.exec, f"open({str(mark)!r}, 'w')"), (np.save, str(mark), [1])]
    for call in calls:
        for thing in (Gadget(*call), {0: [Gadget(*call)]}, np.array([Gadget(*call)])):
            content = pickle.dumps(thing, protocol)
            write_planetoid(tmp_path, **{f"ind.tiny.{file}": content})
            with pytest.raises(DataError, match=rf"ind\.tiny\.{file} .*names"):
                load_dataset("tiny", tmp_path, download=False)
            assert not list(tmp_path.glob("mark*"))


@pytest.mark.parametrize("kind", raw_pickles(""))
def test_hand_written_pickle_is_rejected_and_not_run(tmp_path, kind):
    mark = tmp_path / "mark"
    write_planetoid(tmp_path, **{"ind.tiny.tx": raw_pickles(str(mark))[kind]})
    with pytest.raises(DataError, match=r"ind\.tiny\.tx is damaged or is not the published file"):
        load_dataset("tiny", tmp_path, download=False)
    assert not mark.exists()


@pytest.mark.parametrize("named", list(raw_files.ADMITTED))
def test_allowed_names_cannot_be_changed_by_a_pickle(tmp_path, named):
    """BUILD on a class would set its attributes; the methods of a record prevent it."""
    before = dict(vars(raw_files.ADMITTED[named]))
    push = "c{}\n{}\n".format(*named).encode()
    attributes = b"(N(dS'revive'\nI1\nsS'__len__'\nI1\nstb."
    for body in (b"(dS'revive'\nI1\nsb.", attributes):
        write_planetoid(tmp_path, **{"ind.tiny.tx": push + body})
        with pytest.raises(DataError):
            load_dataset("tiny", tmp_path, download=False)
    assert dict(vars(raw_files.ADMITTED[named])) == before


def test_dtype_that_hides_objects_among_bytes_is_rejected(tmp_path):
    """NumPy itself would interpret these eight bytes as a pointer."""
    inner = b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntb"
    outer = b"cnumpy\ndtype\n(S'V8'\nI00\nI01\ntR(I3\nS'|'\nN(S'a'\nt(dS'a'\n(" + inner
    outer += b"I0\ntsI8\nI1\nI0\ntb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\nt"
    content = array + outer + b"I00\nS'AAAAAAAA'\ntb."
    write_planetoid(tmp_path, **{"ind.tiny.y": content})
    with pytest.raises(DataError, match="plain numbers"):
        load_dataset("tiny", tmp_path, download=False)


# Search for files.


@pytest.mark.parametrize("layout", ["planetoid/Tiny/raw", "Tiny/raw", "."])
def test_three_layouts_are_found(tmp_path, layout):
    folder = write_planetoid(tmp_path / "data" / layout)
    assert find_raw("tiny", tmp_path / "data") == folder
    assert find_raw("tiny", str(tmp_path / "data")) == folder
    assert load_dataset("tiny", tmp_path / "data", download=False).n == 8


def test_search_order_is_argument_then_environment_then_cache(tmp_path, monkeypatch):
    assert find_raw("tiny") is None
    cache = write_planetoid(tmp_path / "cache" / "planetoid" / "Tiny" / "raw")
    assert find_raw("tiny") == cache
    monkeypatch.setenv("LINKDIST_DATA", str(tmp_path / "env"))
    assert find_raw("tiny") == cache
    env = write_planetoid(tmp_path / "env")
    assert find_raw("tiny") == env
    assert find_raw("tiny", tmp_path / "argument") == cache
    argument = write_planetoid(tmp_path / "argument")
    assert find_raw("tiny", tmp_path / "argument") == argument
    (argument / "ind.tiny.ty").unlink()
    assert find_raw("tiny", tmp_path / "argument") == cache


def test_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("LINKDIST_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert datasets.cache_folder() == tmp_path / "home" / ".cache" / "linkdist"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg" / "linkdist"
    monkeypatch.setenv("LINKDIST_CACHE", str(tmp_path / "own"))
    assert datasets.cache_folder() == tmp_path / "own"


def test_missing_files_are_reported_with_the_folders_and_the_source(tmp_path):
    folder = write_planetoid(tmp_path / "data")
    for part in ("ty", "graph"):
        (folder / f"ind.tiny.{part}").unlink()
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", folder, download=False)
    for part in ("needs ind.tiny.ty, ind.tiny.graph;", str(folder), str(tmp_path / "cache")):
        assert part in str(caught.value)
    with pytest.raises(DataError) as caught:
        load_dataset("cora", folder, download=False)
    message = ("ind.cora.allx", "https://github.com/kimiyoung/planetoid", "--data", "LINKDIST_DATA")
    assert all(part in str(caught.value) for part in message)


# The public split.


def test_public_split_needs_only_the_test_index(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "tiny", replace(TINY, n=2000, C=3))
    index = np.random.default_rng(0).permutation(np.arange(900, 1900))
    content = "\n".join(map(str, index)).encode()
    others = dict.fromkeys(TINY.files[:-1], b"")
    folder = write_planetoid(tmp_path, **others, **{TINY.files[-1]: content})
    train, validation, test = public_split("tiny", folder, download=False)
    assert train.tolist() == list(range(60))
    assert validation.tolist() == list(range(60, 560))
    assert test.tolist() == list(range(900, 1900))
    assert {part.dtype for part in (train, validation, test)} == {np.dtype(np.int64)}
    for bad in (content[:-5], b"", content + b"\n1999", content.replace(b"1899", b"559")):
        write_planetoid(tmp_path, **{TINY.files[-1]: bad})
        with pytest.raises(DataError, match=r"test\.index is damaged or is not the published file"):
            public_split("tiny", folder, download=False)


@pytest.mark.parametrize("name", ["digits", "cora-full", "amazon-photo", "coauthor-cs"])
def test_other_data_sets_have_no_public_split(name):
    with pytest.raises(OptionError, match=f"{name} has no public split; cora, citeseer, pubmed"):
        public_split(name)


# Download.


class Server(http.server.ThreadingHTTPServer):
    """Serves files from a dict; files in `cut` are truncated."""

    daemon_threads = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        name = self.path.removeprefix("/raw/")
        self.server.asked.append(name)
        if name not in self.server.content:
            self.send_error(404)
            return
        body = self.server.content[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if name in self.server.cut else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        source = f"http://127.0.0.1:{server.server_port}/raw"
        monkeypatch.setitem(DATASETS, "tiny", replace(TINY, source=source))
        monkeypatch.setitem(DATASETS, "tiny-npz", replace(TINY_NPZ, source=source))
        server.content = planetoid_files()
        yield server
        server.shutdown()
        thread.join()


def left(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def test_download_stores_a_checked_data_set_in_the_cache(server, tmp_path, capfd):
    graph = load_dataset("tiny", tmp_path / "nowhere")
    target = tmp_path / "cache" / "planetoid" / "Tiny" / "raw"
    assert graph.n == 8
    assert find_raw("tiny") == target
    assert {path.name: path.read_bytes() for path in target.iterdir()} == planetoid_files()
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"planetoid"}
    assert capfd.readouterr() == ("", "")
    load_dataset("tiny")
    assert server.asked == list(TINY.files)


def test_download_completes_a_partial_data_set(server, tmp_path):
    target = write_planetoid(tmp_path / "cache" / "planetoid" / "Tiny" / "raw")
    (target / "ind.tiny.allx").unlink()
    (target / "ind.tiny.x").write_bytes(b"stale")
    assert load_dataset("tiny").n == 8
    assert {path.name: path.read_bytes() for path in target.iterdir()} == planetoid_files()


def test_download_of_an_npz_file(server, tmp_path):
    path = write_npz(tmp_path / "made", npz_arrays()) / "tiny_full.npz"
    server.content["tiny_full.npz"] = path.read_bytes()
    assert load_dataset("tiny-npz").n == 3
    assert find_raw("tiny-npz") == tmp_path / "cache" / "citation_full" / "Tiny" / "raw"


def test_truncated_download_leaves_nothing(server, tmp_path):
    server.cut = {"ind.tiny.allx"}
    with pytest.raises(DataError, match=r"could not be downloaded.*allx.*IncompleteRead"):
        load_dataset("tiny")
    assert left(tmp_path / "cache") == []


def test_download_with_other_content_leaves_nothing(server, tmp_path):
    server.content["ind.tiny.ally"] = b"<html>sign in</html>"
    with pytest.raises(DataError, match=r"download was rejected and deleted.*ind\.tiny\.ally"):
        load_dataset("tiny")
    server.content = planetoid_files()
    server.content["ind.tiny.graph"] = pickle.dumps({0: [1]})
    with pytest.raises(DataError, match=r"rejected and deleted.*expected n = 8.*e = 2"):
        load_dataset("tiny")
    assert left(tmp_path / "cache") == []


def test_failed_download_explains_the_download_by_hand(server, tmp_path, monkeypatch):
    del server.content["ind.tiny.graph"]
    with pytest.raises(DataError, match=r"404 Client Error.*by hand.*ind\.tiny\.graph.*--data DIR"):
        load_dataset("tiny")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as gone:
        port = gone.server_port
    monkeypatch.setitem(DATASETS, "tiny", replace(TINY, source=f"http://127.0.0.1:{port}/raw"))
    with pytest.raises(DataError, match=r"could not be downloaded.*refused"):
        public_split("tiny")
    assert left(tmp_path / "cache") == []


def test_silent_server_times_out(server, tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda _: go_on.wait(10))
    monkeypatch.setattr(datasets, "_TIMEOUT", 0.05)
    try:
        with pytest.raises(DataError, match=r"could not be downloaded.*timed out"):
            load_dataset("tiny")
    finally:
        go_on.set()
    assert left(tmp_path / "cache") == []


def test_interrupted_download_leaves_nothing(server, tmp_path, monkeypatch):
    fetch = pooch.HTTPDownloader.__call__

    def interrupted(self, url, *others):
        if url.endswith("graph"):
            raise KeyboardInterrupt
        fetch(self, url, *others)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_dataset("tiny")
    assert len(server.asked) == 6
    assert left(tmp_path / "cache") == []


def test_read_only_cache_is_reported(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LINKDIST_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"could not be downloaded.*NotADirectory"):
        load_dataset("tiny")


# The published files.

SELF_LOOPS = {
    **{"cora": 0, "citeseer": 124, "pubmed": 3, "amazon-photo": 1, "amazon-computers": 0},
    **{"coauthor-cs": 0, "coauthor-physics": 0},
}
COUNTS = {
    "cora": (2708, 1433, 7, 10556),
    "citeseer": (3327, 3703, 6, 9228),
    "pubmed": (19717, 500, 3, 88651),
    "amazon-photo": (7650, 745, 8, 238163),
    "amazon-computers": (13752, 767, 10, 491722),
    "coauthor-cs": (18333, 6805, 15, 163788),
    "coauthor-physics": (34493, 8415, 5, 495924),
}
PLANETOID = ("cora", "citeseer", "pubmed")


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_published_data_set_has_the_sizes_of_the_paper(name):
    graph = load_dataset(name, download=False)
    assert (graph.n, graph.d, graph.C, len(graph.edges)) == COUNTS[name]
    assert (graph.links[:, 0] == graph.links[:, 1]).sum() == SELF_LOOPS[name]
    assert np.unique(graph.labels).tolist() == list(range(graph.C))
    assert graph.features.dtype == np.float32
    assert graph.features.format == "csr"
    assert graph.features.has_canonical_format


@pytest.mark.data
@pytest.mark.parametrize("name", PLANETOID)
def test_published_planetoid_rows_sum_to_one(name):
    sums = np.asarray(load_dataset(name, download=False).features.sum(axis=1)).ravel()
    empty = sums == 0
    assert empty.sum() == (15 if name == "citeseer" else 0)
    np.testing.assert_allclose(sums[~empty], 1, atol=1e-5)


@pytest.mark.data
def test_published_values_are_not_binarised():
    for name in ("coauthor-cs", "coauthor-physics"):
        assert load_dataset(name, download=False).features.data.max() > 1
    for name in ("amazon-photo", "amazon-computers"):
        assert set(load_dataset(name, download=False).features.data) == {1}


@pytest.mark.data
@pytest.mark.parametrize("name", PLANETOID)
def test_public_split_is_balanced_and_disjoint(name):
    graph = load_dataset(name, download=False)
    train, validation, test = public_split(name, download=False)
    assert np.bincount(graph.labels[train]).tolist() == [20] * graph.C
    assert (len(validation), len(test)) == (500, 1000)
    assert len(np.unique(np.concatenate([train, validation, test]))) == 20 * graph.C + 1500
    assert (np.diff(test) > 0).all()
    featured = np.diff(graph.features.indptr) > 0
    assert all(featured[part].all() for part in (train, validation, test))
