"""`linkdist check`, `evaluate` and `suggest` on a command line, against the Python interface."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import linkdist
from linkdist.progress import Callback
from tests.cli.common import refused, words

pytestmark = pytest.mark.usefixtures("surroundings")

ROWS = 24
FAST = ("--method", "linkdist", "--epochs", "1", "--held-out", "0", "--device", "cpu")


@pytest.fixture
def tables(tmp_path):
    """The options that name two small tables, in which NA is an unknown label."""
    rows = range(ROWS)
    nodes = {
        "id": rows,
        "age": [i * 7 % 40 for i in rows],
        "field": ["math", "art", "NA"] * (ROWS // 3),
    }
    pd.DataFrame(nodes).to_csv(tmp_path / "nodes.csv", index=False)
    links = {"from": rows, "to": [(i * 5 + 3) % ROWS for i in rows], "year": 2004}
    pd.DataFrame(links).to_csv(tmp_path / "links.csv", index=False)
    return ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "links.csv")


ROLES = ("--id", "id", "--label", "field")


@pytest.fixture
def model(command, tables, tmp_path):
    out = ("--unknown", "NA", "--out", tmp_path / "model")
    code, _, err = command("train", *tables, *ROLES, *FAST, *out)
    assert code == 0, err
    return tmp_path / "model"


def test_check_prints_what_train_understands(command, tables, tmp_path):
    found = []

    class Summaries(Callback):
        def summary(self, summary):
            found.append(str(summary))

    nodes, links = tables[1], tables[3]
    options = {"method": "linkdist", "epochs": 1, "held_out": 0, "device": "cpu"}
    linkdist.train(nodes, links, id="id", label="field", callback=Summaries(), **options)
    code, out, err = command("check", *tables, *ROLES)
    assert code == 0
    assert words(found[0]) in words(out + err)
    assert "the class 'NA' (8 rows) may mean that the label is unknown" in words(out + err)
    assert "columns that are not used: year" in words(out + err)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "links.csv", "nodes.csv"}


def test_check_takes_unknown_labels_and_a_label_table(command, tables, tmp_path):
    code, out, err = command("check", *tables, *ROLES, "--unknown", "NA,?")
    assert code == 0
    assert "labels (field): art 8, math 8; unknown in 8 rows" in words(out + err)
    assert "Warning" not in out + err
    (tmp_path / "more.csv").write_text("id,field\n2,law\n5,law\n8,\n")
    more = ("--unknown", "NA", "--labels", tmp_path / "more.csv")
    code, out, err = command("check", *tables, *ROLES, *more)
    assert code == 0
    assert "labels (field): art 8, law 2, math 8; unknown in 6 rows" in words(out + err)


def test_strict_refuses_what_check_warns_about(command, tables):
    refused(command("check", *tables, *ROLES, "--strict"), "the class 'NA' .* may mean")
    code, _, err = command("check", *tables, *ROLES, "--strict", "--unknown", "NA")
    assert code == 0, err


@pytest.fixture
def many(tmp_path):
    """A node table with labels of all tasks and a column of graphs; the options that name it."""
    rows = range(60)
    nodes = {
        "id": rows,
        "age": [i * 7 % 40 for i in rows],
        "margin": [None if i % 10 == 0 else f"{i * 0.37 - 3:.3f}" for i in rows],
        "even": [i % 2 == 0 for i in rows],
        "big": [int(i > 19) for i in rows],
        "country": ["DE" if i < 24 else "ES" for i in rows],
    }
    pd.DataFrame(nodes).to_csv(tmp_path / "nodes.csv", index=False)
    links = {"from": rows, "to": [i // 2 * 2 for i in rows]}
    pd.DataFrame(links).to_csv(tmp_path / "links.csv", index=False)
    tables = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "links.csv", "--id", "id")
    return lambda *more: ("check", *tables, "--features", "age", *more)


def test_check_says_the_task(command, many):
    code, out, err = command(*many("--label", "margin"))
    assert code == 0, err
    found = words(out + err)
    why = "guessed from column 'margin', which contains 54 different decimal numbers; --task"
    assert f"Task: regression ({why} classification makes each number a class)" in found
    assert "labels (margin): 54 numbers from -2.63 to 18.83, mean 8.1; unknown in 6 rows" in found
    code, out, err = command(*many("--label", "margin", "--task", "classification"))
    found = words(out + err)
    assert code == 0, err
    assert "Task: classification labels" in found
    assert "54 different numbers, such as -0.040, look like a number to predict" in found
    refused(command(*many("--label", "margin", "--task", "rank")), "unknown task 'rank'; choose")


def test_check_takes_several_label_columns(command, many):
    code, out, err = command(*many("--label", "even, big"))
    assert code == 0, err
    found = words(out + err)
    assert "Task: multilabel (guessed from 2 label columns)" in found
    assert "labels (even, big): even 30, big 40; unknown in 0 rows" in found
    refused(
        command(*many("--label", "even,age")), "column 'age' must contain 0 or 1.*row 2 has '7'"
    )


def test_check_takes_a_column_of_graphs(command, many):
    code, out, err = command(*many("--label", "big", "--graph", "country"))
    assert code == 0, err
    assert "2 graphs: DE 24 rows, 24 labels; ES 36 rows, 36 labels" in words(out + err)
    assert "country" not in words(out + err).replace("--graph country", "")


def test_check_takes_a_pair_of_tables_for_each_graph(command, many, tmp_path):
    frame = pd.read_csv(tmp_path / "nodes.csv")
    pairs = []
    for name, rows in frame.groupby("country"):
        rows.assign(id=range(len(rows))).to_csv(tmp_path / f"{name}.csv", index=False)
        (tmp_path / f"{name}-links.csv").write_text("a,b\n0,1\n1,2\n")
        pairs += ["--nodes", tmp_path / f"{name}.csv", "--edges", tmp_path / f"{name}-links.csv"]
    roles = ("--id", "id", "--label", "big", "--features", "age")
    code, out, err = command("check", *pairs, *roles)
    assert code == 0, err
    found = words(out + err)
    assert "2 graphs: DE 24 rows, 24 labels; ES 36 rows, 36 labels" in found
    assert "links: 4 links from 4 rows" in found
    refused(
        command("check", *pairs[:-2], *roles), r"2 node tables \(DE, ES\) need as many link tables"
    )


def test_check_names_what_it_needs(command, tables):
    code, _, err = command("check", *tables)
    assert code == 2
    assert "--id" in err


def test_evaluate_prints_and_writes_the_scores(command, model, tables, tmp_path):
    file = tmp_path / "scores.json"
    code, out, err = command("evaluate", model, tables[1], "--json", file)
    assert code == 0, err
    expected = linkdist.load_model(model).evaluate(tables[1])
    assert (expected.rows, expected.unlabelled) == (16, 8)  # NA is known to be unknown
    assert words(str(expected)) in words(out + err)
    assert json.loads(file.read_text()) == json.loads(json.dumps(expected.as_json()))
    code, out, err = command("evaluate", model, *(tables[i] for i in (1, 2, 3)))
    linked = linkdist.load_model(model).evaluate(tables[1], tables[3])
    assert words(str(linked)) in words(out + err)


def test_evaluate_refuses_other_tables_in_words(command, model, tables, tmp_path):
    table = pd.read_csv(tables[1], keep_default_na=False)
    other = tmp_path / "other.csv"
    table.assign(field="law").to_csv(other, index=False)
    refused(command("evaluate", model, other), r"does not know: 'law' \(24 rows\)")
    table.drop(columns="age").to_csv(other, index=False)
    refused(command("evaluate", model, other), "unknown column 'age'")
    refused(command("evaluate", model, tables[1], "--label", "topic"), "unknown column 'topic'")


def test_suggested_rows_are_filled_in_and_trained_on(command, model, tables, tmp_path):
    file = tmp_path / "next.csv"
    code, out, err = command("suggest", model, *tables, "--out", file, "-n", 3)
    assert code == 0, err
    assert f"3 rows to label: {file}. Fill in 'field'; then train with --labels" in words(out + err)
    suggested = pd.read_csv(file)
    assert suggested.field.isna().all()
    assert (suggested.id % 3 == 2).all()  # the rows with NA
    suggested.assign(field="math").to_csv(file, index=False)
    labels = ("--labels", file, "--unknown", "NA", "--out", tmp_path / "again")
    code, _, err = command("train", *tables, *ROLES, *FAST, *labels)
    assert code == 0, err
    again = linkdist.load_model(tmp_path / "again")
    assert again.about["data"]["labels"] == {"art": 8, "math": 11}
    more = tmp_path / "more.csv"
    code, _, err = command("suggest", tmp_path / "again", *tables, "--labels", file, "--out", more)
    assert code == 0, err
    rest = set(range(2, ROWS, 3)) - set(suggested.id)
    assert set(pd.read_csv(more).id) == rest


def test_only_force_replaces_the_model_of_another_training(command, model, tables):
    again = ("--unknown", "NA", "--out", model, "--seed", 1)
    code, _, err = command("train", *tables, *ROLES, *FAST, *again)
    assert code == 2
    assert "contains a model of another training, with other data or options" in err
    assert linkdist.load_model(model).about["seed"] == 0
    code, _, err = command("train", *tables, *ROLES, *FAST, *again, "--force")
    assert code == 0, err
    assert linkdist.load_model(model).about["seed"] == 1
