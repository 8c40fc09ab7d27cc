"""Use a saved model on a table of nodes: predict, explain, evaluate, and compare with training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from linkdist.artifacts.model_dir import Saved, load_model
from linkdist.data.graph import FeatureMatrix, FloatArray, Labels
from linkdist.data.links import Links
from linkdist.errors import OptionError, TableError
from linkdist.inference import drift_table
from linkdist.inference.drift import THRESHOLD
from linkdist.inference.drift_report import DriftReport
from linkdist.inference.drift_table import Reference
from linkdist.inference.explain_table import Explained, explain_table
from linkdist.inference.heads import Heads
from linkdist.inference.table import (
    Predicted,
    table_columns,
    table_predictions,
    write_predictions,
)
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.report.evaluation import AnyEvaluation, AnyEvaluator, make_evaluator
from linkdist.report.task_evaluation import MultilabelEvaluator, RegressionEvaluator
from linkdist.tables.certainty import PLAIN, Caution
from linkdist.tables.graphs import open_nodes
from linkdist.tables.io import TableLike
from linkdist.tables.label_warnings import no_labels
from linkdist.tables.labels import check_known_classes
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.targets import LabelColumns, LabelFormat, label_columns
from linkdist.tables.validation import Problems
from linkdist.training.loop import find_device
from linkdist.training.panel.decision import COVERAGE


def predict(
    model: Path,
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    device: str = "auto",
    raw_text: bool = False,
    callback: Callback | None = None,
    caution: Caution = PLAIN,
) -> int:
    """Predict a table of nodes; without links it may be larger than memory.

    Parameters
    ----------
    model : Path
        The model directory.
    nodes : path or table
        A table with the columns of the model.
    out : Path
        The table to write.
    edges : path or table, mapping of str to table, or list of paths, optional
        Links between these nodes: a table, or one for each relation of the model. With links, the
        logits of all nodes are in memory.
    device : {'auto', 'cpu', 'cuda'}
        Where to compute.
    raw_text : bool
        Whether text in a CSV file stays as it is, even if a spreadsheet would take it for a
        formula; see `linkdist.tables.csv_text`.
    callback : Callback, optional
        Receives progress and messages.
    caution : Caution, optional
        Conformal sets, or a share of rows that is left unanswered.

    Returns
    -------
    int
        Number of predicted nodes.
    """
    return predict_table(
        load_model(model), nodes, out, edges=edges, device=device, raw_text=raw_text,
        callback=callback, caution=caution,
    )  # fmt: skip


def predict_table(
    saved: Saved,
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    device: str = "auto",
    raw_text: bool = False,
    callback: Callback | None = None,
    caution: Caution = PLAIN,
) -> int:
    """`predict` with a model that is already loaded, to predict several tables with it."""
    column, _ = table_columns(saved)
    columns, callback = saved.prediction_columns.cautious(caution), callback or Callback()
    parts = predictions(saved, nodes, edges, id=column, device=device, callback=callback)
    return write_predictions(parts, out, column, columns, callback, raw_text)


def predictions(
    saved: Saved,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    id: str | None = None,
    label: LabelColumns = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> Iterator[Predicted]:
    """Predict a table batch by batch; with links there is one batch.

    Parameters
    ----------
    saved : Saved
        The content of a model directory.
    nodes, edges, device, callback
        As in `predict`.
    id : str, optional
        The column of ids, which links need.
    label : str or sequence of str, optional
        The columns of labels.

    Raises
    ------
    TableError
        Lists all problems of the tables; also if there are no rows.
    """
    network = _Network(saved.model.to(find_device(device)))
    return table_predictions(network, saved, nodes, edges, id=id, label=label, callback=callback)


class _Network:
    """A model that PyTorch computes; see `linkdist.inference.table.Network`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def probabilities(self, features: FeatureMatrix) -> FloatArray:
        """Predict nodes from features."""
        return from_features(self.model, features)

    def outputs(self, features: FeatureMatrix) -> tuple[torch.Tensor, torch.Tensor]:
        """The logits of the own head and of the neighbour heads."""
        inputs = make_inputs(features, self.model.alpha.device)
        return logits(self.model.network, inputs)

    def with_links(
        self, outputs: Sequence[tuple[torch.Tensor, torch.Tensor]], links: Links
    ) -> FloatArray:
        """Predict all nodes at once: the neighbours of a node may be anywhere in the table."""
        z, s = (torch.cat(part, dim=-2) for part in zip(*outputs, strict=True))
        neighbours = relations_of(links, z.shape[-2], self.model.alpha.device)
        return self.model.mean_prediction(self.model.with_neighbours(z, s, neighbours))


