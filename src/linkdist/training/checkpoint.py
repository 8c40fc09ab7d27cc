"""Checkpoints: a training that was killed resumes after its last complete epoch.

After an epoch, all tensors that the next one depends on are written to one file, completely or not
at all. The random streams restart with every epoch (see `nn.optim`), so the tensors and the
number of completed epochs are sufficient: a resumed training ends with the same weights as one that
was never interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeAlias

import pyarrow as pa
import pyarrow.fs
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from linkdist._files import open_regular, replacing, sweep_aside, unwritable
from linkdist.errors import OptionError
from linkdist.progress import Progress
from linkdist.training.history import History

HEADER = 1 << 24
"""Maximum size of a file's header in bytes."""
FORMAT = "4"
"""Version of the file format: a file of another version is ignored, and training restarts."""

State: TypeAlias = "tuple[int, dict[str, Tensor]]"
"""The number of completed epochs, and the tensors by name."""


class Keeper(ABC):
    """Stores the state of a training in a file.

    Attributes
    ----------
    training : str
        A digest of data and options: the file of another training is ignored.
    """

    training: str

    @abstractmethod
    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Store the state after some epochs."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the state when the training is complete."""

    @abstractmethod
    def _open(self) -> IO[bytes]:
        """Open the file to read; a FileNotFoundError if there is none."""

    def epochs(self) -> int | None:
        """The completed epochs, if this training stored any; reads only the header of the file."""
        about = self._own()
        return None if about is None else int(about["epochs"])

    def load(self) -> State | None:
        """The completed epochs and the state, if this training stored one.

        Raises
        ------
        OptionError
            If the file is damaged. A file of another training or version is ignored, as is one
            that is no checkpoint.
        """
        try:
            about = self._about()
            if about is None or about["format"] != FORMAT:
                return None
            with self._open() as stream:
                content = _read_signed(stream)
        except FileNotFoundError:
            return None
        if content is None:
            raise self.damaged("its SHA-256 is another")
        if about["training"] != self.training:
            return None
        try:
            return int(about["epochs"]), safetensors.torch.load(content)
        except (ValueError, safetensors.SafetensorError) as error:
            raise self.damaged(str(error)) from error

    def damaged(self, found: str) -> OptionError:
        """The error for a file whose content no training stored."""
        return OptionError(
            f"the checkpoint {self.shown} was damaged or changed ({found}). Remove it to train "
            "from the start."
        )

    @property
    @abstractmethod
    def shown(self) -> str:
        """The file as messages name it."""

    def _own(self) -> Mapping[str, str] | None:
        """The metadata of the file, if this training stored it in this format."""
        try:
            about = self._about() or {}
        except FileNotFoundError:
            return None
        identity = (about.get("training"), about.get("format"))
        return about if identity == (self.training, FORMAT) else None

    def _about(self) -> Mapping[str, str] | None:
        """The metadata of the file, if it is the state of a training; unverified."""
        with self._open() as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = stream.read(min(size, HEADER))
        try:
            about = json.loads(header)["__metadata__"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        known = isinstance(about, dict) and about.keys() >= {"training", "format", "epochs"}
        return about if known else None


@dataclass(frozen=True)
class Checkpoint(Keeper):
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
        with replacing(self.path) as file:
            for part in _packed(self.training, epochs, tensors):
                file.write(part)

    @property
    def shown(self) -> str:
        """The file as messages name it."""
        return str(self.path)

    def _open(self) -> IO[bytes]:
        """Open the file; training restarts if it cannot be read."""
        try:
            return open_regular(self.path)
        except OSError as error:
            raise FileNotFoundError from error

    def remove(self) -> None:
        """Remove the state when the training is complete."""
        with suppress(OSError):
            self.path.unlink()
        sweep_aside(self.path)


def stage_folder(out: Path) -> Path:
    """The folder of the arrays that a training on a store writes before its model directory.

    Examples
    --------
    >>> stage_folder(Path("models/papers")).name
    '.papers.stages'
    """
    target = out.resolve()
    return target.parent / f".{target.name}.stages"


def state_file(out: Path) -> Path:
    """The checkpoint of a training that will write a model directory.

    Examples
    --------
    >>> state_file(Path("models/papers")).name
    '.papers.training'
    """
    target = out.resolve()
    return target.parent / f".{target.name}.training"


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
    return Checkpoint(state_file(out), training)


@dataclass(frozen=True)
class SharedCheckpoint(Keeper):
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
            kind = files.get_file_info(path).type
            if kind in (pa.fs.FileType.Directory, pa.fs.FileType.Unknown):
                folder = kind == pa.fs.FileType.Directory
                raise self._problem("it is a folder" if folder else "it is not a regular file")
            if kind == pa.fs.FileType.File and self._about() is None:
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
            for part in _packed(self.training, epochs, tensors):
                stream.write(part)
        files.move(f"{path}.aside", path)

    def _open(self) -> IO[bytes]:
        """Open the file to read."""
        files, path = self._files()
        stream: IO[bytes] = files.open_input_file(path)
        return stream

    def remove(self) -> None:
        """Remove the state when the training is complete."""
        files, path = self._files()
        for name in (path, f"{path}.aside"):
            with suppress(OSError):
                files.delete_file(name)

    @property
    def shown(self) -> str:
        """The place as messages name it; it may contain a key and its secret."""
        return re.sub("//[^/@]*@", "//", self.place)

    def _files(self) -> tuple[pa.fs.FileSystem, str]:
        try:
            if "://" not in self.place:
                return pa.fs.LocalFileSystem(), str(Path(self.place).resolve())
            files, path = pa.fs.FileSystem.from_uri(self.place)
        except (pa.ArrowException, OSError) as error:
            raise self._problem(error) from error
        return files, path

    def _problem(self, found: Exception | str) -> OptionError:
        return OptionError(
            f"checkpoints cannot be stored at {self.shown}: {found}. Give a new file in a folder "
            "that all workers can access, or an address such as s3://bucket/training."
        )


def _packed(training: str, epochs: int, tensors: Mapping[str, Tensor]) -> tuple[bytes, bytes]:
    """The content of a file, and its SHA-256, which comes last."""
    on_cpu = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    about = {"epochs": str(epochs), "training": training, "format": FORMAT}
    packed: bytes = safetensors.torch.save(on_cpu, about)
    return packed, hashlib.sha256(packed).digest()


def _read_signed(stream: IO[bytes]) -> bytes | None:
    """The content of a file without its SHA-256; None if it does not have that digest."""
    stream.seek(0, os.SEEK_END)
    size = stream.tell() - hashlib.sha256().digest_size
    if size < 0:
        return None
    stream.seek(0)
    content, digest = stream.read(size), stream.read()
    return content if hashlib.sha256(content).digest() == digest else None


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
        state = checkpoint.load() if checkpoint is not None else None
        self.done, self.tensors = state or (0, {})

    @torch.no_grad()
    def resume(self, live: Mapping[str, Tensor], history: History) -> None:
        """Copy the state of the checkpoint, if there is one, into live tensors and a history."""
        if not self.tensors:
            return
        assert self.checkpoint is not None
        try:
            for name, tensor in live.items():
                tensor.copy_(self.tensors[name])
            history.load(self.tensors)
        except (LookupError, RuntimeError) as error:
            raise self.checkpoint.damaged(f"{type(error).__name__}: {error}") from error
        self.tensors = {}

    def after(self, done: int, total: int, tensors: Mapping[str, Tensor] | None) -> None:
        """Report completed epochs, and store the state if it is given."""
        if self.checkpoint is not None and tensors is not None:
            self.checkpoint.save(done, tensors)
        if self.progress is not None:
            self.progress(done, total)
