"""Oracles: the plain command on the same rows in one table; directories as they were before."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from linkdist import pipeline, prediction
from linkdist.distributed import ray_predict
from linkdist.distributed.ray_predict import predict_directory
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.progress import Callback

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of itself

ROWS = [0, 300, 301, 640, 900, 1200]
"""Where the files begin; the second has one row."""


@pytest.fixture(scope="module")
def table(papers):
    return pyarrow.csv.read_csv(papers / "nodes.csv")


@pytest.fixture
def nodes(table, tmp_path):
    """The papers in five files, beside names that a directory may hold as well."""
    folder = tmp_path / "nodes"
    folder.mkdir()
    for i, (first, end) in enumerate(itertools.pairwise(ROWS)):
        put(folder / f"part-{i}.parquet", table.slice(first, end - first))
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_bytes(b"\0")
    return folder


@pytest.fixture(scope="module")
def plain(papers_model, table, tmp_path_factory):
    """What the plain command says of all papers in one table."""
    folder = tmp_path_factory.mktemp("plain")
    put(folder / "nodes.parquet", table)
    out = folder / "predictions.parquet"
    prediction.predict(papers_model, folder / "nodes.parquet", out, device="cpu")
    return pyarrow.parquet.read_table(out)


def put(path, table):
    pyarrow.parquet.write_table(table, path)


def change(path, name, values):
    """Put other values into the first rows of a column, as text."""
    table = pyarrow.parquet.read_table(path)
    column = [*values, *map(str, table[name].to_pylist()[len(values) :])]
    put(path, table.set_column(table.schema.names.index(name), name, pa.array(column)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def check(out, plain):
    """The plain command's rows in the order of files, and nothing beside the directory."""
    assert names(out) == [f"part-{i}.parquet" for i in range(5)]
    parts = [pyarrow.parquet.read_table(path) for path in sorted(out.iterdir())]
    assert [len(part) for part in parts] == np.diff(ROWS).tolist()
    found = pa.concat_tables(parts)
    assert found.schema.equals(plain.schema)
    assert found.select([0, 1]).equals(plain.select([0, 1]))
    for name in plain.schema.names[2:]:
        np.testing.assert_allclose(found[name], plain[name], rtol=0, atol=1e-6)
    assert names(out.parent) == ["nodes", out.name]


def test_a_directory_without_workers(command, papers_model, nodes, plain, tmp_path):
    out = tmp_path / "predictions"
    found = command("predict", papers_model, nodes, "--out", out, "--device", "cpu")
    assert found == (0, f"1200 nodes predicted: {out}\n", "")
    check(out, plain)


@pytest.mark.ray
def test_a_directory_with_workers(ray, command, papers_model, nodes, plain, tmp_path):
    out = tmp_path / "predictions"
    found = command("predict", papers_model, nodes, "--out", out, "--workers", 2)
    assert found == (0, f"1200 nodes predicted: {out}\n", "")
    check(out, plain)


@pytest.mark.ray
def test_a_killed_worker_is_replaced(ray, papers_model, nodes, plain, tmp_path, monkeypatch):
    killed = str(tmp_path.parent / f"{tmp_path.name}-killed")

    def deadly(row, *given):
        from linkdist.distributed import ray_predict as real

        if row["rows"] == 1:
            try:
                os.close(os.open(killed, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return real._work(row, *given)

    monkeypatch.setattr(ray_predict, "_work", deadly)
    out = tmp_path / "predictions"
    assert predict_directory(papers_model, nodes, out, workers=2) == 1200
    assert Path(killed).exists()
    check(out, plain)


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.ray)])
def test_the_problems_of_all_files_are_told(
    request, command, papers_model, nodes, plain, tmp_path, workers
):
    if workers is not None:
        request.getfixturevalue("ray")
    out, single = tmp_path / "predictions", tmp_path / "single.parquet"
    kept = {i: (nodes / f"part-{i}.parquet").read_bytes() for i in (2, 4)}
    change(nodes / "part-2.parquet", "year", ["old", "new"] * 20)
    change(nodes / "part-4.parquet", "year", ["older"] * 40)
    sentences = []
    for i in kept:
        code, _, told = command(
            "predict", papers_model, nodes / f"part-{i}.parquet", "--out", single
        )
        assert code == 2
        sentences.append(told.removeprefix("linkdist: "))
    assert "row 1 has 'old', row 2 has 'new'" in sentences[0]
    asked = ["predict", papers_model, nodes, "--out", out]
    asked += [] if workers is None else ["--workers", workers]
    code, printed, told = command(*asked)
    assert (code, printed) == (2, "")
    lines = told.removeprefix("linkdist: ").splitlines(keepends=True)
    assert sorted(lines) == sorted(sentences)
    assert not out.exists()
    for i, content in kept.items():
        (nodes / f"part-{i}.parquet").write_bytes(content)
    assert command(*asked)[0] == 0
    check(out, plain)


