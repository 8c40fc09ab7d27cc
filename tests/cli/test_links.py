"""Options for links of several tables, and with relations, weights and direction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from linkdist import prediction, trained_model, updating
from linkdist.artifacts import model_dir
from linkdist.cli.options import LinkTable, given
from linkdist.errors import OptionError
from linkdist.store.reader import Store
from tests.cli.common import refused, words

pytestmark = pytest.mark.usefixtures("surroundings")

ROLES = ("--id", "id", "--label", "field")
LINKS = ("--relation", "kind", "--weight", "w", "--directed")
TWO = [Path("cites.csv"), Path("knows.csv")]


@pytest.fixture
def folder(tmp_path):
    """Nodes, links of two relations in a table and in two."""
    pd.DataFrame({"id": range(6), "age": [5, 3, 8, 1, 9, 2], "field": ["x", "y"] * 3}).to_csv(
        tmp_path / "nodes.csv", index=False
    )
    links = pd.DataFrame({"a": range(5), "b": range(1, 6), "w": [1, 2, 3, 4, 0.5]})
    links.assign(kind=["cites"] * 3 + ["knows"] * 2).to_csv(tmp_path / "links.csv", index=False)
    links[:3].to_csv(tmp_path / "cites.csv", index=False)
    links[3:].to_csv(tmp_path / "knows.csv", index=False)
    return tmp_path


def checked(command, folder, edges, *options):
    tables = ["--nodes", folder / "nodes.csv"]
    for name in edges:
        tables += ["--edges", folder / name]
    return command("check", *tables, *ROLES, *options)


def test_check_prints_the_links_of_each_relation(command, folder):
    code, out, err = checked(command, folder, ["links.csv"], *LINKS)
    assert code == 0, err
    counts = "5 links from 5 rows; links of each relation: cites 3, knows 2; directed from column"
    assert f"links: {counts} 'a' to 'b'; weights from 0.5 to 4." in words(out + err)
    code, out, err = checked(command, folder, ["cites.csv", "knows.csv"], *LINKS[2:])
    assert code == 0, err
    assert f"links: {counts} 'a' to 'b'; weights from 0.5 to 4." in words(out + err)


def test_check_says_which_options_would_use_a_column(command, folder):
    code, out, err = checked(command, folder, ["links.csv"])
    assert code == 0, err
    hints = "--relation kind would use kind as the relations of the links; --weight w would use w"
    assert f"columns that are not used: w, kind; {hints}" in words(out + err)


def test_mistakes_are_told_in_words(command, folder):
    several = checked(command, folder, ["cites.csv", "knows.csv"], "--relation", "kind")
    refused(several, "--relation names a column of a single link table; each of several tables")
    (folder / "old").mkdir()
    (folder / "old" / "cites.csv").write_text("a,b\n1,2\n")
    equal = checked(command, folder, ["cites.csv", "old/cites.csv"])
    refused(
        equal, r"names of the files are the relations, so they must be different; found .*cites"
    )
    (folder / "links.csv").write_text("a,b,kind,w\n1,2,cites,0\n2,3,,x\n3,4,cites,\n")
    wrong = checked(command, folder, ["links.csv"], *LINKS)
    refused(
        wrong,
        r"relation in every row; row 2 is empty\. .*weight in every row; row 3 is empty\. "
        r".*positive numbers.*; row 1 has 0\.0, row 2 has 'x'\.",
    )


def test_a_store_keeps_relations_weights_and_directions(command, folder):
    line = ["store", "build", "--nodes", folder / "nodes.csv", *ROLES]
    one = ["--edges", folder / "links.csv", *LINKS, "--out", folder / "one"]
    code, out, err = command(*line, *one)
    assert code == 0, err
    said = words(out.replace("│", " "))
    for row in ("relations 2: cites, knows", "directed yes", "weights yes", "task classification"):
        assert row in said
    two = ["--edges", folder / "cites.csv", "--edges", folder / "knows.csv", *LINKS[2:]]
    code, _, err = command(*line, *two, "--out", folder / "two")
    assert code == 0, err
    found = [Store.open(folder / name).bucket(0, 0) for name in ("one", "two")]
    assert all(np.array_equal(*parts) for parts in zip(*found, strict=True))
    out = ["--out", folder / "model", "--method", "colinkdist"]
    refused(
        command("train", "--store", folder / "one", *out),
        "on a store, the method colinkdist is for classification with one relation",
    )


def test_a_store_keeps_numbers_and_several_labels(command, folder):
    edges = ("--edges", folder / "cites.csv", "--id", "id", "--features", "age")
    table = pd.read_csv(folder / "nodes.csv").assign(size=range(6), even=[0, 1] * 3, odd=[1, 0] * 3)
    table.to_csv(folder / "nodes.csv", index=False)
    line = ("store", "build", "--nodes", folder / "nodes.csv", *edges)
    code, out, err = command(*line, "--label", "even,odd", "--out", folder / "sets")
    assert code == 0, err
    assert "Task: multilabel (guessed from 2 label columns)" in words(err)
    assert "classes 2, nodes with each: even: 3, odd: 3" in words(out.replace("│", " "))
    options = ("--label", "size", "--task", "regression", "--out", folder / "numbers")
    code, out, err = command(*line, *options)
    assert code == 0, err
    assert "number size, known for 6 nodes" in words(out.replace("│", " "))


def test_given_options_are_those_of_the_links():
    links = LinkTable(edges=TWO, relation="kind", weight="w", directed=True)
    assert given(links) == ["--edges", "--relation", "--weight", "--directed"]
    assert given(replace(links, edges=None, weight=None)) == ["--relation", "--directed"]


def test_training_on_a_store_takes_no_roles_of_links(command, tmp_path):
    line = ("train", "--store", tmp_path / "store", "--out", tmp_path / "model")
    refused(command(*line, *LINKS), "Found --relation, --weight, --directed")
    refused(command(*line), "there is no directory")


# What commands pass on.


@pytest.fixture
def received(monkeypatch):
    """What the functions behind the commands receive; they stop there."""
    received = {}

    def stop(*args, **options):
        received["args"], received["options"] = args, options
        raise OptionError("stop")

    class Model:
        evaluate = suggest = staticmethod(stop)

    about = {"id": "id", "label": "field", "source": "a"}
    saved = model_dir.Saved(None, None, about)
    monkeypatch.setattr(trained_model, "train", stop)
    monkeypatch.setattr(trained_model, "load_model", lambda _: Model)
    monkeypatch.setattr(prediction, "predict", stop)
    monkeypatch.setattr(updating, "update", stop)
    monkeypatch.setattr(model_dir, "load_model", lambda _: saved)
    return received


EDGES = ("--edges", TWO[0], "--edges", TWO[1])


def test_train_receives_tables_and_roles(command, received):
    line = ("train", "--nodes", "nodes.csv", *ROLES, "--out", "model")
    refused(command(*line, *EDGES, *LINKS), "stop")
    options = received["options"]
    assert options["links"] == TWO
    found = [options[role] for role in ("relation", "weight", "directed")]
    assert found == ["kind", "w", True]
    refused(command(*line, *EDGES[:2]), "stop")
    options = received["options"]
    assert options["links"] == TWO[0]
    assert [options[role] for role in ("relation", "weight", "directed")] == [None, None, False]


def test_commands_that_use_a_model_take_several_tables(command, received):
    refused(command("predict", "model", "nodes.csv", "--out", "p.csv", *EDGES), "stop")
    assert received["options"]["edges"] == TWO
    refused(command("predict", "model", "nodes.csv", "--out", "p.csv"), "stop")
    assert received["options"]["edges"] is None
    refused(command("evaluate", "model", "nodes.csv", *EDGES), "stop")
    assert received["args"] == (Path("nodes.csv"), TWO)
    refused(command("evaluate", "model", "nodes.csv"), "stop")
    assert received["args"] == (Path("nodes.csv"), None)
    refused(command("suggest", "model", "--nodes", "nodes.csv", *EDGES, "--out", "s.csv"), "stop")
    assert received["args"][1] == TWO
    refused(command("update", "model", "--nodes", "nodes.csv", *EDGES, *LINKS), "stop")
    tables = received["args"][1]
    assert (tables.edges, tables.source, tables.target) == (TWO, "a", None)
    assert (tables.relation, tables.weight, tables.directed) == ("kind", "w", True)


@pytest.mark.parametrize(
    "line",
    [
        ("suggest", "model", "--nodes", "nodes.csv", "--out", "s.csv"),
        ("update", "model", "--nodes", "nodes.csv"),
        ("check", "--nodes", "nodes.csv", *ROLES),
    ],
)
def test_commands_that_need_links_say_so(command, line):
    code, _, err = command(*line)
    assert code == 2
    assert "--edges" in err
