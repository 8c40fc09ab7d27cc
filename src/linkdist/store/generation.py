"""A generation: the files that one append adds to a store, and the step that makes them visible.

The manifest names all files of a store. An append writes its files beside them, under names that no
manifest has used, and then replaces the manifest, which is a single rename. So a reader finds the
old graph or the new one:

    before the rename   the manifest names the old files only; the next append removes the others
    after the rename    the manifest names the new files; the files that they replace are removed

A process that has read the old manifest and needs a file that was removed gets a `StoreError`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from linkdist._files import sweep, sync_folder
from linkdist._version import __version__
from linkdist.errors import OptionError, StoreError
from linkdist.store.format import MANIFEST, File, Manifest, generation_file, npy_header
from linkdist.store.journal import FOLDERS, WORK, locked
from linkdist.store.plan import format_memory
from linkdist.store.reader import Store

OURS = re.compile(r"[0-9]{4}[-.].+", re.ASCII)
"""Names of files that a build or an append may have written."""


class Generation:
    """New and rewritten files of a store; created by `open_generation`.

    Attributes
    ----------
    store : Store
        The store as it is before the append.
    number : int
        The number of this generation, which is in the names of its files.
    files : dict of str to File
        The files that are complete.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.number = 1 + max(file.generation for file in store.manifest.files.values())
        self.files: dict[str, File] = {}

    def path(self, name: str) -> Path:
        """The path of a file of this generation."""
        return self.store.directory / generation_file(name, self.number)

    def work(self, name: str) -> Path:
        """The path of a file that only the append needs."""
        return self.store.directory / WORK / name

    def save(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write a complete .npy file."""
        pieces = npy_header(array.shape, array.dtype), np.ascontiguousarray(array).data
        digest = hashlib.sha256()
        with self.path(name).open("wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
            self._finish(name, file, digest.hexdigest())

    def add(self, name: str) -> None:
        """Add a file that was written to `path(name)`."""
        with self.path(name).open("r+b") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            self._finish(name, file, digest)

    def _finish(self, name: str, file: IO[bytes], digest: str) -> None:
        file.flush()
        os.fsync(file.fileno())
        self.files[name] = File(file.tell(), digest, self.number)

    def switch(self, fields: Mapping[str, Any]) -> None:
        """Replace the manifest: from here on, the store has the new files.

        Parameters
        ----------
        fields : mapping
            The fields of the manifest that change, except `files`.
        """
        old = self.store.manifest
        files = dict(sorted({**old.files, **self.files}.items()))
        changed = {**fields, "program": __version__, "files": files}
        manifest = Manifest.model_validate(old.model_dump() | changed)
        directory = self.store.directory
        for name in ("parts", "links"):
            sync_folder(directory / name)
        if self.store.is_outdated():
            problem = "another process has replaced the store meanwhile, so nothing was appended"
            raise StoreError(f"{directory}: {problem}. Run the same command again.")
        manifest.write(directory)
        sync_folder(directory)  # before the files of the old manifest are removed


@contextmanager
def open_generation(directory: Path | str) -> Iterator[Generation]:
    """Start a generation, alone; at the end, files that the manifest does not name are removed.

    Parameters
    ----------
    directory : Path
        A store.

    Raises
    ------
    StoreError
        If it is not a store, if another process appends to it, or if it cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     _ = synth(f"{folder}/store", Planted(4, 8), parts=1)
    ...     with open_generation(f"{folder}/store") as generation:
    ...         labels = np.zeros(4, np.int32)
    ...         generation.save("parts/0000.labels.npy", labels)
    ...         generation.switch({"labelled": [4] + 39 * [0]})
    ...     store = Store.open(f"{folder}/store")
    ...     store.labels(0).tolist(), store.manifest.path("parts/0000.labels.npy")
    ([0, 0, 0, 0], 'parts/0000.labels.1.npy')
    """
    target = Path(directory).resolve()
    Manifest.read(target)  # a directory that is not a store is not locked
    with locked(target, "appending to"):
        store = Store.open(target)
        try:
            with _writing(target):
                remove_leftovers(target)
                (target / WORK).mkdir(exist_ok=True)
                yield Generation(store)
        except (Exception, KeyboardInterrupt):
            remove_leftovers(target)
            raise
        remove_leftovers(target)


def remove_leftovers(directory: Path) -> None:
    """Remove the files of a store that its manifest does not name.

    A killed append leaves new files, or files that it has replaced. Only names that a build or an
    append gives are removed. What cannot be removed does no harm.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from linkdist.store.synthetic import Planted, synth
    >>> with TemporaryDirectory() as folder:
    ...     store = synth(f"{folder}/store", Planted(4, 8), parts=1)
    ...     labels = store.directory / "parts/0000.labels.npy"
    ...     _ = labels.with_name("0000.labels.1.npy").write_bytes(b"from a killed append")
    ...     remove_leftovers(store.directory)
    ...     sorted(path.name for path in labels.parent.glob("*.labels*"))
    ['0000.labels.npy']
    """
    manifest = Manifest.read(directory)
    named = {directory / manifest.path(name) for name in manifest.files}
    shutil.rmtree(directory / WORK, ignore_errors=True)
    with suppress(OSError):
        sweep(directory)
    for folder in set(FOLDERS) - {WORK}:
        for path in (directory / folder).iterdir():
            if OURS.fullmatch(path.name) and path not in named:
                with suppress(OSError):
                    path.unlink()


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Turn a full disk, or one that cannot be written to, into an error with advice."""
    try:
        yield
    except (OSError, OptionError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        path = cause.filename or directory / MANIFEST
        free = format_memory(shutil.disk_usage(directory).free)
        raise StoreError(
            f"{path} cannot be written: {cause.strerror or cause}. Nothing was appended, and "
            f"{directory} is as it was; {free} are free. Free some space, or make the directory "
            "writable, and run the same command again."
        ) from error
