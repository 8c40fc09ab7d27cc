"""`linkdist.train` on frames and files, and what a trained model does.

Oracles: the weights of the same training from files, the library underneath, scikit-learn.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.metrics import accuracy_score

import linkdist
from linkdist import from_features, with_links
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.progress import Callback

N = 40
FAST = {"method": "linkdist", "epochs": 2, "hidden_size": 8, "device": "cpu", "held_out": 0}


@pytest.fixture(scope="module")
def tables():
    """Nodes with columns of most kinds, a quarter of them without a label, and links."""
    random = np.random.default_rng(0)
    y = np.arange(N) % 2
    nodes = pd.DataFrame(
        {
            "paper": [f"P{i:02d}" for i in range(N)],
            "title": [f"{'an atlas' if i % 2 else 'a graph'} of {i} links" for i in range(N)],
            "genre": np.array(["war|love", "love|pop", "pop", "war"])[np.arange(N) % 4],
            "day": pd.date_range("2004-05-31", periods=N).strftime("%Y-%m-%d"),
            "size": (random.normal(size=N) + y).round(3),
            "field": np.where(np.arange(N) % 4 == 3, None, np.array(["math", "art"])[y]),
        }
    )
    nodes.loc[::7, "size"] = None
    ends = random.integers(0, N, (80, 2))
    return nodes, pd.DataFrame(nodes.paper.to_numpy()[ends], columns=["from", "to"])


def train(nodes, links, **options):
    return linkdist.train(nodes, links, id="paper", label="field", **FAST | options)


@pytest.fixture(scope="module")
def model(tables):
    return train(*tables)


def weights(model):
    return {name: value.tolist() for name, value in model.model.network.state_dict().items()}


# Training.


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_frames_and_files_give_the_same_weights(tables, model, tmp_path, form):
    paths = [tmp_path / f"{name}.{form}" for name in ("nodes", "links")]
    for path, frame in zip(paths, tables, strict=True):
        if form == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        elif form == "parquet":
            frame.to_parquet(path)
        elif form != "arrow":
            frame.to_csv(path, index=False)
    found = train(*(map(pa.Table.from_pandas, tables) if form == "arrow" else paths))
    assert weights(found) == weights(model)
    assert found.encoders.state() == model.encoders.state()


def test_a_model_directory_has_the_same_weights(tables, model, tmp_path):
    found = train(*tables, out=tmp_path / "model", tsne=False)
    assert weights(found) == weights(model)
    assert "<html" in found.report()


def test_a_text_encoder_is_needed_again_after_loading(tables, tmp_path):
    lengths = type("Lengths", (), {"encode": lambda self, texts: [[len(t)] for t in texts]})()
    kinds = {"title": "text"}
    found = train(*tables, text_encoder=lengths, kinds=kinds, features=["title", "size"])
    assert found.encoders.d == 2
    found.save(tmp_path / "model")
    with pytest.raises(ModelError, match="Pass it in Python"):
        linkdist.load_model(tmp_path / "model").predict(tables[0])
    back = linkdist.load_model(tmp_path / "model", text_encoder=lengths)
    assert back.predict(tables[0]).tolist() == found.predict(tables[0]).tolist()


def test_unknown_values_and_a_label_table_are_labels_of_the_node_table(tables, model):
    nodes, links = tables
    renamed = nodes.assign(field=nodes.field.fillna("NA"))
    assert weights(train(renamed, links, unknown=["NA"])) == weights(model)
    labelled = nodes.paper[nodes.field.notna()]
    few = nodes.assign(field=nodes.field.where(nodes.index < 20))
    more = nodes.loc[nodes.paper.isin(labelled), ["field", "paper"]]
    assert weights(train(few, links, labels=more)) == weights(model)


# Use.


def test_predictions_are_those_of_the_library(tables, model):
    nodes, links = tables
    x = model.trained.graph.features
    expected = from_features(model.model, x)
    np.testing.assert_allclose(model.predict_proba(nodes), expected, atol=1e-6)
    place = {name: i for i, name in enumerate(nodes.paper)}
    pairs = np.array([[place[a], place[b]] for a, b in links.itertuples(index=False)])
    with_them = with_links(model.model, x, np.unique(np.sort(pairs, axis=1), axis=0))
    np.testing.assert_allclose(model.predict_proba(nodes, links), with_them, atol=1e-6)
    assert model.predict(nodes).tolist() == [model.classes[i] for i in expected.argmax(1)]
    without = nodes.drop(columns=["paper", "field"])
    assert model.predict(without).tolist() == model.predict(nodes).tolist()


def test_a_saved_model_predicts_the_same(tables, model, tmp_path):
    nodes, links = tables
    model.save(tmp_path / "model")
    back = linkdist.load_model(tmp_path / "model")
    assert back.predict_proba(nodes).tolist() == model.predict_proba(nodes).tolist()
    assert back.predict(nodes, links).tolist() == model.predict(nodes, links).tolist()
    assert back.evaluate(nodes) == model.evaluate(nodes)
    assert back.report() == (tmp_path / "model" / "report.html").read_text()
    with pytest.raises(OptionError, match=r"contains a model; force=True replaces it"):
        model.save(tmp_path / "model")
    back.save(tmp_path / "model", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(OptionError, match=r"holds thesis\.txt"):
        model.save(tmp_path / "other", force=True)


def test_evaluation_is_that_of_scikit_learn(tables, model):
    nodes, links = tables
    known = nodes[nodes.field.notna()]
    found = model.evaluate(nodes)
    assert (found.rows, found.unlabelled) == (30, 10)
    assert found.accuracy == accuracy_score(known.field, model.predict(known))
    expected = accuracy_score(known.field, model.predict(nodes, links)[nodes.field.notna()])
    assert model.evaluate(nodes, links).accuracy == expected
    renamed = nodes.rename(columns={"field": "truth"})
    assert model.evaluate(renamed, label="truth") == found


def test_unseen_and_missing_values_are_reported(tables, model):
    class Notes(Callback):
        def __init__(self):
            self.found = []

        def note(self, text):
            self.found.append(text)

    notes = Notes()
    new = (
        tables[0]
        .head(4)
        .assign(genre=["jazz", "war", None, "war|jazz"], size=[1.0, 2.0, 3.0, None])
    )
    model.evaluate(new, callback=notes)
    assert notes.found == [
        "column 'genre': of 4 values, 1 is missing and 2 are unknown to the model ('jazz').",
        "column 'size': of 4 values, 1 is missing.",
    ]


def test_suggested_rows_have_no_label_and_become_labels(tables, model):
    nodes, links = tables
    found = model.suggest(nodes, links, count=4)
    assert found.column_names == ["paper", "field", "predicted", "confidence"]
    assert found["field"].null_count == found.num_rows == 4
    unlabelled = set(nodes.paper[nodes.field.isna()])
    chosen = found["paper"].to_pylist()
    assert set(chosen) <= unlabelled
    assert found == model.suggest(nodes, links, count=4)
    place = nodes.index[nodes.paper.isin(chosen)]
    p = dict(zip(nodes.paper, model.predict_proba(nodes, links).max(axis=1), strict=True))
    assert found["confidence"].to_pylist() == pytest.approx([p[id] for id in chosen])
    filled = found.set_column(1, "field", pa.array(["math"] * 4))
    expected = nodes.assign(field=nodes.field.where(~nodes.index.isin(place), "math"))
    again = train(nodes, links, labels=filled)
    assert weights(again) == weights(train(expected, links))
    rest = again.suggest(nodes, links, count=20, labels=filled)["paper"].to_pylist()
    assert set(rest) == unlabelled - set(chosen)


def test_the_report_and_the_card_escape_names(tables, tmp_path):
    nodes, links = tables
    evil = nodes.assign(field=nodes.field.replace("art", "<script>x</script>"))
    evil = evil.rename(columns={"size": "<b>size</b>"})
    found = linkdist.train(evil, links, id="paper", label="field", **FAST)
    card, page = found._repr_html_(), found.report(tmp_path / "report.html")
    assert "&lt;script&gt;x&lt;/script&gt;" in card
    assert "&lt;b&gt;size&lt;/b&gt; (numeric)" in card
    assert "<script>x" not in card + page
    assert "<b>size" not in card + page
    assert (tmp_path / "report.html").read_text() == page
    assert repr(found).startswith("TrainedModel(classes=['<script>x</script>', 'math'], columns=")


# Errors.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epoch": 3}, OptionError, r"unknown option 'epoch' \(near: epochs"),
        ({"method": "gcn"}, OptionError, "unknown method 'gcn'"),
        ({"epochs": 0}, OptionError, "epochs must be 1 or more"),
        ({"resume": True}, OptionError, "resume, force and tsne need out"),
        ({"features": ["sise"]}, TableError, r"the node table: unknown column 'sise' \(near: size"),
        ({"kinds": {"size": "number"}}, OptionError, "unknown kind of column 'number'"),
        ({"source": "a"}, TableError, "the link table: unknown column 'a'"),
        ({"labels": {"paper": ["Q"], "field": ["art"]}}, TableError, "the label table: .*'Q'"),
        ({"unknown": ["art", "math"]}, TableError, "'field' contains no labels"),
    ],
)
def test_wrong_options_are_refused_in_words(tables, options, error, message):
    with pytest.raises(error, match=message):
        train(*tables, **options)


def test_wrong_tables_are_refused_in_words(tables, model):
    nodes, links = tables
    cases = [
        (lambda: model.predict(nodes.drop(columns="size")), "node table: unknown column 'size'"),
        (lambda: model.predict(nodes.head(0)), "the node table: the table has no rows"),
        (lambda: model.predict(nodes.drop(columns="paper"), links), "unknown column 'paper'"),
        (lambda: model.predict(pd.concat([nodes, nodes]), links), "contains duplicate ids: 'P00'"),
        (lambda: model.evaluate(nodes.assign(field="law")),
         r"'field' contains classes that the model does not know: 'law' \(40 rows\)"),
        (lambda: model.evaluate(nodes.assign(field=None)), "contains no labels"),
        (lambda: model.evaluate(nodes.drop(columns="field")), "unknown column 'field'"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(TableError, match=message):
            call()
    with pytest.raises(TableError, match=r"^column 'field' contains classes .*: 'law' \(40 rows\)"):
        model.suggest(nodes.assign(field="law"), links)
    with pytest.raises(OptionError, match="some rows must have no label; found 4 and 0 rows"):
        model.suggest(nodes.assign(field="art"), links, count=4)
    with pytest.raises(OptionError, match="count must be 1 or more"):
        model.suggest(nodes, links, count=0)


def test_only_the_same_training_replaces_a_model(tables, tmp_path):
    out, kept = tmp_path / "model", {"tsne": False}
    train(*tables, out=out, **kept)
    train(*tables, out=out, **kept)
    with pytest.raises(OptionError, match="contains a model of another training"):
        train(*tables, out=out, seed=1, **kept)
    found = train(*tables, out=out, seed=1, force=True, **kept)
    assert weights(linkdist.load_model(out)) == weights(found)


def test_the_link_columns_of_the_training_are_used_again():
    """Compared with: the same links under the first two columns."""
    nodes = {"id": list(range(6)), "x": [0.0, 0.1, 0.2, 1.0, 1.1, 1.2], "y": list("aaabbb")}
    links = {"year": [1, 2, 3, 4], "from": [0, 1, 3, 4], "to": [1, 2, 4, 5]}
    options = {"method": "linkdist", "epochs": 1, "held_out": 0, "device": "cpu"}
    model = linkdist.train(nodes, links, id="id", label="y", source="from", target="to", **options)
    plain = {key: links[key] for key in ("from", "to")}
    assert (model.predict_proba(nodes, links) == model.predict_proba(nodes, plain)).all()
