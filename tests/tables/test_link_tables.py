"""Several link tables, each of which is a relation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from linkdist.data.links import LINKS
from linkdist.errors import OptionError, TableError
from linkdist.tables.link_tables import link_tables
from linkdist.tables.links import read_links

IDS = pa.array(["7", "8", "9"])


def test_files_are_relations_by_their_names(tmp_path):
    folder = tmp_path / "cites.v2"
    folder.mkdir()
    paths = [tmp_path / "x.knows.csv", folder]
    paths[0].write_text("a,b\n7,8\n")
    pa.parquet.write_table(pa.table({"c": [9], "d": [8]}), folder / "part.parquet")
    links, report = read_links(list(map(str, paths)), IDS, directed=True)
    assert links.relations == ("x.knows", "cites.v2")
    assert (links.pairs.tolist(), links.relation.tolist()) == ([[0, 1], [2, 1]], [0, 1])
    assert str(report) == (
        "2 links from 2 rows; links of each relation: x.knows 1, cites.v2 1; directed."
    )


def test_a_table_of_columns_is_no_table_of_relations():
    frame = pd.DataFrame({"a": [7], "b": [8]})
    for columns in (
        {"a": [7], "b": [8]},
        {"a": frame["a"], "b": frame["b"]},
        {"a": pa.chunked_array([[7]]), "b": np.array([8])},
        {"a": pd.Series([7], index=["columns"]), "b": pd.Series([8], index=["schema"])},
        pa.RecordBatch.from_pandas(frame),
        frame,
        pa.table(frame),
    ):
        links, _ = read_links(columns, IDS)
        assert (links.relations, links.pairs.tolist()) == (LINKS, [[0, 1]])
        links, _ = read_links({"cites": columns}, IDS)
        assert (links.relations, links.pairs.tolist()) == (("cites",), [[0, 1]])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["a/cites.csv", "b/cites.csv.gz"], "different; found a/cites.csv, b/cites.csv.gz. Rename"),
        ([{"a": [7]}, "cites.csv"], "must be files, whose names are the relations, .* found dict"),
        ([(7, 8), (8, 9)], "found tuple"),
        ([], "found no table"),
        ({1: "cites.csv", "knows": "knows.csv"}, "found str"),
    ],
)
def test_tables_need_different_names(tables, message):
    with pytest.raises(TableError, match=message):
        link_tables(tables)


def test_a_column_of_relations_needs_a_single_table():
    table = {"a": [7], "b": [8], "kind": ["x"]}
    with pytest.raises(OptionError, match="Found column 'kind' and the tables cites, knows"):
        read_links({"cites": table, "knows": table}, IDS, relation="kind")


def test_problems_of_all_tables_are_in_one_message(tmp_path):
    for name, text in (
        ("cites", "a,b,w\n7,8,0\n7,9,\n"),
        ("knows", "a,b\n7,8\n"),
        ("likes", "a,b,w\n1,2,3\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(text)
    paths = [tmp_path / f"{name}.csv" for name in ("cites", "knows", "likes", "none")]
    with pytest.raises(TableError) as caught:
        read_links(paths, IDS, weight="w")
    assert str(caught.value) == (
        f"{paths[0]}: column 'w' must contain a weight in every row; row 2 is empty. "
        "column 'w' must contain positive numbers from 1e-30 to 1e+30; row 1 has 0.0. "
        f"{paths[1]}: unknown column 'w'; choose from a, b. "
        f"{paths[2]}: columns 'a' and 'b' must contain ids of the node table, but no row contains "
        "two of them; row 1 has '1'. "
        f"{paths[3]} cannot be read: No such file or directory. Name an existing Parquet or CSV "
        "file; if it exists, run the same command again."
    )


def test_strict_problems_are_those_of_each_relation():
    table = {"a": [7, 7, 8, 7], "b": [8, 8, 7, 7], "kind": ["x", "y", "x", "x"]}
    with pytest.raises(
        TableError, match=r"in one direction; row 3 has \['8', '7'\]\. .* row 4 has"
    ):
        read_links(table, IDS, relation="kind", strict=True)
    with pytest.raises(TableError) as caught:
        read_links(table, IDS, relation="kind", directed=True, strict=True)
    assert str(caught.value) == (
        "the link table: links must connect two different nodes; row 4 has ['7', '7']."
    )


def test_rows_of_unknown_nodes_are_named_with_their_table():
    tables = {"cites": {"a": [7, 1], "b": [8, 8]}, "knows": {"a": [2, 7], "b": [8, 8]}}
    assert str(read_links(tables, IDS)[1]) == (
        "2 links from 4 rows; links of each relation: cites 1, knows 1; links to unknown nodes "
        "skipped: 2 (first: '1' in row 2 of cites, '2' in row 1 of knows)."
    )


def test_a_model_with_relations_takes_some_of_its_tables(tmp_path):
    path = tmp_path / "knows.csv"
    path.write_text("a,b\n7,8\n")
    relations = ("likes", "knows", "cites")
    links, _ = read_links(path, IDS, relations=relations)
    assert (links.relations, links.relation.tolist()) == (relations, [1])
    empty = {"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}
    links, report = read_links({"cites": path, "likes": empty}, IDS, relations=relations)
    assert (links.relation.tolist(), report.relations) == ([2], (("likes", 0), ("cites", 1)))
    with pytest.raises(TableError, match="the link tables have no rows; a graph needs links"):
        read_links({"cites": empty, "likes": empty}, IDS, relations=relations)
    with pytest.raises(TableError, match=r"others: 'new' \(1 row\)"):
        read_links({"new": path, "likes": path}, IDS, relations=relations)
    with pytest.raises(TableError, match=r"whose names are the relations, .* found dict"):
        read_links({"a": [7], "b": [8]}, IDS, relations=relations)
    assert read_links({"a": [7], "b": [8]}, IDS, relations=["cites"])[0].relations == ("cites",)


def test_relations_without_links_are_left_out_of_training():
    table = {"a": [7, 1, 8], "b": [8, 8, 9], "kind": ["x", "w", "y"]}
    links, report = read_links(table, IDS, relation="kind")
    assert (links.relations, links.relation.tolist()) == (("x", "y"), [0, 1])
    assert "links of each relation: x 1, y 1; relations without links left out: w;" in str(report)
