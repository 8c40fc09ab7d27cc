"""Kills, full disks and readers. Oracles: the old bytes, the bytes of an undisturbed append."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from linkdist.errors import StoreError, TableError
from linkdist.pipeline import Tables
from linkdist.progress import Callback
from linkdist.store.append import append
from linkdist.store.build import build
from linkdist.store.format import MANIFEST, Manifest, buckets
from linkdist.store.reader import Store
from linkdist.store.verify import check
from tests.store.growing import (
    NEW_LINKS,
    OLD_LINKS,
    append_new,
    build_from,
    link_columns,
    path_nodes,
)
from tests.stores import as_arrays, dense, small, tree, write


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


# kills, full disks and concurrent readers ---------------------------------------------------------


def everything(store):
    """All content of a store, read through its manifest."""
    parts = [
        (dense(store.features(p)).tobytes(), store.labels(p).tobytes(), store.ids(p).to_pylist())
        for p in range(store.P)
    ]
    return parts, [store.links(a, b).tobytes() for a, b in buckets(store.P)]


def snapshots(store, folder):
    """Append, and copy the store whenever a file is synced, renamed or removed."""
    left = []

    def copying(real):
        def call(*args, **options):
            left.append(shutil.copytree(store, folder / str(len(left))))
            return real(*args, **options)

        return call

    with (
        mock.patch("os.fsync", copying(lambda handle: None)),
        mock.patch.object(Path, "replace", copying(Path.replace)),
        mock.patch.object(Path, "unlink", copying(Path.unlink)),
        mock.patch("shutil.rmtree", copying(shutil.rmtree)),
    ):
        append(store, path_nodes(20, 23), link_columns(NEW_LINKS))
    return left


@pytest.mark.parametrize("appended", [False, True], ids=["a new part", "a part with room"])
def test_a_kill_at_any_step_leaves_the_old_store_or_the_new_one(store, tmp_path, appended):
    if appended:  # then files of an earlier generation are replaced, too
        append(store, path_nodes(40, 42), link_columns([("n40", "n4")]))
    before = everything(Store.open(store))
    copies = snapshots(store, tmp_path / "copies")
    after, whole = everything(Store.open(store)), tree(store)
    assert before != after
    seen = Counter()
    for copy in copies:
        assert check(copy) == []
        found = everything(Store.open(copy))
        seen["old" if found == before else "new"] += 1
        assert found in (before, after)
        if found == before:
            append_new(copy)
        else:
            with pytest.raises(TableError, match="ids that the store has already"):
                append_new(copy)
        assert tree(copy) == whole, "nothing is left of the killed append"
    assert min(seen["old"], seen["new"]) > 3


class KilledError(BaseException):
    pass


def test_a_kill_between_any_two_reports_of_progress_changes_nothing(store, undisturbed):
    class Killing(Callback):
        left = 0

        def stage(self, name):
            self.progress(0, 0)

        def progress(self, done, total):
            self.left -= 1
            if self.left < 0:
                raise KilledError

    before = check(store) or everything(Store.open(store))
    for steps in range(99):
        callback = Killing()
        callback.left = steps
        try:
            append_new(store, callback=callback)
            break
        except KilledError:
            assert everything(Store.open(store)) == before
    assert steps > 10
    assert tree(store) == undisturbed


@pytest.mark.parametrize("name", ["features.1.npy", "ids.1.arrow", "runs", "-0003.1.npy", MANIFEST])
def test_a_full_disk_leaves_the_store_as_it_was(store, undisturbed, name):
    real, before = Path.open, tree(store)

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def __getattr__(self, attribute):
            return getattr(self.file, attribute)

        def write(self, content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open_(path, mode="r", *args, **options):
        opened = real(path, mode, *args, **options)
        asked = name in path.name and mode != "rb" and "r" not in mode
        return Full(opened) if asked else opened

    with mock.patch.object(Path, "open", open_), pytest.raises(StoreError) as found:
        append_new(store)
    assert "cannot be written: No space left on device. Nothing was appended" in str(found.value)
    assert "Free some space" in str(found.value)
    assert tree(store) == before
    append_new(store)
    assert tree(store) == undisturbed


def test_a_reader_of_the_old_store_gets_old_data_or_an_error(store):
    early, before = Store.open(store), everything(Store.open(store))

    class Reading(Callback):
        times = 0

        def progress(self, done, total):
            assert everything(early) == before
            self.times += 1

    reading = Reading()
    append_new(store, callback=reading)
    assert reading.times > 5
    old, read, errors = before[1], 0, []
    for part in range(3):
        assert early.ids(part).to_pylist() == before[0][part][2]
    for place, (a, b) in enumerate(buckets(3)):
        try:
            assert early.links(a, b).tobytes() == old[place]
            read += 1
        except StoreError as error:
            errors.append(str(error))
    assert read
    assert set(errors) == {
        f"{store} was changed by 'linkdist store append' after it was opened. Run the same "
        "command again."
    }


def test_a_file_removed_while_it_is_read_is_an_error(store, monkeypatch):
    early = Store.open(store)
    real = Store._verify

    def late(self, name, *content):
        if self is early and early.manifest == Manifest.read(store):
            append_new(store)
        return real(self, name, *content)

    monkeypatch.setattr(Store, "_verify", late)
    changed = next(pair for pair in buckets(3) if pair in _changed_buckets(store))
    with pytest.raises(StoreError, match="was changed by 'linkdist store append'"):
        early.links(*changed)


def _changed_buckets(store):
    """The buckets of old nodes that `append_new` writes again."""
    found = Store.open(store)
    part = {id: p for p in range(3) for id in found.ids(p).to_pylist()}
    return {tuple(sorted((part["n4"], part["n9"]))), (part["n0"], part["n0"])}


def test_a_store_that_changes_while_it_is_opened_is_opened_again(store, undisturbed):
    first, real = [Manifest.read(store)], Manifest.read
    append_new(store)

    def read(directory):
        return first.pop() if first else real(directory)

    with mock.patch.object(Manifest, "read", read):
        assert Store.open(store).n == 23
    assert tree(store) == undisturbed


def test_two_appends_at_once_are_refused(store, undisturbed):
    class Second(Callback):
        def stage(self, name):
            with pytest.raises(StoreError, match="another process is appending to"):
                append(store, path_nodes(30, 31))

    append_new(store, callback=Second())
    assert tree(store) == undisturbed


def test_a_store_that_is_replaced_meanwhile_is_not_changed(store, built):
    class Replacing(Callback):
        def stage(self, name):
            if name == "writing links":
                fields = json.loads((store / MANIFEST).read_text()) | {"program": "another"}
                (store / MANIFEST).write_text(json.dumps(fields))

    with pytest.raises(StoreError, match="another process has replaced the store meanwhile"):
        append_new(store, callback=Replacing())
    assert Store.open(store).n == 20
    assert check(store) == []


def test_files_of_others_are_not_removed(store):
    for name in ("notes.md", "parts/notes.md", "links/0001"):
        (store / name).write_text("mine")
    (store / "links/0001-0002.7.npy").write_text("left by a kill")
    append_new(store)
    assert all((store / name).exists() for name in ("notes.md", "parts/notes.md", "links/0001"))
    assert not (store / "links/0001-0002.7.npy").exists()


# what reads an appended store ---------------------------------------------------------------------


def rewritten_ids(store, part, ids):
    """Replace the ids of a part, and their digest with them."""
    found = Store.open(store)
    name = f"parts/{part:04}.ids.arrow"
    path = store / found.manifest.path(name)
    batch = pa.record_batch([pa.array(ids, pa.large_string())], ["id"])
    with path.open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    fields = json.loads((store / MANIFEST).read_text())
    content = path.read_bytes()
    fields["files"][name][:2] = [len(content), hashlib.sha256(content).hexdigest()]
    (store / MANIFEST).write_text(json.dumps(fields))


def test_a_check_finds_ids_that_are_in_two_parts(store):
    append_new(store)
    append(store, path_nodes(30, 34 + max(Store.open(store).manifest.sizes)))
    found = Store.open(store)
    assert found.P == 5
    taken = found.ids(1)[0].as_py()
    rewritten_ids(store, 4, [taken, *found.ids(4).to_pylist()[1:]])
    assert check(store) == ["parts/0001.ids.arrow contains 1 ids of other parts"]
    rewritten_ids(store, 4, [found.ids(3)[0].as_py(), *found.ids(4).to_pylist()[1:]])
    assert check(store) == [
        "parts/0003.ids.2.arrow contains 1 ids of other parts",
        "parts/0004.ids.2.arrow contains 1 ids of other parts",
    ]
    os.truncate(store / "parts/0004.ids.2.arrow", 9)
    size = Manifest.read(store).files["parts/0004.ids.arrow"].size
    assert check(store) == [f"parts/0004.ids.2.arrow has 9 bytes, not {size}"]


@pytest.mark.parametrize(
    ("hashed", "problem"),
    [
        (0, "hashed: Input should be greater than or equal to 1"),
        (5, "5 parts are filled by hashing, but there are 4"),
    ],
)
def test_the_number_of_hashed_parts_must_be_one_of_parts(store, hashed, problem):
    append_new(store)
    fields = json.loads((store / MANIFEST).read_text()) | {"hashed": hashed}
    (store / MANIFEST).write_text(json.dumps(fields))
    with pytest.raises(StoreError, match=problem):
        Store.open(store)


def split_papers(papers, folder):
    """The tables of the papers in two pieces; links of later papers are new."""
    nodes = pa.csv.read_csv(papers / "nodes.csv")
    links = pa.csv.read_csv(papers / "links.csv")
    old = set(nodes["paper"].to_pylist()[:1000])
    is_old = [a in old and b in old for a, b in zip(*links.to_pydict().values(), strict=True)]
    is_new = [not one for one in is_old]
    return (
        write(folder / "nodes.csv", nodes[:1000]),
        write(folder / "links.csv", links.filter(pa.array(is_old))),
        write(folder / "new_nodes.csv", nodes[1000:]),
        write(folder / "new_links.csv", links.filter(pa.array(is_new))),
    )


def test_training_from_an_appended_store_is_training_on_its_graph(papers, tmp_path):
    import torch

    from linkdist.data.graph import UNKNOWN, Graph
    from linkdist.data.splits import View
    from linkdist.distributed.loader import Loader, rounds_of
    from linkdist.distributed.survey import survey
    from linkdist.distributed.trainer import Schedule, train_rounds
    from linkdist.nn.inputs import make_inputs
    from linkdist.training.checkpoint import TrainingRun
    from linkdist.training.link_task import Tally

    nodes, links, *new = split_papers(papers, tmp_path)
    with small():
        build(Tables(nodes, links, "paper", "field"), tmp_path / "store", parts=3)
        store = append(tmp_path / "store", *new)
    assert (store.n, store.P) == (1200, 4)
    ids = [id for part in range(4) for id in store.ids(part).to_pylist()]
    x, y, pairs = as_arrays(store, ids)
    graph = Graph.build(x, pairs, y.astype(np.int64), store.classes)
    first = np.concatenate([[0], np.cumsum(store.sizes)])
    found = survey(store, share=0.1, seed=0)
    y = graph.labels.copy()
    y[np.concatenate([first[p] + rows for p, rows in found.held.items()])] = UNKNOWN
    expected = Tally.of(View(graph.features, np.arange(graph.n), graph.edges, y, graph.C))
    assert (found.tally.nodes, found.tally.ends) == (expected.nodes, expected.ends)
    assert (found.tally.of_ends == expected.of_ends).all()
    cpu = torch.device("cpu")
    rounds = Loader(store, found.held, cpu).read(rounds_of(store.P, 0))
    assert sum(fed.seen.edges[0].shape[0] for fed in rounds) == len(graph.edges)
    schedule = Schedule.of(store, 5, whole=False)
    stage = train_rounds(store, found, schedule, [0], TrainingRun(None, None), device=cpu)
    z, _ = stage.network(make_inputs(graph.features, cpu))
    known = graph.labels != UNKNOWN
    hits = z[0].reshape(graph.n, -1).argmax(-1).numpy()[known] == graph.labels[known]
    assert hits.mean() > 0.6
