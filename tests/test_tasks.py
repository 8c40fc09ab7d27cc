"""What trained models of each task predict, score and suggest, with relations and weights.

The models have random weights, because only what follows from them is tested; a few trainings show
that it fits what training decides. Oracles: the library underneath, scikit-learn, closed forms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from sklearn.metrics import f1_score, mean_absolute_error, r2_score

import linkdist
from linkdist import updating
from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.data.links import Links
from linkdist.distributed.ray_predict import predict_directory
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.prediction import predict
from linkdist.progress import Callback
from linkdist.tables.nodes import read_nodes
from linkdist.tables.source import Tables
from linkdist.trained_model import TrainedModel

N, ALONE = 60, [3, 4, 5]
RELATIONS = ("cites", "knows")
TARGETS = {"regression": "margin", "multilabel": ["even", "loop"], "classification": "field"}
CLASSES = {"regression": ("margin",), "multilabel": ("even", "loop"),
           "classification": ("art", "law", "math")}  # fmt: skip
DECISIONS = {
    "regression": {"widths": {"features": 2.0, "links": 0.75}},
    "multilabel": {"thresholds": {"features": [0.55, 0.4], "links": [0.45, 0.5]}},
    "classification": {},
}
TASKS = tuple(TARGETS)


class Notes(Callback):
    def __init__(self):
        self.found = []

    def note(self, text):
        self.found.append(text)


@pytest.fixture(scope="module")
def nodes():
    random = np.random.default_rng(0)
    x = random.normal(size=(N, 2))
    known = np.arange(N) % 3 > 0
    return pd.DataFrame({
        "id": [f"n{i}" for i in range(N)],
        "a": x[:, 0],
        "b": x[:, 1],
        "margin": np.where(known, x[:, 0] + 0.1 * random.normal(size=N), np.nan),
        "even": np.where(known, x[:, 0] > 0, np.nan),
        "loop": np.where(known, x[:, 1] > 0, np.nan),
        "field": np.where(known, np.array(["art", "law", "math"])[random.integers(0, 3, N)], None),
        "country": np.array(["DE", "ES"])[random.integers(0, 2, N)],
    })  # fmt: skip


@pytest.fixture(scope="module")
def links():
    random = np.random.default_rng(1)
    ends = random.choice(np.setdiff1d(np.arange(N), ALONE), (150, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    return pd.DataFrame({
        "of": [f"n{i}" for i in ends[:, 0]],
        "to": [f"n{i}" for i in ends[:, 1]],
        "kind": np.array(RELATIONS)[random.integers(0, 2, len(ends))],
        "years": random.uniform(0.5, 3, len(ends)),
    }).drop_duplicates(["of", "to", "kind"])  # fmt: skip


def by_hand(links):
    pairs = links[["of", "to"]].map(lambda name: int(name[1:])).to_numpy()
    codes = np.array([RELATIONS.index(kind) for kind in links.kind])
    return Links(pairs, codes, links.years.to_numpy(np.float32), RELATIONS, directed=True)


@pytest.fixture(scope="module")
def models(nodes):
    """A model of each task, with two directed relations."""
    return {task: random_model(nodes, task) for task in TASKS}


def random_model(nodes, task):
    encoders = read_nodes(nodes, "id", TARGETS[task], features=["a", "b"]).encoders
    network = ForkedMLP(2, len(CLASSES[task]), [0, 1], 16, 0.5, 4)
    with torch.no_grad():
        for head in (network.own, *network.neighbours):
            head.linear.weight.mul_(3)
    alpha = torch.linspace(0.2, 1.0, 8).view(2, 4)
    kappa = torch.tensor([0.7, 0.9])
    model = Model(network, alpha, CLASSES[task], kappa, task, RELATIONS, directed=True)
    about = {
        "id": "id", "label": TARGETS[task], "task": task, "source": "of", "target": "to",
        "relation": "kind", "weight": "years", "directed": True, "relations": list(RELATIONS),
        "decision": DECISIONS[task],
    }  # fmt: skip
    if task == "multilabel":
        about["label_format"] = {"separator": None, "binary": True}
    return TrainedModel.of(Saved(model, encoders, about))


def outputs(model, nodes, links=None):
    """The predictions of the library, from features or with links."""
    x = model.encoders.transform(pa.RecordBatch.from_pandas(nodes))
    return model.model.predict_proba(x, None if links is None else by_hand(links))


def linked(nodes, links):
    return nodes.id.isin([*links.of, *links.to]).to_numpy()


def expected(model, task, p, has_links):
    """Predictions from outputs, with the decision of each row's mode."""
    if task == "regression":
        return p[:, 0]
    if task == "classification":
        return np.array(CLASSES[task])[p.argmax(axis=1)]
    thresholds = DECISIONS[task]["thresholds"]
    mode = np.where(has_links[:, None], thresholds["links"], thresholds["features"])
    return (p >= mode).astype(int)


