"""The regressor: scikit-learn's own checks, intervals, units, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from linkdist import LinkDistRegressor, fit, load_model
from linkdist.data.graph import Graph
from linkdist.data.splits import Split
from linkdist.errors import GraphError, OptionError
from linkdist.training.decisions import conformal_width

EXPECTED_FAILURES = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "a node that is there twice is two nodes of the graph, not one with twice the weight",
)


@parametrize_with_checks(
    [LinkDistRegressor(device="cpu", epochs=60, held_out=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def quick(**options):
    return LinkDistRegressor(**{"epochs": 5, "device": "cpu", "random_state": 0, **options})


@pytest.fixture(scope="module")
def ring():
    """A ring of nodes whose number is a smooth function of their place, far from 0."""
    random = np.random.default_rng(0)
    n = 120
    angle = 2 * np.pi * np.arange(n) / n
    x = np.stack([np.sin(angle), np.cos(angle)], axis=1) + 0.1 * random.normal(size=(n, 2))
    truth = 1000 + 50 * np.sin(angle)
    y = np.where(random.random(n) < 0.5, truth, np.nan)
    edges = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    return x.astype(np.float32), y, edges, truth


@pytest.fixture(scope="module")
def model(ring):
    x, y, edges, _ = ring
    return quick(epochs=30).fit(x, y, edges=edges)


def test_it_is_the_library_underneath(ring):
    x, y, edges, _ = ring
    plain = Graph.build(x, edges, y, ("value",), task="regression")
    nothing = np.array([], dtype=int)
    split = Split(np.flatnonzero(~np.isnan(y)), nothing, nothing)
    options = {"epochs": 5, "device": "cpu", "held_out": 0, "loss": "absolute"}
    expected = fit(plain, split, seeds=[0], **options).model
    found = quick(held_out=0, loss="absolute").fit(x, y, edges=edges)
    np.testing.assert_allclose(found.predict(x), expected.predict_proba(x)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(
        found.predict(x, edges=edges), expected.predict_proba(x, edges)[:, 0], rtol=1e-6
    )


def test_predictions_and_scores_are_in_the_units_of_y(model, ring):
    x, y, edges, truth = ring
    predicted = model.predict(x, edges=edges)
    assert predicted.shape == (120,)
    assert r2_score(truth, predicted) > 0.9
    known = ~np.isnan(y)
    assert model.score(x, y, edges=edges) == pytest.approx(r2_score(y[known], predicted[known]))
    weights = np.arange(120) + 1.0
    assert model.score(x, y, weights) == pytest.approx(
        r2_score(y[known], model.predict(x)[known], sample_weight=weights[known])
    )


def test_the_width_of_intervals_is_that_of_unseen_errors(ring):
    """With validation nodes in training, the errors on them can be computed again."""
    x, _, edges, truth = ring
    chosen = np.arange(0, 120, 3)
    found = quick().fit(x, truth, edges=edges, validation=chosen)
    for links in (None, edges):
        low, high = found.predict_interval(x, edges=links).T
        predicted = found.predict(x, edges=links)
        np.testing.assert_allclose((low + high) / 2, predicted, rtol=1e-6)
        width = conformal_width((truth - predicted)[chosen])
        np.testing.assert_allclose(high - low, 2 * width, rtol=1e-3)


def test_intervals_contain_most_unlabelled_numbers(model, ring):
    x, y, _, truth = ring
    low, high = model.predict_interval(x).T
    inside = (low <= truth) & (truth <= high)
    assert 0.8 < inside[np.isnan(y)].mean() <= 1
    assert (high - low < truth.max() - truth.min()).all()


def test_intervals_need_validation(ring):
    x, y, edges, _ = ring
    with pytest.raises(OptionError, match="need errors on validation labels"):
        quick(held_out=0).fit(x, y, edges=edges).predict_interval(x)


def test_minus_one_is_a_number():
    x = np.linspace(-1, 1, 40)[:, None]
    y = np.where(np.arange(40) < 20, -1.0, 1.0)
    model = quick(held_out=0, epochs=30).fit(x, y)
    np.testing.assert_allclose(model.predict(x[[0, -1]]), [-1, 1], atol=0.2)


@pytest.mark.parametrize("unknown", [None, np.nan, pd.NA])
def test_unknown_numbers_are_said_in_every_way(ring, unknown):
    x, y, edges, _ = ring
    values = [unknown if np.isnan(value) else value for value in y]
    same = quick(held_out=0).fit(x, values, edges=edges)
    expected = quick(held_out=0).fit(x, y, edges=edges)
    np.testing.assert_array_equal(same.predict(x), expected.predict(x))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["1.5", *[2.0] * 119], r"must contain numbers for a regression; row 0 has '1\.5', 1 in"),
        ([*[2.0] * 118, "high", "low"], "row 118 has 'high', 2 in total"),
        (np.full(120, "text"), "row 0 has 'text', 120 in total"),
        (np.full(120, np.inf), "finite numbers; 120 are infinite"),
        (np.full(120, np.nan), "labels that differ; found 0 labelled rows"),
        (np.full(120, 3.0), "labels that differ; found 120 labelled rows with 1 different"),
        (np.zeros((120, 2)), "one number for each node; found shape"),
        ([1.0, 2.0], "one entry for each node, 120; found 2"),
    ],
)
def test_bad_numbers_are_refused(ring, y, message):
    x, _, edges, _ = ring
    with pytest.raises(GraphError, match=message):
        quick().fit(x, y, edges=edges)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "unknown loss 'huber'; choose from squared, absolute"),
        ({"metric": "accuracy"}, "unknown metric for regression 'accuracy'"),
        ({"hold_out_graphs": True}, "hold_out_graphs needs several graphs"),
        ({"replicas": 0, "held_out": 2}, "replicas must .* held_out must"),
    ],
)
def test_bad_options_are_refused(ring, options, message):
    x, y, edges, _ = ring
    with pytest.raises(OptionError, match=message):
        quick(**options).fit(x, y, edges=edges)


def test_a_saved_regressor_predicts_the_same(ring, tmp_path):
    x, y, edges, _ = ring
    names = [f"n{i}" for i in range(len(x))]
    table = pd.DataFrame(x, columns=["a", "b"], index=names).assign(kind=["odd", "even"] * 60)
    links = np.array(names)[edges]
    weights = np.arange(1.0, 121.0)
    options = {"edges": links, "relation": ["r", "s"] * 60, "edge_weight": weights}
    model = quick(epochs=2).fit(table, y, directed=True, **options)
    model.save(tmp_path / "model", id="name", label="height", relation="type")
    back = load_model(tmp_path / "model")
    assert back.about["task"] == "regression"
    assert back.about["decision"] == model.decision_.as_json()
    assert (back.model.relations, back.model.directed) == (("r", "s"), True)
    new = table.assign(name=names)
    ends = {"from": links[:, 0], "to": links[:, 1], "type": ["r", "s"] * 60, "weight": weights}
    found = back.predict(new, pd.DataFrame(ends))
    np.testing.assert_allclose(found, model.predict(table, **options), rtol=1e-5)
    assert back.about["label"] == "height"
