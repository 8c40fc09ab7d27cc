"""Models, rows and requests that several tests of the service use."""

import numpy as np
import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.tables.feature_encoder import make_feature_encoder

ROWS = [
    {"title": "photon theory of vacuum", "venue": "review", "year": 1974},
    {"title": "species and larva", "venue": "letters", "year": 1999},
    {"title": None, "venue": "nowhere", "year": 2010.5},
    {"year": "2001"},
]


def ask(client, rows=ROWS, **more):
    return client.post("/v1/predict", json={"rows": rows, **more})


def shares(answer):
    return np.array([list(one["probabilities"].values()) for one in answer.json()["predictions"]])


def vectors(path, classes=("a", "b")):
    encoders = make_feature_encoder({"v": "vector"})
    encoders.partial_fit(pa.record_batch({"v": [[0.0, 1.0, 2.0], [3.0, 1.0, 5.0]]}))
    network = Model(ForkedMLP(3, len(classes), [0]), torch.ones(1), tuple(classes))
    save_model(path, with_onnx(Saved(network, encoders, {"id": "node", "label": "kind"})))
    return path


def bare(path, replicas=2):
    network = ForkedMLP(4, 3, list(range(replicas)))
    alpha = torch.linspace(0.5, 1.5, replicas)
    saved = Saved(Model(network, alpha, ("a", "b", "c")))
    save_model(path, with_onnx(saved))
    return saved


KINDS = {"day": "date", "genre": "tags", "topics": "tags:binary", "price": "numeric", "v": "vector"}
SAMPLE = {
    "day": ["05/31/2004", "06/02/2010", "12/24/2007"],
    "genre": ["war|drama", "war", "love|war"],
    "topics": [["a", "b"], ["b"], ["c"]],
    "price": ["1.200,50 €", "3,5", "700"],
    "v": [[0.0, 1.0], [2.0, 1.5], [1.0, 1.0]],
}


def of_all_kinds(path, text_encoder=None):
    """A model of dates, tags, money with a decimal comma and vectors; optionally embedded text."""
    titles = {} if text_encoder is None else {"title": ["one", "two words", "three"]}
    sample = pa.table({**SAMPLE, **titles})
    encoders = make_feature_encoder(
        {**KINDS, **dict.fromkeys(titles, "text")}, sample, text_encoder
    )
    encoders.partial_fit(sample.to_batches()[0])
    network = Model(ForkedMLP(encoders.d, 2, [0]), torch.ones(1), ("no", "yes"))
    save_model(path, with_onnx(Saved(network, encoders, {"id": "node", "label": "liked"})))
    return path
