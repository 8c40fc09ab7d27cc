"""Compare the outputs of an ONNX file with those of its model."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.artifacts.manifest import OUTPUTS
from linkdist.artifacts.model_dir import Saved
from linkdist.data.graph import FeatureMatrix
from linkdist.model import from_features, logits
from linkdist.nn.inputs import make_inputs

PIECE = 4096
"""Number of rows that are compared at once."""

Array: TypeAlias = npt.NDArray[Any]
Untyped: TypeAlias = Any
"""An object of an optional package, or of one without types."""


def largest_difference(
    runtime: Untyped, content: bytes, saved: Saved, features: FeatureMatrix, feed: dict[str, Array]
) -> float:
    """The largest difference between the outputs of an ONNX file and of its model, of all heads.

    Parameters
    ----------
    runtime : module
        ONNX Runtime.
    content : bytes
        The file.
    saved : Saved
        The model.
    features : (n, d) array or CSR matrix
        The features of n nodes.
    feed : dict of str to array
        The inputs of the file for the same nodes.
    """
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    largest = 0.0
    for start in range(0, features.shape[0], PIECE):
        here = slice(start, start + PIECE)
        piece = {name: dense(values[here]) for name, values in feed.items()}
        found = session.run(names, piece)
        expected = _expected(saved, features[here])
        for name, values in zip(names, found, strict=True):
            difference = np.abs(values - expected[name]) / _scale(expected[name], saved.model.task)
            # Unlike Python's, this maximum keeps NaN.
            largest = float(np.maximum(largest, difference.max()))
    return largest


def _scale(values: Array, task: str) -> Array:
    """What differences are compared with: numbers may have any unit, and be far from 0."""
    size = np.abs(values)
    if task != "regression":
        return np.maximum(size, 1)
    scale = max(np.ptp(values), size.max() / 50)
    return np.array(scale if scale > 0 else 1)


def _expected(saved: Saved, features: FeatureMatrix) -> dict[str, Array]:
    model = saved.model
    z, s = logits(model.network, make_inputs(features, model.alpha.device))
    own = model.output.natural(z).transpose(0, 1)  # (n, R, C)
    beside = model.output.natural(s).permute(2, 1, 0, 3)  # (n, R, K, C)
    beside = beside.squeeze(2) if len(s) == 1 else beside
    parts = (from_features(model, features), own.cpu().numpy(), beside.cpu().numpy())
    return dict(zip(OUTPUTS[model.task], parts, strict=True))


def dense(values: Untyped) -> Array:
    """A sparse matrix as an array, or an array that is contiguous.

    Examples
    --------
    >>> dense(sparse.csr_matrix([[0, 2]])).tolist()
    [[0, 2]]
    """
    return values.toarray() if sparse.issparse(values) else np.ascontiguousarray(values)
