"""Interrupted builds continue. Oracle: the bytes of a store that was built undisturbed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from linkdist._files import ASIDE
from linkdist.errors import OptionError, StoreError, TableError
from linkdist.progress import Callback
from linkdist.store import build as build_module
from linkdist.store import journal as journal_module
from linkdist.store import plan, resolve_links
from linkdist.store.build import build
from linkdist.store.journal import Journal, open_journal
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted, synth
from linkdist.tables import formats
from tests.stores import build_papers, papers_tables, small, tree

PLANTED = Planted(nodes=3000, links=20_000, features=5, classes=4)


class KilledError(Exception):
    pass


@pytest.fixture
def fine(monkeypatch):
    """Let a build write and take notes as often as it can."""
    for name, value in (("MIN_BUFFER", 2400), ("MAX_BUFFER", 2400), ("BATCH", 100)):
        monkeypatch.setattr(build_module, name, value)
    monkeypatch.setattr(resolve_links, "COMMIT_LINKS", 1)


@pytest.fixture(scope="module")
def undisturbed(papers, tmp_path_factory):
    out = tmp_path_factory.mktemp("stores") / "store"
    build_papers(papers, out)
    return tree(out)


def raising_after(monkeypatch, name, calls):
    """Let a method of the journal raise after so many calls; each later one as well."""
    real, counted = getattr(Journal, name), [0]

    def call(self, *args, **options):
        counted[0] += 1
        if counted[0] > calls:
            raise KilledError
        return real(self, *args, **options)

    monkeypatch.setattr(Journal, name, call)
    return counted


@pytest.mark.parametrize("name", ["append", "commit", "save", "write_header"])
def test_a_build_killed_anywhere_ends_with_the_same_bytes(
    papers, tmp_path, monkeypatch, fine, undisturbed, name
):
    """Kill at one call after the other, each time further on, until it is through."""
    out, kills, calls, work = tmp_path / "store", 0, 0, []
    while not out.exists():
        with monkeypatch.context() as patch:
            counted = raising_after(patch, name, calls)
            try:
                build_papers(papers, out)
            except KilledError:
                kills += 1
                with pytest.raises(StoreError, match=r"unfinished|not a store|no directory"):
                    Store.open(out.with_name("store.building"))
        work.append(counted[0])
        calls = calls * 2 + 3 if name == "append" else calls + 2
    assert kills >= 2
    assert tree(out) == undisturbed
    assert not out.with_name("store.building").exists()


class AtStage(Callback):
    def __init__(self, stage):
        self.asked, self.seen = stage, []

    def stage(self, name):
        self.seen.append(name)
        if name == self.asked:
            raise KilledError


STAGES = (
    *("surveying nodes", "counting links", "writing nodes", "sorting ids"),
    *("reading links", "resolving links", "computing digests"),
)


def test_a_build_killed_at_each_stage_ends_with_the_same_bytes(papers, tmp_path, undisturbed):
    out = tmp_path / "store"
    for stage in STAGES:
        with pytest.raises(KilledError):
            build_papers(papers, out, callback=AtStage(stage))
    last = AtStage(None)
    build_papers(papers, out, callback=last)
    assert last.seen == ["computing digests"], "what is done is not done again"
    assert tree(out) == undisturbed


def test_what_was_written_is_not_written_again(papers, tmp_path, monkeypatch, fine, undisturbed):
    out = tmp_path / "store"
    with monkeypatch.context() as patch:
        raising_after(patch, "commit", 6)
        with pytest.raises(KilledError):
            build_papers(papers, out)
    journal = json.loads((tmp_path / "store.building" / "journal.json").read_text())
    assert 0 < journal["rows"] < 1200
    for name, length in journal["lengths"].items():
        with (tmp_path / "store.building" / name).open("ab") as file:
            file.write(b"half a row")  # as a kill amid writing leaves it
        assert length >= 0
    before = build_module.encoded_nodes
    skipped = []

    def noted(*args):
        skipped.append(args[4])
        return before(*args)

    monkeypatch.setattr(build_module, "encoded_nodes", noted)
    build_papers(papers, out)
    assert skipped == [journal["rows"]]
    assert tree(out) == undisturbed


def test_other_options_or_tables_begin_anew(papers, tmp_path, undisturbed):
    out = tmp_path / "store"
    with pytest.raises(KilledError):
        build_papers(papers, out, parts=2, callback=AtStage("reading links"))
    again = AtStage(None)
    build_papers(papers, out, callback=again)
    assert again.seen[0] == "surveying nodes"
    assert tree(out) == undisturbed
    nodes = tmp_path / "nodes.csv"
    nodes.write_bytes((papers / "nodes.csv").read_bytes())
    tables = papers_tables(papers)
    tables = type(tables)(nodes, tables.edges, tables.id, tables.label)
    other = tmp_path / "other"
    with small(), pytest.raises(KilledError):
        build(tables, other, parts=3, callback=AtStage("reading links"))
    os.utime(nodes, ns=(1, 1))
    again = AtStage(None)
    with small():
        build(tables, other, parts=3, callback=again)
    assert again.seen[0] == "surveying nodes"
    assert tree(other) == undisturbed


@pytest.mark.parametrize("damage", ["garbage", "missing", "short"])
def test_a_journal_that_cannot_be_trusted_begins_anew(papers, tmp_path, undisturbed, damage):
    out, folder = tmp_path / "store", tmp_path / "store.building"
    with pytest.raises(KilledError):
        build_papers(papers, out, callback=AtStage("reading links"))
    if damage == "garbage":
        (folder / "journal.json").write_text("[1, 2")
    elif damage == "missing":
        (folder / "parts/0001.labels.npy").unlink()
    else:
        os.truncate(folder / "parts/0001.labels.npy", 130)
    build_papers(papers, out)
    assert tree(out) == undisturbed


LEFT = [f".{name}.json.{'0f' * 16}" for name in ("journal", "manifest")]


def test_what_a_kill_left_of_a_file_is_swept(papers, tmp_path, undisturbed):
    """A journal or manifest that was being written is in nobody's way, and no store has it."""
    out, folder = tmp_path / "store", tmp_path / "store.building"
    with pytest.raises(KilledError):
        build_papers(papers, out, callback=AtStage("computing digests"))
    for name in LEFT:
        (folder / name).write_text("half a file")
    build_papers(papers, out)
    assert tree(out) == undisturbed
    for name in LEFT:  # as earlier versions left it in a store
        (out / name).write_text("half a file")
    build_papers(papers, out, overwrite=True)
    assert tree(out) == undisturbed
    (out / f".notes.md.{'0f' * 16}").write_text("not of a store")
    with pytest.raises(OptionError, match="only an empty directory or a store is replaced"):
        build_papers(papers, out, overwrite=True)


