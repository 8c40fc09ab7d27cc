"""A store while it is built: a directory aside, and a journal of what is done.

The files of STORE are written into STORE.building. The journal there says what was asked for, how
far the work is and how long each growing file was at that time; all of it is on the disk before
the journal says so. Who is killed and asked for the same again truncates the files to these
lengths and goes on. Who asks for something else begins anew. When all is done the manifest is
written and the directory takes its name: so a half-built store is never taken for a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from linkdist._files import ASIDE, move_into_place, replace_text, sweep
from linkdist.artifacts.manifest import some
from linkdist.errors import OptionError, StoreError, TableError
from linkdist.progress import Callback
from linkdist.store.manifest import JOURNAL, MANIFEST, File, Manifest
from linkdist.store.npy import as_bytes, npy_header
from linkdist.store.plan import format_memory

WORK = "work"
"""The folder of what is needed only while building."""

NAMES = {MANIFEST, JOURNAL, "parts", "links", WORK}


class Journal:
    """A store that is being built; made by `open_journal`.

    Attributes
    ----------
    target, folder : Path
        The store's directory, and the one aside that becomes it.
    state : dict
        How far the work is, as plain JSON.
    needed : float
        Bytes that the whole store will take, as far as is known.
    """

    def __init__(self, target: Path, folder: Path, asked: Any, state: dict[str, Any]) -> None:  # noqa: ANN401
        self.target, self.folder, self.state, self.needed = target, folder, state, 0.0
        self._asked = asked
        self._lengths: dict[str, int] = state.pop("lengths", {})
        self._grown: set[str] = set()
        for name, length in self._lengths.items():
            os.truncate(folder / name, length)

    @property
    def finishing(self) -> dict[str, Any] | None:
        """The manifest's fields, where a killed process had all files and only had to finish."""
        fields: dict[str, Any] | None = self.state.get("finishing")
        return fields

    def note(self, **state: Any) -> None:  # noqa: ANN401
        """Say how far the work is; what was appended until now is then there to stay."""
        self.state |= state
        text = {"asked": self._asked, **self.state, "lengths": self._lengths}
        with self.writing(self.folder / JOURNAL):
            for name in sorted(self._grown):
                _store(self.folder / name)
            self._grown.clear()
            replace_text(self.folder / JOURNAL, json.dumps(text))

    def append(self, name: str, *content: bytes | memoryview) -> None:
        """Let a file grow; until `note`, a later process does not know of it."""
        path = self.folder / name
        with self.writing(path), path.open("ab" if name in self._lengths else "wb") as file:
            for piece in content:
                file.write(piece)
            self._lengths[name] = file.tell()
        self._grown.add(name)

    def length(self, name: str) -> int:
        """Bytes of a growing file."""
        return self._lengths[name]

    def head(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        """Write the header of a .npy file that has grown to this shape."""
        path = self.folder / name
        with self.writing(path), path.open("r+b") as file:
            file.write(npy_header(shape, dtype))
        _store(path)

    @contextmanager
    def whole(self, name: str) -> Iterator[IO[bytes]]:
        """A file to write that is there whole or not at all."""
        path = self.folder / name
        aside = path.with_name(f".{path.name}")
        with self.writing(path):
            with aside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)

    def save(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write a .npy file whole."""
        with self.whole(name) as file:
            file.write(npy_header(array.shape, array.dtype))
            file.write(as_bytes(np.ascontiguousarray(array)))

    def has(self, name: str) -> bool:
        """Whether a whole file is there."""
        return (self.folder / name).exists()

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Tell of a full disk, or of another that cannot be written, as the user's to settle."""
        try:
            yield
        except (OSError, OptionError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if not isinstance(cause, OSError):
                raise
            free = shutil.disk_usage(self.folder).free
            there = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            missing = max(self.needed - there, 0)
            raise StoreError(
                f"{path} cannot be written: {cause.strerror or cause}. "
                f"{format_memory(there)} are written, about {format_memory(missing)} more are "
                f"needed, and {format_memory(free)} are free. Make room and give the same command "
                "again: it goes on where it was."
            ) from error

    def finish(self, names: Sequence[str], fields: Mapping[str, Any], callback: Callback) -> None:
        """Take the digests, write the manifest and give the directory its name.

        Parameters
        ----------
        names : sequence of str
            All files of the store.
        fields : mapping
            The manifest's, but for its files.
        callback : Callback
            Receives progress and messages.
        """
        self._lengths = {}  # nothing grows from here on
        self.note(finishing=fields)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)
        callback.stage("taking digests")
        files = {}
        for done, name in enumerate(names, start=1):
            with (self.folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                files[name] = File(file.tell(), digest)
            callback.progress(done, len(names))
        with self.writing(self.folder / MANIFEST):
            Manifest(**fields, files=files).write(self.folder)
            move_into_place(self.folder, self.target)
        with suppress(OSError):  # in nobody's way
            (self.target / JOURNAL).unlink()


@contextmanager
def open_journal(
    directory: Path | str, asked: Mapping[str, Any], overwrite: bool = False
) -> Iterator[Journal]:
    """Begin a store, or go on with one that was asked for in the same way.

    Parameters
    ----------
    directory : Path
        The store to be.
    asked : mapping
        All that its content depends on, as plain JSON.
    overwrite : bool
        Whether a store that is there may be replaced.

    Raises
    ------
    OptionError, StoreError
        If the directory is taken, cannot be written, or if another process builds it now.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open_journal(f"{folder}/store", {"seed": 0}) as journal:
    ...         journal.append("links/0000-0000.npy", b"some links")
    ...         journal.note(done=1)
    ...         journal.append("links/0000-0000.npy", b", of which a kill leaves half")
    ...     with open_journal(f"{folder}/store", {"seed": 0}) as journal:
    ...         journal.state, (journal.folder / "links/0000-0000.npy").read_bytes()
    ({'done': 1}, b'some links')
    """
    target = Path(directory).resolve()
    check_target(target, overwrite)
    folder = target.with_name(f"{target.name}.building")
    _check_ours(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = "Name a directory in a folder that you may write to."
        raise OptionError(f"{folder} cannot be made: {error.strerror}. {advice}") from error
    with _alone(folder):
        sweep(folder)
        plain = json.loads(json.dumps(asked))
        state = _left(folder)
        if state is None or state.pop("asked", None) != plain:
            state = {}
            _clear(folder)
        for name in ("parts", "links", WORK):
            (folder / name).mkdir(exist_ok=True)
        try:
            check_target(target, overwrite)  # another process may have finished until the lock
            yield Journal(target, folder, plain, state)
        except (TableError, OptionError) as error:
            cause = error.__cause__
            if not (isinstance(cause, OSError) and cause.errno):
                shutil.rmtree(folder, ignore_errors=True)  # other tables or options begin anew
            raise  # else the system could not read a table, and may the next time


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse a directory that holds anything but a store, or a store that shall stay.

    Examples
    --------
    >>> check_target(Path("a/directory/that/is/not/there"), overwrite=False)
    """
    if target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file; a store is a directory. Name another.")
    try:
        names = _names(target) if target.exists() else set()
    except OSError as error:
        raise OptionError(f"{target} cannot be read: {error.strerror}. Name another.") from error
    foreign = sorted(names - NAMES)
    if names and (foreign or MANIFEST not in names):
        found = f"holds {some(foreign)}" if foreign else f"has files but no {MANIFEST}"
        raise OptionError(
            f"{target} {found}; only an empty directory or a store is replaced. "
            "Name another directory, or empty this one."
        )
    if names and not overwrite:
        raise OptionError(
            f"{target} is a store already. Name another directory, or give --overwrite."
        )


def _check_ours(folder: Path) -> None:
    """Refuse to build in a directory that was not begun by a build."""
    try:
        foreign = sorted(_names(folder) - NAMES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OptionError(f"{folder} cannot be read: {error.strerror}. Name another.") from error
    if foreign:
        raise OptionError(
            f"{folder} holds {some(foreign)}, so it is not a store that is being built. Name "
            "another directory, or take it away."
        )


def _names(folder: Path) -> set[str]:
    """What a folder holds, but for what a kill left of a file that was being written."""
    names = {path.name for path in folder.iterdir()}
    ours = (f".{MANIFEST}.", f".{JOURNAL}.")
    return {name for name in names if not (name.startswith(ours) and ASIDE.fullmatch(name))}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other builds of this store out; a kill ends the lock as well."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    ended = f"another process was building in {folder} until now. Give the same command again."
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError as error:
        raise StoreError(ended) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(
                f"another process is building in {folder}. Wait for it, or name another directory."
            ) from error
        except OSError:  # a file system without locks
            pass
        if not _is_at(handle, folder):  # it was renamed or removed, and with it what is locked
            raise StoreError(ended)
        yield
    finally:
        os.close(handle)


def _is_at(handle: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


def _left(folder: Path) -> dict[str, Any] | None:
    """What a killed build wrote down, if that can be read and its files are there."""
    try:
        state = json.loads((folder / JOURNAL).read_bytes())
        lengths = state["lengths"]
        short = [name for name in lengths if (folder / name).stat().st_size < lengths[name]]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return None if short or not isinstance(state, dict) else state


def _clear(folder: Path) -> None:
    (folder / JOURNAL).unlink(missing_ok=True)  # first: it speaks of the others
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _store(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
