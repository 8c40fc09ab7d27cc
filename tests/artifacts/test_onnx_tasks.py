"""ONNX files of every task, with relations, directions and weights.

Oracles: the model itself; message passing by NumPy loops over the links, from the file's outputs.
"""

import json

import numpy as np
import pytest
import torch

from linkdist.artifacts.model_dir import Saved
from linkdist.artifacts.onnx import export_onnx
from linkdist.artifacts.onnx_graph import network as onnx_network
from linkdist.errors import ModelError
from linkdist.model import shifted
from tests.task_models import RELATIONS, TASKS, about_task, random_links, task_model

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

NAMES = {
    "classification": ["probabilities", "own_log_probabilities", "neighbour_log_probabilities"],
    "multilabel": ["probabilities", "own_log_odds", "neighbour_log_odds"],
    "regression": ["value", "own_value", "neighbour_value"],
}


def features(n=9):
    return np.random.default_rng(3).normal(size=(n, 4)).astype(np.float32)


def final(score, task):
    """What the documentation calls f."""
    if task == "classification":
        score = np.exp(score - score.max(-1, keepdims=True))
        return score / score.sum(-1, keepdims=True)
    return 1 / (1 + np.exp(-score)) if task == "multilabel" else score


@pytest.fixture(params=[(task, relations, directed)
                        for task in TASKS
                        for relations in (("links",), RELATIONS)
                        for directed in (False, True)], ids=str)  # fmt: skip
def exported(request, tmp_path):
    task, relations, directed = request.param
    saved = Saved(task_model(task, relations, directed), about=about_task(task))
    path = tmp_path / "model.onnx"
    assert export_onnx(saved, path, with_neighbour_head=True, rows=features()) < 1e-5
    return saved, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def read_metadata(session):
    found = session.get_modelmeta().custom_metadata_map
    return {key: json.loads(value) for key, value in found.items()}


def test_outputs_have_documented_names_and_shapes(exported):
    saved, session = exported
    (R, K), C = saved.model.alpha.shape, len(saved.model.classes)
    found = {output.name: output.shape for output in session.get_outputs()}
    heads = [K] if K > 1 else []
    shapes = [["n", C], ["n", R, C], ["n", R, *heads, C]]
    assert found == dict(zip(NAMES[saved.model.task], shapes, strict=True))


def test_predictions_from_features_agree(exported):
    saved, session = exported
    (found,) = session.run(NAMES[saved.model.task][:1], {"features": features()})
    np.testing.assert_allclose(found, saved.model.predict_proba(features()), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_with_links_can_be_made_from_the_outputs(exported, weighted):
    saved, session = exported
    model, content, n = saved.model, read_metadata(session), 9
    links = random_links(n, model.relations, model.directed, weighted)
    _, own, beside = session.run(None, {"features": features(n)})
    R, C = own.shape[1:]
    beside = beside.reshape(n, R, -1, C)
    alpha = np.array(content["alpha"]).reshape(R, -1)
    assert content["directed"] == model.directed
    assert content["relations"] == list(model.relations)
    # The weight of each neighbour j of i for each head, summed over duplicates.
    weights = np.zeros((alpha.shape[1], n, n))
    relation = np.zeros(len(links.pairs), int) if links.relation is None else links.relation
    given = np.ones(len(links.pairs)) if links.weights is None else links.weights
    for (a, b), r, w in zip(links.pairs.tolist(), relation, given, strict=True):
        if a != b:
            out, back = (2 * r, 2 * r + 1) if model.directed else (r, r)
            for head, i, j in ((out, a, b), (back, b, a)):
                weights[head, i, j] = weights[head, i, j] + w if weighted else 1
    scores = np.zeros_like(own)
    for i in range(n):
        linked = weights[:, i].sum(axis=1) > 0  # (K,)
        for r in range(R):
            share = alpha[r, linked].sum() / alpha[r].sum()
            kappa = share * content["own"][r] + (1 - share)
            scores[i, r] = kappa * own[i, r]
            for head in np.flatnonzero(linked):
                mean = weights[head, i] @ beside[:, r, head] / weights[head, i].sum()
                scores[i, r] += alpha[r, head] * mean
    expected = model.predict_proba(features(n), links)
    np.testing.assert_allclose(final(scores, model.task).mean(1), expected, rtol=1e-5, atol=1e-5)
    alone = model.predict_proba(features(n))[-1]
    np.testing.assert_allclose(expected[-1], alone, atol=1e-6, err_msg="a node without links")


def test_the_metadata_has_task_and_decision(exported):
    saved, session = exported
    content = read_metadata(session)
    assert content["task"] == saved.model.task
    assert content["decision"] == saved.about.get("decision", {})
    assert np.shape(content["alpha"]) == tuple(
        size for size in saved.model.alpha.shape if size > 1 or size == saved.model.alpha.shape[0]
    )


def test_an_infinite_width_is_null_in_the_metadata(tmp_path):
    about = {"decision": {"widths": {"features": float("inf"), "links": 1.0}}}
    export_onnx(Saved(task_model("regression"), about=about), tmp_path / "model.onnx")
    content = read_metadata(onnxruntime.InferenceSession(tmp_path / "model.onnx"))
    assert content["decision"]["widths"] == {"features": None, "links": 1.0}


UNITS = [(1.0, 0.0), (2e5, 5e5), (1e-6, 0.0), (1.0, 3e3), (1e6, -4e6)]
"""The scale and the mean of numbers."""


@pytest.mark.parametrize(("scale", "mean"), UNITS)
def test_numbers_may_have_any_unit(tmp_path, scale, mean):
    model = shifted(task_model("regression"), torch.tensor([mean]), scale)
    saved, path = Saved(model), tmp_path / "model.onnx"
    assert export_onnx(saved, path, with_neighbour_head=True) < 1e-4
    (found,) = onnxruntime.InferenceSession(path).run(["value"], {"features": features()})
    expected = model.predict_proba(features())
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("scale", "mean"), UNITS)
def test_wrong_numbers_are_found_in_any_unit(tmp_path, monkeypatch, scale, mean):
    class Broken(onnx_network.Folded):
        def __init__(self, network, head=None):
            super().__init__(network, head)
            self.third[1] = self.third[1] + 0.1 * scale
            self.requires_grad_(False)

    monkeypatch.setattr(onnx_network, "Folded", Broken)
    model = shifted(task_model("regression"), torch.tensor([mean]), scale)
    with pytest.raises(ModelError, match="differ from the model's"):
        export_onnx(Saved(model), tmp_path / "model.onnx")
