"""Read and check the header of a model directory, without PyTorch.

`model.json` must have a format that this version reads, the other files must have the SHA-256
digests in it, and sizes, classes, α and columns must be consistent. A service needs only this
header and the ONNX file; `linkdist.artifacts.model_dir` adds the weights.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkdist._files import read_directory
from linkdist._version import __version__
from linkdist.artifacts.about import checked_about
from linkdist.data.graph import TASKS, FloatArray
from linkdist.data.links import LINKS, MOST_RELATIONS
from linkdist.errors import LinkDistError, ModelError
from linkdist.tables.feature_encoder import FeatureEncoder

FORMAT, OLDER = 4, 3
"""The format that is written, and the older one that is read, too."""

HEADER = "model.json"
WEIGHTS, REPLAY, ONNX = BINARY = ("weights.safetensors", "replay.safetensors", "model.onnx")
CARD, CURVE, REPORT = "README.md", "curve.svg", "report.html"
FILES = (HEADER, *BINARY, CARD, CURVE, REPORT)

OUTPUTS = {
    "classification": ("probabilities", "own_log_probabilities", "neighbour_log_probabilities"),
    "multilabel": ("probabilities", "own_log_odds", "neighbour_log_odds"),
    "regression": ("value", "own_value", "neighbour_value"),
}
"""The outputs of the ONNX file for each task: the prediction, the own head, the neighbour heads."""

OTHER = "Name one that a model was saved to."
INVALID = (LinkDistError, LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""What a header with values of another kind may raise."""
UPGRADE = (
    "Upgrade it: pip install --upgrade linkdist, or linkdist-serve where that one is installed."
)
AGAIN = "Copy the directory again from where it was trained, or train again."


class Shape(NamedTuple):
    """The sizes of a network."""

    replicas: int
    features: int
    hidden: int
    classes: int


@dataclass(frozen=True)
class Header:
    """The header of a model directory, and the files that were read with it.

    Attributes
    ----------
    shape : Shape
        The sizes of the network.
    classes : tuple of str
        The names of the classes.
    alpha : (R, K) float32 array
        α, the weights of the neighbours in prediction with links, for each neighbour head.
    own : (R,) float32 array
        κ, the weight of the node itself.
    dropout : float
        Probability of dropping a hidden unit in training.
    encoders : FeatureEncoder or None
        Turn the columns of a table into features; None for a model of plain features.
    about : dict
        Description of the training as JSON values.
    files : mapping of str to bytes
        The binary files that were read. Their digests are correct.
    version : str
        The first digits of the digest of the header, which identify the model.
    task : {'classification', 'regression', 'multilabel'}
        What is predicted.
    relations : tuple of str
        Names of the relations of links.
    directed : bool
        Whether links have a direction, so that each relation has two heads.
    """

    shape: Shape
    classes: tuple[str, ...]
    alpha: FloatArray
    own: FloatArray
    encoders: FeatureEncoder | None
    about: dict[str, Any]
    files: Mapping[str, bytes]
    version: str
    dropout: float = 0.5
    task: str = "classification"
    relations: tuple[str, ...] = LINKS
    directed: bool = False

    @property
    def heads(self) -> int:
        """K, the number of neighbour heads."""
        return len(self.relations) * (2 if self.directed else 1)

    def columns(self, role: str) -> tuple[str, ...]:
        """The columns that had a role in training, such as 'id', 'label' or 'graph'."""
        found = self.about.get(role)
        names = found if isinstance(found, list) else [found]
        return tuple(name for name in names if isinstance(name, str))


def read_header(directory: Path | str, names: Collection[str] = BINARY) -> Header:
    """Read and check the header of a model directory, and some of its binary files.

    Parameters
    ----------
    directory : Path or str
        The model directory.
    names : collection of str, optional
        The binary files to read and to check against their digests; by default all.

    Raises
    ------
    ModelError
        If the directory is missing, was written by a newer version, or is damaged.

    Examples
    --------
    >>> read_header("/nowhere")
    Traceback (most recent call last):
    linkdist.errors.ModelError: there is no directory /nowhere. Name one that a model was saved to.
    """
    target = Path(directory).resolve()
    files = _read(target, names)
    content = files.pop(HEADER)
    written = _parse(target, content)
    try:
        digests = dict(written["digests"])
        columns = written["columns"]
        header = Header(
            Shape(**written["shape"]),
            tuple(map(str, written["classes"])),
            _as_weights(written["alpha"]),
            _as_weights(written["own"]),
            None if columns is None else FeatureEncoder.from_state(columns),
            checked_about(written["about"]),
            {name: files[name] for name in files if name in digests},
            digest_of(content)[:12],
            float(written["dropout"]),
            str(written["task"]),
            tuple(map(str, written["relations"])),
            bool(written["directed"]),
        )
    except INVALID as error:
        found = f"{type(error).__name__}: {error}"
        raise ModelError(f"{target / HEADER} was changed or cut off ({found}). {AGAIN}") from error
    if problems := _misfits(header):
        raise ModelError(f"{target / HEADER} was changed: {'; '.join(problems)}. {AGAIN}")
    # A file that was not asked for is not read, so it cannot be checked.
    expected = {WEIGHTS, *map(str, digests)}.difference(set(BINARY).difference(names))
    if problems := _damage(expected, digests, files):
        raise ModelError(f"{target} was damaged or changed: {'; '.join(problems)}. {AGAIN}")
    return header


