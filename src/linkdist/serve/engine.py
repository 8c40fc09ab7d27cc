"""A model that is ready to answer, on ONNX Runtime.

An engine is read from a model directory once and never changes; a new model is a new engine. Its
ONNX file gives log-probabilities of both heads, from which links are combined here as the paper
has it: softmax(κ · own_i + α · mean_j neighbour_j), the mean over replicas. A node without links
is predicted from its features.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from scipy import sparse

from linkdist.artifacts.manifest import CURVE, ONNX, REPORT, Header, read_header
from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.errors import ModelError

PIECE = 4096
"""Rows that are made dense and computed at once."""

OUTPUTS = ("own_log_probabilities", "neighbour_log_probabilities")

Links = npt.NDArray[np.int64]


class Engine:
    """A model that is ready to answer.

    Parameters
    ----------
    directory : Path
        A model directory.

    Raises
    ------
    ModelError
        If the directory is no model, or its network gives no probabilities.

    Attributes
    ----------
    name : str
        The directory's.
    header : Header
        What it says of itself.
    loaded : datetime
        When.
    extras : mapping of str to bytes
        The curve and the report, where the directory has them.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.name = self.directory.name
        self.header: Header = read_header(self.directory)
        self.loaded = datetime.now(UTC)
        self.extras = _extras(self.directory)
        content = self.header.files.get(ONNX)
        self._session = _session(_made(self.directory) if content is None else content)
        self._check()

    def probabilities(self, features: FeatureMatrix, links: Links | None = None) -> FloatArray:
        """Class probabilities of nodes, from features or with links.

        Parameters
        ----------
        features : (n, d) float32 array or CSR matrix
            A row a node.
        links : (m, 2) array of int, optional
            Pairs of linked nodes; a pair counts once, in both directions.

        Returns
        -------
        (n, C) float32 array
            Rows sum to 1.
        """
        if links is None or not len(links):
            return np.concatenate([self._run(["probabilities"], x)[0] for x in _pieces(features)])
        parts = [self._run(OUTPUTS, x) for x in _pieces(features)]
        own, neighbour = (np.concatenate(part) for part in zip(*parts, strict=True))  # (n, R, C)
        n, R, C = own.shape
        mean = _mean_of_neighbours(links, n)
        said = (mean @ neighbour.reshape(n, -1)).reshape(n, R, C)
        linked = (np.diff(mean.indptr) > 0)[:, None, None]
        both = self.header.own[:, None] * own + self.header.alpha[:, None] * said
        scores = np.where(linked, both, own)
        p: FloatArray = _softmax(scores).mean(axis=1, dtype=np.float32)
        return p

    def _run(self, outputs: Any, x: FloatArray) -> list[FloatArray]:  # noqa: ANN401
        found: list[FloatArray] = self._session.run(list(outputs), {"features": x})
        return found

    def _check(self) -> None:
        """One row through the network, before it takes anyone's place."""
        shape = self.header.shape
        try:
            p = self.probabilities(np.zeros((2, shape.features), np.float32), np.array([[0, 1]]))
        except Exception as error:  # whatever ONNX Runtime raises
            raise ModelError(f"{self.directory / ONNX} does not run: {error}") from error
        if p.shape != (2, shape.classes) or not np.allclose(p.sum(axis=1), 1, atol=1e-3):
            raise ModelError(
                f"{self.directory / ONNX} gives no probabilities of {shape.classes} classes. "
                "Train the model again."
            )


def _extras(directory: Path) -> dict[str, bytes]:
    there = [name for name in (CURVE, REPORT) if (directory / name).exists()]
    return {name: (directory / name).read_bytes() for name in there}


def _session(content: bytes) -> Any:  # noqa: ANN401
    options = onnxruntime.SessionOptions()
    # Requests are small and many: threads that wait for each other cost more than they bring.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever ONNX Runtime raises
        raise ModelError(f"{ONNX} is no ONNX file that runs here: {error}") from error


def _made(directory: Path) -> bytes:
    """The ONNX file of a model that was saved without one, made in a process that has PyTorch."""
    code = (
        "import sys; from pathlib import Path; from linkdist.artifacts.onnx import export_onnx; "
        "from linkdist.artifacts.model_dir import load; "
        "export_onnx(load(sys.argv[1]), sys.argv[2], with_neighbour_head=True, raw=False)"
    )
    with TemporaryDirectory() as folder:
        file = Path(folder, ONNX)
        asked = [sys.executable, "-c", code, str(directory), str(file)]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise ModelError(f"{directory} holds no {ONNX}, and none could be made: {last}")
        return file.read_bytes()


def _pieces(features: FeatureMatrix) -> list[FloatArray]:
    starts = range(0, max(1, features.shape[0]), PIECE)
    return [_dense(features[start : start + PIECE]) for start in starts]


def _dense(part: Any) -> FloatArray:  # noqa: ANN401
    dense = part.toarray() if sparse.issparse(part) else part
    return np.ascontiguousarray(dense, dtype=np.float32)


def _mean_of_neighbours(links: Links, n: int) -> sparse.csr_matrix:
    """(n, n), each row the mean over a node's neighbours; a row of zeros where there is none."""
    apart = links[links[:, 0] != links[:, 1]]
    i, j = np.unique(np.concatenate([apart, apart[:, ::-1]]), axis=0).T
    ones = np.ones(len(i), dtype=np.float32)
    joined = sparse.csr_matrix((ones, (i, j)), shape=(n, n))
    degree = np.maximum(np.asarray(joined.sum(axis=1)).ravel(), 1)
    mean: sparse.csr_matrix = sparse.diags_array((1 / degree).astype(np.float32)) @ joined
    return mean


def _softmax(scores: FloatArray) -> FloatArray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: FloatArray = e / e.sum(axis=-1, keepdims=True)
    return shares
