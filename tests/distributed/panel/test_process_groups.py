"""Oracles: the files and the accuracy of a training by one process."""

from __future__ import annotations

import pytest
from torch.multiprocessing import ProcessExitedException

from linkdist.distributed.group import SingleProcess
from linkdist.distributed.ray_work import check_shared
from linkdist.errors import StoreError
from tests.distributed.panel.trainings import PARTS, VISITS, Training, make_store
from tests.stores import tree


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def alone(store, tmp_path_factory):
    """The folder and the accuracy of a training by one process."""
    folder = tmp_path_factory.mktemp("alone")
    return folder, Training(store.directory, folder).run(SingleProcess())


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_write_the_files_of_one_and_reach_its_accuracy(size, store, alone, tmp_path):
    found = Training(store.directory, tmp_path / "several").by_processes(size)
    folder, expected = alone
    assert tree(tmp_path / "several/arrays") == tree(folder / "arrays")
    assert len(set(found)) == 1  # all processes end with the weights of the first
    assert found[0] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_other_processes_continue_a_training(size, store, alone, tmp_path):
    folder, slices = tmp_path / "training", PARTS * VISITS
    with pytest.raises(ProcessExitedException, match="SIGKILL"):
        Training(store.directory, folder, kill_at=slices // 2 + 2).by_processes(2)
    rest = Training(store.directory, folder)
    before = tree(folder / "arrays")
    found = [rest.run(SingleProcess())] if size == 1 else rest.by_processes(size)
    assert tree(folder / "arrays") == before
    assert found == pytest.approx([alone[1]] * size, abs=0.01)


@pytest.mark.gpu
def test_two_processes_share_a_gpu(store, alone, tmp_path):
    found = Training(store.directory, tmp_path / "several", device="cuda").by_processes(2)
    assert found == pytest.approx([alone[1]] * 2, abs=0.02)


class Elsewhere(SingleProcess):
    """A worker to which the first one sends what it wrote to a folder of its own."""

    def share(self, compute):
        return "written elsewhere"


def test_a_folder_that_is_not_shared_is_an_error(tmp_path):
    check_shared(tmp_path / "arrays", SingleProcess())
    with pytest.raises(StoreError, match=r"is not the same folder on .* machines share"):
        check_shared(tmp_path / "arrays", Elsewhere())
