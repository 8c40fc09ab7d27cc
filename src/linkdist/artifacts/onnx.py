"""Export to ONNX: a model that runs without PyTorch and without this package.

The ONNX graph computes the folded MLP of each replica, a chain of operations over the rows:

    x → Gemm, LayerNormalization, LeakyRelu → h
    h → Gemm, LayerNormalization, LeakyRelu, Gemm → logits

The first output is the prediction, the mean over R replicas. With the neighbour heads there are two
more, for prediction with links:

    task              prediction              own head                  neighbour heads
    classification    probabilities (n, C)    own_log_probabilities     neighbour_log_probabilities
    multilabel        probabilities (n, C)    own_log_odds              neighbour_log_odds
    regression        value (n, 1)            own_value                 neighbour_value

`own` is (n, R, C), and `neighbour` is (n, R, C) for one head and (n, R, K, C) for K heads. Head k
is relation k; of directed links, heads 2k and 2k + 1 are the links of relation k that start and
that end at a node. For replica r and node i with neighbours j of head k, the prediction is

    f(κ_r · own[i, r] + Σ_k α_rk · mean_j neighbour[j, r, k])

averaged over r, where f is softmax for classes, sigmoid for several labels, and the identity for
numbers. The mean is weighted if links have weights. A node without neighbours is predicted from
`own` alone; a node with neighbours of some heads has a κ between 1 and κ_r, in proportion to their
α.

The input is either `features` (n, d) as float32, or the raw columns of a table, which the graph
standardises:

    numeric    (n,) double           also times in seconds, too long for float32
    vector     (n, width) float32

with NaN for missing values. Raw columns are the default if all columns have these types, because
then a deployment does not need to standardise them. Dates, categories, text, tags and embeddings
are encoded outside; examples/onnx_predict.py shows how.

The metadata of the file contains, as JSON, the task, class names, columns, relations, α (R,) or
(R, K), κ as 'own', and the decision: half the widths of prediction intervals, or the thresholds of
several labels, for each mode. Before the file is written, the output of ONNX Runtime is compared
with that of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist._files import replace_bytes
from linkdist.artifacts.manifest import OUTPUTS
from linkdist.artifacts.model_dir import Saved, without_infinity
from linkdist.artifacts.onnx_difference import dense, largest_difference
from linkdist.data.graph import FeatureMatrix, FloatArray, as_features
from linkdist.errors import ModelError, OptionError
from linkdist.kernels import EPSILON, SLOPE
from linkdist.nn.network import Folded
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.standardise import LIMIT

OPSET, IR = 17, 8
TOLERANCE = 1e-4
ROWS = 256
LARGEST = 2**31
"""Largest size of an ONNX file in bytes."""

INNER = "linkdist."
"""Prefix of the names inside the graph."""

Untyped: TypeAlias = Any
"""An object of an optional package, or of one without types."""

Array: TypeAlias = npt.NDArray[Any]
Feed: TypeAlias = dict[str, Array]


def export_onnx(
    saved: Saved,
    path: Path | str,
    *,
    with_neighbour_head: bool = False,
    raw: bool | None = None,
    rows: FeatureMatrix | pa.RecordBatch | None = None,
) -> float:
    """Write a model as an ONNX file after comparing their outputs.

    Parameters
    ----------
    saved : Saved
        As `linkdist.artifacts.model_dir.load_model` gives it.
    path : Path or str
        The file. Its folder must exist.
    with_neighbour_head : bool, optional
        Whether to add the outputs for prediction with links.
    raw : bool, optional
        Whether the inputs are the columns of the table; by default if every column is numeric or
        a vector.
    rows : RecordBatch or (k, d) array or CSR matrix, optional
        Nodes on which the outputs are compared; by default random numbers.

    Returns
    -------
    float
        The largest difference between the outputs of the file and the model; of a regression,
        relative to the range of its numbers.

    Raises
    ------
    OptionError
        If the extra `onnx` is not installed, if the columns cannot be inputs, or if the file
        cannot be written.
    ModelError
        If the difference is more than 1e-4. Then no file is written.

    Examples
    --------
    >>> import torch
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.model import Model
    >>> from linkdist.nn.network import ForkedMLP
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> with TemporaryDirectory() as folder:
    ...     export_onnx(Saved(model), f"{folder}/model.onnx") < 1e-4
    True
    """
    content, difference = onnx_file(saved, with_neighbour_head, raw, rows)
    replace_bytes(Path(path), content)
    return difference


def onnx_file(
    saved: Saved,
    with_neighbour_head: bool = False,
    raw: bool | None = None,
    rows: FeatureMatrix | pa.RecordBatch | None = None,
) -> tuple[bytes, float]:
    """The content of the file and the difference; see `export_onnx` for the parameters."""
    onnx, runtime = _need("onnx"), _need("onnxruntime")
    obstacles = _obstacles(saved.encoders)
    if raw and obstacles:
        raise OptionError(f"raw columns cannot be inputs: {'; '.join(obstacles)}. Leave raw out.")
    encoders = None if obstacles or raw is False else saved.encoders
    content = _Builder(onnx, saved, encoders, with_neighbour_head).file()
    features = _features(saved, rows)
    feed: Feed = {"features": features}
    if encoders is not None:
        feed = _raw(encoders, features, rows)
        features = encoders.transform(_batch(encoders, feed))
    difference = largest_difference(runtime, content, saved, features, feed)
    if not difference <= TOLERANCE:  # NaN is not, either
        raise ModelError(
            f"the ONNX file's outputs differ from the model's by up to {difference:.2g}, "
            f"more than {TOLERANCE:g}, so it was not written. Try raw=False; if that differs, "
            "too, this is a bug of LinkDist."
        )
    return content, difference


def with_onnx(saved: Saved) -> Saved:
    """Add the ONNX file for a service, if the extra `onnx` is installed.

    Many machines train models that they never serve, so a missing package is not an error.

    Examples
    --------
    >>> import torch
    >>> from linkdist.model import Model
    >>> from linkdist.nn.network import ForkedMLP
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> len(with_onnx(Saved(model)).onnx) > 1000
    True
    """
    try:
        content, _ = onnx_file(saved, with_neighbour_head=True, raw=False)
    except OptionError:  # not installed, or too large for ONNX
        return replace(saved, onnx=None)
    return replace(saved, onnx=content)


def _need(name: str) -> Untyped:
    try:
        return import_module(name)
    except ImportError as error:
        raise OptionError(
            f"an ONNX export needs {name}, which is not installed: pip install 'linkdist[onnx]'."
        ) from error


def _obstacles(encoders: FeatureEncoder | None) -> list[str]:
    """Reasons why raw columns cannot be the inputs."""
    if encoders is None:
        return ["the model knows no columns, only features"]
    kinds = [
        f"{column.name!r} is {column.kind} of {column.width} features, not numeric or a vector"
        for column in encoders.columns
        if column.kind not in ("numeric", "vector") or column.width == 0
    ]
    names = [
        f"{name!r} is no name for an input"
        for name in encoders.names
        if name in {"", *(name for names in OUTPUTS.values() for name in names)}
        or name.startswith(INNER)
    ]
    return kinds + names


class _Builder:
    """Builds an ONNX graph from single operations."""

    def __init__(
        self, onnx: Untyped, saved: Saved, encoders: FeatureEncoder | None, neighbour: bool
    ) -> None:
        self.onnx, self.saved, self.encoders, self.neighbour = onnx, saved, encoders, neighbour
        self.R, self.d, _ = saved.model.network.first.weight.shape
        self.C, self.K = len(saved.model.classes), saved.model.alpha.shape[1]
        self.prediction, self.own, self.beside = OUTPUTS[saved.model.task]
        self.inputs: list[Untyped] = []
        self.nodes: list[Untyped] = []
        self.weights: list[Untyped] = []

    def file(self) -> bytes:
        """The content of the file, after a check of its structure."""
        onnx = self.onnx
        self._outputs(self._features())
        outputs = [self._value(self.prediction, "FLOAT", self.C)]
        if self.neighbour:
            outputs.append(self._value(self.own, "FLOAT", self.R, self.C))
            heads = [self.K] if self.K > 1 else []
            outputs.append(self._value(self.beside, "FLOAT", self.R, *heads, self.C))
        graph = onnx.helper.make_graph(self.nodes, "linkdist", self.inputs, outputs, self.weights)
        versions = {"opset_imports": [onnx.helper.make_opsetid("", OPSET)], "ir_version": IR}
        model = onnx.helper.make_model(graph, **versions, producer_name="linkdist")
        onnx.helper.set_model_props(model, self._metadata())
        if model.ByteSize() >= LARGEST:
            raise OptionError(
                f"the model takes {model.ByteSize():,} bytes; an ONNX file holds {LARGEST:,}. "
                "Train fewer replicas, or on fewer features."
            )
        onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _outputs(self, x: str) -> None:
        network = self.saved.model.network
        halves = [Folded(network)]
        if self.neighbour:
            halves += [Folded(network, head) for head in network.neighbours]
        found: list[list[str]] = [[] for _ in halves]
        for r in range(self.R):
            h = self._activated(x, halves[0].first, halves[0].norms[:2], r)
            for half, parts in zip(halves, found, strict=True):
                y = self._activated(h, half.second, half.norms[2:], r)
                z = self._add("Gemm", y, *_replica(half.third, r))  # (n, C)
                parts.append(self._add("Unsqueeze", z, np.array([1])))
        own, *neighbour = (self._add("Concat", *parts, axis=1) for parts in found)  # (n, R, C)
        self._add("ReduceMean", self._mean(own), name=self.prediction, axes=[1], keepdims=0)
        if self.neighbour:
            self._natural(own, self.own)
            if self.K > 1:
                heads = [self._add("Unsqueeze", head, np.array([2])) for head in neighbour]
                neighbour = [self._add("Concat", *heads, axis=2)]  # (n, R, K, C)
            self._natural(neighbour[0], self.beside)

    def _mean(self, z: str) -> str:
        """Probabilities or numbers from outputs of the network."""
        if self.saved.model.task == "regression":
            return z
        if self.saved.model.task == "multilabel":
            return self._add("Sigmoid", z)
        return self._add("Softmax", z, axis=-1)

    def _natural(self, z: str, name: str) -> None:
        """What is added up over neighbours."""
        if self.saved.model.task == "classification":
            self._add("LogSoftmax", z, name=name, axis=-1)
        else:
            self._add("Identity", z, name=name)

    def _activated(self, x: str, linear: Untyped, norm: Untyped, r: int) -> str:
        y = self._add("Gemm", x, *_replica(linear, r))  # (n, hidden)
        scale, shift = (part.ravel() for part in _replica(norm, r))
        y = self._add("LayerNormalization", y, scale, shift, epsilon=EPSILON)
        return self._add("LeakyRelu", y, alpha=SLOPE)

    def _features(self) -> str:
        """The input, or raw columns to features, as `linkdist.tables.encoders` does it."""
        if self.encoders is None:
            return self._input("features", "FLOAT", self.d)
        double, single = self.onnx.TensorProto.DOUBLE, self.onnx.TensorProto.FLOAT
        parts = []
        for column in self.encoders.columns:
            if column.kind == "numeric":
                number = self._input(column.name, "DOUBLE")
                parts.append(self._add("Unsqueeze", number, np.array([1])))
            else:
                vector = self._input(column.name, "FLOAT", column.width)
                parts.append(self._add("Cast", vector, to=double))
        x = self._add("Concat", *parts, axis=1)  # (n, d)
        mean, deviation = _statistics(self.encoders)
        # A constant column is 0, and so is a number over infinity.
        y = self._add("Div", self._add("Sub", x, mean), np.where(deviation > 0, deviation, np.inf))
        y = self._add("Cast", y, to=single)
        y = self._add("Where", self._add("IsNaN", y), np.float32(0), y)
        return self._add("Clip", y, np.float32(-LIMIT), np.float32(LIMIT))

    def _add(
        self,
        kind: str,
        *inputs: str | Array | np.float32,
        name: str = "",
        **attributes: float | list[int],
    ) -> str:
        """Append an operation and return the name of its output; arrays become weights."""
        names = [part if isinstance(part, str) else self._weight(part) for part in inputs]
        output = name or f"{INNER}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], **attributes))
        return output

    def _weight(self, value: Array | np.float32) -> str:
        name = f"{INNER}weight.{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def _input(self, name: str, kind: str, *shape: int) -> str:
        self.inputs.append(self._value(name, kind, *shape))
        return name

    def _value(self, name: str, kind: str, *shape: int) -> Untyped:
        number = getattr(self.onnx.TensorProto, kind)
        return self.onnx.helper.make_tensor_value_info(name, number, ["n", *shape])

    def _metadata(self) -> dict[str, str]:
        saved = self.saved
        columns = [] if saved.encoders is None else saved.encoders.columns
        alpha = saved.model.alpha
        content = {
            "classes": list(saved.model.classes),
            "alpha": (alpha if self.K > 1 else alpha[:, 0]).tolist(),
            "own": saved.model.kappa.tolist(),
            "columns": [{"name": c.name, "kind": c.kind, "width": c.width} for c in columns],
            "task": saved.model.task,
            "relations": list(saved.model.relations),
            "directed": saved.model.directed,
            "decision": saved.about.get("decision") or {},
        }
        return {key: json.dumps(without_infinity(value)) for key, value in content.items()}


def _replica(parts: Untyped, r: int) -> Iterator[FloatArray]:
    """One replica's share of weights (R, fan_in, fan_out) and rows (R, 1, width)."""
    for part in parts:
        yield part[r].cpu().contiguous().numpy()