@pytest.mark.parametrize("workers", [None, 2])
def test_columns_are_looked_at_before_any_work(
    command, papers_model, nodes, tmp_path, monkeypatch, workers
):
    monkeypatch.setitem(sys.modules, "ray", None)  # not even Ray is started
    for i in (1, 3):
        path = nodes / f"part-{i}.parquet"
        put(path, pyarrow.parquet.read_table(path).drop_columns(["venue"]))
    (nodes / "part-2.parquet").write_bytes(b"PAR1 and no more")
    asked = ["predict", papers_model, nodes, "--out", tmp_path / "predictions"]
    code, _, told = command(*asked, *([] if workers is None else ["--workers", workers]))
    assert code == 2
    lines = told.splitlines()
    assert len(lines) == 3
    assert f"{nodes / 'part-1.parquet'}: unknown column 'venue'; choose from" in lines[0]
    assert f"{nodes / 'part-2.parquet'} is damaged" in lines[1]
    assert f"{nodes / 'part-3.parquet'}: unknown column 'venue'; choose from" in lines[2]
    assert names(tmp_path) == ["nodes"]


def test_files_without_rows_are_passed_over(papers_model, nodes, table, plain, tmp_path):
    put(nodes / "part-9.parquet", table.slice(0, 0))
    out = tmp_path / "predictions"
    assert predict_directory(papers_model, nodes, out, device="cpu") == 1200
    check(out, plain)


@pytest.fixture
def predicted(monkeypatch):
    """The names of the files that are predicted, in their order."""
    found = []

    def predict_table(saved, nodes, out, **options):
        found.append(nodes.name)
        return prediction.predict_table(saved, nodes, out, **options)

    monkeypatch.setattr(ray_predict, "predict_table", predict_table)
    return found


class Interrupting(Callback):
    """Ends a run as Ctrl-C does, once so many rows are done."""

    def __init__(self, after):
        self.after = after

    def progress(self, done, total):
        if done > self.after:
            raise KeyboardInterrupt


def interrupted(*args, after=301):
    with pytest.raises(KeyboardInterrupt):
        predict_directory(*args, device="cpu", callback=Interrupting(after))


def test_a_run_that_was_ended_goes_on(papers_model, nodes, plain, tmp_path, predicted):
    out = tmp_path / "predictions"
    interrupted(papers_model, nodes, out)
    assert not out.exists()
    assert predicted == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    predicted.clear()
    assert predict_directory(papers_model, nodes, out, device="cpu") == 1200
    assert predicted == ["part-2.parquet", "part-3.parquet", "part-4.parquet"]
    check(out, plain)


def test_what_changed_is_predicted_again(papers_model, nodes, plain, tmp_path, predicted):
    out = tmp_path / "predictions"
    interrupted(papers_model, nodes, out, after=640)
    os.utime(nodes / "part-1.parquet", ns=(1, 1))
    (nodes / "part-2.parquet").rename(tmp_path / "elsewhere.parquet")
    predicted.clear()
    interrupted(papers_model, nodes, out, after=302)
    assert predicted == ["part-1.parquet", "part-3.parquet"]
    (tmp_path / "elsewhere.parquet").rename(nodes / "part-2.parquet")
    predicted.clear()
    assert predict_directory(papers_model, nodes, out, device="cpu") == 1200
    assert predicted == ["part-2.parquet", "part-3.parquet", "part-4.parquet"]
    check(out, plain)


def test_another_model_begins_anew(papers, papers_model, nodes, plain, tmp_path, predicted):
    out, other = tmp_path / "predictions", tmp_path / "other"
    tables = pipeline.Tables(papers / "nodes.csv", papers / "links.csv", "paper", "field")
    pipeline.train(tables, other, pipeline.Options(epochs=1, seed=1, device="cpu"))
    interrupted(other, nodes, out)
    shutil.rmtree(other)
    predicted.clear()
    assert predict_directory(papers_model, nodes, out, device="cpu") == 1200
    assert len(predicted) == 5
    check(out, plain)


