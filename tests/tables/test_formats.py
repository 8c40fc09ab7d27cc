"""Every format gives the rows of one Parquet file; frames give those of their columns in Arrow."""

from __future__ import annotations

import gzip
import json
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from linkdist.errors import TableError
from linkdist.tables import formats
from linkdist.tables.io import open_table

TABLE = pa.table(
    {"id": [f"n{i}" for i in range(7)], "age": [1, None, 3, 4, 5, 6, 7], "x": np.arange(7) / 4}
)


def rows(source, columns=None, **options):
    """All rows, whose number is known before unless it is text."""
    table = open_table(source)
    found = [row for batch in table.batches(columns, **options) for row in batch.to_pylist()]
    assert table.rows in (None, len(found))
    return found


# Files.


def write(path):
    table = TABLE
    if "parquet" in path.name:
        pyarrow.parquet.write_table(table, path)
        return path
    if "csv" in path.name:
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(table, sink)
        content = sink.getvalue().to_pybytes()
    else:
        content = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl", "t.ndjson", "t.jsonl.gz", "t.parquet"])
@pytest.mark.parametrize("size", [2, 100])
def test_every_format_has_the_same_rows(tmp_path, name, size):
    path = write(tmp_path / name)
    assert rows(path, size=size) == TABLE.to_pylist()
    assert rows(str(path), ["x", "id"]) == TABLE.select(["x", "id"]).to_pylist()
    assert open_table(path).sample().to_pylist() == TABLE.to_pylist()


