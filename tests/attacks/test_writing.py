"""Findings 10 and 25: several predictions to one file, and a full disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from linkdist import _files
from linkdist._files import replacing, sweep, sweep_aside
from linkdist.errors import OptionError
from linkdist.tables.predictions import PredictionWriter, write_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs locks of POSIX")


def writer(path):
    return PredictionWriter(path, "id", pa.int64(), ["a", "b"])


def test_three_predictions_to_one_file_all_succeed_and_the_last_wins(tmp_path):
    """The second once removed the temporary file of the first, whose work was lost."""
    path = tmp_path / "out.csv"
    writers = [writer(path) for _ in range(3)]
    for one in writers:
        one.__enter__()
    for number, one in enumerate(writers):
        one.write(pa.array([number]), np.array([[0.25, 0.75]]))
    for number, one in enumerate(writers):
        one.__exit__(None, None, None)
        assert pyarrow.csv.read_csv(path)["id"].to_pylist() == [number]
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.slow
def test_three_processes_that_predict_to_one_file_all_succeed(papers, papers_model, tmp_path):
    out = tmp_path / "out.csv"
    command = [sys.executable, "-m", "linkdist.cli.main", "predict", papers_model,
               papers / "nodes.csv", "--out", out]  # fmt: skip
    started = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    ended = [(one.communicate(timeout=120)[1], one.returncode) for one in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert pyarrow.csv.read_csv(out).num_rows == 1200
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path):
    path = tmp_path / "out.csv"
    left = tmp_path / f".out.csv.{'0' * 32}"
    left.touch()
    with replacing(path) as file:
        sweep_aside(path)
        sweep(tmp_path)
        assert not left.exists()
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_a_file_that_is_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    path, lock = tmp_path / "out.csv", _files._lock

    def late(file):
        Path(file.name).unlink()
        monkeypatch.setattr(_files, "_lock", lock)
        return lock(file)

    monkeypatch.setattr(_files, "_lock", late)
    with replacing(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_a_planted_pipe_with_a_temporary_name_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / f".out.csv.{'0' * 32}")
    with replacing(tmp_path / "out.csv") as file:
        sweep_aside(tmp_path / "out.csv")
        file.write(b"whole")


# a full disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_in_predict_advises_to_free_space(tmp_path, monkeypatch, suffix, number):
    path = tmp_path / f"out{suffix}"
    real = _files._created

    def full(aside):
        file = real(aside)
        file.close()
        return Full(aside, number)

    monkeypatch.setattr(_files, "_created", full)
    rows = 40_000  # more than are written together
    with pytest.raises(OptionError) as found, writer(path) as out:
        out.write(pa.array(range(rows)), np.full((rows, 2), 0.5))
    with pytest.raises(OptionError, match="Free some space"):
        write_table(pa.table({"id": range(rows)}), path)
    assert str(found.value) == (
        f"{path} cannot be written: {os.strerror(number)}. Free some space."
    )
    assert list(tmp_path.iterdir()) == []


class Full:
    """A file on a full disk: Arrow may write to it, and every write fails."""

    def __init__(self, path, number):
        self.file, self.number = path.open("wb"), number

    def write(self, content):
        raise OSError(self.number, os.strerror(self.number))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


LIMITED = """
import resource, sys
import numpy as np, pyarrow as pa
from linkdist.tables.predictions import PredictionWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with PredictionWriter(sys.argv[1], "id", pa.int64(), ["a", "b"]) as out:
        out.write(pa.array(range(1000)), np.full((1000, 2), 0.5))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_limit_of_the_file_size_is_named(tmp_path):
    out = tmp_path / "out.csv"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, out], capture_output=True, text=True, timeout=60
    )
    said = f"OptionError {out} cannot be written: File too large. Raise the limit of"
    assert done.stdout.startswith(said), done
    assert list(tmp_path.iterdir()) == []
