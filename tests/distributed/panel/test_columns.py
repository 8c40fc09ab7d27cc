"""Oracles: the arrays that were written, and NumPy's own reader of the files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from linkdist.distributed.panel.columns import LARGEST, Columns
from linkdist.distributed.survey import PART
from linkdist.errors import StoreError


class KilledError(Exception):
    """Stands for a kill while a file is written."""


def written(folder, sizes, width=2, kind="float32", seed=0):
    random, columns = np.random.default_rng(seed), Columns(folder, sizes, width, kind)
    arrays = [random.normal(size=(n, width)).astype(kind) for n in sizes]
    for part, array in enumerate(arrays):
        columns.write(part, torch.from_numpy(array))
    return columns, arrays


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_files_are_what_numpy_reads(tmp_path, kind):
    columns, arrays = written(tmp_path / "x", [3, 0, 5], kind=kind)
    assert columns.missing() == []
    assert columns.nbytes == sum(array.nbytes for array in arrays)
    for part, array in enumerate(arrays):
        assert columns.read(part).shape == array.shape
        assert np.array_equal(columns.read(part).numpy(), array)
        assert np.array_equal(np.load(tmp_path / "x" / f"{part:04}.npy"), array)


def test_rows_of_several_parts(tmp_path):
    columns, arrays = written(tmp_path / "x", [3, 4, 5])
    numbers = np.array([2, (1 << PART) + 1, (2 << PART), (2 << PART) + 4])
    expected = np.stack([arrays[0][2], arrays[1][1], arrays[2][0], arrays[2][4]])
    assert np.array_equal(columns.rows(numbers).numpy(), expected)
    assert columns.rows(numbers[:0]).shape == (0, 2)


def test_changes_of_what_was_read_are_not_written(tmp_path):
    columns, arrays = written(tmp_path / "x", [3])
    columns.read(0).zero_()
    assert np.array_equal(columns.read(0).numpy(), arrays[0])


def test_large_numbers_are_clamped_and_nan_is_kept(tmp_path):
    columns = Columns(tmp_path / "x", [5], 1)
    columns.write(0, torch.tensor([[1e6], [-torch.inf], [torch.nan], [65519.0], [-2.0]]))
    found = columns.read(0).flatten()
    assert found[[0, 1, 3, 4]].tolist() == [LARGEST, -LARGEST, LARGEST, -2.0]
    assert found[2].isnan()


def test_a_part_is_missing_until_its_file_is_complete(tmp_path):
    columns, _ = written(tmp_path / "x", [3, 4, 0])
    assert Columns(tmp_path / "x", [3, 4, 0], 2, "float32").missing() == []
    path = tmp_path / "x" / "0001.npy"
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "x" / "0002.npy").unlink()
    assert columns.missing() == [1, 2]
    assert Columns(tmp_path / "x", [3, 4, 0], 3, "float32").missing() == [0, 1, 2]
    columns.remove()
    assert columns.missing() == [0, 1, 2]
    columns.remove()


@pytest.mark.parametrize("failure", [KilledError, OSError])
def test_a_killed_write_leaves_no_file(tmp_path, monkeypatch, failure):
    columns = Columns(tmp_path / "x", [3], 1)

    def fail(*_):
        raise failure("no")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StoreError if failure is OSError else KilledError):
        columns.write(0, torch.ones(3, 1))
    assert columns.missing() == [0]
    assert list((tmp_path / "x").iterdir()) == []


def test_a_file_that_was_removed_is_reported(tmp_path):
    columns, _ = written(tmp_path / "x", [3, 4])
    columns.remove()
    with pytest.raises(StoreError, match=r"0001\.npy was removed or changed .* --resume computes"):
        columns.read(1)


def test_a_file_that_was_shortened_is_reported(tmp_path):
    columns, _ = written(tmp_path / "x", [3])
    (tmp_path / "x" / "0000.npy").write_bytes(bytes(130))
    with pytest.raises(StoreError, match="removed or changed"):
        columns.read(0)
