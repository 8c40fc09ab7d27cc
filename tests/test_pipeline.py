"""Oracles: features encoded and links looked up by hand, `from_features` and `with_links` on them;
directories and folders as they were before; Arrow's own readers."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch

from linkdist import fit, from_features, pipeline, prediction, with_links
from linkdist import updating as update_module
from linkdist.artifacts import manifest, onnx
from linkdist.artifacts.manifest import CURVE, FILES, FORMAT
from linkdist.artifacts.model_dir import Saved, load_model, save_model
from linkdist.artifacts.onnx_graph.inputs import column_inputs
from linkdist.data import datasets
from linkdist.data.splits import held_out
from linkdist.errors import OptionError
from linkdist.nn.aggregation import Neighbours
from linkdist.pipeline import GraphSource, Options, Tables
from linkdist.progress import Callback
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.text_encoders import HashedText
from linkdist.training.checkpoint import Checkpoint

PAPERS = Path(__file__).parents[1] / "examples" / "papers"
OLD, ALL = 240, 300
CLASSES = ("biology", "economics", "history", "physics")
COLUMNS = ["paper", "label", "confidence", *(f"p_{name}" for name in CLASSES)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch):
    for name in ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # Typer puts its own there


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def written(path, rows):
    """Rows as CSV or, with the numbers as numbers, as Parquet."""
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        columns = {name: [row[name] or None for row in rows] for name in rows[0]}
        if "year" in columns:
            columns["year"] = [year and int(year) for year in columns["year"]]
        pyarrow.parquet.write_table(pa.table(columns), path)
        return path
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def papers():
    """The first papers, then some more with those that they cite; links lead backwards."""
    nodes, links = read(PAPERS / "nodes.csv")[:ALL], read(PAPERS / "links.csv")
    place = {row["paper"]: i for i, row in enumerate(nodes)}
    links = [link for link in links if link["from"] in place]
    old = [link for link in links if place[link["from"]] < OLD]
    new = [link for link in links if place[link["from"]] >= OLD]
    cited = {link["to"] for link in new}
    arrived = [row for row in nodes[:OLD] if row["paper"] in cited] + nodes[OLD:]
    return {"nodes": nodes[:OLD], "links": old, "new_nodes": arrived, "new_links": new}


@pytest.fixture(scope="module")
def folder(papers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    for name, rows in papers.items():
        written(folder / f"{name}.csv", rows)
        written(folder / f"{name}.parquet", rows)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    """Trained on the old papers; not to be written to."""
    tables = Tables(folder / "nodes.csv", folder / "links.csv", "paper", "field")
    pipeline.train(tables, folder / "model", Options(epochs=2, device="cpu"))
    return folder / "model"


@pytest.fixture
def own(model, tmp_path):
    """A copy of the model."""
    return shutil.copytree(model, tmp_path / "model")


def training(folder, kind="csv"):
    tables = ["--nodes", folder / f"nodes.{kind}", "--edges", folder / f"links.{kind}"]
    return ["train", *tables, "--id", "paper", "--label", "field", "--epochs", 2, "--device", "cpu"]


def updating(model, folder):
    tables = ["--nodes", folder / "new_nodes.csv", "--edges", folder / "new_links.csv"]
    return ["update", model, *tables, "--epochs", 1, "--device", "cpu"]


def content(folder):
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights(model):
    return load_model(model).model.network.state_dict()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def encoded(model, rows):
    """Features of rows, without the tables module."""
    kinds = {"title": pa.string(), "venue": pa.string(), "year": pa.float64()}
    columns = {
        name: pa.array([float(row[name]) if name == "year" and row[name] else row[name] or None
                        for row in rows], kind)
        for name, kind in kinds.items()
    }  # fmt: skip
    return load_model(model).encoders.transform(pa.record_batch(columns))


def predictions(path):
    """Names of columns, ids, labels, confidences and probabilities of a table."""
    parquet = path.suffix == ".parquet"
    table = pyarrow.parquet.read_table(path) if parquet else pyarrow.csv.read_csv(path)
    ids, labels, confidence, *p = (column.to_pylist() for column in table.columns)
    return table.column_names, ids, labels, np.array(confidence), np.array(p).T


def check_predictions(path, rows, expected):
    names, ids, labels, confidence, p = predictions(path)
    assert names == COLUMNS
    assert ids == [row["paper"] for row in rows]
    np.testing.assert_allclose(p, expected, atol=1e-6)
    assert labels == [CLASSES[i] for i in expected.argmax(axis=1)]
    np.testing.assert_array_equal(confidence, p.max(axis=1))


# Training.


def test_training_leaves_a_whole_directory_and_nothing_beside_it(command, folder, tmp_path):
    out, told = tmp_path / "models" / "papers", tmp_path / "about.json"
    code, printed, shown = command(*training(folder), "--out", out, "--json", told)
    assert code == 0
    assert {path.name for path in out.iterdir()} == set(FILES) - {CURVE}
    assert {path.name for path in tmp_path.iterdir()} == {"models", "about.json"}
    assert [path.name for path in out.parent.iterdir()] == ["papers"]
    assert str(out) in printed
    assert "this model, from features" in printed
    assert re.search(r"^venue +categorical +0 % ", shown, re.MULTILINE)
    assert re.search(r"^title +text +0 % ", shown, re.MULTILINE)
    assert re.search(r"\d+ links from \d+ rows; duplicates merged: \d+\.", shown)
    saved = load_model(out)
    assert saved.model.classes == CLASSES
    assert saved.encoders.names == ("title", "venue", "year")
    assert json.loads(told.read_text()) == saved.about
    assert saved.about["id"] == "paper"
    assert saved.about["data"]["nodes"] == OLD
    assert saved.about["scores"].keys() >= {"accuracy from features", "accuracy with links"}


def test_training_is_selflinkdist_unless_asked_otherwise(command, folder, model, tmp_path):
    """And the paper's method keeps the first of equally good epochs."""
    assert Options().method == "selflinkdist"
    out = tmp_path / "model"
    assert command(*training(folder), "--out", out, "--method", "colinkdist")[0] == 0
    itself, paper = load_model(model).about, load_model(out).about
    assert [itself["method"], paper["method"]] == ["selflinkdist", "colinkdist"]
    assert itself["estimates"]["by"] == "folds"
    assert len(paper["confusion"]) == len(CLASSES)
    assert "estimates" not in paper


