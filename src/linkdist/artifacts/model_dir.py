"""The model directory: everything that belongs to a model, in files that contain no code.

    model.json             format, sizes, classes, task, relations, α, κ, columns, description,
                           digests
    weights.safetensors    the weights of R replicas
    replay.safetensors     the replay buffer for updates, if there is one
    model.onnx             the network for a service, if it was exported
    README.md, curve.svg   the model card
    report.html            the report, for models trained on tables

Nothing in it is a pickle. A directory is replaced as a whole: a process that is killed while it
saves leaves the old model or the new one. No file is trusted: `linkdist.artifacts.manifest` checks
`model.json` and the digests, and the tensors must have the names, shapes and types of the network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from linkdist._files import replace_directory
from linkdist._version import __version__
from linkdist.artifacts.card_curve import card_curve
from linkdist.artifacts.card_metadata import card_metadata
from linkdist.artifacts.manifest import (
    AGAIN,
    CARD,
    CURVE,
    FILES,
    FORMAT,
    HEADER,
    ONNX,
    REPLAY,
    REPORT,
    WEIGHTS,
    Header,
    Shape,
    digest_of,
    read_header,
    some,
)
from linkdist.artifacts.model_card import model_card
from linkdist.errors import ModelError, OptionError
from linkdist.model import Model
from linkdist.nn.network import ForkedMLP
from linkdist.tables.feature_encoder import FeatureEncoder
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.training.replay import ReplayBuffer, unpack


@dataclass(frozen=True)
class Saved:
    """The content of a model directory.

    Attributes
    ----------
    model : Model
        The weights, α and the names of the classes.
    encoders : FeatureEncoder or None
        Turn the columns of a table into features; None for a model of plain features.
    about : dict
        Description of the training as JSON values; the model card shows it.
    replay : mapping of str to tensor, optional
        The replay buffer for updates.
    onnx : bytes, optional
        The network with both heads as an ONNX file, for a service.
    report_html : str, optional
        The report as HTML. It is written, but `load_model` does not read it.
    """

    model: Model
    encoders: FeatureEncoder | None = None
    about: dict[str, Any] = field(default_factory=dict)
    replay: Mapping[str, Tensor] | None = None
    onnx: bytes | None = None
    report_html: str | None = None

    @property
    def prediction_columns(self) -> PredictionColumns:
        """What the predictions of the model become."""
        return PredictionColumns.of(self.about, self.model.classes, self.model.task)

    def replay_buffer(self) -> ReplayBuffer:
        """The replay buffer, which must be there."""
        assert self.replay is not None
        model = self.model
        return unpack(self.replay, model.classes, model.relations, model.directed)


def save_model(directory: Path | str, saved: Saved) -> None:
    """Write a model directory, replacing the model that is there.

    Parameters
    ----------
    directory : Path or str
        The directory; missing parent folders are created.
    saved : Saved
        The content of the directory.

    Raises
    ------
    OptionError
        If the directory cannot be written, or if it contains anything but a model.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> model = Model(ForkedMLP(d=2, C=3, seeds=[0]), torch.ones(1), ("a", "b", "c"))
    >>> with TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model", Saved(model))
    ...     load_model(f"{folder}/model").model.classes
    ('a', 'b', 'c')
    """
    check_target(directory)
    target = Path(directory).resolve()
    files = {WEIGHTS: _pack(saved.model.network.state_dict())}
    if saved.replay is not None:
        files[REPLAY] = _pack(saved.replay)
    if saved.onnx is not None:
        files[ONNX] = saved.onnx
    columns = None if saved.encoders is None else saved.encoders.state()
    R, d, hidden = saved.model.network.first.weight.shape
    header = {
        "format": FORMAT,
        "program": __version__,
        "shape": Shape(R, d, hidden, len(saved.model.classes))._asdict(),
        "classes": list(saved.model.classes),
        "alpha": saved.model.alpha.tolist(),
        "own": saved.model.kappa.tolist(),
        "task": saved.model.task,
        "relations": list(saved.model.relations),
        "directed": saved.model.directed,
        "dropout": saved.model.network.dropout,
        "columns": columns,
        "about": without_infinity(saved.about),
        "digests": {name: digest_of(content) for name, content in files.items()},
    }
    files[HEADER] = _write_header(header)
    described = None if saved.encoders is None else saved.encoders.describe()
    text = model_card(target.name, saved.about, saved.model.classes, described)
    files[CARD] = (card_metadata(target.name, saved.about) + text).encode("utf-8", "replace")
    if picture := card_curve(saved.about):
        files[CURVE] = picture.encode()
    if saved.report_html is not None:
        files[REPORT] = saved.report_html.encode("utf-8", "replace")
    replace_directory(target, files)


def check_target(directory: Path | str) -> None:
    """Raise an OptionError for a directory with other files, which saving would remove.

    Examples
    --------
    >>> check_target("a/directory/that/is/not/there")
    """
    target = Path(directory).resolve()
    if target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file; a model is a directory. Name another.")
    try:
        names = {path.name for path in target.iterdir()} if target.exists() else set()
    except OSError as error:
        raise OptionError(f"{target} cannot be read: {error.strerror}. Name another.") from error
    foreign = sorted(names.difference(FILES))
    if names and (foreign or HEADER not in names):
        found = f"holds {some(foreign)}" if foreign else f"has files but no {HEADER}"
        raise OptionError(
            f"{target} {found}; only an empty directory or a model is replaced. "
            "Name another directory, or empty this one."
        )


def check_replaced(directory: Path | str, training: str, force: bool) -> None:
    """Raise an OptionError if saving would replace the model of another training.

    Parameters
    ----------
    directory : Path or str
        The directory that will be written.
    training : str
        A digest of data and options, which `Saved.about` keeps under the key 'training'.
    force : bool
        Whether any model may be replaced.

    Examples
    --------
    >>> check_replaced("a/directory/that/is/not/there", "digest", force=False)
    """
    target = Path(directory).resolve()
    if force or not (target / HEADER).exists():
        return
    try:
        same = read_header(target).about.get("training") == training
    except ModelError:
        same = False
    if not same:
        raise OptionError(
            f"{target} contains a model of another training, with other data or options. Name "
            "another directory, or replace the model with --force (in Python, force=True)."
        )


def load_model(directory: Path | str) -> Saved:
    """Read a model directory; the model is on the CPU.

    Parameters
    ----------
    directory : Path or str
        A directory that `save_model` wrote.

    Returns
    -------
    Saved
        The content of the directory.

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
    target = Path(directory).resolve()
    header = read_header(target)
    network = _network(target, header, _unpack(target, WEIGHTS, header.files))
    replay = _unpack(target, REPLAY, header.files) if REPLAY in header.files else None
    alpha, own = torch.from_numpy(header.alpha), torch.from_numpy(header.own)
    names = (header.task, header.relations, header.directed)
    model = Model(network, alpha, header.classes, own, *names)
    return Saved(model, header.encoders, header.about, replay, header.files.get(ONNX))


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    content: bytes = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    )
    return content


