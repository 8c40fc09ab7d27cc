"""Export a model directory to ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from linkdist.artifacts.model_dir import Saved
from linkdist.artifacts.onnx import export_onnx, neighbours_path
from linkdist.artifacts.onnx_graph.columns import obstacles
from linkdist.data.graph import FeatureMatrix
from linkdist.errors import ModelError
from linkdist.inference.table import table_columns
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.io import open_table
from linkdist.tables.node_table import NodeTable

COMPARED = 10_000
"""Number of rows on which an exported model is compared with the original."""


@dataclass(frozen=True)
class Exported:
    """What an export to ONNX wrote.

    Attributes
    ----------
    files : tuple of Path
        The file and, if the inputs are columns and it was asked for, that of the neighbour heads.
    rows : int
        Number of rows on which the file was compared with the model.
    difference : float
        The largest difference between their outputs.
    obstacles : tuple of str
        Why the input is `features`, although columns were wanted; empty if it is not.
    """

    files: tuple[Path, ...]
    rows: int
    difference: float
    obstacles: tuple[str, ...] = ()


def export(
    saved: Saved,
    path: Path,
    *,
    with_neighbour_head: bool = False,
    features_only: bool = False,
    rows: Path | None = None,
) -> Exported:
    """Write a model as ONNX after comparing both on a table, or on the model's replay buffer.

    Parameters
    ----------
    saved, path, with_neighbour_head
        As in `linkdist.artifacts.onnx.export_onnx`.
    features_only : bool
        Whether the input is `features`, even if the columns of the table can be inputs.
    rows : Path, optional
        A table of nodes to compare on.
    """
    found = () if features_only else tuple(obstacles(saved.encoders))
    columns = not (features_only or found)
    sample: FeatureMatrix | pa.RecordBatch
    if rows is not None:
        sample = _sample(rows, *table_columns(saved))
    elif saved.replay is not None:
        sample = saved.replay_buffer().graph.features[:COMPARED]
    else:
        raise ModelError("the model has no replay buffer to compare on; name a table of rows.")
    difference = export_onnx(
        saved, path, with_neighbour_head=with_neighbour_head, raw=columns, rows=sample
    )
    second = with_neighbour_head and columns
    files = (path, neighbours_path(path)) if second else (path,)
    count = sample.num_rows if isinstance(sample, pa.RecordBatch) else sample.shape[0]
    return Exported(files, count, difference, found)


def _sample(path: Path, id: str, encoders: FeatureEncoder) -> pa.RecordBatch:
    """The first rows of a table, in which every value can be encoded."""
    nodes = NodeTable(open_table(path), id, None, encoders)
    first_row, batch = next(nodes.batches(COMPARED), (1, None))
    if batch is None:
        nodes.check_rows(0)
    else:
        nodes.present.transform(batch, first_row, nodes.problems)
    nodes.check()
    return batch