def test_training_prints_estimates_and_what_follows_from_them(command, folder, tmp_path):
    code, printed, _ = command(*training(folder), "--out", tmp_path / "model")
    assert code == 0
    estimates = load_model(tmp_path / "model").about["estimates"]
    for score in (*estimates["new_rows"], *estimates["known_rows"], *estimates["baselines"]):
        assert score["name"] in printed
        assert f"{100 * score['value']:.1f}" in printed
        assert score["low"] <= score["value"] <= score["high"]
    for sentence in estimates["verdict"]:
        assert sentence in printed
    names = {score["name"] for score in estimates["baselines"]}
    wanted = {"largest class", "logistic regression on features", "label spreading", "CoLinkDist"}
    assert names >= wanted


def test_a_budget_is_kept_to(command, folder, tmp_path):
    arguments = [a for a in training(folder) if a not in ("--epochs", 2)]
    code, _, _ = command(*arguments, "--out", tmp_path / "model", "--budget", "0.001s")
    assert code == 0
    assert load_model(tmp_path / "model").about["epochs"] == 1
    code, _, shown = command(*arguments, "--out", tmp_path / "model", "--budget", "soon")
    assert code == 2
    assert "such as 60s" in shown


def test_the_same_table_in_csv_and_parquet_is_the_same_training(command, folder, model, tmp_path):
    assert command(*training(folder, "parquet"), "--out", tmp_path / "model")[0] == 0
    assert same(weights(tmp_path / "model"), weights(model))


def test_another_seed_is_another_training_and_replaces_the_model_with_force(command, folder, own):
    before = weights(own)
    other = (*training(folder), "--out", own, "--seed", 1, "--replicas", 2)
    code, _, shown = command(*other)
    assert code == 2
    assert "contains a model of another training" in shown
    assert same(weights(own), before)
    assert command(*other, "--force")[0] == 0
    assert load_model(own).model.alpha.shape == (2, 1)
    assert not same(weights(own), before)
    assert [path.name for path in own.parent.iterdir()] == ["model"]


def test_kinds_and_features_have_the_last_word(command, folder, tmp_path):
    out = tmp_path / "model"
    asked = ["--features", "year,venue", "--kinds", "year = categorical, title=text"]
    code, _, shown = command(*training(folder), "--out", out, *asked)
    assert code == 0
    columns = {column.name: column.kind for column in load_model(out).encoders.columns}
    assert columns == {"year": "categorical", "venue": "categorical", "title": "text"}
    assert re.search(r"^year +categorical .* as requested$", shown, re.MULTILINE)


def test_without_held_out_labels_there_are_no_scores(command, folder, tmp_path):
    out = tmp_path / "model"
    code, printed, _ = command(*training(folder), "--out", out, "--held-out", 0)
    assert code == 0
    assert "accuracy" not in printed
    assert "scores" not in load_model(out).about


def test_strict_tells_of_every_duplicate(command, folder, papers, tmp_path):
    seen, again = set(), []
    for row, link in enumerate(papers["links"], start=1):
        pair = frozenset(link.values())
        if pair in seen:
            again.append((row, list(link.values())))
        seen.add(pair)
    code, _, shown = command(*training(folder), "--out", tmp_path / "model", "--strict")
    assert code == 2
    assert f"row {again[0][0]} has {again[0][1]}" in shown
    assert f"{len(again)} in total" in shown
    assert not list(tmp_path.iterdir())


