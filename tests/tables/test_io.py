"""Compared with: small tables, a dictionary instead of the index, the files in the folder."""

from __future__ import annotations

import errno
import os
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from linkdist.data.links import LINKS as UNNAMED
from linkdist.errors import LinkDistError, OptionError, TableError
from linkdist.tables import formats as module
from linkdist.tables import io as reading
from linkdist.tables import links as links_module
from linkdist.tables.feature_encoder import make_feature_encoder
from linkdist.tables.io import open_table
from linkdist.tables.links import LinkReport, read_links
from linkdist.tables.nodes import node_batches, read_nodes
from linkdist.tables.predictions import PredictionWriter

NODES = """paper,field,age,shelf,title
007,math,1,a,On graphs
008,art,3,b,On links
009,,2,a,
"""


def write(path, content):
    if isinstance(content, dict):
        pa.parquet.write_table(pa.table(content), path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def csv(tmp_path):
    return lambda content: write(tmp_path / "table.csv", content)


@pytest.fixture
def parquet(tmp_path):
    return lambda **columns: write(tmp_path / "table.parquet", columns)


def dense(features):
    return features.toarray() if sparse.issparse(features) else features


# open_table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.tsv", "t.PQ"])
def test_csv_and_parquet_have_the_same_batches(tmp_path, monkeypatch, name):
    table = pa.table({"a": range(10), "b": [f"v{i}" for i in range(10)]})
    path = tmp_path / name
    if name in ("t.csv", "t.tsv"):
        options = pa.csv.WriteOptions(delimiter="\t" if name == "t.tsv" else ",")
        pa.csv.write_csv(table, path, options)
    else:
        pa.parquet.write_table(table, path)
    opened = open_table(path)
    assert opened.schema.names == ["a", "b"]
    assert opened.rows == (10 if name in ("t.parquet", "t.PQ") else None)
    batches = list(opened.batches(["b", "a"], size=4))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert pa.Table.from_batches(batches).to_pydict() == table.select(["b", "a"]).to_pydict()
    monkeypatch.setattr(module, "SAMPLE", 3)
    assert open_table(path).sample().to_pydict() == table.slice(0, 3).to_pydict()


def test_semicolons_and_quoted_newlines_are_read(csv):
    path = csv('a;b\n1;"two\nlines; one value"\n')
    assert open_table(path).sample().to_pylist() == [{"a": 1, "b": "two\nlines; one value"}]


def test_columns_are_read_as_text_on_request(csv):
    path = csv("id,n\n007,1\n")
    assert open_table(path).sample().to_pylist() == [{"id": 7, "n": 1}]
    (batch,) = open_table(path).batches(as_text=["id"])
    assert batch.to_pylist() == [{"id": "007", "n": 1}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n\n", "is empty"),
        ("t.csv", "a,b", "has no rows"),
        ("t.parquet", "", "is empty"),
        (
            "t.parquet",
            "a,b\n1,2\n",
            r"named \.parquet, but contains text\. CSV, JSON and Parquet files can be read",
        ),
        ("t.csv", b"PAR1....PAR1", r"named \.csv, but contains Parquet"),
        ("t.csv", b"PK\x03\x04\0\0", r"named \.csv, but contains neither Parquet nor text"),
        ("t.xlsx", b"PK\x03\x04\0\0", r"named \.xlsx, but contains neither"),
        ("table", "a,b\n1,2\n", "named without a suffix, but contains text"),
        ("t.parquet", b"PAR1 and no more", "is damaged: .*Write it again"),
        ("t.csv", "a,b,a\n1,2,3\n", "contains duplicate column names: 'a'"),
        ("t.csv", b"a,b\n\xff,2\n", "must be text in UTF-8: .*0xff.* Save it in this encoding"),
        ("t.csv", b"a\xff,b\n1,2\n", "must be text in UTF-8: .*0xff"),
        ("t.csv", b"a,b\n1,2\n\xff\n", "must be text in UTF-8: .*0xff"),
    ],
)
def test_files_that_are_not_tables_are_rejected(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(TableError, match=message) as caught:
        list(open_table(path).batches())
    assert str(caught.value).startswith(str(path))


def test_missing_files_and_folders_are_rejected(tmp_path):
    with pytest.raises(TableError, match=r"none\.csv cannot be read: No such file or directory"):
        open_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder without Parquet files"):
        open_table(tmp_path)


UNREAD = OSError(errno.EIO, "Error reading bytes from file. Detail: [errno 5] Input/output error")
"""What Arrow raises when the system cannot read a file."""


@pytest.mark.parametrize("kind", ["numbers", "vectors"])
def test_long_row_group_is_not_kept_in_memory(tmp_path, kind):
    """Compared with: the bytes that Arrow has allocated and those of the only row group."""
    flat = pa.array(np.arange(1 << 22, dtype=np.float64))
    column = flat if kind == "numbers" else pa.FixedSizeListArray.from_arrays(flat, 64)
    path, rows = tmp_path / "t.parquet", len(column)
    options = {"row_group_size": rows, "use_dictionary": False, "compression": "none"}
    pa.parquet.write_table(pa.table({"a": column}), path, **options)
    total = flat.nbytes
    del flat, column
    before, most, read = pa.total_allocated_bytes(), 0, 0
    for batch in open_table(path).batches(size=4096):
        most = max(most, pa.total_allocated_bytes() - before)
        read += len(batch)
    assert read == rows
    assert most < total / 4, f"{most / 1e6:.0f} MB of {total / 1e6:.0f}"


@pytest.mark.skipif(sys.platform != "linux", reason="a file that cannot be read")
def test_arrow_passes_on_the_number_of_a_system_error():
    with pa.OSFile("/proc/self/mem") as file, pytest.raises(OSError, match="5") as caught:
        file.read(1)
    assert (type(caught.value), caught.value.args) == (OSError, UNREAD.args)


@pytest.mark.parametrize(
    ("name", "owner", "step"),
    [
        ("t.csv", Path, "open"),
        ("t.csv", pyarrow.csv, "open_csv"),
        ("t.csv", module.Csv, "_read"),
        ("t.parquet", reading, "open_regular"),
        ("t.parquet", pyarrow.parquet, "ParquetFile"),
        ("t.parquet", pyarrow.parquet.ParquetFile, "iter_batches"),
    ],
)
def test_read_error_of_the_system_is_not_reported_as_damage(
    tmp_path, monkeypatch, name, owner, step
):
    path = write(tmp_path / name, {"a": [1]} if name == "t.parquet" else "a\n1\n")

    def fail(*_, **__):
        raise UNREAD

    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(TableError) as caught:
        list(open_table(path).batches())
    assert str(caught.value) == (
        f"{path} cannot be read: Input/output error. Name an existing Parquet or CSV file; if "
        "it exists, run the same command again."
    )
    assert caught.value.__cause__ is UNREAD


def test_all_rows_with_missing_values_are_reported(csv):
    with pytest.raises(TableError) as caught:
        list(open_table(csv("a,b\n1,2\n3\n4,5\n6,7,8\n")).batches())
    message = "rows must have 2 values, like the header; row 2 has '3', row 4 has '6,7,8'."
    assert str(caught.value).endswith(message)


def test_value_of_another_type_than_the_first_rows_is_reported(csv, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    path = csv("a,b\n" + "1,2\n" * 40 + "1,x\n")
    with pytest.raises(TableError) as caught:
        list(open_table(path).batches(["b"]))
    message = "column 'b' contains int64 in its first rows; row 41: invalid value 'x'."
    assert message in str(caught.value)


def test_unclosed_quote_is_reported(csv, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    with pytest.raises(TableError, match=r"has a row of more than 64 bytes\. Close the quotes"):
        list(open_table(csv("a,b\n" + "1,2\n" * 40 + '1,"' + "2\n" * 200)).batches())


def test_byte_order_mark_and_characters_across_blocks_are_read(csv, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    rows = [f"{i},ä€😀" for i in range(99)]
    table = open_table(csv("\n".join(["\ufeffa,b", *rows])))
    assert table.schema.names == ["a", "b"]
    found = pa.Table.from_batches(table.batches()).to_pydict()
    assert found == {"a": list(range(99)), "b": ["ä€😀"] * 99}


def test_parquet_text_that_is_not_utf8_is_reported(parquet):
    raw = pa.array([b"a\xff"]).view(pa.string())
    with pytest.raises(TableError, match=r"is damaged: .*UTF8"):
        list(open_table(parquet(a=raw)).batches())


# read_nodes ---------------------------------------------------------------------------------------


def test_nodes_from_csv(csv):
    nodes = read_nodes(csv(NODES), "paper", "field")
    assert nodes.ids.to_pylist() == ["007", "008", "009"]
    assert nodes.classes == ("art", "math")
    assert nodes.labels.tolist() == [1, 0, -1]
    assert {name: found.kind for name, found in nodes.guesses.items()} == {
        "age": "numeric",
        "shelf": "text",
        "title": "text",
    }
    assert nodes.features.shape == (3, nodes.encoders.d)
    assert nodes.features[:, 0].toarray().ravel() == pytest.approx([-(1.5**0.5), 1.5**0.5, 0])


def test_parquet_keeps_the_type_of_ids(parquet):
    path = parquet(id=pa.array([5, 6], pa.int16()), label=[True, False], v=[[1.0], [2.0]])
    nodes = read_nodes(path, "id", "label")
    assert nodes.ids.type == pa.int16()
    assert nodes.classes == ("false", "true")
    assert nodes.labels.tolist() == [1, 0]
    assert nodes.features.tolist() == [[-1], [1]]


@pytest.mark.parametrize(
    ("labels", "classes", "y"),
    [
        ([10, 9, -1, None], ("9", "10"), [1, 0, -1, -1]),
        (["10", "9", "-1", ""], ("9", "10"), [1, 0, -1, -1]),
        ([1.0, 2.0, float("nan"), -1.0], ("1", "2"), [0, 1, -1, -1]),
        (["b", "-1", None, "a"], ("-1", "a", "b"), [2, 0, -1, 1]),
    ],
)
def test_labels_and_their_classes(parquet, labels, classes, y):
    nodes = read_nodes(parquet(id=range(4), x=range(4), label=labels), "id", "label")
    assert nodes.classes == classes
    assert nodes.labels.tolist() == y


def test_labels_outside_given_classes_are_counted(parquet):
    path = parquet(id=range(6), x=range(6), label=["1", "2", "3", "3", "-1", None])
    nodes = read_nodes(path, "id", "label", classes=("2", "1"))
    assert nodes.labels.tolist() == [1, 0, -1, -1, -1, -1]
    assert nodes.classes == ("2", "1")
    assert nodes.unknown_labels == {"3": 2}


def test_nodes_without_labels(parquet):
    nodes = read_nodes(parquet(id=range(2), x=range(2)), "id", None)
    assert nodes.labels.tolist() == [-1, -1]
    assert nodes.classes == ()


def test_kinds_and_features_can_be_given(csv):
    path = csv(NODES)
    nodes = read_nodes(path, "paper", "field", {"shelf": "categorical"}, ["shelf", "age"])
    assert nodes.encoders.names == ("shelf", "age")
    assert (nodes.guesses["shelf"].kind, nodes.guesses["shelf"].why) == (
        "categorical",
        "as requested",
    )
    assert nodes.features[:, :2].toarray().tolist() == [[1, 0], [0, 1], [1, 0]]


def test_given_encoder_is_not_changed(csv, tmp_path):
    nodes = read_nodes(csv(NODES), "paper", "field")
    state = nodes.encoders.state()
    again = write(tmp_path / "again.csv", "title,shelf,age,paper,extra\nOn graphs,a,3,1,x\n")
    found = read_nodes(again, "paper", None, encoders=nodes.encoders)
    assert nodes.encoders.state() == state
    assert found.guesses == {}
    assert found.features[0, 0] == pytest.approx(1.5**0.5)
    assert found.features[:, 1:].toarray().tolist() == nodes.features[:1, 1:].toarray().tolist()


def test_features_do_not_depend_on_the_batches(csv, monkeypatch):
    rows = [f"{i},{'ab'[i % 2]},{i * i},w{i} w{i % 3}" for i in range(50)]
    path = csv("\n".join(["id,label,x,text", *rows]))
    whole = read_nodes(path, "id", "label")
    monkeypatch.setattr(module, "BLOCK", 64)
    parts = read_nodes(path, "id", "label", {"text": "text"})
    assert parts.ids.to_pylist() == whole.ids.to_pylist()
    assert parts.labels.tolist() == whole.labels.tolist()
    np.testing.assert_allclose(dense(parts.features), dense(whole.features), rtol=1e-5, atol=1e-7)


def test_numbers_after_the_first_block_are_read(csv, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    rows = [f"{i},{'ab'[i % 2]},{i},," for i in range(40)] + ["040,a,0.5,9,x"]
    nodes = read_nodes(csv("\n".join(["id,label,x,late,other", *rows])), "id", "label")
    assert nodes.encoders.columns[0].mean == (sum(range(40)) + 0.5) / 41
    assert nodes.guesses["late"].kind is None
    assert nodes.ids[-1].as_py() == "040"


def test_dates_and_booleans_in_csv_become_features(csv):
    rows = "id,label,day,ok\n1,a,1970-01-02,true\n2,b,1970-01-04,false\n"
    nodes = read_nodes(csv(rows), "id", "label")
    assert nodes.encoders.columns[0].mean[0] == 2 * 86400
    assert nodes.features[:, [0, -1]].tolist() == [[-1, 1], [1, -1]]
    numbers = read_nodes(csv(rows), "id", "label", kinds={"day": "numeric"})
    assert numbers.encoders.columns[0].mean == 2 * 86400
    assert numbers.features.tolist() == [[-1, 1], [1, -1]]


def test_progress_is_reported(csv, parquet):
    calls = []
    read_nodes(csv(NODES), "paper", "field", progress=lambda *now: calls.append(now))
    assert calls == [(3, 0)]
    calls.clear()
    path = parquet(id=range(4), x=range(4))
    read_nodes(path, "id", None, progress=lambda *now: calls.append(now))
    assert calls == [(4, 4)]


def test_all_problems_of_a_table_are_in_one_message(csv):
    path = csv("id,label,age,x\na,m,1,1\n,m,old,2\na,m,2,inf\nb,m,2,2\nb,m,,1\n")
    with pytest.raises(TableError) as caught:
        read_nodes(path, "id", "label", {"age": "numeric"}, ["age", "x", "agee", "label"])
    assert str(caught.value) == (
        f"{path}: unknown column 'agee' (near: age); choose from id, label, age, x. "
        "column 'label' contains ids or labels and cannot be a feature. "
        "column 'age' must contain numbers; row 2 has 'old'. "
        "column 'x' must contain finite numbers; row 3 has 'inf'. "
        "column 'id' must contain an id in each row; row 2 is empty. "
        "column 'id' contains duplicate ids: 'a' in rows 1 and 3, 'b' in rows 4 and 5. "
        "column 'label' must contain labels of two classes or more; all are 'm'."
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1], "x": [1]}, r"unknown column 'id', 'label'; choose from a, x\.$"),
        ({"id": [1], "label": [None], "x": [1]}, "column 'label' contains no labels"),
        ({"id": [1], "label": [-1], "x": [1]}, "column 'label' contains no labels"),
        ({"id": [1, 2], "label": ["a", "b"]}, "there is no feature column"),
        ({"id": [1, 2], "label": ["a", "b"], "x": [b"", b""]}, "there is no feature column"),
        ({"id": [[1]], "label": ["a"], "x": [1]}, "column 'id' must contain one value per row; it"),
        (
            {"id": [1], "label": [{"a": 1}], "x": [1]},
            "column 'label' must contain one value per row; it",
        ),
        ({"id": [], "label": [], "x": []}, "the table has no rows"),
    ],
)
def test_unsuitable_node_tables_are_rejected(parquet, columns, message):
    with pytest.raises(TableError, match=message):
        read_nodes(parquet(**columns), "id", "label")


def test_missing_feature_columns_are_reported_in_prediction(csv):
    encoders = make_feature_encoder({"age": "numeric", "size": "numeric"})
    path = csv("id,Age\n1,2\n")
    message = r"unknown column 'age' \(near: Age\), 'size'; choose from id, Age\.$"
    with pytest.raises(TableError, match=message):
        read_nodes(path, "id", None, encoders=encoders)
    with pytest.raises(TableError, match=message):
        list(node_batches(open_table(path), "id", encoders))


def test_ids_and_labels_must_be_two_columns(csv):
    with pytest.raises(TableError, match="ids and labels must be two columns; both are 'paper'"):
        read_nodes(csv(NODES), "paper", "paper")


# node_batches -------------------------------------------------------------------------------------


def test_batches_of_nodes_equal_the_whole_table(csv):
    path = csv(NODES)
    nodes = read_nodes(path, "paper", "field")
    batches = list(node_batches(open_table(path), "paper", nodes.encoders, size=2))
    assert [len(ids) for ids, _ in batches] == [2, 1]
    assert pa.concat_arrays([ids for ids, _ in batches]).equals(nodes.ids)
    found = sparse.vstack([x for _, x in batches])
    assert found.toarray().tolist() == nodes.features.toarray().tolist()


def test_problems_of_all_batches_are_in_one_message(csv):
    path = csv("id,x\n1,1\n2,2\n3,a\n4,4\n5,b\n")
    batches = node_batches(open_table(path), "id", make_feature_encoder({"x": "numeric"}), size=1)
    assert [next(batches)[0].to_pylist() for _ in range(2)] == [["1"], ["2"]]
    with pytest.raises(TableError, match=r"row 3 has 'a', row 5 has 'b'\.$"):
        next(batches)


# read_links ---------------------------------------------------------------------------------------

some_ids = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)
some_links = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=20)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@in_one_folder
@given(some_ids, some_links, st.integers(1, 7))
def test_links_equal_those_found_with_a_dictionary(tmp_path, ids, pairs, size):
    path = write(tmp_path / "l.csv", "a,b\n" + "".join(f"{i},{j}\n" for i, j in pairs))
    place = {node: row for row, node in enumerate(ids)}
    known = [tuple(sorted((place[i], place[j]))) for i, j in pairs if {i, j} <= place.keys()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links_module, "LINKS", size)
        if not known:
            with pytest.raises(TableError, match="no row contains two of them"):
                read_links(path, pa.array(ids))
            return
        links, report = read_links(path, pa.array(ids))
    assert links.pairs.tolist() == [list(pair) for pair in sorted(set(known))]
    assert links.pairs.dtype == np.int64
    assert (links.relation, links.weights, links.directed) == (None, None, False)
    assert links.relations == UNNAMED
    lost = [row for row, pair in enumerate(pairs, 1) if not set(pair) <= place.keys()]
    assert (report.total, report.kept, report.unknown) == (len(pairs), len(links.pairs), len(lost))
    assert report.duplicates == len(known) - len(links.pairs)
    assert report.loops == sum(i == j for i, j in set(known))
    assert [row for row, _ in report.examples] == lost[:5]


