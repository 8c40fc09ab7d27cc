"""`linkdist store` from the command line: what is printed, which code it ends with."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from linkdist.store.reader import Store
from tests.stores import build_papers, write


def words(text):
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def build(command, papers, tmp_path):
    def call(*options):
        return command(
            *("store", "build", "--nodes", papers / "nodes.csv", "--edges", papers / "links.csv"),
            *("--id", "paper", "--label", "field", "--out", tmp_path / "store", *options),
        )

    return call


def test_build_info_and_check(build, command, tmp_path):
    code, out, err = build("--parts", 4)
    assert code == 0, err
    assert "4703 links from 4796 rows; duplicates merged: 93." in err
    assert "column title: text" in err
    said = words(out)
    assert "nodes 1200" in said
    assert "links 4703, 0 of them self-loops" in said
    assert "features 59, csr" in said
    assert "biology: " in said
    assert "parts 4" in said
    assert "training takes about " in said
    assert command("store", "info", tmp_path / "store")[:2] == (0, out)
    code, out, _ = command("store", "check", tmp_path / "store")
    assert code == 0
    assert "is valid: all digests match" in out


def test_append_writes_new_rows_and_shows_the_store(command, papers, tmp_path):
    nodes = pa.csv.read_csv(papers / "nodes.csv")
    links = pa.csv.read_csv(papers / "links.csv")
    for name, rows in {"old": nodes[:1000], "new": nodes[1000:]}.items():
        write(tmp_path / f"{name}.csv", rows)
    line = ("store", "build", "--nodes", tmp_path / "old.csv", "--edges", papers / "links.csv")
    line = (*line, "--id", "paper", "--label", "field", "--parts", 3, "--out", tmp_path / "store")
    assert command(*line)[0] == 0
    line = ("store", "append", tmp_path / "store", "--memory", "1GB")
    code, out, err = command(
        *line, "--nodes", tmp_path / "new.csv", "--edges", papers / "links.csv"
    )
    assert code == 0, err
    assert f"from {len(links)} rows; duplicates merged: " in err
    said = words(out)
    assert "nodes 1200" in said
    assert "links 4703, 0 of them self-loops" in said
    assert "parts 4, 1 of them appended" in said
    assert command("store", "check", tmp_path / "store")[0] == 0
    code, out, err = command(*line, "--nodes", tmp_path / "new.csv")
    assert code == 2
    assert not out
    assert "contains ids that the store has already; leave out these rows" in words(err)
    code, _, err = command(*line)
    assert code == 2
    assert "there is nothing to append. Give --nodes, --edges or both." in words(err)


def test_append_takes_a_table_for_each_relation(command, tmp_path):
    ids = [f"n{i}" for i in range(8)]
    nodes = {"id": ids, "class": list("abababab"), "age": [float(i) for i in range(8)]}
    write(tmp_path / "nodes.csv", nodes)
    line = ("store", "build", "--nodes", tmp_path / "nodes.csv", "--id", "id", "--label", "class")
    for name in ("cites", "knows"):
        (tmp_path / "new").mkdir(exist_ok=True)
        write(tmp_path / f"{name}.csv", {"from": ids[:2], "to": ids[2:4]})
        line = (*line, "--edges", tmp_path / f"{name}.csv")
    code, out, err = command(*line, "--out", tmp_path / "store")
    assert code == 0, err
    assert "appended" not in out
    line = ("store", "append", tmp_path / "store")
    for name in ("knows", "likes"):
        write(tmp_path / f"new/{name}.csv", {"from": ids[4:6], "to": ids[6:]})
    code, _, err = command(*line, "--edges", tmp_path / "new/knows.csv")
    assert code == 0, err
    assert "2 links from 2 rows; links of each relation: knows 2." in words(err)
    assert Store.open(tmp_path / "store").m == 6, "no node is without links"
    edges = ("--edges", tmp_path / "new/likes.csv", "--edges", tmp_path / "new/knows.csv")
    code, _, err = command(*line, *edges)
    assert code == 2
    rule = "the store was built with the relations cites, knows; found others: 'likes' (2 rows)"
    assert rule in words(err)


def test_check_ends_with_1_where_there_is_a_problem(command, papers, tmp_path):
    store = tmp_path / "store"
    build_papers(papers, store)
    for name in ("links/0000-0001.npy", "parts/0001.labels.npy"):
        content = bytearray((store / name).read_bytes())
        content[-1] ^= 1
        (store / name).write_bytes(content)
    code, out, err = command("store", "check", store)
    assert code == 1
    assert not err
    assert out.count("was damaged or changed") == 2
    assert "2 problem(s)" in out


def test_synth_makes_what_is_asked_for(command, tmp_path):
    line = ("store", "synth", "--nodes", 2000, "--links", 9000, "--features", 3, "--classes", 5)
    code, out, err = command(*line, "--labelled", 0.5, "--parts", 2, "--out", tmp_path / "store")
    assert code == 0, err
    store = Store.open(tmp_path / "store")
    assert (store.n, store.d, store.C, store.P) == (2000, 3, 5, 2)
    assert "nodes 2000" in words(out)
    code, _, err = command(*line, "--out", tmp_path / "store")
    assert code == 2
    assert "is already a store" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parts", "99"], "99 parts are too many for 4796 links"),
        (["--memory", "lots"], "memory must be a number of bytes such as 500MB"),
        (["--memory", "1kB"], "is too small for 1200 nodes"),
        (["--dtype", "float8"], "unknown type of features 'float8' (near: "),
        (["--kinds", "year"], "--kinds takes COLUMN=KIND"),
        (["--features", "aged"], "unknown column 'aged'"),
        (["--source", "form"], "unknown column 'form' (near: from)"),
        (["--strict"], "links must be listed once, in one direction; row "),
    ],
)
def test_mistakes_are_told_in_plain_words(build, tmp_path, options, message):
    code, out, err = build(*options)
    assert code == 2
    assert message in words(err)
    assert "Traceback" not in err
    assert not out
    assert not list(tmp_path.iterdir()), "nothing is left of what cannot go on"


@pytest.mark.parametrize("name", ["info", "check"])
def test_what_is_no_store_is_told(command, tmp_path, name):
    code, _, err = command("store", name, tmp_path / "nowhere")
    assert code == 2
    assert "there is no directory" in err
    (tmp_path / "half.building").mkdir()
    (tmp_path / "half.building" / "journal.json").write_text("{}")
    code, _, err = command("store", name, tmp_path / "half.building")
    assert code == 2
    assert "is unfinished" in err


# memory -------------------------------------------------------------------------------------------

PEAK = r"""
import re, sys
from pathlib import Path
from linkdist.store.build import build
from linkdist.pipeline import Tables