# Predictions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_those_of_the_library(models, nodes, links, task):
    model, none = models[task], np.zeros(N, dtype=bool)
    p, with_links = outputs(model, nodes), outputs(model, nodes, links)
    assert not np.allclose(p, with_links, atol=1e-3)
    np.testing.assert_allclose(p[ALONE], with_links[ALONE], atol=1e-6)
    for found, values, has_links in (
        (model.predict(nodes), p, none),
        (model.predict(nodes, links), with_links, linked(nodes, links)),
    ):
        if task == "regression":
            assert found.shape == (N,)
            np.testing.assert_allclose(found, values[:, 0], atol=1e-5)
        else:
            assert found.tolist() == expected(model, task, values, has_links).tolist()
    if task != "regression":
        found = model.predict_proba(nodes, links)
        np.testing.assert_allclose(found, with_links, atol=1e-6)


def test_intervals_have_the_width_of_the_mode_of_each_row(models, nodes, links):
    model = models["regression"]
    middle = model.predict(nodes, links)
    half = np.where(linked(nodes, links), 0.75, 2.0)
    found = model.predict_interval(nodes, links)
    np.testing.assert_allclose(found, np.stack([middle - half, middle + half], axis=1), rtol=1e-6)
    found = model.predict_interval(nodes)
    np.testing.assert_allclose(found.mean(axis=1), model.predict(nodes), atol=1e-6)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], 4.0, atol=1e-6)


def test_what_a_task_does_not_have_is_refused_in_a_sentence(models, nodes):
    with pytest.raises(ModelError, match=r"^a regression has no class probabilities; use predict"):
        models["regression"].predict_proba(nodes)
    for task in ("classification", "multilabel"):
        with pytest.raises(ModelError, match=f"are for regression; this model is for {task}"):
            models[task].predict_interval(nodes)
    model = models["regression"]
    short = replace(model, about={**model.about, "decision": {"widths": {"features": None}}})
    with pytest.raises(ModelError, match="no prediction intervals, because its training had too"):
        short.predict_interval(nodes)


@pytest.mark.parametrize("task", TASKS)
def test_the_command_writes_what_the_model_predicts(
    models, nodes, links, task, tmp_path, monkeypatch
):
    model = models[task]
    save_model(tmp_path / "model", model)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    links.to_csv(tmp_path / "links.csv", index=False)
    out, notes = tmp_path / "p.parquet", Notes()
    names = {"regression": ["predicted", "low", "high"],
             "multilabel": ["even", "loop", "p_even", "p_loop"],
             "classification": ["label", "confidence", "p_art", "p_law", "p_math"]}  # fmt: skip
    for edges, frame in ((None, None), (tmp_path / "links.csv", links)):
        predict(tmp_path / "model", tmp_path / "nodes.csv", out, edges=edges, callback=notes)
        found = pyarrow.parquet.read_table(out).to_pandas()
        assert found.columns.tolist() == ["id", *names[task]]
        assert found.id.tolist() == nodes.id.tolist()
        predicted = model.predict(nodes, frame)
        if task == "regression":
            np.testing.assert_allclose(found.predicted, predicted, rtol=1e-4, atol=1e-5)
            ends = model.predict_interval(nodes, frame)
            np.testing.assert_allclose(found[["low", "high"]], ends, rtol=1e-4, atol=1e-5)
        else:
            columns = ["even", "loop"] if task == "multilabel" else "label"
            assert found[columns].to_numpy().tolist() == predicted.tolist()
            p = found[[name for name in names[task] if name.startswith("p_")]]
            np.testing.assert_allclose(p, model.predict_proba(nodes, frame), atol=1e-5)
    assert not [note for note in notes.found if "Warning" in note]