def test_links_from_named_columns_of_parquet(parquet):
    path = parquet(weight=[1.0, 2.0], to=pa.array([7, 8], pa.int32()), of=["8", "9"])
    links, report = read_links(path, pa.array(["7", "8", "9"]), source="of", target="to")
    assert links.pairs.tolist() == [[0, 1], [1, 2]]
    assert str(report) == (
        "2 links from 2 rows; columns that are not used: weight; "
        "--weight weight would use weight as the weights of the links."
    )


def test_leading_zeros_of_ids_are_significant(csv):
    links, report = read_links(csv("a,b\n007,8\n7,8\n"), pa.array(["007", "8"]))
    assert links.pairs.tolist() == [[0, 1]]
    assert report == LinkReport(total=2, kept=1, unknown=1, examples=((2, "7"),))
    assert str(report) == (
        "1 links from 2 rows; links to unknown nodes skipped: 1 (first: '7' in row 2)."
    )


def test_strict_reports_all_problems_with_their_rows(csv):
    path = csv("a,b\n1,2\n2,1\n1,1\n1,9\n,2\n")
    with pytest.raises(TableError) as caught:
        read_links(path, pa.array([1, 2]), strict=True)
    assert str(caught.value) == (
        f"{path}: links must connect nodes of the node table; row 4 has '9', row 5 is empty. "
        "links must be listed once, in one direction; row 2 has ['2', '1']. "
        "links must connect two different nodes; row 3 has ['1', '1']."
    )


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n", {}, "the table has no rows"),
        ("a\n1\n", {}, "links need two columns of ids; found a"),
        ("a,b\n1,2\n", {"source": "a", "target": "a"}, "links need two columns of ids; found a, a"),
        ("a,b\n1,2\n", {"source": "c", "target": "A"}, "unknown column 'c', 'A' .near: a"),
        ("a,b\n5,6\n", {}, "columns 'a' and 'b' must contain ids .* row 1 has '5'"),
    ],
)
def test_tables_without_links_are_rejected(csv, content, options, message):
    with pytest.raises(TableError, match=message):
        read_links(csv(content), pa.array([1, 2]), **options)


