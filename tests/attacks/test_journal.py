"""Finding 7: an edited journal of a store that is being built changes no file outside the store."""

from __future__ import annotations

import json
import os

import pytest

from linkdist.errors import OptionError
from linkdist.store.journal import open_journal

REQUEST = {"seed": 0}
NAME = "links/0000-0000.npy"


@pytest.fixture
def killed(tmp_path):
    """A store whose build was killed after some links, beside a file of somebody else."""
    (tmp_path / "outside").write_bytes(b"somebody's work")
    with open_journal(tmp_path / "store", REQUEST) as journal:
        journal.append(NAME, b"some links")
        journal.append("work/0000.text", b"words")
        journal.commit(done=1)
    return tmp_path / "store.building"


def resume(folder):
    """Continue the build, and return its state."""
    with open_journal(folder.with_name("store"), REQUEST) as journal:
        journal.append(NAME, b", and more")
        journal.commit()
        return dict(journal.state)


def edit(folder, **lengths):
    path = folder / "journal.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"lengths": lengths}))


def test_an_honest_journal_is_continued(killed):
    assert resume(killed) == {"done": 1}
    assert (killed / NAME).read_bytes() == b"some links, and more"


@pytest.mark.parametrize(
    "name",
    [
        "{outside}",
        "../outside",
        "parts/../../outside",
        "parts/..",
        "journal.json",
        "links//0000-0000.npy",
        "links/deeper/0000.npy",
        "./links/0000-0000.npy",
        "links/0000-0000.npy\n",
        "",
    ],
)
def test_a_name_that_is_none_of_the_store_starts_over(killed, name):
    outside = killed.parent / "outside"
    edit(killed, **{NAME: 10, name.format(outside=outside): 0})
    assert resume(killed) == {}
    assert outside.read_bytes() == b"somebody's work"
    assert (killed / NAME).read_bytes() == b", and more"


@pytest.mark.parametrize("length", [-1, 1e300, True, None, "10", [10], 11])
def test_a_length_that_the_file_does_not_have_starts_over(killed, length):
    edit(killed, **{NAME: length})
    assert resume(killed) == {}


def test_a_link_in_place_of_a_file_starts_over(killed):
    outside = killed.parent / "outside"
    (killed / NAME).unlink()
    (killed / NAME).symlink_to(outside)
    for listed in ({NAME: 0}, {}):  # truncated by its length, or opened again
        edit(killed, **listed)
        assert resume(killed) == {}
        assert outside.read_bytes() == b"somebody's work"
        assert not (killed / NAME).is_symlink()
        (killed / NAME).unlink()
        (killed / NAME).symlink_to(outside)


def test_a_link_in_place_of_a_folder_starts_over(killed, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (killed / "links").rename(elsewhere)
    (killed / "links").symlink_to(elsewhere)
    assert resume(killed) == {}
    assert (elsewhere / "0000-0000.npy").read_bytes() == b"some links"
    assert not (killed / "links").is_symlink()


def test_a_link_to_another_store_is_not_emptied(killed, tmp_path):
    other = tmp_path / "other.building"
    killed.rename(other)
    killed.symlink_to(other)
    with pytest.raises(OptionError, match=r"store\.building is a symbolic link"):
        resume(killed)
    assert (other / NAME).read_bytes() == b"some links"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_pipe_in_place_of_the_journal_is_not_waited_for(killed):
    (killed / "journal.json").unlink()
    os.mkfifo(killed / "journal.json")
    assert resume(killed) == {}
