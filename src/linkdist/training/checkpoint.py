"""Checkpoints: a training that was killed resumes after its last complete epoch.

After an epoch, all tensors that the next one depends on are written to one file, completely or not
at all. The random streams restart with every epoch (see `nn.optim`), so the tensors and the
number of completed epochs are sufficient: a resumed training ends with the same weights as one that
was never interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.fs
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from linkdist._files import replace_bytes, sweep_aside, unwritable
from linkdist.errors import OptionError
from linkdist.progress import Progress
from linkdist.training.history import History

HEADER = 1 << 24
"""Maximum size of a file's header in bytes."""
FORMAT = "3"
"""Version of the file format: a file of another version is ignored, and training restarts."""

State: TypeAlias = "tuple[int, dict[str, Tensor]]"
"""The number of completed epochs, and the tensors by name."""


class Keeper(Protocol):
    """Stores the state of a training."""

    @property
    def training(self) -> str:
        """A digest of data and options."""

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some epochs."""

    def exists(self) -> bool:
        """Whether this training stored a state."""

    def load(self) -> State | None:
        """The completed epochs and the state, if this training stored one."""

    def remove(self) -> None:
        """Remove the state."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training in a local file.

    Attributes
    ----------
    path : Path
        The file; its folder must exist.
    training : str
        A digest of data and options: the file of another training is ignored.

    Examples
    --------
    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder, "state"), "digits")
    ...     checkpoint.save(3, {"weight": torch.ones(2)})
    ...     checkpoint.load(), Checkpoint(Path(folder, "state"), "cora").load()
    ((3, {'weight': tensor([1., 1.])}), None)
    """

    path: Path
    training: str

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some epochs."""
        replace_bytes(self.path, _packed(self.training, epochs, tensors))

    def exists(self) -> bool:
        """Whether this training stored a state; reads only the header of the file."""
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                return self._is_own(file.metadata())
        except (OSError, safetensors.SafetensorError):
            return False

    def _is_own(self, about: Mapping[str, str] | None) -> bool:
        about = about or {}
        return (about.get("training"), about.get("format")) == (self.training, FORMAT)

    def load(self) -> State | None:
        """The completed epochs and the state, if this training stored one."""
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                about = file.metadata()
                if not self._is_own(about):
                    return None
                return int(about["epochs"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, safetensors.SafetensorError):
            return None

    def remove(self) -> None:
        """Remove the state when the training is complete."""
        with suppress(OSError):
            self.path.unlink()
        sweep_aside(self.path)


def checkpoint_beside(out: Path, training: str) -> Checkpoint:
    """The checkpoint of a training that will write a model directory.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint_beside(Path(folder, "model"), "digits").path.name
    '.model.training'
    """
    target = out.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=target.parent):  # otherwise the error would come after an epoch
            pass
    except OSError as error:
        raise unwritable(target, error) from error
    return Checkpoint(target.parent / f".{target.name}.training", training)