def test_other_column_of_links_is_the_first_remaining_one(csv):
    path = csv("a,b,c\n1,2,3\n")
    ids = pa.array([1, 2, 3])
    assert read_links(path, ids, target="c")[0].pairs.tolist() == [[0, 2]]
    assert read_links(path, ids, source="b")[0].pairs.tolist() == [[0, 1]]


# PredictionWriter ---------------------------------------------------------------------------------

P = np.array([[0.25, 0.75], [1.0, 0.0]])


@pytest.mark.parametrize("name", ["p.parquet", "p.csv", "p.tsv"])
def test_predictions_are_written_as_a_table(tmp_path, name):
    path = tmp_path / name
    with PredictionWriter(path, "paper", pa.int64(), ["a b", "ä"]) as writer:
        writer.write(pa.array([7, 8]), P)
        writer.write(pa.array([9]), P[:1])
    found = open_table(path).sample()
    assert found.to_pydict() == {
        "paper": [7, 8, 9],
        "label": ["ä", "a b", "ä"],
        "confidence": [0.75, 1, 0.75],
        "p_a b": [0.25, 1, 0.25],
        "p_ä": [0.75, 0, 0.75],
    }
    if name == "p.parquet":
        single = pa.float32()
        assert found.schema.types == [pa.int64(), pa.string(), single, single, single]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def interrupted(path):
    with PredictionWriter(path, "id", pa.string(), ["a", "b"]) as writer:
        writer.write(pa.array(["x", "y"]), P)
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_failure_leaves_only_the_old_table(tmp_path, name):
    path = write(tmp_path / name, "old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_is_reported(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    path = write(tmp_path / "p.csv", "old")
    monkeypatch.setattr(os, step, fail)
    with (
        pytest.raises(OptionError, match=r"p\.csv cannot be written: No space left on device"),
        PredictionWriter(path, "id", pa.string(), ["a", "b"]) as writer,
    ):
        writer.write(pa.array(["x", "y"]), P)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize("name", ["label", "confidence", "p_a"])
def test_column_of_ids_must_not_have_the_name_of_a_prediction(tmp_path, name):
    with pytest.raises(TableError, match=f"'{name}' cannot be the name of the column of ids"):
        PredictionWriter(tmp_path / "p.csv", name, pa.string(), ["a"])


def test_predictions_that_cannot_be_written_are_reported(tmp_path):
    with pytest.raises(TableError, match="the suffix is not that of a table"):
        PredictionWriter(tmp_path / "p.xlsx", "id", pa.string(), ["a"])
    with (
        pytest.raises(OptionError, match="cannot be written: No such file"),
        PredictionWriter(tmp_path / "nowhere" / "p.csv", "id", pa.string(), ["a"]),
    ):
        pass
    with (
        pytest.raises(TableError, match=r"must have shape \(1, 2\); found \(2, 2\)"),
        PredictionWriter(tmp_path / "p.csv", "id", pa.string(), ["a", "b"]) as writer,
    ):
        writer.write(pa.array(["x"]), P)
    with (
        pytest.raises(TableError, match=r"cannot be written: .* Write Parquet"),
        PredictionWriter(tmp_path / "p.csv", "id", pa.list_(pa.int8()), ["a", "b"]) as writer,
    ):
        writer.write(pa.array([[1], [2]]), P)
    assert list(tmp_path.iterdir()) == []


# Any file -----------------------------------------------------------------------------------------

cells = st.sampled_from(
    ["", "1", "-1", "007", "2.5", "nan", "inf", "a", "ä b", "true", "2020-01-01"]
)
lines = st.lists(cells | st.text(max_size=3), min_size=2, max_size=4).map(",".join)
texts = st.lists(lines, max_size=6).map("\n".join).map(lambda rows: f"id,label,x\n{rows}")
contents = st.one_of(
    texts.map(str.encode),
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda tail: b"PAR1" + tail),
    st.tuples(st.just(b"id,label,x\n"), st.binary(max_size=20)).map(b"".join),
)


