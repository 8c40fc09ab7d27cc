"""Explanations of tables: which rows, which neighbours, and what is written."""

import json

import numpy as np
import pyarrow.csv
import pytest

import linkdist
from linkdist.errors import OptionError, TableError
from linkdist.inference.engine import Engine
from linkdist.inference.explain_table import explain_table, parts_table
from linkdist.tables.io import open_table


@pytest.fixture(scope="module")
def engine(papers_model):
    return Engine(papers_model)


@pytest.fixture(scope="module")
def model(papers_model):
    return linkdist.load_model(papers_model)


def explained(engine, nodes, edges=None, **options):
    found = explain_table(engine.heads, engine.columns, engine.header, nodes, edges, **options)
    return list(found)


def parts_of(one):
    return {(part.kind, part.column, part.value): part.contribution for part in one.parts}


@pytest.mark.parametrize("with_links", [False, True])
def test_pytorch_and_onnx_runtime_explain_alike(engine, model, papers, with_links):
    nodes, links = papers / "nodes.csv", papers / "links.csv" if with_links else None
    ids = ["P0007", "P0000", "P0007"]
    ours = explained(engine, nodes, links, ids=ids)
    theirs = model.explain(nodes, links, ids=ids)
    assert [id for id, _ in ours] == [id for id, _ in theirs] == ["P0007", "P0000"]
    for (_, one), (_, other) in zip(ours, theirs, strict=True):
        assert one.label == other.label
        assert one.mode == ("links" if with_links else "features")
        assert parts_of(one) == pytest.approx(parts_of(other), abs=1e-4)


def test_explanations_with_links_sum_to_the_prediction_with_links(engine, model, papers):
    nodes, links = papers / "nodes.csv", papers / "links.csv"
    p = model.predict_proba(nodes, links).astype(float)
    rows = explained(engine, nodes, links, rows=30)
    assert [one.row for _, one in rows] == list(range(30))
    for k, (_, one) in enumerate(rows):
        best = int(p[k].argmax())
        score = np.log(p[k, best]) - np.log(np.delete(p[k], best).sum())
        assert one.label == model.classes[best]
        assert one.base + sum(parts_of(one).values()) == pytest.approx(score, abs=1e-4)


def test_neighbours_are_the_linked_rows(engine, papers):
    pairs = pyarrow.csv.read_csv(papers / "links.csv").to_pylist()
    near = {
        a if b == "P0003" else b for a, b in (row.values() for row in pairs) if "P0003" in (a, b)
    }
    ((_, one),) = explained(engine, papers / "nodes.csv", papers / "links.csv", ids=["P0003"])
    assert {part.value for part in one.parts if part.kind == "neighbour"} == near


def test_without_a_column_of_ids_rows_have_numbers(engine):
    table = {"title": ["photon", "treaty"], "venue": ["letters"] * 2, "year": [1990, 1950]}
    assert [id for id, _ in explained(engine, table)] == ["row 1", "row 2"]
    with pytest.raises(TableError, match="paper"):
        explained(engine, table, ids=["P1"])
    with pytest.raises(TableError, match="paper"):
        explained(engine, table, {"a": ["P1"], "b": ["P2"]})


def test_mistakes_are_reported(engine, papers):
    nodes = papers / "nodes.csv"
    with pytest.raises(OptionError, match="no row with the id 'P9', 'Q9' in column 'paper'"):
        explained(engine, nodes, ids=["P9", "P0000", "Q9"])
    with pytest.raises(TableError, match="year"):
        explained(engine, {"paper": ["P1"], "title": ["photon"], "venue": ["letters"]})
    with pytest.raises(TableError, match="no rows"):
        explained(engine, open_table(nodes).sample().slice(0, 0))


def test_messages_name_the_row_of_the_table(engine):
    table = {
        "paper": [f"P{k}" for k in range(9)],
        "title": ["photon"] * 9,
        "venue": ["letters"] * 9,
        "year": [*["1990"] * 6, "soon", "1991", "1992"],
    }
    with pytest.raises(TableError, match="row 7 has 'soon'"):
        explained(engine, table, ids=["P6"])


def test_several_graphs(engine):
    one = {
        "paper": ["P1", "P2"],
        "title": ["photon", "treaty"],
        "venue": ["letters"] * 2,
        "year": [1990] * 2,
    }
    nodes, links = (
        {"DE": one, "ES": one},
        {"DE": {"a": ["P1"], "b": ["P2"]}, "ES": {"a": ["P2"], "b": ["P1"]}},
    )
    ((id, found),) = explained(engine, nodes, links, ids=["ES/P2"])
    assert id == "ES/P2"
    assert [part.value for part in found.parts if part.kind == "neighbour"] == ["ES/P1"]


def test_the_table_of_parts_has_all_numbers(engine, papers):
    rows = explained(engine, papers / "nodes.csv", rows=3)
    table = parts_table(rows)
    assert table.column_names == ["id", "label", "kind", "column", "value", "contribution"]
    for id, one in rows:
        mine = [row for row in table.to_pylist() if row["id"] == id]
        assert sum(row["contribution"] for row in mine) == pytest.approx(one.score, abs=1e-9)
    assert json.dumps(table.to_pylist())
