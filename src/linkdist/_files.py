"""Files that are there whole or not at all.

Text is written aside, in the same folder, and then takes its name in one step that the system
does not divide. Whoever reads meanwhile, or comes after a process was killed, finds the old file
or the new one, never half of either. What a kill leaves aside, `sweep` takes away.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from linkdist.errors import OptionError

ASIDE = re.compile(r"\..+\.[0-9a-f]{32}")
"""The name of a file while it is written."""


def replace_text(path: Path, text: str) -> None:
    """Write a file whole, in place of the one that may be there.

    Parameters
    ----------
    path : Path
        The file; its folder must be there.
    text : str
        What it shall hold, in UTF-8.

    Raises
    ------
    OptionError
        If it cannot be written there. What was there is left as it was.

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
    r"""`replace_text` for what is not text.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_bytes(Path(folder, "numbers"), bytes(3))
    ...     Path(folder, "numbers").read_bytes()
    b'\x00\x00\x00'
    """
    aside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            # Else a crash may leave the new name on a file whose content was never stored.
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):  # not there: renamed by now, or never made
            aside.unlink()


def unwritable(path: Path, error: OSError) -> OptionError:
    """What to say of a file that cannot be written.

    Examples
    --------
    >>> print(unwritable(Path("notes.md"), OSError(errno.ENOSPC, "No space left on device")))
    notes.md cannot be written: No space left on device. Make room.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "Make room." if full else "Name a folder that is there and that you may write to."
    return OptionError(f"{path} cannot be written: {error.strerror}. {advice}")


def sweep_aside(path: Path) -> None:
    """Remove what processes that were killed while they wrote this very file left beside it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Path(folder, f".notes.md.{uuid4().hex}").touch()
    ...     sweep_aside(Path(folder, "notes.md"))
    ...     list(Path(folder).iterdir())
    []
    """
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}")
    with suppress(OSError):  # no such folder
        for other in path.parent.iterdir():
            if left.fullmatch(other.name):
                with suppress(OSError):
                    other.unlink()


def sweep(folder: Path) -> None:
    """Remove what processes that were killed while they wrote a file left in a folder.

    Parameters
    ----------
    folder : Path
        Into which `replace_text` wrote, and into which no process is writing now.

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
            with suppress(OSError):  # it is in nobody's way
                path.unlink()
