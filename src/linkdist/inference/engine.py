"""A loaded model, run by ONNX Runtime.

An engine is loaded from a model directory once and never changes; a new model is a new engine. The
ONNX file returns the outputs of all heads: log-probabilities, log-odds or numbers. With links the
prediction is f(κ · own_i + Σ_k α_k · mean_j neighbour_kj), averaged over replicas, as in
`linkdist.artifacts.onnx`; k is a neighbour head, and f is softmax, sigmoid or the identity. A node
without links is predicted from its features.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

from linkdist.artifacts.manifest import (
    AGAIN,
    HEADER,
    INVALID,
    ONNX,
    OUTPUTS,
    Header,
    read_header,
)
from linkdist.data import sparse
from linkdist.data.graph import FeatureMatrix, FloatArray, IntArray
from linkdist.data.links import Edges, Links
from linkdist.errors import ModelError
from linkdist.inference.heads import Heads
from linkdist.inference.onnx_file import has_external_data
from linkdist.tables.prediction_columns import PredictionColumns

CHUNK = 4096
"""Rows that are made dense and computed at once."""


class Engine:
    """A loaded model.

    Parameters
    ----------
    directory : Path
        A model directory.

    Raises
    ------
    ModelError
        If the directory is not a model, its columns need a text encoder, or its network does not
        return predictions.

    Attributes
    ----------
    name : str
        The name of the directory.
    header : Header
        The header of the model.
    columns : PredictionColumns
        Turns probabilities and numbers into labels and intervals.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.name = self.directory.name
        header = read_header(self.directory, [ONNX])
        _check_columns(header)
        content = header.files.get(ONNX)
        self._session = _session(_export(self.directory) if content is None else content)
        self.header: Header = replace(header, files={})  # ONNX Runtime has its own copy
        self.columns = _prediction_columns(self.directory, header)
        self._check()

    def probabilities(
        self, features: FeatureMatrix, links: IntArray | Links | None = None
    ) -> FloatArray:
        """Predict class probabilities, or numbers (n, 1), from features or with links.

        Parameters
        ----------
        features : (n, d) float32 array or CSR matrix
            The features of n nodes.
        links : (m, 2) array of int or Links, optional
            Links with the relations of the model. Duplicates and self-loops do not count.

        Returns
        -------
        (n, C) float32 array
            Rows of class probabilities sum to 1.
        """
        links = links if isinstance(links, Links) or links is None else Links(links)
        if links is None or not len(links.pairs):
            return self._run(OUTPUTS[self.header.task][:1], features)[0]
        return self.with_links([self.outputs(features)], links)

    def outputs(self, features: FeatureMatrix) -> tuple[FloatArray, FloatArray]:
        """Outputs of the own head (n, R, C), and of the neighbour heads (n, R, C) or (n, R, K, C).

        They are what `with_links` combines: log-probabilities, log-odds or numbers.
        """
        own, beside = self._run(OUTPUTS[self.header.task][1:], features)
        return own, beside

    def with_links(
        self, outputs: Sequence[tuple[FloatArray, FloatArray]], links: Links
    ) -> FloatArray:
        """Predict n nodes with links, (n, C), from the `outputs` of one or more batches of them."""
        header = self.header
        own, beside = (np.concatenate(part) for part in zip(*outputs, strict=True))
        n, R, C = own.shape
        beside = beside.reshape(n, R, -1, C)
        edges = links.merged(n).edges()
        share, around = np.zeros((n, R, 1), np.float32), np.zeros_like(own)
        for k, alpha in enumerate(header.alpha.T):  # (R,)
            mean = _mean_of_neighbours(edges.of_head(k), n)
            around += alpha[:, None] * (mean @ beside[:, :, k].reshape(n, -1)).reshape(n, R, C)
            share += alpha[:, None] * (np.diff(mean.indptr) > 0)[:, None, None]
        total = header.alpha.sum(axis=1)[:, None]
        share /= np.where(total > 0, total, 1)
        scores = (share * header.own[:, None] + 1 - share) * own + around
        p: FloatArray = _mean(scores, header.task).mean(axis=1, dtype=np.float32)
        return p

    @property
    def heads(self) -> Heads:
        """What explanations need."""
        header = self.header
        return Heads(self.outputs, header.alpha, header.own, header.task)

    def _run(self, outputs: Sequence[str], features: FeatureMatrix) -> list[FloatArray]:
        """Compute outputs in chunks, so that few rows are dense at once."""
        parts = []
        for start in range(0, max(1, features.shape[0]), CHUNK):
            part: Any = features[start : start + CHUNK]
            dense = part.toarray() if sparse.issparse(part) else part
            x = np.ascontiguousarray(dense, dtype=np.float32)
            parts.append(self._session.run(outputs, {"features": x}))
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _check(self) -> None:
        """Predict two rows, before this model replaces another."""
        shape = self.header.shape
        try:
            relation = np.zeros(1, np.int64) if len(self.header.relations) > 1 else None
            names = (self.header.relations, self.header.directed)
            links = Links(np.array([[0, 1]]), relation, None, *names)
            p = self.probabilities(np.zeros((2, shape.features), np.float32), links)
        except Exception as error:  # whatever ONNX Runtime raises
            raise ModelError(f"{self.directory / ONNX} does not run: {error}") from error
        sums = self.header.task != "classification" or np.allclose(p.sum(axis=1), 1, atol=1e-3)
        if p.shape != (2, shape.classes) or not np.isfinite(p).all() or not sums:
            raise ModelError(
                f"{self.directory / ONNX} does not return predictions of {shape.classes} "
                "classes or numbers. Train the model again."
            )


