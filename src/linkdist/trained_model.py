"""Train on tables and use the result: the Python interface, which the command line also uses.

model = linkdist.train(nodes, links, id="paper", label="field")
model.predict(new_nodes)                          # from features
model.predict(new_nodes, links=new_links)         # with links
model.save("papers-model")                        # linkdist.load_model("papers-model")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist import pipeline
from linkdist.artifacts import model_dir
from linkdist.artifacts.manifest import REPORT
from linkdist.artifacts.model_dir import Saved, check_target, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.errors import ModelError, OptionError
from linkdist.inference.drift import THRESHOLD
from linkdist.inference.drift_report import DriftReport
from linkdist.inference.explain_table import Explained
from linkdist.inference.table import Predicted, table_columns
from linkdist.pipeline import Options, Trained, describe, scores_of, with_report
from linkdist.prediction import drift, evaluate, explanations, predictions
from linkdist.progress import Callback
from linkdist.report.card import model_html
from linkdist.report.evaluation import AnyEvaluation
from linkdist.report.metrics import evaluate_validation
from linkdist.suggesting import suggest
from linkdist.tables.certainty import Caution
from linkdist.tables.embedding import TextEncoder
from linkdist.tables.io import TableLike
from linkdist.tables.prediction_columns import NO_INTERVALS
from linkdist.tables.source import Tables
from linkdist.tables.targets import LabelFormat


def train(
    nodes: TableLike,
    links: TableLike,
    *,
    id: str,
    label: str | Sequence[str],
    features: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    source: str | None = None,
    target: str | None = None,
    unknown: Sequence[str] = (),
    labels: TableLike = None,
    text_encoder: TextEncoder | None = None,
    relation: str | None = None,
    weight: str | None = None,
    directed: bool = False,
    task: str | None = None,
    graph: str | None = None,
    strict: bool = False,
    out: Path | str | None = None,
    resume: bool = False,
    force: bool = False,
    tsne: bool | None = None,
    callback: Callback | None = None,
    **options: Any,  # noqa: ANN401
) -> TrainedModel:
    """Train a model on a table of nodes and a table of links.

    Parameters
    ----------
    nodes, links : path or table
        Files (.parquet, .csv, .tsv, .jsonl, .csv.gz), folders of Parquet files, pandas or Polars
        frames, or any object with `__arrow_c_stream__`. If links have relations, `links` may be a
        mapping of their names to tables, or a list of files that are named like the relations.
        If there are several graphs, `nodes` and `links` may be lists of as many tables, or mappings
        of the names of the graphs to tables.
    id : str
        The column of ids.
    label : str or sequence of str
        The column of labels, which are unknown where it is empty; or several columns of 0 and 1.
    features : sequence of str, optional
        The columns that are features; by default all columns that can be.
    kinds : mapping of str to str, optional
        Columns whose kind is given instead of inferred.
    source, target : str, optional
        Columns of the link table; by default its first two without another role.
    unknown : sequence of str
        Values of the label column that mean an unknown label.
    labels : path or table, optional
        A table of ids and labels that adds labels, such as one that `TrainedModel.suggest` made.
    text_encoder : object with `encode(list of str) -> (n, k) array`, optional
        Computes the features of text columns, instead of tf-idf. It is not saved with the model.
    relation : str, optional
        The column of the link table with the relation of each link, such as 'cites'.
    weight : str, optional
        The column of the link table with the weight of each link, a positive number.
    directed : bool
        Whether links lead from `source` to `target`, and the two directions tell different things.
    task : {'classification', 'regression', 'multilabel'}, optional
        What the labels are; by default it is guessed, and the callback receives the guess.
    graph : str, optional
        The column of the node table with the names of graphs, if there are several.
    strict : bool
        Whether warnings, links to unknown nodes, duplicate links and self-loops are errors.
    out : Path, optional
        A model directory, which is written during training; see also `TrainedModel.save`.
    resume, force, tsne, callback
        See `linkdist.pipeline.train`; the first three need `out`.
    **options
        The fields of `linkdist.pipeline.Options` and
        `linkdist.training.loop.Hyperparameters`, such as method, seed and epochs.

    Examples
    --------
    >>> nodes = {"id": range(6), "x": [0.0, 0.1, 0.2, 1.0, 1.1, 1.2], "y": ["a"] * 2 + ["b"] * 4}
    >>> links = {"from": [0, 1, 3, 4], "to": [1, 2, 4, 5]}
    >>> model = train(nodes, links, id="id", label="y", held_out=0)
    >>> model.predict({"x": [0.15, 1.05]}).tolist()
    ['a', 'b']
    """
    tables = Tables(
        nodes, links, id, label, features, kinds or {}, source, target, strict, unknown, labels,
        text_encoder, relation, weight, directed, task, graph,
    )  # fmt: skip
    settings = Options.of(**options)
    if out is not None:
        saved = pipeline.train(
            tables, Path(out), settings, resume=resume, force=force, callback=callback, tsne=tsne
        )
        return TrainedModel.of(saved, directory=Path(out))
    if resume or force or tsne is not None:
        raise OptionError("resume, force and tsne need out, the model directory to write.")
    callback = callback or Callback()
    settings.check()
    trained = pipeline.read_tables(tables, callback).train(settings, None, callback)
    saved = describe(trained, settings)
    scores = scores_of(evaluate_validation(trained.graph, trained.splits, trained.fit))
    saved.about.update(scores)
    return TrainedModel.of(saved, trained=trained)


def load_model(directory: Path | str, text_encoder: TextEncoder | None = None) -> TrainedModel:
    """Load a model directory.

    Parameters
    ----------
    directory : Path or str
        The directory that `linkdist train` or `TrainedModel.save` wrote.
    text_encoder : object with `encode`, optional
        The text encoder of the training, if there was one.

    Raises
    ------
    ModelError
        If the directory is missing, was written by a newer version, or is damaged.

    Examples
    --------
    >>> load_model("/nowhere")
    Traceback (most recent call last):
    linkdist.errors.ModelError: there is no directory /nowhere. Name one that a model was saved to.
    """
    saved = model_dir.load_model(directory)
    if saved.encoders is not None:
        saved.encoders.with_text_encoder(text_encoder)
    return TrainedModel.of(saved, directory=Path(directory))


@dataclass(frozen=True, repr=False)
class TrainedModel(Saved):
    """A trained model with the columns of its tables.

    Attributes
    ----------
    directory : Path or None
        The directory that the model was loaded from or saved to during training.
    trained : Trained or None
        The training, from which a report can be made.
    """

    directory: Path | None = None
    trained: Trained | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, saved: Saved, directory: Path | None = None, trained: Trained | None = None
    ) -> Self:
        """A model from the content of a model directory."""
        content = {one.name: getattr(saved, one.name) for one in fields(Saved)}
        return cls(**content, directory=directory, trained=trained)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.model.classes

    @property
    def task(self) -> str:
        """What is predicted: 'classification', 'regression' or 'multilabel'."""
        return self.model.task

    @property
    def label_format(self) -> LabelFormat:
        """How the labels of the training are written."""
        return self.prediction_columns.form

    def predict(
        self, nodes: TableLike, links: TableLike = None, *, abstain: float | None = None
    ) -> npt.NDArray[Any]:
        """What each row is predicted to be, from features or, if links are given, with them.

        Parameters
        ----------
        nodes : path or table
            A table with the feature columns of the model; with links also the ids. If there are
            several graphs, it may be a list of tables, or a mapping of their names to tables.
        links : path or table, mapping of str to table, or list of paths, optional
            Links between these nodes: a table, or one for each relation of the model. If `nodes`
            are several tables, as many link tables.
        abstain : float, optional
            The share of rows, the least certain ones, that are left unanswered.

        Returns
        -------
        (n,) or (n, C) array
            The most probable class of each row; None where a row is left unanswered. For
            regression, numbers in the unit of the labels. For several labels, an (n, C) array that
            is 1 where a row has a label and 0 elsewhere, in the order of `classes`; each label has
            the threshold that training chose.
        """
        columns = self.prediction_columns.cautious(Caution(abstain=abstain))
        part = self._predicted(nodes, links)
        if self.task == "regression":
            return part.values[:, 0]
        if self.task == "multilabel":
            return columns.decided(part.values, part.linked).astype(np.int64)
        names = np.array(self.classes, dtype=None if abstain is None else object)
        predicted: npt.NDArray[Any] = names[part.values.argmax(axis=1)]
        predicted[~columns.answered(part.values, part.linked)] = None
        return predicted

    def predict_set(
        self, nodes: TableLike, links: TableLike = None, *, level: float = 0.9
    ) -> npt.NDArray[np.bool_]:
        """Which classes are in the conformal set of each row, (n, C), in the order of `classes`.

        A set contains the true class of a new row with a probability of at least `level`, if new
        rows are like those of the training (`linkdist.tables.certainty`).
        """
        columns = self.prediction_columns.cautious(Caution(sets=level))
        part = self._predicted(nodes, links)
        return columns.sets(part.values, part.linked)

    def predict_proba(self, nodes: TableLike, links: TableLike = None) -> npt.NDArray[np.float32]:
        """Probabilities (n, C), in the order of `classes`; parameters as in `predict`.

        The rows sum to 1, unless a row may have several labels. A regression has no probabilities:
        this is a ModelError.
        """
        if self.task == "regression":
            raise ModelError(
                "a regression has no class probabilities; use predict for the numbers and "
                "predict_interval for their prediction intervals."
            )
        return self._predicted(nodes, links).values

    def predict_interval(
        self, nodes: TableLike, links: TableLike = None
    ) -> npt.NDArray[np.float64]:
        """The lower and upper ends (n, 2) of the prediction intervals of a regression.

        An interval contains the true number of a new row with a probability of 90 %, if new rows
        are like those of the training: its width is that of nine in ten errors on labels that
        training had not seen (conformal prediction). Parameters are as in `predict`.

        Raises
        ------
        ModelError
            If the model predicts no number, or if there were too few validation rows.
        """
        if self.task != "regression":
            raise ModelError(
                f"prediction intervals are for regression; this model is for {self.task}. Use "
                "predict_proba."
            )
        part, columns = self._predicted(nodes, links), self.prediction_columns
        if columns.lacks_intervals(part.linked):
            raise ModelError(f"{NO_INTERVALS}.")
        return columns.interval(part.values, part.linked)

    def explain(
        self,
        nodes: TableLike,
        links: TableLike = None,
        *,
        ids: Sequence[str] | None = None,
        rows: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> list[Explained]:
        """What speaks for and against the predictions of rows.

        Parameters
        ----------
        nodes, links
            As in `predict`.
        ids, rows, labels
            As in `linkdist.inference.explain_table.explain_table`.

        Returns
        -------
        list of Explained
            The id and the `linkdist.inference.explain.Explanation` of each row and class.
        """
        return explanations(self, nodes, links, ids=ids, rows=rows, labels=labels)

    def _predicted(self, nodes: TableLike, links: TableLike) -> Predicted:
        """The predictions of all rows."""
        id = None if links is None else table_columns(self)[0]
        return Predicted.joined(predictions(self, nodes, links, id=id))

    def evaluate(
        self,
        nodes: TableLike,
        links: TableLike = None,
        *,
        label: str | Sequence[str] | None = None,
        device: str = "auto",
        callback: Callback | None = None,
    ) -> AnyEvaluation:
        """Scores on the rows of a table that have a label; without links it may be of any size.

        Parameters
        ----------
        nodes, links
            As in `predict`, with a column of labels.
        label : str or sequence of str, optional
            The columns of labels; by default those of the training.
        device, callback
            As in `linkdist.prediction.predict`.

        Returns
        -------
        Evaluation, RegressionEvaluation or MultilabelEvaluation
            The scores of the task; see `linkdist.report.evaluation`.

        Raises
        ------
        TableError
            If no row has a label, or labels are classes that the model does not know. The message
            lists all problems.
        """
        return evaluate(self, nodes, links, label=label, device=device, callback=callback)

    def drift(
        self, nodes: TableLike, links: TableLike = None, *, threshold: float = THRESHOLD
    ) -> DriftReport:
        """Compare a table with the training: whether columns and predictions have changed.

        Parameters are as in `predict`; `threshold` is the population stability index above which
        there may be an alarm. The result has the alarms, the worst first, and prints them. A model
        without a summary of its training is a ModelError.
        """
        return drift(self, nodes, links, threshold=threshold)

    def suggest(
        self,
        nodes: TableLike,
        links: TableLike,
        count: int = 20,
        *,
        labels: TableLike = None,
        seed: int = 0,
        callback: Callback | None = None,
    ) -> pa.Table:
        """Rows without a label whose labels would help most, as a table to fill in.

        Parameters
        ----------
        nodes, links : path or table
            The tables of the training, with its labels.
        count : int
            How many rows to suggest.
        labels : path or table, optional
            The `labels` of the training, whose rows are not suggested again.
        seed : int
            Random seed of the choice.
        callback : Callback, optional
            Receives progress and messages.

        Returns
        -------
        Table
            The ids, empty columns for the labels, and what the model predicts with links. Once it
            is filled in, it is the `labels` of `linkdist.train`. The model is least certain of
            these rows. For regression, which has no measure of certainty, they are spread over the
            graph alone.
        """
        return suggest(
            self, nodes, links, count, labels=labels, seed=seed, callback=callback or Callback()
        )

    def report(self, path: Path | str | None = None) -> str:
        """The report of the training as HTML; it is also written to `path`, if that is given."""
        page = self._with_report().report_html
        if page is None and self.directory is not None and (self.directory / REPORT).exists():
            page = (self.directory / REPORT).read_text(encoding="utf-8")
        if page is None:
            raise ModelError("this model has no report; only a training on tables writes one.")
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def save(self, directory: Path | str, *, force: bool = False) -> None:
        """Write a model directory, which `linkdist serve` and `linkdist predict` take.

        Parameters
        ----------
        directory : Path or str
            The directory.
        force : bool
            Whether to replace a model that is there.
        """
        target = Path(directory)
        check_target(target)
        if target.exists() and any(target.iterdir()) and not force:
            raise OptionError(f"{target} contains a model; force=True replaces it.")
        save_model(target, with_onnx(self._with_report()))

    def _with_report(self) -> Saved:
        """The content of a model directory, with a report if the training is known."""
        if self.report_html is not None or self.trained is None:
            return self
        return with_report(self, self.trained, "model", Callback())

    def __repr__(self) -> str:
        """The classes and the columns in one line."""
        names = [] if self.encoders is None else list(self.encoders.names)
        return f"TrainedModel(classes={list(self.classes)}, columns={names})"

    def _repr_html_(self) -> str:
        encoders = () if self.encoders is None else self.encoders.columns
        columns = {encoder.name: encoder.kind for encoder in encoders}
        return model_html(self.classes, columns, self.about)