@pytest.mark.parametrize("made", [False, True])
def test_a_store_killed_at_any_fsync_is_that_of_an_undisturbed_one(papers, tmp_path, made):
    """A copy of the files as they are at an fsync is what a kill there leaves."""

    def work(out):
        if made:
            synth(out, Planted(200, 900, features=2, classes=2), parts=2)
        else:
            build(papers_tables(papers), out, parts=2)

    whole, left = tmp_path / "whole", []

    def fsync(_):
        if not whole.exists():  # else it has its name by now
            left.append(tmp_path / f"{len(left)}.building")
            shutil.copytree(tmp_path / "whole.building", left[-1])

    finest = mock.patch.object(plan, "largest_parts", return_value=plan.MAX_PARTS)
    with finest, mock.patch("os.fsync", fsync):
        work(whole)
    aside = [path for folder in left for path in folder.iterdir() if ASIDE.fullmatch(path.name)]
    assert {path.name.split(".")[1] for path in aside} == {"journal", "manifest"}
    for folder in left:
        with small():
            work(folder.with_suffix(""))
        assert tree(folder.with_suffix("")) == tree(whole), folder.name
        assert not folder.exists()


class Full:
    """A file on a disk that has room for so many writes."""

    def __init__(self, file, left):
        self.file, self.left = file, left

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content):
        self.left[0] -= 1
        if self.left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(content)