def _statistics(encoders: FeatureEncoder) -> tuple[Array, Array]:
    """Mean and deviation of each of d features."""
    columns: list[Untyped] = list(encoders.columns)
    mean = np.hstack([column.mean for column in columns])
    deviation = np.hstack([column.deviation for column in columns])
    return mean.astype(np.float64), deviation.astype(np.float64)


def _features(saved: Saved, rows: FeatureMatrix | pa.RecordBatch | None) -> FeatureMatrix:
    """The features of the nodes on which the outputs are compared."""
    if rows is None:
        shape = (ROWS, saved.model.d)
        return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    if not isinstance(rows, pa.RecordBatch):
        return as_features(rows, saved.model.d)
    if saved.encoders is None:
        raise OptionError("the model has no columns: give features to compare on, not a table.")
    if rows.num_rows == 0:
        raise OptionError("there are no rows to compare on: give a table of one row or more.")
    return saved.encoders.transform(rows)


def _raw(encoders: FeatureEncoder, features: FeatureMatrix, rows: object) -> Feed:
    """Raw inputs with these features; NaN for the missing values of a table."""
    mean, deviation = _statistics(encoders)
    numbers = mean + deviation * dense(features)  # (n, d)
    ends = np.cumsum([column.width for column in encoders.columns])
    parts = np.split(numbers, ends[:-1], axis=1)
    feed: Feed = {}
    for i, (column, part) in enumerate(zip(encoders.columns, parts, strict=True)):
        if isinstance(rows, pa.RecordBatch):
            part[rows.column(column.name).is_null().to_numpy(zero_copy_only=False)] = np.nan
        else:
            part[i % 10 :: 10] = np.nan
        feed[column.name] = part[:, 0] if column.kind == "numeric" else part.astype(np.float32)
    return feed


def _batch(encoders: FeatureEncoder, feed: Mapping[str, Array]) -> pa.RecordBatch:
    """The raw inputs as a table for the encoders."""
    columns = {}
    for column in encoders.columns:
        values = feed[column.name]
        columns[column.name] = pa.array(values.ravel())
        if column.kind == "vector":
            missing = pa.array(np.isnan(values).any(axis=1))
            columns[column.name] = pa.FixedSizeListArray.from_arrays(
                columns[column.name], column.width, mask=missing
            )
    return pa.record_batch(columns)
