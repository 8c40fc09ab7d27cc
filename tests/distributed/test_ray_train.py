"""Oracles: one process beside two workers, and the log of what happened to them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from linkdist.artifacts.model_dir import load_model
from linkdist.distributed import ray_train
from linkdist.distributed.pipeline import train_store
from linkdist.distributed.ray_train import train_by_workers
from linkdist.distributed.survey import survey
from linkdist.errors import OptionError, StoreError
from linkdist.pipeline import Options
from linkdist.progress import Callback
from linkdist.store.synthetic import Planted, synth
from tests.distributed.panel.trainings import OPTIONS as STAGES
from tests.distributed.panel.trainings import accuracy, make_store
from tests.stores import tree

ROOT = Path(__file__).parents[2]
OPTIONS = Options(method="colinkdist", epochs=4)
MEMORY = 4_000_000
KILLED_STAGES = ("averaging features", "spreading labels", "writing targets")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's, of itself
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    planted = Planted(3000, 15_000, features=12, classes=4, labelled=0.3)
    return synth(tmp_path_factory.mktemp("stores") / "store", planted, parts=3)


class Kill(Callback):
    """Kills the second worker after a few rounds, once."""

    def __init__(self, log):
        self.log, self.done = log, False

    def progress(self, done, total):
        """Some rounds are trained; the survey tells of buckets, which are fewer."""
        if total == 24 and done >= 6 and not self.done:
            pid = re.search(r"worker 2 of 2, process (\d+)", self.log.read_text())[1]
            os.kill(int(pid), signal.SIGKILL)
            self.done = True


@pytest.mark.ray
def test_two_workers_reach_what_one_process_reaches(ray, store, tmp_path):
    one = train_store(store.directory, tmp_path / "one", OPTIONS, 10**9).model
    saved = train_by_workers(store.directory, tmp_path / "two", OPTIONS, 10**9, 2)
    assert accuracy(saved.model, store) == pytest.approx(accuracy(one, store), abs=0.03)
    log = (tmp_path / "two.log").read_text()
    assert "2 workers begin at round 0 of 24" in log
    assert "all 24 rounds are trained" in log
    assert "lost" not in log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two", "two.log"]
    assert load_model(tmp_path / "two").about["scores"] == saved.about["scores"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_log_says_so(ray, store, tmp_path):
    log = tmp_path / "model.log"
    kill = Kill(log)
    place = (tmp_path / "state").as_uri()
    saved = train_by_workers(
        store.directory, tmp_path / "model", OPTIONS, 10**9, 2,
        checkpoints=place, callback=kill, saved=0,
    )  # fmt: skip
    assert kill.done
    text = log.read_text()
    lost = int(re.search(r"a worker or a machine was lost after round (\d+)", text)[1])
    again = int(re.findall(r"workers begin at round (\d+)", text)[-1])
    assert again >= lost - 2  # the turn that was under way
    assert "all 24 rounds are trained" in text
    assert accuracy(saved.model, store) > 0.5
    assert not (tmp_path / "state").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_a_damaged_store_is_told_and_not_tried_again(ray, store, tmp_path):
    found = survey(store, 0.1, 0)
    damaged = tmp_path / "store"
    shutil.copytree(store.directory, damaged)
    with (damaged / "parts/0001.features.npy").open("r+b") as file:
        file.seek(200)
        file.write(b"damage")
    with pytest.raises(StoreError, match=r"features\.npy was damaged"):
        train_by_workers(damaged, tmp_path / "model", OPTIONS, 10**9, 2, found=found)
    assert (tmp_path / "model.log").read_text().count("damaged") <= 2
    assert not (tmp_path / "model").exists()


@pytest.mark.ray
def test_the_commands_of_the_page_run(ray, command, tmp_path, monkeypatch):
    page = (ROOT / "docs/scale.md").read_text()
    blocks = re.findall(r"```(?:console|bash)\n(.*?)```", page, flags=re.S)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "linkdist"
        if "rows/" in arguments:
            (tmp_path / "rows").mkdir()
            table = pyarrow.csv.read_csv("examples/papers/nodes.csv")
            pyarrow.parquet.write_table(table, "rows/a.parquet")
        code, _, said = command(*arguments)
        assert code == 0, f"{line}\n{said}"


def test_more_workers_than_buckets_are_told(store, tmp_path):
    with pytest.raises(OptionError, match="1 to 6 workers"):
        train_by_workers(store.directory, tmp_path / "model", OPTIONS, 10**9, 7)


def test_workers_and_a_gpu_are_told(store, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = Options(method="colinkdist", device="cuda")
    with pytest.raises(OptionError, match="on the CPU"):
        train_by_workers(store.directory, tmp_path / "model", options, 10**9, 2)


@pytest.mark.parametrize("option", ["--memory", "--workers", "--address", "--checkpoints"])
def test_what_is_for_stores_alone_is_told(option, command):
    code, _, said = command("train", option, "2")
    assert code == 2
    assert f"for training on a --store; found {option}." in " ".join(said.split())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--address", "auto"], "need --workers, the number of processes."),
        (["--checkpoints", "state"], "need --workers, the number of processes."),
        (["--budget", "1m", "--strict", "--id", "x"], "Found --id, --strict, --budget."),
        (["digits"], "use 'linkdist benchmark digits'."),
    ],
)
def test_what_a_store_does_not_take_is_told(given, told, store, command, tmp_path):
    code, _, said = command("train", "--store", store.directory, "--out", tmp_path / "m", *given)
    assert code == 2
    assert told in " ".join(said.split())


class Stages(Callback):
    """Records the names of the stages."""

    def __init__(self):
        self.names = []

    def stage(self, name):
        self.names.append(name)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store that SelfLinkDist trains in stages within `MEMORY`, and the accuracy of that."""
    folder = tmp_path_factory.mktemp("stages")
    store = make_store(folder)
    saved = train_store(store.directory, folder / "model", STAGES, MEMORY)
    return store, accuracy(saved.model, store)