@contextmanager
def full_disk(file, writes=0):
    """Let the disk be full when a file is written to, or once it was so many times."""
    real, left = Path.open, [writes]
    folder, _, name = f"store.building/{file}".rpartition("/")

    def open_(path, mode="r", *args, **options):
        opened = real(path, mode, *args, **options)
        asked = str(path.parent).endswith(folder) and name in path.name and "r" not in mode
        return Full(opened, left) if asked else opened

    with mock.patch.object(Path, "open", open_), pytest.raises(StoreError) as found:
        yield
    text = str(found.value)
    assert f"store.building/{file} cannot be written: No space left on device." in text
    assert re.search(r"[kM]B are written, about [0-9.]+ (kB|bytes) more are needed, and", text)
    assert "Free some space and run the same command again: it continues where it stopped." in text


@pytest.mark.parametrize(
    ("file", "writes"),
    [
        ("journal.json", 2),
        ("parts/0002.labels.npy", 1),
        ("work/runs.index", 0),
        ("work/0001.linked", 0),
        ("work/0001.linked", 1),
        ("parts/0001.ids.arrow", 1),
        ("links/0000-0001.npy", 0),
        ("manifest.json", 0),
    ],
)
def test_a_full_disk_says_what_is_needed_and_goes_on(papers, tmp_path, undisturbed, file, writes):
    out = tmp_path / "store"
    with full_disk(file, writes):
        build_papers(papers, out)
    build_papers(papers, out)
    assert tree(out) == undisturbed


@contextmanager
def unreadable_links(rows):
    """Let the system fail to read a link table after so many rows."""
    real = formats.Csv._read

    def read(self, columns, size, as_text):
        for batch in real(self, columns, size, as_text):
            if Path(self.name).name == "links.csv" and len(columns) == 2:
                yield batch.slice(0, rows)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            yield batch

    with mock.patch.object(formats.Csv, "_read", read):
        yield


def test_a_table_that_cannot_be_read_for_a_while_costs_nothing(papers, tmp_path, fine, undisturbed):
    out, again = tmp_path / "store", AtStage(None)
    with unreadable_links(1000), pytest.raises(TableError, match="run the same command again"):
        build_papers(papers, out)
    journal = json.loads((tmp_path / "store.building" / "journal.json").read_text())
    assert journal["read"] == 1000
    build_papers(papers, out, callback=again)
    assert again.seen[:2] == ["sorting ids", "reading links"]
    assert tree(out) == undisturbed


@pytest.mark.parametrize(("first", "then"), [(2400, 5520), (5520, 2400), (2400, 1 << 20)])
def test_with_parts_given_another_memory_goes_on(papers, tmp_path, undisturbed, first, then):
    """Links are then read in batches of another length: 100, 230 or all."""
    out, again = tmp_path / "store", AtStage(None)
    few, more = ({"MIN_BUFFER": size, "MAX_BUFFER": size} for size in (first, then))
    with (
        mock.patch.multiple(build_module, **few),
        unreadable_links(1000),
        pytest.raises(TableError),
    ):
        build_papers(papers, out, memory=10**8)
    with mock.patch.multiple(build_module, **more):
        build_papers(papers, out, memory=10**9, callback=again)
    assert again.seen[:2] == ["sorting ids", "reading links"]
    assert tree(out) == undisturbed


def test_another_memory_begins_anew_where_parts_follow_from_it(papers, tmp_path):
    out, again = tmp_path / "store", AtStage(None)
    with pytest.raises(KilledError):
        build(papers_tables(papers), out, memory=10**6, callback=AtStage("reading links"))
    assert build(papers_tables(papers), out, memory=10**9, callback=again).P == 1
    assert again.seen[0] == "surveying nodes"


@pytest.mark.parametrize("asked", [("store", "build"), ("train",)])
def test_a_table_that_cannot_be_read_ends_a_command_with_a_sentence(
    command, papers, tmp_path, asked
):
    with unreadable_links(1000):
        code, out, err = command(
            *(*asked, "--nodes", papers / "nodes.csv", "--edges", papers / "links.csv"),
            *("--id", "paper", "--label", "field", "--out", tmp_path / "out"),
        )
    assert (code, out) == (2, "")
    assert "links.csv cannot be read: Input/output error. Name " in " ".join(err.split())
    assert "Traceback" not in err


