"""A store while it is built: a separate directory, and a journal of the work that is done.

The files of STORE are written to STORE.building. The journal there records the request, the
progress, and the length of each growing file at that time; the files are synced to disk before the
journal is. When a process is killed and the same request is made again, the files are truncated to
these lengths and the work continues. Another request starts over. At the end the manifest is
written and the directory is renamed, so an unfinished store is never taken for a complete one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from linkdist._files import ASIDE, move_into_place, read_regular, replace_text, replacing, sweep
from linkdist.artifacts.manifest import some
from linkdist.errors import OptionError, StoreError, TableError
from linkdist.progress import Callback
from linkdist.store.format import JOURNAL, MANIFEST, File, Manifest, npy_header
from linkdist.store.plan import format_memory

WORK = "work"
"""The folder of files that only the build needs."""

FOLDERS = ("parts", "links", WORK)
NAMES = {MANIFEST, JOURNAL, *FOLDERS}

PLAIN = re.compile(rf"({'|'.join(FOLDERS)})/\w[\w.-]*", re.ASCII)
"""Names of files that a journal may contain: an edited one must not lead out of the store."""


class Journal:
    """A store that is being built; created by `open_journal`.

    Attributes
    ----------
    target, folder : Path
        The directory of the store, and the directory that is renamed to it.
    state : dict
        The progress of the work, as plain JSON; its `needed` is the approximate number of bytes of
        the complete store.
    """

    def __init__(self, target: Path, folder: Path, request: Any, state: dict[str, Any]) -> None:  # noqa: ANN401
        self.target, self.folder, self.state, self._request = target, folder, state, request
        self._lengths: dict[str, int] = state.pop("lengths", {})
        self._unsynced: set[str] = set()
        for name, length in self._lengths.items():
            os.truncate(folder / name, length)

    def commit(self, **state: Any) -> None:  # noqa: ANN401
        """Record progress; everything appended so far then survives a kill."""
        self.state |= state
        text = {"request": self._request, **self.state, "lengths": self._lengths}
        with self._writing(self.folder / JOURNAL):
            for name in sorted(self._unsynced):
                _sync(self.folder / name)
            self._unsynced.clear()
            replace_text(self.folder / JOURNAL, json.dumps(text))

    def append(self, name: str, content: bytes | memoryview = b"") -> None:
        """Append to a file; without a `commit`, the next process drops these bytes."""
        path = self.folder / name
        with self._writing(path), path.open("ab" if name in self._lengths else "wb") as file:
            file.write(content)
            self._lengths[name] = file.tell()
        self._unsynced.add(name)

    def length(self, name: str) -> int:
        """The number of bytes of a growing file."""
        return self._lengths[name]

    def write_header(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        """Write the header of a .npy file that has grown to this shape."""
        path = self.folder / name
        with self._writing(path), path.open("r+b") as file:
            file.write(npy_header(shape, dtype))
        _sync(path)

    @contextmanager
    def replace(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file that appears under its name only when it is complete."""
        path = self.folder / name
        with self._writing(path), replacing(path) as file:
            yield file

    def save(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write a complete .npy file."""
        with self.replace(name) as file:
            file.write(npy_header(array.shape, array.dtype))
            file.write(np.ascontiguousarray(array).data)

    def has(self, name: str) -> bool:
        """Whether a file exists."""
        return (self.folder / name).exists()

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Turn a full disk, or one that cannot be written to, into an error with advice."""
        try:
            yield
        except (OSError, OptionError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if not isinstance(cause, OSError):
                raise
            free = shutil.disk_usage(self.folder).free
            written = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            missing = max(self.state.get("needed", 0) - written, 0)
            raise StoreError(
                f"{path} cannot be written: {cause.strerror or cause}. "
                f"{format_memory(written)} are written, about {format_memory(missing)} more are "
                f"needed, and {format_memory(free)} are free. Free some space and run the same "
                "command again: it continues where it stopped."
            ) from error

    def finish(self, names: Sequence[str], fields: Mapping[str, Any], callback: Callback) -> None:
        """Compute the digests, write the manifest and rename the directory.

        Parameters
        ----------
        names : sequence of str
            All files of the store.
        fields : mapping
            The fields of the manifest except `files`.
        callback : Callback
            Receives the progress.
        """
        self._lengths = {}  # from here on no file grows
        self.commit(finishing=fields)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)
        callback.stage("computing digests")
        files = {}
        for done, name in enumerate(names, start=1):
            with (self.folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                files[name] = File(file.tell(), digest)
            callback.progress(done, len(names))
        with self._writing(self.folder / MANIFEST):
            Manifest(**fields, files=dict(sorted(files.items()))).write(self.folder)
            move_into_place(self.folder, self.target)
        with suppress(OSError):  # a journal that stays does no harm
            (self.target / JOURNAL).unlink()


@contextmanager
def open_journal(
    directory: Path | str, request: Mapping[str, Any], overwrite: bool = False
) -> Iterator[Journal]:
    """Start a store, or continue one with the same request.

    Parameters
    ----------
    directory : Path
        The store to write.
    request : mapping
        Everything that determines its content, as plain JSON.
    overwrite : bool
        Whether an existing store may be replaced.

    Raises
    ------
    OptionError, StoreError
        If the directory is in use or cannot be written, or if another process is building it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open_journal(f"{folder}/store", {"seed": 0}) as journal:
    ...         journal.append("links/0000-0000.npy", b"some links")
    ...         journal.commit(done=1)
    ...         journal.append("links/0000-0000.npy", b", of which a kill leaves half")
    ...     with open_journal(f"{folder}/store", {"seed": 0}) as journal:
    ...         journal.state, (journal.folder / "links/0000-0000.npy").read_bytes()
    ({'done': 1}, b'some links')
    """
    target = Path(directory).resolve()
    check_target(target, overwrite)
    folder = target.with_name(f"{target.name}.building")
    _check_building(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = "Choose a directory in a folder that you may write to."
        raise OptionError(f"{folder} cannot be created: {error.strerror}. {advice}") from error
    with locked(folder, "building in"):
        sweep(folder)
        plain = json.loads(json.dumps(request))
        state = _read_state(folder)
        if state is None or state.pop("request", None) != plain:
            state = {}
            (folder / JOURNAL).unlink(missing_ok=True)  # first: it describes the other files
            for path in folder.iterdir():
                is_folder = path.is_dir() and not path.is_symlink()
                shutil.rmtree(path) if is_folder else path.unlink()
        for name in FOLDERS:
            (folder / name).mkdir(exist_ok=True)
            sweep(folder / name)
        try:
            check_target(target, overwrite)  # another process may have finished before the lock
            yield Journal(target, folder, plain, state)
        except (TableError, OptionError) as error:
            cause = error.__cause__
            if not (isinstance(cause, OSError) and cause.errno):
                shutil.rmtree(folder, ignore_errors=True)  # the next request will be another one
            raise  # a table that the system could not read may be readable the next time


def check_target(target: Path, overwrite: bool) -> None:
    """Raise an error if a directory contains anything but a store, or a store to be kept.

    Examples
    --------
    >>> check_target(Path("a/directory/that/does/not/exist"), overwrite=False)
    """
    if target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file; a store is a directory. Choose another name.")
    names = _names(target)
    foreign, other = sorted(names - NAMES), "Choose another directory, or"
    if names and (foreign or MANIFEST not in names):
        found = f"contains {some(foreign)}" if foreign else f"has files but no {MANIFEST}"
        rule = "only an empty directory or a store is replaced"
        raise OptionError(f"{target} {found}; {rule}. {other} empty this one.")
    if names and not overwrite:
        raise OptionError(f"{target} is already a store. {other} give --overwrite.")


def _check_building(folder: Path) -> None:
    """Raise an error if a directory that no build started is in the way."""
    if folder.is_symlink():
        problem = f"{folder} is a symbolic link, so it is not a store that is being built"
        raise OptionError(f"{problem}. Choose another directory, or remove the link.")
    if foreign := sorted(_names(folder) - NAMES):
        found = f"contains {some(foreign)}, so it is not a store that is being built"
        raise OptionError(f"{folder} {found}. Choose another directory, or remove this one.")


def _names(folder: Path) -> set[str]:
    """The names in a folder, without the temporary files that a kill leaves."""
    ours = (f".{MANIFEST}.", f".{JOURNAL}.")
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except OSError as error:
        problem = f"{folder} cannot be read: {error.strerror}"
        raise OptionError(f"{problem}. Choose another directory.") from error
    return {name for name in names if not (name.startswith(ours) and ASIDE.fullmatch(name))}


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Keep other writers of a directory out; the lock ends with the process.

    Parameters
    ----------
    folder : Path
        The directory.
    doing : str
        What a process does that has the lock, for messages such as 'another process is building
        in STORE'.

    Raises
    ------
    StoreError
        If another process has the lock, or has just replaced the directory.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, locked(Path(folder), "building in"):
    ...     pass
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    ended = f"another process was {doing} {folder} until now. Run the same command again."
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError as error:
        raise StoreError(ended) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            advice = "Wait for it, or choose another directory."
            raise StoreError(f"another process is {doing} {folder}. {advice}") from error
        except OSError:  # a file system without locks
            pass
        same = False  # a folder that was renamed or removed meanwhile took the lock with it
        with suppress(FileNotFoundError):
            same = os.path.samestat(os.fstat(handle), folder.stat())
        if not same:
            raise StoreError(ended)
        yield
    finally:
        os.close(handle)


def _read_state(folder: Path) -> dict[str, Any] | None:
    """The journal of a killed build, if it is readable and its files have their lengths."""
    try:
        state = json.loads(read_regular(folder / JOURNAL))
        lengths = state["lengths"]
        whole = all(_has(folder, name, lengths[name]) for name in lengths)
        whole = whole and not any(_has_links(folder / name) for name in FOLDERS)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return state if whole and isinstance(state, dict) else None


def _has(folder: Path, name: str, length: object) -> bool:
    """Whether a file of a store has at least a length; any other name is not looked up."""
    if not PLAIN.fullmatch(name) or type(length) is not int:
        return False
    return 0 <= length <= (folder / name).lstat().st_size


def _has_links(folder: Path) -> bool:
    """Whether a folder is a link, or contains links, pipes or folders, which no build makes."""
    if folder.is_symlink():
        return True
    return folder.exists() and not all(
        stat.S_ISREG(path.lstat().st_mode) for path in folder.iterdir()
    )


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
