"""Load a model with ONNX Runtime, for commands that need no PyTorch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from linkdist.errors import OptionError

if TYPE_CHECKING:
    from linkdist.inference.engine import Engine


def load_engine(model: Path) -> Engine:
    """Load a model directory.

    Raises
    ------
    OptionError
        If ONNX Runtime is not installed.
    """
    if find_spec("onnxruntime") is None:
        raise OptionError(
            "this command needs onnxruntime, which is not installed: pip install 'linkdist[onnx]'."
        )
    from linkdist.inference.engine import Engine

    return Engine(model)