def test_json_lines_have_lists_and_missing_fields(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": 1, "tags": ["a", "b"]}\n{"id": 2}\n')
    assert rows(path) == [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": None}]


@pytest.mark.parametrize("source", ["", "*.parquet", "part-?.parquet"])
def test_a_folder_or_glob_of_parquet_has_the_rows_of_one_file(tmp_path, monkeypatch, source):
    for i, (start, end) in enumerate([(0, 3), (3, 3), (3, 7)]):
        part = TABLE.slice(start, end - start)
        pyarrow.parquet.write_table(part, tmp_path / f"part-{i}.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert rows(tmp_path / source) == TABLE.to_pylist()
    monkeypatch.setattr(formats, "SAMPLE", 4)
    assert open_table(tmp_path / source).sample().to_pylist() == TABLE.to_pylist()[:4]


def test_a_path_with_brackets_is_that_file(tmp_path):
    assert rows(write(tmp_path / "t[1].csv")) == TABLE.to_pylist()


def test_parts_must_agree(tmp_path):
    write(tmp_path / "a.parquet")
    pyarrow.parquet.write_table(TABLE.drop_columns("x"), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"must have the columns of .*a\.parquet; .* differs in x"):
        open_table(tmp_path)
    whole = TABLE.set_column(1, "age", TABLE["age"].cast(pa.float64()))
    pyarrow.parquet.write_table(whole, tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b\.parquet differs in their types"):
        open_table(tmp_path / "*.parquet")
    write(tmp_path / "c.csv")
    with pytest.raises(TableError, match=r"must contain Parquet files only; found .*c\.csv"):
        open_table(tmp_path / "[ac].*")
    with pytest.raises(TableError, match=r"none-\*\.parquet cannot be read: No such file"):
        open_table(tmp_path / "none-*.parquet")


def test_json_that_is_no_table_is_refused_in_words(tmp_path):
    path = tmp_path / "t.jsonl"
    for content in ("[1, 2]\n", '{"a": 1}\n{"a": "x"}\n', '{"a": 1\n'):
        path.write_text(content)
        with pytest.raises(TableError, match="Each line must be a JSON object"):
            rows(path)


# Frames.


class Stream:
    """Has an Arrow stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("size", [2, 100])
def test_objects_with_an_arrow_stream_have_its_rows(size):
    for source in (Stream(TABLE), TABLE, TABLE.to_batches()[0], TABLE.to_pydict()):
        assert rows(source, size=size) == TABLE.to_pylist()


def test_polars_frames_have_their_rows():
    polars = pytest.importorskip("polars")
    assert rows(polars.from_arrow(TABLE)) == TABLE.to_pylist()


def test_pandas_columns_have_the_types_that_arrow_gives_them():
    values = {
        "object": (pd.Series(["a", None, "b"], dtype=object), ["a", None, "b"]),
        "string": (pd.Series(["a", None, "b"], dtype="string"), ["a", None, "b"]),
        "category": (pd.Series(["a", None, "a"], dtype="category"), ["a", None, "a"]),
        "numbers": (pd.Series([7, 8, 7], dtype="category"), [7, 8, 7]),
        "nullable": (pd.Series([1, None, 3], dtype="Int64"), [1, None, 3]),
        "boolean": (pd.Series([True, None, False], dtype="boolean"), [True, None, False]),
        "float": (pd.Series([1.5, np.nan, 2.0]), [1.5, None, 2.0]),
        "arrow": (pd.Series([1, None, 2], dtype="int64[pyarrow]"), [1, None, 2]),
        "time": (pd.to_datetime(pd.Series(["2004-05-31", None, "2004-06-01"])),
                 [datetime(2004, 5, 31), None, datetime(2004, 6, 1)]),
        "lists": (pd.Series([["a", "b"], None, []]), [["a", "b"], None, []]),
    }  # fmt: skip
    frame = pd.DataFrame({name: series for name, (series, _) in values.items()})
    found = open_table(frame).sample().to_pydict()
    assert found == {name: expected for name, (_, expected) in values.items()}


def test_values_of_several_types_are_text_as_in_csv(tmp_path):
    mixed = [1, "x", 2.5, True, None, float("nan"), pd.NA, pd.NaT]
    frame = pd.DataFrame({"id": range(8), "mixed": pd.Series(mixed, dtype=object)})
    text = ["1", "x", "2.5", "True", None, None, None, None]
    assert open_table(frame).sample()["mixed"].to_pylist() == text
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = [row["mixed"] or None for row in rows(tmp_path / "t.csv", as_text=["mixed"])]
    assert found == text


def test_lists_among_text_and_numbers_that_arrow_has_not_are_text():
    arrays = pd.Series([np.array([1, 2]), "x"], dtype=object)
    frame = pd.DataFrame({"arrays": arrays, "complex": [1 + 2j, 3j]})
    assert open_table(frame).sample().to_pydict() == {
        "arrays": ["[1 2]", "x"],
        "complex": ["(1+2j)", "3j"],
    }


def test_a_named_index_is_a_column():
    frame = pd.DataFrame({"age": [30, 40]}, index=pd.Index(["a", "b"], name="id"))
    assert rows(frame) == [{"id": "a", "age": 30}, {"id": "b", "age": 40}]
    assert rows(frame.rename_axis(None)) == [{"age": 30}, {"age": 40}]
    both = frame.reset_index().set_index("id", drop=False)
    assert rows(both) == rows(frame)
    levels = frame.set_index("age", append=True).assign(x=1)
    assert rows(levels)[0] == {"id": "a", "age": 30, "x": 1}


def test_a_filtered_frame_keeps_its_rows():
    frame = TABLE.to_pandas()
    assert [row["id"] for row in rows(frame[frame.x > 1])] == ["n5", "n6"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "duplicate column names: 'a'"),
        (pd.DataFrame([[1, 2]]), "the table must have names as columns; found 0. Rename them"),
        ({"a": [1], "b": [1, 2]}, "the table cannot be read: .*expected length"),
        (7, "must be a path, a pandas or Polars frame, .*; found int"),
        ([[1, 2]], "must be a path, .*; found list"),
    ],
)
def test_objects_that_are_no_tables_are_refused_in_words(source, message):
    with pytest.raises(TableError, match=message):
        open_table(source)
