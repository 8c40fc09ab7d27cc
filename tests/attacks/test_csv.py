"""Finding 9: a process that ends while a CSV file is still being read has its own exit code.

Arrow reads ahead in a thread. While that thread called Python, such a process ended by an abort
(5 of 8 runs of `predict` with missing columns) or never.
"""

from __future__ import annotations

import gzip
import subprocess
import sys

import pyarrow.csv
import pytest

from linkdist.errors import TableError
from linkdist.tables.formats import BLOCK
from linkdist.tables.io import open_table

ENDS = """
import sys
from linkdist.tables.io import open_table
batches = open_table(sys.argv[1]).batches()
next(batches)
sys.exit(2)  # the reader is open until the interpreter ends
"""

ROW = b"1234567,some text that fills a row of the table\n"


def big(tmp_path, last=b""):
    path = tmp_path / "big.csv"
    path.write_bytes(b"id,text\n" + ROW * (3 * BLOCK // len(ROW)) + last)
    return path


def test_a_process_that_ends_while_it_reads_has_its_own_exit_code(tmp_path):
    path = big(tmp_path)
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", ENDS, path], timeout=60, capture_output=True)
        assert (done.returncode, done.stderr) == (2, b"")


def test_no_thread_of_arrow_calls_python(tmp_path, monkeypatch):
    """Other encodings than Arrow's own are decoded by Python, in the thread that reads ahead."""
    given, opened = [], pyarrow.csv.open_csv
    monkeypatch.setattr(
        pyarrow.csv, "open_csv", lambda *a, **k: given.append((a, k)) or opened(*a, **k)
    )
    path = big(tmp_path)
    assert next(open_table(path).batches()).num_rows
    for (source,), options in given:
        assert source == path  # not a file object of Python
        assert options["read_options"].encoding == "utf8"
        assert not options["read_options"].use_threads


@pytest.mark.parametrize("compressed", [False, True])
def test_another_encoding_is_refused_wherever_it_starts(tmp_path, compressed):
    late = big(tmp_path, last=b"7,fran\xe7ois\n")
    early = tmp_path / "early.csv"
    early.write_bytes(b"id,text\n7,fran\xe7ois\n")
    for path in (early, late):
        if compressed:
            path = path.with_suffix(".csv.gz")
            path.write_bytes(gzip.compress(path.with_suffix("").read_bytes(), 1))
        with pytest.raises(TableError, match=r"must be text in UTF-8.*Save it in this encoding"):
            for _ in open_table(path).batches():
                pass


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = tmp_path / "marked.csv"
    path.write_bytes("\ufeffid,text\n1,ö\n".encode())
    assert open_table(path).sample().to_pylist() == [{"id": 1, "text": "ö"}]