def test_two_builds_of_one_store_do_not_mix(papers, tmp_path):
    with (
        open_journal(tmp_path / "store", {}),
        pytest.raises(StoreError, match="another process is building in"),
    ):
        build_papers(papers, tmp_path / "store")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
@pytest.mark.parametrize("before", ["os.open", "fcntl.flock"])
def test_a_build_that_ends_while_another_begins_is_told_of(papers, tmp_path, undisturbed, before):
    """The other build ends, and its folder takes the store's name, right before this one locks."""
    out, others = tmp_path / "store", [build_papers]
    module, _, name = before.partition(".")
    real = getattr(sys.modules[module], name)

    def late(what, *args, **options):
        if others and (before == "fcntl.flock" or what == tmp_path / "store.building"):
            others.pop()(papers, out)
        return real(what, *args, **options)

    again = "was building in .* until now. Run the same command again."
    with mock.patch(before, late), pytest.raises(StoreError, match=again):
        build_papers(papers, out)
    assert tree(out) == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with pytest.raises(OptionError, match="is already a store"):
        build_papers(papers, out)


def test_a_store_that_another_build_finishes_meanwhile_is_not_replaced(
    papers, tmp_path, undisturbed, monkeypatch
):
    out, others = tmp_path / "store", [build_papers]

    def late(folder):
        if others:
            others.pop()(papers, out)

    monkeypatch.setattr(journal_module, "_check_building", late)
    with pytest.raises(OptionError, match="is already a store"):
        build_papers(papers, out)
    assert tree(out) == undisturbed
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


# synth --------------------------------------------------------------------------------------------


def test_a_killed_synth_ends_with_the_same_bytes(tmp_path, monkeypatch):
    with small():
        synth(tmp_path / "whole", PLANTED, parts=3)
        calls = 0
        while not (tmp_path / "store").exists():
            with monkeypatch.context() as patch:
                raising_after(patch, "save", calls)
                try:
                    synth(tmp_path / "store", PLANTED, parts=3)
                except KilledError:
                    assert (tmp_path / "store.building").exists()
            calls += 1
    assert calls > 3
    assert tree(tmp_path / "store") == tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("file", "writes"),
    [("work/0001.linked", 0), ("work/0001.linked", 2), ("links/0001-0001.npy", 1)],
)
def test_a_synth_on_a_full_disk_goes_on(tmp_path, file, writes):
    with small():
        synth(tmp_path / "whole", PLANTED, parts=3)
        with full_disk(file, writes):
            synth(tmp_path / "store", PLANTED, parts=3)
        synth(tmp_path / "store", PLANTED, parts=3)
    assert tree(tmp_path / "store") == tree(tmp_path / "whole")


# processes ----------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
from pathlib import Path
from linkdist.pipeline import Tables
from linkdist.store import build as build_module, resolve_links
from linkdist.store.build import build
from linkdist.store.journal import Journal

folder, out, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
build_module.MIN_BUFFER = build_module.MAX_BUFFER = 2400
build_module.BATCH = 100
resolve_links.COMMIT_LINKS = 1
real, told = Journal.append, [0]

def append(self, *args):
    real(self, *args)
    told[0] += 1
    if told[0] == last:
        os.kill(os.getpid(), signal.SIGKILL)

Journal.append = append
build(Tables(folder / "nodes.csv", folder / "links.csv", "paper", "field"), out, parts=3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_build_ended_by_sigkill_goes_on(papers, tmp_path, undisturbed):
    out, codes = tmp_path / "store", []
    for last in (60, 0):
        asked = [sys.executable, "-c", PROGRAM, str(papers), str(out), str(last)]
        codes.append(subprocess.run(asked, check=False, timeout=120).returncode)
        if last:
            assert not out.exists()
            assert (tmp_path / "store.building" / "journal.json").exists()
    assert codes == [-signal.SIGKILL, 0]
    assert tree(out) == undisturbed
