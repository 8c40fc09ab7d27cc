"""A training that was killed goes on from its last epoch.

After every epoch all tensors that the next one depends on are written to one file, whole or not at
all. The random streams begin anew with every epoch (see `nn.draws`), so that the tensors and the
number of epochs done are enough: what goes on ends with the same weights as what was never killed.
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
from torch import Tensor

from linkdist._files import replace_bytes, sweep_aside, unwritable
from linkdist.errors import OptionError

HEADER = 1 << 24
"""Bytes that a file's account of itself has at most."""
FORMAT = "3"
"""Of the file: one of another is passed over, and training begins anew."""


State: TypeAlias = "tuple[int, dict[str, Tensor]]"


class Keeper(Protocol):
    """Keeps the state of a training, and gives it back."""

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep the state after some epochs."""

    def exists(self) -> bool:
        """Whether this training left a state."""

    def load(self) -> State | None:
        """Epochs done and state, where this training left one."""

    def remove(self) -> None:
        """Forget the state."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a training's state is kept.

    Attributes
    ----------
    path : Path
        The file; its folder must be there.
    training : str
        What is trained, as a digest of data and options: a file of another training is passed
        over.

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
        """Keep the state after some epochs."""
        replace_bytes(self.path, _packed(self.training, epochs, tensors))

    def exists(self) -> bool:
        """Whether this training left a state; reads the header of the file only."""
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                return self._is_own(file.metadata())
        except (OSError, safetensors.SafetensorError):
            return False

    def _is_own(self, about: Mapping[str, str] | None) -> bool:
        about = about or {}
        return (about.get("training"), about.get("format")) == (self.training, FORMAT)

    def load(self) -> State | None:
        """Epochs done and state, where this training left one."""
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                about = file.metadata()
                if not self._is_own(about):
                    return None
                return int(about["epochs"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, safetensors.SafetensorError):
            return None

    def remove(self) -> None:
        """Forget the state, once the training is through."""
        with suppress(OSError):
            self.path.unlink()
        sweep_aside(self.path)


def checkpoint_beside(out: Path, training: str) -> Checkpoint:
    """Where the state of a training is kept that will leave a model directory.

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
        with TemporaryFile(dir=target.parent):  # else it is found out after an epoch
            pass
    except OSError as error:
        raise unwritable(target, error) from error
    return Checkpoint(target.parent / f".{target.name}.training", training)


@dataclass(frozen=True)
class SharedCheckpoint:
    """The same in any place that PyArrow's filesystems reach, for workers on several machines.

    Attributes
    ----------
    place : str
        A path that all workers see, or an address such as s3://bucket/training.
    training : str
        What is trained, as a digest of data and options.

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
        """Refuse a place where nothing can be kept, before a training has taken its time."""
        files, path = self._files()
        try:
            there = files.get_file_info(path).type
            if there == pa.fs.FileType.Directory:
                raise self._problem("it is a folder")
            if there == pa.fs.FileType.File and self._about() is None:
                raise self._problem("it is a file of something else")
            with files.open_output_stream(f"{path}.aside") as stream:
                stream.write(b"a trial")
            files.delete_file(f"{path}.aside")
        except OSError as error:
            raise self._problem(error) from error

    def save(self, epochs: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep the state after some epochs."""
        files, path = self._files()
        with files.open_output_stream(f"{path}.aside") as stream:
            stream.write(_packed(self.training, epochs, tensors))
        files.move(f"{path}.aside", path)

    def load(self) -> State | None:
        """Epochs done and state, where this training left one."""
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
        """Whether this training left a state; reads the header of the file only."""
        return self._own() is not None

    def _own(self) -> Mapping[str, str] | None:
        about = self._about()
        same = about is not None and about["training"] == self.training
        return about if same and about is not None and about["format"] == FORMAT else None

    def _about(self) -> Mapping[str, str] | None:
        """What a file there says of itself, where it is the state of a training."""
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
        """Forget the state, once the training is through."""
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
        place = re.sub("//[^/@]*@", "//", self.place)  # a key and its secret may stand there
        return OptionError(
            f"checkpoints cannot be kept at {place}: {found}. Name a new file in a folder that all "
            "workers see, or an address such as s3://bucket/training."
        )


def _packed(training: str, epochs: int, tensors: Mapping[str, Tensor]) -> bytes:
    whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    about = {"epochs": str(epochs), "training": training, "format": FORMAT}
    packed: bytes = safetensors.torch.save(whole, about)
    return packed
