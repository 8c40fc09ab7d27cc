"""Predict a table with a model directory through ONNX Runtime, without PyTorch."""

from __future__ import annotations

from pathlib import Path

from linkdist.inference.engine import Engine
from linkdist.inference.table import table_columns, table_predictions, write_predictions
from linkdist.progress import Callback
from linkdist.tables.certainty import PLAIN, Caution
from linkdist.tables.io import TableLike


def predict(
    model: Path,
    nodes: TableLike,
    out: Path,
    *,
    edges: TableLike = None,
    callback: Callback | None = None,
    caution: Caution = PLAIN,
    raw_text: bool = False,
) -> int:
    """Predict a table of nodes; without links it may be larger than memory.

    The result is that of `linkdist.prediction.predict`, up to the last digits.

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
        outputs of all nodes are in memory.
    callback : Callback, optional
        Receives progress and messages.
    caution : Caution, optional
        Conformal sets, or a share of rows that is left unanswered.
    raw_text : bool
        Whether text in a CSV file stays as it is; see `write_predictions`.

    Returns
    -------
    int
        Number of predicted nodes.
    """
    engine = Engine(model)
    column, _ = table_columns(engine.header)
    columns = engine.columns.cautious(caution)
    parts = table_predictions(engine, engine.header, nodes, edges, id=column, callback=callback)
    return write_predictions(parts, out, column, columns, callback, raw_text)
