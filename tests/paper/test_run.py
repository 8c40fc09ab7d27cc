"""Oracles: `statistics` for the numbers, an undisturbed run for one that was killed.

Trainings here are of a few epochs on a graph of 400 nodes, which `make_quick` puts in the place of
the real ones. Run as a program, this file is `linkdist reproduce` made quick like that, and it
stops for good in the middle of one training, so that a test can kill it there.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import linkdist
from linkdist.data.datasets import PAPER_DATASETS
from linkdist.data.graph import Graph
from linkdist.errors import DataError, OptionError
from linkdist.paper import protocol, run
from linkdist.paper.published import METHODS, TRAININGS
from linkdist.paper.report import write_report
from linkdist.paper.run import Plan, reproduce
from linkdist.progress import Callback

KEYS = {
    *("dataset", "setting", "method", "seeds", "scores", "mean", "std", "best_epochs"),
    *("published_mean", "published_std", "seconds", "device", "precision", "version"),
}
TWO = ("transductive", "full-supervised")
SOME = ("MLP", "GCN")
WHOLE = [
    *("reproduce", "--datasets", "digits", "--settings", ",".join(TWO)),
    *("--methods", ",".join(SOME), "--runs", "2", "--device", "cpu", "--out"),
]
DEADLINE = 60.0  # seconds that a started process gets to come to a point


def tiny(name="digits", n=400, classes=3):
    """Linked within classes; large enough for the split that `digits` gets."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % classes
    features = random.normal(size=(n, 8)) + 2 * np.eye(classes, 8)[labels]
    node = random.integers(0, n, n)
    like = (node + classes * random.integers(1, n // classes, n)) % (n - n % classes)
    return Graph.build(features, np.stack([node, like], axis=1), labels, name=name)


def make_quick(setattr):
    """Put a tiny graph in the place of each named one, and a few epochs in that of many."""
    setattr(run, "load_dataset", lambda name, data=None: tiny(name))
    setattr(protocol, "fit", partial(protocol.fit, epochs=2))
    setattr(protocol, "train_gcn", partial(protocol.train_gcn, epochs=4))
    setattr(protocol, "train_on_nodes", partial(protocol.train_on_nodes, epochs=4))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    make_quick(monkeypatch.setattr)
    monkeypatch.setenv("LINKDIST_COMMIT", "abc1234")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two that wait for each other are slow on a busy machine
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def trained(monkeypatch):
    """The trainings that were run, by data set, setting and name."""
    names = []

    def counted(training, methods, task):
        names.append(f"{task.graph.name} {task.setting} {training}")
        return protocol.run_task(training, methods, task)

    monkeypatch.setattr(run, "run_task", counted)
    return names


@pytest.fixture
def stubbed(monkeypatch):
    """Trainings that take no time; their names, as they are run."""
    names = []

    def stub(training, methods, task):
        names.append(f"{task.graph.name} {task.setting} {training}")
        return [stub_record(task, method) for method in methods]

    monkeypatch.setattr(run, "run_task", stub)
    return names


def stub_record(task, method):
    scores = [50.0 + seed for seed in task.seeds]
    mean = statistics.fmean(scores)
    about = {"dataset": task.graph.name, "setting": task.setting, "method": method}
    numbers = {"seeds": list(task.seeds), "scores": scores, "mean": mean, "std": 0.0}
    return {**about, **numbers, "published_mean": None, "seconds": 0.0, "device": "cpu"}


def plan(out, *methods, settings=("full-supervised",), datasets=("digits",), runs=1, **more):
    return Plan(out, datasets, settings, methods, runs, device="cpu", **more)


def read(path):
    return json.loads(path.read_text("utf-8"))


def timeless(records):
    return [{key: value for key, value in r.items() if key != "seconds"} for r in records]


def cells(records):
    return [(r["dataset"], r["setting"], r["method"]) for r in records]


# Records.


def test_records_hold_what_they_must(tmp_path):
    records = reproduce(plan(tmp_path, *METHODS, runs=3, seed=4))
    assert [r["method"] for r in records] == list(METHODS)
    for record in records:
        sums = {"sum_of_logits"} if record["method"] in ("LinkDist", "CoLinkDist") else set()
        assert set(record) == KEYS | sums
        scores = record["scores"]
        assert record["seeds"] == [4, 5, 6]
        assert len(scores) == len(record["best_epochs"]) == 3
        # 80 test nodes: a score is a whole number of 80ths, in percent.
        assert all(abs(score / 1.25 - round(score / 1.25)) < 1e-3 for score in scores)
        assert max(scores) > 1
        assert record["mean"] == pytest.approx(statistics.fmean(scores), abs=1e-4)
        assert record["std"] == pytest.approx(statistics.stdev(scores), abs=1e-4)
        assert all(1 <= epoch <= 4 for epoch in record["best_epochs"])
        assert (record["published_mean"], record["published_std"]) == (None, None)
        assert record["seconds"] > 0
        assert (record["device"], record["precision"]) == ("cpu", "float32")
    assert read(tmp_path / "results.json") == records


def test_one_run_has_no_spread(tmp_path):
    (record,) = reproduce(plan(tmp_path, "MLP"))
    assert (record["mean"], record["std"]) == (record["scores"][0], 0.0)


def test_a_record_stands_beside_the_published_numbers(tmp_path):
    (record,) = reproduce(plan(tmp_path, "MLP", datasets=["cora"]))
    # Typed from the paper's full-supervised table.
    assert (record["published_std"], record["dataset"]) == (1.80, "cora")
    assert record["published_mean"] == protocol.published("cora", "full-supervised", "MLP").mean


def test_the_run_is_described(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/linkdist", "reproduce", "--out", "a folder"])
    reproduce(plan(tmp_path, "MLP"))
    about = read(tmp_path / "run.json")
    assert about["command"] == "linkdist reproduce --out 'a folder'"
    assert about["commit"] == "abc1234"
    assert about["machine"]["accelerator"] == "none used"
    assert about["versions"]["torch"] == torch.__version__
    assert about["not_run"] == {}
    assert about["seconds_total"] >= 0
    assert set(about) == {
        *("command", "commit", "started", "machine", "versions", "not_run", "seconds_total")
    }


def test_without_git_the_commit_is_not_known(tmp_path, monkeypatch):
    monkeypatch.delenv("LINKDIST_COMMIT")
    monkeypatch.setenv("PATH", str(tmp_path))
    reproduce(plan(tmp_path, "MLP"))
    assert read(tmp_path / "run.json")["commit"] == "unknown"


def test_a_repository_around_the_package_is_not_its_own(tmp_path, monkeypatch):
    def git(*args):
        who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", tmp_path, *who, *args], check=True, capture_output=True)

    source = tmp_path / "site-packages" / "run.py"
    source.parent.mkdir()
    source.touch()
    git("init")
    git("commit", "--allow-empty", "-m", "of another project")
    monkeypatch.delenv("LINKDIST_COMMIT")
    monkeypatch.setattr(run, "__file__", str(source))
    assert run._commit() == "unknown"
    git("add", ".")
    git("commit", "-m", "now its own")
    head = (tmp_path / ".git" / (tmp_path / ".git" / "HEAD").read_text().split()[1]).read_text()
    assert len(run._commit()) >= 4
    assert head.startswith(run._commit())


@pytest.mark.parametrize("method", ["LinkDist", "CoLinkDist"])
def test_both_modes_come_from_one_training(tmp_path, monkeypatch, method):
    asked = []
    quick = protocol.fit

    def counted(*args, **options):
        asked.append(options["method"])
        return quick(*args, **options)

    monkeypatch.setattr(protocol, "fit", counted)
    features, links = reproduce(plan(tmp_path, f"{method}MLP", method))
    assert asked == [method.lower()]
    assert (features["method"], links["method"]) == (f"{method}MLP", method)
    assert features["seconds"] == links["seconds"]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_can_be_asked_for_alone(tmp_path, trained, method):
    records = reproduce(plan(tmp_path, method))
    assert [r["method"] for r in records] == [method]
    (training,) = (name for name, methods in TRAININGS.items() if method in methods)
    assert trained == [f"digits full-supervised {training}"]
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [
        f"digits.full-supervised.{training}.json"
    ]


def test_a_method_alone_scores_as_it_does_beside_others(tmp_path):
    together = reproduce(plan(tmp_path / "all", "MLP", "GCN2MLP", "GCN", "LinkDist"))
    for record in together:
        alone = reproduce(plan(tmp_path / record["method"], record["method"]))
        assert timeless(alone) == timeless([record])


# Resumption.


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    asked = plan(tmp_path, "MLP", "LinkDistMLP", "LinkDist", runs=2)
    first = reproduce(asked)

    def fail(*_):
        pytest.fail("nothing was left to train")

    monkeypatch.setattr(run, "run_task", fail)
    assert reproduce(asked) == first
    assert read(tmp_path / "results.json") == first


@pytest.mark.parametrize("change", [{"runs": 3}, {"runs": 1}, {"seed": 1}])
def test_other_seeds_are_other_trainings(tmp_path, trained, change):
    reproduce(plan(tmp_path, "MLP", runs=2))
    asked = plan(tmp_path, "MLP", **{"runs": 2, **change})
    records = reproduce(asked)
    assert trained == ["digits full-supervised MLP"] * 2
    assert [r["seeds"] for r in records] == [asked.seeds]
    assert timeless(records) == timeless(
        reproduce(plan(tmp_path / "new", "MLP", **{"runs": 2, **change}))
    )


def test_only_what_is_new_is_trained(tmp_path, stubbed):
    reproduce(plan(tmp_path, "MLP", "GCN"))
    stubbed.clear()
    records = reproduce(plan(tmp_path, "MLP", "GCN", "CoLinkDistMLP"))
    assert stubbed == ["digits full-supervised CoLinkDist"]
    assert [r["method"] for r in records] == ["MLP", "CoLinkDistMLP", "GCN"]
    stubbed.clear()
    records = reproduce(plan(tmp_path, "MLP", "GCN", settings=["transductive", "full-supervised"]))
    assert stubbed == ["digits transductive MLP", "digits transductive GCN"]
    assert len(records) == 5


def test_a_second_method_of_a_training_is_added(tmp_path, stubbed):
    reproduce(plan(tmp_path, "GCN"))
    records = reproduce(plan(tmp_path, "GCN", "GCN2MLP"))
    assert [r["method"] for r in records] == ["GCN2MLP", "GCN"]
    assert stubbed == ["digits full-supervised GCN"] * 2


@pytest.mark.parametrize(("first", "second"), [("GCN", "GCN2MLP"), ("LinkDist", "LinkDistMLP")])
def test_a_trainings_other_method_stays(tmp_path, stubbed, first, second):
    kept = reproduce(plan(tmp_path, first))
    records = reproduce(plan(tmp_path, second))
    assert [r for r in records if r["method"] == first] == kept
    assert len(records) == 2


def test_a_record_of_another_version_is_not_done(tmp_path, stubbed, monkeypatch):
    asked = plan(tmp_path, "MLP")
    (old,) = reproduce(asked)
    assert old["version"] == linkdist.__version__
    monkeypatch.setattr(linkdist, "__version__", "99.0")
    (new,) = reproduce(asked)
    assert new == {**old, "version": "99.0"}
    reproduce(asked)
    assert stubbed == ["digits full-supervised MLP"] * 2


def test_a_record_without_a_version_is_not_done(tmp_path, stubbed):
    asked = plan(tmp_path, "MLP")
    (record,) = reproduce(asked)
    old = {key: value for key, value in record.items() if key != "version"}
    (tmp_path / "cells" / "digits.full-supervised.MLP.json").write_text(json.dumps([old]))
    assert reproduce(asked) == [record]
    assert len(stubbed) == 2


def test_a_call_that_trains_nothing_leaves_the_description(tmp_path, stubbed):
    reproduce(plan(tmp_path, "MLP"))
    before = (tmp_path / "run.json").read_bytes(), (tmp_path / "run.json").stat().st_mtime_ns
    (tmp_path / "results.json").unlink()
    reproduce(plan(tmp_path, "MLP"))
    assert before == (
        (tmp_path / "run.json").read_bytes(),
        (tmp_path / "run.json").stat().st_mtime_ns,
    )
    assert (tmp_path / "results.json").exists()


def test_results_of_earlier_calls_stay_in_the_papers_order(tmp_path, stubbed):
    reproduce(plan(tmp_path, "GCN", "MLP", datasets=["cora"], settings=["full-supervised"]))
    reproduce(plan(tmp_path, "MLP", datasets=["digits"], settings=["transductive"]))
    records = reproduce(plan(tmp_path, "MLP", datasets=["amazon-photo", "digits"]))
    assert cells(records) == [
        ("digits", "transductive", "MLP"),
        ("digits", "full-supervised", "MLP"),
        ("cora", "full-supervised", "MLP"),
        ("cora", "full-supervised", "GCN"),
        ("amazon-photo", "full-supervised", "MLP"),
    ]
    assert read(tmp_path / "results.json") == records


def test_a_cell_named_twice_is_trained_once(tmp_path, stubbed):
    reproduce(plan(tmp_path, "MLP", "MLP", settings=["transductive", "transductive"]))
    assert stubbed == ["digits transductive MLP"]


def test_a_callback_receives_every_event(tmp_path, stubbed):
    told = []

    class Listener(Callback):
        def start(self, total, done):
            told.append(("start", total, done))

        def stage(self, name):
            told.append(("cell", name))

        def finished(self, records):
            # What is told is kept: whoever hears of it may kill the run.
            assert set(cells(records)) <= set(cells(read(tmp_path / "results.json")))
            told.append(("finished", cells(records)))

    reproduce(plan(tmp_path, "MLP"))
    reproduce(plan(tmp_path, "MLP", "LinkDistMLP", "LinkDist"), Listener())
    assert told == [
        ("start", 2, 1),
        ("cell", "digits full-supervised LinkDist"),
        ("finished", [("digits", "full-supervised", m) for m in ("LinkDistMLP", "LinkDist")]),
    ]


def test_progress_is_told_by_epoch(tmp_path):
    epochs = []
    callback = Callback()
    callback.progress = lambda done, total: epochs.append((done, total))
    reproduce(plan(tmp_path, "LinkDist"), callback)
    assert epochs == [(1, 2), (2, 2)]


# Killed.


class KilledError(BaseException):
    """In the place of a SIGKILL: passes by every `except Exception`."""


def kill_at(monkeypatch, moment):
    """Stop the process, as far as files can tell, at the nth step of writing one.

    A step is a file half written, a file written aside, a file that just got its name. Nothing
    that happens after it reaches the disk.
    """
    left = iter(range(moment, -1, -1))
    fsync, replace, unlink = os.fsync, Path.replace, Path.unlink
    killed = []

    def step():
        if next(left, 0) == 0:
            killed.append(True)
            raise KilledError

    def half(file):
        try:
            step()
        except KilledError:
            os.ftruncate(file, os.fstat(file).st_size // 2)
            raise
        fsync(file)

    def named(path, target):
        step()
        replace(path, target)
        step()

    monkeypatch.setattr(os, "fsync", half)
    monkeypatch.setattr(Path, "replace", named)
    monkeypatch.setattr(Path, "unlink", lambda path: None if killed else unlink(path))


def test_killed_in_the_first_training_it_leaves_what_was_there(tmp_path, monkeypatch):
    def killed(*_):
        raise KilledError

    (tmp_path / "results.json").write_text("[1]")
    (tmp_path / "run.json").write_text('{"commit": "old"}')
    monkeypatch.setattr(run, "run_task", killed)
    with pytest.raises(KilledError):
        reproduce(plan(tmp_path, "MLP"))
    assert read(tmp_path / "results.json") == [1]
    assert read(tmp_path / "run.json") == {"commit": "old"}


def test_killed_at_any_step_of_writing_it_goes_on(tmp_path, stubbed):
    methods = ("MLP", "LinkDistMLP", "LinkDist")
    undisturbed = reproduce(plan(tmp_path / "undisturbed", *methods))
    for moment in range(1000):
        out = tmp_path / str(moment)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, moment)
            try:
                reproduce(plan(out, *methods))
            except KilledError:
                pass
            else:
                break
        if (out / "results.json").exists():
            found = read(out / "results.json")
            assert [r for r in undisturbed if r in found] == found
        done = count_cells(out)
        stubbed.clear()
        assert reproduce(plan(out, *methods)) == undisturbed
        assert len(stubbed) == 2 - done
        assert read(out / "results.json") == undisturbed
        assert sorted(path.name for path in out.iterdir()) == ["cells", "results.json", "run.json"]
        assert len(list((out / "cells").iterdir())) == 2
        write_report(out)
    # Three files a cell, and at last the results again; three steps a file.
    assert moment == 3 * (2 * 3 + 1)


@contextmanager
def started(*command):
    """A process of its own, which does not outlive the test."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *map(str, command)], env=env, text=True, **pipes) as it:
        try:
            yield it
        finally:
            it.kill()


def wait_for(process, happened):
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "it never came to the point"
        time.sleep(0.005)


def count_cells(out):
    return len(list((out / "cells").glob("*.json")))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The records of the quick command, run to its end in this process."""
    out = tmp_path_factory.mktemp("undisturbed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch.setattr)
        records = reproduce(plan(out, *SOME, settings=TWO, runs=2))
    torch.set_num_threads(threads)
    return records


@pytest.mark.parametrize(
    ("done", "how", "code"),
    [
        (0, signal.SIGKILL, -signal.SIGKILL),
        (1, signal.SIGKILL, -signal.SIGKILL),
        (2, signal.SIGKILL, -signal.SIGKILL),
        (0, signal.SIGINT, 130),
    ],
)
def test_a_killed_run_goes_on_where_it_was(tmp_path, undisturbed, done, how, code):
    with started(__file__, done, *WHOLE, tmp_path) as process:
        wait_for(process, lambda: (tmp_path / "cells").exists() and count_cells(tmp_path) == done)
        if how == signal.SIGINT:  # in the training, where nothing else takes it
            wait_for(process, lambda: (tmp_path / "hanging").exists())
        process.send_signal(how)
        _, told = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    assert "Traceback" not in told
    assert told.endswith("linkdist: interrupted.\n") == (how == signal.SIGINT)
    if (tmp_path / "results.json").exists():
        kept = read(tmp_path / "results.json")
        assert cells(kept) == [cell for cell in cells(undisturbed) if cell in cells(kept)]
    heard = []
    callback = Callback()
    callback.start = lambda *numbers: heard.append(numbers)
    records = reproduce(plan(tmp_path, *SOME, settings=TWO, runs=2), callback)
    assert heard == [(4, done)]
    assert timeless(records) == timeless(undisturbed)
    assert read(tmp_path / "results.json") == records


@pytest.mark.slow
def test_the_real_command_goes_on_where_it_was(tmp_path):
    command = ["-c", "from linkdist.cli.main import main; main()", *WHOLE]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with started(*command, killed) as process:
        wait_for(process, lambda: count_cells(killed) > 0)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert 0 < count_cells(killed) < 4
    for out in (killed, whole):
        with started(*command, out) as process:
            _, told = process.communicate(timeout=600)
        assert process.returncode == 0, told
    one, other = (timeless(read(out / "results.json")) for out in (killed, whole))
    assert one == other
    assert len(one) == 4


# Broken files.

BROKEN = {
    "empty": b"",
    "cut off": b'[{"dataset": "digits", "met',
    "no list": b"{}",
    "no records": b"[{}]",
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_cell_is_trained_again(tmp_path, stubbed, what):
    first = reproduce(plan(tmp_path, "MLP", "GCN"))
    (tmp_path / "cells" / "digits.full-supervised.GCN.json").write_bytes(BROKEN[what])
    stubbed.clear()
    assert reproduce(plan(tmp_path, "MLP", "GCN")) == first
    assert stubbed == ["digits full-supervised GCN"]


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_cell_that_was_not_asked_for_is_named(tmp_path, stubbed, content):
    reproduce(plan(tmp_path, "MLP", "GCN"))
    (tmp_path / "cells" / "digits.full-supervised.GCN.json").write_bytes(content)
    stubbed.clear()
    with pytest.raises(DataError, match=r"digits\.full-supervised\.GCN\.json"):
        reproduce(plan(tmp_path, "MLP", "LinkDist"))
    assert not stubbed


def test_every_cell_file_is_read_once(tmp_path, stubbed, monkeypatch):
    first = reproduce(plan(tmp_path, "MLP", "GCN"))
    paths = []
    read_cell = run._read_cell
    monkeypatch.setattr(run, "_read_cell", lambda path: paths.append(path.name) or read_cell(path))
    both = reproduce(plan(tmp_path, "MLP", "LinkDist", "CoLinkDist"))
    assert len(stubbed) == 2 + 2
    assert sorted(paths) == [f"digits.full-supervised.{name}.json" for name in ("GCN", "MLP")]
    assert [record for record in both if record in first] == first
    assert read(tmp_path / "results.json") == both


def test_a_broken_cell_does_not_stop_those_before_it(tmp_path, stubbed):
    first = reproduce(plan(tmp_path, "MLP", "GCN"))
    for training in ("MLP", "GCN"):
        (tmp_path / "cells" / f"digits.full-supervised.{training}.json").write_bytes(b"[{")
    assert reproduce(plan(tmp_path, "MLP", "GCN")) == first


def test_a_set_that_is_not_known_comes_last(tmp_path, stubbed):
    (record,) = reproduce(plan(tmp_path, "MLP"))
    foreign = {**record, "dataset": "another"}
    (tmp_path / "cells" / "another.json").write_text(json.dumps([foreign]))
    assert reproduce(plan(tmp_path, "MLP")) == [record, foreign]


def test_a_broken_description_is_named(tmp_path, stubbed):
    reproduce(plan(tmp_path, "MLP"))
    (tmp_path / "run.json").write_text("{")
    stubbed.clear()
    with pytest.raises(DataError, match=r"run\.json must be JSON"):
        reproduce(plan(tmp_path, "MLP", "GCN"))
    assert not stubbed


def test_a_file_that_a_kill_left_behind_is_swept(tmp_path, stubbed):
    asked = plan(tmp_path, "MLP")
    first = reproduce(asked)
    aside = [
        tmp_path / "cells" / f".digits.full-supervised.GCN.json.{'0a1b' * 8}",
        tmp_path / f".results.json.{'4e5f' * 8}",
    ]
    for path in aside:
        path.write_text("[{")
    assert reproduce(asked) == first
    assert not any(path.exists() for path in aside)


# Which data sets, and what is refused.


def only(name):
    def load(asked, data=None):
        if asked != name:
            raise DataError(f"{asked} could not be downloaded.")
        return tiny(asked)

    return load


def test_sets_that_cannot_be_had_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load_dataset", only("amazon-photo"))
    skipped = {}
    callback = Callback()
    callback.skipped = skipped.__setitem__
    records = reproduce(plan(tmp_path, "MLP", datasets=None), callback)
    assert cells(records) == [("amazon-photo", "full-supervised", "MLP")]
    others = [name for name in PAPER_DATASETS if name != "amazon-photo"]
    assert skipped == {name: f"{name} could not be downloaded." for name in others}
    assert read(tmp_path / "run.json")["not_run"] == dict.fromkeys(others, "file not available")


def test_what_was_left_out_is_told_until_it_is_there(tmp_path, stubbed, monkeypatch):
    monkeypatch.setattr(run, "load_dataset", only("amazon-photo"))
    reproduce(plan(tmp_path, "MLP", datasets=None))
    monkeypatch.setattr(run, "load_dataset", only("cora"))
    reproduce(plan(tmp_path, "MLP", datasets=["cora"]))
    others = [name for name in PAPER_DATASETS if name not in ("amazon-photo", "cora")]
    left = dict.fromkeys(others, "file not available")
    assert read(tmp_path / "run.json")["not_run"] == left
    # This call cannot have amazon-photo, of which there are records.
    reproduce(plan(tmp_path, "GCN", datasets=None))
    assert read(tmp_path / "run.json")["not_run"] == left


def test_without_any_set_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load_dataset", only("none"))
    with pytest.raises(DataError, match=r"none of the paper's data sets is available\. .*--data"):
        reproduce(plan(tmp_path / "out", "MLP", datasets=None))
    assert not (tmp_path / "out").exists()


def test_a_set_that_was_named_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load_dataset", only("amazon-photo"))
    with pytest.raises(DataError, match="cora could not be downloaded"):
        reproduce(plan(tmp_path / "out", "MLP", datasets=["amazon-photo", "cora"]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datasets": ["coral"]}, r"unknown data set 'coral' \(near: cora"),
        ({"settings": ["inductiv"]}, r"unknown setting 'inductiv' \(near: inductive"),
        ({"methods": ["gnc", "mlp"]}, r"unknown method 'gnc' .*, 'mlp' \(near: MLP"),
        ({"runs": 0}, "--runs must be 1 or more; found 0"),
        ({"seed": -1}, "--seed must be 0 or more, .* found -1"),
        ({"seed": 2**32}, r"--runs added at most 2\*\*32; found 4294967296 and 10"),
        ({"seed": 2**32 - 9}, "found 4294967287 and 10"),
        ({"settings": []}, "--settings must name one or more"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
    ],
)
def test_what_cannot_be_done_is_refused_first(tmp_path, stubbed, change, message):
    with pytest.raises(OptionError, match=message):
        reproduce(Plan(tmp_path / "out", **{"datasets": ["digits"], **change}))
    assert not stubbed
    assert not (tmp_path / "out").exists()


def test_the_last_seed_can_be_had(tmp_path):
    (record,) = reproduce(plan(tmp_path, "LinkDist", runs=2, seed=2**32 - 2))
    assert record["seeds"] == [2**32 - 2, 2**32 - 1]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_told_of(tmp_path, stubbed, out):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OptionError, match="--out must be a writable folder"):
        reproduce(plan(tmp_path / out, "MLP"))
    assert not stubbed


def child(hang_at: int, *args: str) -> None:
    """`linkdist *args`, quick, which after `hang_at` trainings stops in the next one's middle."""
    from linkdist.cli import main as cli
    from linkdist.cli import paper as commands

    make_quick(setattr)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    out = Path(args[-1])

    class Hanging(commands.Bars):
        def progress(self, done, total):
            if done == 2 and count_cells(out) == hang_at:
                (out / "hanging").touch()
                while True:
                    time.sleep(1)

    commands.Bars = Hanging
    sys.argv = ["linkdist", *args]
    cli.main()


if __name__ == "__main__":
    child(int(sys.argv[1]), *sys.argv[2:])
