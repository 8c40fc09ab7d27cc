"""The classifier: scikit-learn's own checks, every form of input, and what links are good for."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
import torch
from scipy import sparse
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from linkdist import LinkDistClassifier, fit, from_features, load_model, with_links
from linkdist.data.splits import Split
from linkdist.errors import GraphError, ModelError, OptionError, TableError
from linkdist.tables.transformer import TableEncoder
from linkdist.training.fit import METHODS

EXPECTED_FAILURES = {
    "check_classifiers_classes": "it labels nodes -1, which here as in scikit-learn's own "
    "semi-supervised classifiers means unknown",
    **dict.fromkeys(
        [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
        "a node that is there twice is two nodes of the graph, not one with twice the weight",
    ),
}


@parametrize_with_checks(
    [LinkDistClassifier(device="cpu", epochs=60, held_out=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture
def few(planted):
    """The planted graph with six labels a class, and what is hidden."""
    y = planted.labels.astype(object)
    y[12:] = None
    return planted, y


def quick(**options):
    return LinkDistClassifier(**{"epochs": 5, "device": "cpu", "random_state": 0, **options})


def test_it_teaches_itself_unless_asked_otherwise():
    assert LinkDistClassifier().get_params() == {
        **{"method": "selflinkdist", "replicas": 1, "epochs": None, "held_out": None},
        **{"teachers": (), "budget": None, "device": "auto", "random_state": None},
        **{"hidden_size": 256, "batch_size": 1024, "learning_rate": None, "dropout": 0.5},
        **{"schedule": None, "class_weight": None, "metric": None, "hold_out_graphs": False},
    }


@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_library_underneath(few, method):
    graph, y = few
    model = quick(held_out=0, method=method).fit(graph.features, y, edges=graph.links)
    nothing = np.array([], dtype=int)
    seed = [0]
    split, options = Split(np.arange(12), nothing, nothing), {"epochs": 5, "device": "cpu"}
    plain = fit(graph, split, method=method, seeds=seed, held_out=0, **options)
    p = from_features(plain.model, graph.features)
    np.testing.assert_allclose(model.predict_proba(graph.features), p, atol=1e-6)
    p = with_links(plain.model, graph.features, graph.links)
    np.testing.assert_allclose(model.predict_proba(graph.features, edges=graph.links), p, atol=1e-6)
    assert model.alpha_ == plain.model.alpha.numpy()
    assert model.history_ == {}


FORMS = {
    "list": lambda x: x.tolist(),
    "csr": sparse.csr_matrix,
    "pandas": pd.DataFrame,
    "arrow": lambda x: pa.table({f"f{i}": column for i, column in enumerate(x.T)}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_features_come_in_every_form(few, form):
    graph, y = few
    x = FORMS[form](graph.features)
    # SelfLinkDist's teachers read CSR as words, by rows of unit length, and dense as columns.
    method = "colinkdist" if form == "csr" else "selflinkdist"
    p = quick(method=method).fit(x, y, edges=graph.links).predict_proba(x)
    dense = quick(method=method).fit(graph.features, y, edges=graph.links)
    expected = dense.predict_proba(graph.features)
    np.testing.assert_allclose(p, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("unknown", "classes"),
    [(None, ["no", "yes"]), (np.nan, [0.0, 1.0]), (-1, [3, 7]), (pd.NA, ["no", "yes"])],
)
def test_unknown_labels_are_said_in_every_way(few, unknown, classes):
    graph, _ = few
    values = [classes[label] if i < 12 else unknown for i, label in enumerate(graph.labels)]
    y = values if isinstance(classes[0], str) else np.array(values)
    model = quick().fit(graph.features, y, edges=graph.links)
    assert model.classes_.tolist() == classes
    assert set(model.predict(graph.features)) <= set(classes)
    known = model.predict(graph.features[:12])
    assert model.score(graph.features, y) == np.mean(known == np.array(values[:12]))


def test_links_speak_of_a_tables_index(few):
    graph, y = few
    names = [f"node {i}" for i in range(graph.n)]
    table = pd.DataFrame(graph.features, index=names)
    links = [(names[a], names[b]) for a, b in graph.links]
    p = quick().fit(table.to_numpy(), y, edges=links, nodes=names).predict_proba(graph.features)
    table.columns = [f"f{i}" for i in range(graph.d)]
    same = quick().fit(table, y, edges=links).predict_proba(table)
    np.testing.assert_array_equal(p, same)


def test_replicas_are_averaged_and_their_disagreement_is_counted(few):
    graph, y = few
    model = quick(replicas=3, epochs=1).fit(graph.features, y, edges=graph.links)
    z = []
    for r in range(3):
        with torch.no_grad():
            from linkdist.model import logits
            from linkdist.nn.inputs import make_inputs

            both = logits(model.model_.network, make_inputs(graph.features, torch.device("cpu")))
            z.append(both[0][r].softmax(-1).numpy())
    np.testing.assert_allclose(model.predict_proba(graph.features), np.mean(z, 0), atol=1e-6)
    together = np.mean(z, 0).argmax(1)
    apart = np.mean([p.argmax(1) != together for p in z], axis=0)
    np.testing.assert_allclose(model.disagreement(graph.features), apart, atol=1e-6)
    assert model.history_["features"].shape == (1, 5)  # one evaluation of five folds
    assert model.disagreement(graph.features, edges=graph.links).shape == (graph.n,)


def test_validation_nodes_choose_and_do_not_teach(few):
    graph, _ = few
    y = graph.labels
    mask = np.arange(graph.n) >= 30
    a = quick().fit(graph.features, y, edges=graph.links, validation=mask)
    b = quick().fit(graph.features, y, edges=graph.links, validation=np.arange(30, 60))
    x = graph.features
    np.testing.assert_array_equal(a.predict_proba(x), b.predict_proba(x))
    assert a.history_["features"].max() == a.score(x[30:], y[30:])


def test_links_help(planted):
    """Far more is linked within the groups than between, and the features say little."""
    y = np.where(np.arange(60) < 12, planted.labels, -1)
    options = {"device": "cpu", "random_state": 0, "held_out": 0}
    linked = LinkDistClassifier(**options).fit(planted.features, y, edges=planted.links)
    alone = LinkDistClassifier(**options).fit(planted.features, y)
    x, truth = planted.features[12:], planted.labels[12:]
    assert linked.score(x, truth) >= alone.score(x, truth)
    whole = linked.predict(planted.features, edges=planted.links)
    assert np.mean(whole == planted.labels) > 0.8


def test_a_node_without_links_teaches_too():
    x = np.array([[0.0], [0.1], [5.0], [5.1]])
    graph = quick(epochs=60, held_out=0).fit(x, ["a", "a", "b", "b"], edges=[(0, 1)])
    assert graph.predict([[5.05]]) == ["b"]


def test_pipelines_cross_validation_and_grid_search(planted):
    """Rows are named, so that a fold comes with the links among its nodes."""
    nodes = np.arange(planted.n)
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            quick()
            .set_fit_request(edges=True, nodes=True)
            .set_score_request(edges=True, nodes=True)
        )
        pipeline = make_pipeline(StandardScaler(), model)
        params = {"edges": planted.links.T, "nodes": nodes}
        scores = cross_val_score(
            pipeline, planted.features, planted.labels, cv=3, params=params, error_score="raise"
        )
        assert scores.shape == (3,)
        search = GridSearchCV(
            pipeline, {"linkdistclassifier__method": list(METHODS)}, cv=2,
            error_score="raise",
        )  # fmt: skip
        search.fit(planted.features, planted.labels, **params)
        assert search.best_score_ > 0.5


def test_partial_fit_follows_what_arrives(planted):
    """Two halves one after the other, against nothing of the second."""
    links = planted.links
    half = (links < 30).all(axis=1)
    x, y = planted.features, planted.labels
    model = quick(epochs=30).partial_fit(x[:30], y[:30], edges=links[half], classes=[0, 1])
    before = model.predict_proba(x)
    model.partial_fit(x, y, edges=links)
    assert not np.allclose(before, model.predict_proba(x))
    assert model.score(x, y) > 0.8


def test_pyg_data_goes_in_and_predictions_come_out(planted):
    mask = np.arange(60) < 20
    data = SimpleNamespace(
        x=torch.from_numpy(planted.features),
        edge_index=torch.from_numpy(planted.edges.T.copy()),
        y=torch.from_numpy(planted.labels),
        train_mask=torch.from_numpy(mask),
        val_mask=torch.from_numpy(~mask & (np.arange(60) < 40)),
    )
    model = LinkDistClassifier.from_pyg(data, epochs=5, device="cpu", random_state=0)
    y = np.where(np.arange(60) < 40, planted.labels, -1)
    same = quick().fit(planted.features, y, edges=planted.edges, validation=np.arange(20, 40))
    np.testing.assert_array_equal(
        model.predict_pyg(data), same.predict(planted.features, edges=planted.edges)
    )
    np.testing.assert_array_equal(
        model.predict_pyg(data, with_links=False), same.predict(planted.features)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "replicas must be a whole number from 1; found 0"),
        ({"held_out": 1.0}, "held_out must be from 0 to below 1; found 1.0"),
        ({"method": "gcn"}, "unknown method 'gcn'"),
        ({"epochs": 0}, "epochs must be 1 or more"),
    ],
)
def test_bad_options_are_refused(planted, options, message):
    with pytest.raises(OptionError, match=message):
        quick(**options).fit(planted.features, planted.labels, edges=planted.links)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([None] * 60, "more than one class; found no label at all"),
        (["a"] * 60, "more than one class; found 'a'"),
        ([0, 1], "found 2"),
    ],
)
def test_bad_labels_are_refused(planted, y, message):
    with pytest.raises((GraphError, ValueError), match=message):
        quick().fit(planted.features, y, edges=planted.links)


def test_links_outside_the_rows_are_refused(planted):
    with pytest.raises(GraphError, match=r"links must be pairs of nodes 0\.\.59"):
        quick().fit(planted.features, planted.labels, edges=[(0, 99)])


def test_a_class_that_comes_late_is_refused(planted):
    model = quick().partial_fit(planted.features, planted.labels, edges=planted.links)
    with pytest.raises(GraphError, match="call fit again"):
        model.partial_fit(planted.features, planted.labels + 5, edges=planted.links)


def test_the_same_seed_gives_the_same_model(planted):
    a, b = (
        quick(replicas=2).fit(planted.features, planted.labels, edges=planted.links)
        for _ in range(2)
    )
    np.testing.assert_array_equal(
        a.predict_proba(planted.features), b.predict_proba(planted.features)
    )


# Tables, class weights and model directories.


@pytest.fixture
def frame(few):
    """The planted graph as a table with text and missing values."""
    graph, y = few
    table = pd.DataFrame(graph.features[:, :2], columns=["a", "b"])
    table["word"] = np.where(graph.labels > 0, "odd", "even")
    table.loc[::5, "a"], table.loc[::7, "word"] = None, None
    return table, y, graph.links


def test_a_table_has_the_features_of_its_encoder(frame):
    table, y, links = frame
    model = quick(method="linkdist").fit(table, y, edges=links)
    encoder = TableEncoder().fit(table)
    same = quick(method="linkdist").fit(encoder.transform(table), y, edges=links)
    x = encoder.transform(table)
    np.testing.assert_array_equal(model.predict_proba(table), same.predict_proba(x))
    assert model.feature_names_in_.tolist() == ["a", "b", "word"]
    turned = table.head(3)[["word", "b", "a"]]
    expected = model.predict_proba(table)[:3]
    np.testing.assert_allclose(model.predict_proba(turned), expected, atol=1e-6)
    with pytest.raises(TableError, match="unknown column 'word'"):
        model.predict(table[["a", "b"]])
    assert same.encoder_ is None


@pytest.mark.parametrize("weight", [{0: 3.0, 1: 0.5}, {1: 4.0}, "balanced"])
def test_class_weights_are_factors_of_the_probabilities(planted, weight):
    y = np.where(np.arange(60) < 12, planted.labels, -1)
    y[1] = y[3] = -1  # six labels of the first class, four of the second
    w = {"balanced": np.array([10 / 12, 10 / 8])}.get(str(weight))
    w = np.array([weight.get(0, 1.0), weight.get(1, 1.0)]) if w is None else w
    options = {"method": "linkdist", "held_out": 0, "replicas": 1}
    fitted = [
        quick(**options, class_weight=one).fit(planted.features, y, edges=planted.links)
        for one in (None, weight)
    ]
    plain, weighted = (one.predict_proba(planted.features) for one in fitted)
    expected = plain * w / (plain * w).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighted, expected, atol=1e-6)


@pytest.mark.parametrize("weight", [{0: -1.0}, {0: np.inf}, {7: 1.0}, "equal"])
def test_bad_class_weights_are_refused(planted, weight):
    model = quick(method="linkdist", epochs=1, held_out=0, class_weight=weight)
    with pytest.raises(OptionError, match="class_weight"):
        model.fit(planted.features, planted.labels, edges=planted.links)


def test_a_saved_classifier_predicts_the_same(frame, tmp_path):
    table, y, links = frame
    y = np.array(["no" if label == 0 else label and "yes" for label in y], dtype=object)
    model = quick(method="linkdist", class_weight="balanced").fit(table, y, edges=links)
    model.save(tmp_path / "model", id="name")
    back = load_model(tmp_path / "model")
    np.testing.assert_array_equal(back.predict_proba(table), model.predict_proba(table))
    names = [f"n{i}" for i in range(len(table))]
    ends = {"from": [names[a] for a, _ in links], "to": [names[b] for _, b in links]}
    found = back.predict_proba(table.assign(name=names), ends)
    np.testing.assert_allclose(found, model.predict_proba(table, edges=links), atol=1e-6)
    assert back.classes == tuple(model.classes_)


def test_a_classifier_of_arrays_is_saved_for_python(few, tmp_path):
    graph, y = few
    model = quick(method="linkdist").fit(graph.features, y, edges=graph.links)
    model.save(tmp_path / "model")
    back = load_model(tmp_path / "model")
    found = from_features(back.model, graph.features)
    np.testing.assert_array_equal(found, model.predict_proba(graph.features))
    with pytest.raises(ModelError, match="was not trained on a table"):
        back.predict(pd.DataFrame(graph.features))


def test_sample_weight_of_one_changes_nothing_and_of_zero_hides_a_label(few):
    graph, y = few
    ones = np.ones(graph.n)
    plain = quick(held_out=0).fit(graph.features, y, edges=graph.links)
    even = quick(held_out=0).fit(graph.features, y, ones, edges=graph.links)
    np.testing.assert_allclose(
        plain.predict_proba(graph.features), even.predict_proba(graph.features), atol=1e-5
    )
    hidden, weights = y.copy(), ones.copy()
    hidden[0], weights[0] = None, 0.0
    without = quick(held_out=0).fit(graph.features, hidden, edges=graph.links)
    zero = quick(held_out=0).fit(graph.features, y, weights, edges=graph.links)
    np.testing.assert_allclose(
        without.predict_proba(graph.features), zero.predict_proba(graph.features), atol=1e-5
    )


def test_a_heavier_label_pulls_predictions_towards_its_class():
    """Two labels of different classes at the same place: the heavier one wins there."""
    x, edges = np.zeros((60, 1), dtype=np.float32), np.empty((0, 2), dtype=int)
    y = np.array(["a", "b", *[None] * 58], dtype=object)
    for heavy, label in (("first", "a"), ("second", "b")):
        weights = np.ones(60)
        weights[["first", "second"].index(heavy)] = 9
        model = quick(held_out=0, epochs=20).fit(x, y, weights, edges=edges)
        assert (model.predict(x) == label).all()


def test_sample_weight_is_refused_in_words(few):
    graph, y = few
    with pytest.raises(OptionError, match="sample_weight must contain numbers from 0"):
        quick().fit(graph.features, y, -np.ones(graph.n), edges=graph.links)
    with pytest.raises(OptionError, match="sample_weight is for selflinkdist"):
        quick(method="linkdist").fit(graph.features, y, np.ones(graph.n), edges=graph.links)