def test_missing_intervals_are_reported(models, nodes, tmp_path):
    model, notes = models["regression"], Notes()
    save_model(tmp_path / "model", replace(model, about={**model.about, "decision": {}}))
    predict(tmp_path / "model", nodes, tmp_path / "p.csv", callback=notes)
    assert [note for note in notes.found if "'low' and 'high' are empty" in note]
    assert pd.read_csv(tmp_path / "p.csv")[["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("task", TASKS)
def test_a_directory_is_predicted_like_a_table(models, nodes, task, tmp_path):
    model = models[task]
    save_model(tmp_path / "model", model)
    (tmp_path / "nodes").mkdir()
    for name, part in (("a", nodes[:40]), ("b", nodes[40:])):
        part.to_parquet(tmp_path / "nodes" / f"{name}.parquet")
    out = tmp_path / "out"
    assert predict_directory(tmp_path / "model", tmp_path / "nodes", out, device="cpu") == N
    predict(tmp_path / "model", nodes, tmp_path / "p.parquet", device="cpu")
    parts = pa.concat_tables(map(pyarrow.parquet.read_table, sorted(out.iterdir())))
    whole = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert parts.column_names == whole.column_names
    pd.testing.assert_frame_equal(parts.to_pandas(), whole.to_pandas(), rtol=1e-5)


def test_an_interrupted_directory_is_not_continued_with_other_thresholds(
    models, nodes, tmp_path, monkeypatch
):
    """The hidden directory of finished files is named after what predictions depend on."""
    from linkdist.distributed import ray_predict

    model = models["multilabel"]
    decision = {"thresholds": {"features": [0.9, 0.9], "links": [0.9, 0.9]}}
    other = replace(model, about={**model.about, "decision": decision})
    assert ray_predict._digest(model) != ray_predict._digest(other)
    described = replace(model, about={**model.about, "date": "today"})
    assert ray_predict._digest(model) == ray_predict._digest(described)


# Several graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_table_may_have_the_graph_column_or_not(models, nodes, links, task):
    model = models[task]
    model = replace(model, about={**model.about, "graph": "country"})
    without = nodes.drop(columns="country")
    assert model.predict(nodes, links).tolist() == model.predict(without, links).tolist()
    assert model.evaluate(nodes, links) == model.evaluate(without, links)


@pytest.mark.parametrize("task", TASKS)
def test_several_pairs_of_tables_are_predicted_like_one_by_one(models, nodes, links, task):
    model, parts = models[task], {}
    for name, rows in (("DE", nodes[:35]), ("ES", nodes[35:])):
        inside = links.of.isin(rows.id) & links.to.isin(rows.id)
        own = links[inside].map(lambda id: id)
        parts[name] = (rows, own)
    tables, edges = ({name: pair[k] for name, pair in parts.items()} for k in range(2))
    each = [model.predict(*pair) for pair in parts.values()]
    np.testing.assert_array_equal(model.predict(tables, edges), np.concatenate(each))
    alone = [model.predict(rows) for rows, _ in parts.values()]
    np.testing.assert_array_equal(model.predict(tables), np.concatenate(alone))
    with pytest.raises(OptionError, match=r"2 node tables .* need as many link tables"):
        model.predict(tables, links)


# Evaluation -------------------------------------------------------------------------------------


def test_numbers_are_scored_as_by_scikit_learn(models, nodes, links):
    model, known = models["regression"], nodes.margin.notna()
    truth = nodes.margin[known]
    for frame in (None, links):
        found, p = model.evaluate(nodes, frame), model.predict(nodes, frame)[known]
        assert (found.rows, found.unlabelled) == (40, 20)
        assert found.r2 == pytest.approx(r2_score(truth, p), abs=1e-5)
        assert found.mae == pytest.approx(mean_absolute_error(truth, p), abs=1e-5)
        low, high = model.predict_interval(nodes, frame)[known].T
        assert found.coverage == pytest.approx(((low <= truth) & (truth <= high)).mean())
        assert found.level == 0.9
    bare = replace(model, about={**model.about, "decision": {}})
    assert bare.evaluate(nodes).coverage is None


def test_labels_are_scored_as_by_scikit_learn(models, nodes, links):
    model, known = models["multilabel"], nodes.even.notna()
    truth = nodes.loc[known, ["even", "loop"]].astype(int)
    for frame, mode in ((None, "features"), (links, "links")):
        found, predicted = model.evaluate(nodes, frame), model.predict(nodes, frame)[known]
        assert found.micro_f1 == pytest.approx(f1_score(truth, predicted, average="micro"))
        assert found.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"))
        shown = [one.threshold for one in found.labels]
        assert shown == DECISIONS["multilabel"]["thresholds"][mode]
    renamed = nodes.rename(columns={"even": "e", "loop": "l"})
    assert model.evaluate(renamed, label=["e", "l"]) == model.evaluate(nodes)
    with pytest.raises(OptionError, match=r"columns 'even', 'loop'; found 'e'\. Name as many"):
        model.evaluate(renamed, label="e")


def test_all_problems_of_labels_are_reported_at_once(models, nodes, links, tmp_path):
    words = nodes.margin.astype(object)
    words[[1, 2, 4]] = ["high", "low", "1e400"]
    nodes.assign(margin=words).to_csv(tmp_path / "nodes.csv", index=False)
    for frame in (None, links):
        with pytest.raises(TableError) as error:
            models["regression"].evaluate(tmp_path / "nodes.csv", frame)
        found = str(error.value)
        assert found.startswith(f"{tmp_path / 'nodes.csv'}: column 'margin' must contain numbers")
        assert "row 2 has 'high', row 3 has 'low'" in found
        assert "finite numbers; row 5 has '1e400'" in found
    wrong = nodes.assign(even=nodes.even.astype(object), loop=nodes.loop.astype(object))
    wrong.loc[1, "even"], wrong.loc[2, "loop"], wrong.loc[4, "even"] = "maybe", 7, None
    with pytest.raises(TableError) as error:
        models["multilabel"].evaluate(wrong)
    found = str(error.value)
    assert (
        "column 'even' must contain 0 or 1, true or false, or yes or no; row 2 has 'maybe'" in found
    )
    assert "column 'loop' must contain 0 or 1" in found
    assert "row 5 lacks 'even'" in found


def test_lists_with_unknown_labels_are_refused(models, nodes):
    model = models["multilabel"]
    written = {"separator": "|", "binary": False}
    model = replace(model, about={**model.about, "label": "tags", "label_format": written})
    tags = nodes.assign(tags=["even|loop", "even", "odd|even", "prime"] * (N // 4))
    with pytest.raises(TableError, match=r"does not know: 'odd' \(15 rows\), 'prime' \(15 rows\)"):
        model.evaluate(tags)
    found = model.evaluate(tags.assign(tags=["even|loop", "even", "loop", None] * (N // 4)))
    truth = np.array([[1, 1], [1, 0], [0, 1]] * (N // 4))
    predicted = model.predict(nodes)[np.arange(N) % 4 < 3]
    assert found.micro_f1 == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert found.rows == 45


def test_problems_of_features_and_labels_are_reported_together(models, nodes):
    wrong = nodes.assign(margin="high").drop(columns="a")
    with pytest.raises(TableError, match="unknown column 'a'"):
        models["regression"].evaluate(wrong)
    with pytest.raises(TableError, match="so there is nothing to score"):
        models["regression"].evaluate(nodes.assign(margin=np.nan))


# Suggestions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_suggested_rows_have_no_label_and_show_the_prediction(models, nodes, links, task):
    model = models[task]
    found = model.suggest(nodes, links, count=5).to_pandas()
    rows = found.id.str[1:].astype(int).to_numpy()
    assert (rows % 3 == 0).all()
    assert len(set(rows)) == 5
    targets = TARGETS[task] if isinstance(TARGETS[task], list) else [TARGETS[task]]
    assert found.columns[1 : 1 + len(targets)].tolist() == targets
    assert found[targets].isna().all(axis=None)
    predicted = model.predict(nodes, links)[rows]
    if task == "regression":
        np.testing.assert_allclose(found.predicted, predicted, rtol=1e-5)
        ends = model.predict_interval(nodes, links)[rows]
        np.testing.assert_allclose(found[["low", "high"]], ends, rtol=1e-5)
    elif task == "multilabel":
        names = np.array(CLASSES[task])
        assert found.predicted.tolist() == ["|".join(names[row == 1]) for row in predicted]
        doubt = (1 - np.abs(2 * model.predict_proba(nodes, links) - 1)).mean(axis=1)[rows]
        assert (np.diff(doubt) <= 1e-6).all()
    else:
        assert found.predicted.tolist() == predicted.tolist()


# Updates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_updates_of_other_tasks_are_refused_in_a_sentence(models, nodes, links, task, tmp_path):
    model = replace(models[task], replay={"links": torch.zeros(0)})
    tables = Tables(nodes, links, "id", TARGETS[task])
    with pytest.raises(ModelError, match=rf"^a model for {task} cannot be updated\. Train again"):
        updating.update(model, tables, tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def updatable(nodes, links):
    """A model with relations, weights and factors of its classes, and its replay buffer."""
    options = {"method": "linkdist", "epochs": 1, "hidden_size": 8, "device": "cpu", "held_out": 0}
    roles = {"relation": "kind", "weight": "years", "directed": True}
    return linkdist.train(
        nodes, links, id="id", label="field", features=["a", "b"], class_weight="balanced",
        **options, **roles,
    )  # fmt: skip


def test_an_update_has_the_relations_and_weights_of_the_training(updatable, nodes, links, tmp_path):
    new = updating.update(
        updatable, Tables(nodes, links, "id", "field"), tmp_path / "new", epochs=1, device="cpu"
    )
    assert (new.model.relations, new.model.directed) == (RELATIONS, True)
    sample = new.replay_buffer().graph
    weights = sample.link_weights[sample.links[:, 0] != sample.links[:, 1]]
    # Of old and new links, which are the same.
    assert np.unique(weights) == pytest.approx(np.unique(links.years.astype(np.float32)))
    for wrong, message in (
        (links.drop(columns=["kind", "years"]), "'kind' and the weights in column 'years'"),
        (links.assign(kind="likes"), "found others: 'likes'"),
        (links.assign(years=0), "must contain positive numbers"),
    ):
        tables = Tables(nodes, wrong, "id", "field")
        with pytest.raises(TableError, match=message):
            updating.update(updatable, tables, tmp_path / "other", epochs=1, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_update_takes_several_graphs(updatable, nodes, links, tmp_path):
    halves = {"DE": nodes[:30], "ES": nodes[30:]}
    edges = {name: links[links.of.isin(part.id) & links.to.isin(part.id)]
             for name, part in halves.items()}  # fmt: skip
    tables = Tables(halves, edges, "id", "field")
    new = updating.update(updatable, tables, tmp_path / "new", epochs=1, device="cpu")
    assert new.about["updates"][0]["nodes"] == N


def test_an_update_learns_without_the_factors_of_the_classes(
    updatable, nodes, links, tmp_path, monkeypatch
):
    """An update that learns nothing leaves the predictions as they are."""
    seen = []

    def learn_nothing(model, buffer, graph, **options):
        seen.append(model.predict_proba(graph.features))
        return buffer

    monkeypatch.setattr(updating, "update_model", learn_nothing)
    tables = Tables(nodes, links, "id", "field")
    new = updating.update(updatable, tables, tmp_path / "new", device="cpu")
    new = TrainedModel.of(new)
    np.testing.assert_allclose(
        new.predict_proba(nodes, links), updatable.predict_proba(nodes, links), atol=1e-6
    )
    factors = np.array(updatable.about["decision"]["factors"])
    assert len(np.unique(factors)) > 1
    scaled = seen[0] * factors
    expected = scaled / scaled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(updatable.predict_proba(nodes), expected, atol=1e-5)


# Trainings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["linkdist", "selflinkdist"])
def test_balanced_classes_multiply_probabilities_by_their_factors(nodes, links, method):
    """The same training without class weights, times the factors that the model records."""
    options = {"method": method, "epochs": 2, "hidden_size": 8, "device": "cpu"}
    common = {"id": "id", "label": "field", "features": ["a", "b"], "held_out": 0, **options}
    plain = linkdist.train(nodes, links[["of", "to"]], **common)
    model = linkdist.train(nodes, links[["of", "to"]], class_weight="balanced", **common)
    counts = nodes.field.value_counts().sort_index().to_numpy()
    factors = np.array(model.about["decision"]["factors"])
    np.testing.assert_allclose(factors / factors[0], counts[0] / counts)
    for frame in (None, links[["of", "to"]]):
        scaled = plain.predict_proba(nodes, frame) * factors
        expected = scaled / scaled.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(nodes, frame), expected, atol=1e-5)
        predicted = np.array(model.classes)[scaled.argmax(axis=1)]
        assert model.predict(nodes, frame).tolist() == predicted.tolist()
        known = nodes.field.notna()
        accuracy = (predicted == nodes.field)[known].mean()
        assert model.evaluate(nodes, frame).accuracy == pytest.approx(accuracy)


def test_what_a_regression_decides_is_what_its_directory_predicts(nodes, links, tmp_path):
    out = tmp_path / "model"
    model = linkdist.train(
        nodes, links[["of", "to"]], id="id", label="margin", features=["a", "b"], epochs=2,
        device="cpu", out=out, tsne=False,
    )  # fmt: skip
    half = model.about["decision"]["widths"]["features"]
    back = linkdist.load_model(out)
    np.testing.assert_allclose(np.diff(back.predict_interval(nodes)), 2 * half, rtol=1e-5)
    assert back.evaluate(nodes) == model.evaluate(nodes)