def held(name):
    return int(re.search(name + r":\s+(\d+) kB", Path("/proc/self/status").read_text())[1])

def built(folder):
    tables = Tables(folder / "nodes.parquet", folder / "links.parquet", "id", "class")
    return build(tables, folder / "store", memory=int(sys.argv[2]))

built(Path(sys.argv[1], "small"))  # what libraries take when they are used for the first time
Path("/proc/self/clear_refs").write_text("5")  # the peak until now
before = held("VmRSS")
store = built(Path(sys.argv[1]))
print(store.n, store.m, store.P, (held("VmHWM") - before) * 1024)
"""


def write_large(folder, n, m, d):
    """Tables of n nodes and m links, a piece at a time."""
    random = np.random.default_rng(0)
    vector = pa.list_(pa.float32(), d)
    schema = pa.schema([("id", pa.string()), ("class", pa.string()), ("x", vector)])
    with pa.parquet.ParquetWriter(folder / "nodes.parquet", schema) as writer:
        for start in range(0, n, 1 << 16):
            k = min(1 << 16, n - start)
            ids = pa.array([f"node {i}" for i in range(start, start + k)])
            x = pa.FixedSizeListArray.from_arrays(
                pa.array(random.normal(size=k * d).astype(np.float32)), d
            )
            y = pa.array(random.integers(0, 9, k).astype(str).tolist())
            writer.write_batch(pa.record_batch([ids, y, x], schema=schema))
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    with pa.parquet.ParquetWriter(folder / "links.parquet", schema) as writer:
        for start in range(0, m, 1 << 18):
            k = min(1 << 18, m - start)
            ends = [pa.array([f"node {i}" for i in random.integers(0, n, k)]) for _ in range(2)]
            writer.write_batch(pa.record_batch(ends, schema=schema))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")
def test_building_takes_no_more_memory_than_it_may(tmp_path):
    n, m, d, memory = 1_000_000, 4_000_000, 64, 100_000_000
    (tmp_path / "small").mkdir()
    write_large(tmp_path / "small", 5000, 20_000, d)
    write_large(tmp_path, n, m, d)
    asked = [sys.executable, "-c", PEAK, str(tmp_path), str(memory)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=900)
    nodes, links, parts, grown = map(int, done.stdout.split())
    assert nodes == n
    assert 0.99 * m < links <= m + n
    assert parts == 10
    in_memory = n * d * 4 + m * 16
    assert grown < memory < in_memory / 3, f"{grown / 1e6:.0f} MB"