# Prediction.


def test_prediction_from_features(command, model, folder, papers, tmp_path):
    out = tmp_path / "predictions.csv"
    code, printed, _ = command("predict", model, folder / "new_nodes.csv", "--out", out)
    rows = papers["new_nodes"]
    assert (code, printed) == (0, f"{len(rows)} nodes predicted: {out}\n")
    check_predictions(out, rows, from_features(load_model(model).model, encoded(model, rows)))
    assert list(tmp_path.iterdir()) == [out]


def test_prediction_with_links(command, model, folder, papers, tmp_path):
    out, rows = tmp_path / "predictions.parquet", papers["new_nodes"]
    edges = folder / "new_links.csv"
    nodes = folder / "new_nodes.csv"
    assert command("predict", model, nodes, "--edges", edges, "--out", out)[0] == 0
    place = {row["paper"]: i for i, row in enumerate(rows)}
    links = np.array([[place[link["from"]], place[link["to"]]] for link in papers["new_links"]])
    x = encoded(model, rows)
    expected = with_links(load_model(model).model, x, links)
    check_predictions(out, rows, expected)
    assert np.abs(expected - from_features(load_model(model).model, x)).max() > 0.01


@pytest.mark.parametrize("to", ["parquet", "csv", "tsv"])
@pytest.mark.parametrize("of", ["parquet", "csv"])
def test_every_form_gives_the_same_predictions(command, model, folder, papers, tmp_path, of, to):
    out = tmp_path / f"predictions.{to}"
    links = ["--edges", folder / f"new_links.{of}"]
    assert command("predict", model, folder / f"new_nodes.{of}", "--out", out, *links)[0] == 0
    if to == "tsv":
        out = out.rename(tmp_path / "commas.csv")
        out.write_text(out.read_text().replace("\t", ","))
    first = tmp_path / "first.parquet"
    links = ["--edges", folder / "new_links.csv"]
    command("predict", model, folder / "new_nodes.csv", "--out", first, *links)
    check_predictions(out, papers["new_nodes"], predictions(first)[-1])


def test_ids_keep_their_type_and_order(command, model, papers, tmp_path):
    rows = papers["new_nodes"]
    numbers = {row["paper"]: 7 * i % 1009 for i, row in enumerate(rows)}
    table = pa.table(
        {
            "field": [row["field"] for row in rows],
            "year": [row["year"] for row in rows],
            "paper": pa.array(numbers.values(), pa.int32()),
            "title": [row["title"] for row in rows],
            "venue": [row["venue"] for row in rows],
        }
    )
    nodes, out = tmp_path / "nodes.parquet", tmp_path / "predictions.parquet"
    pyarrow.parquet.write_table(table, nodes)
    links = [{end: numbers[link[end]] for end in link} for link in papers["new_links"]]
    edges = written(tmp_path / "links.csv", links)
    assert command("predict", model, nodes, "--edges", edges, "--out", out)[0] == 0
    found = pyarrow.parquet.read_table(out)["paper"]
    assert found.type == pa.int32()
    assert found.to_pylist() == list(numbers.values())


def test_a_prediction_tells_how_far_it_is(model, folder, papers, tmp_path):
    told = []

    class Ear(Callback):
        def stage(self, name):
            told.append(name)

        def progress(self, done, total):
            told.append((done, total))

    n = len(papers["new_nodes"])
    tables = folder / "new_nodes.parquet", tmp_path / "predictions.csv"
    assert prediction.predict(model, *tables, callback=Ear()) == n
    assert told == ["predicting", (n, n)]


def left_by_a_kill(path):
    """A half-written file, under the name that it has until it is whole."""
    aside = path.with_name(f".{path.name}.{'0123456789abcdef' * 2}")
    aside.write_bytes(b"half of")
    return aside


def test_a_prediction_takes_away_what_a_killed_one_left(command, model, folder, tmp_path):
    out = tmp_path / "predictions.csv"
    left_by_a_kill(out)
    assert command("predict", model, folder / "nodes.csv", "--out", out)[0] == 0
    assert list(tmp_path.iterdir()) == [out]


def test_a_training_takes_away_what_a_killed_one_left(command, folder, tmp_path):
    out = tmp_path / "model"
    left_by_a_kill(tmp_path / ".model.training")
    assert command(*training(folder), "--out", out)[0] == 0
    assert list(tmp_path.iterdir()) == [out]


# Updates.


def test_an_update_leaves_the_old_model_alone(command, own, folder, papers):
    before, old = content(own), weights(own)
    code, printed, shown = command(*updating(own, folder))
    new = own.with_name("model-updated")
    assert (code, printed) == (0, f"Model: {new}\n")
    assert f"{len(papers['new_links'])} rows" in shown
    assert content(own) == before
    assert {path.name for path in own.parent.iterdir()} == {"model", "model-updated"}
    found = weights(new)
    assert {name for name in old if torch.equal(old[name], found[name])} == set()
    saved = load_model(new)
    assert [added["nodes"] for added in saved.about["updates"]] == [len(papers["new_nodes"])]
    assert saved.encoders.state() == load_model(own).encoders.state()


