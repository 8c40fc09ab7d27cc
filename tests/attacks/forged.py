"""Change files of a model or a store, and their digests with them, as an attacker would."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import safetensors.torch


def sign(model: Path, name: str, content: bytes) -> None:
    """Replace a file of a model directory, and its digest."""
    (model / name).write_bytes(content)
    with_header(model, lambda header: header["digests"].update({name: _digest(content)}))


def with_header(model: Path, change) -> None:
    """Change the header of a model directory."""
    path = model / "model.json"
    header = json.loads(path.read_text())
    change(header)
    path.write_text(json.dumps(header))


def with_tensors(model: Path, name: str, change) -> None:
    """Change the tensors of a file of a model directory."""
    tensors = safetensors.torch.load((model / name).read_bytes())
    change(tensors)
    sign(model, name, safetensors.torch.save(tensors))


def sign_store(store: Path, name: str, content: bytes) -> None:
    """Replace a file of a store, and its digest."""
    (store / name).write_bytes(content)
    path = store / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][name] = [len(content), _digest(content)]
    path.write_text(json.dumps(manifest))


def with_array(store: Path, name: str, change) -> None:
    """Change a .npy file of a store."""
    array = np.load(store / name)
    change(array)
    np.save(store / name, array)
    sign_store(store, name, (store / name).read_bytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