@pytest.fixture
def harm(monkeypatch):
    """Faults inside the workers of a test."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import harm

    def install(folder, *faults):
        folder.mkdir()
        run = ray_train.run_worker
        monkeypatch.setattr(ray_train, "run_worker", harm.harmful(run, folder, *faults))

    harm.install = install
    return harm


@pytest.mark.ray
def test_workers_train_all_stages(ray, large, tmp_path):
    (store, expected), stages = large, Stages()
    saved = train_by_workers(
        store.directory, tmp_path / "model", STAGES, MEMORY, 2, callback=stages
    )
    assert accuracy(saved.model, store) == pytest.approx(expected, abs=0.01)
    assert saved.about["estimates"]["new_rows"]
    assert stages.names == [
        "starting the workers", "reading the links", "averaging features", "spreading labels",
        "fitting the teachers", "writing targets", "training",
    ]  # fmt: skip
    assert "all 24 slices are trained" in (tmp_path / "model.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.log"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_worker_killed_in_every_stage_is_replaced(ray, large, harm, tmp_path):
    (store, expected), folder = large, tmp_path / "harm"
    kills = [harm.KilledInStage(stage) for stage in KILLED_STAGES]
    harm.install(folder, harm.KilledInStage("reading the links", 0), *kills, harm.KilledAfter(10))
    saved = train_by_workers(store.directory, tmp_path / "model", STAGES, MEMORY, 2, saved=0)
    assert len(list(folder.iterdir())) == len(KILLED_STAGES) + 2
    text = (tmp_path / "model.log").read_text()
    for stage in ("reading the links", *KILLED_STAGES):
        assert f"lost in the stage '{stage}'" in text
    assert int(re.findall(r"begin at slice (\d+)", text)[-1]) >= 10
    assert accuracy(saved.model, store) == pytest.approx(expected, abs=0.01)


@pytest.mark.ray
@pytest.mark.slow
def test_a_checkpoint_place_that_fails_for_a_while_is_tried_again(ray, large, harm, tmp_path):
    store, expected = large
    harm.install(tmp_path / "harm", harm.CheckpointsFail(2.0))
    saved = train_by_workers(store.directory, tmp_path / "model", STAGES, MEMORY, 2, saved=0)
    text = (tmp_path / "model.log").read_text()
    assert "could not be written: [Errno 5] Input/output error" in text
    assert "the checkpoint is written again" in text
    assert "lost" not in text
    assert accuracy(saved.model, store) == pytest.approx(expected, abs=0.01)


@pytest.mark.ray
@pytest.mark.slow
def test_a_full_disk_ends_a_training_that_can_be_resumed(ray, large, harm, tmp_path):
    (store, expected), folder = large, tmp_path / "harm"
    harm.install(folder, harm.DiskFull("targets"))
    options = (store.directory, tmp_path / "model", STAGES, MEMORY, 2)
    with pytest.raises(StoreError, match=r"No space left on device.*--resume continues"):
        train_by_workers(*options)
    assert (tmp_path / "model.log").read_text().count("No space left") == 1
    before = tree(tmp_path / ".model.stages")
    (folder / "free").touch()
    saved = train_by_workers(*options, resume=True)
    assert any("spread" in name for name in before)
    assert accuracy(saved.model, store) == pytest.approx(expected, abs=0.01)


def test_more_workers_than_parts_are_an_error(store, tmp_path):
    with pytest.raises(OptionError, match="1 to 3 workers, since each writes its own parts"):
        train_by_workers(store.directory, tmp_path / "model", Options(), 10**9, 4)


@pytest.mark.parametrize(
    ("device", "gpus", "found"),
    [
        ("auto", 0.5, "no CUDA device was found on this machine"),
        ("cuda", 0.0, "no CUDA device was found on this machine"),
        ("cpu", 1.0, "--device cpu has no GPUs; found --gpus-per-worker 1"),
        ("auto", 1.5, "a fraction below 1 or a whole number; found 1.5"),
    ],
)
def test_gpus_that_do_not_exist_are_an_error(device, gpus, found, store, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = Options(device=device)
    with pytest.raises(OptionError, match=found):
        train_by_workers(store.directory, tmp_path / "model", options, 10**9, 2, gpus=gpus)