@settings(in_one_folder, max_examples=300)
@given(contents, st.sampled_from(["t.csv", "t.tsv", "t.parquet"]), st.data())
def test_any_bytes_are_read_or_rejected(tmp_path, content, name, data):
    path = write(tmp_path / name, content)
    kind = data.draw(st.sampled_from([None, "numeric", "categorical", "text", "vector"]))
    try:
        nodes = read_nodes(path, "id", "label", {} if kind is None else {"x": kind})
    except LinkDistError:
        pass
    else:
        assert nodes.features.shape == (len(nodes.ids), nodes.encoders.d)
        assert np.isfinite(dense(nodes.features)).all()
        assert nodes.labels.max() < len(nodes.classes)
    try:
        links, report = read_links(path, pa.array(["1", "a", "007"]))
    except LinkDistError:
        pass
    else:
        assert report.total == report.kept + report.unknown + report.duplicates
        assert 0 <= links.pairs.min() <= links.pairs.max() < 3
    try:
        links, _ = read_links(path, pa.array(["1", "a"]), relation="label", weight="x")
    except LinkDistError:
        pass
    else:
        assert links.problems(2) == []


@in_one_folder
@given(st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3), st.integers(0))
def test_damaged_parquet_file_is_read_or_rejected(tmp_path, changes, cut):
    rows = {"id": [1, 2, 3], "label": ["a", "b", None], "x": [date(2020, 1, 1)] * 3, "y": ["é"] * 3}
    path = write(tmp_path / "t.parquet", rows)
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    path.write_bytes(content[: len(content) - cut % 50] if cut % 2 else content)
    try:
        nodes = read_nodes(path, "id", "label")
        assert np.isfinite(dense(nodes.features)).all()
        read_links(path, pa.array([1, 2, 3]), target="id")
    except LinkDistError:
        pass
