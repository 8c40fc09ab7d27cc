"""A training that was killed goes on from its last epoch.

After every epoch all tensors that the next one depends on are written to one file, whole or not at
all. The random streams begin anew with every epoch (see `draws`), so that the tensors and the
number of epochs done are enough: what goes on ends with the same weights as what was never killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from linkdist.errors import OptionError
from linkdist.files import replace_bytes, sweep_aside

FORMAT = "3"
"""Of the file: one of another is passed over, and training begins anew."""


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
        whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
        about = {"epochs": str(epochs), "training": self.training, "format": FORMAT}
        replace_bytes(self.path, safetensors.torch.save(whole, about))

    def load(self) -> tuple[int, dict[str, Tensor]] | None:
        """Epochs done and state, where this training left one."""
        try:
            with safetensors.safe_open(self.path, "pt") as file:
                about = file.metadata() or {}
                if (about.get("training"), about.get("format")) != (self.training, FORMAT):
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
    except OSError as error:
        advice = "Name a directory in a folder that you may write to."
        raise OptionError(f"{target} cannot be written: {error.strerror}. {advice}") from error
    return Checkpoint(target.parent / f".{target.name}.training", training)