def torch_heads(model: Model) -> Heads:
    """The outputs of all heads of a network, computed by PyTorch."""
    model = model.to(torch.device("cpu"))
    return Heads(model.head_outputs, model.alpha.numpy(), model.kappa.numpy(), model.task)


def explanations(
    saved: Saved,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    ids: Sequence[str] | None = None,
    rows: int | None = None,
    labels: Sequence[str] | None = None,
) -> list[Explained]:
    """Explain rows of a table; see `TrainedModel.explain`."""
    heads, columns = torch_heads(saved.model), saved.prediction_columns
    found = explain_table(heads, columns, saved, nodes, edges, ids=ids, rows=rows, labels=labels)
    return list(found)


def drift(
    saved: Saved, nodes: TableLike, edges: TableLike = None, *, threshold: float = THRESHOLD
) -> DriftReport:
    """Compare a table with the training; see `TrainedModel.drift`."""
    columns, predict = saved.prediction_columns, saved.model.predict_proba
    reference = Reference(saved.about, saved.encoders, columns, predict)
    return drift_table.drift(reference, nodes, edges, threshold=threshold)


def evaluate(
    saved: Saved,
    nodes: TableLike,
    edges: TableLike = None,
    *,
    label: LabelColumns = None,
    device: str = "auto",
    callback: Callback | None = None,
) -> AnyEvaluation:
    """Scores on the rows of a table that have a label; see `TrainedModel.evaluate`."""
    columns, has_links = saved.prediction_columns, edges is not None
    form = _label_format(columns.form, label)
    thresholds = columns.thresholds[int(has_links)]
    evaluator = make_evaluator(
        form.task, form.classes, thresholds=thresholds, level=COVERAGE
    )  # the weights of the model contain the factors of its classes
    problems, new, rows = Problems(), Counter[str](), 0
    id = table_columns(saved)[0] if has_links else None
    parts = predictions(
        saved, nodes, edges, id=id, label=form.columns, device=device, callback=callback
    )
    found = list[str]()
    with _collected(found):
        for part in parts:
            labels, others = form.encode(part.labels, rows + 1, problems)
            rows += len(labels)
            new.update(others)
            if not problems:  # labels that cannot be read may be infinite
                _add(evaluator, columns, labels, part)
    with _collected(found):
        problems.check(open_nodes(nodes).name if problems else "")
    with _collected(found):
        check_known_classes(form.columns[0], dict(sorted(new.items())))
    if found:
        raise TableError(" ".join(found))
    if not evaluator.rows:
        raise TableError(f"{no_labels(form.columns)}, so there is nothing to score.")
    return evaluator.result()


def _label_format(form: LabelFormat, label: LabelColumns) -> LabelFormat:
    """The format of labels in other columns than those of the training."""
    columns = form.columns if label is None else label_columns(label)
    if len(columns) != len(form.columns):
        names = [", ".join(map(repr, some)) for some in (form.columns, columns)]
        rule = f"the model was trained with the label columns {names[0]}"
        raise OptionError(f"{rule}; found {names[1]}. Name as many columns, in the same order.")
    return replace(form, columns=columns)


def _add(
    evaluator: AnyEvaluator, columns: PredictionColumns, labels: Labels, part: Predicted
) -> None:
    """Add the predictions of a batch to an evaluation."""
    p, linked = part.values, part.linked
    if isinstance(evaluator, RegressionEvaluator):
        ends = () if columns.lacks_intervals(linked) else columns.interval(p, linked).T
        evaluator.add(labels, p, *ends)
    elif isinstance(evaluator, MultilabelEvaluator) and linked is not None:
        # The evaluator has the thresholds of linked rows; others have theirs, which decide here.
        evaluator.add(labels, np.where(linked[:, None], p, columns.decided(p, linked)))
    else:
        evaluator.add(labels, p)


@contextmanager
def _collected(found: list[str]) -> Iterator[None]:
    """Collect the message of an error about a table, so that all are reported at once."""
    try:
        yield
    except TableError as error:
        found.append(str(error))
