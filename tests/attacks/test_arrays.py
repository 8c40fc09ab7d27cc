"""Finding 1: arrays of a file are checked before compiled code uses them as indices.

Oracles: a check of every entry in plain Python, and exit code 2 where there was a segmentation
fault.
"""

from __future__ import annotations

import io
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linkdist import Graph
from linkdist.artifacts.model_dir import load_model
from linkdist.data.csr import check_indices, checked_csr
from linkdist.data.interchange import as_links
from linkdist.errors import GraphError, StoreError
from linkdist.store.reader import Store
from tests.attacks.forged import sign_store, with_array, with_tensors
from tests.stores import build_papers

LARGEST, SMALLEST = 2**31 - 1, -(2**31)
SMALL = st.integers(-1, 4) | st.sampled_from([LARGEST, SMALLEST])


def is_safe(data, indices, indptr, rows, columns):
    """Whether a loop over the rows stays within the arrays."""
    starts = [0, *indptr[1:-1], len(indices)]
    return (
        len(data) == len(indices)
        and len(indptr) == rows + 1
        and list(indptr) == (starts if rows else [0])
        and all(0 <= start <= end for start, end in pairwise(indptr))
        and all(0 <= column < columns for column in indices)
        and (rows > 0 or not len(indices))
    )


@given(
    st.lists(SMALL, max_size=3),
    st.lists(SMALL, min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_a_matrix_is_created_only_if_its_loops_stay_within_the_arrays(
    indices, indptr, rows, columns
):
    data = np.ones(len(indices))
    arrays = data, np.array(indices, np.int32), np.array(indptr, np.int32)
    if is_safe(data, indices, indptr, rows, columns):
        matrix = checked_csr(*arrays, (rows, columns))
        expected = np.zeros((rows, columns))
        for row in range(rows):
            for place in range(indptr[row], indptr[row + 1]):
                expected[row, indices[place]] += 1
        assert (matrix.toarray() == expected).all()
    else:
        with pytest.raises(ValueError, match=r"must|there are"):
            checked_csr(*arrays, (rows, columns))


@pytest.mark.parametrize(
    "indptr", [[0, 10**6, 0], [0, LARGEST, SMALLEST, -1, 1]], ids=["ends at 0", "overflows"]
)
def test_pointers_that_pass_the_check_of_scipy_are_refused(indptr):
    size = indptr[-1]
    parts = np.ones(size), np.zeros(size, np.int32), np.array(indptr, np.int32)
    shape = (len(indptr) - 1, 3)
    matrix = sparse.csr_matrix(parts, shape)
    matrix.check_format(full_check=True)
    with pytest.raises(ValueError, match="indptr must not decrease"):
        checked_csr(*parts, shape)
    with pytest.raises(GraphError, match="not a valid sparse matrix: indptr must not decrease"):
        Graph.build(matrix, [(0, 1)], [0, 1, *[-1] * (shape[0] - 2)])


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(("name", "value"), [("indices", 10**6), ("indices", -1), ("indptr", 7)])
def test_a_matrix_of_the_caller_is_checked(kind, name, value):
    """`scipy.sparse.load_npz` returns the indices of its file unchecked."""
    x = sparse.random(6, 6, 0.5, format="csr", random_state=0).asformat(kind)
    check_indices(x)
    getattr(x, name)[1] = value
    with pytest.raises(GraphError, match="not a valid sparse matrix"):
        Graph.build(x, [(0, 1)], [0, 1, 0, 1, 0, 1])
    with pytest.raises(GraphError, match="not a valid adjacency matrix"):
        as_links(x, 6)


# a model directory whose digests are right --------------------------------------------------------


def set_at(name, place, value):
    def change(tensors):
        tensors[name].view(-1)[place] = value

    return change


def of_half_floats(tensors):
    tensors["labels"] = tensors["labels"].to(torch.bfloat16)


def of_another_model(tensors):
    tensors["held"] = torch.cat([tensors["held"]] * 3)


FORGED = {
    "column out of range": set_at("indices", 5, 10**6),
    "negative column": set_at("indices", 5, -1),
    "decreasing pointer": set_at("indptr", 3, 10**6),
    "link out of range": set_at("links", 0, 10**6),
    "class out of range": set_at("labels", 0, 7),
    "endless schedule": set_at("counts", 2, 2**60),
    "other type": of_half_floats,
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_update_and_export_refuse_a_forged_replay_buffer(
    change, papers, papers_model, tmp_path, command
):
    model = shutil.copytree(papers_model, tmp_path / "model")
    with_tensors(model, "replay.safetensors", change)
    tables = ["--nodes", papers / "nodes.csv", "--edges", papers / "links.csv"]
    for args in (["update", model, *tables], ["export", model, tmp_path / "out.onnx"]):
        code, _, said = command(*args)
        assert code == 2
        assert "the replay buffer of the model is not valid" in said
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_a_replay_buffer_of_other_sizes_is_refused(papers, papers_model, tmp_path, command):
    """The compiled loops take their sizes from the network."""
    model = shutil.copytree(papers_model, tmp_path / "model")
    with_tensors(model, "replay.safetensors", of_another_model)
    tables = ["--nodes", papers / "nodes.csv", "--edges", papers / "links.csv"]
    code, _, said = command("update", model, *tables)
    assert code == 2
    assert "must have 1 replicas and 59 features; found 3 and 59" in said


# a store whose digests are right ------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(papers, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "papers"
    build_papers(papers, out, parts=1)
    return out


@pytest.fixture
def store(built, tmp_path):
    return shutil.copytree(built, tmp_path / "store")


PART, LINKS = "parts/0000.", "links/0000-0000.npy"


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        (f"{PART}features.indices.npy", 5, 10**6, "indices must be in 0..58; found 1000000"),
        (f"{PART}features.indices.npy", 5, -1, "indices must be in 0..58; found -1"),
        (f"{PART}features.indptr.npy", 3, 10**9, "indptr must not decrease"),
        (f"{PART}features.indptr.npy", -1, -1, "must contain float32 of shape"),
        (f"{PART}features.data.npy", 0, np.nan, "must contain finite numbers; 1 are not"),
        (f"{PART}labels.npy", 3, 4, "must contain -1..3; 1 are outside"),
        (f"{PART}labels.npy", 3, -2, "must contain -1..3; 1 are outside"),
        (LINKS, (7, 1), 1200, "must contain rows 0..1199 of part 0; 1 are outside"),
    ],
)
def test_training_refuses_a_forged_store(store, tmp_path, command, name, place, value, words):
    def change(array):
        array[place] = value

    with_array(store, name, change)
    code, _, said = command(
        "train", "--store", store, "--method", "colinkdist", "--epochs", "1",
        "--out", tmp_path / "model", "--quiet",
    )  # fmt: skip
    assert code == 2, said
    assert words in said
    assert not (tmp_path / "model").exists()


def test_texts_that_end_outside_a_file_are_refused(store):
    ids = Store.open(store).ids(0)
    _, offsets, texts = ids.buffers()
    moved = np.frombuffer(offsets, np.int64).copy()
    moved[5] = 2**40
    forged = pa.Array.from_buffers(ids.type, len(ids), [None, pa.py_buffer(moved), texts])
    batch, file = pa.record_batch([forged], ["id"]), io.BytesIO()
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    sign_store(store, "parts/0000.ids.arrow", file.getvalue())
    with pytest.raises(StoreError, match=r"ids\.arrow cannot be read"):
        Store.open(store).ids(0)


def test_an_untouched_model_and_store_are_read(papers_model, store):
    assert load_model(papers_model).replay_buffer().graph.n > 0
    assert Store.open(store).features(0).shape == (1200, 59)
