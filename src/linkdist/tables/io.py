"""Open tables: files, folders of Parquet files and data frames, read batch by batch.

A file may be larger than memory. Its type is detected from its content, and its name must agree.
Opening a table also infers its schema, for which the first block of a text file is parsed.
"""

from __future__ import annotations

import errno
import glob
import gzip
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from linkdist._files import open_regular
from linkdist.errors import TableError
from linkdist.tables import formats
from linkdist.tables.formats import BATCH as BATCH
from linkdist.tables.formats import BLOCK, unreadable
from linkdist.tables.formats import Table as Table

SUFFIXES = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV", ".tsv": "CSV"}
"""Files that can be read and written."""

READ = {**SUFFIXES, ".jsonl": "JSON", ".ndjson": "JSON"}
"""Files that can be read; CSV and JSON may be compressed and end in .gz."""

MAGIC = {b"PAR1": "Parquet", b"\x1f\x8b": "gzip"}

TableLike: TypeAlias = Any
"""A path, a glob of Parquet files, a pandas or Polars frame, or any Arrow table or stream."""


def open_table(source: TableLike, name: str = "the table") -> Table:
    r"""Open a file, a folder or glob of Parquet files, or a data frame.

    Parameters
    ----------
    source : path or table
        A file named .parquet, .pq, .csv, .tsv or .jsonl (the text files also with .gz), a folder or
        glob of Parquet files, a pandas or Polars frame, or an object with `__arrow_c_stream__`.
    name : str
        What messages call a table that is not a file.

    Raises
    ------
    TableError
        If there is no such file, or its content does not agree with its name.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "nodes.csv")
    ...     _ = path.write_text("id,age\n007,30\n")
    ...     [batch.to_pylist() for batch in open_table(path).batches(as_text=["id"])]
    [[{'id': '007', 'age': 30}]]
    >>> open_table({"age": [30, 40]}).rows
    2
    """
    if isinstance(source, Table):
        return source
    if not isinstance(source, str | os.PathLike):
        table: Table = formats.Frame(source, name)
    elif len(paths := _parquet_files(Path(source))) != 1 or Path(source).is_dir():
        table = formats.Parts(str(source), [_open_file(path) for path in paths])
    else:
        table = _open_file(paths[0])
    twice = [column for column, times in Counter(table.schema.names).items() if times > 1]
    if twice:
        found = f"duplicate column names: {', '.join(map(repr, twice))}"
        raise TableError(f"{table.name} contains {found}. Give every column a different name.")
    return table


def _parquet_files(path: Path) -> list[Path]:
    """The files that a path stands for: itself, or those of a folder or glob."""
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if READ.get(one.suffix.lower()) == "Parquet")
        if not found:
            rule = "A folder must contain .parquet files; otherwise, name a file."
            raise TableError(f"{path} is a folder without Parquet files. {rule}")
        return found
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    return sorted(map(Path, glob.glob(str(path)))) or [path]  # noqa: PTH207 - any depth


def _open_file(path: Path) -> Table:
    compressed = path.suffix.lower() == ".gz"
    suffix = path.with_suffix("").suffix if compressed else path.suffix
    named = READ.get(suffix.lower())
    start = _read_start(path, compressed)
    found = next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), "text")
    if found == "text" and b"\0" in start[:4096]:
        found = "neither Parquet nor text"
    if found == "Parquet" and named in ("Parquet", None) and not compressed:
        return formats.Parquet(path)
    if found == "text" and named == "CSV":
        return formats.Csv(path, start)
    if found == "text" and named == "JSON":
        return formats.JsonLines(path)
    rule = f"is named {''.join(path.suffixes[-2:]) or 'without a suffix'}, but contains {found}"
    advice = (
        f"CSV, JSON and Parquet files can be read; their suffixes are {', '.join(READ)}, and text "
        "may be compressed as .csv.gz."
    )
    raise TableError(f"{path} {rule}. {advice}")


def _read_start(path: Path, compressed: bool = False) -> bytes:
    """The first bytes of a file, up to the end of its first line and at least 4096."""
    try:
        with open_regular(path) as raw, gzip.open(raw) if compressed else raw as file:
            start: bytes = file.readline(BLOCK)
            start += file.read(max(0, 4096 - len(start)))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{path} is damaged: {error}. Write it again.") from error
    except OSError as error:
        if error.errno == errno.EINVAL:
            advice = "Save its content in a Parquet or CSV file."
            raise TableError(f"{path} is a pipe or a device, not a file. {advice}") from error
        raise TableError(f"{path} {unreadable(error)}") from error
    if not start.strip():
        raise TableError(f"{path} is empty. A table has a header and rows.")
    return start