def _as_weights(values: Any) -> FloatArray:  # noqa: ANN401
    """Numbers as float32; too large ones become infinite, which `_misfits` finds."""
    with np.errstate(over="ignore"):
        return np.array(values, dtype=np.float64).astype(np.float32)


def digest_of(content: bytes) -> str:
    """The SHA-256 digest of a content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _read(target: Path, names: Collection[str]) -> dict[str, bytes]:
    try:
        files = read_directory(target, (HEADER, *names))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(f"there is no directory {target}. {OTHER}") from error
    except OSError as error:
        where = error.filename or target
        irregular = error.errno in (errno.ELOOP, errno.EINVAL)
        advice = " Copy the directory with 'cp -rL', which copies linked files." * irregular
        raise ModelError(f"{where} cannot be read: {error.strerror}.{advice}") from error
    if HEADER not in files:
        raise ModelError(f"{target} has no {HEADER}, so it is not a model directory. {OTHER}")
    return files


def _parse(target: Path, text: bytes) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(text)
        number = header["format"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        found = f"{target / HEADER} is not a valid model header, or it is truncated"
        raise ModelError(f"{found}. {AGAIN}") from error
    if type(number) is not int or number not in (OLDER, FORMAT):
        writer = header.get("program", "of another version")
        older = isinstance(number, int) and number < FORMAT
        advice = "Train again." if older else UPGRADE
        raise ModelError(
            f"{target} has format {number!r}, written by linkdist {writer}; this is linkdist "
            f"{__version__}, which reads formats {OLDER} and {FORMAT}. {advice}"
        )
    return _from_older(header) if number == OLDER else header


def _from_older(header: dict[str, Any]) -> dict[str, Any]:
    """The header of format 3 as one of format 4: classes, and undirected links of one relation."""
    alpha = header.get("alpha")
    heads = [[weight] for weight in alpha] if isinstance(alpha, list) else alpha
    same = {"task": "classification", "relations": list(LINKS), "directed": False}
    return {**header, **same, "alpha": heads}


def _misfits(header: Header) -> list[str]:
    """What is wrong with the sizes and numbers of a header."""
    shape, encoders = header.shape, header.encoders
    problems = [
        f"{name} is {value!r}, not a number of 1 or more"
        for name, value in shape._asdict().items()
        if not (type(value) is int and 0 < value < 2**31)
    ]
    if len(header.classes) != shape.classes:
        problems.append(f"there are {len(header.classes)} names for {shape.classes} classes")
    expected = {"alpha": (shape.replicas, header.heads), "own": (shape.replicas,)}
    for name, values in {"alpha": header.alpha, "own": header.own}.items():
        if values.shape != expected[name]:
            problems.append(f"{name} has shape {values.shape}, not {expected[name]}")
        if not np.isfinite(values).all():
            problems.append(f"{name} is {values.tolist()}")
    if header.task not in TASKS:
        problems.append(f"the task is {header.task!r}, not one of {', '.join(TASKS)}")
    if header.task == "regression" and shape.classes != 1:
        problems.append(f"a regression predicts {shape.classes} numbers, not 1")
    relations = len(set(header.relations))
    if not 1 <= relations == len(header.relations) <= MOST_RELATIONS:
        problems.append(f"the relations are {some(list(header.relations))}")
    if not 0 <= header.dropout < 1:
        problems.append(f"dropout is {header.dropout}")
    decision = header.about.get("decision") or {}
    factors = decision.get("factors")
    for part in (factors, *(decision.get("thresholds") or {}).values()):
        if part is not None and len(part) != shape.classes:
            problems.append(f"the decision has {len(part)} numbers for {shape.classes} classes")
    if encoders is not None and encoders.d != shape.features:
        problems.append(f"the columns make {encoders.d} features, not {shape.features}")
    return problems


def _damage(
    expected: Collection[str], digests: Mapping[str, Any], files: Mapping[str, bytes]
) -> list[str]:
    """Which of the expected files are missing or changed."""
    problems = []
    for name in sorted(expected):
        if name not in files:
            problems.append(f"{name} is missing")
        elif digest_of(files[name]) != digests.get(name):
            problems.append(f"{name} is not the file that was saved: its SHA-256 is another")
    return problems


def some(words: list[str], between: str = ", ") -> str:
    """The first five of several words, and the number of the others.

    Examples
    --------
    >>> some(list("abcdefg"))
    'a, b, c, d, e, and 2 more'
    """
    shown = between.join(words[:5])
    return shown if len(words) <= 5 else f"{shown}{between}and {len(words) - 5} more"
