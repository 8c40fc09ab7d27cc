"""The three ways in: a command on CSV files, `linkdist.train` and `LinkDistClassifier` on frames.

They train on the same data with the same seed, so they predict the same.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import linkdist
from linkdist import LinkDistClassifier

METHODS = {"linkdist": {"epochs": 2}, "selflinkdist": {"epochs": 1, "held_out": 0}}


@pytest.fixture
def frames():
    """Nodes with text and missing values, half of them without a label, and links."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    nodes = pd.DataFrame(
        {
            "paper": [f"P{i}" for i in range(60)],
            "title": [f"{'art' if i % 2 else 'graphs'} and {i} links" for i in range(60)],
            "venue": random.choice(["a", "b", None], 60),
            "year": random.normal(size=60).round(3) + y,
            "field": np.where(np.arange(60) < 30, np.array(["math", "art"])[y], None),
        }
    )
    nodes.loc[3, "title"], nodes.loc[::6, "year"] = None, None
    ends = random.integers(0, 60, (150, 2))
    ends = ends[(y[ends[:, 0]] == y[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])]
    return nodes, pd.DataFrame(nodes.paper.to_numpy()[ends], columns=["from", "to"])


@pytest.mark.parametrize("method", METHODS)
def test_three_walks_end_at_the_same_predictions(command, frames, tmp_path, method):
    nodes, links = frames
    options = {"method": method, "hidden_size": 16, "device": "cpu", **METHODS[method]}

    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    links.to_csv(tmp_path / "links.csv", index=False)
    names = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    tables = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "links.csv")
    columns = ("--id", "paper", "--label", "field", "--seed", 3, "--out", tmp_path / "cli")
    code, _, err = command("train", *tables, *columns, *(part for pair in names for part in pair))
    assert code == 0, err
    new, out = tmp_path / "nodes.csv", tmp_path / "predicted.csv"
    code, _, err = command("predict", tmp_path / "cli", new, "--out", out, "--device", "cpu")
    assert code == 0, err
    predicted = pd.read_csv(out)
    by_command = predicted[["p_art", "p_math"]].to_numpy()

    trained = linkdist.train(nodes, links, id="paper", label="field", seed=3, **options)

    table = nodes.set_index("paper")
    X, y = table.drop(columns="field"), table["field"]
    model = LinkDistClassifier(random_state=3, **options).fit(X, y, edges=links)
    model.save(tmp_path / "classifier", id="paper", label="field")
    loaded = linkdist.load_model(tmp_path / "classifier")

    expected = trained.predict_proba(nodes)
    assert predicted.label.tolist() == trained.predict(nodes).tolist()
    np.testing.assert_allclose(by_command, expected, atol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(loaded.predict_proba(nodes), expected)
    expected = trained.predict_proba(nodes, links)
    np.testing.assert_allclose(model.predict_proba(X, edges=links), expected, atol=1e-6)
    np.testing.assert_array_equal(loaded.predict_proba(nodes, links), expected)
