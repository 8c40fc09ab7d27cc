"""A run that was killed continues, and gives the same records."""

from concurrent.futures import Future

import pytest
from rivals import protocol, run
from rivals.records import join_files, read_records, tasks_in


class InThisProcess:
    """An executor without processes."""

    def __init__(self, workers, context):
        pass

    def submit(self, function, *given):
        """Compute at once."""
        future = Future()
        try:
            future.set_result(function(*given))
        except OSError as error:
            future.set_exception(error)
        return future

    def shutdown(self):
        """There is nothing to end."""


@pytest.fixture
def small(monkeypatch, made):
    monkeypatch.setattr(run, "ProcessPoolExecutor", InThisProcess)
    monkeypatch.setattr(protocol, "load_set", lambda name: made(numbers=name == "counties"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def measured(folder, *more):
    words = ["--out", str(folder), "--sets", "cora,counties", "--labels", "10%", "--seeds", "0-1",
             "--groups", "linear,propagation,trees", *more]  # fmt: skip
    asked = run.parse(words)
    asked.device = "cpu"
    folder.mkdir(exist_ok=True)
    names = (text.split(",") for text in (asked.sets, asked.labels, asked.groups))
    plan = run.tasks_of(*names, asked.seeds)
    there = tasks_in(folder)
    missing = [task for task in plan if task not in there]
    return missing, run.run(missing, asked, "abc")


def scores(folder):
    return {(r["set"], r["method"]): r["by_seed"] for r in read_records(folder)[1]}


def test_a_resumed_run_gives_the_same_records(small, tmp_path, capsys):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert len(measured(whole)[0]) == 6
    measured(resumed, "--minutes", "0")
    assert scores(resumed) == {}
    measured(resumed)
    killed = resumed / "cora.10pc.linear.0-1.jsonl"
    killed.rename(killed.with_suffix(".1.new"))  # what a killed process leaves
    missing, failed = measured(resumed)
    assert [task.group for task in missing] == ["linear"]
    assert failed == []
    assert scores(resumed) == scores(whole)
    join_files(resumed)
    assert sorted(path.name for path in resumed.glob("*.jsonl")) == ["cora.jsonl", "counties.jsonl"]
    assert scores(resumed) == scores(whole)
    assert measured(resumed) == ([], [])
    assert ("counties", "self-training") not in scores(whole)
    assert len(scores(whole)) == 7
    assert "1 of 1" in capsys.readouterr().out


def test_a_failure_is_reported_and_the_others_are_measured(small, tmp_path, monkeypatch):
    def fail(name):
        if name == "cora":
            raise OSError("no such file")
        return made_numbers(name)

    made_numbers = protocol.load_set
    monkeypatch.setattr(protocol, "load_set", fail)
    _, failed = measured(tmp_path / "out")
    assert len(failed) == 3
    assert all("no such file" in text for text in failed)
    assert {name for name, _ in scores(tmp_path / "out")} == {"counties"}


def test_the_plan_has_the_longest_tasks_first():
    sets, groups = ["cora", "coauthor-cs", "counties"], ["trees", "colinkdist"]
    plan = run.tasks_of(sets, ["5", "60%"], groups, range(10))
    parts = [t.seeds for t in plan if (t.name, t.labels, t.group) == ("cora", "5", "trees")]
    assert parts == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]
    assert {t.seeds for t in plan if t.group == "colinkdist"} == {tuple(range(10))}
    assert {t.labels for t in plan if t.name == "counties"} == {"60%"}
    assert (plan[0].name, plan[0].labels, plan[0].group) == ("coauthor-cs", "60%", "trees")