def test_lost_rows_are_noticed(papers_model, nodes, table, plain, tmp_path, monkeypatch):
    def predict_table(saved, path, out, **options):
        if path.name == "part-3.parquet":
            put(tmp_path / "fewer.parquet", table.slice(640, 259))
            path = tmp_path / "fewer.parquet"
        return prediction.predict_table(saved, path, out, **options)

    out = tmp_path / "predictions"
    with monkeypatch.context() as patch:
        patch.setattr(ray_predict, "predict_table", predict_table)
        with pytest.raises(
            TableError, match=r"part-3.parquet had 260 rows, and 259 were predicted"
        ):
            predict_directory(papers_model, nodes, out, device="cpu")
    assert not out.exists()
    (tmp_path / "fewer.parquet").unlink()
    predict_directory(papers_model, nodes, out, device="cpu")
    check(out, plain)


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.ray)])
def test_progress_counts_the_rows_of_all_files(request, papers_model, nodes, tmp_path, workers):
    if workers is not None:
        request.getfixturevalue("ray")
    told = []

    class Ear(Callback):
        def progress(self, done, total):
            told.append((done, total))

    out = tmp_path / "predictions"
    predict_directory(papers_model, nodes, out, workers=workers, callback=Ear())
    assert {total for _, total in told} == {1200}
    assert told == sorted(told)
    assert told[-1][0] == 1200


def test_ids_are_of_one_type(papers_model, nodes, tmp_path):
    path = nodes / "part-1.parquet"
    table = pyarrow.parquet.read_table(path)
    put(path, table.set_column(table.schema.names.index("paper"), "paper", pa.array([7])))
    rule = (
        "column 'paper' must have the same type in all files; found string in part-0.parquet, int64"
    )
    with pytest.raises(TableError, match=rule):
        predict_directory(papers_model, nodes, tmp_path / "predictions")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("predictions.csv", "is the name of a file. Leave out .csv"),
        ("nodes", "must be outside of the data"),
        ("nodes/predictions", "must be outside of the data"),
        (".", "must be outside of the data"),
        ("full", "exists already"),
        ("full/file", "exists already"),
        ("full/file/predictions", "Not a directory"),
    ],
)
def test_a_target_in_which_something_would_be_lost(papers_model, nodes, tmp_path, name, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OptionError, match=words):
        predict_directory(papers_model, nodes, tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_target_will_do(papers_model, nodes, plain, tmp_path):
    out = tmp_path / "predictions"
    out.mkdir()
    predict_directory(papers_model, nodes, out, device="cpu")
    check(out, plain)


def test_a_directory_holds_parquet_files_only(papers_model, nodes, tmp_path):
    (nodes / "more.csv").touch()
    (nodes / "2026.parquet").mkdir()
    with pytest.raises(
        TableError, match=r"also contains 2026.parquet, more.csv; a directory of tables"
    ):
        predict_directory(papers_model, nodes, tmp_path / "predictions")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="empty contains none; a directory of tables"):
        predict_directory(papers_model, tmp_path / "empty", tmp_path / "predictions")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "auto"], "--address needs --workers, the number of processes"),
        (["--edges", "links.csv"], "--edges needs one table"),
        (["--workers", 2, "--device", "cuda"], "workers compute on the CPU"),
    ],
)
def test_options_that_do_not_go_together(command, papers_model, nodes, tmp_path, options, words):
    code, _, told = command("predict", papers_model, nodes, "--out", tmp_path / "out", *options)
    assert code == 2
    assert words in told


def test_workers_share_a_directory(command, papers_model, nodes, tmp_path):
    one = nodes / "part-0.parquet"
    code, _, told = command("predict", papers_model, one, "--out", tmp_path / "out", "--workers", 2)
    assert code == 2
    assert f"--workers share the files of a directory; {one} is not a directory." in told


def test_a_missing_extra_is_named(command, papers_model, nodes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = ["predict", papers_model, nodes, "--out", tmp_path / "out", "--workers", 2]
    code, _, told = command(*asked)
    assert code == 2
    words = "several workers need ray, which is not installed: pip install 'linkdist[ray]'."
    assert told == f"linkdist: {words}\n"
    assert names(tmp_path) == ["nodes"]


@pytest.mark.ray
def test_an_address_where_nobody_is(papers_model, nodes, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OptionError, match=f"there is no Ray at '{address}': .*refused"):
            predict_directory(papers_model, nodes, tmp_path / "out", workers=2, address=address)
    assert names(tmp_path) == ["nodes"]


def test_a_worker_takes_one_thread_and_the_model_that_was_asked_for(papers_model, monkeypatch):
    threads = []
    monkeypatch.setattr(ray_predict.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(ray_predict.pa, "set_cpu_count", threads.append)
    with pytest.raises(ModelError, match="was replaced meanwhile"):
        ray_predict._loaded(str(papers_model), "0" * 32)
    assert threads == [1, 1]
