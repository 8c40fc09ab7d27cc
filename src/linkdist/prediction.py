"""Predict a table of nodes with a saved model, from features or with links, and evaluate it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from linkdist.artifacts.model_dir import Saved, load_model
from linkdist.data.graph import Labels
from linkdist.data.links import Links
from linkdist.errors import ModelError, OptionError, TableError
from linkdist.model import Model, from_features, logits
from linkdist.nn.aggregation import relations_of
from linkdist.nn.inputs import make_inputs
from linkdist.progress import Callback
from linkdist.report.evaluation import AnyEvaluation, AnyEvaluator, make_evaluator
from linkdist.report.task_evaluation import MultilabelEvaluator, RegressionEvaluator
from linkdist.tables.csv_text import KEEP_TEXT, escape_notice
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.graphs import GraphTables, open_nodes, read_each, shown_ids
from linkdist.tables.io import Table, TableLike
from linkdist.tables.label_warnings import no_labels
from linkdist.tables.labels import check_known_classes
from linkdist.tables.link_report import LinkReport
from linkdist.tables.links import links_of
from linkdist.tables.node_table import check_ids
from linkdist.tables.nodes import labelled_batches
from linkdist.tables.prediction_columns import NO_INTERVALS, PredictionColumns
from linkdist.tables.predictions import PredictionWriter
from linkdist.tables.source import Tables
from linkdist.tables.targets import LabelColumns, LabelFormat, label_columns
from linkdist.tables.trained_columns import trained_link_tables, trained_relations
from linkdist.tables.validation import Problems
from linkdist.training.loop import find_device
from linkdist.training.panel.decision import COVERAGE


class Predicted(NamedTuple):
    """Predictions of a batch of nodes.

    Attributes
    ----------
    ids : (k,) array
        Ids, in the type of their column.
    labels : (k,) array
        Known labels as they are written; see `linkdist.tables.targets.label_values`.
    values : (k, C) float32 array
        Probabilities; for regression, numbers (k, 1).
    linked : (k,) array of bool or None
        Which nodes have links, if links are given. The others are predicted from features.
    """

    ids: pa.Array
    labels: pa.Array
    values: npt.NDArray[np.float32]
    linked: npt.NDArray[np.bool_] | None = None


def predict(
    model: Path,
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    device: str = "auto",
    raw_text: bool = False,
    callback: Callback | None = None,
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

    Returns
    -------
    int
        Number of predicted nodes.
    """
    return predict_table(
        load_model(model), nodes, out, edges=edges, device=device, raw_text=raw_text,
        callback=callback,
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
) -> int:
    """`predict` with a model that is already loaded, to predict several tables with it."""
    column, _ = table_columns(saved)
    parts = predictions(saved, nodes, edges, id=column, device=device, callback=callback)
    columns, first = prediction_columns(saved), next(parts)
    warn_of_gaps(saved, callback or Callback(), first.linked)
    done = 0
    with PredictionWriter(out, column, first.ids.type, columns, raw_text) as writer:
        for part in itertools.chain([first], parts):
            writer.write(part.ids, part.values, part.linked)
            done += len(part.ids)
    if notice := escape_notice(writer.escaped, KEEP_TEXT):
        (callback or Callback()).note(notice)
    return done


def warn_of_gaps(
    saved: Saved, callback: Callback, linked: npt.NDArray[np.bool_] | None = None
) -> None:
    """Report a regression whose predictions have no prediction intervals."""
    columns = prediction_columns(saved)
    if columns.task == "regression" and columns.lacks_intervals(linked):
        callback.note(f"Warning: 'low' and 'high' are empty: {NO_INTERVALS}.")


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
    callback = callback or Callback()
    _, encoders = table_columns(saved)
    model = saved.model.to(find_device(device))
    callback.stage("predicting")
    each = dict[str | None, Tables]()
    if edges is not None:
        tables = Tables(nodes, edges, id or "", label or "")
        each = trained_link_tables(tables, saved.about)
    table, done = open_nodes(nodes), 0
    problems = Problems(table.place)
    batches = labelled_batches(table, id, label, encoders, problems=problems)
    waiting: list[tuple[pa.Array, pa.Array, torch.Tensor, torch.Tensor]] = []
    for own_ids, labels, x in batches:
        ids = _ids(table, own_ids, done)
        if edges is None:
            yield Predicted(ids, labels, from_features(model, x))
        else:
            inputs = make_inputs(x, model.alpha.device)
            waiting.append((ids, labels, *logits(model.network, inputs)))
        done += len(ids)
        callback.progress(done, table.rows or 0)
    if not done:
        raise TableError(f"{table.name}: the table has no rows.")
    for notice in problems.notices():
        callback.note(notice)
    if edges is not None:
        all_ids, all_labels, *both = zip(*waiting, strict=True)
        ids, (z, s) = pa.concat_arrays(all_ids), (torch.cat(part, dim=-2) for part in both)
        links = _read_links(each, trained_relations(saved.about), ids, str(id), callback)
        p = _with_links(model, z, s, links)
        yield Predicted(ids, pa.concat_arrays(all_labels), p, has_neighbours(links, len(ids)))


def _ids(table: Table, ids: pa.Array, done: int) -> pa.Array:
    """The ids of a batch after `done` rows; those of several node tables as GRAPH/ID."""
    if not isinstance(table, GraphTables):
        return ids
    return shown_ids(ids, table.groups[done : done + len(ids)], table.graphs)


def prediction_columns(saved: Saved) -> PredictionColumns:
    """What the predictions of a model become."""
    return PredictionColumns.of(saved.about, saved.model.classes, saved.model.task)


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
    columns, has_links = prediction_columns(saved), edges is not None
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


def table_columns(saved: Saved) -> tuple[str, FeatureEncoder]:
    """The id column and the encoders of a model that was trained on tables."""
    if saved.encoders is None or not saved.about.get("id"):
        raise ModelError("this model was not trained on a table; use it from Python.")
    return saved.about["id"], saved.encoders


def has_neighbours(links: Links, n: int) -> npt.NDArray[np.bool_]:
    """Which of n nodes have a neighbour; a self-loop makes no node its own neighbour.

    Examples
    --------
    >>> has_neighbours(Links(np.array([[0, 2], [1, 1]])), 3).tolist()
    [True, False, True]
    """
    proper = links.pairs[links.pairs[:, 0] != links.pairs[:, 1]]
    linked = np.zeros(n, dtype=bool)
    linked[proper.ravel()] = True
    return linked


def _read_links(
    each: Mapping[str | None, Tables],
    relations: tuple[str, ...],
    ids: pa.Array,
    column: str,
    callback: Callback,
) -> Links:
    """Read the links between nodes, whose ids must be unique."""
    problems = Problems()
    check_ids(ids, column, problems)
    problems.check()
    callback.stage("reading links")

    def read(tables: Tables, own_ids: pa.Array) -> tuple[Links, LinkReport]:
        return links_of(tables, own_ids, relations)

    links, report = read_each(each, ids, read)
    callback.links(report)
    return links


def _with_links(
    model: Model, z: torch.Tensor, s: torch.Tensor, links: Links
) -> npt.NDArray[np.float32]:
    """Predict all nodes at once: the neighbours of a node may be anywhere in the table."""
    neighbours = relations_of(links, z.shape[-2], model.alpha.device)
    return model.mean_prediction(model.with_neighbours(z, s, neighbours))
