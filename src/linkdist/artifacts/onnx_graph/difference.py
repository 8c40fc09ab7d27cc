"""Compare the outputs of an ONNX file with those of its model."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.artifacts.manifest import OUTPUTS
from linkdist.artifacts.model_dir import Saved
from linkdist.data.graph import FeatureMatrix
from linkdist.model import from_features

PIECE = 4096
"""Number of rows that are compared at once."""

Array: TypeAlias = npt.NDArray[Any]
Untyped: TypeAlias = Any
"""An object of an optional package, or of one without types."""


def largest_difference(
    runtime: Untyped, content: bytes, saved: Saved, features: FeatureMatrix, feed: dict[str, Array]
) -> float:
    """The largest difference between the outputs of an ONNX file and of its model.

    A label of the file that the model does not predict counts as the difference of the model's
    probabilities; so labels are equal unless two are as probable.

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
        found = dict(zip(names, session.run(names, piece), strict=True))
        expected = _expected(saved, features[here])
        for name, values in found.items():
            if name in expected:
                scale = _scale(expected[name], saved.model.task)
                difference = np.abs(values - expected[name]) / scale
            else:
                difference = _decided_difference(saved, name, values, expected["probabilities"])
            # Unlike Python's, this maximum keeps NaN.
            largest = float(np.maximum(largest, difference.max()))
    return largest


def _decided_difference(saved: Saved, name: str, found: Array, p: Array) -> Array:
    """How far the probabilities are from those of which the file's texts would be right."""
    columns, classes = saved.prediction_columns, np.array(saved.model.classes, dtype=object)
    if name == "classes":
        return np.where(found == classes, 0.0, np.inf)
    if name == "label":
        places = {text: k for k, text in enumerate(classes)}
        chosen = np.array([places[text] for text in found])
        return np.asarray(p.max(axis=1) - p[np.arange(len(p)), chosen])
    expected = np.where(columns.decided(p), classes, "")
    return np.where(found == expected, 0.0, np.abs(p - columns.thresholds[0]))


def _scale(values: Array, task: str) -> Array:
    """What differences are compared with: numbers may have any unit, and be far from 0."""
    size = np.abs(values)
    if task != "regression":
        return np.maximum(size, 1)
    scale = max(np.ptp(values), size.max() / 50)
    return np.array(scale if scale > 0 else 1)


def _expected(saved: Saved, features: FeatureMatrix) -> dict[str, Array]:
    model = saved.model
    own, beside = model.head_outputs(features)  # (n, R, C) and (n, R, K, C)
    beside = beside[:, :, 0] if beside.shape[2] == 1 else beside
    parts = (from_features(model, features), own, beside)
    expected: dict[str, Array] = dict(zip(OUTPUTS[model.task], parts, strict=True))
    if model.task == "regression":
        ends = saved.prediction_columns.interval(expected["value"])  # (n, 2)
        expected |= {"low": ends[:, :1], "high": ends[:, 1:]}
    return expected


def dense(values: Untyped) -> Array:
    """A sparse matrix as an array, or an array that is contiguous.

    Examples
    --------
    >>> dense(sparse.csr_matrix([[0, 2]])).tolist()
    [[0, 2]]
    """
    return values.toarray() if sparse.issparse(values) else np.ascontiguousarray(values)
