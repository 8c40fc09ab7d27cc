"""Read and check the header of a model directory, without PyTorch.

`model.json` must have a format that this version reads, the other files must have the SHA-256
digests in it, and sizes, classes, α and columns must be consistent. A service needs only this
header and the ONNX file; `linkdist.artifacts.model_dir` adds the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linkdist._files import read_directory
from linkdist.data.graph import FloatArray
from linkdist.errors import LinkDistError, ModelError
from linkdist.tables.feature_encoder import FeatureEncoder

FORMAT = 3

HEADER = "model.json"
WEIGHTS, REPLAY, ONNX = BINARY = ("weights.safetensors", "replay.safetensors", "model.onnx")
CARD, CURVE, REPORT = "README.md", "curve.svg", "report.html"
FILES = (HEADER, *BINARY, CARD, CURVE, REPORT)

OTHER = "Name one that a model was saved to."
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
    alpha, own : (R,) float32 array
        α and κ, the weights of the neighbours and of the node itself in prediction with links.
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
    header = _parse(target, content)
    try:
        digests = {str(name): value for name, value in dict(header["digests"]).items()}
        shape = Shape(**header["shape"])
        classes = tuple(str(name) for name in header["classes"])
        alpha, own = (_as_weights(header[name]) for name in ("alpha", "own"))
        dropout = float(header["dropout"])
        columns, about = header["columns"], dict(header["about"])
        encoders = None if columns is None else FeatureEncoder.from_state(columns)
    except (
        LinkDistError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
    ) as error:
        found = f"{type(error).__name__}: {error}"
        raise ModelError(f"{target / HEADER} was changed or cut off ({found}). {AGAIN}") from error
    _check_shape(target, shape, classes, {"alpha": alpha, "own": own}, encoders, dropout)
    expected = {WEIGHTS, *digests}.difference(set(BINARY).difference(names))
    _check_files(target, expected, digests, files)
    known = {name: files[name] for name in files if name in digests}
    digest = digest_of(content)[:12]
    return Header(shape, classes, alpha, own, encoders, about, known, digest, dropout)


def _as_weights(values: Any) -> FloatArray:  # noqa: ANN401
    """Numbers as float32; too large ones become infinite, which `_check_shape` refuses."""
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
        raise ModelError(f"{target} cannot be read: {error.strerror}.") from error
    if HEADER not in files:
        raise ModelError(f"{target} has no {HEADER}, so it is no model. {OTHER}")
    return files


def _parse(target: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
        number = header["format"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise ModelError(f"{target / HEADER} is no model's header, or cut off. {AGAIN}") from error
    if not isinstance(number, int) or number != FORMAT:
        writer = header.get("program", "of another version")
        raise ModelError(
            f"{target} has format {number!r}, written by linkdist {writer}; this is linkdist "
            f"{version('linkdist')}, which reads format {FORMAT}. Upgrade it: "
            "pip install --upgrade linkdist."
        )
    checked: dict[str, Any] = header
    return checked


def _check_shape(
    target: Path,
    shape: Shape,
    classes: tuple[str, ...],
    weights: Mapping[str, FloatArray],
    encoders: FeatureEncoder | None,
    dropout: float,
) -> None:
    problems = [
        f"{name} is {value!r}, not a number of 1 or more"
        for name, value in shape._asdict().items()
        if not (type(value) is int and 0 < value < 2**31)
    ]
    if len(classes) != shape.classes:
        problems.append(f"there are {len(classes)} names for {shape.classes} classes")
    for name, values in weights.items():
        if values.shape != (shape.replicas,):
            problems.append(f"{name} has shape {values.shape} for {shape.replicas} replicas")
        if not np.isfinite(values).all():
            problems.append(f"{name} is {values.tolist()}")
    if not 0 <= dropout < 1:
        problems.append(f"dropout is {dropout}")
    if encoders is not None and encoders.d != shape.features:
        problems.append(f"the columns make {encoders.d} features, not {shape.features}")
    if problems:
        raise ModelError(f"{target / HEADER} was changed: {'; '.join(problems)}. {AGAIN}")


def _check_files(
    target: Path, expected: Collection[str], digests: Mapping[str, Any], files: Mapping[str, bytes]
) -> None:
    problems = []
    for name in sorted(expected):
        if name not in files:
            problems.append(f"{name} is missing")
        elif digest_of(files[name]) != digests.get(name):
            problems.append(f"{name} is not the file that was saved: its SHA-256 is another")
    if problems:
        raise ModelError(f"{target} was damaged or changed: {'; '.join(problems)}. {AGAIN}")


def some(words: list[str], between: str = ", ") -> str:
    """The first five of several words, and the number of the others.

    Examples
    --------
    >>> some(list("abcdefg"))
    'a, b, c, d, e, and 2 more'
    """
    shown = between.join(words[:5])
    return shown if len(words) <= 5 else f"{shown}{between}and {len(words) - 5} more"
