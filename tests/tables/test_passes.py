"""How often a training opens, parses and de-duplicates its tables."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from linkdist import pipeline
from linkdist.tables import formats, io


@pytest.fixture(params=["csv", "parquet"])
def tables(request, papers, tmp_path):
    """The example tables as CSV and as Parquet."""
    paths = []
    for name in ("nodes", "links"):
        path = papers / f"{name}.csv"
        if request.param == "parquet":
            table, path = pyarrow.csv.read_csv(path), tmp_path / f"{name}.parquet"
            pyarrow.parquet.write_table(table, path)
        paths.append(path)
    return pipeline.Tables(*paths, "paper", "field")


def count(monkeypatch, owner, name, key):
    """Count the calls of a function, by a key of its arguments."""
    counts, real = Counter(), getattr(owner, name)

    def counted(*args, **options):
        counts[key(*args)] += 1
        return real(*args, **options)

    monkeypatch.setattr(owner, name, counted)
    return counts


@pytest.fixture
def train(tables, tmp_path):
    options = pipeline.Options("colinkdist", epochs=1, device="cpu")
    return lambda: pipeline.train(tables, tmp_path / "model", options)


def test_tables_are_opened_once_and_parsed_at_most_twice(monkeypatch, tables, train):
    opened = count(monkeypatch, io, "_read_start", lambda path, *_: path.stem)
    parsed = count(monkeypatch, pyarrow.csv, "open_csv", lambda path: path.stem)
    read = count(monkeypatch, formats.Parquet, "_read", lambda table, *_: Path(table.name).stem)
    train()
    assert opened == {"nodes": 1, "links": 1}
    is_csv = tables.nodes.suffix == ".csv"
    assert parsed == ({"nodes": 2, "links": 2} if is_csv else {})
    assert read == ({} if is_csv else {"nodes": 2, "links": 1})


def test_links_are_deduplicated_once(monkeypatch, train):
    def caller(*_):
        return sys._getframe(2).f_globals["__name__"], sys._getframe(2).f_code.co_name

    calls = count(monkeypatch, np, "unique", caller)
    train()
    assert calls["linkdist.tables.links", "_read_table"] == 1
    assert calls["linkdist.data.links", "merged"] == 0