@dataclass(frozen=True)
class SharedCheckpoint:
    """The state of a training on any filesystem of PyArrow, for workers on several machines.

    Attributes
    ----------
    place : str
        A path that all workers can access, or an address such as s3://bucket/training.
    training : str
        A digest of data and options: the file of another training is ignored.

    Examples
    --------
    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = SharedCheckpoint(f"{folder}/state", "digits")
    ...     checkpoint.save(3, {"weight": torch.ones(2)})
    ...     checkpoint.load(), SharedCheckpoint(f"{folder}/state", "cora").load()
    ((3, {'weight': tensor([1., 1.])}), None)
    """

    place: str
    training: str

    def check(self) -> None:
        """Raise an error if nothing can be stored at this place."""
        files, path = self._files()
        try:
            there = files.get_file_info(path).type
            if there == pa.fs.FileType.Directory:
                raise self._problem("it is a folder")
            if there == pa.fs.FileType.File and self._about() is None:
                raise self._problem("it is a file that is not a checkpoint")
            with files.open_output_stream(f"{path}.aside") as stream:
                stream.write(b"test")
            files.delete_file(f"{path}.aside")
        except OSError as error:
            raise self._problem(error) from error

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some epochs."""
        files, path = self._files()
        with files.open_output_stream(f"{path}.aside") as stream:
            stream.write(_packed(self.training, epochs, tensors))
        files.move(f"{path}.aside", path)

    def load(self) -> State | None:
        """The completed epochs and the state, if this training stored one."""
        files, path = self._files()
        about = self._own()
        if about is None:
            return None
        try:
            with files.open_input_file(path) as stream:
                content = stream.read()
            return int(about["epochs"]), safetensors.torch.load(content)
        except (FileNotFoundError, ValueError, safetensors.SafetensorError):
            return None

    def exists(self) -> bool:
        """Whether this training stored a state; reads only the header of the file."""
        return self._own() is not None

    def _own(self) -> Mapping[str, str] | None:
        about = self._about()
        same = about is not None and about["training"] == self.training
        return about if same and about is not None and about["format"] == FORMAT else None

    def _about(self) -> Mapping[str, str] | None:
        """The metadata of the file, if it is the state of a training."""
        files, path = self._files()
        try:
            with files.open_input_file(path) as stream:
                size = int.from_bytes(stream.read(8), "little")
                about = json.loads(stream.read(min(size, HEADER)))["__metadata__"]
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return None
        known = isinstance(about, dict) and about.keys() >= {"training", "format", "epochs"}
        return about if known else None

    def remove(self) -> None:
        """Remove the state when the training is complete."""
        files, path = self._files()
        for name in (path, f"{path}.aside"):
            with suppress(OSError):
                files.delete_file(name)

    def _files(self) -> tuple[pa.fs.FileSystem, str]:
        try:
            if "://" not in self.place:
                return pa.fs.LocalFileSystem(), str(Path(self.place).resolve())
            files, path = pa.fs.FileSystem.from_uri(self.place)
        except (pa.ArrowException, OSError) as error:
            raise self._problem(error) from error
        return files, path

    def _problem(self, found: Exception | str) -> OptionError:
        place = re.sub("//[^/@]*@", "//", self.place)  # it may contain a key and its secret
        return OptionError(
            f"checkpoints cannot be stored at {place}: {found}. Give a new file in a folder that "
            "all workers can access, or an address such as s3://bucket/training."
        )


def _packed(training: str, epochs: int, tensors: Mapping[str, Tensor]) -> bytes:
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    about = {"epochs": str(epochs), "training": training, "format": FORMAT}
    packed: bytes = safetensors.torch.save(whole, about)
    return packed


class TrainingRun:
    """The progress of a training: its callback and its checkpoint.

    Parameters
    ----------
    checkpoint : Keeper, optional
        Where the state is stored, and from where the training resumes.
    progress : callable, optional
        Called with the number of completed epochs and the total number of epochs.

    Attributes
    ----------
    done : int
        Number of epochs that were completed before this run.
    """

    def __init__(self, checkpoint: Keeper | None = None, progress: Progress | None = None) -> None:
        self.checkpoint, self.progress = checkpoint, progress
        found = checkpoint.load() if checkpoint is not None else None
        self.done, self.tensors = found if found is not None else (0, {})

    @torch.no_grad()
    def resume(self, live: Mapping[str, Tensor], history: History) -> None:
        """Copy the state of the checkpoint, if there is one, into live tensors and a history."""
        if not self.tensors:
            return
        for name, tensor in live.items():
            tensor.copy_(self.tensors[name])
        history.load(self.tensors)
        self.tensors = {}

    def after(self, done: int, total: int, tensors: Mapping[str, Tensor] | None) -> None:
        """Report completed epochs, and store the state if it is given."""
        if self.checkpoint is not None and tensors is not None:
            self.checkpoint.save(done, tensors)
        if self.progress is not None:
            self.progress(done, total)