def test_the_old_directory_undoes_an_update(command, own, folder, tmp_path):
    def predicted(model):
        out = tmp_path / "predictions.csv"
        assert command("predict", model, folder / "nodes.csv", "--out", out)[0] == 0
        return out.read_text()

    before = predicted(own)
    command(*updating(own, folder))
    assert predicted(own.with_name("model-updated")) != before
    assert predicted(own) == before


def test_an_update_reads_the_model_once(command, own, folder, monkeypatch):
    """The command once read and hashed all files to find the columns, and then again."""
    reads = []
    real = manifest.read_directory
    monkeypatch.setattr(manifest, "read_directory", lambda *args: reads.append(args) or real(*args))
    code, _, _ = command(*updating(own, folder))
    assert (code, len(reads)) == (0, 1)


def test_an_update_can_replace_the_model(command, own, folder, monkeypatch):
    old = weights(own)
    monkeypatch.chdir(own)
    assert command(*updating(Path(), folder))[0] == 0
    fresh = weights(own.with_name("model-updated"))
    monkeypatch.chdir(own.parent)
    assert command(*updating(own, folder), "--out", own)[0] == 0
    assert not same(weights(own), old)
    assert same(weights(own), fresh)
    assert {path.name for path in own.parent.iterdir()} == {"model", "model-updated"}


def test_memory_stays_bounded_while_counts_grow(command, own, folder, papers, monkeypatch):
    model_update = partial(update_module.update_model, limit=40)
    monkeypatch.setattr(update_module, "update_model", model_update)
    nodes = OLD
    for times in (1, 2):
        assert command(*updating(own, folder), "--out", own)[0] == 0
        kept = load_model(own).replay
        nodes += len(papers["new_nodes"])
        assert len(kept["links"]) == 40
        assert len(kept["labels"]) <= 80
        assert kept["counts"][0] == nodes
        assert len(load_model(own).about["updates"]) == times


def test_an_update_takes_no_new_classes(command, own, folder, papers, tmp_path):
    rows = [dict(row) for row in papers["new_nodes"]]
    rows[3]["field"] = rows[5]["field"] = "astrology"
    rows[4]["field"] = "alchemy"
    nodes = written(tmp_path / "nodes.csv", rows)
    before = content(tmp_path)
    code, printed, shown = command(*updating(own, folder), "--nodes", nodes)
    assert (code, printed) == (2, "")
    assert "'alchemy' (1 rows), 'astrology' (2 rows)" in shown
    assert "Leave these labels empty, or train a new model on all data" in shown
    assert content(tmp_path) == before


def test_what_an_update_needs_must_be_there(command, own, folder, tmp_path):
    saved = load_model(own)
    save_model(tmp_path / "forgetful", replace(saved, replay=None))
    save_model(tmp_path / "plain", Saved(saved.model))
    before = content(tmp_path)
    code, _, shown = command(*updating(tmp_path / "forgetful", folder))
    assert code == 2
    assert "has no replay buffer" in shown
    code, _, shown = command(*updating(tmp_path / "plain", folder))
    assert code == 2
    assert "was not trained on a table" in shown
    out = tmp_path / "predictions.csv"
    code, _, shown = command("predict", tmp_path / "plain", folder / "nodes.csv", "--out", out)
    assert code == 2
    assert "was not trained on a table" in shown
    assert content(tmp_path) == before


# Export.


@pytest.mark.parametrize("options", [[], ["--with-neighbour-head"], ["--features-only"]])
@pytest.mark.parametrize("rows", [None, "new_nodes.csv"])
def test_export_prints_the_difference(command, model, folder, papers, tmp_path, options, rows):
    runtime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    named = [] if rows is None else ["--rows", folder / rows]
    code, printed, _ = command("export", model, out, *options, *named)
    files = (
        [out, tmp_path / "model.neighbours.onnx"] if "--with-neighbour-head" in options else [out]
    )
    assert code == 0
    assert sorted(tmp_path.iterdir()) == sorted(files)
    for path, line in zip(files, printed.splitlines(), strict=True):
        found = re.fullmatch(rf"{path}: largest difference to the model on (\d+) rows (\S+)", line)
        assert int(found[1]) == (OLD if rows is None else len(papers["new_nodes"]))
        assert float(found[2]) <= 1e-4
    session = runtime.InferenceSession(out, providers=["CPUExecutionProvider"])
    nodes = papers["new_nodes"]
    x = encoded(model, nodes)
    if "--features-only" in options:
        inputs = {"features": x.toarray()}
    else:
        inputs = column_inputs(load_model(model).encoders, pa.RecordBatch.from_pylist(nodes))
    p, *_ = session.run(["probabilities"], inputs)
    np.testing.assert_allclose(p, from_features(load_model(model).model, x), atol=1e-4)


