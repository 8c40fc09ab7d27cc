"""Directories that are there whole or not at all.

The files are written into a hidden sibling, which then changes places with the directory in one
step that the system does not divide. Where a system offers no such step there are two: the old
directory steps aside under a name that ends in `.old`, the new one takes its name. A process that
is killed between them leaves the name free, and the next that reads or writes gives it back to the
old directory.

Who reads or writes waits for the others in the same folder: so all files that are read are of one
writing, and what lies aside was left by a killed process. The next to write takes it away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from linkdist._files import unwritable

AT_FDCWD, RENAME_EXCHANGE = -100, 2
NOT_OFFERED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def replace_directory(target: Path, files: Mapping[str, bytes]) -> None:
    """Write a directory whole, in place of the one that may be there.

    Parameters
    ----------
    target : Path
        The directory, no symbolic link; what it holds is removed.
    files : mapping of str to bytes
        What it shall hold, by name.

    Raises
    ------
    OptionError
        If it cannot be written there. What was there is left as it was.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     target = Path(folder, "model")
    ...     replace_directory(target, {"one": b"1", "two": b"2"})
    ...     replace_directory(target, {"three": b"3"})
    ...     [path.name for path in Path(folder).rglob("*")]
    ['model', 'three']
    """
    aside = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            _put_back(target)
            _sweep(target)
            aside.mkdir()
            for name, content in files.items():
                _write(aside / name, content)
            _store(aside)
            _change_places(aside, target)
            _store(target.parent)
            shutil.rmtree(aside, ignore_errors=True)  # the old one by now
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # there after a failure only


def move_into_place(aside: Path, target: Path) -> None:
    """Give a directory that was written aside its name, in place of the one that may be there.

    Parameters
    ----------
    aside, target : Path
        Directories in one folder; the old `target` is removed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "new").mkdir()
    ...     move_into_place(Path(folder, "new"), Path(folder, "old"))
    ...     [path.name for path in Path(folder).iterdir()]
    ['old']
    """
    _store(aside)
    _change_places(aside, target)
    _store(target.parent)
    shutil.rmtree(aside, ignore_errors=True)  # the old one by now


def read_directory(target: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the named files that are in a directory, all of one `replace_directory`.

    Parameters
    ----------
    target : Path
        The directory.
    names : iterable of str
        Which files.

    Raises
    ------
    OSError
        If there is no such directory, or if it cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_directory(Path(folder, "model"), {"one": b"1", "two": b"2"})
    ...     read_directory(Path(folder, "model"), ["two", "three"])
    {'two': b'2'}
    """
    with _alone(target.parent):
        with suppress(OSError):  # then it is missing
            _put_back(target)
        there = {path.name for path in target.iterdir()}
        return {name: (target / name).read_bytes() for name in names if name in there}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for others that read or write directories here; a kill ends the lock as well."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _put_back(target: Path) -> None:
    if not target.exists():
        for path in _left(target):
            if path.name.endswith(".old"):
                path.rename(target)
                return


def _sweep(target: Path) -> None:
    for path in _left(target):
        shutil.rmtree(path, ignore_errors=True)


def _left(target: Path) -> list[Path]:
    """What lies aside for this very name."""
    name = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{32}(\.old)?")
    return [path for path in target.parent.iterdir() if name.fullmatch(path.name)]


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        # Else a crash may leave the new name on a file whose content was never stored.
        os.fsync(file.fileno())


def _store(folder: Path) -> None:
    """Make the system store the names in a folder, where it lets itself be told."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _change_places(aside: Path, target: Path) -> None:
    if not target.exists():
        aside.rename(target)
    elif not _exchange(aside, target):
        old = aside.with_name(f"{aside.name}.old")
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; False where the system offers none."""
    library = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "renameat2"):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if library.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(other))
