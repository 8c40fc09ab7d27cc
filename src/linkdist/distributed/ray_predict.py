"""Predict a directory of Parquet files, file by file: in this process, or by Ray workers.

The prediction of a row needs that row alone, so workers get whole files and share nothing. A file
is read in batches and its predictions are written under its own name: a worker holds the model and
one batch, however large the files are.

Finished files are collected in a hidden directory next to the target, which is renamed when all are
there. A run that was killed, or that found an invalid file, leaves them there, and the next run
continues: a finished file has the modification time of its source, and the name of the hidden
directory is a digest of the model and the options.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

from linkdist._files import unwritable
from linkdist.artifacts.manifest import some
from linkdist.artifacts.model_dir import Saved, load_model
from linkdist.distributed.ray_session import joined, need_ray
from linkdist.errors import LinkDistError, ModelError, OptionError, TableError
from linkdist.inference.table import table_columns, warn_of_gaps
from linkdist.prediction import predict_table
from linkdist.progress import Callback
from linkdist.tables.certainty import PLAIN, Caution
from linkdist.tables.io import SUFFIXES, open_table
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.tables.validation import Problems

PARQUET = tuple(suffix for suffix, kind in SUFFIXES.items() if kind == "Parquet")

PREDICTED_BY = ("id", "label", "label_format", "decision", "certainty", "updates")
"""What predictions depend on, of the facts about a training."""


class Piece(NamedTuple):
    """A file to predict.

    Attributes
    ----------
    nodes : str
        Its path.
    part : str
        The file of its predictions.
    rows : int
        Its number of rows.
    time : int
        Its modification time, in nanoseconds.
    """

    nodes: str
    part: str
    rows: int
    time: int

    @property
    def is_done(self) -> bool:
        """Whether its predictions exist, and the file did not change since."""
        part = Path(self.part)
        return part.exists() and part.stat().st_mtime_ns == self.time


def predict_directory(
    model: Path,
    dataset: Path,
    out: Path,
    *,
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    callback: Callback | None = None,
    caution: Caution = PLAIN,
) -> int:
    """Predict all Parquet files of a directory, from features.

    Parameters
    ----------
    model : Path
        The model directory.
    dataset : Path
        A directory of Parquet files with the columns of the model; names that begin with a dot or
        an underscore are ignored, other files are errors.
    out : Path
        The directory to write: for each file with rows, a file of predictions of the same name.
    workers : int, optional
        Number of Ray processes that share the files, with one core each; by default this process
        predicts all files.
    address : str, optional
        Address of a Ray cluster, all machines of which can read model, dataset and out under these
        paths; by default Ray starts on this machine.
    device : {'auto', 'cpu', 'cuda'}
        The device of this process; workers compute on the CPU.
    callback : Callback, optional
        Receives progress and messages.
    caution : Caution, optional
        Conformal sets, or a share of rows that is left unanswered.

    Returns
    -------
    int
        Number of nodes that were predicted.

    Raises
    ------
    TableError
        With the problems of all files. The predictions of valid files are kept for the next run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow.parquet
    >>> from linkdist.artifacts.model_dir import save_model
    >>> from linkdist.model import Model
    >>> from linkdist.nn.network import ForkedMLP
    >>> from linkdist.tables.feature_encoder import make_feature_encoder
    >>> encoders = make_feature_encoder({"age": "numeric"})
    >>> network = ForkedMLP(d=1, C=2, seeds=[0])
    >>> with TemporaryDirectory() as folder:
    ...     model, nodes, out = (Path(folder, name) for name in ("model", "nodes", "out"))
    ...     about = {"id": "paper", "label": "field"}
    ...     trained = Model(network, torch.ones(1), ("art", "math"))
    ...     save_model(model, Saved(trained, encoders, about))
    ...     nodes.mkdir()
    ...     pa.parquet.write_table(pa.table({"paper": [7, 8], "age": [1, 3]}), nodes / "a.parquet")
    ...     pa.parquet.write_table(pa.table({"paper": [9], "age": [2]}), nodes / "b.parquet")
    ...     done = predict_directory(model, nodes, out, device="cpu")
    ...     done, sorted(path.name for path in out.iterdir())
    (3, ['a.parquet', 'b.parquet'])
    """
    callback = callback or Callback()
    dataset, out = dataset.resolve(), out.resolve()
    if workers is not None and device == "cuda":
        raise OptionError("workers compute on the CPU; leave out --device cuda, or --workers.")
    _check_target(dataset, out)
    saved = load_model(model)
    columns, digest = saved.prediction_columns.cautious(caution), _digest(saved, caution)
    aside = out.with_name(f".{out.name}.{digest}")
    pieces = _pieces(dataset, aside, saved, columns)
    warn_of_gaps(columns, callback)
    if workers is not None:
        need_ray()
    _prepare(out, aside, pieces)
    callback.stage("predicting")
    missing = [piece for piece in pieces if not piece.is_done]
    total = sum(piece.rows for piece in pieces)
    bar = _Total(callback, total, total - sum(piece.rows for piece in missing))
    try:
        if workers is None:
            for piece in missing:
                bar.advance(piece.rows, _predict(saved, piece, device, bar, caution))
        elif missing:
            _by_workers((str(model.resolve()), digest, caution), missing, workers, address, bar)
        _check(bar.problems)
        _check(_lost(pieces))
        answered = 0 if caution.abstain is None else sum(map(_answered, pieces))
        _finish(aside, out)
    finally:
        with suppress(OSError):  # already renamed, or not empty
            aside.rmdir()
    if text := columns.answered_text(np.array([total, 0]), np.array([answered, 0])):
        callback.note(text)
    return total


class _Total(Callback):
    """Reports the rows of one file as progress on all files, and collects the problems."""

    def __init__(self, callback: Callback, total: int, done: int) -> None:
        self._callback, self._total, self._before = callback, total, done
        self.problems: list[str] = []

    def progress(self, done: int, total: int) -> None:
        self._callback.progress(self._before + done, self._total)

    def advance(self, rows: int, problem: str) -> None:
        """A file is finished; the problem may be empty."""
        self.problems.append(problem)
        self._before += rows
        self.progress(0, 0)


def _by_workers(
    given: tuple[str, str, Caution],
    pieces: list[Piece],
    workers: int,
    address: str | None,
    bar: _Total,
) -> None:
    """Predict files in several processes, which are given the model, its digest and the caution."""
    items = [piece._asdict() for piece in pieces]
    workers = min(workers, len(items))  # Ray warns about workers without work
    with joined(workers, address) as ray:
        ray.data.DataContext.get_current().enable_progress_bars = False
        table = ray.data.from_items(items, override_num_blocks=len(items))
        rows = table.map(_work, fn_args=list(given), num_cpus=1, concurrency=workers)
        for row in rows.iter_rows():
            bar.advance(row["rows"], row["problem"])


def _work(row: dict[str, Any], model: str, digest: str, caution: Caution) -> dict[str, Any]:
    """Predict a file, given as a row of Ray Data, in a worker."""
    saved = _loaded(model, digest, caution)
    problem = _predict(saved, Piece(**row), "cpu", Callback(), caution)
    return {"rows": row["rows"], "problem": problem}


@functools.cache
def _loaded(model: str, digest: str, caution: Caution = PLAIN) -> Saved:
    """The model, which a worker loads once for all its files."""
    # Ray starts as many workers as there are cores.
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    saved = load_model(model)
    if _digest(saved, caution) != digest:
        raise ModelError(f"{model} was replaced meanwhile. Run the command again.")
    return saved


def _predict(saved: Saved, piece: Piece, device: str, callback: Callback, caution: Caution) -> str:
    """Write the predictions of a file; returns its problem, or an empty text."""
    files = Path(piece.nodes), Path(piece.part)
    try:
        predict_table(saved, *files, device=device, callback=callback, caution=caution)
        os.utime(piece.part, ns=(piece.time, piece.time))
    except (LinkDistError, OSError) as error:
        return str(error)
    return ""


def _check_target(dataset: Path, out: Path) -> None:
    """Raise an error if the target is a file, is not empty or overlaps the data."""
    if out.suffix.lower() in SUFFIXES:
        rule = "the predictions of a directory are a directory"
        raise OptionError(f"{rule}; {out.name!r} is the name of a file. Leave out {out.suffix}.")
    if out == dataset or dataset in out.parents or out in dataset.parents:
        raise OptionError(f"{out} must be outside of the data in {dataset}. Choose another.")
    try:
        there = out.is_dir() and any(out.iterdir())
    except OSError as error:
        raise OptionError(f"{out} cannot be read: {error.strerror}. Choose another.") from error
    if there or (out.exists() and not out.is_dir()):
        raise OptionError(f"{out} exists already. Choose another directory, or remove this one.")


def _digest(saved: Saved, caution: Caution = PLAIN) -> str:
    """A digest of all that predictions depend on, 32 hexadecimal digits."""
    _, encoders = table_columns(saved)
    read = {name: saved.about.get(name) for name in PREDICTED_BY}
    parts = [saved.model.classes, saved.model.task, encoders.state(), read, caution]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for tensor in saved.model.network.state_dict().values():
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:32]


def _pieces(dataset: Path, aside: Path, saved: Saved, columns: PredictionColumns) -> list[Piece]:
    """The files that have rows, after checking the columns of all files."""
    column, encoders = table_columns(saved)
    pieces, types, found = [], dict[pa.DataType, str](), []
    for path in _files(dataset):
        try:
            time, table = path.stat().st_mtime_ns, open_table(path)
            problems = Problems()
            problems.names("column", [column, *encoders.names], table.schema.names)
            problems.check(str(path))
        except (TableError, OSError) as error:
            found.append(str(error))
            continue
        types.setdefault(table.schema.field(column).type, path.name)
        if table.rows:
            pieces.append(Piece(str(path), str(aside / path.name), table.rows, time))
    if len(types) > 1:
        kinds = ", ".join(f"{kind} in {name}" for kind, name in types.items())
        rule = f"column {column!r} must have the same type in all files"
        found.append(f"{dataset}: {rule}; found {kinds}. Convert them to one type.")
    _check(found)
    if not pieces:
        raise TableError(f"{dataset}: none of its files has rows.")
    for kind in types:
        columns.schema(column, kind)
    return pieces


def _files(dataset: Path) -> list[Path]:
    """The Parquet files of a directory that contains nothing else."""
    try:
        paths = sorted(path for path in dataset.iterdir() if path.name[0] not in "._")
    except OSError as error:
        raise TableError(f"{dataset} cannot be read: {error.strerror}.") from error
    rule = f"a directory of tables must contain Parquet files only, named {' or '.join(PARQUET)}"
    other = [path.name for path in paths if path.suffix.lower() not in PARQUET or path.is_dir()]
    if other or not paths:
        # The rows of a file that is skipped silently would be missed too late.
        found = f"also contains {some(other)}" if other else "contains none"
        raise TableError(f"{dataset} {found}; {rule}. Give such a directory, or a single table.")
    return paths


def _prepare(out: Path, aside: Path, pieces: Sequence[Piece]) -> None:
    """Create the hidden directory, or remove outdated files from it."""
    wanted = {piece.part for piece in pieces}
    left = re.compile(re.escape(f".{out.name}.") + "[0-9a-f]{32}")
    try:
        aside.mkdir(parents=True, exist_ok=True)
        for path in out.parent.iterdir():
            if left.fullmatch(path.name) and path != aside:
                shutil.rmtree(path, ignore_errors=True)  # of another model
        for path in aside.iterdir():
            if str(path) not in wanted:
                path.unlink()
    except OSError as error:
        raise unwritable(out, error) from error


def _lost(pieces: Sequence[Piece]) -> list[str]:
    """Remove predictions with another number of rows than their file; a message for each."""
    found = []
    for piece in pieces:
        rows = open_table(piece.part).rows
        if rows != piece.rows:
            Path(piece.part).unlink()
            problem = f"{piece.nodes} had {piece.rows} rows, and {rows} were predicted"
            found.append(f"{problem}: it changed meanwhile. Run the command again.")
    return found


def _answered(piece: Piece) -> int:
    """Number of rows of a file that have a label."""
    labels = pyarrow.parquet.read_table(piece.part, columns=["label"]).column("label")
    return piece.rows - int(labels.null_count)


def _finish(aside: Path, out: Path) -> None:
    try:
        if out.exists():
            out.rmdir()
        aside.rename(out)
    except OSError as error:
        advice = f"The predictions are in {aside}: rename it."
        raise OptionError(f"{out} cannot be written: {error.strerror}. {advice}") from error


def _check(problems: Sequence[str]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise TableError(some(found, "\n"))
