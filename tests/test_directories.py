"""Oracles: what is in the directory and beside it, after success and after failure.

Real kills are in `test_model_dir`.
"""

import os
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from linkdist import _files
from linkdist._files import read_directory, replace_directory
from linkdist.artifacts.model_dir import load_model
from linkdist.errors import ModelError, OptionError

if sys.platform != "win32":
    import fcntl

OLD, NEW = {"a": b"old", "b": b"old"}, {"a": b"new", "c": b"new"}
HEX = "0123456789abcdef" * 2

NO_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
WAYS = pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])


def content(target):
    return {path.name: path.read_bytes() for path in target.iterdir()}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def no_exchange(monkeypatch):
    monkeypatch.setattr(_files, "_exchange", lambda one, other: False)


@WAYS
def test_a_directory_is_made_and_replaced(tmp_path, exchange, request):
    if not exchange:
        request.getfixturevalue("no_exchange")
    target = tmp_path / "made" / "on the way"
    for files in (OLD, NEW):
        replace_directory(target, files)
        assert content(target) == files
    assert names(target.parent) == ["on the way"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the exchange")
def test_the_exchange_is_used_where_there_is_one(tmp_path, monkeypatch):
    target = tmp_path / "model"
    replace_directory(target, OLD)
    monkeypatch.setattr(Path, "rename", lambda *_: pytest.fail("a second step"))
    replace_directory(target, NEW)
    assert content(target) == NEW


@WAYS
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_one_and_nothing_else(
    tmp_path, monkeypatch, exchange, error, request
):
    if not exchange:
        request.getfixturevalue("no_exchange")
    target = tmp_path / "model"
    replace_directory(target, OLD)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    told = r"model cannot be written: No space left on device\. Free some space\."
    with (
        pytest.raises(OptionError, match=told)
        if isinstance(error, OSError)
        else pytest.raises(KeyboardInterrupt)
    ):
        replace_directory(target, NEW)
    assert content(target) == OLD
    assert names(tmp_path) == ["model"]


def test_a_failed_exchange_is_told_of(tmp_path, monkeypatch):
    target = tmp_path / "model"
    replace_directory(target, OLD)

    def refuse(one, other):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_files, "_exchange", refuse)
    with pytest.raises(OptionError, match="model cannot be written: Permission denied"):
        replace_directory(target, NEW)
    assert content(target) == OLD
    assert names(tmp_path) == ["model"]


def test_the_old_one_is_put_back_after_a_kill_between_two_renames(tmp_path):
    target = tmp_path / "model"
    replace_directory(target, OLD)
    target.rename(tmp_path / f".model.{HEX}.old")
    assert read_directory(target, OLD) == OLD
    target.rename(tmp_path / f".model.{HEX}.old")
    with pytest.raises(OptionError, match="cannot be written"):
        replace_directory(target, {"no/where": b""})
    assert content(target) == OLD
    assert names(tmp_path) == ["model"]


def test_what_a_kill_left_is_swept_and_nothing_else(tmp_path):
    ours = [f".model.{HEX}", f".model.{HEX}.old"]
    others = [".model", ".model.0a1b", f"model.{HEX}", f".other.{HEX}", f".model.2.{HEX}"]
    for name in ours + others:
        (tmp_path / name).mkdir()
    replace_directory(tmp_path / "model", NEW)
    assert names(tmp_path) == sorted([*others, "model"])
    assert content(tmp_path / "model") == NEW


def test_what_is_not_there_is_not_read(tmp_path):
    replace_directory(tmp_path / "model", OLD)
    assert read_directory(tmp_path / "model", ["a", "z"]) == {"a": b"old"}
    for missing in (tmp_path / "nowhere", tmp_path / "no" / "where"):
        with pytest.raises(FileNotFoundError):
            read_directory(missing, ["a"])


def lock(folder, kind):
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, kind)
    return handle


@NO_WINDOWS
def test_readers_do_not_wait_for_each_other(tmp_path):
    """A reader once locked the folder of the model against all others, without a time limit."""
    replace_directory(tmp_path / "model", OLD)
    handle = lock(tmp_path, fcntl.LOCK_SH)
    found = []
    reader = Thread(target=lambda: found.append(read_directory(tmp_path / "model", OLD)))
    reader.start()
    reader.join(timeout=10)
    before = list(found)
    os.close(handle)
    reader.join()
    assert before == [OLD]


@NO_WINDOWS
def test_nobody_waits_for_ever(tmp_path, monkeypatch):
    replace_directory(tmp_path / "model", OLD)
    monkeypatch.setattr(_files, "LOCK_TIMEOUT", 0.1)
    handle = lock(tmp_path, fcntl.LOCK_EX)
    try:
        with pytest.raises(TimeoutError, match="another process has been writing there"):
            read_directory(tmp_path / "model", OLD)
        with pytest.raises(ModelError, match="cannot be read: another process has been writing"):
            load_model(tmp_path / "model")
        with pytest.raises(OptionError, match="Wait for the process that is writing there"):
            replace_directory(tmp_path / "model", NEW)
    finally:
        os.close(handle)
    assert content(tmp_path / "model") == OLD
    replace_directory(tmp_path / "model", NEW)
    assert content(tmp_path / "model") == NEW


@NO_WINDOWS
def test_a_reader_waits_for_a_writer(tmp_path):
    replace_directory(tmp_path / "model", OLD)
    handle = lock(tmp_path, fcntl.LOCK_EX)
    found = []
    reader = Thread(target=lambda: found.append(read_directory(tmp_path / "model", NEW)))
    reader.start()
    time.sleep(0.1)
    for name in OLD:
        (tmp_path / "model" / name).unlink()
    for name, text in NEW.items():
        (tmp_path / "model" / name).write_bytes(text)
    os.close(handle)
    reader.join()
    assert found == [NEW]
