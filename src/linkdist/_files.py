"""Files and directories that are written completely or not at all.

Everything is first written under a temporary name in the same folder and then renamed, which is
atomic. A reader, or the next process after one was killed, finds the old content or the new one,
never a part of either. `sweep` and the next write remove what a killed process left. A process
locks the file that it writes, so the file of a process that still runs is never removed.

A directory changes places with the temporary one in a single step where the system offers one.
Elsewhere there are two steps: the old directory is renamed to a name that ends in `.old`, then the
new one gets its name. If a process is killed between the two, the next reader or writer restores
the old directory. Writers of directories in one folder lock the folder against each other; readers
share the lock, so that all files that are read belong to the same version.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO
from uuid import uuid4

from linkdist.errors import OptionError

ASIDE = re.compile(r"\..+\.[0-9a-f]{32}")
"""Temporary names."""
LOCK_TIMEOUT = 60.0
"""Seconds that a process waits for others that write a directory in the same folder."""
WINDOWS = sys.platform == "win32"
AT_FDCWD, RENAME_EXCHANGE = -100, 2
NOT_OFFERED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextmanager
def replacing(path: Path, synced: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` when the block ends without an exception.

    Parameters
    ----------
    path : Path
        The file. Its folder must exist.
    synced : bool, optional
        Whether to wait until the disk has the content.

    Yields
    ------
    binary file
        Open for writing.

    Raises
    ------
    OptionError
        If the file cannot be written. The old file stays as it was.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "notes.md")) as file:
    ...         _ = file.write(b"text")
    ...     Path(folder, "notes.md").read_text()
    'text'
    """
    aside = _temporary(path)
    try:
        with _created(aside) as file:
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
            if not WINDOWS:  # the lock on the file lasts until it has its name
                aside.replace(path)
        if WINDOWS:  # which renames no open file
            aside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):  # missing if it was renamed or never created
            aside.unlink()


def replace_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, replacing an existing one; see `replacing`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.md")
    ...     replace_text(path, "one")
    ...     replace_text(path, "two")
    ...     path.read_text(), len(list(Path(folder).iterdir()))
    ('two', 1)
    """
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    r"""Write a binary file, replacing an existing one; see `replacing`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_bytes(Path(folder, "numbers"), bytes(3))
    ...     Path(folder, "numbers").read_bytes()
    b'\x00\x00\x00'
    """
    with replacing(path) as file:
        file.write(content)


def replace_directory(target: Path, files: Mapping[str, bytes]) -> None:
    """Write a directory, replacing an existing one with everything in it.

    Parameters
    ----------
    target : Path
        The directory; not a symbolic link.
    files : mapping of str to bytes
        The content of each file.

    Raises
    ------
    OptionError
        If the directory cannot be written. The old directory stays as it was.

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
    aside = _temporary(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent, exclusive=True):
            _restore(target)
            for path in _leftovers(target):
                shutil.rmtree(path, ignore_errors=True)
            aside.mkdir()
            for name, content in files.items():
                with _synced(aside / name) as file:
                    file.write(content)
            move_into_place(aside, target)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # exists only after a failure


def move_into_place(aside: Path, target: Path) -> None:
    """Rename a directory to `target`, replacing an existing one with everything in it.

    Parameters
    ----------
    aside, target : Path
        Directories in the same folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, "new").mkdir()
    ...     move_into_place(Path(folder, "new"), Path(folder, "old"))
    ...     [path.name for path in Path(folder).iterdir()]
    ['old']
    """
    sync_folder(aside)
    if not target.exists():
        aside.rename(target)
    elif not _exchange(aside, target):
        old = aside.with_name(f"{aside.name}.old")
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)  # after an exchange, the old directory