def test_export_says_which_columns_cannot_be_inputs(command, model, tmp_path):
    """A model of an older version has hashed words."""
    runtime = pytest.importorskip("onnxruntime")
    saved = load_model(model)
    hashed = HashedText("title", 2, [1] * saved.encoders.columns[0].width)
    older = replace(saved, encoders=FeatureEncoder([hashed, *saved.encoders.columns[1:]]))
    save_model(tmp_path / "older", older)
    out = tmp_path / "model.onnx"
    code, printed, _ = command("export", tmp_path / "older", out, "--with-neighbour-head")
    assert code == 0
    reason, difference = printed.splitlines()
    assert reason == (
        "The input is `features`, because columns cannot be inputs: column 'title' has hashed "
        "words, as in older models; train again for a vocabulary."
    )
    assert difference.startswith(f"{out}: largest difference to the model on {OLD} rows")
    session = runtime.InferenceSession(out, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["features"]
    assert len(session.get_outputs()) == 3


def test_a_file_that_differs_is_not_left(command, model, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnx, "TOLERANCE", -1.0)
    code, printed, shown = command("export", model, tmp_path / "model.onnx")
    assert (code, printed) == (2, "")
    assert "differ from the model's by up to" in shown
    assert not list(tmp_path.iterdir())


# Options.


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "found no --nodes, --edges, --id, --label, --out"),
        (["--id", "paper"], "train needs your own tables"),
        (["--nodes", "nodes.csv"], "found no --edges, --id, --label, --out"),
        (["--edges", "links.csv", "--out", "model"], "found no --nodes, --id, --label"),
        (["digits", "--nodes", "nodes.csv"], "use 'linkdist benchmark digits'."),
        (["digits", "--out", "model"], "use 'linkdist benchmark digits'."),
        (["digits", "--resume"], "use 'linkdist benchmark digits'."),
    ],
)
def test_training_says_which_options_it_needs(command, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    code, printed, shown = command("train", *args)
    assert (code, printed) == (2, "")
    assert words in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--kinds", "year"], "--kinds takes COLUMN=KIND, comma-separated; found year"),
        (["--kinds", "year=number"], "unknown kind 'number' (near: numeric)"),
        (["--kinds", "years=numeric"], "unknown column 'years' (near: year)"),
        (["--kinds", "field=text"], "'field' contains ids or labels and cannot be a feature"),
        (["--features", "titel"], "unknown column 'titel' (near: title"),
        (["--id", "papers"], "unknown column 'papers' (near: paper)"),
        (["--label", "fields"], "unknown column 'fields' (near: field)"),
        (["--source", "form"], "unknown column 'form' (near: from)"),
        (["--source", "to", "--target", "to"], "links need two columns of ids"),
        (["--method", "distlink"], "unknown method 'distlink'"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--epochs", 0], "epochs must be 1 or more; found 0"),
        (["--held-out", 1], "held_out must be from 0 to below 1; found 1.0"),
        (["--held-out", "nan"], "held_out must be from 0 to below 1; found nan"),
    ],
)
def test_an_option_out_of_range_is_told(command, folder, tmp_path, args, words):
    code, printed, shown = command(*training(folder), "--out", tmp_path / "model", *args)
    assert (code, printed) == (2, "")
    assert words in shown
    assert not list(tmp_path.iterdir())


def test_an_update_of_no_epochs_is_refused(command, own, folder):
    code, _, shown = command(*updating(own, folder), "--epochs", 0)
    assert code == 2
    assert "epochs must be 1 or more; found 0" in shown
    assert [path.name for path in own.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("out", ["thesis", "thesis/notes.txt", "thesis/notes.txt/model"])
def test_nothing_but_a_model_is_replaced(command, folder, tmp_path, out):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "notes.txt").write_text("years of work")
    code, printed, _ = command(*training(folder), "--out", tmp_path / out)
    assert (code, printed) == (2, "")
    assert content(tmp_path) == {tmp_path / "thesis" / "notes.txt": b"years of work"}


# Bad input: one message, nothing left.

NODES = """\
paper,year,venue,field
P1,1990,letters,physics
P2,1991,annals,history
P3,1992,letters,
P4,1993,annals,
P5,1994,letters,physics
P6,1995,annals,history
"""
LINKS = "from,to\nP1,P3\nP2,P4\nP5,P3\nP6,P4\n"


def changed(*pairs):
    """The good table with words replaced."""
    text = NODES
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def parquet(**columns):
    buffer = io.BytesIO()
    good = {name: [row[name] for row in csv.DictReader(NODES.splitlines())] for name in
            ("paper", "field")}  # fmt: skip
    pyarrow.parquet.write_table(pa.table({**good, **columns}), buffer)
    return buffer.getvalue()


