"""The classifier with relations, weights, directions, several graphs, rare and several classes."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from linkdist import Graph, LinkDistClassifier, Links, fit, load_model
from linkdist.data.splits import Split
from linkdist.errors import GraphError, OptionError

NOTHING = np.array([], dtype=int)


def quick(**options):
    return LinkDistClassifier(**{"epochs": 5, "device": "cpu", "random_state": 0, **options})


@pytest.fixture(scope="module")
def typed():
    """Nodes of two classes; links of two relations, with weights and a direction."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = (random.normal(size=(60, 4)) + y[:, None]).astype(np.float32)
    pairs = random.integers(0, 60, (200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    relation = np.where(random.random(len(pairs)) < 0.5, "cites", "knows")
    weights = random.uniform(0.5, 2.0, len(pairs))
    return x, y, pairs, relation, weights


def as_typed(typed, rows=slice(None)):
    _, _, pairs, relation, weights = typed
    codes = (relation[rows] == "knows").astype(int)
    return Links(pairs[rows], codes, weights[rows].astype("f4"), ("cites", "knows"), True)


@pytest.fixture(scope="module")
def model(typed):
    """A classifier of directed, weighted links of two relations."""
    x, y, *_ = typed
    return quick(held_out=0).fit(x, y, edges=as_typed(typed))


def test_relations_weights_and_direction_reach_the_library(typed, model):
    x, y, *_ = typed
    graph = Graph.build(x, as_typed(typed).with_own_loops(60), y, ("0", "1"))
    options = {"epochs": 5, "device": "cpu", "held_out": 0}
    plain = fit(graph, Split(np.arange(60), NOTHING, NOTHING), seeds=[0], **options).model
    expected = plain.predict_proba(x, as_typed(typed))
    np.testing.assert_array_equal(model.predict_proba(x, edges=as_typed(typed)), expected)
    assert model.alpha_.shape == (1, 4)
    assert (model.model_.relations, model.model_.directed) == (("cites", "knows"), True)


def directed_graph(pairs, relation, weights):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(60))
    for (a, b), kind, weight in zip(pairs.tolist(), relation, weights, strict=True):
        graph.add_edge(a, b, kind=str(kind), weight=float(weight))
    return graph


def test_every_form_of_typed_links_trains_the_same_model(typed, model):
    x, y, pairs, relation, weights = typed
    expected = model.predict_proba(x, edges=as_typed(typed))
    parts = {name: relation == name for name in ("cites", "knows")}
    mapping = {name: pairs[rows] for name, rows in parts.items()}
    by_name = {name: weights[rows] for name, rows in parts.items()}
    forms = [
        {"edges": pairs, "relation": relation, "edge_weight": weights, "directed": True},
        {"edges": mapping, "edge_weight": by_name, "directed": True},
        {"edges": directed_graph(pairs, relation, weights), "relation": "kind"},
    ]
    for form in forms:
        found = quick(held_out=0).fit(x, y, **form)
        later = {name: value for name, value in form.items() if name != "directed"}
        np.testing.assert_allclose(found.predict_proba(x, **later), expected, atol=1e-6)


def test_some_relations_are_enough_for_a_prediction(typed, model):
    x, _, pairs, relation, weights = typed
    rows = relation == "knows"
    expected = model.model_.predict_proba(x, as_typed(typed, rows))
    found = model.predict_proba(
        x, edges={"knows": pairs[rows]}, edge_weight={"knows": weights[rows]}
    )
    np.testing.assert_array_equal(found, expected)


def test_a_relation_that_training_did_not_have_is_refused(typed, model):
    x, _, pairs, *_ = typed
    with pytest.raises(GraphError, match="of the training, cites, knows; found 'hates'"):
        model.predict(x, edges={"hates": pairs})
    with pytest.raises(GraphError, match="need their relation, one of cites, knows"):
        model.predict(x, edges=pairs)
    with pytest.raises(GraphError, match="must be directed"):
        model.predict(x, edges={"cites": nx.path_graph(60)})


def test_missing_weights_of_a_prediction_are_a_warning(typed, model):
    x, _, pairs, relation, _ = typed
    with pytest.warns(UserWarning, match="links of the training had weights, but these have none"):
        model.predict(x, edges=pairs, relation=relation)


def test_partial_fit_keeps_relations_and_asks_for_weights(typed):
    x, y, pairs, relation, weights = typed
    model = quick(method="linkdist", held_out=0, epochs=1).fit(x, y, edges=as_typed(typed))
    before = model.predict_proba(x)
    model.partial_fit(x, y, edges=pairs, relation=relation, edge_weight=weights)
    assert not np.array_equal(before, model.predict_proba(x))
    assert model.alpha_.shape == (1, 4)
    with pytest.raises(GraphError, match="weights in all calls or in none"):
        model.partial_fit(x, y, edges=pairs, relation=relation)


def test_all_problems_of_the_arrays_are_in_one_message(typed):
    x, _, pairs, *_ = typed
    bad = {"edge_weight": np.zeros(len(pairs)), "groups": ["a", "b"]}
    with pytest.raises(GraphError) as error:
        quick().fit(x, ["one"] * 60, edges=pairs, **bad)
    for part in ("more than one class; found 'one'", "link 0 has 0.0", r"shape (60,); found (2,)"):
        assert part in str(error.value)


# Several graphs, metrics and class weights.


def test_whole_graphs_are_held_out(typed):
    x, y, pairs, *_ = typed
    groups = np.array(["de", "fr", "us"])[np.arange(60) // 20]
    inside = pairs[groups[pairs[:, 0]] == groups[pairs[:, 1]]]
    model = quick(hold_out_graphs=True, metric="roc-auc")
    model.fit(x, y, edges=inside, groups=groups)
    assert model.estimates_.measure == "roc-auc"
    graph = Graph.build(
        x, Links(inside).with_own_loops(60), y, ("0", "1"), groups=np.arange(60) // 20
    )
    options = {"epochs": 5, "device": "cpu", "hold_out_graphs": True, "metric": "roc-auc"}
    split = Split(np.arange(60), NOTHING, NOTHING)
    plain = fit(graph, split, seeds=[0], baselines=True, **options)
    assert model.estimates_.new_rows == plain.estimates.new_rows
    with pytest.raises(OptionError, match="exclude each other"):
        model.fit(x, y, edges=inside, groups=groups, validation=[0, 1, 2, 3])


@pytest.mark.parametrize("groups", [None, ["a"] * 60])
def test_one_graph_cannot_be_held_out(typed, groups):
    x, y, *_ = typed
    with pytest.raises(OptionError, match="hold_out_graphs needs several graphs"):
        quick(hold_out_graphs=True).fit(x, y, groups=groups)


@pytest.mark.parametrize("option", [{"metric": "macro-f1"}, {"hold_out_graphs": True}])
def test_the_papers_methods_do_not_ignore_options(typed, option):
    x, y, *_ = typed
    with pytest.raises(OptionError, match="metric and hold_out_graphs are for selflinkdist"):
        quick(method="linkdist", **option).fit(x, y, groups=np.arange(60) // 20)


@pytest.mark.parametrize("metric", ["r2", "accuracie"])
def test_a_metric_must_suit_classes(typed, metric):
    x, y, *_ = typed
    with pytest.raises(OptionError, match=f"unknown metric for classification '{metric}'"):
        quick(metric=metric).fit(x, y)


def test_class_weights_are_factors_of_the_default_method_too(typed):
    x, y, pairs, *_ = typed
    plain, weighted = (
        quick(held_out=0, class_weight=weight).fit(x, y, edges=pairs)
        for weight in (None, {0: 5.0, 1: 1.0})
    )
    for edges in (None, pairs):
        p = plain.predict_proba(x, edges=edges) * [5.0, 1.0]
        expected = p / p.sum(axis=1, keepdims=True)
        found = weighted.predict_proba(x, edges=edges)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert weighted.decision_.factors == [5.0, 1.0]


# Several classes.


@pytest.fixture(scope="module")
def several(typed):
    """Three classes of which any number is right, unknown for the last 20 nodes."""
    x, y, pairs, *_ = typed
    sets = np.stack([y, x[:, 0] > 1.5, x[:, 1] > 0], axis=1).astype(int)
    known = np.where(np.arange(60)[:, None] < 40, sets, -1)
    return x, known, pairs, sets


@pytest.fixture(scope="module")
def sets_model(several):
    x, y, pairs, _ = several
    return quick().fit(x, y, edges=pairs)


def test_several_classes_are_predicted_by_their_thresholds(several, sets_model):
    x, y, pairs, sets = several
    assert sets_model.classes_.tolist() == [0, 1, 2]
    for mode, edges in (("features", None), ("links", pairs)):
        p = sets_model.predict_proba(x, edges=edges)
        np.testing.assert_allclose(p, sets_model.model_.predict_proba(x, edges))
        thresholds = np.array(sets_model.decision_.thresholds[mode])
        predicted = sets_model.predict(x, edges=edges)
        np.testing.assert_array_equal(predicted, p >= thresholds)
        decided = sets_model.decision_function(x, edges=edges)
        np.testing.assert_array_equal(predicted, decided >= 0)
        np.testing.assert_allclose(
            decided, np.log(p / (1 - p)) - np.log(thresholds / (1 - thresholds)), atol=1e-2
        )
        right = (predicted == sets).all(axis=1)
        assert sets_model.score(x, y, edges=edges) == pytest.approx(right[:40].mean())


def test_several_classes_have_names_in_a_frame(several, tmp_path):
    x, y, pairs, _ = several
    names = ["even", "large", "loop"]
    table = pd.DataFrame(x, columns=list("abcd")).assign(kind=["u", "v", "w"] * 20)
    frame = pd.DataFrame(np.where(y < 0, np.nan, y), columns=names)
    model = quick(epochs=2).fit(table, frame, edges=pairs)
    assert model.classes_.tolist() == names
    model.save(tmp_path / "model")
    back = load_model(tmp_path / "model")
    assert (back.about["task"], back.about["label"]) == ("multilabel", names)
    assert back.about["decision"] == model.decision_.as_json()
    np.testing.assert_allclose(back.predict_proba(table), model.predict_proba(table), atol=1e-6)


@pytest.mark.parametrize("form", [np.ndarray.tolist, lambda y: y.astype(float), lambda y: y == 1])
def test_sets_of_classes_come_in_every_form(several, form):
    x, y, *_ = several
    a, b = (quick(held_out=0, epochs=1).fit(x[:40], one) for one in (y[:40], form(y[:40])))
    np.testing.assert_array_equal(a.predict_proba(x), b.predict_proba(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: np.where(y == 1, 2, y), "must contain 0 and 1"),
        (lambda y: np.where(y == 1, "yes", "no"), "must contain 0 and 1"),
        (lambda y: np.where(np.arange(3) == 1, -1, y), "for all classes of a node, or for none"),
        (lambda y: y[:5], "one entry for each node, 60; found 5"),
        (lambda y: np.full_like(y, -1), "labels that differ; found 0 labelled rows"),
    ],
)
def test_bad_sets_of_classes_are_refused(several, change, message):
    x, y, pairs, _ = several
    with pytest.raises(GraphError, match=message):
        quick().fit(x, change(y), edges=pairs)


def test_what_is_for_one_class_says_so(several, sets_model):
    x, y, pairs, _ = several
    with pytest.raises(OptionError, match="disagreement is for one class per node"):
        sets_model.disagreement(x)
    with pytest.raises(OptionError, match="partial_fit is for one class per node"):
        quick().partial_fit(x, y, edges=pairs)
    with pytest.raises(OptionError, match="class_weight is for one class per row"):
        quick(class_weight="balanced").fit(x, y, edges=pairs)
    with pytest.raises(OptionError, match="the method linkdist is for classification"):
        quick(method="linkdist").fit(x, y, edges=pairs)


# Graph objects.


def test_graph_objects_go_in_and_predictions_come_out(typed):
    x, y, pairs, _, weights = typed
    train, validation = np.arange(60) < 30, (np.arange(60) >= 30) & (np.arange(60) < 45)
    tensors = {"x": x, "y": y, "edge_index": pairs.T.copy(), "edge_weight": weights}
    masks = {"train_mask": train, "val_mask": validation}
    data = SimpleNamespace(**{k: torch.from_numpy(v) for k, v in (tensors | masks).items()})
    expected = quick().fit(
        x,
        np.where(train | validation, y, -1),
        edges=pairs,
        edge_weight=weights,
        validation=validation,
    )
    p = expected.predict_proba(x, edges=pairs, edge_weight=weights)
    graph = nx.MultiGraph()
    for i in range(60):
        parts = {"train_mask": bool(train[i]), "val_mask": bool(validation[i])}
        graph.add_node(f"n{i}", x=x[i], y=int(y[i]), **parts)
    for (a, b), weight in zip(pairs.tolist(), weights, strict=True):
        graph.add_edge(f"n{a}", f"n{b}", weight=weight)
    for source in (data, graph):
        model = quick().fit_graph(source)
        found = model.predict_proba(x, edges=pairs, edge_weight=weights)
        np.testing.assert_allclose(found, p, atol=1e-6)
        np.testing.assert_array_equal(model.predict_graph(source), p.argmax(axis=1))
        np.testing.assert_array_equal(
            model.predict_graph(source, with_links=False), expected.predict(x)
        )


def test_a_graph_object_needs_labels():
    data = SimpleNamespace(x=np.eye(3), edge_index=np.array([[0], [1]]), y=None)
    with pytest.raises(GraphError, match="has no labels; pass them with labels="):
        LinkDistClassifier().fit_graph(data)