def _check_columns(header: Header) -> None:
    encoders = () if header.encoders is None else header.encoders.columns
    names = ", ".join(repr(one.name) for one in encoders if one.kind == "embedding")
    if names:
        raise ModelError(
            f"a service cannot encode column {names}, because the text encoder is not in the model "
            "directory; predict in Python: linkdist.load_model(directory, text_encoder=...)."
        )


def _prediction_columns(directory: Path, header: Header) -> PredictionColumns:
    try:
        return PredictionColumns.of({**header.about, "task": header.task}, header.classes)
    except INVALID as error:
        raise ModelError(f"{directory / HEADER} was changed: {error}. {AGAIN}") from error


def _session(content: bytes) -> Any:  # noqa: ANN401
    options = onnxruntime.SessionOptions()
    # Requests are many and small: several threads would cost more time than they save.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        if has_external_data(content):
            raise ModelError("its weights are in other files, which are not read")
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever ONNX Runtime raises
        raise ModelError(f"{ONNX} is not an ONNX file that runs here: {error}") from error


def _export(directory: Path) -> bytes:
    """Export a model that was saved without an ONNX file, in a process that imports PyTorch."""
    if find_spec("torch") is None:
        raise ModelError(
            f"{directory} has no {ONNX}, and PyTorch, which creates it, is not installed here; "
            "where 'linkdist[onnx]' is installed, train the model again or run: python -c "
            f"\"import linkdist; linkdist.load_model('{directory.name}').save("
            f"'{directory.name}', force=True)\"."
        )
    code = (
        "import sys; from pathlib import Path; from linkdist.artifacts.onnx import export_onnx; "
        "from linkdist.artifacts.model_dir import load_model; "
        "export_onnx(load_model(sys.argv[1]), sys.argv[2], with_neighbour_head=True, raw=False)"
    )
    with TemporaryDirectory() as folder:
        file = Path(folder, ONNX)
        # With -P, modules are not imported from the current directory.
        command = [sys.executable, "-P", "-c", code, str(directory), str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ModelError(f"{directory} has no {ONNX}, and the export failed: {reason}")
        return file.read_bytes()


def _mean(scores: FloatArray, task: str) -> FloatArray:
    """Probabilities or numbers from what was added up."""
    if task == "regression":
        return scores
    if task == "multilabel":
        odds = np.exp(-np.abs(scores))  # at most 1, so that no score is too large
        shares: FloatArray = np.where(scores < 0, odds, 1) / (1 + odds)
        return shares
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mean: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return mean


def _mean_of_neighbours(edges: Edges, n: int) -> sparse.csr_matrix:
    """The (n, n) matrix that averages over neighbours; the row of a node without links is empty."""
    proper = edges.take(edges.pairs[:, 0] != edges.pairs[:, 1])
    i, j = proper.pairs.T
    weights = np.ones(len(i)) if proper.weights is None else proper.weights
    shares = (weights / np.bincount(i, weights, minlength=n)[i]).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    return sparse.csr_matrix((shares, j, starts), shape=(n, n))  # edges are sorted by node
