"""Oracles: what is in the file and what is in its folder, after success and after failure."""

from __future__ import annotations

import os

import pytest

from linkdist._files import replace_text, sweep
from linkdist.errors import OptionError


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_is_made_and_replaced(tmp_path):
    path = tmp_path / "notes.md"
    replace_text(path, "α\n")
    assert path.read_bytes() == b"\xce\xb1\n"
    replace_text(path, "two\n")
    assert path.read_bytes() == b"two\n"
    assert names(tmp_path) == ["notes.md"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "notes.md"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OptionError, match=r"notes\.md cannot be written: No space left on device"):
        replace_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["notes.md"]


def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "notes.md"
    path.write_text("old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["notes.md"]


def test_a_folder_that_takes_no_files_is_told_of(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for folder, found in {"file": "Not a directory", "nowhere": "No such file"}.items():
        path = tmp_path / folder / "notes.md"
        with pytest.raises(OptionError, match=rf"notes\.md cannot be written: {found}.*Choose an"):
            replace_text(path, "new")
    assert names(tmp_path) == ["file"]


def test_what_a_kill_left_is_swept_and_nothing_else(tmp_path, monkeypatch):
    left = tmp_path / "left"
    left.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(type(left), "unlink", lambda path: None)
        patch.setattr(type(left), "replace", lambda path, target: None)
        replace_text(left / "notes.md", "new")
    assert len(names(left)) == 1
    others = ["notes.md", ".notes.md", ".notes.md.0a1b", "notes.md." + "0" * 32, "." + "0" * 32]
    for name in others:
        (left / name).touch()
    sweep(left)
    assert sorted(names(left)) == sorted(others)