YEARS = [1990.0, 1991.0, float("-inf"), None, 1994.0, 1995.0]
PLACES = [[0.0, 1.0], [1.0, 1.0], [float("nan"), 1.0], None, [2.0], [1.0, 3.0]]
TRAIN = {
    "no label": (
        {"nodes.csv": changed(("physics", ""), ("history", ""))},
        ["nodes.csv: column 'field' contains no labels; training needs some."],
    ),
    "one class": (
        {"nodes.csv": changed(("history", "physics"))},
        ["column 'field' must contain labels of two classes or more; all are 'physics'."],
    ),
    "infinite": (
        {"nodes.csv": changed(("1993", "inf"), ("1995", "-1e999"))},
        ["column 'year' must contain finite numbers; row 4 has 'inf', row 6 has '-1e999'."],
    ),
    "infinite in Parquet": (
        {"nodes.parquet": parquet(year=YEARS)},
        ["column 'year' must contain finite numbers; row 3 has -inf."],
    ),
    "vectors": (
        {"nodes.parquet": parquet(place=PLACES)},
        ["column 'place' must contain vectors of length 2; row 5 has [2.0].",
         "column 'place' must contain vectors of finite numbers; row 3 has nan."],
    ),
    "text for numbers": (
        {"nodes.csv": changed(("1992", "long ago"))},
        ["column 'year' must contain numbers; row 3 has 'long ago'."],
        "--kinds", "year=numeric",
    ),
    "words for vectors": (
        {"nodes.csv": NODES},
        ["column 'venue' must contain lists of numbers (CSV cannot store any); "
         "row 1 has 'letters',"],
        "--kinds", "venue=vector",
    ),
    "links of no node": (
        {"links.csv": "from,to\nQ1,P3\nP2,Q4\n"},
        ["links.csv: columns 'from' and 'to' must contain ids of the node table, "
         "but no row contains two of them; row 1 has 'Q1', row 2 has 'Q4'."],
    ),
    "some links of no node": (
        {"links.csv": LINKS + "P3,P1\nP1,Q7\n,P1\nP2,P2\n"},
        ["links must connect nodes of the node table; row 6 has 'Q7', row 7 is empty.",
         "links must be listed once, in one direction; row 5 has ['P3', 'P1'].",
         "links must connect two different nodes; row 8 has ['P2', 'P2']."],
        "--strict",
    ),
    "duplicate ids": (
        {"nodes.csv": changed(("P6", "P1"), ("P4", ""))},
        ["column 'paper' must contain an id in each row; row 4 is empty.",
         "column 'paper' contains duplicate ids: 'P1' in rows 1 and 6."],
    ),
    "an empty node file": ({"nodes.csv": ""}, ["nodes.csv is empty."]),
    "a header alone": ({"nodes.csv": "paper,year,field\n"}, ["nodes.csv", "no rows"]),
    "an empty link file": ({"links.csv": " \n"}, ["links.csv is empty."]),
    "no links": ({"links.csv": "from,to\n"}, ["links.csv", "no rows"]),
    "one column of links": ({"links.csv": "from\nP1\n"}, ["links need two columns of ids"]),
    "Parquet named CSV": (
        {"nodes.csv": parquet()}, ["nodes.csv is named .csv, but contains Parquet"]
    ),
    "CSV named Parquet": ({"nodes.parquet": NODES}, ["named .parquet, but contains text"]),
    "an archive named CSV": (
        {"links.csv": b"PK\x03\x04\0\0\0\0"}, ["links.csv is named .csv, but contains neither"]
    ),
    "a cut-off Parquet file": ({"nodes.parquet": parquet()[:-9]}, ["nodes.parquet is damaged"]),
    "Latin-1": (
        {"nodes.csv": changed(("annals", "Säule")).encode("latin-1")}, ["must be text in UTF-8"]
    ),
    "a row too short": (
        {"nodes.csv": changed(("P3,1992,letters,", "P3,1992"))},
        ["rows must have 4 values, like the header; row 3 has 'P3,1992'."],
    ),
    "a column twice": (
        {"nodes.csv": changed(("venue", "year"))}, ["contains duplicate column names: 'year'"]
    ),
    "no such file": ({"nodes.csv": None}, ["nodes.csv cannot be read: No such file"]),
    "much at once": (
        {"nodes.csv": changed(("P2", "P1"), ("1993", "inf"), ("1992", "then"), ("history", ""))},
        ["column 'year' must contain numbers; row 3 has 'then'.",
         "column 'year' must contain finite numbers; row 4 has 'inf'.",
         "column 'paper' contains duplicate ids: 'P1' in rows 1 and 2.",
         "column 'field' must contain labels of two classes or more; all are 'physics'.",
         "unknown column 'genre'"],
        "--kinds", "year=numeric,genre=text",
    ),
}  # fmt: skip