def without_infinity(value: Any) -> Any:  # noqa: ANN401
    """Replace NaN and infinity, which JSON does not have, by None.

    Examples
    --------
    >>> without_infinity({"widths": (1.5, float("inf"))})
    {'widths': [1.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): without_infinity(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinity(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_header(header: Mapping[str, Any]) -> bytes:
    """JSON with one line for each key."""
    lines = (f'"{key}": {json.dumps(value, allow_nan=False)}' for key, value in header.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _unpack(target: Path, name: str, files: Mapping[str, bytes]) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(files[name])
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"{target / name} is no safetensors file: {error}. {AGAIN}") from error
    return tensors


def _network(target: Path, header: Header, tensors: dict[str, Tensor]) -> ForkedMLP:
    R, d, hidden, C = header.shape
    try:
        with torch.device("meta"):  # allocates nothing, whatever sizes a damaged header has
            network = ForkedMLP(d, C, range(R), hidden, header.dropout, header.heads)
    except RuntimeError as error:
        found = f"{target / HEADER} was changed: {header.shape} is too large"
        raise ModelError(f"{found}. {AGAIN}") from error
    expected, kinds = _kinds(network.state_dict()), _kinds(tensors)
    wrong = [
        f"{name} is {kinds.get(name, 'missing')}, not {expected.get(name, 'known')}"
        for name in sorted(expected.keys() | kinds.keys())
        if expected.get(name) != kinds.get(name)
    ]
    if wrong:
        where = target / WEIGHTS
        raise ModelError(f"{where} is not of this network: {some(wrong, '; ')}. {AGAIN}")
    if wrong := [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]:
        found = f"{target / WEIGHTS} contains NaN or infinite weights: {some(wrong)}"
        raise ModelError(f"{found}. {AGAIN}")
    network.load_state_dict(tensors, assign=True)
    return network


def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    return {
        name: f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
        for name, tensor in tensors.items()
    }
