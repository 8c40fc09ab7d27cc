"""Export to ONNX: a model that runs without PyTorch and without this package.

The inputs are the columns of the table, as `linkdist.artifacts.onnx_graph.columns` lists them, and
the outputs are what `linkdist predict` writes:

    task              prediction              decision
    classification    probabilities (n, C)    label (n,), classes (C,)
    multilabel        probabilities (n, C)    labels (n, C), classes (C,)
    regression        value (n, 1)            low (n, 1), high (n, 1)

A file whose columns cannot be inputs has one input, `features` (n, d), and no decision. Such a
file is also in the model directory, for the service.

For prediction with links there are two more outputs, in a second file if the inputs are columns:

    task              own head                  neighbour heads
    classification    own_log_probabilities     neighbour_log_probabilities
    multilabel        own_log_odds              neighbour_log_odds
    regression        own_value                 neighbour_value

`own` is (n, R, C), and `neighbour` is (n, R, C) for one head and (n, R, K, C) for K heads. Head k
is relation k; of directed links, heads 2k and 2k + 1 are the links of relation k that start and
that end at a node. For replica r and node i with neighbours j of head k, the prediction is

    f(κ_r · own[i, r] + Σ_k α_rk · mean_j neighbour[j, r, k])

averaged over r, where f is softmax for classes, sigmoid for several labels, and the identity for
numbers. The mean is weighted if links have weights. A node without neighbours is predicted from
`own` alone; a node with neighbours of some heads has a κ between 1 and κ_r, in proportion to their
α.

The metadata of the file contains, as JSON, the task, class names, columns, relations, α (R,) or
(R, K), κ as 'own', and the decision: half the widths of prediction intervals, or the thresholds of
several labels, for each mode. Before the file is written, the output of ONNX Runtime is compared
with that of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linkdist._files import replace_bytes
from linkdist.artifacts.model_dir import Saved, without_infinity
from linkdist.artifacts.onnx_graph.columns import add_columns, obstacles, separator_of
from linkdist.artifacts.onnx_graph.decision import add_decision
from linkdist.artifacts.onnx_graph.difference import largest_difference
from linkdist.artifacts.onnx_graph.graph import GraphBuilder, Untyped
from linkdist.artifacts.onnx_graph.inputs import Feed, column_inputs, made_rows
from linkdist.artifacts.onnx_graph.network import add_heads, add_logits, add_prediction
from linkdist.data.graph import FeatureMatrix, as_features
from linkdist.errors import ModelError, OptionError
from linkdist.tables.bag_encoders import Tags
from linkdist.tables.encoders import Date, Encoder, Numeric
from linkdist.tables.feature_encoder import FeatureEncoder

TOLERANCE = 1e-4
ROWS = 256
"""Number of random rows on which the outputs are compared, if there are no others."""

WORDS = 10
"""Average number of words, tags and categories of such a row."""


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
        Whether to add the outputs for prediction with links. If the inputs are columns, they are in
        a second file, `neighbours_path(path)`.
    raw : bool, optional
        Whether the inputs are the columns of the table; by default if that is possible, see
        `linkdist.artifacts.onnx_graph.columns.obstacles`. Otherwise the input is `features`.
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
    path = Path(path)
    reasons = obstacles(saved.encoders)
    if raw and reasons:
        raise OptionError(f"raw columns cannot be inputs: {'; '.join(reasons)}. Leave raw out.")
    columns = not reasons and raw is not False
    contents = {path: onnx_file(saved, with_neighbour_head and not columns, columns, rows)}
    if with_neighbour_head and columns:
        contents[neighbours_path(path)] = onnx_file(saved, True, columns, rows, heads_only=True)
    for file, (content, _) in contents.items():
        replace_bytes(file, content)
    return max(difference for _, difference in contents.values())


def neighbours_path(path: Path) -> Path:
    """The second file of an export, with the outputs for prediction with links.

    Examples
    --------
    >>> neighbours_path(Path("model.onnx")).name
    'model.neighbours.onnx'
    """
    return path.with_suffix(f".neighbours{path.suffix}")


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
        content, _ = onnx_file(saved, with_neighbour_head=True)
    except OptionError:  # not installed, or too large for ONNX
        return replace(saved, onnx=None)
    return replace(saved, onnx=content)


def onnx_file(
    saved: Saved,
    with_neighbour_head: bool = False,
    columns: bool = False,
    rows: FeatureMatrix | pa.RecordBatch | None = None,
    heads_only: bool = False,
) -> tuple[bytes, float]:
    """The content of a file and the difference.

    Parameters
    ----------
    saved, with_neighbour_head, rows
        As in `export_onnx`.
    columns : bool
        Whether the inputs are columns, which must have no obstacles.
    heads_only : bool
        Whether the outputs are the two heads, and not the prediction.
    """
    onnx, runtime = _need("onnx"), _need("onnxruntime")
    content = _content(GraphBuilder(onnx), saved, with_neighbour_head, columns, heads_only)
    features = _features(saved, rows)
    feed: Feed = {"features": features}
    if columns:
        assert saved.encoders is not None
        batch = rows if isinstance(rows, pa.RecordBatch) else made_rows(saved.encoders, features)
        features = saved.encoders.transform(batch)
        feed = column_inputs(saved.encoders, batch)
    difference = largest_difference(runtime, content, saved, features, feed)
    if not difference <= TOLERANCE:  # NaN is not, either
        raise ModelError(
            f"the ONNX file's outputs differ from the model's by up to {difference:.2g}, "
            f"more than {TOLERANCE:g}, so it was not written. Try --features-only; if that "
            "differs, too, this is a bug of LinkDist."
        )
    return content, difference


def _need(name: str) -> Untyped:
    try:
        return import_module(name)
    except ImportError as error:
        raise OptionError(
            f"an ONNX export needs {name}, which is not installed: pip install 'linkdist[onnx]'."
        ) from error


def _content(
    graph: GraphBuilder, saved: Saved, neighbour: bool, columns: bool, heads_only: bool
) -> bytes:
    model, order = saved.model, None
    if columns:
        assert saved.encoders is not None
        x, order = add_columns(graph, saved.encoders)
    else:
        x = graph.input("features", "FLOAT", model.d)
    logits = add_logits(graph, model, x, neighbour=neighbour, order=order)
    if not heads_only:
        prediction = add_prediction(graph, model, logits[0])
        if columns:
            add_decision(graph, saved.prediction_columns, prediction)
    if neighbour:
        add_heads(graph, model, logits)
    return graph.file(_metadata(saved))


def _metadata(saved: Saved) -> dict[str, str]:
    columns = [] if saved.encoders is None else saved.encoders.columns
    alpha = saved.model.alpha
    content = {
        "classes": list(saved.model.classes),
        "alpha": (alpha if alpha.shape[1] > 1 else alpha[:, 0]).tolist(),
        "own": saved.model.kappa.tolist(),
        "columns": [column_description(column) for column in columns],
        "task": saved.model.task,
        "relations": list(saved.model.relations),
        "directed": saved.model.directed,
        "decision": saved.about.get("decision") or {},
    }
    return {key: json.dumps(without_infinity(value)) for key, value in content.items()}


def column_description(column: Encoder) -> dict[str, Any]:
    """What a program must know of a column to convert text to an input.

    Examples
    --------
    >>> column_description(Numeric("age"))
    {'name': 'age', 'kind': 'numeric', 'width': 1, 'decimal': '.'}
    """
    found = {"name": column.name, "kind": column.kind, "width": column.width}
    if isinstance(column, Numeric):
        return {**found, "decimal": column.decimal}
    if isinstance(column, Date):
        return {**found, "format": column.format}
    return {**found, "separator": separator_of(column)} if isinstance(column, Tags) else found


def _features(saved: Saved, rows: FeatureMatrix | pa.RecordBatch | None) -> FeatureMatrix:
    """The features of the nodes on which the outputs are compared."""
    if rows is None:
        return _random_features(saved.encoders, saved.model.d)
    if not isinstance(rows, pa.RecordBatch):
        return as_features(rows, saved.model.d)
    if saved.encoders is None:
        raise OptionError("the model has no columns: give features to compare on, not a table.")
    if rows.num_rows == 0:
        raise OptionError("there are no rows to compare on: give a table of one row or more.")
    return saved.encoders.transform(rows)


def _random_features(encoders: FeatureEncoder | None, d: int) -> FeatureMatrix:
    random = np.random.default_rng(0)
    x = random.standard_normal((ROWS, d), dtype=np.float32)
    for block, column in _blocks(x, encoders):
        if column.is_sparse:
            block[random.random(block.shape) > WORDS / max(column.width, 1)] = 0
            np.abs(block, out=block)
    return x


def _blocks(x: FeatureMatrix, encoders: FeatureEncoder | None) -> Iterator[tuple[Untyped, Encoder]]:
    start = 0
    for column in encoders.columns if encoders else ():
        yield x[:, start : start + column.width], column
        start += column.width