def put(folder, files):
    """The good tables, some of them in another form."""
    kinds = {path.partition(".")[0]: path for path in files}
    for path, text in {"nodes.csv": NODES, "links.csv": LINKS, **files}.items():
        if text is not None and (path in files or path.partition(".")[0] not in kinds):
            data = text.encode() if isinstance(text, str) else text
            (folder / path).write_bytes(data)
    return [folder / kinds.get(name, f"{name}.csv") for name in ("nodes", "links")]


def refused(found, words, folder, before):
    """One message on standard error with all these words; the folder is as it was."""
    code, printed, shown = found
    assert (code, printed) == (2, "")
    assert shown.count("linkdist: ") == 1
    message = shown[shown.index("linkdist: ") :]
    assert message.count("\n") == 1
    assert "Traceback" not in shown
    assert [part for part in words if part not in message] == []
    assert content(folder) == before


@pytest.mark.parametrize("case", TRAIN)
def test_bad_tables_are_refused_in_training(command, tmp_path, case):
    files, words, *options = TRAIN[case]
    nodes, edges = put(tmp_path, files)
    before = content(tmp_path)
    args = ["--nodes", nodes, "--edges", edges, "--id", "paper", "--label", "field", *options]
    refused(command("train", *args, "--out", tmp_path / "model"), words, tmp_path, before)
    assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A model of the good tables."""
    folder = tmp_path_factory.mktemp("small")
    nodes, edges = put(folder, {})
    kinds = {"year": "numeric"}
    tables = Tables(nodes, edges, "paper", "field", kinds=kinds)
    pipeline.train(tables, folder / "model", Options(epochs=2, device="cpu"))
    return folder / "model"


PREDICT = {
    "a column is missing": (
        {"nodes.csv": "paper,year\nP1,1990\n"},
        ["nodes.csv: unknown column 'venue'; choose from paper, year."],
    ),
    "all columns are missing": (
        {"nodes.csv": "name\nP1\n"}, ["unknown column 'paper', 'year', 'venue'; choose from name."]
    ),
    "infinite, and text": (
        {"nodes.csv": changed(("1993", "inf"), ("1995", "soon"))},
        ["column 'year' must contain numbers; row 6 has 'soon'.",
         "column 'year' must contain finite numbers; row 4 has 'inf'."],
    ),
    "links of no node": (
        {"links.csv": "from,to\nQ1,P3\n"}, ["no row contains two of them; row 1 has 'Q1'"]
    ),
    "empty": ({"nodes.csv": ""}, ["nodes.csv is empty."]),
    "a header alone": ({"nodes.csv": "paper,year,venue\n"}, ["nodes.csv", "no rows"]),
    "CSV named Parquet": ({"nodes.parquet": NODES}, ["named .parquet, but contains text"]),
}  # fmt: skip


@pytest.mark.parametrize("case", PREDICT)
def test_bad_tables_are_refused_in_prediction(command, small, tmp_path, case):
    files, words = PREDICT[case]
    nodes, edges = put(tmp_path, files)
    (tmp_path / "predictions.csv").write_text("the old ones")
    before = content(tmp_path)
    found = command(
        "predict", small, nodes, "--edges", edges, "--out", tmp_path / "predictions.csv"
    )
    refused(found, words, tmp_path, before)
    found = command(*updating(small, tmp_path), "--nodes", nodes, "--edges", edges)
    refused(found, [], tmp_path, before)
    if "links.csv" not in files:
        found = command("export", small, tmp_path / "model.onnx", "--rows", nodes)
        refused(found, words, tmp_path, before)


def test_duplicate_ids_are_refused_where_links_name_them(command, small, tmp_path):
    nodes, edges = put(tmp_path, {"nodes.csv": changed(("P6", "P1"))})
    before = content(tmp_path)
    found = command("predict", small, nodes, "--edges", edges, "--out", tmp_path / "new.csv")
    refused(found, ["'P1' in rows 1 and 6"], tmp_path, before)


def test_a_problem_far_down_leaves_no_half_of_a_file(command, small, tmp_path):
    rows = [f"P{i},{1900 + i % 100},letters" for i in range(11_000)]
    for row in range(8192, 11_000):  # more than a tenth, after two good batches
        rows[row] = f"P{row},{'inf' if row % 2 else 'never'},letters"
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("\n".join(["paper,year,venue", *rows]))
    (tmp_path / "predictions.parquet").write_bytes(b"the old ones")
    before = content(tmp_path)
    found = command("predict", small, nodes, "--out", tmp_path / "predictions.parquet")
    words = ["row 8193 has 'never'", "row 8194 has 'inf'", "1404 in total"]
    refused(found, words, tmp_path, before)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("predictions.xlsx", "the suffix is not that of a table"),
        ("nowhere/predictions.csv", "cannot be written: No such file"),
        ("folder.csv", "cannot be written: Is a directory"),
    ],
)
def test_predictions_go_where_they_can(command, small, tmp_path, out, words):
    nodes, _ = put(tmp_path, {})
    (tmp_path / "folder.csv").mkdir()
    before = content(tmp_path)
    refused(command("predict", small, nodes, "--out", tmp_path / out), [words], tmp_path, before)


def newer(model):
    path = model / "model.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 99', 1))


def tampered(model):
    path = model / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def cut_off(model):
    path = model / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def without_weights(model):
    (model / "weights.safetensors").unlink()


def other_classes(model):
    path = model / "model.json"
    path.write_text(path.read_text().replace('["history", "physics"]', '["history"]'))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (newer, ["has format 99", f"{FORMAT}. Upgrade it: pip install --upgrade linkdist"]),
        (tampered, ["weights.safetensors is not the file that was saved"]),
        (cut_off, ["weights.safetensors is not the file that was saved"]),
        (without_weights, ["weights.safetensors is missing"]),
        (other_classes, ["there are 1 names for 2 classes"]),
        (shutil.rmtree, ["there is no directory"]),
    ],
)
def test_a_model_that_is_not_what_was_saved_is_refused(command, small, tmp_path, harm, words):
    model = shutil.copytree(small, tmp_path / "model")
    harm(model)
    nodes, edges = put(tmp_path, {})
    before = content(tmp_path)
    commands = [
        ["predict", model, nodes, "--out", tmp_path / "predictions.csv"],
        ["update", model, "--nodes", nodes, "--edges", edges],
        ["export", model, tmp_path / "model.onnx"],
    ]
    for args in commands:
        refused(command(*args), words, tmp_path, before)


@pytest.mark.parametrize("part", ["compute_metrics", "render_report", "with_onnx"])
def test_a_report_that_fails_leaves_a_model_and_a_warning(folder, tmp_path, monkeypatch, part):
    """An exception in t-SNE or ONNX once ended the training before the model was saved."""

    def fail(*_, **__):
        raise ZeroDivisionError("a drawing of nothing")

    said = []
    callback = Callback()
    callback.note = said.append
    monkeypatch.setattr(pipeline, part, fail)
    tables = Tables(folder / "nodes.csv", folder / "links.csv", "paper", "field")
    pipeline.train(tables, tmp_path / "model", Options(epochs=1, held_out=0), callback=callback)
    assert any(re.search("the model is saved.*a drawing of nothing", text) for text in said)
    assert load_model(tmp_path / "model").model.classes


def test_everything_is_prepared_once(folder, tmp_path, monkeypatch):
    """Features and neighbours were once prepared twice, and the checkpoint was loaded twice."""
    counts = Counter()

    def counted(name, real):
        def call(*args, **options):
            counts[name] += 1
            return real(*args, **options)

        return call

    nodes = len((folder / "nodes.csv").read_text().splitlines()) - 1
    for name, module in list(sys.modules.items()):
        if name.startswith("linkdist.") and getattr(module, "make_inputs", None):
            real = module.make_inputs
            monkeypatch.setattr(
                module,
                "make_inputs",
                lambda x, device, real=real: (
                    counts.update(["inputs"] * (x.shape[0] == nodes)) or real(x, device)
                ),
            )
    monkeypatch.setattr(Neighbours, "__init__", counted("neighbours", Neighbours.__init__))
    monkeypatch.setattr(Checkpoint, "load", counted("checkpoint", Checkpoint.load))
    tables = Tables(folder / "nodes.csv", folder / "links.csv", "paper", "field")
    for method in ("selflinkdist", "colinkdist"):
        counts.clear()
        options = Options(method, epochs=1, held_out=0.1)
        pipeline.train(tables, tmp_path / method, options, resume=True)
        assert counts == {"inputs": 1, "neighbours": 1, "checkpoint": 1}


def test_a_graph_in_memory_goes_the_same_way(tmp_path):
    graph = datasets.load_dataset("digits")
    saved = pipeline.train(GraphSource(graph), tmp_path / "model", Options("colinkdist", epochs=1))
    split = held_out(graph.labels, 0.1, seed=0)
    alone = fit(graph, split, method="colinkdist", epochs=1)
    np.testing.assert_array_equal(
        from_features(load_model(tmp_path / "model").model, graph.features),
        from_features(alone.model, graph.features),
    )
    assert saved.about["scores"]["validation nodes"] == len(split.validation)
    assert saved.about["data"]["links"] == f"{len(graph.links)} links"
    assert {path.name for path in (tmp_path / "model").iterdir()} >= {"report.html", "model.onnx"}


def test_all_wrong_options_are_reported_together(tmp_path):
    options = Options(epochs=0, held_out=1.0, budget=-1)
    with pytest.raises(OptionError, match=r"epochs must.*held_out must.*budget must"):
        pipeline.train(Tables(Path("a"), Path("b"), "c", "d"), tmp_path / "model", options)