def read_directory(target: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Read files of a directory, all of the same version.

    Parameters
    ----------
    target : Path
        The directory.
    names : iterable of str
        The files to read; missing ones are skipped.

    Raises
    ------
    OSError
        If the directory does not exist or cannot be read, or if another process writes it for
        longer than `LOCK_TIMEOUT`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_directory(Path(folder, "model"), {"one": b"1", "two": b"2"})
    ...     read_directory(Path(folder, "model"), ["two", "three"])
    {'two': b'2'}
    """
    if not target.exists():
        with suppress(OSError), _locked(target.parent, exclusive=True):
            _restore(target)
    with _locked(target.parent, exclusive=False):
        there = {path.name for path in target.iterdir()}
        return {name: read_regular(target / name) for name in names if name in there}


def open_regular(path: Path, follow: bool = True) -> BufferedReader:
    """Open a regular file to read; a pipe would be waited for, and a device has no end.

    Parameters
    ----------
    path : Path
        The file.
    follow : bool
        Whether the file may be a symbolic link, which can lead to any other file.

    Raises
    ------
    OSError
        If the file cannot be read, or is of another kind.

    Examples
    --------
    >>> open_regular(Path("/dev/null"))
    Traceback (most recent call last):
    OSError: [Errno 22] it is not a regular file: '/dev/null'
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    if not follow and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link, not a regular file", str(path))
    handle = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, follow: bool = False) -> bytes:
    """Read a regular file; see `open_regular`.

    Examples
    --------
    >>> len(read_regular(Path(__file__))) > 0
    True
    """
    with open_regular(path, follow) as file:
        return file.read()


def unwritable(path: Path, error: OSError) -> OptionError:
    """The error for a path that cannot be written.

    Examples
    --------
    >>> print(unwritable(Path("notes.md"), OSError(errno.ENOSPC, "No space left on device")))
    notes.md cannot be written: No space left on device. Free some space.
    """
    if isinstance(error, TimeoutError):
        advice = "Wait for the process that is writing there, then try again."
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "Free some space."
    elif error.errno == errno.EFBIG:
        advice = "Raise the limit of the file system or of 'ulimit -f', or write elsewhere."
    else:
        advice = "Choose an existing folder with write permission."
    return OptionError(f"{path} cannot be written: {error.strerror or error}. {advice}")


def sweep_aside(path: Path) -> None:
    """Remove the temporary files that killed processes left while they wrote this file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, f".notes.md.{uuid4().hex}").touch()
    ...     sweep_aside(Path(folder, "notes.md"))
    ...     list(Path(folder).iterdir())
    []
    """
    with suppress(OSError):  # no such folder
        for other in _leftovers(path):
            _remove_abandoned(other)


def sweep(folder: Path) -> None:
    """Remove all temporary files that killed processes left in a folder.

    Parameters
    ----------
    folder : Path
        The folder. Files that other processes are writing stay.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, f".notes.md.{uuid4().hex}").touch()
    ...     sweep(Path(folder))
    ...     list(Path(folder).iterdir())
    []
    """
    for path in folder.iterdir():
        if ASIDE.fullmatch(path.name):
            _remove_abandoned(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex}")


def _leftovers(path: Path) -> list[Path]:
    """The temporary files or directories of a path."""
    name = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{32}(\.old)?")
    return [other for other in path.parent.iterdir() if name.fullmatch(other.name)]


def _restore(target: Path) -> None:
    """Give a directory its name back after a kill between two renames."""
    old = [path for path in _leftovers(target) if path.name.endswith(".old")]
    if old and not target.exists():
        old[0].rename(target)


@contextmanager
def _locked(folder: Path, exclusive: bool) -> Iterator[None]:
    """Lock a folder, alone or together with other readers; the lock ends with the process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    kind = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    deadline = time.monotonic() + LOCK_TIMEOUT
    try:
        while True:
            try:
                fcntl.flock(handle, kind)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    text = f"another process has been writing there for {LOCK_TIMEOUT:g} seconds"
                    raise TimeoutError(errno.ETIMEDOUT, text) from error
                time.sleep(0.01)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(handle)


@contextmanager
def _synced(path: Path) -> Iterator[IO[bytes]]:
    """Create a file whose content is stored when the block ends.

    Otherwise a crash may leave the new name on a file whose content was never stored.
    """
    with _created(path) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _created(path: Path) -> IO[bytes]:
    """Create a file and lock it; the lock ends with the process."""
    while True:
        file = path.open("xb")
        _lock(file)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # it was removed before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove a temporary file unless a process is writing it."""
    with suppress(OSError):  # what cannot be removed does no harm
        if WINDOWS:  # which removes no open file
            path.unlink()
            return
        with open_regular(path, follow=False) as file:
            if _lock(file):
                path.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file without waiting; False if another process has locked it."""
    if WINDOWS:
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or a file system without locks
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Store the names of a folder, so that they survive a crash of the system.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sync_folder(Path(folder))
    """
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in a single step; False where the system does not offer that."""
    library = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "renameat2"):
        return False
    names = AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other)
    failed = library.renameat2(*names, RENAME_EXCHANGE)
    number = ctypes.get_errno()
    if failed and number not in NOT_OFFERED:
        raise OSError(number, os.strerror(number), str(other))
    return not failed
